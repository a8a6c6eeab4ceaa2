//! Marks: rare states of the product that simulations must reach. A sweep that never got there proves nothing about it.

use std::sync::OnceLock;

/// All marks. [`crate::sometimes!`] takes no others, which the compiler checks, so a sweep also knows those it never
/// reached.
pub const MARKS: &[&str] = &[
    "the store took no more writes",
    "a batch went on in another segment",
    "the end of a log was taken back",
    "a slave's log began anew",
    "an index file was made again",
    "the dispatcher left out damaged records",
    "a pull met a damaged record",
    "a config file was read from its backup",
    "the timer log was ahead of the commit log",
    "an offset stood above the end of its queue",
    "a promoted slave lowered an offset",
    "a master that is cut off gave out no locks",
    "a master started behind another one's promotion",
    "a master started while a slave was promoted",
    "a send waited for its sync too long",
    "a send waited for slaves too long",
    "a waiting pull was woken",
    "a late commit was left out",
    "a group was reset while it pulled",
    "a lock that ran out went to another client",
    "a late goodbye was left out",
    "a silent broker expired",
    "a broker took another one's place",
    "a slave did not follow its master",
    "a peer sent what is no frame",
    "a connection was not accepted",
    "a due message could not be delivered at once",
    "nobody was there to be asked about a transaction",
    "a broker could not register",
    "a message could not be handed back",
    "a client lost the lock of a queue",
    "a producer could not end a transaction",
];

static LISTENER: OnceLock<fn(&'static str)> = OnceLock::new();

/// Lets `listener` hear of each mark that is reached. The first call counts; without one nobody hears.
pub fn listen(listener: fn(&'static str)) {
    let _ = LISTENER.set(listener);
}

/// What [`crate::sometimes!`] calls.
pub fn reached(name: &'static str) {
    if let Some(listener) = LISTENER.get() {
        listener(name);
    }
}

/// True if `name` stands in `list`.
pub const fn is_listed(list: &[&str], name: &str) -> bool {
    let mut index = 0;
    while index < list.len() {
        if same(list[index].as_bytes(), name.as_bytes()) {
            return true;
        }
        index += 1;
    }
    false
}

const fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut index = 0;
    while index < a.len() {
        if a[index] != b[index] {
            return false;
        }
        index += 1;
    }
    true
}

/// Notes that a rare state was reached, if the condition holds: `sometimes!("a batch went on in another segment")` or
/// `sometimes!(late > 0, "…")`. Names stand in [`MARKS`]. It is not there in the shipped build.
#[macro_export]
macro_rules! sometimes {
    ($name:literal) => {{
        const { assert!($crate::env::is_listed($crate::env::MARKS, $name), "this mark is not in env::MARKS") };
        if cfg!(feature = "sim") {
            $crate::env::reached($name);
        }
    }};
    ($condition:expr, $name:literal) => {{
        if cfg!(feature = "sim") && $condition {
            $crate::sometimes!($name);
        }
    }};
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_as_a_whole_and_stand_once() {
        let list = ["a mark", "another"];
        assert!(is_listed(&list, "a mark") && is_listed(&list, "another"));
        assert!(!is_listed(&list, "a mar") && !is_listed(&list, "a mark!") && !is_listed(&list, ""));
        let unique: std::collections::BTreeSet<_> = MARKS.iter().collect();
        assert_eq!(unique.len(), MARKS.len());
    }
}
