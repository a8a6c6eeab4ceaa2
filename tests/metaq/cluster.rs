//! A whole broker over real TCP. Names with RTY, DLY, IDX, OFF, WIR and RES are cases of field faults.

mod apache_masters;
mod bad_input;
mod deduplication;
mod delivery;
mod inventory;
mod locks;
mod lookups;
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
