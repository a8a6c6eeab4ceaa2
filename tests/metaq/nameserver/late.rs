//! Late news of brokers that are gone or have come back.

use super::*;

/// Every way to run two sequences at once: which of them makes each step.
fn interleavings(left: usize, right: usize) -> Vec<Vec<bool>> {
    if left == 0 || right == 0 {
        return vec![[vec![true; left], vec![false; right]].concat()];
    }
    let mut all = Vec::new();
    for (first, rest) in [(true, interleavings(left - 1, right)), (false, interleavings(left, right - 1))] {
        all.extend(rest.into_iter().map(|order| [vec![first], order].concat()));
    }
    all
}

#[test]
fn nsr_1_the_old_masters_goodbye_leaves_the_new_master_alone() {
    let old = Broker::new("a", 0, "old:1");
    let new = Broker::new("a", 0, "new:1");
    for goodbye_on in [1, 2, 3] {
        let mut world = world();
        world.register(1, &old);
        world.register(2, &new);
        world.unregister(goodbye_on, &old);
        world.close(1);
        assert_eq!(world.shown("T"), "a[0=new:1]:4/6", "goodbye on connection {goodbye_on}");
    }
}

#[test]
fn nsr_1_n1_nothing_said_on_the_old_connection_touches_a_restarted_broker() {
    let broker = Broker::new("a", 0, "a:1");
    for order in interleavings(4, 1) {
        let mut world = world();
        let mut old_step = 0;
        for is_old in &order {
            match (is_old, old_step) {
                (false, _) => drop(world.register(2, &broker)),
                (true, 0) => drop(world.register(1, &broker)),
                (true, 1) => world.unregister(1, &broker),
                // Still in the socket's buffer when the process died.
                (true, 2) => drop(world.register(1, &broker.clone())),
                (true, _) => world.close(1),
            }
            old_step += usize::from(*is_old);
        }
        assert_eq!(world.shown("T"), "a[0=a:1]:4/6", "{order:?}");
        world.close(2);
        assert_eq!(world.shown("T"), "", "{order:?}");
    }
}

#[test]
fn nsr_1_a_goodbye_of_an_earlier_role_is_late() {
    let mut world = world();
    world.register(1, &Broker::new("a", 0, "a:1"));
    world.register(1, &Broker::new("a", 1, "a:1"));
    world.unregister(1, &Broker::new("a", 0, "a:1"));
    assert_eq!(world.shown("T"), "a[1=a:1]:4/4", "it is a slave now");
}

#[test]
fn a_goodbye_on_a_newer_connection_counts() {
    let mut world = world();
    let broker = Broker::new("a", 0, "a:1");
    world.register(1, &broker);
    world.unregister(2, &broker);
    assert_eq!(world.shown("T"), "");
}

#[test]
fn n2_a_broker_heard_in_time_stays() {
    let mut world = world();
    let broker = Broker::new("a", 0, "a:1");
    world.register(1, &broker);
    for code in [request::BROKER_HEARTBEAT, request::QUERY_DATA_VERSION, request::REGISTER_BROKER] {
        world.pass(120_000);
        let body = if code == request::REGISTER_BROKER { broker.body() } else { b"{}".to_vec() };
        assert_eq!(world.shown("T"), "a[0=a:1]:4/6", "before {code}");
        world.send(1, code, &broker.ext(), &body);
    }
    world.pass(120_000);
    assert_eq!(world.shown("T"), "a[0=a:1]:4/6");
    world.pass(1);
    assert_eq!(world.shown("T"), "");
    assert_eq!(world.effects, [Effect::Close(ConnectionId(1))]);
    world.send(2, request::BROKER_HEARTBEAT, &broker.ext(), b"");
    assert_eq!(world.shown("T"), "", "a heartbeat does not bring a broker back");
    world.register(2, &broker);
    world.close(1);
    assert_eq!(world.shown("T"), "a[0=a:1]:4/6");
}

#[test]
fn a_broker_may_name_its_own_time_out() {
    let mut world = world();
    world.register(1, &Broker::new("a", 0, "a:1").saying("heartbeatTimeoutMillis", "6000"));
    world.register(1, &Broker::new("b", 0, "b:1").saying("heartbeatTimeoutMillis", "0"));
    world.pass(6_001);
    assert_eq!(world.shown("T"), "b[0=b:1]:4/6");
    assert_eq!(world.effects, [], "another broker still uses the connection");
}

#[test]
fn a_heartbeat_moves_a_broker_to_its_new_connection() {
    let mut world = world();
    let broker = Broker::new("a", 0, "a:1");
    world.register(1, &broker);
    world.send(2, request::BROKER_HEARTBEAT, &broker.ext(), b"");
    world.close(1);
    assert_eq!(world.shown("T"), "a[0=a:1]:4/6", "the end of the old connection came late");
}
