//! Bytes off a connection. `cargo +nightly fuzz run frames`
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| metaq::proto::remoting::fuzzing::frames(bytes));
