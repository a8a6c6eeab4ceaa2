//! The timer alone, with a million messages waiting: taking them in, beginning again after a stop, letting them out. One
//! line each, with the process's memory.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "memory is read from the system")]

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use metaq::broker::delay::Now;
use metaq::broker::timer::Timer;
use metaq::env::real::env;
use metaq::env::{Canaries, Millis};
use metaq::proto::{PhysicalOffset, QueueOffset};
use metaq::store::timer::{Pending, PendingKind, TimerLog};
use tempfile::TempDir;
use tokio::runtime::Runtime;

const MESSAGES: u64 = 1_000_000;
/// They wait for the seconds of an hour.
const SECONDS: u64 = 3_600;
/// Bytes of a record in the commit log.
const RECORD: u64 = 400;

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let directory = TempDir::new().expect("a directory");
    let clock = env().clock;
    let mut timer = opened(&runtime, directory.path());
    report("nothing waits", None);

    let start = clock.monotonic();
    for number in 0..MESSAGES {
        // Neighbours in the log wait for seconds far apart.
        let second = (number.wrapping_mul(2_654_435_761) >> 7) % SECONDS;
        timer.take_in(Pending {
            kind: PendingKind::Deliver,
            second: second as i64,
            previous: None,
            record: PhysicalOffset(number * RECORD),
            size: RECORD as u32,
            number: QueueOffset(number),
        });
        if number % 1024 == 1023 {
            timer.write().expect("a disk that takes it");
        }
    }
    timer.write().expect("a disk that takes it");
    report("taken in", Some(clock.monotonic() - start));
    drop(timer);

    let start = clock.monotonic();
    let mut timer = opened(&runtime, directory.path());
    assert_eq!(timer.pending(), MESSAGES);
    report("begun again", Some(clock.monotonic() - start));

    let start = clock.monotonic();
    let end = PhysicalOffset(MESSAGES * RECORD * 2);
    let now = Now { wall: Millis(SECONDS as i64 * 1000), monotonic: Millis(0) };
    let mut due = Vec::new();
    while timer.pending() > 0 {
        due.clear();
        timer.due(now, end, 512, &mut due).expect("a disk that gives it");
        due.iter().for_each(|due| timer.on_done(due, Some(end)));
        timer.settle(end, end).expect("a disk that takes it");
    }
    report("let out", Some(clock.monotonic() - start));
}

fn opened(runtime: &Runtime, root: &Path) -> Timer<TimerLog> {
    let log = runtime.block_on(TimerLog::open(env().disk, root)).expect("a timer log");
    let mut timer = Timer::open(log, Canaries::default()).expect("a timer");
    timer.adopt_copies(&BTreeSet::new(), PhysicalOffset(0)).expect("a timer");
    timer
}

fn report(what: &str, took: Option<Duration>) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("?").trim();
    match took {
        Some(took) => {
            let rate = MESSAGES as f64 / took.as_secs_f64();
            println!("{what:<14} {rate:>12.0} messages/s {:>8} ms   {resident} resident", took.as_millis());
        }
        None => println!("{what:<14} {resident} resident"),
    }
}
