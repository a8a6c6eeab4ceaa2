//! An SQL92 expression, a line end, and properties. `cargo +nightly fuzz run sql`
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| metaq::proto::filter::fuzzing::sql(bytes));
