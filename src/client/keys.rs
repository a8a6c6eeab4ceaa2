//! The unique keys of a client's messages.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::env::Millis;
use crate::proto::message::UniqueKeys;

/// A key holds milliseconds and a counter of 16 bits.
const COUNTER_BITS: u32 = 16;

/// Makes keys that never repeat, though the clock be set back: time in keys only goes on (PRO-5).
pub(super) struct MessageKeys {
    keys: UniqueKeys,
    /// Milliseconds and keys within them, as one number that only grows.
    last: AtomicU64,
}

impl MessageKeys {
    /// `instance` is random: it tells clients of one address apart.
    pub fn new(address: IpAddr, instance: u64) -> MessageKeys {
        let keys = UniqueKeys::new(address, (instance >> 32) as u32, instance as u32);
        MessageKeys { keys, last: AtomicU64::new(0) }
    }

    pub fn next(&self, now: Millis) -> String {
        let now = (now.0.max(0) as u64) << COUNTER_BITS;
        let step = |last: u64| Some(now.max(last + 1));
        let last = self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step).unwrap_or(0);
        self.keys.next(Millis((now.max(last + 1) >> COUNTER_BITS) as i64))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn pro_5_keys_do_not_repeat_across_a_clock_set_back_or_a_month() {
        let (one, other) =
            (MessageKeys::new(Ipv4Addr::LOCALHOST.into(), 1), MessageKeys::new(Ipv4Addr::LOCALHOST.into(), 2));
        let end_of_november = 1_701_388_800_000;
        let mut seen = BTreeSet::new();
        for step in 0..200_000 {
            // 100 keys a millisecond; half-way the clock goes back by as much as it went on.
            let now = Millis(end_of_november - 500 + step % 100_000 / 100);
            assert!(seen.insert(one.next(now)), "step {step}");
            assert!(seen.insert(other.next(now)), "step {step}");
        }
    }
}
