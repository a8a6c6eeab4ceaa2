//! Several queues read as one, oldest messages first.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;

use super::Range;
use crate::cli::fail::Failure;
use crate::client::{MessageQueue, Position, PullConsumer, Received};

/// How long one look for messages waits; others follow.
const POLL: Duration = Duration::from_millis(100);
/// After so many looks in vain, half a minute, nothing comes any more.
const IDLE_MAX: u32 = 300;

/// Parts of queues, merged by the time their messages were stored. Of each queue a few messages are held; one of which
/// some are here is paused until they are gone.
pub struct Merge {
    queues: BTreeMap<MessageQueue, Waiting>,
    /// Messages behind the parts' ends that came with the last ones before.
    behind: Vec<Arc<Received>>,
}

struct Waiting {
    end: i64,
    messages: VecDeque<Arc<Received>>,
    paused: bool,
}

impl Merge {
    /// Goes to where the parts begin.
    pub async fn start(reader: &mut PullConsumer, ranges: Vec<Range>) -> Result<Merge> {
        let mut queues = BTreeMap::new();
        for range in ranges {
            reader.seek(&range.queue, Position::Offset(range.from)).await?;
            queues.insert(range.queue, Waiting { end: range.to, messages: VecDeque::new(), paused: false });
        }
        Ok(Merge { queues, behind: Vec::new() })
    }

    /// The next message; `None` at the end of all parts.
    pub async fn next(&mut self, reader: &mut PullConsumer) -> Result<Option<Arc<Received>>> {
        let (mut idle, mut progress) = (0, 0);
        while !self.is_ready(reader) {
            for message in reader.poll(POLL).await? {
                match self.queues.get_mut(&message.queue) {
                    Some(waiting) if message.offset < waiting.end => waiting.messages.push_back(message),
                    _ => self.behind.push(message),
                }
            }
            let now: i64 = reader.positions().iter().map(|(_, position)| position).sum();
            idle = if now == progress { idle + 1 } else { 0 };
            progress = now;
            if idle > IDLE_MAX {
                let failure = Failure::unreachable("messages that should be there do not come");
                return Err(failure.hint("`metaq cluster health` shows which brokers answer").into());
            }
            for (queue, waiting) in &mut self.queues {
                let pause = !waiting.messages.is_empty();
                if pause != waiting.paused {
                    waiting.paused = pause;
                    let queue = std::slice::from_ref(queue);
                    if pause {
                        reader.pause(queue);
                    } else {
                        reader.resume(queue);
                    }
                }
            }
        }
        // Of one broker, the place in the log tells which of one millisecond came first.
        let first = |waiting: &&mut Waiting| {
            waiting.messages.front().map(|message| (message.stored_at, message.physical_offset))
        };
        let oldest = self.queues.values_mut().filter(|waiting| !waiting.messages.is_empty()).min_by_key(first);
        let next = oldest.and_then(|waiting| waiting.messages.pop_front());
        if next.is_none() {
            let all: Vec<_> = self.queues.keys().cloned().collect();
            reader.resume(&all);
        }
        Ok(next)
    }

    /// Messages that came from behind the ends.
    pub fn behind(self) -> Vec<Arc<Received>> {
        self.behind
    }

    /// Whether of each queue the next message is here, or its part has no more.
    fn is_ready(&self, reader: &PullConsumer) -> bool {
        let mut lacking = self.queues.iter().filter(|(_, waiting)| waiting.messages.is_empty()).peekable();
        if lacking.peek().is_none() {
            return true;
        }
        let positions: BTreeMap<_, _> = reader.positions().into_iter().collect();
        lacking.all(|(queue, waiting)| positions.get(queue).is_none_or(|position| *position >= waiting.end))
    }
}
