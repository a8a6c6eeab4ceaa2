//! Searching a queue whose numbers may have holes.

use std::io;

use super::QueueEntry;

/// What a search learns from one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Probe {
    /// The wanted one comes later.
    Before,
    /// This one, or an earlier one.
    Reached,
    /// Nothing is known here: a filler, or a record that cannot be read.
    Hole,
}

/// The first number in `low..high` that is [`Probe::Reached`]; `high` if there is none. A hole counts as what follows
/// it, so that it never hides what lies before.
pub(crate) fn first_reached<E>(
    mut low: u64,
    mut high: u64,
    mut probe: impl FnMut(u64) -> Result<Probe, E>,
) -> Result<u64, E> {
    let mut reached = high;
    while low < high {
        let middle = low + (high - low) / 2;
        let mut at = middle;
        let found = loop {
            if at == high {
                break Probe::Reached;
            }
            match probe(at)? {
                Probe::Hole => at += 1,
                found => break found,
            }
        };
        if found == Probe::Before {
            low = at + 1;
        } else {
            if at < high {
                reached = at;
            }
            high = middle;
        }
    }
    Ok(reached)
}

/// The first number in `low..high` whose record lies at or above `log_min`; `high` if there is none.
pub(crate) fn first_living(
    low: u64,
    high: u64,
    log_min: u64,
    mut entry: impl FnMut(u64) -> io::Result<Option<QueueEntry>>,
) -> io::Result<u64> {
    let mut probe = |at| {
        Ok(match entry(at)? {
            Some(entry) if entry.is_filler() => Probe::Hole,
            Some(entry) if entry.physical.0 < log_min => Probe::Before,
            Some(_) => Probe::Reached,
            None => Probe::Hole,
        })
    };
    // Mostly nothing has changed.
    if low < high && probe(low)? == Probe::Reached {
        return Ok(low);
    }
    first_reached(low, high, probe)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    /// `b`efore, `r`eached, `.` hole.
    fn search(queue: &str) -> u64 {
        let probe = |at: u64| match queue.as_bytes()[at as usize] {
            b'b' => Probe::Before,
            b'r' => Probe::Reached,
            _ => Probe::Hole,
        };
        first_reached(0, queue.len() as u64, |at| Ok::<_, Infallible>(probe(at))).unwrap()
    }

    #[test]
    fn finds_the_first() {
        for (queue, first) in [("", 0), ("b", 1), ("r", 0), ("bbrr", 2), ("bbbb", 4), ("rrrr", 0), ("brrrrrr", 1)] {
            assert_eq!(search(queue), first, "{queue}");
        }
    }

    #[test]
    fn holes_hide_nothing() {
        let cases = [("....", 4), ("..rr", 2), ("b..r", 3), ("br....", 1), ("rr..rr", 0), ("bb....", 6), (".b.r.", 3)];
        for (queue, first) in cases {
            assert_eq!(search(queue), first, "{queue}");
        }
    }
}
