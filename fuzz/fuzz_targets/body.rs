//! JSON for every reader of bodies. `cargo +nightly fuzz run body`
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| metaq::proto::body::fuzzing::bodies(bytes));
