//! What the broker answers to requests of slaves and tools about the timer and about how groups consume, and which
//! requests of RocketMQ it refuses.

use metaq::proto::body::{from_slice, KvTable};
use metaq::proto::remoting::requests::ExchangeBrokerHaInfo;
use metaq::proto::remoting::{request, response, Command};

use super::bad_input::broker_request;
use super::support::{until, Broker, Client};

/// Requests of RocketMQ to a broker that metaq does not know, each answered with REQUEST_CODE_NOT_SUPPORTED: POP with
/// what belongs to it, access control, and what a master orders its slaves to do.
const REFUSED: &[i32] = &[
    request::UPDATE_AND_CREATE_ACL_CONFIG,
    request::DELETE_ACL_CONFIG,
    request::GET_BROKER_CLUSTER_ACL_INFO,
    request::UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
    request::GET_BROKER_CLUSTER_ACL_CONFIG,
    request::QUERY_ASSIGNMENT,
    request::RESET_MASTER_FLUSH_OFFSET,
    request::AUTH_CREATE_USER,
    request::AUTH_UPDATE_USER,
    request::AUTH_DELETE_USER,
    request::AUTH_GET_USER,
    request::AUTH_LIST_USER,
    request::AUTH_CREATE_ACL,
    request::AUTH_UPDATE_ACL,
    request::AUTH_DELETE_ACL,
    request::AUTH_GET_ACL,
    request::AUTH_LIST_ACL,
    request::POP_MESSAGE,
    request::ACK_MESSAGE,
    request::PEEK_MESSAGE,
    request::CHANGE_MESSAGE_INVISIBLETIME,
    request::NOTIFICATION,
    request::POLLING_INFO,
    request::POP_ROLLBACK,
    request::BATCH_ACK_MESSAGE,
];

/// Requests that go to clients or NameServers: a broker answers nothing of them.
const OTHERS: &[i32] = &[
    request::CHECK_TRANSACTION_STATE,
    request::NOTIFY_CONSUMER_IDS_CHANGED,
    request::PUT_KV_CONFIG,
    request::GET_KV_CONFIG,
    request::DELETE_KV_CONFIG,
    request::REGISTER_BROKER,
    request::UNREGISTER_BROKER,
    request::GET_ROUTEINFO_BY_TOPIC,
    request::GET_BROKER_CLUSTER_INFO,
    request::WIPE_WRITE_PERM_OF_BROKER,
    request::GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
    request::DELETE_TOPIC_IN_NAMESRV,
    request::REGISTER_TOPIC_IN_NAMESRV,
    request::GET_KVLIST_BY_NAMESPACE,
    request::RESET_CONSUMER_CLIENT_OFFSET,
    request::GET_CONSUMER_STATUS_FROM_CLIENT,
    request::GET_TOPICS_BY_CLUSTER,
    request::GET_SYSTEM_TOPIC_LIST_FROM_NS,
    request::GET_UNIT_TOPIC_LIST,
    request::GET_HAS_UNIT_SUB_TOPIC_LIST,
    request::GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
    request::UPDATE_NAMESRV_CONFIG,
    request::GET_NAMESRV_CONFIG,
    request::QUERY_DATA_VERSION,
    request::PUSH_REPLY_MESSAGE_TO_CLIENT,
    request::ADD_WRITE_PERM_OF_BROKER,
    request::GET_BROKER_MEMBER_GROUP,
    request::BROKER_HEARTBEAT,
    request::NOTIFY_MIN_BROKER_ID_CHANGE,
];

/// Every code of RocketMQ's is either answered or in one of the lists, so none is forgotten.
#[tokio::test]
async fn every_code_is_answered_or_refused_as_not_supported() {
    let broker = Broker::start("").await;
    let client = broker.client().await;
    for code in (0..4096).chain(200_000..200_256).filter(|code| request::name(*code).is_some()) {
        let listed = REFUSED.contains(&code) || OTHERS.contains(&code);
        assert_eq!(broker_request(code).is_none(), listed, "{code} is in one of two lists");
        if listed {
            let answer = client.ask(Command::request(code)).await;
            let remark = format!(" request type {code} not supported");
            assert_eq!(answer.code, response::REQUEST_CODE_NOT_SUPPORTED, "{code}");
            assert_eq!(answer.remark, Some(remark));
        }
    }
}

async fn runtime(client: &Client, keys: [&str; 3]) -> [String; 3] {
    let answer = client.get(Command::request(request::GET_BROKER_RUNTIME_INFO)).await;
    let table: KvTable = from_slice(&answer.body).unwrap();
    keys.map(|key| table.table[key].clone())
}

#[tokio::test]
async fn the_timer_says_how_far_it_is() {
    let broker = Broker::start("").await;
    let client = broker.client().await;
    let keys = ["timerReadBehind", "timerOffsetBehind", "timerCongestNum"];
    assert_eq!(runtime(&client, keys).await, ["0", "0", "0"]);
    for body in ["a", "b", "c"] {
        client.send("Orders", body, &[("TIMER_DELAY_SEC", "3600")]).await;
    }
    client.send("Orders", "now", &[("TIMER_DELAY_MS", "1")]).await;
    client.wait_messages("cg", "Orders", 0).await;
    let before = broker.env.clock.now();
    let waiting = || async { client.get(Command::request(request::GET_TIMER_METRICS)).await.body };
    let metrics = until(&broker.env, async || {
        let metrics: serde_json::Value = serde_json::from_slice(&waiting().await).unwrap();
        (metrics["timingCount"]["rmq_sys_wheel_timer"]["count"] == 3).then_some(metrics)
    })
    .await;
    assert!(metrics["dataVersion"]["timestamp"].is_i64(), "{metrics}");
    assert_eq!(runtime(&client, keys).await, ["0", "0", "0"], "what waits for its time is not late");

    let checkpoint = client.get(Command::request(request::GET_TIMER_CHECK_POINT)).await.body;
    assert_eq!(checkpoint.len(), 56);
    let numbers: Vec<i64> = checkpoint.as_chunks::<8>().0.iter().map(|bytes| i64::from_be_bytes(*bytes)).collect();
    let [read, flushed, next, master_next, state, timestamp, _] = numbers[..] else { panic!("{numbers:?}") };
    assert!((0..=60_000).contains(&(before.0 - read)), "read up to {read}, now is {}", before.0);
    assert_eq!((flushed, next, master_next, state), (0, 4, 4, 0));
    assert!(timestamp > 0);
}

fn set_mode(topic: &str, group: &str, mode: &str) -> Command {
    let body = format!(r#"{{"topic":"{topic}","consumerGroup":"{group}","mode":"{mode}","popShareQueueNum":0}}"#);
    Command::request(request::SET_MESSAGE_REQUEST_MODE).with_body(body)
}

#[tokio::test]
async fn every_group_pulls() {
    let broker = Broker::start("").await;
    let client = broker.client().await;
    client.send("Orders", "a", &[]).await;
    client.get(Command::request(request::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP).with_body(r#"{"groupName":"cg"}"#)).await;
    client.get(set_mode("Orders", "cg", "PULL")).await;
    let rows = [
        (set_mode("Orders", "cg", "POP"), response::REQUEST_CODE_NOT_SUPPORTED),
        (set_mode("%RETRY%cg", "cg", "PULL"), response::NO_PERMISSION),
        (set_mode("Unknown", "cg", "PULL"), response::TOPIC_NOT_EXIST),
        (set_mode("Orders", "unknown", "PULL"), response::SUBSCRIPTION_GROUP_NOT_EXIST),
    ];
    for (command, code) in rows {
        let answer = client.ask(command).await;
        assert_eq!(answer.code, code, "{:?}", answer.remark);
    }
    let modes = client.get(Command::request(request::GET_ALL_MESSAGE_REQUEST_MODE)).await;
    assert_eq!(modes.body, br#"{"messageRequestModeMap":{}}"#);
}

#[tokio::test]
async fn a_master_tells_where_slaves_reach_it() {
    let broker = Broker::start("").await;
    let client = broker.client().await;
    client.send("Orders", "a", &[]).await;
    let answer = client.get(Command::request(request::EXCHANGE_BROKER_HA_INFO)).await;
    let fields = answer.ext_fields().unwrap();
    let info = ExchangeBrokerHaInfo::decode(&fields).unwrap();
    assert_eq!(info.master_address.as_deref(), Some(broker.address().to_string().as_str()));
    let ha = broker.handle().ha_address().unwrap().port();
    assert_eq!(info.master_ha_address, Some(format!("127.0.0.1:{ha}").into()));
    assert!(info.master_flush_offset.is_some());
    let order = ExchangeBrokerHaInfo {
        master_ha_address: Some("127.0.0.1:1".into()),
        master_flush_offset: None,
        master_address: None,
    };
    let refused = client.ask(Command::request(request::EXCHANGE_BROKER_HA_INFO).with_ext(&order)).await;
    assert_eq!(refused.code, response::REQUEST_CODE_NOT_SUPPORTED, "a broker's master is what the NameServers say");
}
