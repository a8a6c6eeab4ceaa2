//! What brokers ask of a NameServer: to be known, to be forgotten, to be remembered.

use crate::env::{ConnectionId, Millis};
use crate::proto::body::{self, DataVersion, KvTable, QueueData, RegisterBrokerBody, TopicConfig, TopicRouteData};
use crate::proto::remoting::requests::{
    BrokerHeartbeat, QueryDataVersion, QueryDataVersionResponse, RegisterBroker, RegisterBrokerResponse,
    RegisterTopicInNamesrv, UnregisterBroker,
};
use crate::proto::remoting::{response, ExtFields, FieldError, Response};

use super::kv::ORDER_TOPIC_CONFIG;
use super::registration::{Master, Registered, Registration};
use super::server::json;
use super::topics::Queues;
use super::{Effect, NameServer};

/// Ext field of REGISTER_BROKER, sent by metaq's brokers and unknown to RocketMQ: `true` states that the body names every
/// topic of the broker, so that others of it are gone.
pub const COMPLETE_TOPIC_TABLE: &str = "completeTopicTable";

/// Ext field of the answer to REGISTER_BROKER, unknown to RocketMQ: the `ip:port` whose place the registrant took.
pub const DISPLACED_ADDRESS: &str = "displacedBrokerAddr";

/// Ext field of the answer to REGISTER_BROKER, unknown to RocketMQ: the `ip:port` of the broker that holds the registrant's
/// name and id with a newer epoch, for which the registration was ignored.
pub const OUTRANKED_BY: &str = "outrankingBrokerAddr";

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
        let asked = RegisterBroker::decode(ext)?;
        if asked.body_crc32 != 0 && asked.body_crc32 != body_checksum(body) {
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
        let registration = Registration {
            cluster: &asked.cluster_name,
            broker: &asked.broker_name,
            broker_id: asked.broker_id,
            address: &asked.broker_addr,
            ha_address: &asked.ha_server_addr,
            zone: asked.zone_name.as_deref(),
            timeout_ms: asked.heartbeat_timeout_millis,
            acting_master: asked.enable_acting_master,
            version: table.data_version,
            topics: &topics,
            complete: ext.bool(COMPLETE_TOPIC_TABLE) == Some(true),
            filter_servers: &registered.filter_server_list,
        };
        let Registered { master, displaced, outranked_by } =
            match self.routes.register(now, connection, &registration, effects) {
                Ok(registered) => registered,
                Err(error) => return refused(error.to_string()),
            };
        let mut answer = Response::success();
        if let Some(Master { address, ha_address }) = master {
            let told =
                RegisterBrokerResponse { ha_server_addr: Some(ha_address.into()), master_addr: Some(address.into()) };
            answer = answer.with_ext(&told);
        }
        if let Some(displaced) = displaced {
            answer = answer.with(DISPLACED_ADDRESS, displaced);
        }
        if let Some(outranked_by) = outranked_by {
            answer = answer.with(OUTRANKED_BY, outranked_by);
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
        let gone = UnregisterBroker::decode(ext)?;
        self.routes.unregister(connection, &gone.broker_name, gone.broker_id, &gone.broker_addr, effects);
        Ok(Response::success())
    }

    pub(super) fn broker_heartbeat(
        &mut self,
        now: Millis,
        connection: ConnectionId,
        ext: &ExtFields<'_>,
    ) -> Result<Response, FieldError> {
        let heard = BrokerHeartbeat::decode(ext)?;
        self.routes.heard(now, connection, &heard.broker_name, &heard.broker_addr);
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
        let asked = QueryDataVersion::decode(ext)?;
        let known = self.routes.heard(now, connection, &asked.broker_name, &asked.broker_addr);
        let answer = known.map_or_else(Response::success, |known| json(&known));
        Ok(answer.with_ext(&QueryDataVersionResponse { changed: known != Some(version) }))
    }

    pub(super) fn register_topic(&mut self, ext: &ExtFields<'_>, body: &[u8]) -> Result<Response, FieldError> {
        let topic = RegisterTopicInNamesrv::decode(ext)?.topic;
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
