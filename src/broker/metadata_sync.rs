//! How a slave keeps its master's topics, groups, consumer offsets and delay progress.
//!
//! RocketMQ's slaves copy all tables once a minute. Here a slave asks its master to be told of changes
//! (WAIT_METADATA_CHANGE) and fetches what has changed with RocketMQ's own requests: topics and groups at once, what moves
//! with every message at most once in [`PROGRESS_EVERY_MS`]. An Apache master does not know that request, and its slave
//! copies all tables every [`ASK_EVERY_MS`].
//!
//! Nothing that a slave has goes back because a master has forgotten it: see [`take_over`] for topics and groups, and
//! [`OffsetTable::follow`](super::offsets::OffsetTable::follow) for offsets.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::proto::body::DataVersion;

/// How often the slave of an Apache master copies everything, in ms.
pub const ASK_EVERY_MS: u64 = 10_000;
/// How often a master tells of moved offsets at most, in ms.
pub const PROGRESS_EVERY_MS: i64 = 1_000;
/// How long a master holds the question for changes, in ms.
pub const HOLD_MS: i64 = 20_000;
/// After a failure a slave tries again after this, in ms.
pub const RETRY_MS: u64 = 1_000;
/// Large tables take their time: a slave rests so many times as long as it took to copy what changed.
const REST_FACTOR: u64 = 10;
/// The longest of these rests, in ms.
const REST_MS_MAX: u64 = 60_000;

/// How far a master's tables are: each number grows with each change and means something as long as the process runs
/// that counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// The process.
    pub incarnation: u64,
    /// Changes of topics.
    pub topics: u64,
    /// Changes of groups.
    pub groups: u64,
    /// Changes of consumer offsets.
    pub offsets: u64,
    /// Changes of the delay progress.
    pub delays: u64,
}

impl Marks {
    /// What to copy for who has the tables as of `seen`.
    pub fn since(&self, seen: Option<&Marks>) -> Tables {
        let Some(seen) = seen.filter(|seen| seen.incarnation == self.incarnation) else { return Tables::ALL };
        Tables {
            topics: self.topics != seen.topics,
            groups: self.groups != seen.groups,
            offsets: self.offsets != seen.offsets,
            delays: self.delays != seen.delays,
        }
    }
}

/// Some of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tables {
    /// Topics.
    pub topics: bool,
    /// Groups.
    pub groups: bool,
    /// Consumer offsets.
    pub offsets: bool,
    /// Progress of the delay levels.
    pub delays: bool,
}

impl Tables {
    /// All of them.
    pub const ALL: Tables = Tables { topics: true, groups: true, offsets: true, delays: true };

    /// Whether there is anything among them that an operator changed, rather than a message.
    pub fn any_settings(&self) -> bool {
        self.topics || self.groups
    }

    /// Whether there is anything among them that moves with messages.
    pub fn any_progress(&self) -> bool {
        self.offsets || self.delays
    }
}

/// Whether a master answers now who waits for changes since `asked`.
pub fn tells_now(changed: Tables, waited_ms: i64) -> bool {
    changed.any_settings() || changed.any_progress() && waited_ms >= PROGRESS_EVERY_MS || waited_ms >= HOLD_MS
}

/// How long a slave rests after it has copied something in `took_ms`.
pub fn rest_ms(took_ms: u64) -> u64 {
    took_ms.saturating_mul(REST_FACTOR).min(REST_MS_MAX)
}

/// What of a master's table a slave changes in its own.
#[derive(Debug, PartialEq, Eq)]
pub struct TakeOver<V> {
    /// New and changed entries.
    pub put: Vec<Arc<V>>,
    /// Entries that are gone.
    pub remove: Vec<Arc<str>>,
    /// The slave's table is now the master's, version and all.
    pub whole: bool,
}

/// A table by name.
pub type Table<V> = BTreeMap<Arc<str>, Arc<V>>;

/// Compares a master's table with the slave's own.
///
/// `before` is the table that the same process of the master had when it was asked last: what differs from it, the master
/// has changed. Without it the two versions decide. A master whose table is older than the slave's has lost something, say
/// all of it with its disk: it adds what the slave does not have, and takes nothing away (OTH-2).
pub fn take_over<V: PartialEq>(
    (own, own_version): (&Table<V>, &DataVersion),
    before: Option<&Table<V>>,
    (new, new_version): (&Table<V>, &DataVersion),
) -> TakeOver<V> {
    let age = |version: &DataVersion| (version.state_version, version.counter);
    let newer = age(new_version) >= age(own_version);
    let none = Table::new();
    let before = before.unwrap_or(if newer { own } else { &none });
    let changed = |name: &Arc<str>, entry: &Arc<V>| match own.get(name) {
        None => true,
        Some(own) => own != entry && before.get(name).is_some_and(|before| before != entry),
    };
    TakeOver {
        put: new.iter().filter(|(name, entry)| changed(name, entry)).map(|(_, entry)| Arc::clone(entry)).collect(),
        remove: before.keys().filter(|name| !new.contains_key(*name) && own.contains_key(*name)).cloned().collect(),
        whole: newer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(entries: &[(&str, &str)]) -> Table<String> {
        entries.iter().map(|(name, value)| ((*name).into(), Arc::new((*value).to_owned()))).collect()
    }

    fn version(counter: i64) -> DataVersion {
        DataVersion { counter, ..DataVersion::default() }
    }

    fn changes(
        own: (&Table<String>, i64),
        before: Option<&Table<String>>,
        new: (&Table<String>, i64),
    ) -> (Vec<String>, Vec<String>, bool) {
        let taken = take_over((own.0, &version(own.1)), before, (new.0, &version(new.1)));
        let put = taken.put.iter().map(|entry| (**entry).clone()).collect();
        (put, taken.remove.iter().map(|name| name.to_string()).collect(), taken.whole)
    }

    fn strings(of: &[&str]) -> Vec<String> {
        of.iter().map(|s| (*s).to_owned()).collect()
    }

    #[test]
    fn a_newer_table_replaces() {
        let (own, new) =
            (table(&[("a", "a1"), ("b", "b1"), ("c", "c1")]), table(&[("a", "a1"), ("b", "b2"), ("d", "d1")]));
        assert_eq!(changes((&own, 5), None, (&new, 7)), (strings(&["b2", "d1"]), strings(&["c"]), true));
        assert_eq!(changes((&new, 7), Some(&new), (&new, 7)), (vec![], vec![], true));
    }

    /// OTH-2: a master that came back with an empty disk must not empty its slaves.
    #[test]
    fn oth_2_a_master_that_has_forgotten_takes_nothing_away() {
        let own = table(&[("a", "a1"), ("b", "b1")]);
        let wiped = table(&[("b", "b0"), ("x", "x1")]);
        assert_eq!(changes((&own, 5), None, (&wiped, 1)), (strings(&["x1"]), vec![], false));
        let later = table(&[("b", "b3")]);
        let own = table(&[("a", "a1"), ("b", "b1"), ("x", "x1")]);
        let expected = (strings(&["b3"]), strings(&["x"]), false);
        assert_eq!(changes((&own, 5), Some(&wiped), (&later, 2)), expected, "what it changes since does count");
    }

    #[test]
    fn what_a_slave_made_itself_stays_while_it_follows() {
        let (own, before) = (table(&[("a", "a1"), ("mine", "m")]), table(&[("a", "a1")]));
        assert_eq!(changes((&own, 9), Some(&before), (&before, 8)), (vec![], vec![], false));
    }

    #[test]
    fn marks_tell_what_to_copy() {
        let seen = Marks { incarnation: 1, topics: 1, groups: 2, offsets: 3, delays: 4 };
        let now = Marks { offsets: 4, ..seen };
        assert_eq!(now.since(None), Tables::ALL);
        assert_eq!(Marks { incarnation: 2, ..seen }.since(Some(&seen)), Tables::ALL);
        let changed = now.since(Some(&seen));
        assert!(changed.any_progress() && !changed.any_settings());
        assert!(!tells_now(changed, PROGRESS_EVERY_MS - 1) && tells_now(changed, PROGRESS_EVERY_MS));
        assert!(tells_now(Marks { topics: 2, ..seen }.since(Some(&seen)), 0), "topics at once");
        let nothing = seen.since(Some(&seen));
        assert!(!tells_now(nothing, HOLD_MS - 1) && tells_now(nothing, HOLD_MS));
    }
}
