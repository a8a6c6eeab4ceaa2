//! NameServers and what they believe: a living broker that is taken for dead, NameServers that disagree or are gone.
//!
//! That routes are true is watched in every run (`routes.rs`); here the faults last as long as NameServers' patience.

use crate::cluster::GROUP;
use crate::faults::{Draw, Fault, NetFault, ProcessFault};
use crate::plan::Expect;
use crate::scenarios::Scenario;

/// A living broker that is taken for dead.
pub const HEARTBEAT_TIME_OUT: Scenario = Scenario::new(
    "heartbeat_time_out",
    "a NameServer hears nothing of a living broker, around its expiry time; the route comes back and stays",
    |d| {
        d.consumer(GROUP, 0).producers(1..=1, 200..=200, &[3_000]).fault(1..=1, "silence", silence);
    },
);

/// Two NameServers that disagree.
pub const DISAGREEMENT: Scenario = Scenario::new(
    "nameservers_disagree",
    "two NameServers know different brokers, one of them restarts; clients go on and the routes become true again",
    |d| {
        d.nameservers(2..=2).brokers(2..=2).consumer(GROUP, 0).producers(1..=2, 300..=300, &[2_000]);
        d.fault(1..=2, "silence", silence).fault(0..=2, "restart", |d| {
            let (machine, down_us) = (d.random.pick(&d.roster.nameservers).clone(), d.us_up_to(60_000));
            let kill = d.random.below(2) == 0;
            Fault::Process(match kill {
                true => ProcessFault::Kill { machine, down_us },
                false => ProcessFault::PowerCut { machine, down_us },
            })
        });
        d.expect(Expect::AcknowledgedPerMille(300));
    },
);

/// L9: one of several machines is gone for good.
pub const MINORITY_LOST: Scenario = Scenario::new(
    "minority_lost",
    "one broker or NameServer of several does not come back; the others go on without it",
    |d| {
        d.nameservers(2..=2).brokers(2..=3).consumer(GROUP, 0).producers(1..=2, 50..=100, &[100]);
        d.faults(0..=2, &["kill", "power_cut", "cut"]).minority_lost();
    },
);

/// Cuts one direction or both, or stops the broker's process, for a time around a NameServer's patience.
fn silence(d: &mut Draw<'_>) -> Fault {
    let (broker, nameserver) = (d.broker(), d.random.pick(&d.roster.nameservers).clone());
    let for_us = *d.random.pick(&[20, 118, 122, 126, 150, 240]) * 1_000_000;
    match d.random.below(4) {
        0 => Fault::Net(NetFault::CutOneWay { from: broker, to: nameserver, for_us }),
        1 => Fault::Net(NetFault::CutOneWay { from: nameserver, to: broker, for_us }),
        2 => Fault::Net(NetFault::Cut { a: broker, b: nameserver, for_us }),
        _ => Fault::Process(ProcessFault::Pause { machine: broker, for_us }),
    }
}
