//! Planted bugs, the scenarios that must find them, and the checkers that must name them.

use std::collections::BTreeSet;
use std::path::Path;

use metaq::env::Canary;

use crate::sweep::{child, ChildRun};

/// Seeds within which a planted bug has to be found.
pub const SEEDS_MAX: u64 = 50;

/// One planted bug.
#[derive(Clone, Copy, Debug)]
pub struct Planted {
    /// The switch.
    pub canary: Canary,
    /// The scenario that finds it.
    pub scenario: &'static str,
    /// The checkers that may report it.
    pub checkers: &'static [&'static str],
}

const KEPT: &str = "acknowledged messages are kept";

/// All planted bugs.
pub const ALL: &[Planted] = &[
    Planted { canary: Canary::AcknowledgeBeforeSync, scenario: "store_power_cut", checkers: &[KEPT] },
    Planted { canary: Canary::AcknowledgeBeforeSync, scenario: "broker_power_cut", checkers: &[KEPT] },
    Planted { canary: Canary::NoDirectorySync, scenario: "store_power_cut", checkers: &[KEPT, "the store opens"] },
    Planted { canary: Canary::NoDirectorySync, scenario: "broker_power_cut", checkers: &[KEPT, "a broker starts"] },
    Planted { canary: Canary::TrustFileLength, scenario: "store_power_cut", checkers: &[KEPT] },
    Planted {
        canary: Canary::TrustFileLength,
        scenario: "broker_power_cut",
        checkers: &[KEPT, "consumers get whole messages"],
    },
    Planted {
        canary: Canary::ReviveDeletedTopics,
        scenario: "deleted_topic",
        checkers: &["a deleted topic stays deleted"],
    },
];

impl Planted {
    /// The first run that fails with the bug on; `None` if none of [`SEEDS_MAX`] does. `binary` is the simulator.
    pub fn hunt(&self, binary: &Path) -> Option<ChildRun> {
        let on = BTreeSet::from([self.canary]);
        (0..SEEDS_MAX).map(|seed| child(binary, self.scenario, seed, &on)).find(|run| !run.passed)
    }

    /// Whether a failed run was reported by the right checker.
    pub fn is_named_by(&self, run: &ChildRun) -> bool {
        self.checkers.iter().any(|checker| run.line.contains(checker))
    }
}
