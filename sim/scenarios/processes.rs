//! What can also be done to real processes and their sockets. `tests/real` plays the same plans with them.

use metaq::config::broker::FlushDiskType::{AsyncFlush, SyncFlush};

use crate::cluster::GROUP;
use crate::faults::{Fault, NetFault, ProcessFault, WireFault};
use crate::scenarios::Scenario;

/// No fault is longer: real time passes.
const LONGEST_US: u64 = 3_000_000;

/// Kills, stops, pauses; links that are cut, clogged, slow and reset.
pub const PROCESSES: Scenario = Scenario::new(
    "processes",
    "any flush mode: what real processes meet as well, kills, stops, pauses and bad links; nothing acknowledged is lost",
    |d| {
        d.nameservers(1..=2).brokers(1..=3).flush(&[SyncFlush, AsyncFlush]);
        // Real brokers live with the values of others, but not at a real speed.
        d.set("mappedFileSizeCommitLog", 1 << 20).set("maxMessageSize", 64 << 10);
        d.set("inFlightBytesPerSession", 64 << 20).set("registerNameServerPeriod", 10_000);
        let hands_back = *d.random("hands back").pick(&[0, 0, 50]);
        d.consumer(GROUP, hands_back).producers(2..=3, 200..=300, &[50, 100]);
        d.faults(2..=4, &["kill", "kill", "clean_stop", "pause", "stutter"]);
        d.faults(2..=5, &["cut", "cut_one_way", "clog", "isolate", "partition", "slow_link", "reset_connections"]);
        d.each_fault(|timed| shorten(&mut timed.fault));
    },
);

fn shorten(fault: &mut Fault) {
    let time = match fault {
        Fault::Process(ProcessFault::Kill { down_us, .. } | ProcessFault::CleanStop { down_us, .. }) => down_us,
        Fault::Process(ProcessFault::Pause { for_us, .. }) => for_us,
        Fault::Process(ProcessFault::Stutter { step_us, times, .. }) => {
            *times = (*times).min(5);
            *step_us = (*step_us).min(LONGEST_US / 10);
            return;
        }
        Fault::Net(
            NetFault::Cut { for_us, .. }
            | NetFault::CutOneWay { for_us, .. }
            | NetFault::Clog { for_us, .. }
            | NetFault::Isolate { for_us, .. }
            | NetFault::Partition { for_us, .. },
        ) => for_us,
        Fault::Wire(WireFault::SlowLink(way, millis)) => {
            *millis = (*millis).min(200);
            &mut way.for_us
        }
        _ => return,
    };
    *time = (*time).min(LONGEST_US);
}
