//! What clients, tools and brokers ask of a NameServer.

use std::borrow::Cow;

use super::fields::ext_fields;

ext_fields! {
    /// 100. Apache has a remark of its own for a missing namespace or key, so the handler looks.
    pub struct PutKvConfig<'a> {
        namespace: Option<Cow<'a, str>> = "namespace",
        key: Option<Cow<'a, str>> = "key",
        value: Cow<'a, str> = "value",
    }
}

ext_fields! {
    /// 101.
    pub struct GetKvConfig<'a> {
        namespace: Cow<'a, str> = "namespace",
        key: Cow<'a, str> = "key",
    }
}

ext_fields! {
    /// The answer to 101.
    pub struct GetKvConfigResponse<'a> {
        value: Option<Cow<'a, str>> = "value",
    }
}

ext_fields! {
    /// 102.
    pub struct DeleteKvConfig<'a> {
        namespace: Cow<'a, str> = "namespace",
        key: Cow<'a, str> = "key",
    }
}

ext_fields! {
    /// 219.
    pub struct GetKvListByNamespace<'a> {
        namespace: Cow<'a, str> = "namespace",
    }
}

ext_fields! {
    /// 103.
    pub struct RegisterBroker<'a> {
        broker_name: Cow<'a, str> = "brokerName",
        /// `ip:port`, handed to clients.
        broker_addr: Cow<'a, str> = "brokerAddr",
        cluster_name: Cow<'a, str> = "clusterName",
        ha_server_addr: Cow<'a, str> = "haServerAddr",
        /// 0 is the master.
        broker_id: i64 = "brokerId",
        /// Not to be trusted: brokers of 5.3.2 say `false` of a compressed body.
        compressed: bool = "compressed" or false,
        /// The body's CRC-32 without its highest bit; 0 is not checked.
        body_crc32: i32 = "bodyCrc32" or 0,
        /// How long the registration lasts, in ms.
        heartbeat_timeout_millis: Option<i64> = "heartbeatTimeoutMillis",
        /// Brokers before 5.0 do not send it.
        enable_acting_master: Option<bool> = "enableActingMaster",
        zone_name: Option<Cow<'a, str>> = "__ZONE_NAME",
    }
}

ext_fields! {
    /// The answer to 103: both fields only for a slave with a live master.
    pub struct RegisterBrokerResponse<'a> {
        ha_server_addr: Option<Cow<'a, str>> = "haServerAddr",
        master_addr: Option<Cow<'a, str>> = "masterAddr",
    }
}

ext_fields! {
    /// 104.
    pub struct UnregisterBroker<'a> {
        broker_name: Cow<'a, str> = "brokerName",
        broker_addr: Cow<'a, str> = "brokerAddr",
        cluster_name: Cow<'a, str> = "clusterName",
        broker_id: i64 = "brokerId",
    }
}

ext_fields! {
    /// 105.
    pub struct GetRouteInfoByTopic<'a> {
        topic: Cow<'a, str> = "topic",
        /// Asks for quoted map keys whatever the version.
        accept_standard_json_only: Option<bool> = "acceptStandardJsonOnly",
    }
}

ext_fields! {
    /// 904.
    pub struct BrokerHeartbeat<'a> {
        cluster_name: Cow<'a, str> = "clusterName",
        broker_addr: Cow<'a, str> = "brokerAddr",
        broker_name: Cow<'a, str> = "brokerName",
        broker_id: Option<i64> = "brokerId",
        epoch: Option<i32> = "epoch",
        max_offset: Option<i64> = "maxOffset",
        confirm_offset: Option<i64> = "confirmOffset",
        /// In ms; the spelling is RocketMQ's.
        heartbeat_timeout_millis: Option<i64> = "heartbeatTimeoutMills",
        election_priority: Option<i32> = "electionPriority",
    }
}

ext_fields! {
    /// 322.
    pub struct QueryDataVersion<'a> {
        broker_name: Cow<'a, str> = "brokerName",
        broker_addr: Cow<'a, str> = "brokerAddr",
        cluster_name: Cow<'a, str> = "clusterName",
        broker_id: i64 = "brokerId",
    }
}

ext_fields! {
    /// The answer to 322.
    pub struct QueryDataVersionResponse {
        changed: bool = "changed",
    }
}

ext_fields! {
    /// 901.
    pub struct GetBrokerMemberGroup<'a> {
        cluster_name: Cow<'a, str> = "clusterName",
        broker_name: Cow<'a, str> = "brokerName",
    }
}

ext_fields! {
    /// 905, from the NameServer to brokers.
    pub struct NotifyMinBrokerIdChange<'a> {
        min_broker_id: Option<i64> = "minBrokerId",
        broker_name: Option<Cow<'a, str>> = "brokerName",
        min_broker_addr: Option<Cow<'a, str>> = "minBrokerAddr",
        offline_broker_addr: Option<Cow<'a, str>> = "offlineBrokerAddr",
        ha_broker_addr: Option<Cow<'a, str>> = "haBrokerAddr",
    }
}

ext_fields! {
    /// 205.
    pub struct WipeWritePermOfBroker<'a> {
        broker_name: Cow<'a, str> = "brokerName",
    }
}

ext_fields! {
    /// The answer to 205.
    pub struct WipeWritePermOfBrokerResponse {
        wipe_topic_count: i32 = "wipeTopicCount",
    }
}

ext_fields! {
    /// 327.
    pub struct AddWritePermOfBroker<'a> {
        broker_name: Cow<'a, str> = "brokerName",
    }
}

ext_fields! {
    /// The answer to 327.
    pub struct AddWritePermOfBrokerResponse {
        add_topic_count: i32 = "addTopicCount",
    }
}

ext_fields! {
    /// 224.
    pub struct GetTopicsByCluster<'a> {
        cluster: Cow<'a, str> = "cluster",
    }
}

ext_fields! {
    /// 216.
    pub struct DeleteTopicInNamesrv<'a> {
        topic: Cow<'a, str> = "topic",
        /// Absent: in all clusters.
        cluster_name: Option<Cow<'a, str>> = "clusterName",
    }
}

ext_fields! {
    /// 217.
    pub struct RegisterTopicInNamesrv<'a> {
        topic: Cow<'a, str> = "topic",
    }
}
