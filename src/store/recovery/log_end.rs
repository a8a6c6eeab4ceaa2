//! Reading the log to its end, giving every record to its queue on the way.

use std::io;

use super::plan::{Exit, Plan};
use super::queues::{QueueReplay, Replays};
use super::report::Repair;
use super::scan::{Bad, Scanner, Stop};
use super::Recovery;
use crate::env::{Canary, Millis};
use crate::proto::message::record::{BodyCrc, RecordView};
use crate::proto::PhysicalOffset;
use crate::store::derive;

/// Where the log ends.
pub(super) struct LogEnd {
    pub at: u64,
    /// Whether something other than zeros follows.
    pub dirty: bool,
    /// Records read on the way.
    pub records: u64,
    /// Where the last one begins and when it was stored; `None` if none was read.
    pub last: Option<(u64, Millis)>,
    /// From here on no sync is known to have covered the log; `None` if one covered all of it.
    pub unsynced_from: Option<u64>,
}

/// Walks over the log as `plan` says.
pub(super) fn read(
    recovery: &Recovery<'_>,
    plan: &Plan,
    replays: &mut Replays,
    repairs: &mut Vec<Repair>,
) -> io::Result<LogEnd> {
    let mut end = LogEnd { at: plan.read_from, dirty: false, records: 0, last: None, unsynced_from: None };
    let trusting = recovery.env.canary(Canary::TrustFileLength);
    let verify_from = if trusting || recovery.env.canary(Canary::SkipChecksums) { u64::MAX } else { plan.verify_from };
    loop {
        let blind = recovery.env.canary(Canary::TornPropertiesKept);
        let stop = Scanner::new(&recovery.segments).blind_to_tears(blind).walk(end.at, verify_from, |at, record| {
            end.records += 1;
            end.last = Some((at, record.store_timestamp()));
            // One of the same millisecond may have come after the sync.
            if end.unsynced_from.is_none() && record.store_timestamp() >= recovery.checkpoint.physic_msg_timestamp {
                end.unsynced_from = Some(at);
            }
            give(recovery, replays, at, record)
        })?;
        match stop {
            Stop::EndOfFiles { at } => {
                end.at = at;
                return Ok(end);
            }
            Stop::Bad { at, .. } if trusting => {
                end.at = recovery.segments.last().map_or(at, |last| last.end());
                return Ok(end);
            }
            Stop::Bad { at, bad } => match resume(recovery, plan, at, &bad)? {
                Some(resumed) => {
                    let (at, resumed) = (PhysicalOffset(at), PhysicalOffset(resumed));
                    repairs.push(Repair::Damage { at, resumed, what: bad.to_string() });
                    end.at = resumed.0;
                }
                None => {
                    end.at = at;
                    if !matches!(bad, Bad::Unwritten) {
                        end.dirty = true;
                        repairs.push(Repair::TailCut { at: PhysicalOffset(at), what: bad.to_string() });
                    }
                    return Ok(end);
                }
            },
        }
    }
}

/// Gives a record to its queue.
fn give(recovery: &Recovery<'_>, replays: &mut Replays, at: u64, record: &RecordView<'_>) -> io::Result<()> {
    let levels = &recovery.options.delay_levels;
    let Some(entry) = derive::entry_of(record, PhysicalOffset(at), levels) else { return Ok(()) };
    let (topic, Ok(id)) = (record.topic(), u32::try_from(record.queue_id())) else { return Ok(()) };
    let number = record.queue_offset().0;
    // No queue can be that long; such a number would only make the files explode.
    if number > i64::MAX as u64 / 20 {
        return Ok(());
    }
    let replay = match replays.get(&topic, id) {
        Some(replay) => replay,
        None => {
            let born_at = recovery.deleted.of(&topic);
            if at < born_at || !crate::store::paths::is_directory_name(&topic) {
                return Ok(());
            }
            let queue = recovery.queues.get_or_create(&topic, id).map_err(io::Error::other)?;
            replays.insert(QueueReplay::find(queue, &recovery.files, recovery.exit, born_at)?)
        }
    };
    replay.on_record(&recovery.files, number, &entry)
}

/// Where to read on behind a bad record at `at`, if it is damage to something that was synced once; `None` if the log
/// ends there, because a crash came before it was complete.
fn resume(recovery: &Recovery<'_>, plan: &Plan, at: u64, bad: &Bad) -> io::Result<Option<u64>> {
    let next_segment = recovery.segments.find(at).map_or(at, |segment| segment.end());
    if at < plan.verify_from {
        return Ok(Some(plan.verify_from.min(next_segment)));
    }
    // A record of the checkpoint's time may have come right behind the sync that the checkpoint tells of. One before
    // that time was synced, and so was everything before it; after a clean exit all is.
    let is_synced = |first: &RecordView<'_>| {
        recovery.exit == Exit::Clean || first.store_timestamp() < recovery.checkpoint.physic_msg_timestamp
    };
    let mut scanner = Scanner::new(&recovery.segments);
    // Damage is never all zeros.
    if !matches!(bad, Bad::Unwritten) {
        let next = scanner.next_record(at)?;
        if next < next_segment {
            let record = scanner.record_at(next, BodyCrc::Verify)?;
            return Ok(record.is_some_and(|record| is_synced(&record)).then_some(next));
        }
    }
    let Some(first) = scanner.record_at(next_segment, BodyCrc::Verify)? else { return Ok(None) };
    Ok(is_synced(&first).then_some(next_segment))
}
