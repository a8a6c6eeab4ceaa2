//! Members of one group that subscribe to different things (SUB-1). Each is given queues of topics it does not read, or
//! filters away what the others want: messages are missed, and nothing else tells why.

use std::fmt;
use std::sync::Arc;

use super::Member;

/// Two members of a group and what they subscribe to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Conflict {
    /// The group.
    pub group: Arc<str>,
    /// A member.
    pub first: Arc<str>,
    /// What it subscribes to.
    pub first_subscribes: Arc<str>,
    /// Another one.
    pub second: Arc<str>,
    /// What that one subscribes to.
    pub second_subscribes: Arc<str>,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Conflict { group, first, first_subscribes, second, second_subscribes } = self;
        write!(
            f,
            "members of group {group} subscribe to different things, both will miss messages: {first} to \
             {first_subscribes}, {second} to {second_subscribes}"
        )
    }
}

/// One conflict for each way of subscribing that differs from the first member's.
pub(super) fn find<'a>(group: &Arc<str>, mut members: impl Iterator<Item = &'a Member>) -> Vec<Conflict> {
    let Some(first) = members.next() else { return Vec::new() };
    let mut conflicts: Vec<Conflict> = Vec::new();
    for member in members {
        // A client that comes back over a new connection is not at odds with itself.
        let known = member.signature == first.signature
            || member.client == first.client
            || conflicts.iter().any(|conflict| conflict.second_subscribes == member.signature);
        if !known {
            conflicts.push(Conflict {
                group: group.clone(),
                first: first.client.clone(),
                first_subscribes: first.signature.clone(),
                second: member.client.clone(),
                second_subscribes: member.signature.clone(),
            });
        }
    }
    conflicts
}
