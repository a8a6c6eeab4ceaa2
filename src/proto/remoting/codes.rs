//! Request and response codes, with RocketMQ's own names.

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $code:literal;)+) => {
        $(
            #[doc = concat!("`", stringify!($name), "`, ", stringify!($code), ".")]
            $(#[$doc])*
            pub const $name: i32 = $code;
        )+

        /// The name of a code, for logs and people; `None` for a code that is not RocketMQ's.
        pub const fn name(code: i32) -> Option<&'static str> {
            match code {
                $($name => Some(stringify!($name)),)+
                _ => None,
            }
        }
    };
}

/// Codes of requests. Where a comment names two ends, the request goes from the first to the second; without one it
/// goes from a client or a tool to a broker.
pub mod request {
    codes! {
        /// One message, with the long (V1) field names.
        SEND_MESSAGE = 10;
        PULL_MESSAGE = 11;
        QUERY_MESSAGE = 12;
        QUERY_CONSUMER_OFFSET = 14;
        /// Often one-way.
        UPDATE_CONSUMER_OFFSET = 15;
        UPDATE_AND_CREATE_TOPIC = 17;
        UPDATE_AND_CREATE_TOPIC_LIST = 18;
        /// Slave or tool to broker.
        GET_ALL_TOPIC_CONFIG = 21;
        UPDATE_BROKER_CONFIG = 25;
        GET_BROKER_CONFIG = 26;
        GET_BROKER_RUNTIME_INFO = 28;
        SEARCH_OFFSET_BY_TIMESTAMP = 29;
        GET_MAX_OFFSET = 30;
        GET_MIN_OFFSET = 31;
        GET_EARLIEST_MSG_STORETIME = 32;
        VIEW_MESSAGE_BY_ID = 33;
        HEART_BEAT = 34;
        UNREGISTER_CLIENT = 35;
        CONSUMER_SEND_MSG_BACK = 36;
        /// One-way.
        END_TRANSACTION = 37;
        GET_CONSUMER_LIST_BY_GROUP = 38;
        /// Broker to producer, one-way.
        CHECK_TRANSACTION_STATE = 39;
        /// Broker to consumer, one-way.
        NOTIFY_CONSUMER_IDS_CHANGED = 40;
        LOCK_BATCH_MQ = 41;
        UNLOCK_BATCH_MQ = 42;
        /// Slave to master.
        GET_ALL_CONSUMER_OFFSET = 43;
        /// Slave to master.
        GET_ALL_DELAY_OFFSET = 45;
        CHECK_CLIENT_CONFIG = 46;
        /// Access control of brokers up to 5.3.2.
        UPDATE_AND_CREATE_ACL_CONFIG = 50;
        /// Access control of brokers up to 5.3.2.
        DELETE_ACL_CONFIG = 51;
        /// Access control of brokers up to 5.3.2.
        GET_BROKER_CLUSTER_ACL_INFO = 52;
        /// Access control of brokers up to 5.3.2.
        UPDATE_GLOBAL_WHITE_ADDRS_CONFIG = 53;
        /// Access control of brokers up to 5.3.2.
        GET_BROKER_CLUSTER_ACL_CONFIG = 54;
        /// Slave to master.
        GET_TIMER_CHECK_POINT = 60;
        /// Slave to master.
        GET_TIMER_METRICS = 61;

        /// To a NameServer, as all codes from here to 106.
        PUT_KV_CONFIG = 100;
        GET_KV_CONFIG = 101;
        DELETE_KV_CONFIG = 102;
        REGISTER_BROKER = 103;
        UNREGISTER_BROKER = 104;
        GET_ROUTEINFO_BY_TOPIC = 105;
        GET_BROKER_CLUSTER_INFO = 106;

        UPDATE_AND_CREATE_SUBSCRIPTIONGROUP = 200;
        GET_ALL_SUBSCRIPTIONGROUP_CONFIG = 201;
        GET_TOPIC_STATS_INFO = 202;
        GET_CONSUMER_CONNECTION_LIST = 203;
        GET_PRODUCER_CONNECTION_LIST = 204;
        /// To a NameServer.
        WIPE_WRITE_PERM_OF_BROKER = 205;
        /// To a NameServer.
        GET_ALL_TOPIC_LIST_FROM_NAMESERVER = 206;
        DELETE_SUBSCRIPTIONGROUP = 207;
        GET_CONSUME_STATS = 208;
        DELETE_TOPIC_IN_BROKER = 215;
        /// To a NameServer.
        DELETE_TOPIC_IN_NAMESRV = 216;
        /// To a NameServer.
        REGISTER_TOPIC_IN_NAMESRV = 217;
        /// To a NameServer.
        GET_KVLIST_BY_NAMESPACE = 219;
        /// Broker to consumer, one-way.
        RESET_CONSUMER_CLIENT_OFFSET = 220;
        /// Broker to consumer.
        GET_CONSUMER_STATUS_FROM_CLIENT = 221;
        INVOKE_BROKER_TO_RESET_OFFSET = 222;
        INVOKE_BROKER_TO_GET_CONSUMER_STATUS = 223;
        /// To a NameServer.
        GET_TOPICS_BY_CLUSTER = 224;
        UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST = 225;

        QUERY_TOPIC_CONSUME_BY_WHO = 300;
        QUERY_CONSUME_TIME_SPAN = 303;
        /// To a NameServer.
        GET_SYSTEM_TOPIC_LIST_FROM_NS = 304;
        GET_SYSTEM_TOPIC_LIST_FROM_BROKER = 305;
        CLEAN_EXPIRED_CONSUMEQUEUE = 306;
        /// Tool to broker, which passes it on to the consumer.
        GET_CONSUMER_RUNNING_INFO = 307;
        QUERY_CORRECTION_OFFSET = 308;
        /// Tool to broker, which passes it on to the consumer.
        CONSUME_MESSAGE_DIRECTLY = 309;
        /// One message (or a batch, if `m` says so), with single-letter field names.
        SEND_MESSAGE_V2 = 310;
        /// To a NameServer.
        GET_UNIT_TOPIC_LIST = 311;
        /// To a NameServer.
        GET_HAS_UNIT_SUB_TOPIC_LIST = 312;
        /// To a NameServer.
        GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST = 313;
        CLONE_GROUP_OFFSET = 314;
        VIEW_BROKER_STATS_DATA = 315;
        CLEAN_UNUSED_TOPIC = 316;
        GET_BROKER_CONSUME_STATS = 317;
        /// To a NameServer.
        UPDATE_NAMESRV_CONFIG = 318;
        /// To a NameServer.
        GET_NAMESRV_CONFIG = 319;
        /// A batch, with single-letter field names.
        SEND_BATCH_MESSAGE = 320;
        QUERY_CONSUME_QUEUE = 321;
        /// Broker to NameServer.
        QUERY_DATA_VERSION = 322;
        RESUME_CHECK_HALF_MESSAGE = 323;
        SEND_REPLY_MESSAGE = 324;
        SEND_REPLY_MESSAGE_V2 = 325;
        /// Broker to requester.
        PUSH_REPLY_MESSAGE_TO_CLIENT = 326;
        /// To a NameServer.
        ADD_WRITE_PERM_OF_BROKER = 327;
        GET_ALL_PRODUCER_INFO = 328;
        DELETE_EXPIRED_COMMITLOG = 329;
        QUERY_TOPICS_BY_CONSUMER = 343;
        QUERY_SUBSCRIPTION_BY_CONSUMER = 345;
        GET_TOPIC_CONFIG = 351;
        GET_SUBSCRIPTIONGROUP_CONFIG = 352;
        UPDATE_AND_GET_GROUP_FORBIDDEN = 353;
        /// The same fields as [`PULL_MESSAGE`], from the lite pull consumer.
        LITE_PULL_MESSAGE = 361;
        RECALL_MESSAGE = 370;

        QUERY_ASSIGNMENT = 400;
        SET_MESSAGE_REQUEST_MODE = 401;
        /// Slave to master.
        GET_ALL_MESSAGE_REQUEST_MODE = 402;
        /// Broker to NameServer.
        GET_BROKER_MEMBER_GROUP = 901;
        /// Broker to NameServer, one-way.
        BROKER_HEARTBEAT = 904;
        /// NameServer to broker, one-way.
        NOTIFY_MIN_BROKER_ID_CHANGE = 905;
        EXCHANGE_BROKER_HA_INFO = 906;
        GET_BROKER_HA_STATUS = 907;
        RESET_MASTER_FLUSH_OFFSET = 908;

        AUTH_CREATE_USER = 3001;
        AUTH_UPDATE_USER = 3002;
        AUTH_DELETE_USER = 3003;
        AUTH_GET_USER = 3004;
        AUTH_LIST_USER = 3005;
        AUTH_CREATE_ACL = 3006;
        AUTH_UPDATE_ACL = 3007;
        AUTH_DELETE_ACL = 3008;
        AUTH_GET_ACL = 3009;
        AUTH_LIST_ACL = 3010;

        POP_MESSAGE = 200050;
        ACK_MESSAGE = 200051;
        PEEK_MESSAGE = 200052;
        CHANGE_MESSAGE_INVISIBLETIME = 200053;
        NOTIFICATION = 200054;
        POLLING_INFO = 200055;
        POP_ROLLBACK = 200056;
        BATCH_ACK_MESSAGE = 200151;
    }
}

/// Codes of requests that only metaq knows, between its own nodes and from its own tools. RocketMQ's nodes answer that
/// they do not support them, and do without.
pub mod own_request {
    codes! {
        /// Slave to master: answered when topics, groups, offsets or delay progress have changed.
        WAIT_METADATA_CHANGE = 70001;
        /// Master to slave: the offsets that groups committed at the slave while the master was away.
        GET_KEPT_OFFSETS = 70002;
        /// Tool to slave: become the master.
        PROMOTE_BROKER = 70003;
        /// Slave that is being promoted to other slaves: follow the old master no more.
        LEAVE_MASTER = 70004;
        /// Slave to master: which topics were deleted, and where the log ended then.
        GET_DELETED_TOPICS = 70005;
        /// Master that starts to the others of its name: whether one of them is the master now, or is about to be.
        GET_STANDING = 70006;
        /// Promoted slave to the old master: take no messages any more.
        SUPERSEDE = 70007;
    }
}

/// Codes of responses.
pub mod response {
    codes! {
        SUCCESS = 0;
        /// Anything unexpected, and several kinds of "not found" (38, 204, 307, 315).
        SYSTEM_ERROR = 1;
        /// Overload; clients try again, elsewhere first.
        SYSTEM_BUSY = 2;
        REQUEST_CODE_NOT_SUPPORTED = 3;
        TRANSACTION_FAILED = 4;
        /// A send that is stored, its flush not confirmed in time.
        FLUSH_DISK_TIMEOUT = 10;
        /// A send that is stored, with no slave to copy it. Also 37 and 370 asked of a slave.
        SLAVE_NOT_AVAILABLE = 11;
        /// A send that is stored, the slave's copy not confirmed in time.
        FLUSH_SLAVE_TIMEOUT = 12;
        MESSAGE_ILLEGAL = 13;
        SERVICE_NOT_AVAILABLE = 14;
        VERSION_NOT_SUPPORTED = 15;
        NO_PERMISSION = 16;
        /// Clients fall back to the template topic on exactly this code.
        TOPIC_NOT_EXIST = 17;
        TOPIC_EXIST_ALREADY = 18;
        /// A pull that found nothing new.
        PULL_NOT_FOUND = 19;
        /// A pull that found nothing that matches: go on at `nextBeginOffset`.
        PULL_RETRY_IMMEDIATELY = 20;
        /// A pull outside the queue: go on at `nextBeginOffset`.
        PULL_OFFSET_MOVED = 21;
        QUERY_NOT_FOUND = 22;
        SUBSCRIPTION_PARSE_FAILED = 23;
        SUBSCRIPTION_NOT_EXIST = 24;
        SUBSCRIPTION_NOT_LATEST = 25;
        SUBSCRIPTION_GROUP_NOT_EXIST = 26;
        FILTER_DATA_NOT_EXIST = 27;
        FILTER_DATA_NOT_LATEST = 28;
        /// 4.x brokers say 1 where 5.x says this.
        INVALID_PARAMETER = 29;
        TRANSACTION_SHOULD_COMMIT = 200;
        TRANSACTION_SHOULD_ROLLBACK = 201;
        TRANSACTION_STATE_UNKNOW = 202;
        TRANSACTION_STATE_GROUP_WRONG = 203;
        NO_BUYER_ID = 204;
        NOT_IN_CURRENT_UNIT = 205;
        CONSUMER_NOT_ONLINE = 206;
        /// The client a request was passed on to did not answer.
        CONSUME_MSG_TIMEOUT = 207;
        NO_MESSAGE = 208;
        POLLING_FULL = 209;
        POLLING_TIMEOUT = 210;
        BROKER_NOT_EXIST = 211;
        BROKER_DISPATCH_NOT_COMPLETE = 212;
        BROADCAST_CONSUMPTION = 213;
        /// On a pull: Java asks again after 20 ms, not after a second.
        FLOW_CONTROL = 215;
        NOT_LEADER_FOR_QUEUE = 501;
        ILLEGAL_OPERATION = 604;
        /// The server is draining; only for clients above [`V5_3_1`](crate::proto::remoting::version::V5_3_1).
        GO_AWAY = 1500;
        USER_NOT_EXIST = 3001;
        POLICY_NOT_EXIST = 3002;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_rocketmqs() {
        assert_eq!(request::name(310), Some("SEND_MESSAGE_V2"));
        assert_eq!(request::name(200_151), Some("BATCH_ACK_MESSAGE"));
        assert_eq!(request::name(13), None);
        assert_eq!(response::name(22), Some("QUERY_NOT_FOUND"));
        assert_eq!(response::name(-1000), None);
    }
}
