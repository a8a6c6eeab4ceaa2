//! What the commands print: data to standard output, talk to standard error.
//!
//! `println!` and `eprintln!` panic when nobody reads, as behind `| head`. That is no failure of ours: whoever wanted to
//! know knows enough.

/// Prints a line of data.
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stdout(), $($text)*);
    }};
}

/// Prints a line of talk: errors, hints, warnings.
macro_rules! tell {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($text)*);
    }};
}

pub(super) use {say, tell};
