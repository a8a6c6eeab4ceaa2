//! Whatever can go wrong together: each seed switches every kind of fault and every feature of the workload on or off.

use metaq::config::broker::FlushDiskType::{AsyncFlush, SyncFlush};

use crate::cluster::GROUP;
use crate::draft::Draft;
use crate::faults::Harm;
use crate::scenarios::Scenario;

/// Scenario 34: links that clog and open in another order.
pub const NETWORK: Scenario = Scenario::new(
    "swizzle",
    "links are cut and clogged one by one and opened in another order; nothing acknowledged is lost",
    |d| {
        workload(d);
        d.faults(3..=12, &["cut", "cut_one_way", "clog", "clog", "isolate", "partition"]);
    },
);

/// Every fault that SYNC_FLUSH promises to survive.
pub const SYNC: Scenario = Scenario::new(
    "swarm",
    "SYNC_FLUSH: any faults at once; nothing acknowledged is lost, all come to life again",
    |d| {
        workload(d);
        d.swarm(&[Harm::Delay, Harm::Unsynced, Harm::Process, Harm::UnsyncedAndProcess, Harm::Time]).minority_lost();
    },
);

/// Scenario 35: everything.
pub const EVERYTHING: Scenario = Scenario::new(
    "everything",
    "any flush mode, any faults at once; what the mode promises holds, all come to life again",
    |d| {
        d.flush(&[SyncFlush, AsyncFlush]);
        workload(d);
        d.swarm(&[Harm::Delay, Harm::Unsynced, Harm::Process, Harm::UnsyncedAndProcess, Harm::Time]).minority_lost();
    },
);

/// Who is there and what they do.
fn workload(d: &mut Draft) {
    d.nameservers(1..=3).brokers(1..=3);
    let mut random = d.random("features");
    d.consumer(GROUP, if random.below(3) == 0 { 150 } else { 0 });
    if random.below(3) == 0 {
        d.consumer("shipping", 0);
    }
    d.producers(1..=4, 50..=300, &[1, 20, 200, 1_000]);
    if random.below(3) == 0 {
        d.delayed(*random.pick(&[20, 300]));
    }
}
