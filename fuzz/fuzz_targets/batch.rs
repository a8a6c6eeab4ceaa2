//! The body of a batch. `cargo +nightly fuzz run batch`
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| metaq::proto::message::fuzzing::batch(bytes));
