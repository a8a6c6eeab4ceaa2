//! `metaq cluster`: brokers, whether they are well, and what they do.

mod config;
mod health;

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};

use self::config::{config, ConfigArgs};
use self::health::{health, HealthArgs};
use super::connect::{run as run_on, Cluster, ClusterArgs};
use super::fail::Failure;
use super::show::{span, Cell, ListArgs, Listing};
use crate::config::keys::nearest;
use crate::proto::body::{BrokerData, HaConnectionRuntimeInfo, HaRuntimeInfo};

/// Arguments of `metaq cluster`.
#[derive(Debug, Args)]
pub struct ClusterCommands {
    #[command(subcommand)]
    command: ClusterCommand,
}

#[derive(Debug, Subcommand)]
enum ClusterCommand {
    /// List brokers: where they are and how they are
    List(BrokersArgs),
    Health(HealthArgs),
    Config(ConfigArgs),
    /// Show what brokers take and give, and how full they are
    Stats(BrokersArgs),
}

/// Arguments of `metaq cluster list` and `stats`.
#[derive(Debug, Args)]
pub struct BrokersArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    #[command(flatten)]
    pub list: ListArgs,
}

/// Runs `metaq cluster`.
pub fn run(args: ClusterCommands) -> Result<ExitCode> {
    match args.command {
        ClusterCommand::List(args) => run_on(&args.cluster.clone(), |cluster| list(cluster, args)),
        ClusterCommand::Health(args) => run_on(&args.cluster.clone(), |cluster| health(cluster, args)),
        ClusterCommand::Config(args) => run_on(&args.cluster.clone(), |cluster| config(cluster, args)),
        ClusterCommand::Stats(args) => run_on(&args.cluster.clone(), |cluster| stats(cluster, args)),
    }
}

/// A broker process.
struct Broker {
    cluster: String,
    name: String,
    id: i64,
    address: String,
    /// Its own words, or why there are none.
    state: Result<BTreeMap<String, String>, crate::client::Error>,
    /// How replication stands there, if it tells.
    replication: Option<HaRuntimeInfo>,
}

impl Broker {
    fn text(&self, key: &str) -> Option<&str> {
        self.state.as_ref().ok()?.get(key).map(String::as_str)
    }

    /// The first of the numbers under a key: rates are those of 10 s, 1 min and 10 min.
    fn number(&self, key: &str) -> Option<f64> {
        self.text(key)?.split_whitespace().next()?.parse().ok()
    }

    /// What its master says of a slave.
    fn at_master<'a>(&self, all: &'a [Broker]) -> Option<&'a HaConnectionRuntimeInfo> {
        let master = all.iter().find(|other| other.id == 0 && other.name == self.name && self.id != 0)?;
        let slaves = &master.replication.as_ref()?.ha_connection_info;
        // An Apache master knows only where a slave comes from.
        let same_host = |slave: &&HaConnectionRuntimeInfo| host(&slave.addr) == host(&self.address);
        let same = slaves.iter().find(|slave| slave.broker_id == Some(self.id));
        same.or_else(|| slaves.iter().filter(|slave| slave.broker_id.is_none()).find(same_host))
    }

    /// Of a master: how many slaves are in sync. Of a slave: whether it is.
    fn in_sync(&self, all: &[Broker]) -> Cell {
        match (self.id, &self.replication) {
            (0, Some(state)) => {
                let slaves = all.iter().filter(|other| other.name == self.name && other.id != 0).count();
                Cell::text(format!("{} of {slaves}", state.in_sync_slave_nums))
            }
            (0, None) => Cell::None,
            _ => match self.at_master(all) {
                Some(slave) => Cell::text(if slave.in_sync { "yes" } else { "no" }),
                None => Cell::text("no"),
            },
        }
    }

    /// Of a slave: the bytes it lacks, and for how many milliseconds it has lacked any, as far as its master knows.
    fn lag(&self, all: &[Broker]) -> Option<(Option<i64>, Option<i64>)> {
        let slave = self.at_master(all)?;
        Some(((slave.diff >= 0).then_some(slave.diff), slave.behind_millis))
    }

    /// The columns that say who is in sync, and how far a slave is behind in bytes, in time, and in words.
    fn replicated(&self, all: &[Broker]) -> [Cell; 4] {
        let lag = self.lag(all);
        [
            self.in_sync(all),
            lag.and_then(|(bytes, _)| bytes).map_or(Cell::None, Cell::Number),
            lag.and_then(|(_, millis)| millis).map_or(Cell::None, Cell::Number),
            lag.map_or(Cell::None, |(bytes, millis)| Cell::text(lag_text(bytes, millis))),
        ]
    }

    fn today(&self, what: &str) -> Cell {
        let number = |key: &str| self.number(&format!("msg{what}Total{key}"));
        match (number("TodayNow"), number("TodayMorning")) {
            (Some(now), Some(morning)) => Cell::Number((now - morning) as i64),
            _ => Cell::None,
        }
    }
}

/// All brokers of the routes, asked how they are.
async fn brokers(cluster: &Cluster) -> Result<Vec<Broker>> {
    let mut brokers = Vec::new();
    for (name, data) in cluster.admin.clusters().await?.broker_addr_table {
        for (id, address) in data.broker_addrs {
            let state = cluster.admin.broker_state(&address).await;
            // RocketMQ before 5.0 does not know the question.
            let replication = cluster.admin.replication(&address).await.ok();
            let (cluster, name) = (data.cluster.clone(), name.clone());
            brokers.push(Broker { cluster, name, id, address, state, replication });
        }
    }
    Ok(brokers)
}

/// The name and the master's address of a broker that is called by its name or, as Apache's tools do, by an address.
///
/// # Errors
/// If there is no such broker.
pub async fn master(cluster: &Cluster, broker: &str) -> Result<(String, String)> {
    let table = cluster.admin.clusters().await?.broker_addr_table;
    if let Some(address) = table.get(broker).and_then(|data| data.broker_addrs.get(&0)) {
        return Ok((broker.to_owned(), address.clone()));
    }
    let has_it = |data: &&BrokerData| data.broker_addrs.get(&0).is_some_and(|address| address == broker);
    if let Some(data) = table.values().find(has_it) {
        return Ok((data.broker_name.clone(), broker.to_owned()));
    }
    let failure = Failure::refused(format!("broker `{broker}` is not registered"));
    let list = cluster.command("cluster list");
    Err(match nearest(broker, table.keys().map(String::as_str)) {
        Some(near) => failure.hint(format!("did you mean `{near}`? list all with {list}")),
        None => failure.hint(format!("list all with {list}")),
    }
    .into())
}

/// The same of a broker that may be named.
///
/// # Errors
/// If there is no such broker.
pub async fn master_if(cluster: &Cluster, broker: Option<&str>) -> Result<Option<(String, String)>> {
    match broker {
        Some(broker) => master(cluster, broker).await.map(Some),
        None => Ok(None),
    }
}

fn none_registered(cluster: &Cluster) {
    cluster.hint("start a broker with", "broker");
}

/// `metaq cluster list`
pub async fn list(cluster: Cluster, args: BrokersArgs) -> Result<ExitCode> {
    let columns = [
        ("cluster", "CLUSTER"),
        ("broker", "BROKER"),
        ("id", "ID"),
        ("role", "ROLE"),
        ("address", "ADDRESS"),
        ("inSync", "IN SYNC"),
        ("lagBytes", ""),
        ("lagMillis", ""),
        ("lag", "LAG"),
        ("version", "VERSION"),
        ("inPerSecond", "IN/S"),
        ("outPerSecond", "OUT/S"),
        ("state", "STATE"),
    ];
    let mut listing = Listing::new(&columns, "no broker is registered");
    let all = brokers(&cluster).await?;
    for broker in &all {
        let rate = |key: &str| broker.number(key).map_or(Cell::None, Cell::Rate);
        let [in_sync, bytes, millis, lag] = broker.replicated(&all);
        listing.push(vec![
            Cell::text(&broker.cluster),
            Cell::text(&broker.name),
            Cell::Number(broker.id),
            Cell::text(if broker.id == 0 { "master" } else { "slave" }),
            Cell::text(&broker.address),
            in_sync,
            bytes,
            millis,
            lag,
            Cell::maybe(broker.text("brokerVersionDesc")),
            rate("putTps"),
            rate("getTransferredTps"),
            match &broker.state {
                Ok(_) => Cell::text("up"),
                Err(_) => Cell::text("does not answer"),
            },
        ]);
    }
    cluster.screen.list(&listing, &args.list)?;
    if listing.rows.is_empty() && !args.list.json.json {
        none_registered(&cluster);
    }
    Ok(ExitCode::SUCCESS)
}

/// `metaq cluster stats`
pub async fn stats(cluster: Cluster, args: BrokersArgs) -> Result<ExitCode> {
    let columns = [
        ("broker", "BROKER"),
        ("id", "ID"),
        ("upSeconds", ""),
        ("up", "UP"),
        ("inPerSecond", "IN/S"),
        ("outPerSecond", "OUT/S"),
        ("inToday", "IN TODAY"),
        ("outToday", "OUT TODAY"),
        ("inSync", "IN SYNC"),
        ("lagBytes", ""),
        ("lagMillis", ""),
        ("lag", "LAG"),
        ("logBytes", ""),
        ("log", "LOG"),
        ("diskShare", "DISK"),
        ("indexBehindBytes", "INDEX BEHIND"),
        ("waitingPulls", "WAITING PULLS"),
        ("oldest", "OLDEST"),
    ];
    let mut listing = Listing::new(&columns, "no broker is registered");
    let now = cluster.now();
    let all = brokers(&cluster).await?;
    for broker in &all {
        let [in_sync, bytes, millis, lag] = broker.replicated(&all);
        let whole = |key: &str| broker.number(key).map(|number| number as i64);
        let number = |key: &str| whole(key).map_or(Cell::None, Cell::Number);
        let rate = |key: &str| broker.number(key).map_or(Cell::None, Cell::Rate);
        let up = whole("bootTimestamp").map(|boot| now.0 - boot);
        let log = whole("commitLogMaxOffset").zip(whole("commitLogMinOffset")).map(|(max, min)| max - min);
        let disk = broker.number("commitLogDiskRatio");
        listing.push(vec![
            Cell::text(&broker.name),
            Cell::Number(broker.id),
            up.map_or(Cell::None, |up| Cell::Number(up / 1000)),
            up.map_or(Cell::text("does not answer"), |up| Cell::text(span(up))),
            rate("putTps"),
            rate("getTransferredTps"),
            broker.today("Put"),
            broker.today("Get"),
            in_sync,
            bytes,
            millis,
            lag,
            log.map_or(Cell::None, Cell::Number),
            log.map_or(Cell::None, |bytes| Cell::text(size(bytes))),
            disk.map_or(Cell::None, |share| Cell::text(format!("{:.0}%", share * 100.0))),
            number("dispatchBehindBytes"),
            number("pullThreadPoolQueueSize"),
            Cell::time(whole("earliestMessageTimeStamp").unwrap_or(0)),
        ]);
    }
    cluster.screen.list(&listing, &args.list)?;
    if listing.rows.is_empty() && !args.list.json.json {
        none_registered(&cluster);
    }
    Ok(ExitCode::SUCCESS)
}

fn host(address: &str) -> &str {
    address.trim_start_matches('/').rsplit_once(':').map_or(address, |(host, _)| host)
}

/// `0 B`, or `1.5 KiB, 2 s`; REP-7: what is not known is said so.
fn lag_text(bytes: Option<i64>, millis: Option<i64>) -> String {
    match (bytes, millis) {
        (None, _) => "unknown".to_owned(),
        (Some(bytes @ 0), _) | (Some(bytes), None) => size(bytes),
        (Some(bytes), Some(millis)) => format!("{}, {}", size(bytes), span(millis)),
    }
}

/// Bytes for eyes.
pub fn size(bytes: i64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut size, mut unit) = (bytes as f64, 0);
    while size >= 1024.0 && unit + 1 < units.len() {
        (size, unit) = (size / 1024.0, unit + 1);
    }
    if unit == 0 {
        format!("{bytes} B")
    } else {
        format!("{size:.1} {}", units[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::{lag_text, size};

    #[test]
    fn sizes() {
        assert_eq!(lag_text(None, None), "unknown");
        assert_eq!(
            (lag_text(Some(0), Some(0)), lag_text(Some(1536), Some(2000))),
            ("0 B".into(), "1.5 KiB, 2s".into())
        );
        assert_eq!((size(12), size(1536), size(5 << 30)), ("12 B".into(), "1.5 KiB".into(), "5.0 GiB".into()));
    }
}
