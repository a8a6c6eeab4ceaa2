//! Requests that can be read and ask for what cannot be: RocketMQ's code for each, and a remark that says what is wrong.

use metaq::proto::remoting::{request, Command};

use super::bad_input::broker_request;
use super::support::Broker;

/// Fields that differ from a request that is fine; the code of the answer and a part of its remark.
type Row = (i32, &'static [(&'static str, &'static str)], i32, &'static str);

const LONG: &str = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";
const ILLEGAL: &str = "illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$";

/// Topic `Orders` has 1 queue with 1 message; group `cg` exists and has no members.
const ROWS: &[Row] = &[
    // Sends.
    (request::SEND_MESSAGE_V2, &[("b", "")], 29, "The specified topic is blank."),
    (request::SEND_MESSAGE_V2, &[("b", "a b")], 29, ILLEGAL),
    (request::SEND_MESSAGE_V2, &[("b", "../x")], 29, ILLEGAL),
    (request::SEND_MESSAGE_V2, &[("b", LONG)], 29, "longer than topic max length"),
    (request::SEND_MESSAGE_V2, &[("b", "SCHEDULE_TOPIC_XXXX")], 16, "is forbidden"),
    (request::SEND_MESSAGE_V2, &[("b", "RMQ_SYS_TRANS_HALF_TOPIC")], 16, "is forbidden"),
    (request::SEND_MESSAGE_V2, &[("b", "rmq_sys_any")], 16, "is forbidden"),
    (request::SEND_MESSAGE_V2, &[("b", "%RETRY%")], 26, "subscription group not exist"),
    (request::SEND_MESSAGE_V2, &[("b", "unknown"), ("c", "no-template")], 17, "topic[unknown] not exist"),
    (request::SEND_MESSAGE_V2, &[("e", "1")], 29, "request queueId[1] is illegal"),
    (request::SEND_MESSAGE_V2, &[("e", "2147483647")], 29, "request queueId[2147483647] is illegal"),
    (request::SEND_MESSAGE_V2, &[("f", "4")], 13, "the message is illegal"),
    (request::SEND_MESSAGE_V2, &[("i", "TIMER_DELAY_SEC\u{1}259201\u{2}")], 13, "than the max delay 259200000ms"),
    (request::SEND_MESSAGE_V2, &[("i", "TIMER_DELAY_MS\u{1}soon\u{2}")], 13, "timer message illegal"),
    (
        request::SEND_BATCH_MESSAGE,
        &[("b", "%RETRY%cg"), ("m", "true")],
        13,
        "batch request does not support retry group",
    ),
    // Pulls.
    (request::PULL_MESSAGE, &[("topic", "unknown")], 17, "topic[unknown] not exist"),
    (request::PULL_MESSAGE, &[("consumerGroup", "a b")], 26, "subscription group [a b] does not exist"),
    (request::PULL_MESSAGE, &[("consumerGroup", "")], 26, "does not exist"),
    (request::PULL_MESSAGE, &[("queueId", "-1")], 29, "queueId[-1] is illegal"),
    (request::PULL_MESSAGE, &[("queueId", "1")], 29, "queueId[1] is illegal"),
    (request::PULL_MESSAGE, &[("queueOffset", "-1")], 21, "OFFSET_TOO_SMALL"),
    (request::PULL_MESSAGE, &[("queueOffset", "2")], 21, "OFFSET_OVERFLOW_BADLY"),
    (request::PULL_MESSAGE, &[("queueOffset", "9223372036854775807")], 21, "OFFSET_OVERFLOW_BADLY"),
    (request::PULL_MESSAGE, &[("queueOffset", "1")], 19, "OFFSET_OVERFLOW_ONE"),
    (request::PULL_MESSAGE, &[("subscription", "||")], 23, "parse the consumer's subscription failed"),
    (request::PULL_MESSAGE, &[("expressionType", "SQL92"), ("subscription", "a > 1")], 1, "filter message by SQL92"),
    (request::PULL_MESSAGE, &[("expressionType", "ODD")], 23, "parse the consumer's subscription failed"),
    (request::PULL_MESSAGE, &[("sysFlag", "0")], 24, "the consumer's group info not exist"),
    // Offsets.
    (request::UPDATE_CONSUMER_OFFSET, &[("consumerGroup", "unknown")], 26, "Group unknown not exist!"),
    (request::UPDATE_CONSUMER_OFFSET, &[("topic", "unknown")], 17, "Topic unknown not exist!"),
    (request::UPDATE_CONSUMER_OFFSET, &[("queueId", "-1")], 29, "queueId[-1] is illegal"),
    (request::UPDATE_CONSUMER_OFFSET, &[("queueId", "1")], 29, "queueId[1] is illegal"),
    (request::UPDATE_CONSUMER_OFFSET, &[("commitOffset", "2")], 29, "it can be -1 to 1"),
    (request::UPDATE_CONSUMER_OFFSET, &[("commitOffset", "-2")], 29, "it can be -1 to 1"),
    (request::UPDATE_CONSUMER_OFFSET, &[("commitOffset", "")], 29, "Offset is null, topic is Orders"),
    (request::QUERY_CONSUMER_OFFSET, &[("topic", "unknown")], 22, "Not found"),
    (request::QUERY_CONSUMER_OFFSET, &[("queueId", "-1")], 22, "Not found"),
    (
        request::QUERY_CONSUMER_OFFSET,
        &[("setZeroIfNotFound", "false"), ("consumerGroup", "new")],
        22,
        "do not set to zero",
    ),
    (request::INVOKE_BROKER_TO_RESET_OFFSET, &[("topic", "unknown")], 17, "Topic unknown does not exist"),
    (request::INVOKE_BROKER_TO_RESET_OFFSET, &[("group", "unknown")], 26, "Group unknown does not exist"),
    (request::INVOKE_BROKER_TO_RESET_OFFSET, &[("queueId", "1")], 29, "queueId[1] is illegal"),
    (request::INVOKE_BROKER_TO_RESET_OFFSET, &[("queueId", "2147483647")], 29, "queueId[2147483647] is illegal"),
    (
        request::INVOKE_BROKER_TO_RESET_OFFSET,
        &[("queueId", "0"), ("offset", "3")],
        1,
        "not in consume queue range [0-1]",
    ),
    (
        request::INVOKE_BROKER_TO_RESET_OFFSET,
        &[("queueId", "0"), ("offset", "-2")],
        1,
        "not in consume queue range [0-1]",
    ),
    // Messages.
    (request::QUERY_MESSAGE, &[("key", "nothing")], 22, "can not find message"),
    (request::QUERY_MESSAGE, &[("maxNum", "-1")], 22, "can not find message"),
    (request::VIEW_MESSAGE_BY_ID, &[("offset", "-1")], 1, "can not find message by the offset, -1"),
    (request::VIEW_MESSAGE_BY_ID, &[("offset", "1")], 1, "can not find message by the offset, 1"),
    (request::CONSUMER_SEND_MSG_BACK, &[("offset", "-1")], 1, "look message by offset failed, -1"),
    (request::CONSUMER_SEND_MSG_BACK, &[("offset", "9223372036854775807")], 1, "look message by offset failed"),
    (request::CONSUMER_SEND_MSG_BACK, &[("group", "a b")], 26, "subscription group not exist, a b"),
    // Topics and groups.
    (request::UPDATE_AND_CREATE_TOPIC, &[("topic", "")], 29, "The specified topic is blank."),
    (request::UPDATE_AND_CREATE_TOPIC, &[("topic", "a b")], 29, ILLEGAL),
    (request::UPDATE_AND_CREATE_TOPIC, &[("topic", LONG)], 29, "longer than topic max length"),
    (request::UPDATE_AND_CREATE_TOPIC, &[("topic", "TBW102")], 29, "conflict with system topic"),
    (request::UPDATE_AND_CREATE_TOPIC, &[("readQueueNums", "-1")], 1, "has to be 0 to 16384"),
    (request::UPDATE_AND_CREATE_TOPIC, &[("writeQueueNums", "16385")], 1, "has to be 0 to 16384"),
    (request::UPDATE_AND_CREATE_TOPIC, &[("perm", "16")], 1, "has to be 0 to 15"),
    (request::UPDATE_AND_CREATE_TOPIC, &[("attributes", "+odd=1")], 1, "unsupported key: odd"),
    (request::DELETE_TOPIC_IN_BROKER, &[("topic", "../..")], 29, ILLEGAL),
    (request::DELETE_TOPIC_IN_BROKER, &[("topic", "TBW102")], 29, "conflict with system topic"),
    (request::GET_TOPIC_CONFIG, &[("topic", "unknown")], 17, "No topic in this broker. topic: unknown"),
    (request::GET_SUBSCRIPTIONGROUP_CONFIG, &[("group", "a b")], 26, "the group[a b] not exist"),
    (request::UPDATE_AND_GET_GROUP_FORBIDDEN, &[("group", "unknown")], 26, "the group[unknown] not exist"),
    (request::UPDATE_AND_GET_GROUP_FORBIDDEN, &[("topic", "a b")], 29, ILLEGAL),
    // What tools ask.
    (request::GET_TOPIC_STATS_INFO, &[("topic", "unknown")], 17, "topic[unknown] not exist"),
    (request::QUERY_CONSUME_TIME_SPAN, &[("topic", "unknown")], 17, "topic[unknown] not exist"),
    (request::GET_CONSUMER_CONNECTION_LIST, &[], 206, "the consumer group[cg] not online"),
    (request::GET_PRODUCER_CONNECTION_LIST, &[], 1, "the producer group[pg] not exist"),
    (request::GET_CONSUMER_LIST_BY_GROUP, &[], 1, "no consumer for this group, cg"),
    (request::GET_CONSUMER_RUNNING_INFO, &[], 1, "The Consumer <cg> <c> not online"),
    (request::CONSUME_MESSAGE_DIRECTLY, &[("msgId", "odd")], 1, "`odd` is no offset message id"),
    (request::INVOKE_BROKER_TO_GET_CONSUMER_STATUS, &[], 206, "the consumer group[cg] not online"),
    (request::VIEW_BROKER_STATS_DATA, &[("statsName", "ODD")], 1, "not exist"),
    (request::QUERY_CONSUME_QUEUE, &[("topic", "unknown")], 1, "is not exist"),
    (request::QUERY_CONSUME_QUEUE, &[("queueId", "-1")], 1, "is not exist"),
    (request::QUERY_CONSUME_QUEUE, &[("index", "-1")], 1, "is not exist"),
];

/// Bodies, the code of the answer and a part of its remark.
const BODIES: &[(i32, &str, i32, &str)] = &[
    (request::SEND_MESSAGE_V2, "", 13, "the message is illegal"),
    (request::SEND_BATCH_MESSAGE, "", 13, "the message is illegal"),
    (request::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, r#"{"groupName":"a b"}"#, 29, ILLEGAL),
    (request::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, "{}", 29, "The specified group is blank."),
    (request::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, r#"{"groupName":"g","retryQueueNums":"x"}"#, 1, "cannot be read"),
    (request::UPDATE_AND_CREATE_TOPIC_LIST, r#"{"topicConfigList":[{"topicName":"a b"}]}"#, 29, ILLEGAL),
    (request::HEART_BEAT, "nothing", 1, "the body cannot be read"),
    (
        request::CHECK_CLIENT_CONFIG,
        r#"{"clientId":"c","group":"g","subscriptionData":{"topic":"T","subString":"||","expressionType":"TAG"}}"#,
        23,
        "parse the consumer's subscription failed",
    ),
    (request::UPDATE_BROKER_CONFIG, "listenPort=2", 1, "listenPort has to be 3 or more"),
    (request::UPDATE_BROKER_CONFIG, "brokerRole=SLAVE", 1, "a slave needs a brokerId of its own"),
    (request::UPDATE_BROKER_CONFIG, "configBlackList=", 16, "Can not update config in black list."),
];

#[tokio::test]
async fn what_cannot_be_is_refused_in_rocketmqs_words() {
    let broker = Broker::start("").await;
    let client = broker.client().await;
    client.send("Orders", "a", &[("KEYS", "k")]).await;
    client.get(Command::request(request::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP).with_body(r#"{"groupName":"cg"}"#)).await;
    let mut wrong = Vec::new();
    let fine = |code| {
        let (fields, body) = broker_request(code).unwrap();
        let mut command = Command::request(code).with_body(body);
        command.ext = fields.iter().map(|(name, _, _, value)| (*name, *value)).collect();
        command
    };
    let rows = ROWS.iter().map(|(code, changes, expected, remark)| {
        let mut command = fine(*code);
        for (name, value) in *changes {
            command.ext.set(name, value);
        }
        (command, format!("{changes:?}"), *expected, *remark)
    });
    let bodies = BODIES
        .iter()
        .map(|(code, body, expected, remark)| (fine(*code).with_body(*body), (*body).to_owned(), *expected, *remark));
    for (command, what, expected, remark) in rows.chain(bodies) {
        let code = command.code;
        let answer = client.ask(command).await;
        let said = answer.remark.unwrap_or_default();
        if answer.code != expected || !said.contains(remark) {
            wrong.push(format!("{code} {what}: {} {said}, not {expected} {remark}", answer.code));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(client.send("Orders", "b", &[]).await.queue_offset, 1, "nothing of all that was stored");
}
