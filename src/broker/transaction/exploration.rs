//! Every order of events that one message can live through, crashes between any two of its records included. The log is a
//! list here; the account is made and used as the actor does it.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;

use super::*;
use crate::env::{Canaries, Millis};
use crate::proto::{PhysicalOffset, QueueOffset};

/// Events in a row.
const DEPTH: usize = 8;
/// How often the message is sent: a second time is a client's retry, or a new transaction if the first one has ended.
const SENDS_MAX: usize = 2;
const RULES: CheckRules = CheckRules { timeout_ms: 0, checks_max: 2, age_max_ms: u64::MAX };
const NOWHERE: PhysicalOffset = PhysicalOffset(u64::MAX);
const NOW: Millis = Millis(1_000);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Send,
    /// A producer decides about the first half of the queue, or about the newest.
    End {
        decision: Decision,
        newest: bool,
    },
    /// A round of questions; somebody of the group is there or not. The message may be sent while it is under way.
    Round {
        heard: bool,
        sent: bool,
    },
    /// The next write is refused.
    Refuse,
    /// All records are on disk, and the progress is saved.
    Save,
    /// A crash takes so many of the last records, as far as they are not on disk.
    Crash {
        lost: usize,
    },
}

const EVENTS: [Event; 13] = [
    Event::Send,
    Event::End { decision: Decision::Commit, newest: false },
    Event::End { decision: Decision::Rollback, newest: false },
    Event::End { decision: Decision::Commit, newest: true },
    Event::End { decision: Decision::Rollback, newest: true },
    Event::Round { heard: true, sent: false },
    Event::Round { heard: true, sent: true },
    Event::Round { heard: false, sent: false },
    Event::Refuse,
    Event::Save,
    Event::Crash { lost: 0 },
    Event::Crash { lost: 1 },
    Event::Crash { lost: 2 },
];

/// A record of the log. Transactions are numbered here; they all have the same id.
#[derive(Clone, Debug)]
enum Record {
    Half { transaction: usize, offset: u64, first: Option<QueueOffset>, checks: u32 },
    Committed { transaction: usize },
    GivenUp { transaction: usize },
    Op { offset: u64, named: Vec<QueueOffset> },
}

#[derive(Clone, Debug)]
struct World {
    log: Vec<Record>,
    on_disk: usize,
    saved: Progress,
    refusing: bool,
    ledger: HalfLedger,
}

fn id() -> TransactionId {
    TransactionId { group: "g".into(), key: "k".into() }
}

fn half(offset: u64, position: usize, first: Option<QueueOffset>, checks: u32) -> Half {
    let place = Place { offset: QueueOffset(offset), position: PhysicalOffset(position as u64) };
    Half { id: id(), place, first, checks, immunity_ms: None, since: Millis(0) }
}

impl World {
    fn new() -> World {
        let saved = Progress { half: QueueOffset(0), op: QueueOffset(0) };
        let ledger = HalfLedger::new(saved, Canaries::default());
        World { log: Vec::new(), on_disk: 0, saved, refusing: false, ledger }
    }

    /// Each half, with its place in the log and the transaction it belongs to.
    fn halves(&self) -> impl DoubleEndedIterator<Item = (usize, u64, usize)> + '_ {
        self.log.iter().enumerate().filter_map(|(position, record)| match record {
            Record::Half { transaction, offset, .. } => Some((position, *offset, *transaction)),
            _ => None,
        })
    }

    fn next_op(&self) -> u64 {
        self.log.iter().filter(|record| matches!(record, Record::Op { .. })).count() as u64
    }

    /// Whether the log says that a transaction has ended.
    fn has_ended(&self, number: usize) -> bool {
        let mine: Vec<u64> = self.halves().filter(|half| half.2 == number).map(|half| half.1).collect();
        self.log.iter().any(|record| match record {
            Record::Committed { transaction } => *transaction == number,
            Record::Op { named, .. } => named.iter().any(|half| mine.contains(&half.0)),
            _ => false,
        })
    }

    /// Writes records as one unit, unless the disk refuses.
    fn write(&mut self, records: Vec<Record>) -> bool {
        if std::mem::take(&mut self.refusing) {
            return false;
        }
        self.log.extend(records);
        true
    }

    /// Number `offset` of its queue, which is the last record.
    fn last(&self, offset: u64) -> Place {
        Place { offset: QueueOffset(offset), position: PhysicalOffset(self.log.len() as u64 - 1) }
    }

    /// Writes the ops that are owed.
    fn pay(&mut self) {
        let (named, number) = (self.ledger.owed(), self.next_op());
        if !named.is_empty() && self.write(vec![Record::Op { offset: number, named: named.clone() }]) {
            self.ledger.on_paid(QueueOffset(number), &named);
        }
    }

    /// What happens next; `None` if nothing can.
    fn after(&self, event: Event) -> Option<World> {
        let mut world = self.clone();
        match event {
            Event::Send => world.send().then_some(())?,
            Event::End { decision, newest } => world.end(decision, newest)?,
            Event::Round { heard, sent } => world.round(heard, sent),
            Event::Refuse => world.refusing = true,
            Event::Save => {
                world.on_disk = world.log.len();
                world.saved = world.ledger.progress();
            }
            Event::Crash { lost } => world.crash(lost)?,
        }
        Some(world)
    }

    fn send(&mut self) -> bool {
        let sent = self.log.iter().filter(|record| matches!(record, Record::Half { first: None, .. })).count();
        if sent == SENDS_MAX {
            return false;
        }
        let newest = self.halves().next_back().map_or(0, |half| half.2);
        let transaction = newest + usize::from(self.has_ended(newest));
        let offset = self.halves().count() as u64;
        self.write(vec![Record::Half { transaction, offset, first: None, checks: 0 }]);
        true
    }

    /// Reads what came into the half queue since.
    fn follow(&mut self) {
        for (position, record) in self.log.iter().enumerate() {
            if let Record::Half { offset, first, checks, .. } = record {
                if *offset >= self.ledger.next().0 {
                    self.ledger.on_half(half(*offset, position, *first, *checks));
                }
            }
        }
        self.ledger.on_read_to(QueueOffset(self.halves().count() as u64));
    }

    fn end(&mut self, decision: Decision, newest: bool) -> Option<()> {
        let named = if newest { self.halves().next_back() } else { self.halves().next() };
        let (_, offset, transaction) = named?;
        let offset = QueueOffset(offset);
        self.follow();
        match self.ledger.on_end(&End { id: id(), offset, from_check: newest }, NOW) {
            Verdict::Decide(half) => {
                assert!(!self.has_ended(transaction), "a transaction that has ended is decided again");
                let op = Record::Op { offset: self.next_op(), named: self.ledger.op_of(half) };
                let number = self.next_op();
                let committed = (decision == Decision::Commit).then_some(Record::Committed { transaction });
                if self.write(committed.into_iter().chain([op]).collect()) {
                    self.ledger.on_ended(half, decision, self.last(number));
                }
            }
            Verdict::Ended(stands) => self.check_ended(transaction, stands),
            other => panic!("{other:?} to {decision:?} about {offset:?}"),
        }
        Some(())
    }

    /// An answer that a transaction has ended is true, but for an old half of one that lives on in a newer half: nobody
    /// remembers it after a crash.
    fn check_ended(&self, transaction: usize, stands: Option<Decision>) {
        let committed = self.log.iter().any(|r| matches!(r, Record::Committed { transaction: t } if *t == transaction));
        let given_up = self.log.iter().any(|r| matches!(r, Record::GivenUp { transaction: t } if *t == transaction));
        match stands {
            Some(Decision::Commit) => assert!(committed, "said to be committed"),
            Some(Decision::GivenUp) => assert!(given_up, "said to be given up"),
            Some(Decision::Rollback) => assert!(!committed && self.has_ended(transaction), "said to be rolled back"),
            None => {
                let halves = self.halves().filter(|half| half.2 == transaction).count();
                assert!(self.has_ended(transaction) || halves > 1, "the only half of an open transaction is refused");
            }
        }
    }

    fn round(&mut self, heard: bool, sent: bool) {
        self.follow();
        self.pay();
        if sent {
            self.send();
        }
        for due in self.ledger.due(QueueOffset(0)..self.ledger.next(), 100, &RULES, NOW) {
            let transaction = self.halves().find(|half| half.1 == due.half.0).map_or(0, |half| half.2);
            assert!(!self.has_ended(transaction), "somebody is asked about a transaction that has ended");
            match due.kind {
                DueKind::GiveUp => {
                    let number = self.next_op();
                    let op = Record::Op { offset: number, named: self.ledger.op_of(due.half) };
                    if self.write(vec![Record::GivenUp { transaction }, op]) {
                        self.ledger.on_ended(due.half, Decision::GivenUp, self.last(number));
                    }
                }
                DueKind::Ask if heard => {
                    let (offset, position) = (self.halves().count() as u64, self.log.len());
                    let first = Some(self.ledger.first_of(due.half));
                    let checks = self.ledger.checks_of(due.half) + 1;
                    if self.write(vec![Record::Half { transaction, offset, first, checks }]) {
                        let position = PhysicalOffset(position as u64);
                        self.ledger.on_put_again(due.half, Place { offset: QueueOffset(offset), position }, true);
                    }
                }
                DueKind::Ask => {}
            }
        }
    }

    /// What is not on disk may be lost from the end; the account is made of what is left.
    fn crash(&mut self, lost: usize) -> Option<()> {
        if self.log.len() < self.on_disk + lost {
            return None;
        }
        self.log.truncate(self.log.len() - lost);
        self.refusing = false;
        let mut ledger = HalfLedger::new(self.saved, Canaries::default());
        for (position, record) in self.log.iter().enumerate() {
            match record {
                Record::Half { offset, first, checks, .. } if *offset >= self.saved.half.0 => {
                    ledger.on_half(half(*offset, position, *first, *checks));
                }
                Record::Op { offset, named } if *offset >= self.saved.op.0 => ledger.on_op(QueueOffset(*offset), named),
                _ => {}
            }
        }
        if let Some(Record::Committed { .. }) = self.log.last() {
            ledger.on_committed_before(Some(&id()), NOWHERE, PhysicalOffset(self.log.len() as u64 - 1));
        }
        self.ledger = ledger;
        self.follow();
        self.pay();
        Some(())
    }

    /// What holds in every state.
    fn check(&self) {
        let mut ends: BTreeMap<usize, Vec<Decision>> = BTreeMap::new();
        for record in &self.log {
            match record {
                Record::Committed { transaction } => ends.entry(*transaction).or_default().push(Decision::Commit),
                Record::GivenUp { transaction } => ends.entry(*transaction).or_default().push(Decision::GivenUp),
                _ => {}
            }
        }
        for (transaction, ends) in &ends {
            let commits = ends.iter().filter(|end| **end == Decision::Commit).count();
            assert!(commits <= 1, "transaction {transaction} is committed {commits} times");
            if let Some(given_up) = ends.iter().position(|end| *end == Decision::GivenUp) {
                // A crash may take the op of a copy for the operator, and it is decided after all.
                let op_lost = ends.len() > given_up + 1;
                assert!(!op_lost || commits <= 1);
            }
        }
        let mut read = self.clone();
        read.follow();
        let newest = self.halves().next_back().map(|half| half.2);
        let open = newest.is_some_and(|newest| !self.has_ended(newest));
        assert_eq!(read.ledger.is_open(&id()), open, "the account and the log disagree");
        let mut ledger = self.ledger.clone();
        let progress = ledger.progress();
        if let Some(newest) = newest.filter(|_| open) {
            let last = self.halves().rfind(|half| half.2 == newest).map_or(0, |half| half.1);
            assert!(progress.half.0 <= last, "progress passes a half message that is open");
        }
        assert!(progress.half >= self.saved.half || self.on_disk < self.log.len(), "progress goes back");
    }
}

/// TXN-4 and races T1 to T4, T11, T14, T15 of the transaction state diagram.
#[test]
fn whatever_happens_in_whatever_order_the_first_decision_stands() {
    let mut states = vec![(World::new(), Vec::new())];
    let mut known = BTreeSet::new();
    for _ in 0..DEPTH {
        let mut next = Vec::new();
        for (world, path) in &states {
            for event in EVENTS {
                let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| {
                    let after = world.after(event)?;
                    after.check();
                    Some(after)
                }));
                let path: Vec<Event> = path.iter().copied().chain([event]).collect();
                match outcome {
                    Ok(Some(after)) if known.insert(format!("{after:?}")) => next.push((after, path)),
                    Ok(_) => {}
                    Err(_) => panic!("after {path:?}"),
                }
            }
        }
        states = next;
    }
    assert!(known.len() > 1_000, "{} states", known.len());
}
