//! Which data a fault may destroy: never the last good copy of what the configuration promises to keep.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::world::NodeId;

/// What a file holds, as far as its loss matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Content {
    /// Follows from the log: consume queues, index, checkpoint, queue table.
    Derived,
    /// A config file that has a backup, or the backup: one of the two may go.
    Backed,
    /// Messages, or anything else of which there is no other copy on this machine.
    Only,
}

impl Content {
    /// What lies at a path of a store or of a NameServer.
    pub fn of(path: &Path) -> Content {
        let part = |name: &str| path.components().any(|component| component.as_os_str() == name);
        let file = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if part("consumequeue") || part("index") || matches!(file, "checkpoint" | "abort" | "lock") {
            Content::Derived
        } else if part("config") {
            Content::Backed
        } else {
            Content::Only
        }
    }
}

/// Keeps account of the good copies.
#[derive(Clone, Debug, Default)]
pub struct Atlas {
    /// Replica groups: the machines that hold a copy, and those whose copy is whole.
    groups: Vec<(BTreeSet<NodeId>, BTreeSet<NodeId>)>,
    /// Config files of which one of the two was hit, by machine and name without `.bak`.
    backed: BTreeMap<(NodeId, String), bool>,
}

impl Atlas {
    /// An atlas of these replica groups. A machine in none of them holds the only copy of what it has.
    pub fn new(groups: impl IntoIterator<Item = BTreeSet<NodeId>>) -> Atlas {
        Atlas { groups: groups.into_iter().map(|group| (group.clone(), group)).collect(), backed: BTreeMap::new() }
    }

    /// Asks whether what lies at `path` on `node` may be destroyed, and takes note that it was if so.
    pub fn may_destroy(&mut self, node: NodeId, path: &Path) -> bool {
        match Content::of(path) {
            Content::Derived => true,
            Content::Backed => {
                let name = path.display().to_string();
                let (name, backup) = match name.strip_suffix(".bak") {
                    Some(main) => (main.to_owned(), true),
                    None => (name, false),
                };
                *self.backed.entry((node, name)).or_insert(backup) == backup
            }
            Content::Only => self.may_destroy_all(node),
        }
    }

    /// Asks whether everything on `node` may be destroyed, and takes note that it was if so.
    pub fn may_destroy_all(&mut self, node: NodeId) -> bool {
        let Some((_, whole)) = self.groups.iter_mut().find(|(all, _)| all.contains(&node)) else { return false };
        if !whole.contains(&node) {
            return true;
        }
        if whole.len() < 2 {
            return false;
        }
        whole.remove(&node)
    }

    /// The copy on `node` is whole again: it has caught up with another one.
    pub fn restored(&mut self, node: NodeId) {
        for (all, whole) in &mut self.groups {
            if all.contains(&node) {
                whole.insert(node);
            }
        }
        self.backed.retain(|(of, _), _| *of != node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "/data/store/commitlog/00000000000000000000";

    #[test]
    fn the_last_copy_is_kept() {
        let [a, b, c, alone] = [1, 2, 3, 4].map(NodeId);
        let mut atlas = Atlas::new([BTreeSet::from([a, b, c])]);
        assert!(!atlas.may_destroy(alone, Path::new(LOG)), "a machine without replicas holds the only copy");
        assert!(atlas.may_destroy(a, Path::new(LOG)));
        assert!(atlas.may_destroy(a, Path::new(LOG)), "it is lost already");
        assert!(atlas.may_destroy_all(b));
        assert!(!atlas.may_destroy(c, Path::new(LOG)), "c has the last copy");
        atlas.restored(a);
        assert!(atlas.may_destroy(c, Path::new(LOG)));
        assert!(!atlas.may_destroy_all(a));
    }

    #[test]
    fn what_follows_from_the_log_may_always_go_and_of_two_config_files_one() {
        let node = NodeId(1);
        let mut atlas = Atlas::default();
        for path in ["consumequeue/orders/0/00000000000000000000", "index/20260101000000000", "checkpoint"] {
            assert!(atlas.may_destroy(node, &Path::new("/data/store").join(path)), "{path}");
        }
        let (main, backup) = ("/data/store/config/topics.json", "/data/store/config/topics.json.bak");
        assert!(atlas.may_destroy(node, Path::new(main)));
        assert!(!atlas.may_destroy(node, Path::new(backup)));
        assert!(atlas.may_destroy(node, Path::new(main)), "again the same one");
        assert!(atlas.may_destroy(NodeId(2), Path::new(backup)), "another machine");
    }
}
