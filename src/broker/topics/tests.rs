use super::*;
use crate::proto::body::config_files::ConfigFile;

const WALL: Millis = Millis(1_700_000_000_000);

fn rules() -> TopicRules {
    TopicRules { auto_create: true, validate_system: true, topics_max: 1000 }
}

fn boot(auto_create_topic: bool) -> BootOptions<'static> {
    BootOptions {
        cluster: "C",
        broker: "broker-a",
        auto_create_topic,
        default_topic_queues: 8,
        cluster_topic: true,
        broker_topic: true,
        trace_topic: false,
        trace_topic_name: "RMQ_SYS_TRACE_TOPIC",
        timer: false,
        revive_queues: 8,
    }
}

fn table() -> TopicTable {
    TopicTable::new(rules(), &boot(true), TopicConfigSerializeWrapper::default(), WALL, &mut Vec::new())
}

fn first_send(topic: &str, queues: i32) -> FirstSend<'_> {
    FirstSend { topic, default_topic: "TBW102", default_topic_queue_nums: queues, sys_flag: 0 }
}

fn create(table: &mut TopicTable, send: FirstSend<'_>) -> Result<(i32, i32), i32> {
    let made = table.create_on_send(send, WALL, &mut Vec::new());
    made.map(|topic| (topic.write_queues(), topic.config().perm)).map_err(|error| error.code())
}

fn asked(topic: &str, attributes: &[(&str, &str)]) -> TopicConfig {
    let attributes = attributes.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    TopicConfig { attributes, ..TopicConfig::new(topic, 4, 6) }
}

#[test]
fn a_new_broker_has_its_topics_and_writes_them_once() {
    let mut out = Vec::new();
    let table = TopicTable::new(rules(), &boot(true), TopicConfigSerializeWrapper::default(), WALL, &mut out);
    assert_eq!(out, [Effect::PersistTopics, Effect::Register]);
    assert_eq!(table.get("TBW102").map(|topic| topic.config().perm), Some(7));
    assert_eq!(table.get("C").map(|topic| topic.queues()), Some(16));
    assert!(table.is_system("broker-a") && table.is_system("rmq_sys_anything") && !table.is_system("orders"));
    out.clear();
    let again = TopicTable::new(rules(), &boot(true), table.snapshot(), WALL, &mut out);
    assert_eq!(out, [], "nothing is new at the next start");
    assert_eq!(again.snapshot(), table.snapshot());
}

#[test]
fn a_first_send_makes_a_topic_after_its_template() {
    let mut table = table();
    assert_eq!(create(&mut table, first_send("orders", 4)), Ok((4, 6)));
    assert_eq!(create(&mut table, first_send("wide", 100)), Ok((8, 6)), "no more queues than the template");
    assert_eq!(create(&mut table, first_send("none", 0)), Ok((1, 6)));
    assert_eq!(create(&mut table, first_send("orders", 1)), Ok((4, 6)), "it is there already");
    assert_eq!(create(&mut table, FirstSend { default_topic: "orders", ..first_send("x", 4) }), Err(17));
    assert_eq!(create(&mut table, first_send("%RETRY%g", 4)), Ok((1, 6)));
    assert_eq!(create(&mut table, first_send("a b", 4)), Err(29));
    table.set_rules(TopicRules { auto_create: false, ..rules() });
    assert_eq!(create(&mut table, first_send("y", 4)), Err(17));
    assert_eq!(create(&mut table, FirstSend { default_topic: "TBW102", ..first_send("%RETRY%h", 4) }), Ok((1, 6)));
    assert_eq!(create(&mut table, FirstSend { default_topic: "C", ..first_send("y", 4) }), Ok((4, 6)));
    table.set_rules(TopicRules { topics_max: 0, ..rules() });
    assert_eq!(create(&mut table, first_send("z", 4)), Err(2));
}

/// NSR-2: a registration carried the new version with the old table, or the reverse.
#[test]
fn nsr_2_a_snapshot_is_of_one_moment() {
    let mut table = table();
    let mut seen = std::collections::HashMap::new();
    for step in 0..40 {
        let name = format!("t{}", step % 7);
        match step % 3 {
            0 => drop(table.update(vec![asked(&name, &[])], WALL.plus(step), &mut Vec::new())),
            1 => drop(table.create_on_send(first_send(&name, 4), WALL.plus(step), &mut Vec::new())),
            _ => drop(table.delete(&name, WALL.plus(step), &mut Vec::new())),
        }
        let snapshot = table.snapshot();
        let same_version = seen.entry(snapshot.data_version).or_insert_with(|| snapshot.topic_config_table.clone());
        assert_eq!(*same_version, snapshot.topic_config_table, "one version, one table");
    }
    assert!(seen.len() > 20);
}

#[test]
fn updates_are_checked_and_equal_ones_cause_nothing() {
    let (mut table, mut out) = (table(), Vec::new());
    assert_eq!(table.update(vec![asked("orders", &[("+message.type", "FIFO")])], WALL, &mut out), Ok(()));
    assert_eq!(out, [Effect::PersistTopics, Effect::Register]);
    let version = table.version();
    out.clear();
    assert_eq!(table.update(vec![asked("orders", &[])], WALL.plus(1), &mut out), Ok(()));
    assert_eq!((table.version(), out.len()), (version, 0), "its attributes stay, so nothing changed");
    assert_eq!(table.get("orders").unwrap().config().attributes["message.type"], "FIFO");
    for (config, code) in [
        (asked("TBW102", &[]), 29),
        (asked("broker-a", &[]), 29),
        (asked("a b", &[]), 29),
        (asked("t", &[("+foo", "1")]), 1),
        (TopicConfig { perm: 16, ..asked("t", &[]) }, 1),
        (TopicConfig { read_queue_nums: -1, ..asked("t", &[]) }, 1),
        (TopicConfig { write_queue_nums: QUEUES_MAX + 1, ..asked("t", &[]) }, 1),
    ] {
        let list = vec![asked("innocent", &[]), config];
        assert_eq!(table.update(list, WALL, &mut out).unwrap_err().code(), code);
        assert!(table.get("innocent").is_none(), "all or none");
    }
    let unknown = table.update(vec![asked("t", &[("+foo", "1")])], WALL, &mut out).unwrap_err();
    assert_eq!(unknown.to_string(), "unsupported key: foo");
}

/// OFF-4: a topic was deleted and made again, its groups kept the old offsets.
#[test]
fn off_4_deleting_a_topic_has_its_offsets_and_queues_dropped() {
    let (mut table, mut out) = (table(), Vec::new());
    table.update(vec![asked("orders", &[]), asked("%RETRY%g_orders", &[])], WALL, &mut out).unwrap();
    table.ensure("%RETRY%g+orders", 1, false, 0, WALL, &mut out).unwrap();
    out.clear();
    assert_eq!(table.delete("orders", WALL, &mut out), Ok(()));
    let drop = |topic: &str| Effect::DropQueues { topic: topic.into() };
    let forget = |topic: &str| Effect::ForgetTopicOffsets { topic: topic.into() };
    let (retry, topic) = ("%RETRY%g+orders", "orders");
    assert_eq!(out, [drop(topic), forget(topic), drop(retry), forget(retry), Effect::PersistTopics, Effect::Register]);
    assert!(table.get("orders").is_none() && table.directory().get("orders").is_none());
    assert!(table.get("%RETRY%g_orders").is_some(), "perhaps those of a group `g_orders`");
    assert_eq!(table.delete("TBW102", WALL, &mut out).unwrap_err().code(), 29);
    assert_eq!(table.delete("orders", WALL, &mut out), Ok(()), "it is deleted already");
}

#[test]
fn a_retry_topic_keeps_its_configuration_but_for_order() {
    let (mut table, mut out) = (table(), Vec::new());
    table.ensure("%RETRY%g", 1, false, 2, WALL, &mut out).unwrap();
    out.clear();
    table.ensure("%RETRY%g", 8, false, 0, WALL, &mut out).unwrap();
    assert_eq!(out, []);
    let marked = table.ensure("%RETRY%g", 8, true, 0, WALL, &mut out).unwrap();
    assert_eq!(out, [Effect::PersistTopics, Effect::Register]);
    assert_eq!((marked.queues(), marked.is_order(), marked.config().topic_sys_flag), (1, true, 2));
    out.clear();
    assert!(table.ensure("%RETRY%g", 1, false, 0, WALL, &mut out).unwrap().is_order());
    assert_eq!(out, [], "members that subscribe to less do not take turns with it");
}

#[test]
fn the_file_of_an_apache_broker_is_read_and_kept() {
    let bytes = include_bytes!("../../../tests/vectors/store/captured/config/topics.json");
    let loaded = TopicConfigSerializeWrapper::parse(bytes).unwrap();
    let table = TopicTable::new(rules(), &boot(true), loaded.clone(), WALL, &mut Vec::new());
    let snapshot = table.snapshot();
    for (name, config) in &loaded.topic_config_table {
        assert_eq!(snapshot.topic_config_table.get(name), Some(config), "{name}");
    }
}

#[test]
fn what_changed_lately_is_told_by_itself() {
    let mut table = table();
    let names = |table: &TopicTable, seen| {
        let changed = table.changed_since(seen)?;
        assert_eq!(changed.data_version, table.version());
        Some(changed.topic_config_table.into_keys().collect::<Vec<_>>())
    };
    let start = table.changes();
    assert_eq!(names(&table, start), Some(vec![]));
    table.update(vec![asked("a", &[]), asked("b", &[])], WALL, &mut Vec::new()).unwrap();
    create(&mut table, first_send("c", 1)).unwrap();
    assert_eq!(names(&table, start), Some(vec!["a".into(), "b".into(), "c".into()]));
    assert_eq!(names(&table, start + 2), Some(vec!["c".into()]));
    table.update(vec![asked("a", &[])], WALL, &mut Vec::new()).unwrap();
    assert_eq!(names(&table, start + 3), Some(vec![]), "it is as it was");

    table.delete("b", WALL, &mut Vec::new()).unwrap();
    assert_eq!(names(&table, start), None, "only a whole table says that a topic is gone");
    let after = table.changes();
    for n in 0..RECENT_CHANGES_MAX {
        table.ensure(&format!("t{n}"), 1, false, 0, WALL, &mut Vec::new()).unwrap();
    }
    assert_eq!(names(&table, after).map(|names| names.len()), Some(RECENT_CHANGES_MAX));
    assert_eq!(names(&table, after - 1), None, "too long ago");
    assert_eq!(names(&table, table.changes() + 1), None, "a number of another life");
}
