//! Bytes of real peers, and bytes of broken ones.

use super::*;

#[test]
fn wir_5_registrations_of_every_supported_version() {
    let names = [
        ("24_register_broker_request_json", "broker-a", 2),
        ("25_register_broker_request_compressed", "broker-a", 2),
        ("31_real_register_broker_request", "broker-b", 15),
        ("61_real_register_broker_request_compressed", "broker-x", 13),
    ];
    for (vector, broker, topics) in names {
        let mut world = world();
        let answer = world.replay(1, &vectors::wire(vector));
        assert_eq!(answer, Response::success(), "{vector}");
        assert_eq!(world.server.routes().entry_count(), topics, "{vector}");
        assert!(world.shown("TBW102").starts_with(broker), "{vector}");
    }
}

#[test]
fn wir_5_a_bare_topic_table_of_an_ancient_broker() {
    let mut world = world();
    let table = br#"{"dataVersion":{"counter":3,"timestatmp":1400000000000},"topicConfigTable":{
        "TBW102":{"order":false,"perm":7,"readQueueNums":8,"topicFilterType":"SINGLE_TAG","topicName":"TBW102",
        "topicSysFlag":0,"writeQueueNums":8},"T":{"perm":6,"readQueueNums":4,"topicName":"T","writeQueueNums":4}}}"#;
    let mut broker = Broker::new("a", 0, "a:1");
    broker.extra.clear();
    let answer = world.send_as(36, 1, request::REGISTER_BROKER, &broker.ext(), table);
    assert_eq!(answer, Response::success());
    assert_eq!(world.shown("T"), "a[0=a:1]:4/6");
}

#[test]
fn wir_5_the_route_in_every_client_form_is_the_vector_byte_for_byte() {
    let mut world = world();
    world.replay(1, &vectors::wire("24_register_broker_request_json"));
    let slave = Broker { version: DataVersion::default(), ..Broker::new("broker-a", 1, "10.0.0.2:10911") };
    let mut ext = slave.ext();
    ext[2] = ("clusterName", "DefaultCluster");
    world.send(2, request::REGISTER_BROKER, &ext, &slave.body());
    let expected = vectors::wire("03_route_response_json");
    let expected = String::from_utf8_lossy(vectors::frame_body(&expected)).into_owned();
    for vector in ["01_route_request_json", "02_route_request_rocketmq"] {
        let answer = world.replay(3, &vectors::wire(vector));
        assert_eq!(String::from_utf8_lossy(&answer.body), expected, "{vector}");
    }
    for version in [213, 253, 317, 333, 399, 401, 479] {
        let answer = world.send_as(version, 4, request::GET_ROUTEINFO_BY_TOPIC, &[("topic", "TopicTest")], b"");
        assert_eq!(String::from_utf8_lossy(&answer.body), expected, "version {version}");
    }
}

#[test]
fn answers_say_what_apaches_say() {
    let mut world = world();
    let seen = vectors::wire("33_real_route_response_not_exist");
    let seen = frame::next(&seen).unwrap().unwrap();
    let seen = Head::parse(seen.serialization, seen.header).unwrap();
    let answer = world.ask(request::GET_ROUTEINFO_BY_TOPIC, &[("topic", "FreshTopic")]);
    assert_eq!((answer.code, answer.remark.as_deref()), (seen.code, Some(&*seen.remark.unwrap().str())));

    let master = Broker::new("broker-a", 0, "127.0.0.1:13911").saying("haServerAddr", "192.0.2.2:13912");
    let mut ext = master.ext();
    ext[2] = ("clusterName", "DefaultCluster");
    world.send(1, request::REGISTER_BROKER, &ext, &master.body());
    let seen = vectors::wire("34_real_cluster_info_response");
    let seen: ClusterInfo = from_slice(vectors::frame_body(&seen)).unwrap();
    let answer = world.ask(request::GET_BROKER_CLUSTER_INFO, &[]);
    assert_eq!(from_slice::<ClusterInfo>(&answer.body).unwrap(), seen);

    let seen = vectors::wire("32_real_register_broker_response_slave");
    let seen = frame::next(&seen).unwrap().unwrap();
    let seen = Head::parse(seen.serialization, seen.header).unwrap();
    let answer = world.register(2, &Broker::new("broker-a", 1, "127.0.0.1:14911"));
    for (name, value) in &answer.ext {
        assert_eq!(seen.ext.str(name).as_deref(), Some(value.as_str()), "{name}");
    }
    assert_eq!(answer.ext.len(), seen.ext.as_slice().len());
}

#[test]
fn a_damaged_registration_is_refused() {
    let mut world = world();
    let broker = Broker::new("a", 0, "a:1");
    let body = broker.body();
    let checksum = body_checksum(&body).to_string();
    let mut ext = broker.ext();
    ext.push(("bodyCrc32", &checksum));
    let answer = world.send(1, request::REGISTER_BROKER, &ext, &body[1..]);
    assert_eq!(answer, Response::error(response::SYSTEM_ERROR, "crc32 not match"));
    assert_eq!(world.send(1, request::REGISTER_BROKER, &ext, &body), Response::success());
    for body in [b"x".as_slice(), b"{", b"\x78\xda\x00", &body[..body.len() - 1]] {
        let answer = world.send(1, request::REGISTER_BROKER, &broker.ext(), body);
        assert_eq!(answer.code, response::SYSTEM_ERROR);
    }
    assert_eq!(world.shown("T"), "a[0=a:1]:4/6", "what was registered stays");
}

#[test]
fn missing_and_broken_fields_are_named() {
    let mut world = world();
    for code in [
        request::GET_ROUTEINFO_BY_TOPIC,
        request::REGISTER_BROKER,
        request::UNREGISTER_BROKER,
        request::BROKER_HEARTBEAT,
        request::GET_BROKER_MEMBER_GROUP,
        request::REGISTER_TOPIC_IN_NAMESRV,
        request::DELETE_TOPIC_IN_NAMESRV,
        request::WIPE_WRITE_PERM_OF_BROKER,
        request::ADD_WRITE_PERM_OF_BROKER,
        request::GET_TOPICS_BY_CLUSTER,
        request::GET_KV_CONFIG,
        request::DELETE_KV_CONFIG,
        request::GET_KVLIST_BY_NAMESPACE,
    ] {
        let answer = world.ask(code, &[]);
        assert_eq!(answer.code, response::SYSTEM_ERROR, "{code}");
        assert!(answer.remark.unwrap().contains("is missing"), "{code}");
    }
    let answer = world.send(1, request::REGISTER_BROKER, &[("brokerId", "zero")], b"{}");
    assert_eq!(answer.code, response::SYSTEM_ERROR);
    assert_eq!(world.ask(request::SEND_MESSAGE, &[]), Response::not_supported(10));
    assert_eq!(world.server.routes().member_count(), 0);
}
