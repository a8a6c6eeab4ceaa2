//! Starting, the kv config, the settings.

use super::*;

#[test]
fn nsr_4_nsr_5_not_ready_for_45_seconds_and_then_for_good() {
    let mut world = world_with(|settings| settings.need_wait_for_service = true);
    let ask = |world: &mut World| world.ask(request::GET_ROUTEINFO_BY_TOPIC, &[("topic", "T")]);
    let not_ready = Response::error(response::SYSTEM_ERROR, "name server not ready");
    world.pass(10_000);
    assert_eq!(ask(&mut world), not_ready, "clients keep their routes on this, not on `no such topic`");
    world.register(1, &Broker::new("a", 0, "a:1"));
    assert_eq!(ask(&mut world), not_ready);
    world.pass(34_999);
    assert_eq!(ask(&mut world), not_ready);
    for step in [1, 1_000, 4_000, 20_000] {
        world.pass(step);
        assert_eq!(ask(&mut world).code, response::SUCCESS);
    }
    world.close(1);
    assert_eq!(ask(&mut world).code, response::TOPIC_NOT_EXIST, "ready also without brokers");
}

#[test]
fn kv_config_is_saved_at_every_change() {
    let mut world = world_with(|settings| settings.order_message_enable = true);
    let broker = Broker::new("a", 0, "a:1");
    assert_eq!(world.register(1, &broker).body, b"", "no order config ever existed");
    let put = [("namespace", "ORDER_TOPIC_CONFIG"), ("key", "T"), ("value", "a:4")];
    assert_eq!(world.ask(request::PUT_KV_CONFIG, &put), Response::success());
    let saved = |effect: &Effect| match effect {
        Effect::SaveKvConfig(text) => KvConfig::parse(text).unwrap().get("ORDER_TOPIC_CONFIG", "T").map(str::to_owned),
        other => panic!("{other:?}"),
    };
    assert_eq!(world.effects.drain(..).map(|effect| saved(&effect)).collect::<Vec<_>>(), [Some("a:4".into())]);
    assert_eq!(world.register(1, &broker).body, br#"{"table":{"T":"a:4"}}"#);
    assert_eq!(world.route("T").unwrap().order_topic_conf.as_deref(), Some("a:4"));
    assert_eq!(world.ask(request::GET_KV_CONFIG, &put[..2]), Response::success().with("value", "a:4"));
    assert_eq!(world.ask(request::GET_KVLIST_BY_NAMESPACE, &put[..1]).body, br#"{"table":{"T":"a:4"}}"#);
    for _ in 0..2 {
        assert_eq!(world.ask(request::DELETE_KV_CONFIG, &put[..2]), Response::success());
    }
    assert_eq!(world.effects.iter().map(saved).collect::<Vec<_>>(), [None]);
    assert_eq!(world.register(1, &broker).body, br#"{"table":{}}"#);
    let missing = "No config item, Namespace: ORDER_TOPIC_CONFIG Key: T";
    assert_eq!(world.ask(request::GET_KV_CONFIG, &put[..2]), Response::error(response::QUERY_NOT_FOUND, missing));
    let missing = Response::error(response::QUERY_NOT_FOUND, "No config item, Namespace: other");
    assert_eq!(world.ask(request::GET_KVLIST_BY_NAMESPACE, &[("namespace", "other")]), missing);
    let answer = world.ask(request::PUT_KV_CONFIG, &[("namespace", "n"), ("value", "v")]);
    assert_eq!(answer, Response::error(response::SYSTEM_ERROR, "namespace or key is null"));
}

#[test]
fn settings_change_by_request() {
    let mut world = world();
    let answer = world.send(1, request::UPDATE_NAMESRV_CONFIG, &[], b"orderMessageEnable=true\nnoSuchKey=1\n");
    assert_eq!(answer, Response::success());
    assert!(world.server.settings().order_message_enable);
    assert_eq!(world.effects, [Effect::SaveSettings(vec![("orderMessageEnable".into(), "true".into())])]);
    let text = String::from_utf8(world.ask(request::GET_NAMESRV_CONFIG, &[]).body).unwrap();
    assert!(text.contains("orderMessageEnable=true\n") && text.contains("listenPort=9876\n"), "{text}");
    let answer = world.send(1, request::UPDATE_NAMESRV_CONFIG, &[], b"orderMessageEnable=false\nkvConfigPath=/x\n");
    let refused = Response::error(response::NO_PERMISSION, "Can not update config in black list.");
    assert_eq!(answer, refused);
    let answer = world.send(1, request::UPDATE_NAMESRV_CONFIG, &[], b"orderMessageEnable=perhaps");
    assert_eq!(answer.code, response::SYSTEM_ERROR);
    assert!(world.server.settings().order_message_enable, "a refused change changes nothing");
}
