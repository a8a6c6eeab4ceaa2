//! Clocks: jumps, drift, swings, standstill.

use std::time::Duration;

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
    /// The oscillator is too fast or too slow, and so are all waits.
    ClockDrift {
        /// Whose.
        machine: String,
        /// By so many parts per million; too slow if negative.
        ppm: i64,
        /// Until it is right again. What it was wrong by stays.
        for_us: u64,
    },
    /// The wall clock's error comes and goes.
    ClockSwing {
        /// Whose.
        machine: String,
        /// The largest error.
        most_ms: i64,
        /// From one largest error to the next.
        period_ms: u64,
        /// Until it is right again.
        for_us: u64,
    },
    /// The wall clock stands still, then jumps to where it should be.
    ClockFreeze {
        /// Whose.
        machine: String,
        /// Until it goes on.
        for_us: u64,
    },
}

/// The kinds.
pub(super) const KINDS: &[Kind] = &[
    Kind { name: "clock_jump", harm: Harm::Time, draw: clock_jump },
    Kind { name: "clock_drift", harm: Harm::Time, draw: clock_drift },
    Kind { name: "clock_swing", harm: Harm::Time, draw: clock_swing },
    Kind {
        name: "clock_freeze",
        harm: Harm::Time,
        draw: |d| Fault::Clock(ClockFault::ClockFreeze { machine: d.machine(), for_us: d.us_up_to(60_000) }),
    },
];

fn clock_drift(d: &mut Draw<'_>) -> Fault {
    let (machine, most) = (d.machine(), *d.random.pick(&[200, 10_000]));
    let ppm = d.random.between(0, 2 * most) as i64 - most as i64;
    Fault::Clock(ClockFault::ClockDrift { machine, ppm, for_us: d.us_up_to(600_000) })
}

fn clock_swing(d: &mut Draw<'_>) -> Fault {
    let (machine, most_ms) = (d.machine(), *d.random.pick(&[20, 1_000, 60_000]));
    let period_ms = *d.random.pick(&[1_000, 20_000, 120_000]);
    Fault::Clock(ClockFault::ClockSwing { machine, most_ms, period_ms, for_us: d.us_up_to(120_000) })
}

fn clock_jump(d: &mut Draw<'_>) -> Fault {
    let (machine, longest) = (d.machine(), *d.random.pick(&[10, 1_000, 60_000, 3_600_000]));
    let by_ms = d.random.between(0, 2 * longest) as i64 - longest as i64;
    Fault::Clock(ClockFault::ClockJump { machine, by_ms })
}

impl ClockFault {
    pub(super) fn lasts_us(&self) -> u64 {
        match self {
            ClockFault::ClockJump { .. } => 0,
            ClockFault::ClockDrift { for_us, .. }
            | ClockFault::ClockSwing { for_us, .. }
            | ClockFault::ClockFreeze { for_us, .. } => *for_us,
        }
    }

    pub(super) fn apply(&self, world: &World) -> bool {
        let (ClockFault::ClockJump { machine, .. }
        | ClockFault::ClockDrift { machine, .. }
        | ClockFault::ClockSwing { machine, .. }
        | ClockFault::ClockFreeze { machine, .. }) = self;
        let Some(node) = world.find(machine) else { return false };
        let oscillator = world.oscillator(node);
        match self {
            ClockFault::ClockJump { by_ms, .. } => {
                world.shift_clock(node, *by_ms);
                marks::mattered("clock_jump");
                return true;
            }
            ClockFault::ClockDrift { ppm, .. } => oscillator.drift(*ppm),
            ClockFault::ClockSwing { most_ms, period_ms, .. } => {
                oscillator.swing(*most_ms, Duration::from_millis(*period_ms));
            }
            ClockFault::ClockFreeze { .. } => oscillator.freeze(true),
        }
        world.note(node, "clock disturbed", &[self.lasts_us()], &format!("{self:?}"));
        let fault = self.clone();
        world.later(Duration::from_micros(self.lasts_us()), move |_| match fault {
            ClockFault::ClockJump { .. } => {}
            ClockFault::ClockDrift { .. } => oscillator.drift(0),
            ClockFault::ClockSwing { .. } => oscillator.swing(0, Duration::ZERO),
            ClockFault::ClockFreeze { .. } => oscillator.freeze(false),
        });
        true
    }
}

/// Clocks go at the right pace again. What they are wrong by stays: nothing in the product may count on it.
pub(super) fn heal(world: &World) {
    for node in world.nodes_by_name().into_values() {
        let oscillator = world.oscillator(node);
        oscillator.drift(0);
        oscillator.swing(0, Duration::ZERO);
        oscillator.freeze(false);
    }
}
