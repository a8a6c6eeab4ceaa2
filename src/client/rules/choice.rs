//! Which queue a message goes to when its sender does not say.

use std::time::Duration;

use super::latency::LatencyTable;
use crate::proto::body::MessageQueue;
use crate::proto::message::hash::java_hash;

/// Takes one queue after the other. The counter may begin and end anywhere.
#[derive(Clone, Copy, Debug, Default)]
pub struct RoundRobin {
    next: u32,
}

impl RoundRobin {
    /// Begins at a random place, so that many producers do not all begin with the same queue.
    pub fn starting_at(next: u32) -> RoundRobin {
        RoundRobin { next }
    }

    /// The next queue, if possible of a broker that is available and not `failed`; else of any but the failed one; else
    /// any. `None` only if there is no queue.
    pub fn pick<'q>(
        &mut self,
        queues: &'q [MessageQueue],
        failed: Option<&str>,
        latency: &LatencyTable,
        now: Duration,
    ) -> Option<&'q MessageQueue> {
        let start = self.next as usize;
        self.next = self.next.wrapping_add(1);
        let turned = || queues.iter().cycle().skip(start % queues.len().max(1)).take(queues.len());
        let other = |queue: &&MessageQueue| failed != Some(queue.broker_name.as_str());
        turned()
            .find(|queue| other(queue) && latency.is_available(&queue.broker_name, now))
            .or_else(|| turned().find(other))
            .or_else(|| turned().next())
    }
}

/// The place of a key among `queues` queues: equal keys, equal places.
pub fn by_key(key: &str, queues: usize) -> usize {
    (i64::from(java_hash(key)).unsigned_abs() % queues.max(1) as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queues() -> Vec<MessageQueue> {
        let queue =
            |(broker, queue_id): (&str, i32)| MessageQueue { topic: "T".into(), broker_name: broker.into(), queue_id };
        ["a", "b"].into_iter().flat_map(|broker| (0..4).map(move |id| (broker, id))).map(queue).collect()
    }

    /// PRO-8: the same queue again and again; PRO-2: the counter overflowed after 2^31 sends.
    #[test]
    fn pro_2_pro_8_queues_take_turns_across_the_counters_end() {
        let (queues, latency) = (queues(), LatencyTable::default());
        for start in [0, i32::MAX as u32 - 1, u32::MAX - 300] {
            let (mut robin, mut counts) = (RoundRobin::starting_at(start), [0; 8]);
            for _ in 0..800 {
                let picked = robin.pick(&queues, None, &latency, Duration::ZERO).unwrap();
                counts[queues.iter().position(|queue| queue == picked).unwrap()] += 1;
            }
            assert_eq!(counts, [100; 8], "from {start}");
        }
    }

    #[test]
    fn a_retry_goes_to_another_broker_even_to_a_slow_one() {
        let (queues, mut latency, now) = (queues(), LatencyTable::default(), Duration::ZERO);
        let mut robin = RoundRobin::default();
        for _ in 0..20 {
            assert_eq!(robin.pick(&queues, Some("a"), &latency, now).unwrap().broker_name, "b");
        }
        latency.on_failure("b", now);
        for _ in 0..20 {
            assert_eq!(robin.pick(&queues, Some("a"), &latency, now).unwrap().broker_name, "b");
            assert_eq!(robin.pick(&queues, None, &latency, now).unwrap().broker_name, "a");
        }
        assert_eq!(robin.pick(&queues[..4], Some("a"), &latency, now).unwrap().broker_name, "a", "there is no other");
        assert_eq!(robin.pick(&[], None, &latency, now), None);
    }

    #[test]
    fn keys_keep_their_place() {
        assert_eq!(by_key("order-17", 8), by_key("order-17", 8));
        assert!(by_key("polygenelubricants", 8) < 8, "its hash is the smallest number");
        assert_eq!(by_key("a", 0), 0);
    }
}
