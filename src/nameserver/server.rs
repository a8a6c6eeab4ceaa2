//! The NameServer as a whole: a request comes in, its answer and effects go out.

use crate::config::nameserver::{ChangeError, NameServerSettings};
use crate::env::{Canaries, ConnectionId, Millis};
use crate::proto::body::{self, KvTable, TopicList};
use crate::proto::remoting::requests::{
    AddWritePermOfBroker, AddWritePermOfBrokerResponse, DeleteKvConfig, DeleteTopicInNamesrv, GetBrokerMemberGroup,
    GetKvConfig, GetKvConfigResponse, GetKvListByNamespace, GetRouteInfoByTopic, GetTopicsByCluster, PutKvConfig,
    WipeWritePermOfBroker, WipeWritePermOfBrokerResponse,
};
use crate::proto::remoting::{request, response, ExtFields, FieldError, Head, Response};

use super::kv::{KvConfig, ORDER_TOPIC_CONFIG};
use super::views::UnitList;
use super::{Effect, RouteTable};

/// What RocketMQ adds to remarks that users search for.
const FAQ: &str = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details.";

/// One NameServer: it answers requests and never waits.
pub struct NameServer {
    pub(super) routes: RouteTable,
    pub(super) kv: KvConfig,
    started: Millis,
}

impl NameServer {
    /// A NameServer that has just started, with the kv config read from its file.
    ///
    /// `now`, here and everywhere: milliseconds of a clock that does not jump (the monotonic one of the node), because a
    /// step of the wall clock would expire every broker at once.
    pub fn new(settings: NameServerSettings, kv: KvConfig, now: Millis) -> Self {
        NameServer { routes: RouteTable::new(settings), kv, started: now }
    }

    /// The same rules with planted bugs.
    pub fn with_canaries(mut self, canaries: Canaries) -> Self {
        self.routes.canaries = canaries;
        self
    }

    /// The settings in force.
    pub fn settings(&self) -> &NameServerSettings {
        &self.routes.settings
    }

    /// The route table.
    pub fn routes(&self) -> &RouteTable {
        &self.routes
    }

    /// A connection is closed: the brokers last heard on it are gone.
    pub fn connection_closed(&mut self, connection: ConnectionId, effects: &mut Vec<Effect>) {
        self.routes.connection_closed(connection, effects);
    }

    /// Looks for silent brokers; due every `scanNotActiveBrokerInterval` milliseconds.
    pub fn tick(&mut self, now: Millis, effects: &mut Vec<Effect>) {
        self.routes.expire(now, effects);
    }

    /// Answers a request. The caller carries out the effects before it sends the answer, and sends none to a one-way
    /// request.
    pub fn handle(
        &mut self,
        now: Millis,
        connection: ConnectionId,
        head: &Head<'_>,
        body: &[u8],
        effects: &mut Vec<Effect>,
    ) -> Response {
        let ext = &head.ext;
        let answer = match head.code {
            request::GET_ROUTEINFO_BY_TOPIC => self.route(now, ext),
            request::REGISTER_BROKER => self.register_broker(now, connection, ext, body, effects),
            request::UNREGISTER_BROKER => self.unregister_broker(connection, ext, effects),
            request::BROKER_HEARTBEAT => self.broker_heartbeat(now, connection, ext),
            request::QUERY_DATA_VERSION => self.query_data_version(now, connection, ext, body),
            request::GET_BROKER_CLUSTER_INFO => Ok(json(&self.routes.cluster_info())),
            request::GET_BROKER_MEMBER_GROUP => self.member_group(ext),
            request::REGISTER_TOPIC_IN_NAMESRV => self.register_topic(ext, body),
            request::DELETE_TOPIC_IN_NAMESRV => self.delete_topic(ext),
            request::WIPE_WRITE_PERM_OF_BROKER => self.wipe_write_permission(ext),
            request::ADD_WRITE_PERM_OF_BROKER => self.add_write_permission(ext),
            request::GET_ALL_TOPIC_LIST_FROM_NAMESERVER => Ok(self.all_topics()),
            request::GET_TOPICS_BY_CLUSTER => self.topics_of_cluster(ext),
            request::GET_SYSTEM_TOPIC_LIST_FROM_NS => Ok(json(&self.routes.system_topics())),
            request::GET_UNIT_TOPIC_LIST => Ok(self.unit_topics(UnitList::Unit)),
            request::GET_HAS_UNIT_SUB_TOPIC_LIST => Ok(self.unit_topics(UnitList::UnitSubscription)),
            request::GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST => Ok(self.unit_topics(UnitList::UnitSubscriptionOnly)),
            request::PUT_KV_CONFIG => self.put_kv(ext, effects),
            request::GET_KV_CONFIG => self.get_kv(ext),
            request::DELETE_KV_CONFIG => self.delete_kv(ext, effects),
            request::GET_KVLIST_BY_NAMESPACE => self.list_kv(ext),
            request::UPDATE_NAMESRV_CONFIG => Ok(self.update_settings(body, effects)),
            request::GET_NAMESRV_CONFIG => Ok(Response::success().with_body(self.settings().to_properties())),
            other => Ok(Response::not_supported(other)),
        };
        answer.unwrap_or_else(Response::from)
    }

    fn route(&self, now: Millis, ext: &ExtFields<'_>) -> Result<Response, FieldError> {
        let topic = GetRouteInfoByTopic::decode(ext)?.topic;
        // A NameServer that has just started knows only some of the brokers: better no answer than one that makes
        // clients forget good routes.
        let settings = self.settings();
        if settings.need_wait_for_service && now.since(self.started) < settings.wait_seconds_for_service * 1000 {
            return Ok(Response::error(response::SYSTEM_ERROR, "name server not ready"));
        }
        let zone = ext.str("__ZONE_NAME").filter(|_| ext.bool("__ZONE_MODE") == Some(true));
        let Some(mut route) = self.routes.route(&topic, zone.as_deref()) else {
            let remark = format!("No topic route info in name server for the topic: {topic}{FAQ}");
            return Ok(Response::error(response::TOPIC_NOT_EXIST, remark));
        };
        if settings.order_message_enable {
            route.order_topic_conf = self.kv.get(ORDER_TOPIC_CONFIG, &topic).map(str::to_owned);
        }
        Ok(json(&route))
    }

    fn member_group(&self, ext: &ExtFields<'_>) -> Result<Response, FieldError> {
        let asked = GetBrokerMemberGroup::decode(ext)?;
        let group = self.routes.member_group(&asked.cluster_name, &asked.broker_name);
        Ok(json(&body::route::GetBrokerMemberGroupResponseBody { broker_member_group: group }))
    }

    fn delete_topic(&mut self, ext: &ExtFields<'_>) -> Result<Response, FieldError> {
        let asked = DeleteTopicInNamesrv::decode(ext)?;
        let cluster = asked.cluster_name.filter(|cluster| !cluster.is_empty());
        self.routes.delete_topic(&asked.topic, cluster.as_deref());
        Ok(Response::success())
    }

    fn wipe_write_permission(&mut self, ext: &ExtFields<'_>) -> Result<Response, FieldError> {
        let count = self.routes.wipe_write_permission(&WipeWritePermOfBroker::decode(ext)?.broker_name);
        Ok(Response::success().with_ext(&WipeWritePermOfBrokerResponse { wipe_topic_count: count as i32 }))
    }

    fn add_write_permission(&mut self, ext: &ExtFields<'_>) -> Result<Response, FieldError> {
        let count = self.routes.add_write_permission(&AddWritePermOfBroker::decode(ext)?.broker_name);
        Ok(Response::success().with_ext(&AddWritePermOfBrokerResponse { add_topic_count: count as i32 }))
    }

    fn all_topics(&self) -> Response {
        list_if(self.settings().enable_all_topic_list, || self.routes.all_topics())
    }

    fn topics_of_cluster(&self, ext: &ExtFields<'_>) -> Result<Response, FieldError> {
        let cluster = GetTopicsByCluster::decode(ext)?.cluster;
        Ok(list_if(self.settings().enable_topic_list, || self.routes.topics_of_cluster(&cluster)))
    }

    fn unit_topics(&self, list: UnitList) -> Response {
        list_if(self.settings().enable_topic_list, || self.routes.unit_topics(list))
    }

    fn put_kv(&mut self, ext: &ExtFields<'_>, effects: &mut Vec<Effect>) -> Result<Response, FieldError> {
        let PutKvConfig { namespace: Some(namespace), key: Some(key), value } = PutKvConfig::decode(ext)? else {
            return Ok(Response::error(response::SYSTEM_ERROR, "namespace or key is null"));
        };
        if let Err(error) = self.kv.put(&namespace, &key, &value, self.settings().max_kv_config_entries) {
            return Ok(Response::error(response::SYSTEM_ERROR, error.to_string()));
        }
        effects.push(Effect::SaveKvConfig(self.kv.to_text()));
        Ok(Response::success())
    }

    fn get_kv(&self, ext: &ExtFields<'_>) -> Result<Response, FieldError> {
        let GetKvConfig { namespace, key } = GetKvConfig::decode(ext)?;
        Ok(match self.kv.get(&namespace, &key) {
            Some(value) => Response::success().with_ext(&GetKvConfigResponse { value: Some(value.into()) }),
            None => {
                Response::error(response::QUERY_NOT_FOUND, format!("No config item, Namespace: {namespace} Key: {key}"))
            }
        })
    }

    fn delete_kv(&mut self, ext: &ExtFields<'_>, effects: &mut Vec<Effect>) -> Result<Response, FieldError> {
        let asked = DeleteKvConfig::decode(ext)?;
        if self.kv.delete(&asked.namespace, &asked.key) {
            effects.push(Effect::SaveKvConfig(self.kv.to_text()));
        }
        Ok(Response::success())
    }

    fn list_kv(&self, ext: &ExtFields<'_>) -> Result<Response, FieldError> {
        let namespace = GetKvListByNamespace::decode(ext)?.namespace;
        Ok(match self.kv.namespace(&namespace) {
            Some(table) => json(&KvTable { table: table.clone() }),
            None => Response::error(response::QUERY_NOT_FOUND, format!("No config item, Namespace: {namespace}")),
        })
    }

    fn update_settings(&mut self, body: &[u8], effects: &mut Vec<Effect>) -> Response {
        let changed = self.settings().changed_by(&String::from_utf8_lossy(body));
        match changed {
            Ok((settings, changes)) => {
                if !changes.is_empty() {
                    effects.push(Effect::SaveSettings(changes));
                }
                self.routes.settings = settings;
                Response::success()
            }
            Err(error @ ChangeError::Protected) => Response::error(response::NO_PERMISSION, error.to_string()),
            Err(error) => Response::error(response::SYSTEM_ERROR, error.to_string()),
        }
    }
}

/// Success with a JSON body.
pub(super) fn json(body: &impl serde::Serialize) -> Response {
    Response::success().with_body(body::to_vec(body))
}

fn list_if(enabled: bool, list: impl FnOnce() -> TopicList) -> Response {
    if enabled {
        json(&list())
    } else {
        Response::error(response::SYSTEM_ERROR, "disable")
    }
}
