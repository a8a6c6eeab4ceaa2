//! Much and nothing: a cluster under load, an overloaded one, and one that nobody uses.

use metaq::config::broker::FlushDiskType::{AsyncFlush, SyncFlush};

use crate::cluster::GROUP;
use crate::scenarios::Scenario;

/// What the simulator's own speed is measured with: a thousand messages a second for ten seconds.
pub const BUSY: Scenario =
    Scenario::new("busy", "three brokers, two NameServers, eight clients, a thousand messages a second", |d| {
        d.nameservers(2..=2).brokers(3..=3).flush(&[AsyncFlush]);
        d.consumer(GROUP, 0).producers(7..=7, 10_000..=10_000, &[12]);
    });

/// What must cost nothing: nobody does anything.
pub const IDLE: Scenario =
    Scenario::new("idle", "three brokers and two NameServers for fifty minutes without clients", |d| {
        d.nameservers(2..=2).brokers(3..=3).flush(&[SyncFlush, AsyncFlush]).rest(3_000_000);
    });

/// Scenario 29: more than the broker takes. It refuses, and what it took is safe.
pub const OVERLOAD: Scenario = Scenario::new(
    "overload",
    "SYNC_FLUSH: many producers and small bounds; sends are refused or late, nothing acknowledged is lost",
    |d| {
        d.set("inFlightBytesPerSession", 4 << 10).set("inFlightBytesPerBroker", 8 << 10).set("parkedPullsMax", 2);
        d.consumer(GROUP, 0).producers(8..=16, 400..=800, &[1]).bytes(1_500..=2_000);
        d.faults(0..=3, &["stall", "slow_disk", "kill", "clients_stampede"]);
    },
);

/// Scenario 26: clients that are gone without a word.
pub const HALF_OPEN: Scenario = Scenario::new(
    "half_open",
    "clients die, vanish and stand still with requests under way; nothing acknowledged is lost, groups get everything",
    |d| {
        d.brokers(1..=2).flush(&[SyncFlush, AsyncFlush]);
        d.consumer(GROUP, 100).producers(1..=3, 100..=300, &[10, 100]);
        d.faults(2..=5, &["client_dies", "client_vanishes", "client_stalls", "clients_stampede"]);
        d.faults(0..=1, &["kill"]);
    },
);
