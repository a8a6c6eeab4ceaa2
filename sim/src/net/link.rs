//! One direction between two nodes.

use std::collections::BTreeSet;
use std::time::Duration;

use super::connection::WayId;
use crate::random::Stream;

/// How a link behaves while it is open.
#[derive(Clone, Copy, Debug)]
pub struct LinkSettings {
    /// Shortest time a segment takes.
    pub latency_min: Duration,
    /// Longest time a segment takes, but for the one in a hundred that takes ten times as long.
    pub latency_max: Duration,
    /// Of 1,000 segments, how many are lost and sent again.
    pub loss_per_mille: u64,
    /// Largest segment in bytes.
    pub segment_max: usize,
    /// Bandwidth, if it is limited.
    pub bytes_per_second: Option<u64>,
    /// How latencies spread between the shortest and the longest.
    pub spread: Spread,
}

/// How latencies spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// Evenly; one in a hundred takes ten times as long.
    Uniform,
    /// Mostly short, with a tail that may be ten times the longest.
    Tail,
    /// Short, but one in ten takes 20 to 50 times the longest, as over a path that is now and then rerouted.
    TwoPaths,
}

impl LinkSettings {
    /// A data centre's network.
    pub const LAN: LinkSettings = LinkSettings {
        latency_min: Duration::from_micros(50),
        latency_max: Duration::from_micros(400),
        loss_per_mille: 0,
        segment_max: 64 * 1024,
        bytes_per_second: None,
        spread: Spread::Uniform,
    };

    /// Inside one machine.
    pub const LOOPBACK: LinkSettings =
        LinkSettings { latency_min: Duration::from_micros(5), latency_max: Duration::from_micros(20), ..Self::LAN };

    /// Settings for one link of a run: from a quick to a poor network.
    pub fn draw(random: &mut Stream) -> LinkSettings {
        let latency_max = Duration::from_micros(*random.pick(&[100, 400, 400, 2_000, 20_000]));
        LinkSettings {
            latency_min: latency_max / 5,
            latency_max,
            loss_per_mille: *random.pick(&[0, 0, 0, 1, 10]),
            segment_max: *random.pick(&[64 * 1024, 16 * 1024, 1_460, 536]),
            bytes_per_second: None,
            spread: Spread::Uniform,
        }
    }
}

/// Whether segments get through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// They do.
    Open,
    /// They are lost. TCP tries again with growing pauses and gives up in the end.
    Cut,
    /// They are held, and let through all at once when the link opens.
    Clogged,
}

/// A link and its random stream.
pub(super) struct Link {
    pub(super) settings: LinkSettings,
    /// The settings it was made with.
    pub(super) healthy: LinkSettings,
    pub(super) state: LinkState,
    /// The kind of fault that shut it.
    pub(super) cause: Option<&'static str>,
    /// The kind of fault that changed its settings.
    pub(super) degraded: Option<&'static str>,
    /// Ways whose first segment waits for a clogged link to open.
    pub(super) held: BTreeSet<WayId>,
    random: Stream,
    free_at: Duration,
}

impl Link {
    pub(super) fn new(settings: LinkSettings, random: Stream) -> Link {
        Link {
            settings,
            healthy: settings,
            state: LinkState::Open,
            cause: None,
            degraded: None,
            held: BTreeSet::new(),
            random,
            free_at: Duration::ZERO,
        }
    }

    pub(super) fn branch(&mut self, random: Stream) {
        self.random = random;
    }

    pub(super) fn is_open(&self) -> bool {
        self.state == LinkState::Open
    }

    /// Notes that what shut the link has kept something from getting through.
    pub(super) fn hindered(&self) {
        if let Some(cause) = self.cause {
            crate::marks::mattered(cause);
        }
    }

    /// The time one small segment takes.
    pub(super) fn latency(&mut self) -> Duration {
        let low = self.settings.latency_min.as_nanos() as u64;
        let high = self.settings.latency_max.as_nanos() as u64;
        let high = high.max(low);
        let nanos = self.random.between(low, high);
        Duration::from_nanos(match self.settings.spread {
            Spread::Uniform if self.random.chance(10) => nanos * 10,
            Spread::TwoPaths if self.random.chance(100) => self.random.between(high * 20, high * 50),
            Spread::Uniform | Spread::TwoPaths => nanos,
            // The number of leading zeros falls off exponentially.
            Spread::Tail => low + (nanos - low) / 4 + (high - low) * u64::from(self.random.draw().leading_zeros()) / 4,
        })
    }

    /// The time at which `bytes` sent at `now` arrive, losses included.
    pub(super) fn arrival(&mut self, now: Duration, bytes: usize) -> Duration {
        if let Some(kind) = self.degraded {
            crate::marks::mattered(kind);
        }
        let mut at = now;
        if let Some(rate) = self.settings.bytes_per_second {
            let nanos = bytes as u64 * 1_000_000_000 / rate.max(1);
            self.free_at = self.free_at.max(now) + Duration::from_nanos(nanos);
            at = self.free_at;
        }
        at += self.latency();
        let mut pause = super::connection::RETRANSMIT_MIN;
        while pause < super::connection::RETRANSMIT_MAX && self.random.chance(self.settings.loss_per_mille) {
            at += pause;
            pause *= 2;
        }
        at
    }

    /// Where to cut a write of `len` bytes: now and then earlier than needed, so that frames come in pieces.
    pub(super) fn segment(&mut self, len: usize) -> usize {
        let whole = len.min(self.settings.segment_max).max(1);
        if whole > 1 && self.random.chance(60) {
            return self.random.between(1, whole as u64 - 1) as usize;
        }
        whole
    }
}
