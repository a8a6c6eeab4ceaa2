//! What registrations and operators change of topics.

use super::*;
use metaq::nameserver::OUTRANKED_BY;

#[test]
fn nsr_2_n3_n4_the_current_table_wins_in_every_order() {
    let first = Broker::new("a", 0, "a:1");
    let changed = first.clone().with("T", 8);
    let last = changed.clone().with("U", 2);
    // Two threads of the broker send single topics and whole tables in any order, on one connection or two, and any
    // of them may get lost.
    let sent = [&first, &changed, &last, &changed.only("T"), &last.only("U")];
    for one in sent {
        for two in sent {
            for three in sent {
                for connections in [[1, 1, 1], [1, 2, 2], [2, 1, 1]] {
                    let mut world = world();
                    world.register(1, &first);
                    for (connection, registration) in connections.into_iter().zip([one, two, three]) {
                        world.register(connection, registration);
                    }
                    world.register(2, &last);
                    assert_eq!((world.shown("T"), world.shown("U")), ("a[0=a:1]:8/6".into(), "a[0=a:1]:2/6".into()));
                }
            }
        }
    }
}

#[test]
fn nsr_2_an_older_snapshot_does_not_undo_a_newer_one() {
    let old = Broker::new("a", 0, "a:1").saying(COMPLETE_TOPIC_TABLE, "true");
    let new = old.clone().with("T", 8).with("U", 2);
    let mut world = world();
    for registration in [&old, &new, &old] {
        world.register(1, registration);
    }
    assert_eq!((world.shown("T"), world.shown("U")), ("a[0=a:1]:8/6".into(), "a[0=a:1]:2/6".into()));
    world.register(2, &old);
    assert_eq!(world.shown("T"), "a[0=a:1]:4/6", "a process that came back with older data is believed");
    assert_eq!(world.shown("U"), "");
}

#[test]
fn nsr_3_a_topic_deleted_on_one_broker_leaves_the_route() {
    let a = Broker::new("a", 0, "a:1");
    let b = Broker::new("b", 0, "b:1");
    for (ours, setting, expected) in
        [(true, false, "b[0=b:1]:4/6"), (false, true, "b[0=b:1]:4/6"), (false, false, "a[0=a:1]:4/6 b[0=b:1]:4/6")]
    {
        let mut world = world_with(|settings| settings.delete_topic_with_broker_registration = setting);
        world.register(1, &a);
        world.register(2, &b);
        let deleted = a.clone().without("T").saying(COMPLETE_TOPIC_TABLE, if ours { "true" } else { "false" });
        world.register(1, &deleted);
        assert_eq!(world.shown("T"), expected, "complete {ours}, setting {setting}");
        assert_eq!(world.shown("a"), "a[0=a:1]:4/6");
    }
}

#[test]
fn a_slaves_table_deletes_nothing() {
    let mut world = world_with(|settings| settings.delete_topic_with_broker_registration = true);
    world.register(1, &Broker::new("a", 0, "a:1"));
    world.register(2, &Broker::new("a", 1, "a:2"));
    world.close(1);
    world.register(2, &Broker::new("a", 1, "a:2").without("T"));
    assert_eq!(world.shown("T"), "a[1=a:2]:4/6", "the slave has not copied the master's topics yet");
}

#[test]
fn n6_a_slave_before_its_master() {
    let mut world = world();
    let mut old = Broker::new("a", 1, "a:2");
    old.extra.clear();
    world.register(1, &old);
    assert_eq!(world.shown("T"), "", "a 4.x slave's topics do not count");
    world.register(1, &Broker::new("a", 1, "a:2"));
    assert_eq!(world.shown("T"), "a[1=a:2]:4/4", "a 5.x slave's do, to read");
    let answer = world.register(2, &Broker::new("a", 0, "a:1"));
    assert_eq!(answer, Response::success());
    assert_eq!(world.shown("T"), "a[0=a:1 1=a:2]:4/6");
    let answer = world.register(1, &Broker::new("a", 1, "a:2"));
    assert_eq!(answer.ext, [("haServerAddr".into(), "ha".to_owned()), ("masterAddr".into(), "a:1".to_owned())]);
    world.register(1, &Broker::new("a", 1, "a:2").with("T", 16));
    assert_eq!(world.shown("T"), "a[0=a:1 1=a:2]:4/6", "with a master, only its word counts");
}

#[test]
fn n5_of_two_masters_the_later_epoch_wins() {
    let mut world = world();
    let (first, second) = (Broker::new("a", 0, "a:1").in_epoch(5), Broker::new("a", 0, "a:2").with("T", 8));
    world.register(1, &first);
    let answer = world.register(2, &second.clone().in_epoch(4));
    assert_eq!(answer, Response::success().with(OUTRANKED_BY, "a:1"), "RocketMQ's loser is not told");
    assert_eq!(world.shown("T"), "a[0=a:1]:4/6");
    world.close(2);
    assert_eq!(world.shown("T"), "a[0=a:1]:4/6");
    world.register(2, &second.clone().in_epoch(5));
    assert_eq!(world.shown("T"), "a[0=a:2]:8/6", "of equal epochs the later word counts");
    world.register(2, &second.in_epoch(6));
    world.register(1, &first);
    world.unregister(1, &Broker::new("a", 0, "a:1"));
    assert_eq!(world.shown("T"), "a[0=a:2]:8/6");
}

#[test]
fn a_slave_that_becomes_master_keeps_its_address() {
    let mut world = world();
    world.register(1, &Broker::new("a", 0, "a:1"));
    world.register(2, &Broker::new("a", 1, "a:2"));
    world.register(2, &Broker::new("a", 0, "a:2"));
    assert_eq!(world.shown("T"), "a[0=a:2]:4/6");
}

#[test]
fn a_single_topic_does_not_come_first() {
    let mut world = world();
    let broker = Broker::new("a", 0, "a:1");
    let refused = Response::error(response::SYSTEM_ERROR, "register broker failed");
    assert_eq!(world.register(1, &broker.only("T")), refused);
    assert_eq!(world.shown("T"), "");
    world.register(1, &broker);
    assert_eq!(world.register(1, &broker.with("T", 8).only("T")), Response::success());
    assert_eq!(world.shown("T"), "a[0=a:1]:8/6");
}

#[test]
fn n8_a_broker_brings_a_topic_back_that_was_deleted_here() {
    let mut world = world();
    let (a, b) = (Broker::new("a", 0, "a:1"), Broker::new("b", 0, "b:1"));
    world.register(1, &a);
    world.register(2, &b);
    world.ask(request::DELETE_TOPIC_IN_NAMESRV, &[("topic", "T"), ("clusterName", "other")]);
    assert_eq!(world.shown("T"), "a[0=a:1]:4/6 b[0=b:1]:4/6");
    world.ask(request::DELETE_TOPIC_IN_NAMESRV, &[("topic", "T"), ("clusterName", "C")]);
    assert_eq!(world.shown("T"), "");
    world.register(1, &a);
    assert_eq!(world.shown("T"), "a[0=a:1]:4/6");
    world.ask(request::DELETE_TOPIC_IN_NAMESRV, &[("topic", "T")]);
    assert_eq!(world.shown("T"), "");
}

#[test]
fn n9_a_wiped_write_permission_survives_other_changes() {
    let mut world = world();
    let broker = Broker::new("a", 0, "a:1");
    world.register(1, &broker);
    let answer = world.ask(request::WIPE_WRITE_PERM_OF_BROKER, &[("brokerName", "a")]);
    assert_eq!(answer, Response::success().with("wipeTopicCount", "3"));
    let broker = broker.with("U", 4);
    world.register(1, &broker);
    assert_eq!((world.shown("T"), world.shown("U")), ("a[0=a:1]:4/4".into(), "a[0=a:1]:4/6".into()));
    world.register(1, &broker.clone().with("T", 8));
    assert_eq!(world.shown("T"), "a[0=a:1]:8/6", "a change of the topic itself is the newer word");
    world.ask(request::WIPE_WRITE_PERM_OF_BROKER, &[("brokerName", "a")]);
    let answer = world.ask(request::ADD_WRITE_PERM_OF_BROKER, &[("brokerName", "a")]);
    assert_eq!(answer, Response::success().with("addTopicCount", "4"));
    assert_eq!(world.shown("T"), "a[0=a:1]:8/6");
    world.ask(request::WIPE_WRITE_PERM_OF_BROKER, &[("brokerName", "a")]);
    world.unregister(1, &broker);
    world.register(2, &broker);
    assert_eq!(world.shown("T"), "a[0=a:1]:4/6", "a restarted broker takes messages again");
}

#[test]
fn a_template_stays_one_when_its_permission_comes_back() {
    let mut world = world();
    let mut broker = Broker::new("a", 0, "a:1");
    broker.topics.insert("TBW102".into(), TopicConfig::new("TBW102", 8, 7));
    world.register(1, &broker);
    world.ask(request::WIPE_WRITE_PERM_OF_BROKER, &[("brokerName", "a")]);
    assert_eq!(world.shown("TBW102"), "a[0=a:1]:8/5");
    world.ask(request::ADD_WRITE_PERM_OF_BROKER, &[("brokerName", "a")]);
    assert_eq!(world.shown("TBW102"), "a[0=a:1]:8/7");
}
