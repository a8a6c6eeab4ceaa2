//! Clocks: jumps.

use serde::{Deserialize, Serialize};

use super::{Draw, Fault, Harm, Kind};
use crate::marks;
use crate::world::World;

/// Faults of clocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ClockFault {
    /// The wall clock is set.
    ClockJump {
        /// Whose.
        machine: String,
        /// By how much; backwards if negative. It stays so.
        by_ms: i64,
    },
}

/// The kinds.
pub(super) const KINDS: &[Kind] = &[Kind { name: "clock_jump", harm: Harm::Time, draw: clock_jump }];

fn clock_jump(d: &mut Draw<'_>) -> Fault {
    let (machine, longest) = (d.machine(), *d.random.pick(&[10, 1_000, 60_000, 3_600_000]));
    let by_ms = d.random.between(0, 2 * longest) as i64 - longest as i64;
    Fault::Clock(ClockFault::ClockJump { machine, by_ms })
}

impl ClockFault {
    pub(super) fn lasts_us(&self) -> u64 {
        0
    }

    pub(super) fn apply(&self, world: &World) -> bool {
        let ClockFault::ClockJump { machine, by_ms } = self;
        let Some(node) = world.find(machine) else { return false };
        world.shift_clock(node, *by_ms);
        marks::mattered("clock_jump");
        true
    }
}

/// Clocks stay as they are: nothing in the product may count on their being right.
pub(super) fn heal(_world: &World) {}
