//! What to delete and whether to write, decided once per pass.

use std::path::{Path, PathBuf};

use super::policy::RetentionPolicy;
use crate::env::{Millis, Space};
use crate::proto::PhysicalOffset;

/// Passes for which one manual request to delete expired segments holds.
const MANUAL_PASSES: u32 = 20;

/// A commit-log segment as seen by [`DiskGuard::on_pass`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Log position of its first byte.
    pub base: PhysicalOffset,
    /// Bytes it occupies.
    pub len: u64,
    /// Last change of the file: what its age is counted from.
    pub modified: Millis,
}

/// What the caller saw on the disk.
#[derive(Clone, Copy, Debug)]
pub struct Observation<'a> {
    /// Wall-clock time.
    pub now: Millis,
    /// Local hour, 0 to 23; [`super::local_hour`] makes it.
    pub local_hour: u8,
    /// Partition of the commit log; `None` if the disk would not say.
    pub log: Option<Space>,
    /// Partition of the consume queues; `None` if the disk would not say.
    pub queues: Option<Space>,
    /// Whether a disk refused the space for a segment since the last pass, however full it says it is: a quota may be
    /// used up.
    pub no_space: bool,
    /// Segments, oldest first, up to the one that is being written; files prepared behind it are not in the list.
    pub segments: &'a [Segment],
}

/// Why writes are refused; its text is the remark that clients get.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DiskRefusal {
    /// The partition is fuller than allowed.
    #[error(
        "the disk of {} is {used_percent}% full: writes stop above {limit_percent}% (diskSpaceWarningLevelRatio) and \
         resume at {resume_percent}%", directory.display()
    )]
    TooFull {
        /// The directory whose partition is full.
        directory: PathBuf,
        /// Usage in percent, rounded up.
        used_percent: u8,
        /// The limit that was passed.
        limit_percent: u8,
        /// Usage at which writes are taken again.
        resume_percent: u8,
    },
}

/// Why segments go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeleteReason {
    /// They expired and it is the hour for it.
    Hour,
    /// They expired and an operator asked.
    Manual,
    /// They expired and the disk is fuller than `diskMaxUsedSpaceRatio`, or has no space for a segment.
    Space,
    /// The disk is so full that segments go before they expire.
    Forced,
}

/// What the store has to do after a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RetentionEffect {
    /// Refuse writes from now on; reads, deliveries and building of queues go on.
    StopWrites(DiskRefusal),
    /// Take writes again.
    ResumeWrites,
    /// Delete the first `count` segments, oldest first. If one cannot be deleted, stop there: only a prefix may go.
    ///
    /// Consequences for the store, in this order, for the `min` that was really reached:
    /// 1. The log's minimum becomes `min`; positions below it no longer exist.
    /// 2. The minimum of every queue becomes its first entry at or above `min`; a queue without one is empty but keeps
    ///    its offsets (minimum = maximum), so the next message does not start at 0 again.
    /// 3. Queue files whose last entry lies below `min` go, except the last file of a queue.
    /// 4. Index files that end below `min` go, except the newest.
    DeleteSegments {
        /// How many, counted from the oldest.
        count: usize,
        /// Base of the first segment that stays.
        min: PhysicalOffset,
        /// Why, for the log line.
        reason: DeleteReason,
    },
}

/// Watches the disk. INV-RET-1: only a prefix of the segments is ever deleted, and never the last one.
#[derive(Debug)]
pub struct DiskGuard {
    policy: RetentionPolicy,
    log_directory: PathBuf,
    queue_directory: PathBuf,
    refusal: Option<DiskRefusal>,
    manual_passes: u32,
}

/// Usage of a partition in whole percents, rounded up; `None` for a partition without a size.
pub fn used_percent(space: Space) -> Option<u8> {
    let used = u128::from(space.total.saturating_sub(space.available));
    let percent = (used * 100).div_ceil(u128::from(space.total).max(1));
    (space.total > 0).then_some(percent.min(100) as u8)
}

impl DiskGuard {
    /// A guard that takes writes until its first pass says otherwise.
    pub fn new(policy: RetentionPolicy, log_directory: PathBuf, queue_directory: PathBuf) -> DiskGuard {
        DiskGuard { policy, log_directory, queue_directory, refusal: None, manual_passes: 0 }
    }

    /// Goes by other settings from the next pass on.
    pub fn set_policy(&mut self, policy: RetentionPolicy) {
        self.policy = policy;
    }

    /// Why writes are refused now, if they are.
    pub fn refusal(&self) -> Option<&DiskRefusal> {
        self.refusal.as_ref()
    }

    /// An operator asked to delete expired segments now; holds for the next 20 passes.
    pub fn request_deletion(&mut self) {
        self.manual_passes = MANUAL_PASSES;
    }

    /// One pass: first whether writes are taken, then what to delete.
    pub fn on_pass(&mut self, seen: &Observation<'_>, out: &mut Vec<RetentionEffect>) {
        self.decide_writes(seen, out);
        let manual = self.manual_passes > 0;
        self.manual_passes = self.manual_passes.saturating_sub(1);
        let above =
            |limit: u8| [seen.log, seen.queues].into_iter().flatten().filter_map(used_percent).any(|used| used > limit);
        let reason = if self.policy.clean_forcibly && above(self.policy.resume_percent()) {
            DeleteReason::Forced
        } else if seen.no_space || above(self.policy.max_used_percent) {
            DeleteReason::Space
        } else if manual {
            DeleteReason::Manual
        } else if self.policy.deletes_in(seen.local_hour) {
            DeleteReason::Hour
        } else {
            return;
        };
        let count = self.deletable(seen, reason);
        if count > 0 {
            out.push(RetentionEffect::DeleteSegments { count, min: seen.segments[count].base, reason });
        }
    }

    fn decide_writes(&mut self, seen: &Observation<'_>, out: &mut Vec<RetentionEffect>) {
        let limit_percent = self.policy.warning_percent;
        let resume_percent = self.policy.resume_percent();
        let partitions = [(seen.log, &self.log_directory), (seen.queues, &self.queue_directory)];
        let fullest = partitions
            .into_iter()
            .filter_map(|(space, directory)| Some((used_percent(space?)?, directory)))
            .reduce(|fullest, other| if other.0 > fullest.0 { other } else { fullest });
        let Some((used_percent, directory)) = fullest else { return };
        let too_full = |directory: &Path| DiskRefusal::TooFull {
            directory: directory.to_path_buf(),
            used_percent,
            limit_percent,
            resume_percent,
        };
        if used_percent > limit_percent {
            let refusal = too_full(directory);
            if self.refusal.replace(refusal.clone()).is_none() {
                out.push(RetentionEffect::StopWrites(refusal));
            }
        } else if used_percent <= resume_percent {
            if self.refusal.take().is_some() {
                out.push(RetentionEffect::ResumeWrites);
            }
        } else if self.refusal.is_some() {
            // Between the two limits writes stay as they are; the remark tells today's usage.
            self.refusal = Some(too_full(directory));
        }
    }

    /// How many segments of the front go. Expired ones up to the batch limit; when forced, younger ones too, but no
    /// more than brings the fullest partition down to where forced cleaning ends: what is deleted young is lost to
    /// groups that have not read it.
    fn deletable(&self, seen: &Observation<'_>, reason: DeleteReason) -> usize {
        let mut wanted = match reason {
            DeleteReason::Forced => self.bytes_over(seen),
            _ => 0,
        };
        let most = seen.segments.len().saturating_sub(1).min(self.policy.delete_batch_max);
        let mut count = 0;
        for segment in &seen.segments[..most] {
            let expired = segment.modified.plus(self.policy.reserved_ms) <= seen.now;
            if !expired && wanted == 0 {
                break;
            }
            wanted = wanted.saturating_sub(segment.len);
            count += 1;
        }
        count
    }

    fn bytes_over(&self, seen: &Observation<'_>) -> u64 {
        let allowed = |total: u64| total / 100 * u64::from(self.policy.resume_percent());
        let over = |space: Space| space.total.saturating_sub(space.available).saturating_sub(allowed(space.total));
        [seen.log, seen.queues].into_iter().flatten().map(over).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::RetentionSettings;
    use super::*;

    const HOUR_MS: i64 = 3_600_000;
    const NOW: Millis = Millis(1_700_000_000_000);
    const LEN: u64 = 1000;

    fn guard(settings: RetentionSettings) -> DiskGuard {
        let policy = RetentionPolicy::new(&settings, &mut Vec::new());
        DiskGuard::new(policy, "/data/commitlog".into(), "/data/consumequeue".into())
    }

    /// Segments of these ages in hours, oldest position first.
    fn segments(ages: &[i64]) -> Vec<Segment> {
        let segment = |(number, age): (usize, &i64)| Segment {
            base: PhysicalOffset(number as u64 * LEN),
            len: LEN,
            modified: NOW.plus(-age * HOUR_MS),
        };
        ages.iter().enumerate().map(segment).collect()
    }

    fn pass(guard: &mut DiskGuard, used: u64, hour: u8, segments: &[Segment]) -> Vec<RetentionEffect> {
        let space = Some(Space { total: 100_000, available: 100_000 - used * 1000 });
        let mut out = Vec::new();
        let seen = Observation { now: NOW, local_hour: hour, log: space, queues: space, no_space: false, segments };
        guard.on_pass(&seen, &mut out);
        out
    }

    fn delete(count: usize, reason: DeleteReason) -> RetentionEffect {
        RetentionEffect::DeleteSegments { count, min: PhysicalOffset(count as u64 * LEN), reason }
    }

    #[test]
    fn expired_segments_go_in_their_hour_only() {
        let mut guard = guard(RetentionSettings::default());
        let segments = segments(&[100, 73, 72, 71, 1]);
        assert_eq!(pass(&mut guard, 50, 3, &segments), []);
        assert_eq!(pass(&mut guard, 50, 4, &segments), [delete(3, DeleteReason::Hour)]);
        assert_eq!(pass(&mut guard, 76, 3, &segments), [delete(3, DeleteReason::Space)]);
        assert_eq!(pass(&mut guard, 75, 3, &segments), []);
    }

    /// DSK-2: cleaning removed a segment from the middle of the log.
    #[test]
    fn dsk_2_only_a_prefix_goes() {
        let mut guard = guard(RetentionSettings::default());
        assert_eq!(pass(&mut guard, 50, 4, &segments(&[1, 100, 100, 100, 0])), []);
    }

    #[test]
    fn the_last_segment_stays_and_a_pass_has_a_limit() {
        let mut guard = guard(RetentionSettings::default());
        assert_eq!(pass(&mut guard, 95, 4, &segments(&[1000]))[1..], []);
        assert_eq!(pass(&mut guard, 50, 4, &[])[1..], [], "an empty store");
        assert_eq!(pass(&mut guard, 50, 4, &segments(&[100; 30])), [delete(10, DeleteReason::Hour)]);
    }

    #[test]
    fn a_manual_request_holds_for_twenty_passes() {
        let mut guard = guard(RetentionSettings::default());
        guard.request_deletion();
        for _ in 0..20 {
            assert_eq!(pass(&mut guard, 50, 3, &segments(&[100, 0])), [delete(1, DeleteReason::Manual)]);
        }
        assert_eq!(pass(&mut guard, 50, 3, &segments(&[100, 0])), []);
    }

    #[test]
    fn forced_cleaning_takes_young_segments_but_no_more_than_needed() {
        let mut cleaning = guard(RetentionSettings::default());
        let young = segments(&[3, 2, 2, 2, 1, 0]);
        assert_eq!(pass(&mut cleaning, 85, 3, &young), []);
        assert_eq!(pass(&mut cleaning, 87, 3, &young), [delete(2, DeleteReason::Forced)]);
        let mut keeping =
            guard(RetentionSettings { clean_file_forcibly_enable: false, ..RetentionSettings::default() });
        assert_eq!(pass(&mut keeping, 87, 3, &young), []);
    }

    /// DSK-1: after the disk had been full, the broker stayed unwritable for good though space was free again.
    #[test]
    fn dsk_1_writes_resume_when_there_is_room_again() {
        let mut guard = guard(RetentionSettings::default());
        let segments = segments(&[0]);
        assert!(matches!(pass(&mut guard, 91, 3, &segments)[..], [RetentionEffect::StopWrites(_)]));
        assert_eq!(pass(&mut guard, 92, 3, &segments), [], "told once");
        assert_eq!(pass(&mut guard, 88, 3, &segments), [], "between the limits nothing changes");
        assert!(guard.refusal().is_some());
        assert_eq!(pass(&mut guard, 50, 3, &segments), [RetentionEffect::ResumeWrites]);
        assert_eq!(guard.refusal(), None);
        assert_eq!(pass(&mut guard, 88, 3, &segments), []);
        assert_eq!(guard.refusal(), None);
    }

    /// DSK-3: the answer names the limit that was hit and the directory.
    #[test]
    fn dsk_3_the_refusal_names_limit_and_directory() {
        let mut guard = guard(RetentionSettings { disk_max_used_space_ratio: 99, ..RetentionSettings::default() });
        pass(&mut guard, 92, 3, &segments(&[0]));
        assert_eq!(
            guard.refusal().map(ToString::to_string).as_deref(),
            Some(
                "the disk of /data/commitlog is 92% full: writes stop above 90% (diskSpaceWarningLevelRatio) and \
                 resume at 85%"
            )
        );
    }

    #[test]
    fn the_queues_disk_counts_too() {
        let mut guard = guard(RetentionSettings::default());
        let mut out = Vec::new();
        let log = Some(Space { total: 100, available: 50 });
        let queues = Some(Space { total: 1000, available: 99 });
        let segments = segments(&[0, 0]);
        let seen = Observation { now: NOW, local_hour: 0, log, queues, no_space: false, segments: &segments };
        guard.on_pass(&seen, &mut out);
        assert!(
            matches!(&out[0], RetentionEffect::StopWrites(DiskRefusal::TooFull { directory, used_percent: 91, .. })
            if directory == Path::new("/data/consumequeue"))
        );
        assert_eq!(out[1..], [delete(1, DeleteReason::Forced)]);
    }

    #[test]
    fn no_space_for_a_segment_deletes_what_has_expired() {
        let mut guard = guard(RetentionSettings::default());
        let mut out = Vec::new();
        let space = Some(Space { total: 100, available: 40 });
        let segments = segments(&[100, 0, 0]);
        let seen =
            Observation { now: NOW, local_hour: 3, log: space, queues: space, no_space: true, segments: &segments };
        guard.on_pass(&seen, &mut out);
        assert_eq!(out, [delete(1, DeleteReason::Space)], "and nothing younger");
        assert_eq!(pass(&mut guard, 60, 3, &segments), []);
    }

    #[test]
    fn a_silent_disk_changes_nothing() {
        let mut guard = guard(RetentionSettings::default());
        let mut out = Vec::new();
        let none = Space { total: 0, available: 0 };
        let segments = segments(&[100, 0]);
        let queues = Some(none);
        let seen = Observation { now: NOW, local_hour: 0, log: None, queues, no_space: false, segments: &segments };
        guard.on_pass(&seen, &mut out);
        assert_eq!(out, []);
        assert_eq!(used_percent(Space { total: 1000, available: 99 }), Some(91), "rounded up");
    }
}
