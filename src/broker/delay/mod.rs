//! Delay levels: messages that wait in `SCHEDULE_TOPIC_XXXX`, one queue per level, until they are due.

mod due;
mod scheduler;
mod snapshot;
#[cfg(test)]
mod tests;

pub use due::{due_message, real_destination, DueError, DueMessage};
pub use scheduler::{DelayEntry, DelayScheduler, Due, Now, QueueRange, BATCH_MAX};
pub use snapshot::saved_progress;
