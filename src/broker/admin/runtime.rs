//! The broker as a whole: GET_BROKER_CONFIG (26), GET_BROKER_RUNTIME_INFO (28), VIEW_BROKER_STATS_DATA (315).

use std::collections::BTreeMap;

use crate::config::broker::BrokerConfig;
use crate::env::{Millis, Space};
use crate::proto::body::{DataVersion, KvTable};
use crate::proto::message::record::{self, BodyCrc, Parsed};
use crate::proto::remoting::requests::GetBrokerConfigResponse;
use crate::proto::remoting::{response, version, Response};
use crate::proto::PhysicalOffset;
use crate::store::Store;

use super::statistics::{DayTotals, Statistics};
use super::{json, Answer};

/// 26
pub fn broker_config(config: &BrokerConfig, version: &DataVersion) -> Answer {
    let version = GetBrokerConfigResponse { version: version.to_text().into() };
    Ok(Response::success().with_ext(&version).with_body(config.to_properties()))
}

/// 315
pub fn stats_data(name: &str, key: &str, cluster: &str, statistics: &Statistics) -> Answer {
    Ok(match statistics.view(name, key, cluster) {
        Some(data) => json(&data),
        None => Response::error(response::SYSTEM_ERROR, format!("The stats <{name}> <{key}> not exist")),
    })
}

/// How far the delivery of one delay level is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayProgress {
    /// The level, from 1 on.
    pub level: i32,
    /// The next entry to deliver.
    pub delivered: u64,
    /// Behind the last entry.
    pub max: u64,
}

/// How replication stands.
#[derive(Clone, Copy, Debug)]
pub struct Copies<'a> {
    /// Nodes that have to hold a message before it is answered with success, this one included.
    pub needed: usize,
    /// Nodes in sync, this one included.
    pub in_sync: usize,
    /// Who copies this broker's log.
    pub slaves: &'a [Copy],
}

/// A slave as its master sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copy {
    /// Its broker id, or its machine if it says none.
    pub name: String,
    /// Bytes of the log that it lacks, once it has said how far it is.
    pub behind: Option<u64>,
    /// For how long it has lacked any, in milliseconds.
    pub behind_ms: u64,
    /// Whether it counts for what is replicated.
    pub in_sync: bool,
}

/// What the runtime information is made of beside the store and the statistics.
#[derive(Clone, Copy, Debug)]
pub struct RuntimeFacts<'a> {
    /// The settings.
    pub config: &'a BrokerConfig,
    /// When the broker started.
    pub started: Millis,
    /// The wall clock's time.
    pub wall: Millis,
    /// The partitions of the commit log and of the consume queues, if known.
    pub space: (Option<Space>, Option<Space>),
    /// The delay levels that were ever used.
    pub delays: &'a [DelayProgress],
    /// Pulls that wait for messages.
    pub parked_pulls: usize,
    /// How replication stands, at a master.
    pub copies: Option<Copies<'a>>,
    /// How far the timer is.
    pub timer: TimerFacts,
}

/// How far the timer is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimerFacts {
    /// Seconds that it is late with what waits.
    pub seconds_behind: i64,
    /// Messages with a time that it has not taken in.
    pub not_taken_in: u64,
    /// Messages that it is delivering.
    pub under_way: u64,
}

/// 28: every key that tools read without looking whether it is there. What this broker does not have (thread pools, a page
/// cache lock) is 0.
pub fn runtime_info(facts: &RuntimeFacts<'_>, store: &Store, statistics: &Statistics) -> Answer {
    let mut table = Table::default();
    table.identity(facts);
    table.rates(statistics);
    table.puts(store, statistics);
    table.days(statistics);
    table.store(facts, store);
    table.delays(facts.delays);
    table.queues(facts);
    table.copies(facts.copies);
    table.timer(facts.timer, statistics);
    Ok(json(&KvTable { table: table.0 }))
}

/// Names and texts being gathered.
#[derive(Default)]
struct Table(BTreeMap<String, String>);

impl Table {
    fn put(&mut self, key: impl Into<String>, value: impl ToString) {
        self.0.insert(key.into(), value.to_string());
    }

    fn identity(&mut self, facts: &RuntimeFacts<'_>) {
        self.put("brokerVersionDesc", version::name(version::CURRENT));
        self.put("brokerVersion", version::CURRENT);
        self.put("brokerActive", true);
        self.put("bootTimestamp", facts.started.0);
        self.put("runtime", uptime(facts.wall.since(facts.started)));
        self.put("startAcceptSendRequestTimeStamp", facts.config.start_accept_send_request_timestamp);
    }

    fn rates(&mut self, statistics: &Statistics) {
        let rates = statistics.rates();
        let mut total = rates.found;
        total.0.iter_mut().zip(rates.missed.0).for_each(|(sum, missed)| *sum += missed);
        self.put("putTps", rates.puts);
        self.put("getFoundTps", rates.found);
        self.put("getMissTps", rates.missed);
        self.put("getTotalTps", total);
        // Tools of both generations read one of the two spellings.
        self.put("getTransferredTps", rates.transferred);
        self.put("getTransferedTps", rates.transferred);
    }

    fn puts(&mut self, store: &Store, statistics: &Statistics) {
        let stored = store.statistics();
        let average = stored.bytes_appended as f64 / stored.messages_appended.max(1) as f64;
        self.put("putMessageTimesTotal", stored.messages_appended);
        self.put("putMessageFailedTimes", statistics.broker.failed_puts.sum());
        self.put("putMessageSizeTotal", stored.bytes_appended);
        self.put("putMessageAverageSize", format!("{average:?}"));
        self.put("putMessageDistributeTime", "");
        for key in ["putMessageEntireTimeMax", "getMessageEntireTimeMax", "dispatchMaxBuffer"] {
            self.put(key, 0);
        }
        for key in ["putLatency99", "putLatency999"] {
            self.put(key, "0.0");
        }
    }

    fn days(&mut self, statistics: &Statistics) {
        let (puts, gets) = statistics.day_totals();
        for (name, DayTotals { yesterday_morning, today_morning, now }) in [("Put", puts), ("Get", gets)] {
            self.put(format!("msg{name}TotalYesterdayMorning"), yesterday_morning);
            self.put(format!("msg{name}TotalTodayMorning"), today_morning);
            self.put(format!("msg{name}TotalTodayNow"), now);
        }
    }

    fn store(&mut self, facts: &RuntimeFacts<'_>, store: &Store) {
        let (min, end, flushed, dispatched) = (store.min().0, store.end().0, store.flushed().0, store.dispatched().0);
        let (log, queues) = facts.space;
        self.put("commitLogMinOffset", min);
        self.put("commitLogMaxOffset", end);
        self.put("commitLogDiskRatio", ratio(log));
        self.put(format!("commitLogDiskRatio_{}", store.options().commit_log_dir.display()), ratio(log));
        self.put("consumeQueueDiskRatio", ratio(queues));
        let Space { total, available } = log.unwrap_or(Space { total: 0, available: 0 });
        self.put("commitLogDirCapacity", format!("Total : {}, Free : {}.", bytes(total), bytes(available)));
        self.put("dispatchBehindBytes", end.saturating_sub(dispatched));
        self.put("earliestMessageTimeStamp", earliest_store_time(store).map_or(-1, |time| time.0));
        self.put("pageCacheLockTimeMills", 0);
        // What RocketMQ answers without its buffer pool.
        self.put("remainTransientStoreBufferNumbs", i32::MAX);
        self.put("remainHowManyDataToCommit", bytes(0));
        self.put("remainHowManyDataToFlush", bytes(end.saturating_sub(flushed)));
    }

    fn delays(&mut self, delays: &[DelayProgress]) {
        for DelayProgress { level, delivered, max } in delays {
            self.put(format!("scheduleMessageOffset_{level}"), format!("{delivered},{max}"));
        }
    }

    /// Our own keys: RocketMQ tells of slaves only when asked with GET_BROKER_HA_STATUS (907).
    fn copies(&mut self, copies: Option<Copies<'_>>) {
        let Some(Copies { needed, in_sync, slaves }) = copies else { return };
        self.put("haNodesNeeded", needed);
        self.put("haNodesInSync", in_sync);
        for Copy { name, behind, behind_ms, in_sync } in slaves {
            self.put(format!("haSlaveInSync_{name}"), in_sync);
            self.put(format!("haSlaveLagBytes_{name}"), behind.map_or(-1, |behind| behind as i64));
            self.put(format!("haSlaveLagSeconds_{name}"), format!("{:?}", *behind_ms as f64 / 1000.0));
        }
    }

    fn timer(&mut self, timer: TimerFacts, statistics: &Statistics) {
        let rates = statistics.rates();
        self.put("timerReadBehind", timer.seconds_behind);
        self.put("timerOffsetBehind", timer.not_taken_in);
        self.put("timerCongestNum", timer.under_way);
        for (key, rate) in [("timerEnqueueTps", rates.timed_in), ("timerDequeueTps", rates.timed_out)] {
            let [last_seconds, ..] = rate.0;
            self.put(key, format!("{last_seconds:?}"));
        }
    }

    fn queues(&mut self, facts: &RuntimeFacts<'_>) {
        for name in ["send", "pull", "litePull", "query", "ack"] {
            self.put(format!("{name}ThreadPoolQueueSize"), 0);
            self.put(format!("{name}ThreadPoolQueueCapacity"), 0);
            self.put(format!("{name}ThreadPoolQueueHeadWaitTimeMills"), 0);
        }
        self.put("EndTransactionQueueSize", 0);
        self.put("EndTransactionThreadPoolQueueCapacity", 0);
        self.put("pullThreadPoolQueueSize", facts.parked_pulls);
        self.put("pullThreadPoolQueueCapacity", facts.config.parked_pulls_max);
    }
}

/// When the oldest message that is still there was stored.
fn earliest_store_time(store: &Store) -> Option<Millis> {
    let mut bytes = Vec::new();
    let start = PhysicalOffset(store.min().0);
    store.record_at(start, &mut bytes).ok()?;
    match record::parse(&bytes, BodyCrc::Trust) {
        Ok(Parsed::Record(record)) => Some(record.store_timestamp()),
        _ => None,
    }
}

/// `[ 0 days, 1 hours, 2 minutes, 3 seconds ]`
fn uptime(millis: u64) -> String {
    let seconds = millis / 1000;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    format!("[ {days} days, {hours} hours, {minutes} minutes, {} seconds ]", seconds % 60)
}

/// The used part of a partition, 0 to 1.
fn ratio(space: Option<Space>) -> String {
    let used = |space: Space| (space.total.saturating_sub(space.available)) as f64 / space.total.max(1) as f64;
    format!("{:?}", space.map_or(0.0, used))
}

/// `100.0 GiB`
fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if count < 1024 {
        return format!("{count} B");
    }
    let exponent = count.ilog2() / 10;
    format!("{:.1} {}", count as f64 / (1u64 << (10 * exponent)) as f64, UNITS[exponent as usize - 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_as_rocketmq_writes_them() {
        assert_eq!(uptime(3_723_999), "[ 0 days, 1 hours, 2 minutes, 3 seconds ]");
        assert_eq!(uptime(90_000_000), "[ 1 days, 1 hours, 0 minutes, 0 seconds ]");
        assert_eq!((bytes(0), bytes(1023), bytes(1024)), ("0 B".into(), "1023 B".into(), "1.0 KiB".into()));
        assert_eq!((bytes(100 << 30), bytes(u64::MAX)), ("100.0 GiB".into(), "16.0 EiB".into()));
        assert_eq!(ratio(Some(Space { total: 100, available: 25 })), "0.75");
        assert_eq!(ratio(None), "0.0");
    }
}
