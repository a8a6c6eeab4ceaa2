//! A NameServer, brokers, producers and a consumer group, through calm and crashes.

use metaq::config::broker::FlushDiskType::{AsyncFlush, SyncFlush};

use crate::cluster::GROUP;
use crate::draft::Draft;
use crate::plan::Expect;
use crate::scenarios::Scenario;

/// No fault at all.
pub const CALM: Scenario =
    Scenario::new("calm", "no fault: every send is acknowledged, every message is delivered once", |d| {
        d.nameservers(1..=2).brokers(1..=3).flush(&[SyncFlush, AsyncFlush]);
        d.consumer(GROUP, 0).producers(1..=2, 50..=300, &[20]);
        d.expect(Expect::NoFailures).expect(Expect::NoDuplicates);
    });

/// SYNC_FLUSH: process deaths and power cuts.
pub const BROKER_POWER_CUT: Scenario = Scenario::new(
    "broker_power_cut",
    "SYNC_FLUSH: a broker is killed or loses its power at any moment and comes back; nothing acknowledged is lost",
    |d| {
        d.brokers(1..=2).consumer(GROUP, 0).producers(1..=4, 100..=400, &[1, 10, 50]);
        d.faults(1..=3, &["power_cut", "power_cut", "kill", "crash_loop"]);
    },
);

/// ASYNC_FLUSH: process deaths.
pub const BROKER_KILL: Scenario = Scenario::new(
    "broker_kill",
    "ASYNC_FLUSH: a broker is killed at any moment and comes back; nothing acknowledged is lost",
    |d| {
        d.brokers(1..=2).flush(&[AsyncFlush]).consumer(GROUP, 0).producers(1..=4, 100..=400, &[1, 10, 50]);
        d.faults(1..=3, &["kill", "kill", "crash_loop"]);
    },
);

/// Delayed messages through crashes.
pub const DELAYED: Scenario = Scenario::new(
    "delayed_messages",
    "SYNC_FLUSH: delayed messages come, and not early, though the broker is killed or loses its power meanwhile",
    |d| {
        d.brokers(1..=2).consumer(GROUP, 0).producers(1..=4, 100..=400, &[10, 100, 500]).delayed(1_000);
        d.faults(1..=3, &["power_cut", "power_cut", "kill"]);
    },
);

/// Messages that consumers hand back, through crashes.
pub const HANDED_BACK: Scenario = Scenario::new(
    "handed_back",
    "SYNC_FLUSH: consumers hand messages back while the broker is killed or loses its power; all come again",
    |d| {
        d.brokers(1..=2).consumer(GROUP, 200).producers(1..=4, 100..=400, &[1, 10, 50]);
        d.faults(1..=3, &["power_cut", "power_cut", "kill"]);
    },
);

/// DSK-5: what ASYNC_FLUSH may lose, and what it may not: what is there has dense offsets and reaches the consumers.
pub const ASYNC_POWER_CUT: Scenario = Scenario::new(
    "broker_async_power_cut",
    "ASYNC_FLUSH: the power goes at any moment; the broker comes back with dense queues, and groups get what is there",
    |d| async_flush(d, &["power_cut"]),
);

/// A clean stop keeps everything, whatever comes behind it.
pub const CLEAN_STOP: Scenario = Scenario::new(
    "clean_stop",
    "ASYNC_FLUSH: a broker is stopped cleanly under load, then the power goes; nothing acknowledged is lost",
    |d| async_flush(d, &["clean_stop"]),
);

fn async_flush(d: &mut Draft, faults: &[&str]) {
    d.flush(&[AsyncFlush]).consumer(GROUP, 0).producers(1..=1, 200..=200, &[5, 50, 200]).faults(1..=3, faults);
}
