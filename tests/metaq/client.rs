//! The client library over real TCP. Names with PRO, REB, OFF, RTY and SUB are cases of field faults.

mod administering;
mod allocations;
mod compressing;
mod consuming;
mod filtering;
mod fixed_queues;
mod living;
mod ordering;
mod polling;
mod producing;
mod requesting;
mod scheduling;
mod scripted;
mod spans;
pub mod support;
mod transacting;
