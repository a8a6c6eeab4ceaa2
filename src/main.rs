//! The one binary: `metaq <command>`.

fn main() {}
