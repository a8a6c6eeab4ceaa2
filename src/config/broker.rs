//! Settings of a broker: the keys of RocketMQ's `broker.conf` that mean something here.

mod changes;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{keys, properties};
use crate::proto::message::DelayLevels;

pub use super::keys::SetError;
pub use changes::{Update, UpdateError, Warning};

/// What a broker is to its group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum BrokerRole {
    /// Takes messages and answers before slaves have them.
    #[default]
    AsyncMaster,
    /// Takes messages and answers once slaves have them.
    SyncMaster,
    /// Copies a master.
    Slave,
}

/// When a message counts as stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum FlushDiskType {
    /// Once it is in the page cache.
    #[default]
    AsyncFlush,
    /// Once it has survived a sync.
    SyncFlush,
}

macro_rules! settings {
    ($($(#[$attribute:meta])* $name:ident: $type:ty = $default:expr;)+) => {
        /// Settings of a broker, with RocketMQ's keys and defaults. Times are in milliseconds, sizes in bytes, unless
        /// a key's comment says otherwise.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        pub struct BrokerConfig {
            $($(#[$attribute])* pub $name: $type,)+
        }

        impl Default for BrokerConfig {
            fn default() -> BrokerConfig {
                BrokerConfig { $($name: $default,)+ }
            }
        }
    };
}

settings! {
    // Who it is and where it listens.
    /// The file these settings came from, where those that a request changes are written to; by default
    /// `config/broker.properties` in the store.
    broker_config_path: String = String::new();
    /// The cluster.
    broker_cluster_name: String = "DefaultCluster".to_owned();
    /// The group of master and slaves; by default the host's name, filled in at start.
    broker_name: String = String::new();
    /// 0 is the master.
    broker_id: u64 = 0;
    /// The role.
    broker_role: BrokerRole = BrokerRole::AsyncMaster;
    /// The address told to clients; by default the machine's own, filled in at start.
    #[serde(rename = "brokerIP1")]
    broker_ip1: String = String::new();
    /// The address told to slaves; by default `brokerIP1`.
    #[serde(rename = "brokerIP2")]
    broker_ip2: String = String::new();
    /// The port for clients; old ones use the port two below.
    listen_port: u16 = 10911;
    /// The port for slaves; 0 is `listenPort` + 1.
    ha_listen_port: u16 = 0;
    /// NameServers, `host:port` joined by `;`; by default the environment's NAMESRV_ADDR.
    namesrv_addr: String = String::new();
    /// Permission bits of the whole broker: 4 read, 2 write.
    broker_permission: i32 = 6;
    /// How often it registers, 10 s to 60 s.
    register_name_server_period: u64 = 30_000;
    /// How long it waits for a NameServer.
    #[serde(rename = "registerBrokerTimeoutMills")]
    register_broker_timeout_ms: u64 = 24_000;
    /// Register with a zlib body.
    compressed_register: bool = false;
    /// Seconds without traffic until a connection is closed.
    server_channel_max_idle_time_seconds: u64 = 120;
    /// The region stamped on messages.
    region_id: String = "DefaultRegion".to_owned();
    /// Tell clients to trace.
    trace_on: bool = true;

    // Topics and groups.
    /// Create topics on the first send.
    auto_create_topic_enable: bool = true;
    /// Create groups on the first heartbeat, pull or hand-back.
    auto_create_subscription_group: bool = true;
    /// Queues of `TBW102`.
    default_topic_queue_nums: i32 = 8;
    /// The topic named like the cluster can be used.
    cluster_topic_enable: bool = true;
    /// The topic named like the broker can be used.
    broker_topic_enable: bool = true;
    /// Make the topic for traces.
    trace_topic_enable: bool = false;
    /// The topic for traces.
    msg_trace_topic_name: String = "RMQ_SYS_TRACE_TOPIC".to_owned();
    /// Refuse to create topics with names of system topics.
    #[serde(rename = "validateSystemTopicWhenUpdateTopic")]
    validate_system_topic: bool = true;
    /// Queues of the revive topic.
    revive_queue_num: i32 = 8;

    // Sending.
    /// Most bytes of a message body.
    max_message_size: u32 = 4 * 1024 * 1024;
    /// The delay levels.
    message_delay_level: String = crate::proto::message::delay_levels::DEFAULT.to_owned();
    /// Take no sends before this time, ms since 1970.
    #[serde(rename = "startAcceptSendRequestTimeStamp")]
    start_accept_send_request_timestamp: i64 = 0;
    /// How long a send waits for its sync.
    sync_flush_timeout: u64 = 5_000;
    /// How long a send waits for slaves.
    slave_timeout: u64 = 3_000;
    /// Copies a send waits for at a SYNC_MASTER, the master's included; 0 is 2.
    in_sync_replicas: u32 = 0;
    /// With fewer nodes in sync, the master included, a SYNC_MASTER takes nothing.
    min_in_sync_replicas: u32 = 1;

    // Replication.
    /// Where a slave finds its master's log, `host:port`; by default NameServers tell.
    ha_master_address: String = String::new();
    /// Most bytes of the log in a frame to a slave.
    ha_transfer_batch_size: u32 = 32 * 1024;
    /// Send a slave no more of the log than `maxHaTransferByteInSecond`.
    ha_flow_control_enable: bool = false;
    /// Bytes of the log that a slave gets in a second.
    max_ha_transfer_byte_in_second: u64 = 100 << 20;
    /// A slave that lacks more bytes than this is not in sync.
    ha_max_gap_not_in_sync: u64 = 256 << 20;

    // Messages with a time of their own.
    /// Take messages that say when they are to be delivered. Those taken before are delivered anyway.
    timer_wheel_enable: bool = true;
    /// How far ahead that may be, in seconds.
    timer_max_delay_sec: u64 = 259_200;
    /// Let producers take such messages back.
    recall_message_enable: bool = false;

    // Consuming.
    /// Let pulls wait for messages.
    long_polling_enable: bool = true;
    /// How long a pull waits without long polling.
    #[serde(rename = "shortPollingTimeMills")]
    short_polling_time_ms: u64 = 1_000;
    /// Serve LITE_PULL_MESSAGE.
    lite_pull_message_enable: bool = true;
    /// Leave consumers that pull on their own account out of groups.
    reject_pull_consumer_enable: bool = false;
    /// Evaluate SQL92 filters.
    enable_property_filter: bool = false;
    /// Serve pulls on a slave while its master is there; without one a slave always serves them.
    slave_read_enable: bool = false;
    /// Correct offsets that a slave does not have, like a master; else the group keeps them until it has.
    offset_check_in_slave: bool = false;
    /// Carry out offset resets at the next pull, without asking the clients.
    use_server_side_reset_offset: bool = true;
    /// Keep the replies of request-reply as messages too.
    store_reply_message_enable: bool = true;
    /// Tell members at once when a group changes, else every 15 s.
    real_time_notify_consumer_change: bool = true;
    /// How long a subscription seen only in pulls is remembered.
    subscription_expired_timeout: u64 = 600_000;
    /// Most messages of a pull from memory.
    max_transfer_count_on_message_in_memory: u32 = 32;
    /// Most bytes of a pull from memory.
    max_transfer_bytes_on_message_in_memory: u32 = 256 * 1024;
    /// Most messages of a pull from disk. RocketMQ's 8 would make a backlog slower than its head.
    max_transfer_count_on_message_in_disk: u32 = 32;
    /// Most bytes of a pull from disk; RocketMQ's are 64 KiB.
    max_transfer_bytes_on_message_in_disk: u32 = 256 * 1024;
    /// Percent of the machine's memory that count as "in memory".
    access_message_in_memory_max_ratio: u32 = 40;
    /// How often consumer offsets are written.
    flush_consumer_offset_interval: u64 = 5_000;
    /// How often delay progress is written.
    flush_delay_offset_interval: u64 = 10_000;
    /// Commits per step of the offsets' data version.
    consumer_offset_update_version_step: u64 = 500;
    /// Deliveries per step of the delay progress's data version.
    delay_offset_update_version_step: u64 = 200;

    // Transactions.
    /// Refuse half messages.
    reject_transaction_message: bool = false;
    /// The age of a half message from which on its producer is asked, unless the message says another one.
    transaction_time_out: u64 = 6_000;
    /// How often a producer is asked about one message until that is given up.
    transaction_check_max: u32 = 15;
    /// How often producers are asked.
    transaction_check_interval: u64 = 30_000;

    // The store.
    /// Where everything is.
    store_path_root_dir: String = "store".to_owned();
    /// Where the commit log is; by default `commitlog` in the root.
    store_path_commit_log: String = String::new();
    /// Bytes of a commit-log file.
    mapped_file_size_commit_log: u64 = 1 << 30;
    /// Bytes of a consume-queue file: a multiple of 20.
    mapped_file_size_consume_queue: u64 = 6_000_000;
    /// When a message counts as stored.
    flush_disk_type: FlushDiskType = FlushDiskType::AsyncFlush;
    /// How often the log is synced under ASYNC_FLUSH.
    flush_interval_commit_log: u64 = 500;
    /// Hours of the day in which expired files are deleted, joined by `;`.
    delete_when: String = "04".to_owned();
    /// Hours a file is kept after its last write.
    file_reserved_time: u64 = 72;
    /// Percent of the disk from which on expired files are deleted at any hour.
    disk_max_used_space_ratio: u32 = 75;
    /// Percent from which on files are deleted, expired or not.
    disk_space_clean_forcibly_ratio: u32 = 85;
    /// Percent from which on sends are refused.
    disk_space_warning_level_ratio: u32 = 90;
    /// Delete files that have not expired when the disk runs full.
    clean_file_forcibly_enable: bool = true;
    /// How often the store looks for files to delete.
    clean_resource_interval: u64 = 10_000;
    /// Keep an index of keys.
    message_index_enable: bool = true;
    /// Slots of an index file.
    max_hash_slot_num: u32 = 5_000_000;
    /// Entries of an index file.
    max_index_num: u32 = 20_000_000;

    // Bounds that RocketMQ has no key for.
    /// Most bytes of one connection's sends in flight, and as many of its other requests.
    in_flight_bytes_per_session: usize = 64 << 20;
    /// Most bytes of all sends in flight, and as many of large frames that are coming in.
    in_flight_bytes_per_broker: usize = 512 << 20;
    /// Most bytes of all other requests in flight.
    in_flight_request_bytes_per_broker: usize = 128 << 20;
    /// Most connections.
    sessions_max: usize = 50_000;
    /// Most waiting pulls.
    parked_pulls_max: usize = 100_000;
    /// Most topics.
    topics_max: usize = 100_000;
    /// Most subscription groups.
    groups_max: usize = 100_000;
    /// Most registrations of producers and consumers.
    clients_max: usize = 500_000;
    /// Most queue locks.
    locks_max: usize = 1_000_000;
    /// Most queues of groups with an offset.
    offsets_max: usize = 2_000_000;
    /// Most half messages whose producers have not decided.
    half_messages_max: usize = 1_000_000;

    // De-duplication, off unless a window is given here or by a topic's attribute `deduplication.window`.
    /// For how many ms a send is known by its UNIQ_KEY, in topics that do not say so themselves; 0: not at all.
    deduplication_window_ms: u64 = 0;
    /// Most keys known, of all topics together; the oldest are forgotten first.
    deduplication_max_keys: usize = 1_000_000;

    /// Keys no request may change, joined by `;`.
    config_black_list: String = "configBlackList;brokerConfigPath".to_owned();
}

/// The most bytes of a cluster's or broker's name.
const NAME_BYTES_MAX: usize = 127;

impl BrokerConfig {
    /// Takes what the environment says: NAMESRV_ADDR, unless a file or flag names NameServers.
    pub fn apply_environment(&mut self, variable: impl Fn(&str) -> Option<String>) {
        if self.namesrv_addr.is_empty() {
            self.namesrv_addr = variable("NAMESRV_ADDR").unwrap_or_default();
        }
    }

    /// Where settings that a request changes are kept.
    pub fn settings_path(&self) -> PathBuf {
        match self.broker_config_path.as_str() {
            "" => Path::new(&self.store_path_root_dir).join("config").join("broker.properties"),
            path => PathBuf::from(path),
        }
    }

    /// GET_BROKER_CONFIG: all keys with their values, `key=value` a line.
    pub fn to_properties(&self) -> String {
        let mut shown = self.clone();
        shown.ha_listen_port = self.ha_port();
        let mut text = String::new();
        for (key, value) in keys::list(&shown) {
            properties::write(&mut text, &key, &value);
        }
        text
    }

    /// The port for slaves.
    pub fn ha_port(&self) -> u16 {
        if self.ha_listen_port == 0 {
            self.listen_port.wrapping_add(1)
        } else {
            self.ha_listen_port
        }
    }

    /// Copies a send waits for, the master's included.
    pub fn replicas_needed(&self) -> usize {
        match (self.broker_role, self.in_sync_replicas) {
            (BrokerRole::SyncMaster, 0) => 2,
            (BrokerRole::SyncMaster, needed) => needed as usize,
            _ => 1,
        }
    }

    /// The delay levels. The text is checked when it is set, so the default stands in for nothing else.
    pub fn delay_levels(&self) -> DelayLevels {
        DelayLevels::parse(&self.message_delay_level).unwrap_or_default()
    }

    /// NameServers, each `host:port`.
    pub fn name_servers(&self) -> impl Iterator<Item = &str> {
        self.namesrv_addr.split([';', ',']).map(str::trim).filter(|address| !address.is_empty())
    }

    /// Whether the whole broker may be read.
    pub fn is_readable(&self) -> bool {
        self.broker_permission & crate::proto::body::permission::READ != 0
    }

    /// Whether the whole broker may be written.
    pub fn is_writable(&self) -> bool {
        self.broker_permission & crate::proto::body::permission::WRITE != 0
    }

    /// What role and id together may not be, with which a broker does not start. The text is the reason.
    ///
    /// # Errors
    /// A slave without an id of its own.
    pub fn check_role(&self) -> Result<(), String> {
        match (self.broker_role, self.broker_id) {
            (BrokerRole::Slave, 0) => Err("a slave needs a brokerId of its own, above 0".to_owned()),
            _ => Ok(()),
        }
    }

    /// What types do not say. The text is the reason.
    ///
    /// # Errors
    /// The first thing that cannot be.
    pub fn check(&self) -> Result<(), String> {
        let require = |holds: bool, reason: &str| if holds { Ok(()) } else { Err(reason.to_owned()) };
        let nameable =
            |name: &str| name.len() <= NAME_BYTES_MAX && !name.contains(|c: char| c.is_whitespace() || c.is_control());
        require(
            !self.broker_cluster_name.is_empty() && nameable(&self.broker_cluster_name) && nameable(&self.broker_name),
            "a cluster's and a broker's name has 1 to 127 bytes and no blanks: both are topics too",
        )?;
        require((0..=15).contains(&self.broker_permission), "brokerPermission is 0 to 15: 4 read, 2 write")?;
        DelayLevels::parse(&self.message_delay_level).map_err(|error| error.to_string())?;
        require(
            self.listen_port == 0 || self.listen_port > 2,
            "listenPort has to be 3 or more, since old clients use the port two below, or 0 for any that is free",
        )?;
        require((1..=16 << 20).contains(&self.max_message_size), "maxMessageSize has to be 1 to 16777216")?;
        require(self.mapped_file_size_commit_log >= 4096, "mappedFileSizeCommitLog has to be 4096 or more")?;
        let queue_file = self.mapped_file_size_consume_queue;
        require(
            queue_file > 0 && queue_file.is_multiple_of(20),
            "mappedFileSizeConsumeQueue has to be a multiple of 20",
        )?;
        require(self.max_hash_slot_num > 0 && self.max_index_num > 1, "index files need slots and entries")?;
        require(
            [self.disk_max_used_space_ratio, self.disk_space_clean_forcibly_ratio, self.disk_space_warning_level_ratio]
                .iter()
                .all(|ratio| (1..=100).contains(ratio)),
            "a ratio of the disk is 1 to 100 percent",
        )?;
        require(
            (1..=1024).contains(&self.default_topic_queue_nums) && (1..=1024).contains(&self.revive_queue_num),
            "a topic has 1 to 1024 queues",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_can_be_read_again() {
        let mut config = BrokerConfig::default();
        config.set("regionId", "a\\b c").unwrap();
        let mut read = BrokerConfig::default();
        assert_eq!(read.apply(&config.to_properties()), Ok(vec![]));
        assert_eq!(read, BrokerConfig { ha_listen_port: 10912, ..config });
    }

    #[test]
    fn name_servers_come_from_the_environment_unless_named() {
        let mut config = BrokerConfig::default();
        config.apply_environment(|name| (name == "NAMESRV_ADDR").then(|| "a:1;b:2".to_owned()));
        assert_eq!(config.name_servers().collect::<Vec<_>>(), ["a:1", "b:2"]);
        config.apply_environment(|_| Some("c:3".to_owned()));
        assert_eq!(config.namesrv_addr, "a:1;b:2");
    }
}
