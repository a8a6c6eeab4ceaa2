//! Every frame of tests/vectors/wire, read and written again; and the fuzz targets over their corpus.

use std::path::{Path, PathBuf};

use metaq::proto::remoting::requests::*;
use metaq::proto::remoting::{
    frame, fuzzing, request, response, Command, Head, Language, RawFrame, Serialization, Text,
};
use serde_json::{json, Value};

use crate::vectors;

/// All frames; 13, 16 and 17 are stored records.
const FRAMES: [(&str, i32, i32); 58] = [
    ("01_route_request_json", request::GET_ROUTEINFO_BY_TOPIC, 1),
    ("02_route_request_rocketmq", request::GET_ROUTEINFO_BY_TOPIC, 1),
    ("03_route_response_json", response::SUCCESS, 1),
    ("04_route_response_rocketmq", response::SUCCESS, 1),
    ("05_route_response_json_legacy_keys", response::SUCCESS, 1),
    ("06_route_response_topic_not_exist", response::TOPIC_NOT_EXIST, 1),
    ("07_send_message_v2_request_json", request::SEND_MESSAGE_V2, 2),
    ("08_send_message_v2_request_rocketmq", request::SEND_MESSAGE_V2, 2),
    ("09_send_message_response_json", response::SUCCESS, 2),
    ("10_send_batch_message_request_json", request::SEND_BATCH_MESSAGE, 3),
    ("11_heartbeat_request_json", request::HEART_BEAT, 4),
    ("12_pull_message_request_json", request::PULL_MESSAGE, 5),
    ("14_pull_message_response_two_messages", response::SUCCESS, 5),
    ("15_pull_message_response_not_found", response::PULL_NOT_FOUND, 5),
    ("18_end_transaction_oneway_json", request::END_TRANSACTION, 6),
    ("19_check_transaction_state_request_json", request::CHECK_TRANSACTION_STATE, 77),
    ("20_reset_client_offset_request_json", request::RESET_CONSUMER_CLIENT_OFFSET, 78),
    ("21_send_message_v2_request_acl_json", request::SEND_MESSAGE_V2, 7),
    ("22_pop_message_request_rocketmq", request::POP_MESSAGE, 8),
    ("23_pop_message_response_json", response::SUCCESS, 8),
    ("24_register_broker_request_json", request::REGISTER_BROKER, 9),
    ("25_register_broker_request_compressed", request::REGISTER_BROKER, 10),
    ("26_register_broker_response_json", response::SUCCESS, 9),
    ("27_pull_message_request_cpp_style", request::PULL_MESSAGE, 11),
    ("28_send_message_request_go_style", request::SEND_MESSAGE, 12),
    ("29_consumer_send_msg_back_request_json", request::CONSUMER_SEND_MSG_BACK, 13),
    ("30_consume_stats_response_json", response::SUCCESS, 14),
    ("31_real_register_broker_request", request::REGISTER_BROKER, 0),
    ("32_real_register_broker_response_slave", response::SUCCESS, 0),
    ("33_real_route_response_not_exist", response::TOPIC_NOT_EXIST, 6),
    ("34_real_cluster_info_response", response::SUCCESS, 22),
    ("35_real_send_v2_request", request::SEND_MESSAGE_V2, 2),
    ("36_real_send_response", response::SUCCESS, 2),
    ("37_real_send_v2_request_rocketmq", request::SEND_MESSAGE_V2, 2),
    ("38_real_batch_request", request::SEND_BATCH_MESSAGE, 15),
    ("39_real_send_response_illegal_topic", response::INVALID_PARAMETER, 38),
    ("40_real_send_response_timer", response::SUCCESS, 21),
    ("41_real_pull_request_push_consumer", request::PULL_MESSAGE, 79),
    ("42_real_lite_pull_request", request::LITE_PULL_MESSAGE, 652),
    ("43_real_pull_response_found", response::SUCCESS, 58),
    ("44_real_pull_response_no_match", response::PULL_RETRY_IMMEDIATELY, 53),
    ("45_real_heartbeat_v2_short_request", request::HEART_BEAT, 19),
    ("46_real_heartbeat_v2_response", response::SUCCESS, 19),
    ("47_real_query_offset_not_found", response::QUERY_NOT_FOUND, 167),
    ("48_real_send_msg_back_request", request::CONSUMER_SEND_MSG_BACK, 86),
    ("49_real_check_transaction_state", request::CHECK_TRANSACTION_STATE, 179),
    ("50_real_end_transaction", request::END_TRANSACTION, 6),
    ("51_real_push_reply", request::PUSH_REPLY_MESSAGE_TO_CLIENT, 1146),
    ("52_real_recall_response", response::SUCCESS, 25),
    ("53_real_lock_batch_response", response::SUCCESS, 299),
    ("54_real_query_assignment_response", response::SUCCESS, 16),
    ("55_real_pop_request", request::POP_MESSAGE, 37),
    ("56_real_ack_request", request::ACK_MESSAGE, 63),
    ("57_real_reset_offset_response", response::SUCCESS, 73),
    ("58_real_timer_check_point_response", response::SUCCESS, 4),
    ("59_real_all_delay_offset_response", response::SUCCESS, 58),
    ("60_real_all_consumer_offset_response", response::SUCCESS, 56),
    ("61_real_register_broker_request_compressed", request::REGISTER_BROKER, 0),
];

fn cut(bytes: &[u8]) -> RawFrame<'_> {
    frame::next(bytes).expect("a frame").expect("all of it")
}

/// Reads the vector whose name begins with `number` and shows its header and body.
fn with<T>(number: u32, look: impl FnOnce(Head<'_>, &[u8]) -> T) -> T {
    let start = format!("{number:02}_");
    let (name, ..) = FRAMES.iter().find(|(name, ..)| name.starts_with(&start)).expect("a frame of this number");
    let bytes = vectors::wire(name);
    let frame = cut(&bytes);
    look(Head::parse(frame.serialization, frame.header).expect(name), frame.body)
}

#[test]
fn every_frame_reads() {
    for (name, code, opaque) in FRAMES {
        let bytes = vectors::wire(name);
        let frame = cut(&bytes);
        assert_eq!(frame.len, bytes.len(), "{name}");
        assert_eq!(8 + frame.header.len() + frame.body.len(), bytes.len(), "{name}");
        let head = Head::parse(frame.serialization, frame.header).expect(name);
        assert_eq!((head.code, head.opaque), (code, opaque), "{name}");
        assert_eq!(head.is_response(), name.contains("_response") || name.contains("_not_found"), "{name}");
        for end in 0..bytes.len() {
            assert_eq!(frame::next(&bytes[..end]), Ok(None), "{name}: {end} bytes");
        }
        fuzzing::frames(&bytes);
    }
}

#[test]
fn every_frame_is_written_again() {
    for (name, ..) in FRAMES {
        let bytes = vectors::wire(name);
        let frame = cut(&bytes);
        let command = Command::decode(&frame).expect(name);
        let mut out = Vec::new();
        command.encode(frame.serialization, &mut out).expect(name);
        let again = cut(&out);
        assert_eq!(Command::decode(&again).expect(name), command, "{name}");
        match frame.serialization {
            Serialization::RocketMq => assert_eq!(out, bytes, "{name}: a binary header has one form"),
            Serialization::Json => assert_eq!(as_written(again.header), as_written(frame.header), "{name}"),
        }
    }
}

/// A JSON header as a value, with the differences evened out that mean nothing.
fn as_written(header: &[u8]) -> Value {
    let mut value: Value = serde_json::from_slice(header).expect("JSON");
    let members = value.as_object_mut().expect("an object");
    members.entry("serializeTypeCurrentRPC").or_insert(json!("JSON"));
    let fields = members.entry("extFields").or_insert(json!({})).as_object_mut().expect("an object");
    for field in fields.values_mut().filter(|field| !field.is_string()) {
        *field = json!(field.to_string());
    }
    value
}

#[test]
fn javas_frames_come_out_byte_for_byte() {
    // Those with ext fields; without any, Java leaves `extFields` out and we write `{}`.
    for (name, ..) in FRAMES {
        let bytes = vectors::wire(name);
        let frame = cut(&bytes);
        let command = Command::decode(&frame).expect(name);
        if command.language != Language::Java || command.ext.is_empty() {
            continue;
        }
        let mut out = Vec::new();
        command.encode(frame.serialization, &mut out).expect(name);
        assert_eq!(out, bytes, "{name}");
    }
}

#[test]
fn sends_are_the_same_in_both_serializations() {
    let expected = SendHeader {
        producer_group: "pg_demo".into(),
        topic: "TopicTest".into(),
        default_topic: "TBW102".into(),
        default_topic_queue_nums: 4,
        queue_id: 2,
        born_timestamp: 1_700_000_000_000,
        properties: Text::plain(concat!(
            "KEYS\u{1}order-1\u{2}UNIQ_KEY\u{1}C0A801141A2B18B4AAC247B760000000\u{2}",
            "WAIT\u{1}true\u{2}TAGS\u{1}TagA\u{2}"
        )),
        broker_name: Some("broker-a".into()),
        ..SendHeader::default()
    };
    for number in [7, 8, 21] {
        with(number, |head, body| {
            assert_eq!(SendHeader::decode(head.code, &head.ext).as_ref(), Ok(&expected), "{number}");
            assert_eq!(body, b"hello rocketmq");
        });
    }
    with(35, |json, _| {
        with(37, |binary, _| {
            let json = SendHeader::decode(json.code, &json.ext).unwrap();
            let binary = SendHeader::decode(binary.code, &binary.ext).unwrap();
            assert!(json.properties.str().starts_with("a\u{1}10\u{2}KEYS\u{1}order-1\u{2}UNIQ_KEY\u{1}FD0000"));
            assert!(binary.properties.str().contains("\u{2}UNIQ_KEY\u{1}FD0000"));
            assert_eq!((json.topic, json.queue_id), (binary.topic, binary.queue_id));
        });
    });
    for number in [10, 38] {
        assert!(with(number, |head, _| SendHeader::decode(head.code, &head.ext).unwrap().batch), "{number}");
    }
}

#[test]
fn the_go_client_sends_long_names() {
    with(28, |head, _| {
        assert_eq!((head.language, head.version), (Language::Go, 317));
        let header = SendHeader::decode(head.code, &head.ext).unwrap();
        assert_eq!((&*header.producer_group, &*header.topic), ("pg_demo", "TopicTest"));
        assert_eq!((header.queue_id, header.max_reconsume_times, header.batch), (2, Some(0), false));
        assert_eq!(header.properties.str(), "UNIQ_KEY\u{1}C0A801141a2b\u{2}TAGS\u{1}TagA\u{2}");
    });
}

#[test]
fn the_cpp_client_sends_numbers_and_empty_credentials() {
    with(27, |head, _| {
        assert_eq!((head.language, head.version), (Language::Cpp, 333));
        assert!(head.remark.unwrap().is_empty());
        let pull = PullHeader::decode(&head.ext).unwrap();
        assert_eq!((pull.queue_id, pull.max_msg_nums, pull.sys_flag), (2, 32, 6));
        assert_eq!((pull.subscription.as_deref(), pull.expression_type), (Some("TagA"), None));
        let nobody = Credentials { access_key: None, signature: None, security_token: None };
        assert_eq!(Credentials::decode(&head.ext), Ok(nobody));
    });
    with(21, |head, _| {
        let credentials = Credentials::decode(&head.ext).unwrap();
        assert_eq!(credentials.access_key.as_deref(), Some("AKdemo"));
        assert_eq!(credentials.signature.as_deref(), Some("GaM21bu47vt+xAdNi2eBtbypQes="));
    });
}

#[test]
fn sends_are_answered() {
    with(36, |head, _| {
        let answer = SendResponse::decode(&head.ext).unwrap();
        assert_eq!(answer.msg_id, "7F00000100003E2700000000000050DB");
        assert_eq!((answer.queue_id, answer.queue_offset), (2, 0));
        assert_eq!((answer.region.as_deref(), answer.trace_on), (Some("DefaultRegion"), Some(true)));
        assert_eq!((answer.batch_uniq_id, answer.recall_handle), (None, None));
    });
    with(40, |head, _| {
        let answer = SendResponse::decode(&head.ext).unwrap();
        assert!(answer.recall_handle.unwrap().starts_with("djEgVG9waWNUZXN0"));
    });
    with(52, |head, _| assert!(RecallMessageResponse::decode(&head.ext).unwrap().msg_id.starts_with("FD0000")));
}

#[test]
fn pulls_are_asked_and_answered() {
    with(12, |head, _| {
        let pull = PullHeader::decode(&head.ext).unwrap();
        assert_eq!((&*pull.consumer_group, &*pull.topic, pull.queue_id), ("cg_demo", "TopicTest", 2));
        assert_eq!((pull.queue_offset, pull.commit_offset, pull.suspend_timeout_millis), (41, 0, 15_000));
        assert_eq!((pull.sub_version, pull.max_msg_bytes), (1_700_000_000_000, Some(i32::MAX)));
        assert_eq!((pull.expression_type.as_deref(), pull.subscription), (Some("TAG"), None));
        assert_eq!(Routing::decode(&head.ext).unwrap().broker_name.as_deref(), Some("broker-a"));
    });
    with(41, |head, _| {
        let pull = PullHeader::decode(&head.ext).unwrap();
        assert_eq!((pull.sys_flag, pull.commit_offset, pull.max_msg_bytes), (3, 2, Some(262_144)));
    });
    with(42, |head, _| {
        let pull = PullHeader::decode(&head.ext).unwrap();
        assert_eq!((pull.sys_flag, pull.subscription.as_deref(), &*pull.consumer_group), (22, Some("*"), "cg_lite"));
    });
    for (number, remark, next, max) in [
        (14, "FOUND", 43, 43),
        (15, "OFFSET_OVERFLOW_ONE", 43, 43),
        (43, "FOUND", 2, 2),
        (44, "NO_MATCHED_MESSAGE", 2, 2),
    ] {
        with(number, |head, _| {
            let expected = PullResponse {
                suggest_which_broker_id: 0,
                next_begin_offset: next,
                min_offset: 0,
                max_offset: max,
                offset_delta: None,
                topic_sys_flag: Some(0),
                group_sys_flag: Some(0),
            };
            assert_eq!(PullResponse::decode(&head.ext), Ok(expected), "{number}");
            assert_eq!(head.remark.unwrap().str(), remark, "{number}");
        });
    }
}

#[test]
fn brokers_register() {
    for (number, name, compressed, crc) in [
        (24, "broker-a", false, 732_387_114),
        (25, "broker-a", true, 1_959_527_202),
        (31, "broker-b", false, 619_487_861),
        (61, "broker-x", false, 1_115_388_208),
    ] {
        with(number, |head, body| {
            let broker = RegisterBroker::decode(&head.ext).unwrap();
            assert_eq!((&*broker.broker_name, &*broker.cluster_name), (name, "DefaultCluster"), "{number}");
            assert_eq!((broker.broker_id, broker.enable_acting_master), (0, Some(false)), "{number}");
            assert_eq!((broker.heartbeat_timeout_millis, broker.zone_name), (None, None), "{number}");
            assert_eq!((broker.compressed, broker.body_crc32), (compressed, crc), "{number}");
            assert_eq!(crc32fast::hash(body) & 0x7FFF_FFFF, crc as u32, "{number}");
        });
    }
    with(26, |head, _| {
        let expected = RegisterBrokerResponse { ha_server_addr: None, master_addr: None };
        assert_eq!(RegisterBrokerResponse::decode(&head.ext), Ok(expected));
    });
    with(32, |head, _| {
        let answer = RegisterBrokerResponse::decode(&head.ext).unwrap();
        assert_eq!(answer.ha_server_addr.as_deref(), Some("192.0.2.2:13912"));
        assert_eq!(answer.master_addr.as_deref(), Some("127.0.0.1:13911"));
    });
    with(1, |head, _| assert_eq!(GetRouteInfoByTopic::decode(&head.ext).unwrap().topic, "TopicTest"));
    with(2, |head, _| assert_eq!(GetRouteInfoByTopic::decode(&head.ext).unwrap().topic, "TopicTest"));
    with(33, |head, _| assert_eq!(head.remark.unwrap().str().lines().count(), 2));
}

#[test]
fn transactions_are_checked_and_ended() {
    for (number, group, offsets) in [(18, "pg_demo", (41, 4096)), (50, "pg_tx", (8, 409_966))] {
        with(number, |head, body| {
            assert!(head.is_oneway() && body.is_empty());
            let end = EndTransaction::decode(&head.ext).unwrap();
            assert_eq!((&*end.producer_group, end.topic.as_deref()), (group, Some("TopicTest")));
            assert_eq!((end.tran_state_table_offset, end.commit_log_offset), offsets);
            assert_eq!((end.commit_or_rollback, end.from_transaction_check), (8, false));
            assert_eq!(end.msg_id, end.transaction_id);
        });
    }
    for (number, offsets) in [(19, (41, 4096)), (49, (2, 22_151))] {
        with(number, |head, body| {
            assert!(head.is_oneway() && !body.is_empty());
            let check = CheckTransactionState::decode(&head.ext).unwrap();
            assert_eq!((check.tran_state_table_offset, check.commit_log_offset), offsets);
            assert_eq!(check.topic.as_deref(), Some("RMQ_SYS_TRANS_HALF_TOPIC"));
            assert_eq!(check.msg_id, check.transaction_id);
            assert_eq!(check.offset_msg_id.map(|id| id.len()), Some(32));
        });
    }
}

#[test]
fn the_other_requests_have_their_fields() {
    with(20, |head, _| {
        let expected = ResetConsumerClientOffset {
            topic: "TopicTest".into(),
            group: "cg_demo".into(),
            timestamp: 1_700_000_000_000,
            is_force: false,
            queue_id: -1,
        };
        assert_eq!(ResetConsumerClientOffset::decode(&head.ext), Ok(expected));
    });
    for (number, offset, level) in [(29, 4096, 0), (48, 408_753, 1)] {
        with(number, |head, _| {
            let back = ConsumerSendMsgBack::decode(&head.ext).unwrap();
            assert_eq!((back.offset, &*back.group, back.delay_level), (offset, "cg_demo", level));
            assert_eq!((back.origin_topic.as_deref(), back.max_reconsume_times), (Some("TopicTest"), Some(16)));
        });
    }
    with(46, |head, _| {
        let expected = HeartbeatResponse { is_support_heart_beat_v2: Some(true), is_sub_change: Some(false) };
        assert_eq!(HeartbeatResponse::decode(&head.ext), Ok(expected));
    });
    with(51, |head, _| {
        let push = PushReplyMessage::decode(&head.ext).unwrap();
        assert_eq!((&*push.topic, &*push.born_host), ("DefaultCluster_REPLY_TOPIC", "127.0.0.1:54220"));
        assert_eq!((push.born_timestamp, push.store_timestamp), (1_796_028_150_397, 1_796_028_150_479));
        assert!(push.properties.unwrap().starts_with("PUSH_REPLY_TIME\u{1}1796028150481\u{2}"));
    });
    with(22, |head, _| assert_eq!(head.ext.str("consumerGroup").as_deref(), Some("cg_demo")));
}

#[test]
fn the_fuzz_corpus_holds() {
    let corpus = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    assert!(each_file(&corpus.join("frames"), |bytes| fuzzing::frames(&bytes)) > 20);
    let header = |bytes: Vec<u8>| {
        fuzzing::header(Serialization::Json, &bytes);
        fuzzing::header(Serialization::RocketMq, &bytes);
    };
    assert!(each_file(&corpus.join("header"), header) > 20);
}

#[expect(clippy::disallowed_methods, reason = "a test reads its corpus from the real disk")]
fn each_file(directory: &Path, mut look: impl FnMut(Vec<u8>)) -> usize {
    let entries = std::fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    entries.map(|entry| look(std::fs::read(entry.expect("an entry").path()).expect("a file"))).count()
}
