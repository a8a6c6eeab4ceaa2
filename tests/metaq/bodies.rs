//! JSON bodies against RocketMQ's own bytes: the wire vectors and the files of `config/`.

use metaq::proto::body::config_files::ConfigFile;
use metaq::proto::body::register::Nothing;
use metaq::proto::body::*;
use serde::de::DeserializeOwned;
use serde::Serialize;

use crate::vectors::{frame_body, store, wire};

fn read<T: DeserializeOwned>(name: &str) -> T {
    from_slice(frame_body(&wire(name))).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn text(bytes: impl AsRef<[u8]>) -> String {
    String::from_utf8(bytes.as_ref().to_vec()).expect("UTF-8")
}

/// A body that is written byte for byte as it came.
fn written_again<T: DeserializeOwned + Serialize>(name: &str) -> T {
    let value: T = read(name);
    assert_eq!(text(to_vec(&value)), text(frame_body(&wire(name))), "{name}");
    value
}

#[test]
fn routes_with_quoted_and_bare_broker_ids_are_the_same() {
    let route: TopicRouteData = written_again("03_route_response_json");
    assert_eq!(route.broker_datas[0].broker_addrs[&1], "10.0.0.2:10911");
    assert_eq!(route.queue_datas[0].write_queue_nums, 8);
    assert_eq!(read::<TopicRouteData>("05_route_response_json_legacy_keys"), route);
    assert_eq!(read::<TopicRouteData>("04_route_response_rocketmq"), route);
    let cluster: ClusterInfo = read("34_real_cluster_info_response");
    assert_eq!(cluster.broker_addr_table["broker-a"].broker_addrs[&0], "127.0.0.1:13911");
    let quoted = text(frame_body(&wire("34_real_cluster_info_response"))).replace("{0:", "{\"0\":");
    assert_eq!(text(to_vec(&cluster)), quoted);
}

#[test]
fn heartbeats() {
    let beat: HeartbeatData = written_again("11_heartbeat_request_json");
    assert_eq!(beat.client_id, "192.168.1.20@6699#1234567890");
    let consumer = &beat.consumer_data_set[0];
    assert_eq!(consumer.consume_from_where, ConsumeFromWhere::ConsumeFromLastOffset);
    assert_eq!(
        (consumer.consume_type, consumer.message_model),
        (ConsumeType::ConsumePassively, MessageModel::Clustering)
    );
    assert_eq!(consumer.subscription_data_set[1].code_set.first(), Some(&2_598_919));
    let short: HeartbeatData = written_again("45_real_heartbeat_v2_short_request");
    assert!(short.without_sub && short.heartbeat_fingerprint == 458_626_902);
    assert_eq!(short.consumer_data_set[0].consume_from_where, ConsumeFromWhere::ConsumeFromFirstOffset);
}

/// The C++ client writes enums as numbers, versions as texts and leaves out empty lists.
#[test]
fn a_cpp_heartbeat() {
    let json =
        br#"{"clientID":"1.2.3.4@DEFAULT","consumerDataSet":[{"consumeFromWhere":0,"consumeType":1,"groupName":"g",
        "messageModel":1,"subscriptionDataSet":[{"codeSet":["0"],"subString":"A || C","subVersion":"1700000000000",
        "tagsSet":["A","C"],"topic":"T"}]}]}
"#;
    let beat: HeartbeatData = from_slice(json).unwrap();
    let consumer = &beat.consumer_data_set[0];
    assert_eq!(
        (consumer.consume_type, consumer.message_model),
        (ConsumeType::ConsumePassively, MessageModel::Clustering)
    );
    assert_eq!(consumer.subscription_data_set[0].sub_version, 1_700_000_000_000);
    assert!(beat.producer_data_set.is_empty());
}

#[test]
fn bodies_with_objects_for_keys() {
    let reset: ResetOffsetBody = written_again("20_reset_client_offset_request_json");
    let offsets: Vec<_> = reset.offset_table.iter().map(|(queue, offset)| (queue.queue_id, *offset)).collect();
    assert_eq!(offsets, [(0, 100), (1, 101)]);
    assert_eq!(read::<ResetOffsetBody>("57_real_reset_offset_response").offset_table.len(), 4);
    let stats: ConsumeStats = written_again("30_consume_stats_response_json");
    assert_eq!(stats.total_diff(), 2);
}

#[test]
fn registrations_plain_and_compressed() {
    let plain = wire("24_register_broker_request_json");
    let body = RegisterBrokerBody::decode(frame_body(&plain)).unwrap();
    let topics = &body.topic_config_serialize_wrapper;
    assert_eq!(topics.data_version.counter, 3);
    assert_eq!(topics.topic_config_table["TBW102"].perm, 7);
    // The vector's two topics stand in another order.
    assert_eq!(text(body.encode()).len(), frame_body(&plain).len());
    assert_eq!(RegisterBrokerBody::decode(&body.encode()), Ok(body.clone()));
    assert_eq!(topics.topic_queue_mapping_info_map, Some(Nothing {}));

    let real = RegisterBrokerBody::decode(frame_body(&wire("31_real_register_broker_request"))).unwrap();
    assert_eq!(real.topic_config_serialize_wrapper.topic_config_table["BenchmarkTest"].read_queue_nums, 1024);

    let compressed = wire("25_register_broker_request_compressed");
    let body = RegisterBrokerBody::decode(frame_body(&compressed)).unwrap();
    let topics = &body.topic_config_serialize_wrapper;
    assert_eq!(topics.data_version.counter, 3);
    assert_eq!(topics.topic_config_table["TopicTest"].write_queue_nums, 8);
    let sorted = |mut bytes: Vec<u8>| {
        bytes.sort();
        bytes
    };
    // The same pieces, the two topics in another order.
    assert_eq!(sorted(inflate(&body.encode_compressed())), sorted(inflate(frame_body(&compressed))));

    let frame = wire("61_real_register_broker_request_compressed");
    let real = RegisterBrokerBody::decode(frame_body(&frame)).unwrap();
    assert_eq!(real.topic_config_serialize_wrapper.topic_config_table["SELF_TEST_TOPIC"].perm, 6);
    assert_eq!(sorted(inflate(&real.encode_compressed())), sorted(inflate(frame_body(&frame))));
    assert_eq!(RegisterBrokerBody::decode(&real.encode_compressed()), Ok(real));
}

fn inflate(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::ZlibDecoder::new(bytes), &mut out).expect("a zlib stream");
    out
}

#[test]
fn registrations_of_old_and_of_hostile_senders() {
    let bare = br#"{"dataVersion":{"counter":2,"timestamp":5},"topicConfigTable":{"T":{"topicName":"T","perm":6}}}"#;
    let body = RegisterBrokerBody::decode(bare).unwrap();
    assert_eq!(body.topic_config_serialize_wrapper.data_version.counter, 2);
    assert!(body.topic_config_serialize_wrapper.topic_config_table.contains_key("T"));
    let referring = br#"{"topicConfigSerializeWrapper":{"dataVersion":{"counter":2},"mappingDataVersion":
        {"$ref":"$.topicConfigSerializeWrapper.dataVersion"}}}"#;
    assert_eq!(RegisterBrokerBody::decode(referring).unwrap().topic_config_serialize_wrapper.data_version.counter, 2);
    assert_eq!(RegisterBrokerBody::decode(b"").unwrap(), RegisterBrokerBody::default());
    assert_eq!(RegisterBrokerBody::decode(b"\x78nonsense"), Err(RegisterBrokerError::Inflate));
    let deflate = |plain: &[u8]| {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
        std::io::Write::write_all(&mut encoder, plain).unwrap();
        encoder.finish().unwrap()
    };
    let bomb = deflate(&vec![0; register::INFLATED_MAX + 1]);
    assert_eq!(RegisterBrokerBody::decode(&bomb), Err(RegisterBrokerError::TooLarge));
    let many = [&2u32.to_be_bytes(), b"{}".as_slice(), &u32::MAX.to_be_bytes()].concat();
    assert!(matches!(RegisterBrokerBody::decode(&deflate(&many)), Err(RegisterBrokerError::Malformed { .. })));
}

#[test]
fn locks_and_assignments() {
    let locked: LockBatchResponseBody = written_again("53_real_lock_batch_response");
    assert_eq!(locked.lock_ok_mq_set.first().map(|queue| queue.queue_id), Some(7));
    let assigned: QueryAssignmentResponseBody = written_again("54_real_query_assignment_response");
    assert_eq!(assigned.message_queue_assignments[0].mode, MessageRequestMode::Pop);
    let request = br#"{"clientId":"c","consumerGroup":"g","mqSet":[{"brokerName":"b","queueId":1,"topic":"T"}]}"#;
    let request: LockBatchRequestBody = from_slice(request).unwrap();
    assert!(request.mq_set.len() == 1 && !request.only_this_broker);
}

#[test]
fn offsets_of_a_real_broker() {
    let delays: DelayOffsetSerializeWrapper = read("59_real_all_delay_offset_response");
    assert_eq!(delays.offset_table.into_iter().collect::<Vec<_>>(), [(1, 6), (2, 1), (3, 2), (18, 0)]);
    let mut offsets: ConsumerOffsetSerializeWrapper = read("60_real_all_consumer_offset_response");
    assert_eq!(offsets.offset_table["TopicTest@cg_bc@broadcast"][&7], 700);
    let groups = offsets.group_topic_map.clone().expect("a 5.3 broker writes it");
    offsets.derive_group_topic_map();
    assert_eq!(offsets.group_topic_map, Some(groups));
}

/// Prints like fastjson: its bytes, but for the quotes around integer keys.
fn printed_again<T: ConfigFile>(folder: &str) -> T {
    let bytes = store(&format!("{folder}/{}", T::NAME));
    let value = T::parse(&bytes).unwrap_or_else(|error| panic!("{folder}: {error}"));
    let printed = text(value.print());
    let unquoted = unquote_integer_keys(&printed);
    // Maps stand in the order of a Java HashMap there and sorted here, so lines move and commas with them.
    let lines = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(|line| line.trim_end_matches(',').to_owned()).collect();
        lines.sort();
        lines
    };
    assert_eq!(lines(&unquoted), lines(&text(&bytes)), "{folder}/{}", T::NAME);
    value
}

fn unquote_integer_keys(text: &str) -> String {
    let parts = text.split('"').collect::<Vec<_>>();
    let is_integer = |at: usize| {
        let digits = !parts[at].is_empty() && parts[at].bytes().all(|digit| digit.is_ascii_digit());
        digits && parts.get(at + 1).is_some_and(|next| next.starts_with(':'))
    };
    let mut out = String::new();
    for (at, part) in parts.iter().enumerate() {
        let at_key = at > 0 && (is_integer(at) || is_integer(at - 1));
        out.push_str(if at == 0 || at_key { "" } else { "\"" });
        out.push_str(part);
    }
    out
}

#[test]
fn config_files_of_the_reference_are_printed_again() {
    for folder in ["config-samples", "captured/config", "mini-store/config"] {
        printed_again::<TopicConfigSerializeWrapper>(folder);
        if folder != "mini-store/config" {
            printed_again::<SubscriptionGroupWrapper>(folder);
        }
        printed_again::<ConsumerOffsetSerializeWrapper>(folder);
        printed_again::<DelayOffsetSerializeWrapper>(folder);
    }
    // These happen to be sorted: byte for byte.
    for (name, printed) in [
        ("consumerOffset.json", printed_again::<ConsumerOffsetSerializeWrapper>("config-samples").print()),
        ("delayOffset.json", printed_again::<DelayOffsetSerializeWrapper>("config-samples").print()),
        ("subscriptionGroup.json", printed_again::<SubscriptionGroupWrapper>("config-samples").print()),
    ] {
        assert_eq!(unquote_integer_keys(&text(printed)), text(store(&format!("config-samples/{name}"))), "{name}");
    }
    let empty = DelayOffsetSerializeWrapper::default();
    assert_eq!(text(empty.print()), "{\n\t\"offsetTable\":{}\n}");
    assert!(TopicConfigSerializeWrapper::parse(b"").is_err());
}
