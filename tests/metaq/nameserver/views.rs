//! Lists, routes by zone, acting masters.

use super::*;

#[test]
fn cluster_and_broker_names_are_topics_because_brokers_register_them() {
    let mut world = world();
    world.replay(1, &vectors::wire("31_real_register_broker_request"));
    assert_eq!(world.shown("DefaultCluster"), "broker-b[0=127.0.0.1:15911]:16/7");
    assert_eq!(world.shown("broker-b"), "broker-b[0=127.0.0.1:15911]:1/7");
    assert_eq!(world.topics(request::GET_SYSTEM_TOPIC_LIST_FROM_NS, &[]), ["DefaultCluster", "broker-b"]);
    let answer = world.ask(request::GET_SYSTEM_TOPIC_LIST_FROM_NS, &[]);
    let list: TopicList = from_slice(&answer.body).unwrap();
    assert_eq!(list.broker_addr.as_deref(), Some("127.0.0.1:15911"));
    assert_eq!(world.topics(request::GET_ALL_TOPIC_LIST_FROM_NAMESERVER, &[]).len(), 15);
    assert_eq!(world.topics(request::GET_TOPICS_BY_CLUSTER, &[("cluster", "DefaultCluster")]).len(), 15);
    assert_eq!(world.topics(request::GET_TOPICS_BY_CLUSTER, &[("cluster", "none")]).len(), 0);
}

#[test]
fn unit_topics_by_flag() {
    let mut world = world();
    let mut broker = Broker::new("a", 0, "a:1");
    for (topic, flag) in [("unit", 1), ("subscribed", 2), ("both", 3)] {
        let config = TopicConfig { topic_sys_flag: flag, ..TopicConfig::new(topic, 1, READ_WRITE) };
        broker.topics.insert(topic.into(), config);
    }
    world.register(1, &broker);
    assert_eq!(world.topics(request::GET_UNIT_TOPIC_LIST, &[]), ["both", "unit"]);
    assert_eq!(world.topics(request::GET_HAS_UNIT_SUB_TOPIC_LIST, &[]), ["both", "subscribed"]);
    assert_eq!(world.topics(request::GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, &[]), ["subscribed"]);
}

#[test]
fn lists_can_be_switched_off() {
    let mut world = world_with(|settings| {
        settings.enable_all_topic_list = false;
        settings.enable_topic_list = false;
    });
    let disabled = Response::error(response::SYSTEM_ERROR, "disable");
    for code in [206, 311, 312, 313] {
        assert_eq!(world.ask(code, &[]), disabled, "{code}");
    }
    assert_eq!(world.ask(request::GET_TOPICS_BY_CLUSTER, &[("cluster", "C")]), disabled);
}

#[test]
fn member_groups() {
    let mut world = world();
    world.register(1, &Broker::new("a", 0, "a:1"));
    world.register(2, &Broker::new("a", 1, "a:2"));
    let ask = |world: &mut World, name| {
        let answer = world.ask(request::GET_BROKER_MEMBER_GROUP, &[("clusterName", "C"), ("brokerName", name)]);
        String::from_utf8(answer.body).unwrap()
    };
    let expected = r#"{"brokerMemberGroup":{"brokerAddrs":{"0":"a:1","1":"a:2"},"brokerName":"a","cluster":"C"}}"#;
    assert_eq!(ask(&mut world, "a"), expected);
    assert_eq!(ask(&mut world, "b"), r#"{"brokerMemberGroup":{"brokerAddrs":{},"brokerName":"b","cluster":"C"}}"#);
}

#[test]
fn data_versions_are_compared() {
    let mut world = world();
    let broker = Broker::new("a", 0, "a:1");
    let version = broker.version.to_text();
    let ask = |world: &mut World, version: &str| {
        let answer = world.send(1, request::QUERY_DATA_VERSION, &broker.ext(), version.as_bytes());
        (answer.ext[0].1.clone(), String::from_utf8(answer.body).unwrap())
    };
    assert_eq!(ask(&mut world, &version), ("true".into(), String::new()));
    world.register(1, &broker);
    assert_eq!(ask(&mut world, &version), ("false".into(), version.clone()));
    assert_eq!(ask(&mut world, r#"{"counter":1}"#), ("true".into(), version));
}

#[test]
fn a_single_topic_is_added_for_known_brokers() {
    let mut world = world();
    world.register(1, &Broker::new("a", 0, "a:1"));
    let body = br#"{"queueDatas":[{"brokerName":"a","perm":6,"readQueueNums":2,"writeQueueNums":3,"topicSysFlag":0},
        {"brokerName":"stranger","perm":6,"readQueueNums":2,"writeQueueNums":3}]}"#;
    let answer = world.send(1, request::REGISTER_TOPIC_IN_NAMESRV, &[("topic", "U")], body);
    assert_eq!(answer, Response::success());
    assert_eq!(world.shown("U"), "a[0=a:1]:3/6");
}

#[test]
fn an_acting_master_stands_in_for_the_missing_one() {
    let acting = |id, address| Broker::new("a", id, address).saying("enableActingMaster", "true");
    let mut world = world_with(|settings| {
        settings.support_acting_master = true;
        settings.notify_min_broker_id_changed = true;
    });
    world.register(1, &acting(0, "a:1"));
    world.register(2, &acting(1, "a:2").with("rmq_sys_SYNC_BROKER_MEMBER_a", 1));
    world.register(3, &acting(2, "a:3"));
    assert_eq!(world.shown("T"), "a[0=a:1 1=a:2 2=a:3]:4/6");
    assert_eq!(world.effects, []);
    world.close(1);
    assert_eq!(world.shown("T"), "a[0=a:2 2=a:3]:4/4", "the first slave, to read only");
    let told: Vec<u64> = world.effects.drain(..).map(|effect| told(&effect, 1, Some("a:1"))).collect();
    assert_eq!(told, [2, 3]);
    world.register(2, &acting(1, "a:2").with("rmq_sys_SYNC_BROKER_MEMBER_a", 1));
    assert_eq!(world.shown("rmq_sys_SYNC_BROKER_MEMBER_a"), "a[1=a:2 2=a:3]:1/4", "members see themselves");
    world.register(4, &acting(0, "a:1"));
    assert_eq!(world.shown("T"), "a[0=a:1 1=a:2 2=a:3]:4/6");
    let told: Vec<u64> = world.effects.iter().map(|effect| self::told(effect, 0, None)).collect();
    assert_eq!(told, [2, 3]);
}

/// The connection that learns of a new smallest id.
fn told(effect: &Effect, min_broker_id: i64, offline: Option<&str>) -> u64 {
    let Effect::NotifyMinBroker { connection, change } = effect else { panic!("{effect:?}") };
    assert_eq!((change.min_broker_id, change.offline_address.as_deref()), (min_broker_id, offline));
    assert_eq!(change.ha_address.is_some(), offline.is_none());
    connection.0
}

#[test]
fn a_zone_hides_the_masters_of_others() {
    let mut world = world();
    world.register(1, &Broker::new("a", 0, "a:1").saying("__ZONE_NAME", "Paris"));
    world.register(2, &Broker::new("b", 0, "b:1").saying("__ZONE_NAME", "Rome"));
    world.register(3, &Broker::new("c", 1, "c:2").saying("__ZONE_NAME", "Rome"));
    let ask = |world: &mut World, mode, zone| {
        let ext = [("topic", "T"), ("__ZONE_MODE", mode), ("__ZONE_NAME", zone)];
        let answer = world.ask(request::GET_ROUTEINFO_BY_TOPIC, &ext);
        let route: TopicRouteData = from_slice(&answer.body).unwrap();
        assert_eq!(route.broker_datas.len(), route.queue_datas.len());
        route.broker_datas.into_iter().map(|data| data.broker_name).collect::<Vec<_>>()
    };
    assert_eq!(ask(&mut world, "true", "paris"), ["a", "c"]);
    assert_eq!(ask(&mut world, "true", "Oslo"), ["c"]);
    assert_eq!(ask(&mut world, "false", "Oslo"), ["a", "b", "c"]);
}
