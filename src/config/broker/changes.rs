//! How a broker's settings are changed: by a file, by the command line, by a request.

use super::{BrokerConfig, SetError};
use crate::config::{keys, properties};

/// Keys that take effect at once when a request changes them; the others do at the next start.
const RUNTIME_KEYS: &[&str] = &[
    "slaveReadEnable",
    "offsetCheckInSlave",
    "brokerPermission",
    "traceOn",
    "autoCreateTopicEnable",
    "autoCreateSubscriptionGroup",
    "validateSystemTopicWhenUpdateTopic",
    "maxMessageSize",
    "rejectTransactionMessage",
    "transactionTimeOut",
    "transactionCheckMax",
    "transactionCheckInterval",
    "halfMessagesMax",
    "startAcceptSendRequestTimeStamp",
    "timerWheelEnable",
    "timerMaxDelaySec",
    "recallMessageEnable",
    "deduplicationWindowMs",
    "longPollingEnable",
    "enablePropertyFilter",
    "shortPollingTimeMills",
    "litePullMessageEnable",
    "rejectPullConsumerEnable",
    "useServerSideResetOffset",
    "storeReplyMessageEnable",
    "realTimeNotifyConsumerChange",
    "maxTransferCountOnMessageInMemory",
    "maxTransferBytesOnMessageInMemory",
    "maxTransferCountOnMessageInDisk",
    "maxTransferBytesOnMessageInDisk",
    "accessMessageInMemoryMaxRatio",
    "deleteWhen",
    "fileReservedTime",
    "diskMaxUsedSpaceRatio",
    "diskSpaceCleanForciblyRatio",
    "diskSpaceWarningLevelRatio",
    "cleanFileForciblyEnable",
    "regionId",
];

/// RocketMQ's keys that tune what this broker does not have: thread pools, its locks, its buffers. They are taken
/// without effect, so that an existing `broker.conf` starts.
const WITHOUT_EFFECT: [&str; 24] = [
    "rocketmqHome",
    "sendMessageThreadPoolNums",
    "pullMessageThreadPoolNums",
    "queryMessageThreadPoolNums",
    "adminBrokerThreadPoolNums",
    "clientManageThreadPoolNums",
    "consumerManageThreadPoolNums",
    "heartbeatThreadPoolNums",
    "endTransactionThreadPoolNums",
    "serverWorkerThreads",
    "serverSelectorThreads",
    "serverCallbackExecutorThreads",
    "useReentrantLockWhenPutMessage",
    "waitTimeMillsInSendQueue",
    "brokerFastFailureEnable",
    "osPageCacheBusyTimeOutMills",
    "transientStorePoolEnable",
    "transientStorePoolSize",
    "warmMapedFileEnable",
    "transferMsgByHeap",
    "flushCommitLogLeastPages",
    "flushIntervalConsumeQueue",
    "flushCommitLogThoroughInterval",
    "fastFailIfNoBufferInStorePool",
];

/// Something in a settings text that was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// The key means nothing here, perhaps because of a slip.
    Unknown(SetError),
    /// The key belongs to RocketMQ and has no effect here.
    WithoutEffect {
        /// The key.
        key: String,
    },
}

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Warning::Unknown(error) => write!(f, "{error}"),
            Warning::WithoutEffect { key } => write!(f, "setting `{key}` has no effect here"),
        }
    }
}

/// What a request to change settings did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Update {
    /// Keys whose new values count from now on.
    pub now: Vec<String>,
    /// Keys whose new values count from the next start on.
    pub at_next_start: Vec<String>,
    /// What was not taken.
    pub ignored: Vec<Warning>,
    /// Keys and values that were taken.
    pub changes: Vec<(String, String)>,
}

impl std::fmt::Display for Update {
    /// What the one who asked should know; nothing if all counts from now on.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut separator = "";
        if !self.at_next_start.is_empty() {
            write!(f, "from the next start on: {}", self.at_next_start.join(", "))?;
            separator = "; ";
        }
        for warning in &self.ignored {
            write!(f, "{separator}ignored: {warning}")?;
            separator = "; ";
        }
        Ok(())
    }
}

/// Why no setting was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpdateError {
    /// A key is protected.
    #[error("Can not update config in black list.")]
    Protected,
    /// A value does not fit.
    #[error(transparent)]
    Value(#[from] SetError),
    /// Role and id do not go together.
    #[error("{0}")]
    Role(String),
}

impl BrokerConfig {
    /// Takes every pair of a properties text; what is unknown comes back as warnings, a value that does not fit is an
    /// error.
    pub fn apply(&mut self, text: &str) -> Result<Vec<Warning>, SetError> {
        let mut warnings = Vec::new();
        for (key, value) in properties::parse(text) {
            match self.set(&key, &value) {
                Err(SetError::UnknownKey { .. }) if WITHOUT_EFFECT.contains(&key.as_str()) => {
                    warnings.push(Warning::WithoutEffect { key });
                }
                Err(error @ SetError::UnknownKey { .. }) => warnings.push(Warning::Unknown(error)),
                other => other?,
            }
        }
        Ok(warnings)
    }

    /// Sets one key from text.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), SetError> {
        let changed = keys::with(self, key, value)?;
        changed.check().map_err(|reason| SetError::BadValue {
            key: keys::shown(key),
            value: keys::shown(value),
            reason,
        })?;
        *self = changed;
        Ok(())
    }

    /// UPDATE_BROKER_CONFIG: all pairs of a properties text or none. Unknown keys are ignored, as RocketMQ does, and told.
    pub fn update(&mut self, text: &str) -> Result<Update, UpdateError> {
        let pairs = properties::parse(text);
        if pairs.iter().any(|(key, _)| self.is_protected(key)) {
            return Err(UpdateError::Protected);
        }
        let (mut changed, mut update) = (self.clone(), Update::default());
        for (key, value) in pairs {
            match changed.set(&key, &value) {
                Ok(()) => {
                    let counts =
                        if RUNTIME_KEYS.contains(&key.as_str()) { &mut update.now } else { &mut update.at_next_start };
                    counts.push(key.clone());
                    update.changes.push((key, value));
                }
                Err(SetError::UnknownKey { .. }) if WITHOUT_EFFECT.contains(&key.as_str()) => {
                    update.ignored.push(Warning::WithoutEffect { key });
                }
                Err(error @ SetError::UnknownKey { .. }) => update.ignored.push(Warning::Unknown(error)),
                Err(error) => return Err(error.into()),
            }
        }
        changed.check_role().map_err(UpdateError::Role)?;
        *self = changed;
        Ok(update)
    }

    /// These settings with the newer values of the keys that count at once.
    pub fn with_runtime_keys_of(&self, newer: &BrokerConfig) -> BrokerConfig {
        keys::merged(self, newer, RUNTIME_KEYS)
    }

    /// Whether no request may change the key.
    pub fn is_protected(&self, key: &str) -> bool {
        key == "rocketmqHome" || key == "configBlackList" || self.config_black_list.split(';').any(|it| it == key)
    }
}

#[cfg(test)]
mod tests {
    use super::super::FlushDiskType;
    use super::*;

    #[test]
    fn reads_a_broker_conf() {
        let mut config = BrokerConfig::default();
        let text =
            "brokerClusterName = C\nbrokerName=broker-a\nbrokerId=0\nbrokerIP1=10.0.0.1\nflushDiskType=SYNC_FLUSH\n\
                    brokerRole=ASYNC_MASTER\nlistenPort=10921\nsendMessageThreadPoolNums=64\nbrokername=x\nqqqq=1\n";
        let warnings = config.apply(text).unwrap();
        assert_eq!(config.broker_ip1, "10.0.0.1");
        assert_eq!(config.flush_disk_type, FlushDiskType::SyncFlush);
        assert_eq!((config.listen_port, config.ha_port()), (10921, 10922));
        let warnings: Vec<String> = warnings.iter().map(Warning::to_string).collect();
        assert_eq!(
            warnings,
            [
                "setting `sendMessageThreadPoolNums` has no effect here",
                "unknown setting `brokername`, did you mean `brokerName`?",
                "unknown setting `qqqq`",
            ]
        );
    }

    #[test]
    fn values_that_do_not_fit_are_errors_and_change_nothing() {
        let mut config = BrokerConfig::default();
        for (key, value) in [
            ("listenPort", "70000"),
            ("listenPort", "x"),
            ("autoCreateTopicEnable", "yes"),
            ("flushDiskType", "NEVER_FLUSH"),
            ("messageDelayLevel", "1s 2x"),
            ("mappedFileSizeConsumeQueue", "21"),
            ("maxMessageSize", "-1"),
            ("brokerRole", "FOLLOWER"),
            ("brokerName", "a b"),
            ("brokerClusterName", ""),
            ("brokerPermission", "16"),
        ] {
            let error = config.set(key, value).unwrap_err();
            assert!(error.to_string().starts_with(&format!("`{value}` is no value for `{key}`: ")), "{error}");
        }
        assert_eq!(config, BrokerConfig::default());
    }

    #[test]
    fn requests_change_all_or_nothing_and_no_protected_key() {
        let mut config = BrokerConfig::default();
        let update = config.update("brokerPermission=4\nlistenPort=10921\nnoSuchKey=1\n").unwrap();
        assert_eq!(update.now, ["brokerPermission"]);
        assert_eq!(update.at_next_start, ["listenPort"]);
        assert_eq!(update.to_string(), "from the next start on: listenPort; ignored: unknown setting `noSuchKey`");
        assert_eq!(update.changes.len(), 2);
        let running = BrokerConfig::default().with_runtime_keys_of(&config);
        assert_eq!((running.broker_permission, running.listen_port), (4, 10911), "the port counts at the next start");
        assert!(config.is_readable() && !config.is_writable());
        for text in ["traceOn=false\nbrokerConfigPath=x", "rocketmqHome=/", "configBlackList="] {
            assert_eq!(config.update(text), Err(UpdateError::Protected));
        }
        assert!(config.update("traceOn=false\nfileReservedTime=never").is_err());
        assert!(config.trace_on, "nothing was changed");
    }

    #[test]
    fn every_listed_key_exists() {
        let known: Vec<String> = keys::list(&BrokerConfig::default()).into_iter().map(|(key, _)| key).collect();
        for key in RUNTIME_KEYS {
            assert!(known.iter().any(|it| it == key), "{key}");
        }
        for key in WITHOUT_EFFECT {
            assert!(!known.iter().any(|it| it == key), "{key}");
        }
    }
}
