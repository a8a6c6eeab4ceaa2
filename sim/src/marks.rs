//! Marks: rare states that a sweep must have reached. A green sweep that never got there proves nothing about it.
//!
//! A mark is global to the process, and a process is one run. Marks are no events: they do not enter the trace's hash.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// All marks. `sometimes!` takes no others, which the compiler checks, so a sweep also knows those it never reached.
pub const ALL: &[&str] = &[
    "a group commits at a slave",
    "an old master goes on for a while",
    "a former owner commits after the broker's crash",
    "a promoted broker dies soon",
    "a broker died between a reset and its taking up",
    "a message was sent again until it was acknowledged",
    "a machine was told to die and was dead already",
    "a machine was paused twice at once",
    "a process that may fail ended by itself",
    "a send ended without a clear answer",
    "a send was refused",
    "a client found no route",
    "a consumer got a message twice",
    "a broker died before it served",
    "two brokers were down at once",
    "a slave took over with messages",
    "all NameServers were down at once",
    "a broker served again",
    "a fault struck while another was on",
    "a connection was given up",
    "a connection was reset",
    "bytes came for a connection that nobody holds",
    "a sync failed",
    "a write found the disk full",
    "the log got another segment",
    "a queue got another file",
    "a broker died while a send was under way",
    "a send was acknowledged while a NameServer was down",
    "a consumer got a message before its sender heard",
    "an unclear send was stored",
    "an unclear send was not stored",
    "a handed back message came again",
    "a message outlived its broker's process",
    "a delayed message outlived its broker's process",
    "a timed message was taken back",
    "a slave deleted what its master has deleted",
    "records rotted that another broker has",
    "records rotted that no other broker has",
    "a master came back with less than a slave has",
    "a master lost in a power cut what a slave has",
    "a group consumed at a slave while its master was away",
];

static REACHED: Mutex<BTreeMap<&'static str, u64>> = Mutex::new(BTreeMap::new());
static MATTERED: Mutex<BTreeMap<&'static str, u64>> = Mutex::new(BTreeMap::new());
static FIRED: Mutex<BTreeMap<&'static str, u64>> = Mutex::new(BTreeMap::new());

/// Notes that a rare state was reached, if the condition holds: `sometimes!("a send was refused")` or
/// `sometimes!(waiting > 100, "…")`. Names stand in [`ALL`].
#[macro_export]
macro_rules! sometimes {
    ($name:literal) => {{
        const { assert!(metaq::env::is_listed($crate::marks::ALL, $name), "this mark is not in marks::ALL") };
        $crate::marks::reach($name);
    }};
    ($condition:expr, $name:literal) => {{
        let reached: bool = $condition;
        if reached {
            $crate::sometimes!($name);
        }
    }};
}

/// The marks of the simulator and of the product ([`metaq::env::MARKS`]).
pub fn all() -> impl Iterator<Item = &'static str> {
    ALL.iter().chain(metaq::env::MARKS).copied()
}

/// What `sometimes!` calls.
pub fn reach(name: &'static str) {
    count(&REACHED, name);
}

/// Notes that a fault of this kind (its name in [`crate::faults::KINDS`]) was applied.
pub fn fired(kind: &'static str) {
    count(&FIRED, kind);
}

/// Notes that a fault of this kind had an effect: a segment was held, a sync failed, a process was running that died.
/// A kind that fires in every seed and never matters is no fault.
pub fn mattered(kind: &'static str) {
    count(&MATTERED, kind);
}

fn count(marks: &Mutex<BTreeMap<&'static str, u64>>, name: &'static str) {
    *marks.lock().unwrap_or_else(PoisonError::into_inner).entry(name).or_default() += 1;
}

/// Marks of this process so far and how often each was reached.
pub fn reached() -> BTreeMap<&'static str, u64> {
    REACHED.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Fault kinds that were applied in this process, and how often.
pub fn all_fired() -> BTreeMap<&'static str, u64> {
    FIRED.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Fault kinds that had an effect in this process, and how often.
pub fn all_mattered() -> BTreeMap<&'static str, u64> {
    MATTERED.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_mark_stands_twice() {
        assert_eq!(all().collect::<BTreeSet<_>>().len(), all().count());
    }

    #[test]
    fn a_condition_decides() {
        sometimes!(false, "a machine was paused twice at once");
        assert!(!reached().contains_key("a machine was paused twice at once"));
        sometimes!("a client found no route");
        assert!(reached()["a client found no route"] > 0);
    }
}
