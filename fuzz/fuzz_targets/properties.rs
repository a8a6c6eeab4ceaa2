//! The properties of a message. `cargo +nightly fuzz run properties`
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| metaq::proto::message::fuzzing::properties(bytes));
