//! Which members are to be told that their group changed, and when.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::broker::ConnectionId;

/// How often collected changes are told, in ms (`realTimeNotifyConsumerChange=false`).
pub const TELL_EVERY_MS: u64 = 15_000;

/// Changes of groups that their members have not been told of.
#[derive(Debug, Default)]
pub struct Notices {
    collected: BTreeMap<Arc<str>, Vec<ConnectionId>>,
}

impl Notices {
    /// A group changed; `members` is everybody in it. Whoever is to be told now comes back: everybody if `at_once`, else
    /// nobody until [`Notices::on_tick`].
    pub fn on_changed(&mut self, group: &Arc<str>, members: Vec<ConnectionId>, at_once: bool) -> Vec<ConnectionId> {
        if at_once {
            // What was collected before is told with it.
            self.collected.remove(group);
            return members;
        }
        self.collected.insert(Arc::clone(group), members);
        Vec::new()
    }

    /// Every [`TELL_EVERY_MS`]: the groups that changed, each with its members as of its last change.
    pub fn on_tick(&mut self) -> BTreeMap<Arc<str>, Vec<ConnectionId>> {
        std::mem::take(&mut self.collected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ConnectionId = ConnectionId(1);
    const B: ConnectionId = ConnectionId(2);

    #[test]
    fn changes_are_told_at_once_or_collected() {
        let (mut notices, group): (_, Arc<str>) = (Notices::default(), "g".into());
        assert_eq!(notices.on_changed(&group, vec![A], true), [A]);
        assert!(notices.on_tick().is_empty(), "told already");
        assert_eq!(notices.on_changed(&group, vec![A], false), []);
        assert_eq!(notices.on_changed(&group, vec![A, B], false), []);
        assert_eq!(notices.on_tick(), BTreeMap::from([(group.clone(), vec![A, B])]), "once, the newest members");
        assert!(notices.on_tick().is_empty());
        assert_eq!(notices.on_changed(&group, vec![B], false), []);
        assert_eq!(notices.on_changed(&group, vec![A], true), [A], "the setting was changed meanwhile");
        assert!(notices.on_tick().is_empty());
    }
}
