//! Settings of a NameServer.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::keys::{self, SetError};
use super::properties;

/// Settings of a NameServer, with RocketMQ's keys where it has them. Relative paths count from the data directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NameServerSettings {
    /// TCP port.
    pub listen_port: u16,
    /// Address to listen on.
    pub bind_address: String,
    /// Where the kv config is kept.
    pub kv_config_path: PathBuf,
    /// Where settings changed by request are kept.
    pub config_store_path: PathBuf,
    /// Milliseconds between two looks for silent brokers.
    pub scan_not_active_broker_interval: u64,
    /// Put the fixed queue list of ordered topics into routes.
    pub order_message_enable: bool,
    /// Send the ordered topics to brokers that register.
    pub return_order_topic_config_to_broker: bool,
    /// Show the smallest slave as the master of a group without master, if the group wants it.
    pub support_acting_master: bool,
    /// Answer GET_ALL_TOPIC_LIST_FROM_NAMESERVER.
    pub enable_all_topic_list: bool,
    /// Answer the other topic lists.
    pub enable_topic_list: bool,
    /// Tell the brokers of a group when its smallest id changes.
    pub notify_min_broker_id_changed: bool,
    /// Refuse route questions for `waitSecondsForService` after the start.
    pub need_wait_for_service: bool,
    /// Seconds until routes are answered with `needWaitForService`.
    pub wait_seconds_for_service: u64,
    /// Forget topics that a master's registration does not name, whoever sends it. Without it only brokers that state
    /// that their table is complete (metaq's do) have topics forgotten.
    pub delete_topic_with_broker_registration: bool,
    /// Settings that no request may change, separated by `;`. `rocketmqHome` and this list itself never may.
    pub config_black_list: String,
    /// metaq: most broker processes registered at once.
    pub max_brokers: usize,
    /// metaq: most pairs of topic and broker name.
    pub max_route_entries: usize,
    /// metaq: most namespaces and keys of the kv config together.
    pub max_kv_config_entries: usize,
}

impl Default for NameServerSettings {
    fn default() -> Self {
        NameServerSettings {
            listen_port: 9876,
            bind_address: "0.0.0.0".into(),
            kv_config_path: "namesrv/kvConfig.json".into(),
            config_store_path: "namesrv/namesrv.properties".into(),
            scan_not_active_broker_interval: 5_000,
            order_message_enable: false,
            return_order_topic_config_to_broker: true,
            support_acting_master: false,
            enable_all_topic_list: true,
            enable_topic_list: true,
            notify_min_broker_id_changed: false,
            need_wait_for_service: false,
            wait_seconds_for_service: 45,
            delete_topic_with_broker_registration: false,
            config_black_list: "configBlackList;configStorePath;kvConfigPath".into(),
            max_brokers: 10_000,
            max_route_entries: 2_000_000,
            max_kv_config_entries: 100_000,
        }
    }
}

/// Why a request could not change the settings. Nothing is changed then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// The key is one that no request may change.
    #[error("Can not update config in black list.")]
    Protected,
    /// The value does not fit the key.
    #[error(transparent)]
    Illegal(#[from] SetError),
}

impl NameServerSettings {
    /// Takes every pair of a properties text at the start, when nothing is protected yet; unknown keys come back to be
    /// warned of, a value that does not fit is an error.
    pub fn apply(&mut self, text: &str) -> Result<Vec<SetError>, SetError> {
        let mut unknown = Vec::new();
        for (key, value) in properties::parse(text) {
            match keys::with(self, &key, &value) {
                Ok(changed) => *self = changed,
                Err(error @ SetError::UnknownKey { .. }) => unknown.push(error),
                Err(error) => return Err(error),
            }
        }
        Ok(unknown)
    }

    /// True if no request may change `key`.
    pub fn protects(&self, key: &str) -> bool {
        let listed = || self.config_black_list.split(';').any(|listed| listed.trim() == key);
        key == "rocketmqHome" || key == "configBlackList" || listed()
    }

    /// These settings changed by the body of UPDATE_NAMESRV_CONFIG, a properties text. Unknown keys are ignored, as in
    /// RocketMQ. With them come the keys and values that were taken.
    pub fn changed_by(&self, text: &str) -> Result<(Self, Vec<(String, String)>), ChangeError> {
        let (mut changed, mut changes) = (self.clone(), Vec::new());
        for (key, value) in properties::parse(text) {
            if self.protects(&key) {
                return Err(ChangeError::Protected);
            }
            match keys::with(&changed, &key, &value) {
                Ok(with) => {
                    changed = with;
                    changes.push((key, value));
                }
                Err(error @ SetError::UnknownKey { .. }) => tracing::warn!("ignored: {error}"),
                Err(error) => return Err(error.into()),
            }
        }
        Ok((changed, changes))
    }

    /// All settings as a properties text.
    pub fn to_properties(&self) -> String {
        let mut text = String::new();
        for (key, value) in keys::list(self) {
            properties::write(&mut text, &key, &value);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_changes_what_it_names() {
        let settings = NameServerSettings::default();
        let text = "# note\norderMessageEnable=true\nlistenPort = 9877\nnoSuchKey=1\n";
        let (changed, changes) = settings.changed_by(text).unwrap();
        let changes: Vec<&str> = changes.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(changes, ["orderMessageEnable", "listenPort"]);
        assert_eq!(changed, NameServerSettings { order_message_enable: true, listen_port: 9877, ..settings.clone() });
        let text = changed.to_properties();
        let keys = |line: &&str| !settings.protects(line.split('=').next().unwrap());
        let free: Vec<&str> = text.lines().filter(keys).collect();
        assert_eq!(settings.changed_by(&free.join("\n")).unwrap().0, changed);
    }

    #[test]
    fn a_file_sets_protected_keys_too_and_slips_are_told() {
        let mut settings = NameServerSettings::default();
        let unknown = settings.apply("kvConfigPath=/kv.json\nlistenport=1\nlistenPort=2\n").unwrap();
        assert_eq!((settings.kv_config_path.as_path(), settings.listen_port), ("/kv.json".as_ref(), 2));
        let unknown: Vec<String> = unknown.iter().map(SetError::to_string).collect();
        assert_eq!(unknown, ["unknown setting `listenport`, did you mean `listenPort`?"]);
        assert!(settings.apply("listenPort=x").is_err());
    }

    #[test]
    fn protected_keys_and_wrong_values_change_nothing() {
        let settings = NameServerSettings::default();
        for key in ["configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome"] {
            let text = format!("listenPort=1\n{key}=x");
            assert_eq!(settings.changed_by(&text), Err(ChangeError::Protected), "{key}");
        }
        for text in ["listenPort=65536", "listenPort=-1", "enableTopicList=maybe"] {
            assert!(matches!(settings.changed_by(text), Err(ChangeError::Illegal(_))), "{text}");
        }
    }
}
