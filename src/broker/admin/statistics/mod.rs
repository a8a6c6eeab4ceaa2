//! What was sent and read, by topic and group, over the last minute, hour and day; for tools.
//!
//! Whoever sends or reads keeps the counters of its topic or group and counts without a lock. [`Statistics::on_tick`]
//! samples them.

mod rates;
mod series;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::env::Millis;
use crate::proto::body::BrokerStatsData;

pub use rates::Rates;
pub use series::Counter;

use rates::Rate;
use series::{Series, MINUTE_STEP_MS};

/// Milliseconds of a day.
const DAY_MS: i64 = 86_400_000;

/// What is counted of one topic.
#[derive(Debug, Default)]
pub struct TopicCounters {
    /// Messages stored (`TOPIC_PUT_NUMS`).
    pub puts: Counter,
    /// Bytes of their records (`TOPIC_PUT_SIZE`).
    pub put_bytes: Counter,
}

/// What is counted of one group in one topic.
#[derive(Debug, Default)]
pub struct GroupCounters {
    /// Messages read (`GROUP_GET_NUMS`).
    pub gets: Counter,
    /// Bytes of their records (`GROUP_GET_SIZE`).
    pub get_bytes: Counter,
    /// Milliseconds of the reads (`GROUP_GET_LATENCY`).
    pub get_latency: Counter,
    /// Messages handed back (`SNDBCK_PUT_NUMS`).
    pub send_backs: Counter,
}

/// What is counted of the whole broker.
#[derive(Debug, Default)]
pub struct BrokerCounters {
    /// Messages stored (`BROKER_PUT_NUMS`).
    pub puts: Counter,
    /// Messages read (`BROKER_GET_NUMS`).
    pub gets: Counter,
    /// Pulls that found something.
    pub found: Counter,
    /// Pulls that found nothing.
    pub missed: Counter,
    /// Messages that could not be stored.
    pub failed_puts: Counter,
    /// Messages that the timer took in.
    pub timed_in: Counter,
    /// Messages that the timer delivered.
    pub timed_out: Counter,
}

/// The broker's rates, each over 10 s, 60 s and 600 s.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BrokerRates {
    /// Messages stored.
    pub puts: Rates,
    /// Pulls that found something.
    pub found: Rates,
    /// Pulls that found nothing.
    pub missed: Rates,
    /// Messages read.
    pub transferred: Rates,
    /// Messages that the timer took in.
    pub timed_in: Rates,
    /// Messages that the timer delivered.
    pub timed_out: Rates,
}

/// Totals at the last midnights and now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DayTotals {
    /// At the beginning of yesterday.
    pub yesterday_morning: u64,
    /// At the beginning of today.
    pub today_morning: u64,
    /// Now.
    pub now: u64,
}

/// All statistics of a broker. `now` is monotonic time.
#[derive(Debug)]
pub struct Statistics {
    /// Of the whole broker.
    pub broker: BrokerCounters,
    tables: Mutex<Tables>,
}

#[derive(Debug)]
struct Tables {
    now: Millis,
    limit: usize,
    topics: BTreeMap<Arc<str>, TrackedTopic>,
    groups: BTreeMap<(Arc<str>, Arc<str>), TrackedGroup>,
    broker: [Series; 2],
    rates: [Rate; 6],
    day: i64,
    puts: DayTotals,
    gets: DayTotals,
    next_sample: Millis,
}

#[derive(Debug)]
struct TrackedTopic {
    counters: Arc<TopicCounters>,
    series: [Series; 2],
}

#[derive(Debug)]
struct TrackedGroup {
    counters: Arc<GroupCounters>,
    series: [Series; 4],
}

impl Statistics {
    /// Nothing counted yet. At most `limit` topics and `limit` pairs of topic and group are kept apart; of others only
    /// the broker's own counters know.
    pub fn new(now: Millis, limit: usize) -> Statistics {
        let broker = BrokerCounters::default();
        let series = [&broker.puts, &broker.gets].map(|counter| Series::new(now, counter));
        let tables = Tables {
            now,
            limit,
            topics: BTreeMap::new(),
            groups: BTreeMap::new(),
            broker: series,
            rates: Default::default(),
            day: 0,
            puts: DayTotals::default(),
            gets: DayTotals::default(),
            next_sample: now.plus(MINUTE_STEP_MS),
        };
        Statistics { broker, tables: Mutex::new(tables) }
    }

    /// The counters of a topic, to be kept by whoever counts.
    pub fn topic(&self, topic: &str) -> Arc<TopicCounters> {
        let mut tables = self.tables();
        let (now, full) = (tables.now, tables.topics.len() >= tables.limit);
        if let Some(tracked) = tables.topics.get(topic) {
            return tracked.counters.clone();
        }
        let counters = Arc::<TopicCounters>::default();
        if !full {
            let series = [&counters.puts, &counters.put_bytes].map(|counter| Series::new(now, counter));
            tables.topics.insert(topic.into(), TrackedTopic { counters: counters.clone(), series });
        }
        counters
    }

    /// The counters of a group in a topic, to be kept by whoever counts.
    pub fn group(&self, topic: &str, group: &str) -> Arc<GroupCounters> {
        let mut tables = self.tables();
        let (now, full) = (tables.now, tables.groups.len() >= tables.limit);
        let key = (Arc::from(topic), Arc::from(group));
        if let Some(tracked) = tables.groups.get(&key) {
            return tracked.counters.clone();
        }
        let counters = Arc::<GroupCounters>::default();
        if !full {
            let series = counters.all().map(|counter| Series::new(now, counter));
            tables.groups.insert(key, TrackedGroup { counters: counters.clone(), series });
        }
        counters
    }

    /// A topic is deleted: it is forgotten. Whoever still counts in its counters counts for nobody.
    pub fn forget_topic(&self, topic: &str) {
        let mut tables = self.tables();
        tables.topics.remove(topic);
        tables.groups.retain(|(of, _), _| &**of != topic);
    }

    /// A group is deleted: it is forgotten.
    pub fn forget_group(&self, group: &str) {
        self.tables().groups.retain(|(_, of), _| &**of != group);
    }

    /// Samples; due every second. `day` is the number of the local day: at its change the day's totals begin anew.
    pub fn on_tick(&self, now: Millis, day: i64) {
        let broker = &self.broker;
        let mut tables = self.tables();
        tables.now = now;
        if day != tables.day {
            tables.new_day(broker, day);
        }
        let growing = [
            broker.puts.sum(),
            broker.found.calls(),
            broker.missed.calls(),
            broker.gets.sum(),
            broker.timed_in.sum(),
            broker.timed_out.sum(),
        ];
        tables.rates.iter_mut().zip(growing).for_each(|(rate, value)| rate.note(now, value));
        if now < tables.next_sample {
            return;
        }
        tables.next_sample = now.plus(MINUTE_STEP_MS);
        for (series, counter) in tables.broker.iter_mut().zip([&broker.puts, &broker.gets]) {
            series.on_tick(now, counter);
        }
        for TrackedTopic { counters, series } in tables.topics.values_mut() {
            series.iter_mut().zip(counters.all()).for_each(|(series, counter)| series.on_tick(now, counter));
        }
        for TrackedGroup { counters, series } in tables.groups.values_mut() {
            series.iter_mut().zip(counters.all()).for_each(|(series, counter)| series.on_tick(now, counter));
        }
    }

    /// The statistics of that name and key (VIEW_BROKER_STATS_DATA): the key of a topic is its name, of a group
    /// `topic@group`, of the broker its cluster's name.
    pub fn view(&self, name: &str, key: &str, cluster: &str) -> Option<BrokerStatsData> {
        let tables = self.tables();
        let topic = |index: usize| Some(tables.topics.get(key)?.series[index].data());
        let group = |index: usize| {
            let (topic, group) = key.split_once('@')?;
            Some(tables.groups.get(&(topic.into(), group.into()))?.series[index].data())
        };
        let broker = |index: usize| (key == cluster).then(|| tables.broker[index].data());
        match name {
            "TOPIC_PUT_NUMS" => topic(0),
            "TOPIC_PUT_SIZE" => topic(1),
            "GROUP_GET_NUMS" => group(0),
            "GROUP_GET_SIZE" => group(1),
            "GROUP_GET_LATENCY" => group(2),
            "SNDBCK_PUT_NUMS" => group(3),
            "BROKER_PUT_NUMS" => broker(0),
            "BROKER_GET_NUMS" => broker(1),
            _ => None,
        }
    }

    /// Messages stored per second in a topic, over the last minute.
    pub fn put_rate(&self, topic: &str) -> f64 {
        self.tables().topics.get(topic).map_or(0.0, |tracked| tracked.series[0].rate())
    }

    /// Messages read per second by a group in a topic, over the last minute.
    pub fn get_rate(&self, topic: &str, group: &str) -> f64 {
        self.tables().groups.get(&(topic.into(), group.into())).map_or(0.0, |tracked| tracked.series[0].rate())
    }

    /// The broker's rates.
    pub fn rates(&self) -> BrokerRates {
        let [puts, found, missed, transferred, timed_in, timed_out] = self.tables().rates.each_ref().map(Rate::rates);
        BrokerRates { puts, found, missed, transferred, timed_in, timed_out }
    }

    /// Messages stored, and messages read, by day.
    pub fn day_totals(&self) -> (DayTotals, DayTotals) {
        let tables = self.tables();
        let now = |totals: DayTotals, counter: &Counter| DayTotals { now: counter.sum(), ..totals };
        (now(tables.puts, &self.broker.puts), now(tables.gets, &self.broker.gets))
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The number of the local day, for [`Statistics::on_tick`].
pub fn local_day(wall: Millis, utc_offset_seconds: i32) -> i64 {
    wall.plus(i64::from(utc_offset_seconds) * 1000).0.div_euclid(DAY_MS)
}

impl Tables {
    fn new_day(&mut self, broker: &BrokerCounters, day: i64) {
        // The first tick only learns which day it is: everything was counted today.
        if self.day != 0 {
            for (totals, counter) in [(&mut self.puts, &broker.puts), (&mut self.gets, &broker.gets)] {
                totals.yesterday_morning = totals.today_morning;
                totals.today_morning = counter.sum();
            }
        }
        self.day = day;
    }
}

impl TopicCounters {
    fn all(&self) -> [&Counter; 2] {
        [&self.puts, &self.put_bytes]
    }
}

impl GroupCounters {
    fn all(&self) -> [&Counter; 4] {
        [&self.gets, &self.get_bytes, &self.get_latency, &self.send_backs]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_keys() {
        let statistics = Statistics::new(Millis(0), 10);
        statistics.topic("T").puts.add(30);
        statistics.topic("T").put_bytes.add(600);
        statistics.group("T", "g").gets.add(20);
        statistics.broker.puts.add(30);
        for second in 1..=10 {
            statistics.on_tick(Millis(second * 1000), 1);
        }
        let sum = |name, key| statistics.view(name, key, "C").map(|data| data.stats_minute.sum);
        assert_eq!(sum("TOPIC_PUT_NUMS", "T"), Some(30));
        assert_eq!(sum("TOPIC_PUT_SIZE", "T"), Some(600));
        assert_eq!(sum("GROUP_GET_NUMS", "T@g"), Some(20));
        assert_eq!(sum("SNDBCK_PUT_NUMS", "T@g"), Some(0));
        assert_eq!(sum("BROKER_PUT_NUMS", "C"), Some(30));
        for (name, key) in [("TOPIC_PUT_NUMS", "U"), ("GROUP_GET_NUMS", "T"), ("BROKER_PUT_NUMS", "D"), ("X", "T")] {
            assert_eq!(sum(name, key), None, "{name} {key}");
        }
        assert_eq!((statistics.put_rate("T"), statistics.get_rate("T", "g")), (3.0, 2.0));
        statistics.forget_group("g");
        assert_eq!((statistics.put_rate("T"), statistics.get_rate("T", "g")), (3.0, 0.0));
        statistics.forget_topic("T");
        assert_eq!(statistics.put_rate("T"), 0.0);
    }

    #[test]
    fn topics_and_groups_are_bounded() {
        let statistics = Statistics::new(Millis(0), 1);
        for topic in ["T", "U"] {
            statistics.topic(topic).puts.add(1);
            statistics.group(topic, "g").gets.add(1);
        }
        assert!(statistics.view("TOPIC_PUT_NUMS", "T", "C").is_some());
        assert!(statistics.view("TOPIC_PUT_NUMS", "U", "C").is_none());
        assert!(statistics.view("GROUP_GET_NUMS", "U@g", "C").is_none());
    }

    #[test]
    fn days_begin_at_local_midnight() {
        let hour = 3_600_000;
        assert_eq!(local_day(Millis(23 * hour), 0), 0);
        assert_eq!(local_day(Millis(23 * hour), 3600), 1);
        assert_eq!(local_day(Millis(hour), -7200), -1);
        let statistics = Statistics::new(Millis(0), 1);
        for day in 5..8 {
            statistics.on_tick(Millis(day), day);
            statistics.broker.puts.add(10);
        }
        let (puts, gets) = statistics.day_totals();
        assert_eq!(puts, DayTotals { yesterday_morning: 10, today_morning: 20, now: 30 });
        assert_eq!(gets, DayTotals::default());
    }
}
