//! The timer with a commit log of a few records: every interleaving of up to eight events.

use std::collections::{BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;

use super::accept::DueSecond;
use super::machine::{Timer, TimerDue};
use crate::broker::delay::Now;
use crate::env::{Canaries, Millis};
use crate::proto::{PhysicalOffset, QueueOffset};
use crate::store::timer::{Pending, PendingKind, Unit, UnitLog, UnitPosition, UNIT_SIZE};

/// A timer log in memory, with files of three units.
#[derive(Clone, Debug, Default)]
struct MemoryLog {
    begin: usize,
    units: Vec<Unit>,
}

const FILE_UNITS: usize = 3;

impl UnitLog for MemoryLog {
    fn begin(&self) -> UnitPosition {
        UnitPosition((self.begin * UNIT_SIZE) as u64)
    }

    fn end(&self) -> UnitPosition {
        UnitPosition((self.units.len() * UNIT_SIZE) as u64)
    }

    fn file_size(&self) -> u64 {
        (FILE_UNITS * UNIT_SIZE) as u64
    }

    fn read(&mut self, at: UnitPosition) -> io::Result<Option<Unit>> {
        let at = at.0 as usize / UNIT_SIZE;
        Ok(self.units.get(at).copied().filter(|_| at >= self.begin))
    }

    fn walk(&mut self, visit: &mut dyn FnMut(UnitPosition, &Unit) -> io::Result<bool>) -> io::Result<()> {
        for at in self.begin..self.units.len() {
            if !visit(UnitPosition((at * UNIT_SIZE) as u64), &self.units[at])? {
                break;
            }
        }
        Ok(())
    }

    fn append(&mut self, unit: &Unit) -> UnitPosition {
        let at = self.end();
        self.units.push(*unit);
        at
    }

    fn write(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn delete_first_file(&mut self) -> io::Result<()> {
        assert!(self.begin + FILE_UNITS <= self.units.len(), "the last file stays");
        self.begin += FILE_UNITS;
        Ok(())
    }
}

/// A record of the commit log; its position is its index.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Record {
    /// In the timer topic: message `name` is due at `due`, or is to be taken back.
    Timed { name: u32, due: i64, recalls: bool, copy_of: Option<u64> },
    /// Delivered.
    Copy { name: u32, copy_of: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    SendSoon,
    SendFar,
    RecallLast,
    Tick,
    Round,
    RoundWithFailure,
    Flush,
    Trim,
    Crash,
    /// With so many quarters of the timer log left.
    PowerCut(usize),
}

const EVENTS: [Event; 12] = [
    Event::SendSoon,
    Event::SendFar,
    Event::RecallLast,
    Event::Tick,
    Event::Round,
    Event::RoundWithFailure,
    Event::Flush,
    Event::Trim,
    Event::Crash,
    Event::PowerCut(0),
    Event::PowerCut(2),
    Event::PowerCut(4),
];

/// A record waits this long where it is.
const WINDOW: i64 = 2;

#[derive(Clone)]
struct World {
    log: Vec<Record>,
    flushed: usize,
    now: i64,
    timer: Timer<MemoryLog>,
    sent: u32,
    recalled: BTreeSet<u32>,
    crashes: usize,
    history: Vec<Event>,
}

impl World {
    fn new() -> World {
        let timer = Timer::open(MemoryLog::default(), Canaries::default()).unwrap();
        let recalled = BTreeSet::new();
        World { log: Vec::new(), flushed: 0, now: 100, timer, sent: 0, recalled, crashes: 0, history: Vec::new() }
    }

    /// Positions of the timer topic's records, by their numbers.
    fn timed(&self) -> Vec<usize> {
        (0..self.log.len()).filter(|at| matches!(self.log[*at], Record::Timed { .. })).collect()
    }

    fn end(&self) -> PhysicalOffset {
        PhysicalOffset(self.log.len() as u64)
    }

    fn time(&self) -> Now {
        Now { wall: Millis(self.now * 1000), monotonic: Millis(self.now * 1000) }
    }

    fn pending(&self, number: u64) -> Pending {
        let at = self.timed()[number as usize];
        let Record::Timed { due, recalls, .. } = self.log[at] else { panic!("a timed record") };
        let (second, kind) = match (due - self.now >= WINDOW, recalls) {
            (true, _) => (self.now + WINDOW / 2, PendingKind::Roll),
            (false, true) => (due, PendingKind::Recall),
            (false, false) => (due, PendingKind::Deliver),
        };
        let (record, number) = (PhysicalOffset(at as u64), QueueOffset(number));
        Pending { kind, second, previous: None, record, size: 1, number }
    }

    fn take_in(&mut self) {
        while (self.timer.next().0 as usize) < self.timed().len() {
            let pending = self.pending(self.timer.next().0);
            self.timer.take_in(pending);
        }
    }

    /// One round, with batches of two; the first record of the round cannot be copied if `fails`.
    fn round(&mut self, mut fails: bool) {
        for _ in 0..4 {
            self.take_in();
            let mut due = Vec::new();
            let now = self.time();
            self.timer.due(now, self.end(), 2, &mut due).unwrap();
            while let Some((second, units)) = self.timer.unread_recalls() {
                let names = units.iter().map(|unit| match self.log[unit.record.0 as usize] {
                    Record::Timed { name, .. } => name.to_string(),
                    Record::Copy { .. } => panic!("a copy is in no slot"),
                });
                self.timer.on_recalls(second, names.collect());
                self.timer.due(now, self.end(), 2, &mut due).unwrap();
            }
            if due.is_empty() {
                break;
            }
            self.copy(&due, &mut fails, false);
        }
        self.settle();
    }

    fn copy(&mut self, due: &[TimerDue], fails: &mut bool, trims: bool) {
        for due in due {
            if std::mem::take(fails) {
                self.timer.on_failed(due, self.time());
                continue;
            }
            let Record::Timed { name, due: second, recalls, .. } = self.log[due.pending.record.0 as usize] else {
                panic!("a copy is in no slot")
            };
            let copy_of = due.pending.number.0;
            if trims || due.pending.kind == PendingKind::Roll {
                self.log.push(Record::Timed { name, due: second, recalls, copy_of: Some(copy_of) });
            } else if self.timer.recalled(due.pending.second).is_some_and(|names| names.contains(&name.to_string())) {
                self.timer.on_done(due, None);
                continue;
            } else {
                assert!(self.now >= second, "early: {:?}", self.history);
                self.log.push(Record::Copy { name, copy_of });
            }
            self.timer.on_done(due, Some(self.end()));
        }
    }

    fn settle(&mut self) {
        let (flushed, end) = (PhysicalOffset(self.flushed as u64), self.end());
        self.timer.settle(flushed, end).unwrap();
        self.timer.delete_files().unwrap();
    }

    /// The timer begins again with what a crash left of its log, as the actor does.
    fn reopen(&mut self, mut log: MemoryLog) {
        let timed = self.timed();
        let (end, next) = (self.end(), QueueOffset(timed.len() as u64));
        let foreign = log.units.iter().skip(log.begin).position(|unit| unit.is_ahead_of(end, next));
        if let Some(foreign) = foreign {
            log.units.truncate(log.begin + foreign);
        }
        self.timer = Timer::open(log, Canaries::default()).unwrap();
        let from = self.timer.scan_from().0 as usize;
        let copies = self.log.iter().skip(from).filter_map(|record| match record {
            Record::Timed { copy_of, .. } => *copy_of,
            Record::Copy { copy_of, .. } => Some(*copy_of),
        });
        self.timer.adopt_copies(&copies.collect(), end).unwrap();
    }

    /// `None` if the event changes nothing or is one too many.
    fn after(&self, event: Event) -> Option<World> {
        let mut world = self.clone();
        world.history.push(event);
        match event {
            Event::SendSoon | Event::SendFar => {
                let due = self.now + if event == Event::SendSoon { 1 } else { 3 };
                world.log.push(Record::Timed { name: self.sent, due, recalls: false, copy_of: None });
                world.sent += 1;
                (world.sent <= 2).then_some(world)
            }
            Event::RecallLast => {
                let name = self.sent.checked_sub(1).filter(|name| !self.recalled.contains(name))?;
                let due = self.log.iter().find_map(|record| match record {
                    Record::Timed { name: found, due, .. } if *found == name => Some(*due),
                    _ => None,
                })?;
                world.log.push(Record::Timed { name, due, recalls: true, copy_of: None });
                world.recalled.insert(name);
                (self.now < due).then_some(world)
            }
            Event::Tick => {
                world.now += 1;
                (world.now <= 104 && self.sent > 0).then_some(world)
            }
            Event::Round | Event::RoundWithFailure => {
                world.round(event == Event::RoundWithFailure);
                Some(world)
            }
            Event::Flush => {
                world.flushed = world.log.len();
                world.settle();
                Some(world)
            }
            Event::Trim => {
                world.take_in();
                world.trim();
                Some(world)
            }
            Event::Crash => {
                world.reopen(self.timer.clone().log().clone());
                world.crashes += 1;
                (world.crashes <= 2).then_some(world)
            }
            Event::PowerCut(quarters) => {
                world.log.truncate(self.flushed);
                let mut log = self.timer.clone().log().clone();
                let left = log.units.len() - log.begin;
                log.units.truncate(log.begin + left * quarters / 4);
                world.reopen(log);
                world.crashes += 1;
                (world.crashes <= 2).then_some(world)
            }
        }
    }

    fn trim(&mut self) {
        self.timer.start_trim(self.end(), self.end()).unwrap();
        let mut due = Vec::new();
        self.timer.due_for_trim(self.time().monotonic, 8, &mut due);
        self.copy(&due, &mut false, true);
        self.settle();
    }

    /// Never twice, whatever happened: nothing the log holds was delivered more than once.
    fn check(&self) {
        for name in 0..self.sent {
            let copies = self.copies(name);
            assert!(copies <= 1, "{copies} copies of {name} after {:?}\n{:?}", self.history, self.log);
        }
    }

    fn copies(&self, name: u32) -> usize {
        self.log.iter().filter(|record| matches!(record, Record::Copy { name: found, .. } if *found == name)).count()
    }

    /// With no more faults every message that is still there comes, unless it was taken back in time.
    fn finish(mut self) {
        for _ in 0..9 {
            self.flushed = self.log.len();
            self.settle();
            self.now += 1;
            self.round(false);
        }
        self.flushed = self.log.len();
        self.settle();
        self.check();
        for name in 0..self.sent {
            let kept = |recalls: bool| {
                self.log.iter().any(|record| {
                    matches!(record, Record::Timed { name: found, recalls: r, .. } if *found == name && *r == recalls)
                })
            };
            let copies = self.copies(name);
            if kept(true) {
                assert_eq!(copies, 0, "{name} was taken back, after {:?}\n{:?}", self.history, self.log);
            } else if kept(false) {
                assert_eq!(copies, 1, "{name} is missing after {:?}\n{:?}", self.history, self.log);
            }
        }
        assert_eq!(self.timer.pending(), 0, "all is done after {:?}", self.history);
    }

    fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.log, self.flushed, self.now, self.sent, self.crashes).hash(&mut hasher);
        let timer = &self.timer;
        (timer.log.begin, timer.next(), &timer.copied).hash(&mut hasher);
        timer.log.units.iter().for_each(|unit| unit.encode().hash(&mut hasher));
        if timer.is_busy() {
            format!("{:?}{:?}", timer.draining, timer.trim).hash(&mut hasher);
        }
        hasher.finish()
    }
}

/// All interleavings of up to eight events: sends, far sends that roll, recalls, rounds with and without failures,
/// flushes, trims, crashes, and power cuts that leave any part of the timer log. Nothing is early, twice or missing.
#[test]
fn every_interleaving_of_eight_events_is_legal() {
    let mut layer = vec![World::new()];
    let mut seen = HashSet::new();
    for _ in 0..8 {
        let mut next = Vec::new();
        for world in &layer {
            for event in EVENTS {
                let Some(after) = world.after(event) else { continue };
                if seen.insert(after.fingerprint()) {
                    after.check();
                    after.clone().finish();
                    next.push(after);
                }
            }
        }
        layer = next;
    }
    assert!(seen.len() > 20_000, "only {} states", seen.len());
}

/// The oldest of very many go first, and memory holds a part of them at a time.
#[test]
fn one_second_with_very_many_messages_is_delivered_in_order() {
    let count = 40_000_u64;
    let mut timer = Timer::open(MemoryLog::default(), Canaries::default()).unwrap();
    for number in 0..count {
        let (record, number) = (PhysicalOffset(number), QueueOffset(number));
        let kind = PendingKind::Deliver;
        timer.take_in(Pending { kind, second: 5, previous: None, record, size: 1, number });
    }
    let now = Now { wall: DueSecond(5).begins(), monotonic: Millis(0) };
    let mut came = Vec::new();
    loop {
        let mut due = Vec::new();
        timer.due(now, PhysicalOffset(count), 1000, &mut due).unwrap();
        if due.is_empty() {
            break;
        }
        for due in due {
            came.push(due.pending.number.0);
            timer.on_done(&due, Some(PhysicalOffset(count)));
        }
        timer.settle(PhysicalOffset(count), PhysicalOffset(count)).unwrap();
    }
    assert!(came.iter().copied().eq(0..count));
    assert_eq!(timer.pending(), 0);
    let early = Now { wall: Millis(4_999), ..now };
    assert_eq!(timer.wake_at(early), None);
}
