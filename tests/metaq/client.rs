//! The client library over real TCP. Names with PRO, REB, OFF, RTY and SUB are cases of field faults.

mod allocations;
mod producing;
mod support;
