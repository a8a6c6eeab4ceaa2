//! A whole broker over real TCP. Names with RTY, DLY, IDX, OFF, WIR and RES are cases of field faults.

mod delivery;
mod retries;
mod support;
