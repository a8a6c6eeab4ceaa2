//! How a scenario makes a plan of a seed: it names ranges, the draft draws from them.

use std::ops::RangeInclusive;

use metaq::config::broker::FlushDiskType;

use crate::faults::{kind, kinds, Draw, Fault, Harm};
use crate::plan::{Client, Expect, Plan, Quality, Send, Timed};
use crate::random::Stream;

/// A plan in the making. A scenario first says who is there, then what clients do, then what goes wrong.
pub struct Draft {
    plan: Plan,
    seed: u64,
}

/// Limits of bodies' sizes.
const BYTES: [u64; 3] = [20, 200, 2_000];

/// Settings that a broker must live with, however they are combined: key and values. The first is the usual one here,
/// which a plan does not name. Files are small, so that their ends come soon.
const SETTINGS: &[(&str, &[u64])] = &[
    ("mappedFileSizeCommitLog", &[32 << 10, 16 << 10, 64 << 10, 1 << 20]),
    ("mappedFileSizeConsumeQueue", &[20 * 64, 20 * 16, 20 * 512]),
    ("maxHashSlotNum", &[64, 16]),
    ("maxIndexNum", &[256, 64]),
    ("maxMessageSize", &[8 << 10, 4 << 10]),
    ("flushIntervalCommitLog", &[500, 10, 100, 2_000]),
    ("maxTransferBytesOnMessageInDisk", &[256 << 10, 1, 4 << 10]),
    ("flushConsumerOffsetInterval", &[5_000, 100, 1_000, 20_000]),
    ("flushDelayOffsetInterval", &[10_000, 100, 1_000]),
    ("cleanResourceInterval", &[10_000, 1_000]),
    ("registerNameServerPeriod", &[30_000, 10_000, 60_000]),
    ("maxTransferCountOnMessageInMemory", &[32, 1, 3]),
    ("maxTransferBytesOnMessageInMemory", &[256 << 10, 1, 4 << 10]),
    ("maxTransferCountOnMessageInDisk", &[32, 1]),
    ("inFlightBytesPerSession", &[64 << 20, 64 << 10, 16 << 10]),
];

/// What brokers are set to unless a plan says otherwise.
pub fn usual_settings() -> impl Iterator<Item = (&'static str, String)> {
    // A full disk must not cost messages that are not old.
    let fixed = [("cleanFileForciblyEnable", "false".to_owned())];
    fixed.into_iter().chain(SETTINGS.iter().map(|(key, values)| (*key, values[0].to_string())))
}

impl Draft {
    /// One NameServer and one broker with SYNC_FLUSH and drawn settings; nobody does anything, nothing goes wrong.
    pub fn new(scenario: &str, seed: u64) -> Draft {
        let mut random = Stream::new(seed, "plan");
        let plan = Plan {
            scenario: scenario.to_owned(),
            seed,
            schedule: seed,
            violates: None,
            canaries: Default::default(),
            nameservers: 1,
            brokers: 1,
            slaves: 0,
            network: *random.pick(&[Quality::Lan, Quality::Mixed]),
            quirks: random.below(2) == 0,
            settings: Default::default(),
            clients: Vec::new(),
            faults: Vec::new(),
            lasting: Vec::new(),
            rest_ms: 0,
            expect: Vec::new(),
        };
        let mut draft = Draft { plan, seed };
        draft.flush(&[FlushDiskType::SyncFlush]);
        for (key, values) in SETTINGS {
            let mut random = draft.random(key);
            // Half of all settings are the usual ones, so that unusual ones also meet a usual neighbourhood.
            if random.below(2) == 0 {
                draft.set(key, *random.pick(values));
            }
        }
        draft
    }

    /// The finished plan.
    pub fn finish(mut self) -> Plan {
        self.plan.faults.sort_by_key(|timed| timed.at_us);
        self.plan
    }

    /// A stream of random numbers for one purpose.
    pub fn random(&self, purpose: &str) -> Stream {
        Stream::new(self.seed, &format!("{} {purpose}", self.plan.scenario))
    }

    /// How many NameServers.
    pub fn nameservers(&mut self, count: RangeInclusive<u64>) -> &mut Draft {
        self.plan.nameservers = self.between("nameservers", count) as usize;
        self
    }

    /// How many brokers.
    pub fn brokers(&mut self, count: RangeInclusive<u64>) -> &mut Draft {
        self.plan.brokers = self.between("brokers", count) as usize;
        self
    }

    /// How many slaves each broker has.
    pub fn slaves(&mut self, count: RangeInclusive<u64>) -> &mut Draft {
        self.plan.slaves = self.between("slaves", count) as usize;
        self
    }

    /// One of these modes.
    pub fn flush(&mut self, modes: &[FlushDiskType]) -> &mut Draft {
        let mode = match self.random("flush").pick(modes) {
            FlushDiskType::SyncFlush => "SYNC_FLUSH",
            FlushDiskType::AsyncFlush => "ASYNC_FLUSH",
        };
        self.set("flushDiskType", mode)
    }

    /// A setting of all brokers.
    pub fn set(&mut self, key: &str, value: impl ToString) -> &mut Draft {
        self.plan.settings.insert(key.to_owned(), value.to_string());
        self
    }

    /// So many producers that send so many messages together, each at most one in one of these times.
    pub fn producers(&mut self, count: RangeInclusive<u64>, sends: RangeInclusive<u64>, pace_ms: &[u64]) -> &mut Draft {
        let producers = self.between("producers", count);
        let each = self.between("sends", sends).div_ceil(producers);
        for _ in 0..producers {
            self.producer(each, pace_ms);
        }
        self
    }

    fn producer(&mut self, sends: u64, pace_ms: &[u64]) {
        let index = self.plan.clients.iter().filter(|client| matches!(client, Client::Producer { .. })).count() as u64;
        let name = format!("producer-{index}");
        let mut random = self.random(&name);
        let pace_us = *random.pick(pace_ms) * 1_000;
        let sends = (0..sends).map(|number| Send {
            after_us: random.below(pace_us + 1),
            message: (index + 1) * 10_000 + number,
            bytes: size(&mut random),
            queue: random.below(1_000) as u32,
            delay_level: 0,
            timer_ms: 0,
            recall_ms: 0,
        });
        let sends = sends.collect();
        self.plan.clients.push(Client::Producer { name, sends });
    }

    /// Of 1,000 messages, so many are delayed, by one of the first levels.
    pub fn delayed(&mut self, per_mille: u64) -> &mut Draft {
        let mut random = self.random("delays");
        for client in &mut self.plan.clients {
            if let Client::Producer { sends, .. } = client {
                for send in sends {
                    send.delay_level = if random.chance(per_mille) { random.between(1, 4) as u32 } else { 0 };
                }
            }
        }
        self
    }

    /// Of 1,000 messages, so many wait for a time of their own, between these milliseconds.
    pub fn timed(&mut self, per_mille: u64, wait_ms: RangeInclusive<u64>) -> &mut Draft {
        let mut random = self.random("times");
        for client in &mut self.plan.clients {
            if let Client::Producer { sends, .. } = client {
                for send in sends.iter_mut() {
                    let is_timed = random.chance(per_mille);
                    // Many wait for the same second, and some to the very millisecond.
                    let wait = random.between(*wait_ms.start(), *wait_ms.end()) as u32;
                    send.timer_ms = if is_timed { wait } else { 0 };
                }
            }
        }
        self
    }

    /// Of 1,000 messages that wait, so many are taken back, at any time until they are due and a little later.
    pub fn recalled(&mut self, per_mille: u64) -> &mut Draft {
        let mut random = self.random("recalls");
        for client in &mut self.plan.clients {
            if let Client::Producer { sends, .. } = client {
                for send in sends.iter_mut().filter(|send| send.timer_ms > 0) {
                    let (chosen, near) = (random.chance(per_mille), random.below(2) == 0);
                    let end = u64::from(send.timer_ms) + 1_000;
                    let at = if near { random.between(end.saturating_sub(1_500), end) } else { random.between(1, end) };
                    send.recall_ms = if chosen { at.max(1) as u32 } else { 0 };
                }
            }
        }
        self
    }

    /// Sizes of all bodies.
    pub fn bytes(&mut self, range: RangeInclusive<u64>) -> &mut Draft {
        let mut random = self.random("bytes");
        for client in &mut self.plan.clients {
            if let Client::Producer { sends, .. } = client {
                sends.iter_mut().for_each(|send| send.bytes = random.between(*range.start(), *range.end()) as u32);
            }
        }
        self
    }

    /// Time that passes before the run is judged, whatever clients do.
    pub fn rest(&mut self, millis: u64) -> &mut Draft {
        self.plan.rest_ms = millis;
        self
    }

    /// A consumer group, which hands back so many of 1,000 messages.
    pub fn consumer(&mut self, group: &str, hands_back_per_mille: u64) -> &mut Draft {
        let name = format!("consumer-{group}");
        self.plan.clients.push(Client::Consumer { name, group: group.to_owned(), hands_back_per_mille, at_us: 0 });
        self
    }

    /// So many faults of these kinds, at any time of the workload.
    pub fn faults(&mut self, times: RangeInclusive<u64>, names: &[&str]) -> &mut Draft {
        let purpose = format!("faults {names:?}");
        for index in 0..self.between(&purpose, times) {
            let mut random = self.random(&format!("{purpose} {index}"));
            let name: &&str = random.pick(names);
            let kind = kind(name).expect("a kind of fault");
            self.add(random, kind.draw);
        }
        self
    }

    /// So many faults that the scenario draws itself.
    pub fn fault(&mut self, times: RangeInclusive<u64>, purpose: &str, draw: fn(&mut Draw<'_>) -> Fault) -> &mut Draft {
        for index in 0..self.between(purpose, times) {
            self.add(self.random(&format!("{purpose} {index}")), draw);
        }
        self
    }

    fn add(&mut self, mut random: Stream, draw: fn(&mut Draw<'_>) -> Fault) {
        let window = match self.plan.workload_us() {
            0 => 1_500_000,
            workload => workload,
        };
        // Many early ones, at every scale, since beginnings are where little is settled yet.
        let within = *random.pick(&[window, window, window / 10, window / 100]);
        let at_us = random.below(within.max(1));
        let roster = self.plan.roster();
        let fault = draw(&mut Draw::new(random, &roster));
        self.plan.faults.push(Timed { at_us, fault });
    }

    /// Noise: every kind of fault is on or off; how many are on is drawn first, from nearly none to nearly half. Kinds
    /// of more harm than allowed are left out.
    pub fn swarm(&mut self, allowed: &[Harm]) -> &mut Draft {
        let heat = *self.random("heat").pick(&[30, 120, 400]);
        for kind in kinds().filter(|kind| allowed.contains(&kind.harm)) {
            let mut random = self.random(&format!("swarm {}", kind.name));
            if random.chance(heat) {
                for index in 0..random.between(1, 3) {
                    self.add(self.random(&format!("swarm {} {index}", kind.name)), kind.draw);
                }
            }
        }
        self
    }

    /// In some runs, one of several brokers or NameServers does not come back, and the others must go on without it.
    pub fn minority_lost(&mut self) -> &mut Draft {
        let mut random = self.random("minority");
        let roster = self.plan.roster();
        let spare =
            |names: &[String]| names.len().checked_sub(1).filter(|last| *last > 0).map(|last| names[last].clone());
        let candidates: Vec<String> =
            [spare(&roster.brokers), spare(&roster.nameservers)].into_iter().flatten().collect();
        if !candidates.is_empty() && random.below(3) == 0 {
            let machine = random.pick(&candidates).clone();
            self.plan.lasting.push(Fault::lost_for_good(machine));
        }
        self
    }

    /// So many pairs of faults, the second one at most `within_us` after the first.
    pub fn chained(
        &mut self,
        times: RangeInclusive<u64>,
        purpose: &str,
        [first, second]: [fn(&mut Draw<'_>) -> Fault; 2],
        within_us: u64,
    ) -> &mut Draft {
        for index in 0..self.between(purpose, times) {
            self.add(self.random(&format!("{purpose} {index}")), first);
            let mut random = self.random(&format!("{purpose} {index} then"));
            let after = self.plan.faults.last().map_or(0, |timed| timed.at_us) + random.below(within_us.max(1));
            self.add(random, second);
            self.plan.faults.last_mut().expect("one was just added").at_us = after;
        }
        self
    }

    /// All bodies have a size in this range.
    pub fn sizes(&mut self, bytes: RangeInclusive<u64>) -> &mut Draft {
        let mut random = self.random("sizes");
        for client in &mut self.plan.clients {
            if let Client::Producer { sends, .. } = client {
                sends.iter_mut().for_each(|send| send.bytes = random.between(*bytes.start(), *bytes.end()) as u32);
            }
        }
        self
    }

    /// Changes every fault drawn so far.
    pub fn each_fault(&mut self, change: impl FnMut(&mut Timed)) -> &mut Draft {
        self.plan.faults.iter_mut().for_each(change);
        self
    }

    /// What must hold besides.
    pub fn expect(&mut self, expect: Expect) -> &mut Draft {
        self.plan.expect.push(expect);
        self
    }

    fn between(&self, purpose: &str, range: RangeInclusive<u64>) -> u64 {
        self.random(purpose).between(*range.start(), *range.end())
    }
}

/// Most bodies are small.
fn size(random: &mut Stream) -> u32 {
    let most = *random.pick(&BYTES);
    (8 + random.below(most)) as u32
}
