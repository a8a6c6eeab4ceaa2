//! Who gets which queue, as the official Java client has it.

use std::collections::BTreeSet;
use std::sync::Arc;

use metaq::client::{Allocation, MachineRooms, MessageQueue};

#[derive(Debug)]
struct BeforeTheAt;

impl MachineRooms for BeforeTheAt {
    fn of_broker(&self, queue: &MessageQueue) -> Option<String> {
        queue.broker_name.split('@').next().map(str::to_owned)
    }

    fn of_client(&self, client_id: &str) -> Option<String> {
        client_id.split('@').next().map(str::to_owned)
    }
}

fn queues(text: &str) -> Vec<MessageQueue> {
    let queue = |entry: &str| {
        let (broker, id) = entry.split_once('/').unwrap();
        MessageQueue { topic: "Orders".into(), broker_name: broker.into(), queue_id: id.parse().unwrap() }
    };
    text.split(',').filter(|entry| !entry.is_empty()).map(queue).collect()
}

fn strategy(name: &str, argument: &str) -> Allocation {
    match name {
        "AVG" => Allocation::Average,
        "AVG_BY_CIRCLE" => Allocation::AverageByCircle,
        "CONSISTENT_HASH" => Allocation::ConsistentHash,
        "CONFIG" => Allocation::Config(queues(argument)),
        "MACHINE_ROOM" => Allocation::MachineRoom(argument.split(',').map(str::to_owned).collect::<BTreeSet<_>>()),
        "MACHINE_ROOM_NEARBY" => {
            Allocation::MachineRoomNearby { inner: Box::new(strategy(argument, "")), rooms: Arc::new(BeforeTheAt) }
        }
        other => panic!("{other}"),
    }
}

#[test]
fn every_strategy_answers_as_the_java_clients() {
    let cases = std::fs::read_to_string("tests/vectors/allocations/allocations.tsv").unwrap();
    let mut seen = BTreeSet::new();
    for case in cases.lines() {
        let [name, argument, all, ids, shares] = case.split('\t').collect::<Vec<_>>()[..] else { panic!("{case}") };
        let (all, ids): (_, Vec<String>) = (queues(all), ids.split(',').map(str::to_owned).collect());
        let strategy = strategy(name, argument);
        for (id, share) in ids.iter().zip(shares.split(';')) {
            assert_eq!(strategy.allocate(id, &all, &ids), Ok(queues(share)), "{id} in {case}");
        }
        assert_eq!(ids.len(), shares.split(';').count());
        seen.insert(strategy.name());
    }
    assert_eq!(seen.len(), 7);
}
