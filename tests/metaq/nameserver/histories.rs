//! Bounds, and histories at random.

use super::*;

#[test]
fn brokers_and_topics_are_bounded() {
    let mut world = world_with(|settings| {
        settings.max_brokers = 1;
        settings.max_route_entries = 4;
    });
    let broker = Broker::new("a", 0, "a:1");
    world.register(1, &broker);
    let answer = world.register(2, &Broker::new("b", 0, "b:1"));
    assert_eq!(answer, Response::error(response::SYSTEM_ERROR, "1 brokers are registered, which is the limit"));
    let answer = world.register(1, &broker.clone().with("U", 1).with("V", 1));
    assert_eq!(answer.code, response::SYSTEM_ERROR);
    assert!(answer.remark.unwrap().contains("4 pairs of topic and broker"));
    assert_eq!(world.shown("U"), "", "all or nothing");
    assert_eq!(world.register(1, &broker.with("U", 1)), Response::success());
    let body = br#"{"queueDatas":[{"brokerName":"a","perm":6}]}"#;
    let answer = world.send(1, request::REGISTER_TOPIC_IN_NAMESRV, &[("topic", "V")], body);
    assert_eq!(answer.code, response::SYSTEM_ERROR);
}

#[test]
fn odd_names_cost_nobody_else() {
    let mut world = world();
    let long = "x".repeat(2_000);
    let broker = Broker::new("a", 0, "a:1").with(&long, 1).with("", 1);
    assert_eq!(world.register(1, &broker), Response::success());
    assert_eq!(world.server.routes().entry_count(), 3);
    let answer = world.register(2, &Broker::new("", 0, "b:1"));
    assert_eq!(answer.remark.as_deref(), Some("brokerName must have 1 to 1024 bytes"));
}

/// One thing that may happen to a NameServer.
#[derive(Clone, Debug)]
enum Step {
    Register(u64, usize),
    Unregister(u64, usize),
    Heartbeat(u64, usize),
    Close(u64),
    Pass(i64),
}

fn step() -> impl proptest::strategy::Strategy<Value = Step> {
    use proptest::prelude::*;
    let (connection, broker) = (1..4u64, 0..6usize);
    prop_oneof![
        4 => (connection.clone(), broker.clone()).prop_map(|(at, broker)| Step::Register(at, broker)),
        1 => (connection.clone(), broker.clone()).prop_map(|(at, broker)| Step::Unregister(at, broker)),
        1 => (connection.clone(), broker).prop_map(|(at, broker)| Step::Heartbeat(at, broker)),
        1 => connection.prop_map(Step::Close),
        1 => (0..130_000i64).prop_map(Step::Pass),
    ]
}

proptest::proptest! {
    /// INV-NS-1 and INV-NS-2 hold after whatever happens, and a full quiet period later only what still registers is left.
    #[test]
    fn any_history_keeps_the_table_consistent(steps in proptest::collection::vec(step(), 0..40)) {
        let brokers = [
            Broker::new("a", 0, "a:1"),
            Broker::new("a", 0, "a:2").in_epoch(1),
            Broker::new("a", 1, "a:2").saying("enableActingMaster", "true"),
            Broker::new("a", 1, "a:1").with("U", 3).saying(COMPLETE_TOPIC_TABLE, "true"),
            Broker::new("b", 0, "b:1").without("T").saying(COMPLETE_TOPIC_TABLE, "true"),
            Broker::new("b", 2, "b:2").only("T"),
        ];
        let mut world = world_with(|settings| settings.support_acting_master = true);
        for step in steps {
            match step {
                Step::Register(connection, broker) => drop(world.register(connection, &brokers[broker])),
                Step::Unregister(connection, broker) => world.unregister(connection, &brokers[broker]),
                Step::Heartbeat(connection, broker) => {
                    world.send(connection, request::BROKER_HEARTBEAT, &brokers[broker].ext(), b"");
                }
                Step::Close(connection) => world.close(connection),
                Step::Pass(millis) => world.pass(millis),
            }
            world.shown("T");
        }
        world.pass(120_001);
        proptest::prop_assert_eq!(world.server.routes().member_count(), 0);
        proptest::prop_assert_eq!(world.server.routes().entry_count(), 0);
        world.register(9, &brokers[0]);
        proptest::prop_assert_eq!(world.shown("T"), "a[0=a:1]:4/6");
    }
}
