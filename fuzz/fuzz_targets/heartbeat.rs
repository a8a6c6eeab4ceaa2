//! A heartbeat's body. `cargo +nightly fuzz run heartbeat`
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| metaq::proto::body::fuzzing::heartbeat(bytes));
