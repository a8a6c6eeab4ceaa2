//! A header, read both ways. `cargo +nightly fuzz run header`
#![no_main]

use libfuzzer_sys::fuzz_target;
use metaq::proto::remoting::{fuzzing, Serialization};

fuzz_target!(|bytes: &[u8]| {
    fuzzing::header(Serialization::Json, bytes);
    fuzzing::header(Serialization::RocketMq, bytes);
});
