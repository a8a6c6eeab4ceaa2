//! What brokers ask of a NameServer: to be known, to be forgotten, to be remembered.

use crate::env::{ConnectionId, Millis};
use crate::proto::body::{self, DataVersion, KvTable, QueueData, RegisterBrokerBody, TopicConfig, TopicRouteData};
use crate::proto::remoting::{response, ExtFields, FieldError, Response};

use super::kv::ORDER_TOPIC_CONFIG;
use super::registration::Registration;
use super::server::{json, required};
use super::topics::Queues;
use super::{Effect, NameServer};

/// Ext field of REGISTER_BROKER, sent by metaq's brokers and unknown to RocketMQ: `true` states that the body names every
/// topic of the broker, so that others of it are gone.
pub const COMPLETE_TOPIC_TABLE: &str = "completeTopicTable";

impl NameServer {
    pub(super) fn register_broker(
        &mut self,
        now: Millis,
        connection: ConnectionId,
        ext: &ExtFields<'_>,
        body: &[u8],
        effects: &mut Vec<Effect>,
    ) -> Result<Response, FieldError> {
        let refused = |remark: String| Ok(Response::error(response::SYSTEM_ERROR, remark));
        let checksum = ext.i32("bodyCrc32")?.unwrap_or(0);
        if checksum != 0 && checksum != body_checksum(body) {
            return refused("crc32 not match".into());
        }
        // Reads all three forms: plain, compressed (whatever the header says) and, before version 37, the bare table.
        let registered = match RegisterBrokerBody::decode(body) {
            Ok(registered) => registered,
            Err(error) => return refused(error.to_string()),
        };
        let table = &registered.topic_config_serialize_wrapper;
        let topics: Vec<(&str, Queues)> =
            table.topic_config_table.iter().map(|(name, topic)| (name.as_str(), queues_of(topic))).collect();
        let zone = ext.str("__ZONE_NAME");
        let registration = Registration {
            cluster: &required(ext, "clusterName")?,
            broker: &required(ext, "brokerName")?,
            broker_id: ext.i64("brokerId")?.ok_or(FieldError::Missing("brokerId"))?,
            address: &required(ext, "brokerAddr")?,
            ha_address: &required(ext, "haServerAddr")?,
            zone: zone.as_deref(),
            timeout_ms: ext.i64("heartbeatTimeoutMillis")?,
            acting_master: ext.bool("enableActingMaster"),
            version: table.data_version,
            topics: &topics,
            complete: ext.bool(COMPLETE_TOPIC_TABLE) == Some(true),
            filter_servers: &registered.filter_server_list,
        };
        let master = match self.routes.register(now, connection, &registration, effects) {
            Ok(master) => master,
            Err(error) => return refused(error.to_string()),
        };
        let mut answer = Response::success();
        if let Some(master) = master {
            answer = answer.with("haServerAddr", master.ha_address).with("masterAddr", master.address);
        }
        if self.settings().return_order_topic_config_to_broker {
            if let Some(table) = self.kv.namespace(ORDER_TOPIC_CONFIG) {
                answer.body = body::to_vec(&KvTable { table: table.clone() });
            }
        }
        Ok(answer)
    }

    pub(super) fn unregister_broker(
        &mut self,
        connection: ConnectionId,
        ext: &ExtFields<'_>,
        effects: &mut Vec<Effect>,
    ) -> Result<Response, FieldError> {
        let id = ext.i64("brokerId")?.ok_or(FieldError::Missing("brokerId"))?;
        let (name, address) = (required(ext, "brokerName")?, required(ext, "brokerAddr")?);
        self.routes.unregister(connection, &name, id, &address, effects);
        Ok(Response::success())
    }

    pub(super) fn broker_heartbeat(
        &mut self,
        now: Millis,
        connection: ConnectionId,
        ext: &ExtFields<'_>,
    ) -> Result<Response, FieldError> {
        self.routes.heard(now, connection, &required(ext, "brokerName")?, &required(ext, "brokerAddr")?);
        Ok(Response::success())
    }

    pub(super) fn query_data_version(
        &mut self,
        now: Millis,
        connection: ConnectionId,
        ext: &ExtFields<'_>,
        body: &[u8],
    ) -> Result<Response, FieldError> {
        let version: DataVersion = match body::from_slice(body) {
            Ok(version) => version,
            Err(error) => {
                let remark = format!("the data version is not readable: {error}");
                return Ok(Response::error(response::SYSTEM_ERROR, remark));
            }
        };
        let (name, address) = (required(ext, "brokerName")?, required(ext, "brokerAddr")?);
        let known = self.routes.heard(now, connection, &name, &address);
        let answer = known.map_or_else(Response::success, |known| json(&known));
        Ok(answer.with("changed", (known != Some(version)).to_string()))
    }

    pub(super) fn register_topic(&mut self, ext: &ExtFields<'_>, body: &[u8]) -> Result<Response, FieldError> {
        let topic = required(ext, "topic")?;
        let route: TopicRouteData = match body::from_slice(body) {
            Ok(route) => route,
            Err(error) => {
                let remark = format!("the topic's queues are not readable: {error}");
                return Ok(Response::error(response::SYSTEM_ERROR, remark));
            }
        };
        let queues: Vec<(&str, Queues)> =
            route.queue_datas.iter().map(|data| (data.broker_name.as_str(), Queues::from(data))).collect();
        Ok(match self.routes.register_topic(&topic, &queues) {
            Ok(()) => Response::success(),
            Err(error) => Response::error(response::SYSTEM_ERROR, error.to_string()),
        })
    }
}

/// The checksum that goes with a registration's body, over the bytes as sent.
pub fn body_checksum(body: &[u8]) -> i32 {
    (crc32fast::hash(body) & 0x7FFF_FFFF) as i32
}

fn queues_of(topic: &TopicConfig) -> Queues {
    Queues {
        read: topic.read_queue_nums,
        write: topic.write_queue_nums,
        perm: topic.perm,
        system_flag: topic.topic_sys_flag,
    }
}

impl From<&QueueData> for Queues {
    fn from(data: &QueueData) -> Self {
        Queues {
            read: data.read_queue_nums,
            write: data.write_queue_nums,
            perm: data.perm,
            system_flag: data.topic_sys_flag,
        }
    }
}
