//! Who of a group gets which queue. Every member computes it for itself from the same sorted lists, so the answers have
//! to be those of every other client; `tests/vectors/allocations` has those of the official Java client.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use super::md5::md5;
use crate::proto::body::MessageQueue;

/// Points that each member has on the ring of consistent hashing.
const VIRTUAL_NODES: usize = 10;

/// How the members of a group share a topic's queues. All members have to use the same one.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Allocation {
    /// Neighbouring queues, as equally many for each as possible.
    #[default]
    Average,
    /// One queue after the other, as cards are dealt.
    AverageByCircle,
    /// These queues, whatever the others have.
    Config(Vec<MessageQueue>),
    /// Queues of brokers named `room@name` whose room is one of these; nobody gets the others.
    MachineRoom(BTreeSet<String>),
    /// Queues go to members in the same machine room; those of rooms without members to all.
    MachineRoomNearby {
        /// How the queues of a room are shared.
        inner: Box<Allocation>,
        /// Where brokers and members are.
        rooms: Arc<dyn MachineRooms>,
    },
    /// By consistent hashing: few queues move when a member comes or goes.
    ConsistentHash,
}

/// Tells where brokers and clients stand.
pub trait MachineRooms: Send + Sync + fmt::Debug {
    /// The room of a queue's broker.
    fn of_broker(&self, queue: &MessageQueue) -> Option<String>;
    /// The room of a client.
    fn of_client(&self, client_id: &str) -> Option<String>;
}

/// Why queues cannot be shared; the members keep what they have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AllocationError {
    /// A broker or client whose machine room is not known.
    #[error("the machine room of `{0}` is not known")]
    UnknownRoom(String),
}

impl Allocation {
    /// RocketMQ's name for it.
    pub fn name(&self) -> String {
        match self {
            Allocation::Average => "AVG".into(),
            Allocation::AverageByCircle => "AVG_BY_CIRCLE".into(),
            Allocation::Config(_) => "CONFIG".into(),
            Allocation::MachineRoom(_) => "MACHINE_ROOM".into(),
            Allocation::MachineRoomNearby { inner, .. } => format!("MACHINE_ROOM_NEARBY-{}", inner.name()),
            Allocation::ConsistentHash => "CONSISTENT_HASH".into(),
        }
    }

    /// The queues of member `id`. The order of the lists does not matter; a member that is not in `members` gets none.
    ///
    /// # Errors
    /// [`AllocationError::UnknownRoom`] from [`Allocation::MachineRoomNearby`].
    pub fn allocate(
        &self,
        id: &str,
        queues: &[MessageQueue],
        members: &[String],
    ) -> Result<Vec<MessageQueue>, AllocationError> {
        let queues: Vec<&MessageQueue> = queues.iter().collect::<BTreeSet<_>>().into_iter().collect();
        let members: Vec<&str> = members.iter().map(String::as_str).collect::<BTreeSet<_>>().into_iter().collect();
        let share = self.share(id, &queues, &members)?;
        Ok(share.into_iter().cloned().collect())
    }

    /// The same with sorted lists without repetitions.
    fn share<'q>(
        &'q self,
        id: &str,
        queues: &[&'q MessageQueue],
        members: &[&str],
    ) -> Result<Vec<&'q MessageQueue>, AllocationError> {
        let Ok(index) = members.binary_search(&id) else { return Ok(Vec::new()) };
        Ok(match self {
            Allocation::Average => average(queues, index, members.len()),
            Allocation::AverageByCircle => queues.iter().skip(index).step_by(members.len()).copied().collect(),
            Allocation::Config(own) => own.iter().collect(),
            Allocation::MachineRoom(rooms) => machine_room(queues, index, members.len(), rooms),
            Allocation::MachineRoomNearby { inner, rooms } => nearby(id, queues, members, inner, &**rooms)?,
            Allocation::ConsistentHash => consistent_hash(id, queues, members),
        })
    }
}

fn average<'q>(queues: &[&'q MessageQueue], index: usize, members: usize) -> Vec<&'q MessageQueue> {
    let (each, more) = (queues.len() / members, queues.len() % members);
    let start = index * each + index.min(more);
    let size = each + usize::from(index < more);
    queues.iter().skip(start).take(size).copied().collect()
}

fn machine_room<'q>(
    queues: &[&'q MessageQueue],
    index: usize,
    members: usize,
    rooms: &BTreeSet<String>,
) -> Vec<&'q MessageQueue> {
    let room_of = |queue: &MessageQueue| match queue.broker_name.split('@').collect::<Vec<_>>()[..] {
        [room, _] => Some(room.to_owned()),
        _ => None,
    };
    let queues: Vec<_> =
        queues.iter().filter(|queue| room_of(queue).is_some_and(|room| rooms.contains(&room))).copied().collect();
    let (each, more) = (queues.len() / members, queues.len() % members);
    let mut share: Vec<_> = queues.iter().skip(index * each).take(each).copied().collect();
    if index < more {
        share.push(queues[each * members + index]);
    }
    share
}

fn nearby<'q>(
    id: &str,
    queues: &[&'q MessageQueue],
    members: &[&str],
    inner: &'q Allocation,
    rooms: &dyn MachineRooms,
) -> Result<Vec<&'q MessageQueue>, AllocationError> {
    let known = |room: Option<String>, what: &str| {
        room.filter(|room| !room.is_empty()).ok_or_else(|| AllocationError::UnknownRoom(what.to_owned()))
    };
    let (mut queues_of, mut members_of) = (BTreeMap::new(), BTreeMap::new());
    for queue in queues {
        let room = known(rooms.of_broker(queue), &queue.broker_name)?;
        queues_of.entry(room).or_insert_with(Vec::new).push(*queue);
    }
    for member in members {
        let room = known(rooms.of_client(member), member)?;
        members_of.entry(room).or_insert_with(Vec::new).push(*member);
    }
    let own = known(rooms.of_client(id), id)?;
    let mut share = Vec::new();
    if let (Some(queues), Some(members)) = (queues_of.remove(&own), members_of.get(&own)) {
        share.extend(inner.share(id, &queues, members)?);
    }
    for (room, queues) in &queues_of {
        if !members_of.contains_key(room) {
            share.extend(inner.share(id, queues, members)?);
        }
    }
    Ok(share)
}

fn consistent_hash<'q>(id: &str, queues: &[&'q MessageQueue], members: &[&str]) -> Vec<&'q MessageQueue> {
    let mut ring = BTreeMap::new();
    for member in members {
        for node in 0..VIRTUAL_NODES {
            ring.insert(place(&format!("{member}-{node}")), *member);
        }
    }
    let owner = |queue: &MessageQueue| {
        let MessageQueue { topic, broker_name, queue_id } = queue;
        let name = format!("MessageQueue [topic={topic}, brokerName={broker_name}, queueId={queue_id}]");
        ring.range(place(&name)..).next().or_else(|| ring.first_key_value()).map(|(_, member)| *member)
    };
    queues.iter().filter(|queue| owner(queue) == Some(id)).copied().collect()
}

fn place(key: &str) -> u32 {
    let [a, b, c, d, ..] = md5(key.as_bytes());
    u32::from_be_bytes([a, b, c, d])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queues(count: i32) -> Vec<MessageQueue> {
        let queue = |queue_id| MessageQueue { topic: "T".into(), broker_name: "hz@a".into(), queue_id };
        (0..count).map(queue).collect()
    }

    #[derive(Debug)]
    struct OneRoom;

    impl MachineRooms for OneRoom {
        fn of_broker(&self, _: &MessageQueue) -> Option<String> {
            Some("hz".into())
        }

        fn of_client(&self, client_id: &str) -> Option<String> {
            (client_id != "lost").then(|| "hz".into())
        }
    }

    /// REB-7: more members than queues crashed the average; every queue has exactly one owner, for any order.
    #[test]
    fn reb_7_every_queue_has_exactly_one_owner() {
        let nearby = Allocation::MachineRoomNearby { inner: Box::default(), rooms: Arc::new(OneRoom) };
        let strategies = [
            Allocation::Average,
            Allocation::AverageByCircle,
            Allocation::MachineRoom(BTreeSet::from(["hz".to_owned()])),
            nearby,
            Allocation::ConsistentHash,
        ];
        for strategy in strategies {
            for count in 0..=10 {
                for members in 1..=10 {
                    let members: Vec<String> = (0..members).map(|member| format!("c{member}")).collect();
                    let (mut turned_queues, mut turned_members) = (queues(count), members.clone());
                    turned_queues.reverse();
                    turned_members.reverse();
                    let mut owned = Vec::new();
                    for id in &members {
                        let share = strategy.allocate(id, &queues(count), &members).unwrap();
                        assert_eq!(strategy.allocate(id, &turned_queues, &turned_members), Ok(share.clone()));
                        owned.extend(share);
                    }
                    owned.sort();
                    assert_eq!(owned, queues(count), "{} of {count} queues", strategy.name());
                }
            }
        }
    }

    #[test]
    fn a_stranger_gets_nothing_and_an_unknown_room_is_an_error() {
        let members = ["a".to_owned(), "lost".to_owned()];
        assert_eq!(Allocation::Average.allocate("b", &queues(3), &members), Ok(vec![]));
        assert_eq!(Allocation::Average.allocate("b", &queues(3), &[]), Ok(vec![]));
        let nearby = Allocation::MachineRoomNearby { inner: Box::default(), rooms: Arc::new(OneRoom) };
        assert_eq!(nearby.name(), "MACHINE_ROOM_NEARBY-AVG");
        let unknown = AllocationError::UnknownRoom("lost".into());
        assert_eq!(nearby.allocate("a", &queues(3), &members), Err(unknown));
    }
}
