//! A broker's clock is set, forwards and back, by hours, while messages wait for their time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use metaq::config::broker::FlushDiskType;

use super::transaction_support::{find_given_up, Database, Habits, Seller};
use crate::checkers::{
    acknowledged_kept, all_delivered, messages_intact, timed_kept, transactions_as_decided, Promises, Violation,
};
use crate::cluster::{Cluster, GROUP};
use crate::history::{Event, Timed};
use crate::plan::Plan;
use crate::scenarios::{Scenario, Verdict};
use crate::stage::Bounds;
use crate::workload::Workload;
use crate::world::World;

use super::promoted::of_transactions;

/// Timed and delayed messages and transactions.
pub const JUMPS: Scenario = Scenario {
    name: "clock_jumps",
    story: "the broker's clock jumps by hours, both ways, and the broker is restarted meanwhile; no message comes before that \
            clock has shown its time, a delayed one at the latest when its time has passed, and all come",
    draft: |d| {
        d.flush(&[FlushDiskType::SyncFlush]).set("recallMessageEnable", true);
        d.consumer(GROUP, 0).producers(1..=2, 100..=200, &[100]).delayed(300).timed(400, 500..=20_000);
        d.set("transactionCheckInterval", INTERVAL_MS).set("transactionTimeOut", 1_500).set("transactionCheckMax", CHECKS_MAX);
        // Hours must not cost anything but files that are old by then.
        d.set("fileReservedTime", 72);
    },
    play: |world, plan| play(world, plan).boxed_local(),
};

const INTERVAL_MS: u64 = 2_000;
const CHECKS_MAX: u64 = 8;
const EARLY: &str = "timed messages are not early by their broker's clock";
/// Brokers count whole milliseconds of their own clock.
const PRECISION_MS: i64 = 1;

async fn play(world: World, plan: Arc<Plan>) -> Verdict {
    let cluster = Cluster::start(&world, &plan).await;
    let (bounds, mut random) = (Bounds::of(&plan), world.random("jumps"));
    let habits = Habits { count: 30, pace_ms: 400, never: 50, silent: 300, twice: 100, contradict: 100 };
    let database = Database::default();
    let seller = Seller::new(&cluster, "seller", &database, habits);
    seller.run(habits.count);
    let workload = Workload::start(&cluster, &plan);
    let broker = cluster.brokers[0];
    let mut clock = Jumps::default();
    let end = world.now() + Duration::from_micros(plan.workload_us());
    while world.now() < end {
        world.sleep(Duration::from_millis(random.between(200, 6_000))).await;
        match random.below(4) {
            0 => {
                world.kill(broker);
                world.sleep(Duration::from_millis(random.below(2_000))).await;
                world.boot(broker);
            }
            _ => {
                let most = *random.pick(&[2_000, 60_000, 3_600_000, 4 * 3_600_000]);
                clock.shift(&world, broker, random.between(0, 2 * most) as i64 - most as i64);
            }
        }
    }
    workload.finished().await;
    // What was accepted by a clock that ran ahead comes when the clock is there again.
    clock.shift(&world, broker, clock.most() - clock.now());
    crate::faults::heal(&world);
    world.sleep(bounds.delivered + Duration::from_millis(INTERVAL_MS * (CHECKS_MAX + 6))).await;
    cluster.find_all().await;
    find_given_up(&cluster).await?;
    let (events, timed) = (world.history().events(), world.history().timed());
    messages_intact(&events)?;
    acknowledged_kept(&events)?;
    timed_kept(&timed, Duration::ZERO)?;
    delayed_kept(&events)?;
    not_early_by_the_clock(&timed, &clock)?;
    transactions_as_decided(&of_transactions(&events), Promises::default())?;
    all_delivered(&events, &[GROUP])
}

/// Every message that was accepted for later is there in the end.
fn delayed_kept(events: &[Event]) -> Verdict {
    let found: BTreeSet<u64> = events
        .iter()
        .filter_map(|event| if let Event::Found(message, _) = event { Some(*message) } else { None })
        .collect();
    let lost = events.iter().find_map(|event| match event {
        Event::Scheduled(message, _) if !found.contains(message) => Some(*message),
        _ => None,
    });
    lost.map_or(Ok(()), |message| Err(Violation::new("delayed messages are kept", format!("{message} is lost"))))
}

/// What a broker's clock was set to, in milliseconds ahead of where it began.
struct Jumps {
    /// From when on.
    shifts: BTreeMap<Duration, i64>,
}

impl Default for Jumps {
    fn default() -> Jumps {
        Jumps { shifts: BTreeMap::from([(Duration::ZERO, 0)]) }
    }
}

impl Jumps {
    fn shift(&mut self, world: &World, broker: crate::world::NodeId, by_ms: i64) {
        world.shift_clock(broker, by_ms);
        let now = self.now() + by_ms;
        self.shifts.insert(world.now(), now);
    }

    fn now(&self) -> i64 {
        self.shifts.last_key_value().map_or(0, |(_, shift)| *shift)
    }

    fn most(&self) -> i64 {
        self.shifts.values().copied().max().unwrap_or(0)
    }

    /// The least and the most that the clock showed from one moment to another, both included.
    fn shown(&self, from: Duration, to: Duration) -> (i64, i64) {
        let at = |moment: Duration, shift: i64| moment.as_millis() as i64 + shift;
        let begins = self.shifts.range(..=from).next_back().map_or(0, |(_, shift)| *shift);
        let (mut shift, mut least, mut most) = (begins, at(from, begins), at(from, begins));
        for (moment, next) in self.shifts.range(from..=to) {
            for shown in [at(*moment, shift), at(*moment, *next)] {
                (least, most) = (least.min(shown), most.max(shown));
            }
            shift = *next;
        }
        (least, most.max(at(to, shift)))
    }
}

/// No message comes before its broker's clock has shown its time, which that clock fixed while it was sent. For one that
/// is delayed by a level it is enough that the delay has passed, if the clock was set back.
fn not_early_by_the_clock(history: &[Timed], clock: &Jumps) -> Result<(), Violation> {
    let mut sent = BTreeMap::new();
    let mut due = BTreeMap::new();
    for (at, event) in history {
        match event {
            Event::Sending(message) => drop(sent.insert(*message, *at)),
            Event::TimedFor(message, delay) | Event::Scheduled(message, delay) => {
                let began = sent.get(message).copied().unwrap_or_default();
                let (least, _) = clock.shown(began, *at);
                let passed = matches!(event, Event::Scheduled(..)).then_some(began + *delay);
                due.insert(*message, (least + delay.as_millis() as i64, passed));
            }
            Event::Consumed(_, message, _) => {
                let Some((due, passed)) = due.get(message) else { continue };
                let (_, shown) = clock.shown(sent.get(message).copied().unwrap_or_default(), *at);
                let has_passed = passed.is_some_and(|passed| *at >= passed);
                if shown + PRECISION_MS < *due && !has_passed {
                    let finding = format!("{message} came when the clock had shown {shown} ms, due at {due} ms");
                    return Err(Violation::new(EARLY, finding));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Queue;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// A message that is sent and answered at these seconds and waits for 10, and comes at another.
    fn history(sent: u64, answered: u64, came: u64) -> Vec<Timed> {
        let place = (Queue::new("broker-0", "orders", 0), 0);
        vec![
            (seconds(sent), Event::Sending(1)),
            (seconds(answered), Event::TimedFor(1, seconds(10))),
            (seconds(came), Event::Consumed("billing".into(), 1, place)),
        ]
    }

    #[test]
    fn a_time_is_one_of_the_broker_s_clock() {
        let jumps = |shifts: &[(u64, i64)]| {
            let mut clock = Jumps::default();
            clock.shifts.extend(shifts.iter().map(|(at, seconds)| (self::seconds(*at), seconds * 1_000)));
            clock
        };
        let check = |sent, answered, came, clock: &Jumps| not_early_by_the_clock(&history(sent, answered, came), clock);
        let right = Jumps::default();
        assert!(check(0, 0, 10, &right).is_ok());
        assert!(check(0, 0, 9, &right).is_err());
        let ahead = jumps(&[(3, 100)]);
        assert!(check(0, 0, 4, &ahead).is_ok(), "its time is over");
        assert!(check(0, 0, 2, &ahead).is_err(), "not yet");
        assert!(check(4, 4, 13, &ahead).is_err(), "it was sent by the new clock");
        assert!(check(2, 4, 13, &ahead).is_ok(), "which clock it was is unknown");
        let and_back = jumps(&[(3, 100), (5, 0)]);
        assert!(check(0, 0, 6, &and_back).is_ok(), "the clock has shown it");
        assert!(check(4, 4, 20, &and_back).is_err(), "accepted by the clock that was ahead");
        assert!(check(4, 4, 114, &and_back).is_ok());
        let back = jumps(&[(3, -100)]);
        let mut delayed = history(0, 0, 11);
        assert!(not_early_by_the_clock(&delayed, &back).is_err(), "a time is waited for however long it takes");
        delayed[1].1 = Event::Scheduled(1, seconds(10));
        assert!(not_early_by_the_clock(&delayed, &back).is_ok(), "a delay has passed");
        delayed[2].0 = seconds(9);
        assert!(not_early_by_the_clock(&delayed, &back).is_err());
    }
}
