//! Time of one node: simulated time plus the node's own error.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use futures::future::BoxFuture;
use metaq::env::{Clock, Millis};

use crate::agenda::Agenda;
use crate::marks;

/// The clock of a machine; it outlives processes. The wall clock can be set, swing and stand still; the oscillator, which
/// both the wall clock and waits count on, can be too fast or too slow.
pub struct Oscillator {
    agenda: Arc<Agenda>,
    state: Mutex<State>,
}

struct State {
    /// What the wall clock was set to be wrong by, in milliseconds.
    error_ms: i64,
    /// Parts per million by which it is too fast.
    drift_ppm: i64,
    /// Simulated and own monotonic time when the drift was set.
    since: (Duration, Duration),
    swing: Option<Swing>,
    /// The wall-clock time at which it stands still.
    frozen: Option<Millis>,
}

/// An error that comes and goes.
#[derive(Clone, Copy)]
struct Swing {
    most_ms: i64,
    period: Duration,
    since: Duration,
}

impl Swing {
    /// A triangle: 0, up to the most, through 0 down to the opposite, and back.
    fn error_ms(&self, now: Duration) -> i64 {
        let period = self.period.as_millis().max(4) as i64;
        let at = now.saturating_sub(self.since).as_millis() as i64 % period;
        let quarter = period / 4;
        let height = match at / quarter {
            0 => at,
            1 | 2 => 2 * quarter - at,
            _ => at - period,
        };
        self.most_ms.saturating_mul(height) / quarter
    }
}

impl Oscillator {
    /// A good one whose wall clock is wrong by `error_ms`.
    pub fn new(agenda: Arc<Agenda>, error_ms: i64) -> Oscillator {
        let since = (agenda.now(), agenda.now());
        let state = State { error_ms, drift_ppm: 0, since, swing: None, frozen: None };
        Oscillator { agenda, state: Mutex::new(state) }
    }

    /// Sets the wall clock forward, or back if `millis` is negative.
    pub fn shift(&self, millis: i64) {
        let mut state = self.lock();
        state.error_ms = state.error_ms.saturating_add(millis);
        if let Some(frozen) = &mut state.frozen {
            *frozen = frozen.plus(millis);
        }
    }

    /// From now on it is too fast by so many parts per million, or too slow.
    pub fn drift(&self, ppm: i64) {
        let now = self.agenda.now();
        let mut state = self.lock();
        state.since = (now, state.monotonic(now));
        state.drift_ppm = ppm;
    }

    /// The wall clock's error swings between plus and minus `most_ms`, once in every `period`; 0 ends that.
    pub fn swing(&self, most_ms: i64, period: Duration) {
        let since = self.agenda.now();
        self.lock().swing = (most_ms != 0).then_some(Swing { most_ms, period, since });
    }

    /// The wall clock stands still, or goes on again where it would be by now.
    pub fn freeze(&self, frozen: bool) {
        let now = self.now();
        self.lock().frozen = frozen.then_some(now);
    }

    /// Wall-clock time as this machine believes it.
    pub fn now(&self) -> Millis {
        let (now, state) = (self.agenda.now(), self.lock());
        if let Some(frozen) = state.frozen {
            marks::mattered("clock_freeze");
            return frozen;
        }
        let began = self.agenda.wall().duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(now);
        let swing = state.swing.map_or(0, |swing| {
            marks::mattered("clock_swing");
            swing.error_ms(now)
        });
        let true_time = began + state.monotonic(now);
        Millis(true_time.as_millis() as i64).plus(state.error_ms).plus(swing)
    }

    fn monotonic(&self) -> Duration {
        self.lock().monotonic(self.agenda.now())
    }

    /// How much simulated time passes while this machine counts `duration`.
    fn wait_for(&self, duration: Duration) -> Duration {
        let ppm = self.lock().drift_ppm;
        if ppm == 0 {
            return duration;
        }
        marks::mattered("clock_drift");
        let nanos = duration.as_nanos() as i128 * 1_000_000 / (1_000_000 + i128::from(ppm)).max(1);
        // One more, so that the machine itself finds the time passed.
        Duration::from_nanos(nanos as u64 + 1)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn monotonic(&self, now: Duration) -> Duration {
        let (since, own) = self.since;
        let passed = now.saturating_sub(since).as_nanos() as i128;
        own + Duration::from_nanos((passed + passed * i128::from(self.drift_ppm) / 1_000_000).max(0) as u64)
    }
}

thread_local! {
    /// The clocks of all machines, for timers that know only on which machine they run.
    static MACHINES: RefCell<BTreeMap<madsim::task::NodeId, Arc<Oscillator>>> = const { RefCell::new(BTreeMap::new()) };
}

/// Lets ractor's timers on `machine` go as fast as its clock does.
pub fn pace_timers(machine: madsim::task::NodeId, oscillator: Arc<Oscillator>) {
    async_std::set_pace(paced);
    MACHINES.with_borrow_mut(|machines| machines.insert(machine, oscillator));
}

fn paced(duration: Duration) -> Duration {
    let oscillator = MACHINES.with_borrow(|machines| machines.get(&madsim::plugin::node()).cloned());
    oscillator.map_or(duration, |oscillator| oscillator.wait_for(duration))
}

/// The clock that a process sees.
pub struct SimClock {
    oscillator: Arc<Oscillator>,
}

impl SimClock {
    /// The clock of the machine that has this oscillator.
    pub fn new(oscillator: Arc<Oscillator>) -> SimClock {
        SimClock { oscillator }
    }
}

impl Clock for SimClock {
    fn now(&self) -> Millis {
        self.oscillator.now()
    }

    fn monotonic(&self) -> Duration {
        self.oscillator.monotonic()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(self.oscillator.agenda.sleep(self.oscillator.wait_for(duration)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::simulate;

    #[test]
    fn a_fast_clock_waits_too_short_and_counts_too_much() {
        simulate(1, |world| async move {
            let node = world.add_node("machine");
            let clock = world.env(node).clock;
            for ppm in [200, -200, 100_000, -100_000] {
                world.oscillator(node).drift(ppm);
                let (wall, own, real) = (clock.now(), clock.monotonic(), world.now());
                clock.sleep(Duration::from_secs(1_000)).await;
                let counted = clock.monotonic() - own;
                assert!(counted >= Duration::from_secs(1_000) && counted < Duration::from_millis(1_000_100));
                assert!(clock.now().since(wall).abs_diff(1_000_000) < 200, "the wall clock drifts alike");
                let passed = (world.now() - real).as_millis() as i64;
                assert!((passed + passed * ppm / 1_000_000 - 1_000_000).abs() < 200, "{ppm} ppm: {passed} ms");
            }
        });
    }

    #[test]
    fn a_drifting_machine_s_timers_drift_too() {
        simulate(1, |world| async move {
            let (fast, right) = (world.add_node("fast"), world.add_node("right"));
            world.oscillator(fast).drift(100_000);
            let waited = |node| {
                let clock = world.clone();
                world.spawn(node, async move {
                    let from = clock.now();
                    ractor::concurrency::sleep(Duration::from_secs(110)).await;
                    let late = ractor::concurrency::timeout(Duration::from_secs(11), futures::future::pending::<()>());
                    assert!(late.await.is_err());
                    (clock.now() - from).as_millis()
                })
            };
            let (fast, right) = (waited(fast).await.unwrap(), waited(right).await.unwrap());
            assert!((110_000..110_010).contains(&fast), "100,000 ppm too fast: {fast} ms");
            assert!((121_000..121_010).contains(&right), "{right} ms");
        });
    }

    #[test]
    fn the_wall_clock_jumps_swings_and_stands_still_and_waits_do_not_care() {
        simulate(1, |world| async move {
            let node = world.add_node("machine");
            let (clock, oscillator) = (world.env(node).clock, world.oscillator(node));
            let began = clock.now();
            oscillator.shift(-3_600_000);
            assert_eq!(clock.now().0 - began.0, -3_600_000);
            oscillator.shift(3_600_000);
            oscillator.freeze(true);
            clock.sleep(Duration::from_secs(5)).await;
            assert_eq!(clock.now(), began);
            oscillator.freeze(false);
            assert!(clock.now().since(began) >= 5_000);
            oscillator.swing(1_000, Duration::from_secs(40));
            let mut seen = Vec::new();
            for _ in 0..40 {
                clock.sleep(Duration::from_secs(1)).await;
                seen.push(clock.now().0 - began.0 - world.now().as_millis() as i64);
            }
            let (low, high) = (seen.iter().min().unwrap(), seen.iter().max().unwrap());
            assert!((1_900..=2_000).contains(&(high - low)), "from {low} to {high}");
            oscillator.swing(0, Duration::ZERO);
            assert!(clock.now().0 - began.0 - (world.now().as_millis() as i64) < 10);
        });
    }
}
