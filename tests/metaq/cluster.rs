//! A whole broker over real TCP. Names with RTY, DLY, IDX, OFF, WIR and RES are cases of field faults.

mod bad_input;
mod delivery;
mod lookups;
mod locks;
mod refusals;
mod relays;
mod replication;
mod resets;
mod retries;
mod routes;
mod saves;
mod settings;
mod slaves;
pub mod support;
mod timers;
mod transactions;
mod wire;
