//! Settings of a NameServer.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Settings of a NameServer, under RocketMQ's names where it has them (see its `namesrv.properties`).
///
/// `${user.home}` and the like are not expanded here: paths are as given, relative ones count from the data directory.
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
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingError {
    /// The key is in the black list.
    #[error("Can not update config in black list.")]
    Protected,
    /// The value does not fit the key.
    #[error("{value} is no value for {key}")]
    Illegal {
        /// The key.
        key: String,
        /// The value given.
        value: String,
    },
}

impl NameServerSettings {
    /// True if no request may change `key`.
    pub fn protects(&self, key: &str) -> bool {
        key == "rocketmqHome"
            || key == "configBlackList"
            || self.config_black_list.split(';').any(|it| it.trim() == key)
    }

    /// These settings with some values replaced. Unknown keys are ignored, as in RocketMQ.
    pub fn with<'a>(&self, changes: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, SettingError> {
        let Ok(Value::Object(mut fields)) = serde_json::to_value(self) else { return Ok(self.clone()) };
        for (key, value) in changes {
            if self.protects(key) {
                return Err(SettingError::Protected);
            }
            let Some(field) = fields.get_mut(key) else {
                tracing::warn!(key, "ignored an unknown setting");
                continue;
            };
            let illegal = || SettingError::Illegal { key: key.to_owned(), value: value.to_owned() };
            let parsed = match field {
                Value::Bool(_) => Value::Bool(value.parse().map_err(|_| illegal())?),
                Value::Number(_) => Value::from(value.parse::<u64>().map_err(|_| illegal())?),
                _ => Value::from(value),
            };
            let before = std::mem::replace(field, parsed);
            // Numbers of several widths: what does not fit the field shows when all are read back.
            if serde_json::from_value::<Self>(Value::Object(fields.clone())).is_err() {
                fields.insert(key.to_owned(), before);
                return Err(illegal());
            }
        }
        serde_json::from_value(Value::Object(fields)).or_else(|_| Ok(self.clone()))
    }

    /// All settings as the lines of a properties file: `key=value`.
    pub fn to_properties(&self) -> String {
        let Ok(Value::Object(fields)) = serde_json::to_value(self) else { return String::new() };
        let mut text = String::new();
        for (key, value) in fields {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            text.push_str(&format!("{key}={value}\n"));
        }
        text
    }
}

/// The pairs of a properties text: lines `key=value`; blank lines and those that begin with `#` or `!` say nothing.
pub fn parse_properties(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with(['#', '!']))
        .map(|line| line.split_once('=').map_or((line, ""), |(key, value)| (key.trim(), value.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_by_text() {
        let settings = NameServerSettings::default();
        let text = "# note\norderMessageEnable=true\nlistenPort = 9877\nnoSuchKey=1\n";
        let changed = settings.with(parse_properties(text)).unwrap();
        assert_eq!(changed, NameServerSettings { order_message_enable: true, listen_port: 9877, ..settings.clone() });
        assert_eq!(settings.with(parse_properties(&changed.to_properties())), Err(SettingError::Protected));
        let kept: String = changed
            .to_properties()
            .lines()
            .filter(|line| !settings.protects(line.split('=').next().unwrap()))
            .map(|line| format!("{line}\n"))
            .collect();
        assert_eq!(settings.with(parse_properties(&kept)), Ok(changed));
    }

    #[test]
    fn refuses_protected_keys_and_wrong_values() {
        let settings = NameServerSettings::default();
        for key in ["configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome"] {
            assert_eq!(settings.with([(key, "x")]), Err(SettingError::Protected), "{key}");
        }
        for (key, value) in [("listenPort", "65536"), ("listenPort", "-1"), ("enableTopicList", "maybe")] {
            let error = SettingError::Illegal { key: key.into(), value: value.into() };
            assert_eq!(settings.with([(key, value)]), Err(error));
        }
    }
}
