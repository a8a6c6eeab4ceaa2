//! Links that faults have shut.

use std::collections::BTreeMap;
use std::sync::{MutexGuard, PoisonError};

use super::{NodeId, World};
use crate::net::LinkState;

/// What shuts each direction: the state, and the kind of fault that set it; newest last.
pub(super) type Disturbed = BTreeMap<(NodeId, NodeId), Vec<(LinkState, &'static str)>>;

impl World {
    /// Shuts one direction for a fault of this kind. Several faults may shut the same link; the last to end opens it.
    pub fn shut_link(&self, from: NodeId, to: NodeId, state: LinkState, kind: &'static str) {
        self.disturbed().entry((from, to)).or_default().push((state, kind));
        self.set_link(from, to);
    }

    /// Ends one [`World::shut_link`].
    pub fn open_link(&self, from: NodeId, to: NodeId, state: LinkState, kind: &'static str) {
        {
            let mut disturbed = self.disturbed();
            let Some(causes) = disturbed.get_mut(&(from, to)) else { return };
            let Some(index) = causes.iter().position(|cause| *cause == (state, kind)) else { return };
            causes.remove(index);
        }
        self.set_link(from, to);
    }

    /// Opens every link.
    pub fn open_all_links(&self) {
        self.disturbed().clear();
        self.0.network.heal();
    }

    /// A cut is stronger than a clog.
    fn set_link(&self, from: NodeId, to: NodeId) {
        let causes = self.disturbed().get(&(from, to)).cloned().unwrap_or_default();
        let cut = causes.iter().find(|(state, _)| *state == LinkState::Cut);
        let (state, kind) = match cut.or(causes.last()) {
            Some((state, kind)) => (*state, Some(*kind)),
            None => (LinkState::Open, None),
        };
        self.0.network.set_link_because(from, to, state, kind);
    }

    fn disturbed(&self) -> MutexGuard<'_, Disturbed> {
        self.0.disturbed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True while packets pass between two nodes, both ways.
    pub fn is_linked(&self, a: NodeId, b: NodeId) -> bool {
        let disturbed = self.disturbed();
        [(a, b), (b, a)].iter().all(|way| disturbed.get(way).is_none_or(Vec::is_empty))
    }
}
