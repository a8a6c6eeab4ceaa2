//! Messages of one queue that were pulled and are not consumed yet.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::client::message::Received;

/// How much of a queue may be held here. One more batch may be on its way when a limit is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Messages.
    pub count: usize,
    /// Bytes of their records.
    pub bytes: usize,
    /// Offsets between the first and the last; does not count where messages are consumed in order.
    pub span: Option<i64>,
}

/// See the module's text. Its first `taken` messages are with the application.
#[derive(Debug, Default)]
pub struct ProcessQueue {
    messages: BTreeMap<i64, Arc<Received>>,
    bytes: usize,
    /// Where the next pull begins: everything before is here, or consumed, or was not wanted.
    pulled_to: i64,
    taken: usize,
}

impl ProcessQueue {
    /// An empty queue that is pulled from `start` on.
    pub fn starting_at(start: i64) -> ProcessQueue {
        ProcessQueue { pulled_to: start, ..ProcessQueue::default() }
    }

    /// A pull brought `messages` and goes on at `next`. Messages from before where this queue stands are ignored.
    pub fn put(&mut self, messages: impl IntoIterator<Item = Arc<Received>>, next: i64) {
        for message in messages {
            if message.offset >= self.pulled_to {
                self.bytes += message.size;
                self.messages.insert(message.offset, message);
            }
        }
        self.pulled_to = self.pulled_to.max(next);
    }

    /// Where the next pull begins.
    pub fn pulled_to(&self) -> i64 {
        self.pulled_to
    }

    /// A message is consumed.
    pub fn done(&mut self, offset: i64) {
        if let Some(message) = self.messages.remove(&offset) {
            self.bytes -= message.size;
        }
    }

    /// The offset to commit: all before it are consumed.
    pub fn progress(&self) -> i64 {
        self.messages.first_key_value().map_or(self.pulled_to, |(offset, _)| *offset)
    }

    /// Whether no more should be pulled for now.
    pub fn is_full(&self, limits: &Limits) -> bool {
        let span = match (self.messages.first_key_value(), self.messages.last_key_value()) {
            (Some((first, _)), Some((last, _))) => last - first,
            _ => 0,
        };
        self.messages.len() > limits.count || self.bytes > limits.bytes || limits.span.is_some_and(|limit| span > limit)
    }

    /// Gives the application the next `max` messages in order.
    pub fn take(&mut self, max: usize) -> Vec<Arc<Received>> {
        let next: Vec<_> = self.messages.values().skip(self.taken).take(max).cloned().collect();
        self.taken += next.len();
        next
    }

    /// The application has consumed what it took.
    pub fn taken_done(&mut self) {
        for _ in 0..std::mem::take(&mut self.taken) {
            if let Some((_, message)) = self.messages.pop_first() {
                self.bytes -= message.size;
            }
        }
    }

    /// The application failed to consume what it took: the same messages come next.
    pub fn put_back(&mut self) {
        for message in self.messages.values_mut().take(std::mem::take(&mut self.taken)) {
            Arc::make_mut(message).reconsume_times += 1;
        }
    }

    /// Whether there is a message the application has not taken.
    pub fn has_more(&self) -> bool {
        self.messages.len() > self.taken
    }

    /// The offset that the application gets next, or that is waited for.
    pub fn position(&self) -> i64 {
        self.messages.keys().nth(self.taken).copied().unwrap_or(self.pulled_to)
    }

    /// Messages held.
    pub fn count(&self) -> usize {
        self.messages.len()
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// First and last offset held.
    pub fn ends(&self) -> Option<(i64, i64)> {
        Some((*self.messages.first_key_value()?.0, *self.messages.last_key_value()?.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Millis;

    fn message(offset: i64) -> Arc<Received> {
        Arc::new(Received {
            topic: "T".into(),
            queue: Arc::default(),
            offset,
            body: Vec::new(),
            body_error: None,
            properties: String::new(),
            reconsume_times: 0,
            born_at: Millis(0),
            stored_at: Millis(0),
            born_host: "127.0.0.1:1".parse().unwrap(),
            store_host: "127.0.0.1:1".parse().unwrap(),
            physical_offset: 0,
            flag: 0,
            sys_flag: 0,
            size: 100,
        })
    }

    fn offsets(messages: &[Arc<Received>]) -> Vec<i64> {
        messages.iter().map(|message| message.offset).collect()
    }

    #[test]
    fn progress_is_the_first_message_not_consumed() {
        let mut queue = ProcessQueue::starting_at(5);
        assert_eq!(queue.progress(), 5);
        queue.put([5, 6, 7].map(message), 9);
        queue.done(6);
        assert_eq!(queue.progress(), 5, "5 is not done");
        queue.done(5);
        assert_eq!(queue.progress(), 7);
        queue.done(7);
        assert_eq!((queue.progress(), queue.bytes(), queue.count()), (9, 0, 0), "8 was not wanted");
        queue.put([], 20);
        assert_eq!(queue.progress(), 20, "SUB-2: what is filtered away counts as consumed");
        queue.put([8, 20].map(message), 21);
        assert_eq!(offsets(&queue.take(9)), [20], "an answer from before changes nothing");
    }

    #[test]
    fn flow_is_controlled_by_count_bytes_and_span() {
        let limits = |count, bytes, span| Limits { count, bytes, span };
        let mut queue = ProcessQueue::starting_at(0);
        queue.put([0, 1, 50].map(message), 51);
        for (limits, full) in [
            (limits(3, 300, Some(50)), false),
            (limits(2, 300, Some(50)), true),
            (limits(3, 299, Some(50)), true),
            (limits(3, 300, Some(49)), true),
            (limits(3, 300, None), false),
        ] {
            assert_eq!(queue.is_full(&limits), full, "{limits:?}");
        }
    }

    #[test]
    fn what_is_taken_is_done_or_comes_again() {
        let mut queue = ProcessQueue::starting_at(0);
        queue.put([0, 1, 2].map(message), 3);
        assert_eq!(offsets(&queue.take(2)), [0, 1]);
        assert!(queue.has_more());
        assert_eq!(queue.progress(), 0);
        queue.put_back();
        let again = queue.take(2);
        assert_eq!((offsets(&again), again[0].reconsume_times), (vec![0, 1], 1));
        queue.taken_done();
        assert_eq!(queue.progress(), 2);
        assert_eq!(offsets(&queue.take(9)), [2]);
        assert!(!queue.has_more());
        queue.taken_done();
        assert_eq!((queue.progress(), queue.bytes()), (3, 0));
    }
}
