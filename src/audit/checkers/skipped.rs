//! Consumers skip nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Violation;
use crate::audit::history::{Event, Queue};

const NAME: &str = "consumers skip nothing";

/// A group reads a queue offset by offset, and begins anew no later than behind what it has got. At its first begin
/// there is nothing before.
///
/// Readers without a filter, and queues from which nothing is deleted.
pub fn nothing_skipped(history: &[Event]) -> Result<(), Violation> {
    let mut first: BTreeMap<&Queue, u64> = BTreeMap::new();
    for event in history {
        if let Event::Found(_, (queue, offset)) = event {
            let least = first.entry(queue).or_insert(*offset);
            *least = (*least).min(*offset);
        }
    }
    // Where the group may go on, and up to where it has got everything.
    let mut next: BTreeMap<(&Arc<str>, &Queue), (u64, u64)> = BTreeMap::new();
    for event in history {
        match event {
            Event::Began(group, (queue, offset)) => {
                let start = first.get(queue).copied().unwrap_or(0);
                let (at, got) = next.entry((group, queue)).or_insert((start, start));
                if *offset > *got {
                    return Err(skipped(group, queue, *got, *offset));
                }
                *at = *offset;
            }
            Event::Consumed(group, _, (queue, offset)) => {
                // A reader that never said where it began is not judged before its second message.
                let (at, got) = next.entry((group, queue)).or_insert((*offset, *offset));
                if *offset > *at {
                    return Err(skipped(group, queue, *at, *offset));
                }
                *at = *offset + 1;
                *got = (*got).max(*at);
            }
            _ => {}
        }
    }
    Ok(())
}

fn skipped(group: &str, queue: &Queue, from: u64, to: u64) -> Violation {
    Violation::new(NAME, format!("{group} goes from {from} to {to} in {queue}"))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{accepts, rejects, untimed};
    use super::*;

    #[test]
    fn rejects_gaps() {
        rejects(
            untimed(nothing_skipped),
            &[
                ("begin g q0:0, got g 1 q0:0, got g 3 q0:2", "one left out"),
                ("begin g q0:0, got g 1 q0:0, begin g q0:2, got g 3 q0:2", "began behind one it never got"),
                ("begin g q0:5, found 1 q0:0", "the first begin is late"),
                ("begin g q0:0, got g 2 q0:1", "the first message left out"),
                ("got g 1 q0:0, got g 2 q0:1, got g 9 q0:7", "a jump"),
                ("begin g q0:0, got g 1 q0:0, got h 1 q0:0, got h 2 q0:1, begin g q0:2", "another group got it"),
            ],
        );
    }

    #[test]
    fn accepts_readers() {
        accepts(
            untimed(nothing_skipped),
            &[
                ("", "nothing happened"),
                ("begin g q0:0, got g 1 q0:0, got g 2 q0:1", "one by one"),
                ("begin g q0:0, got g 1 q0:0, got g 2 q0:1, begin g q0:1, got g 2 q0:1, got g 3 q0:2", "again"),
                ("begin g q0:7, got g 1 q0:7, found 1 q0:7", "older ones are deleted"),
                ("begin g q0:0, begin g q1:0, got g 1 q1:0, got g 2 q0:0", "two queues"),
                ("got g 5 q0:5, got g 6 q0:6, begin g q0:0, got g 1 q0:0", "went back to the beginning"),
                ("begin g q0:0, got g 1 q0:0, got g 1 q0:0, got g 2 q0:1", "twice"),
            ],
        );
    }
}
