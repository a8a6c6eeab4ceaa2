//! A stored record. `cargo +nightly fuzz run record`
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| metaq::proto::message::fuzzing::record(bytes));
