//! What recovery reads, decided from what it found: one row, one test.

/// How the store was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It was closed: everything was synced and the marker removed.
    Clean,
    /// The process ended, the machine stopped, or closing was not finished.
    Unclean,
}

/// What was found before any record was read. Positions are in the commit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    pub exit: Exit,
    /// Start of the log.
    pub log_min: u64,
    /// Start of its last segment.
    pub last_segment: u64,
    /// Every record below is in the queues' files, says the queue table; `None` without a table of this log.
    pub table: Option<u64>,
    /// A queue has lost files or entries; those up to this position are still there.
    pub short_queue: Option<u64>,
    /// The newest segment whose first record is older than everything the checkpoint vouches for; only asked for without
    /// a table.
    pub checkpoint_segment: u64,
}

/// What to read and how carefully.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// Records from here on are read and get their queue entries.
    pub read_from: u64,
    /// From here on bodies are compared with their CRC, and the first bad record is the end of the log. Bad records
    /// before are damage: they were once synced, and what follows them stays.
    pub verify_from: u64,
}

/// The decision table.
///
/// | exit | queue table | a queue is short | reads from | verifies from |
/// |---|---|---|---|---|
/// | any | of this log | no | the table's log end | the same |
/// | any | of this log | yes | the end of what is left of it | the table's log end |
/// | clean | none | any | the log's start | the last segment |
/// | unclean | none | any | the log's start | the segment the checkpoint vouches for |
///
/// A clean exit leaves a table whose log end is the log's end, so that nothing is read. An unclean one leaves what was
/// written since the last save of the table. Without a table, as in the store of a Java broker, nothing else tells
/// whether a queue's directory or tail is missing than the log itself.
pub(super) fn decide(facts: &Facts) -> Plan {
    match (facts.table, facts.exit) {
        (Some(log_end), _) => {
            let read_from = facts.short_queue.map_or(log_end, |end| end.clamp(facts.log_min, log_end));
            Plan { read_from, verify_from: log_end }
        }
        (None, Exit::Clean) => Plan { read_from: facts.log_min, verify_from: facts.last_segment },
        (None, Exit::Unclean) => Plan { read_from: facts.log_min, verify_from: facts.checkpoint_segment },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACTS: Facts = Facts {
        exit: Exit::Clean,
        log_min: 1000,
        last_segment: 5000,
        table: Some(5500),
        short_queue: None,
        checkpoint_segment: 4000,
    };

    #[track_caller]
    fn check(facts: Facts, read_from: u64, verify_from: u64) {
        assert_eq!(decide(&facts), Plan { read_from, verify_from });
    }

    #[test]
    fn a_table_spares_reading_the_log() {
        check(FACTS, 5500, 5500);
        check(Facts { exit: Exit::Unclean, ..FACTS }, 5500, 5500);
    }

    #[test]
    fn a_short_queue_is_made_again_from_where_it_ends() {
        check(Facts { short_queue: Some(3000), ..FACTS }, 3000, 5500);
        check(Facts { short_queue: Some(0), exit: Exit::Unclean, ..FACTS }, 1000, 5500);
        check(Facts { short_queue: Some(9000), ..FACTS }, 5500, 5500);
    }

    #[test]
    fn without_a_table_the_whole_log_is_read() {
        check(Facts { table: None, ..FACTS }, 1000, 5000);
        check(Facts { table: None, short_queue: Some(3000), ..FACTS }, 1000, 5000);
        check(Facts { table: None, exit: Exit::Unclean, ..FACTS }, 1000, 4000);
    }
}
