use std::collections::BTreeMap;

use super::*;
use crate::broker::{Effect, Report};
use crate::env::Millis;
use crate::proto::body::DataVersion;
use crate::proto::message::DelayLevels;
use crate::proto::{PhysicalOffset, QueueOffset};

const NONE: [u64; 0] = [];

fn entry(offset: u64, deliver_at: i64) -> DelayEntry {
    DelayEntry {
        offset: QueueOffset(offset),
        deliver_at: Millis(deliver_at),
        position: PhysicalOffset(offset * 100),
        size: 100,
    }
}

fn at(ms: i64) -> Now {
    Now { wall: Millis(ms), monotonic: Millis(ms) }
}

fn range(min: u64, max: u64) -> QueueRange {
    QueueRange { min: QueueOffset(min), max: QueueOffset(max) }
}

/// Level 3 (10 s) with `saved` progress in a queue that holds `held`.
fn level_3(saved: u64, held: QueueRange) -> (DelayScheduler, Vec<Effect>) {
    level_3_of(&DelayLevels::default(), saved, held)
}

fn level_3_of(table: &DelayLevels, saved: u64, held: QueueRange) -> (DelayScheduler, Vec<Effect>) {
    let mut out = Vec::new();
    let saved = (DataVersion::default(), BTreeMap::from([(3, QueueOffset(saved))]));
    let only = |level| (level == 3).then_some(held);
    (DelayScheduler::new(table, 200, saved, only, &mut out), out)
}

fn due_offsets(scheduler: &mut DelayScheduler, now: Now, held: QueueRange, entries: &[DelayEntry]) -> Vec<u64> {
    let Some(from) = scheduler.wants(3, now) else { return Vec::new() };
    let read: Vec<DelayEntry> = entries.iter().filter(|entry| entry.offset >= from).copied().collect();
    let mut due = Vec::new();
    scheduler.on_entries(3, now, held, &read, &mut due, &mut Vec::new());
    due.iter().map(|due| due.entry.offset.0).collect()
}

#[test]
fn messages_are_due_in_order_and_never_early() {
    let (mut scheduler, _) = level_3(0, range(0, 3));
    let entries = [entry(0, 10_000), entry(1, 10_001), entry(2, 12_000)];
    assert_eq!(due_offsets(&mut scheduler, at(9_999), range(0, 3), &entries), NONE);
    assert_eq!(scheduler.wants(3, at(9_999)), None, "it sleeps until the first is due");
    assert_eq!(due_offsets(&mut scheduler, at(10_000), range(0, 3), &entries), [0]);
    assert_eq!(scheduler.wants(3, at(20_000)), None, "one batch at a time");
    scheduler.on_delivered(3, QueueOffset(0));
    assert_eq!(due_offsets(&mut scheduler, at(12_000), range(0, 3), &entries), [1, 2]);
}

/// DLY-1: when delivering a due message failed, the retry began at the following entry.
#[test]
fn dly_1_a_failed_delivery_is_tried_again_and_nothing_else_is() {
    let (mut scheduler, _) = level_3(0, range(0, 3));
    let entries = [entry(0, 1), entry(1, 2), entry(2, 3)];
    assert_eq!(due_offsets(&mut scheduler, at(10), range(0, 3), &entries), [0, 1, 2]);
    scheduler.on_delivered(3, QueueOffset(0));
    scheduler.on_failed(3, QueueOffset(1), at(10));
    scheduler.on_delivered(3, QueueOffset(2));
    assert_eq!(scheduler.wants(3, at(109)), None);
    assert_eq!(due_offsets(&mut scheduler, at(110), range(0, 3), &entries), [1]);
    scheduler.on_delivered(3, QueueOffset(1));
    assert_eq!(due_offsets(&mut scheduler, at(300), range(0, 3), &entries), NONE);
    assert_eq!(scheduler.waiting(3, range(0, 3)), 0);
}

/// DLY-2: saved progress beyond the end of the queue: messages of that level never came.
#[test]
fn dly_2_progress_beyond_the_queue_is_corrected() {
    let (mut scheduler, out) = level_3(77, range(0, 74));
    let corrected = Report::DelayProgressCorrected { level: 3, saved: QueueOffset(77), corrected: QueueOffset(74) };
    assert_eq!(out, [Effect::Report(corrected)]);
    assert!(scheduler.take_dirty(), "the correction is saved");
    assert_eq!(due_offsets(&mut scheduler, at(5), range(0, 75), &[entry(74, 5)]), [74]);
    let (scheduler, _) = level_3(3, range(10, 20));
    assert_eq!(scheduler.wants(3, at(0)), Some(QueueOffset(10)), "below the beginning is the beginning");
}

/// DLY-3: a message was appended again and again while the store was not available.
#[test]
fn dly_3_attempts_are_bounded_by_growing_pauses() {
    let (mut scheduler, _) = level_3(0, range(0, 1));
    let mut attempts = Vec::new();
    for ms in 0..30_000 {
        for offset in due_offsets(&mut scheduler, at(ms), range(0, 1), &[entry(0, 0)]) {
            attempts.push(ms);
            match ms < 5_000 {
                true => scheduler.on_failed(3, QueueOffset(offset), at(ms)),
                false => scheduler.on_delivered(3, QueueOffset(offset)),
            }
        }
    }
    assert_eq!(attempts, [0, 100, 300, 700, 1500, 3100, 6300]);
}

#[test]
fn what_fails_together_has_one_pause() {
    let (mut scheduler, _) = level_3(0, range(0, 9));
    let entries: Vec<DelayEntry> = (0..9).map(|n| entry(n, 0)).collect();
    for failed_at in [0, 100, 300] {
        for offset in due_offsets(&mut scheduler, at(failed_at), range(0, 9), &entries) {
            scheduler.on_failed(3, QueueOffset(offset), at(failed_at));
        }
    }
    assert_eq!(scheduler.wake_of(3), Some(Millis(700)));
    scheduler.on_unreadable(3, at(700));
    assert_eq!(scheduler.wake_of(3), Some(Millis(1500)));
}

/// DLY-11: restart delivered all pending messages at once.
#[test]
fn dly_11_a_restart_keeps_the_times() {
    let entries: Vec<DelayEntry> = (0..50).map(|n| entry(n, 60_000 * (n as i64 + 1))).collect();
    let table = DelayLevels::parse("1s 5s 50m").unwrap();
    let (mut scheduler, _) = level_3_of(&table, 5, range(0, 50));
    assert_eq!(due_offsets(&mut scheduler, at(60_000 * 5), range(0, 50), &entries), NONE);
    let now = Now { wall: Millis(60_000 * 6), monotonic: Millis(400_000) };
    assert_eq!(due_offsets(&mut scheduler, now, range(0, 50), &entries), [5]);
}

#[test]
fn a_clock_set_back_delays_by_the_level_at_most_and_never_hurries() {
    let (mut scheduler, _) = level_3(0, range(0, 2));
    let entries = [entry(0, 3_610_000), entry(1, 3_610_001)];
    for ms in [0, 1_000, 5_000, 9_999] {
        assert_eq!(due_offsets(&mut scheduler, at(ms), range(0, 2), &entries), NONE, "early at {ms}");
    }
    assert_eq!(due_offsets(&mut scheduler, at(10_999), range(0, 2), &entries), [0, 1]);
}

#[test]
fn deleted_and_unreadable_entries_are_reported() {
    let (mut scheduler, _) = level_3(0, range(0, 9));
    let (mut due, mut out) = (Vec::new(), Vec::new());
    scheduler.on_entries(3, at(10), range(4, 9), &[entry(4, 1)], &mut due, &mut out);
    assert_eq!(due.len(), 1);
    scheduler.on_undeliverable(3, QueueOffset(4), "its record is gone", &mut out);
    assert_eq!(out.len(), 2);
    assert_eq!(scheduler.waiting(3, range(4, 9)), 4);
}

#[test]
fn a_missing_queue_file_is_a_hole_that_is_reported_and_passed() {
    let (mut scheduler, _) = level_3(0, range(0, 9));
    let (mut due, mut out) = (Vec::new(), Vec::new());
    scheduler.on_entries(3, at(10), range(0, 9), &[entry(6, 1)], &mut due, &mut out);
    assert_eq!((due.len(), out.len()), (1, 1));
    scheduler.on_delivered(3, QueueOffset(6));
    assert_eq!(scheduler.waiting(3, range(0, 9)), 2);
}

#[test]
fn a_long_backlog_is_handed_out_batch_by_batch_without_pauses() {
    let (mut scheduler, _) = level_3(0, range(0, 1000));
    let entries: Vec<DelayEntry> = (0..1000).map(|n| entry(n, 0)).collect();
    let mut delivered = 0;
    for _ in 0..4 {
        for offset in due_offsets(&mut scheduler, at(5), range(0, 1000), &entries) {
            assert_eq!(offset, delivered);
            scheduler.on_delivered(3, QueueOffset(offset));
            delivered += 1;
        }
    }
    assert_eq!(delivered, 1000);
}

#[test]
fn outcomes_nobody_waits_for_change_nothing() {
    let (mut scheduler, _) = level_3(5, range(0, 9));
    scheduler.on_delivered(3, QueueOffset(5));
    scheduler.on_failed(3, QueueOffset(6), at(0));
    scheduler.on_delivered(0, QueueOffset(0));
    scheduler.on_delivered(i32::MIN, QueueOffset(0));
    assert_eq!(scheduler.wants(3, at(0)), Some(QueueOffset(5)));
    assert_eq!(scheduler.wants(99, at(0)), None);
}

proptest::proptest! {
    /// DLY-1, DLY-3, DLY-11 at once: whatever fails, and whatever the wall clock does, each message is delivered once,
    /// in the end, and none before its level's delay has passed since it was stored.
    #[test]
    fn every_message_is_delivered_once_and_never_early(
        steps in proptest::collection::vec((0u8..6, 0i64..4_000, 0u8..4), 1..120),
        jumps in proptest::collection::vec(-30_000i64..30_000, 0..3),
    ) {
        const DELAY: i64 = 10_000;
        let (mut scheduler, _) = level_3(0, range(0, 0));
        let (mut stored, mut delivered) = (Vec::<DelayEntry>::new(), BTreeMap::<u64, i64>::new());
        let mut stored_at = Vec::new();
        let (mut wall, mut monotonic) = (1_000_000i64, 0i64);
        let mut jumps = jumps.into_iter();
        let settle = std::iter::repeat_n((0u8, 4_000i64, 0u8), 40);
        for (action, pass, fail) in steps.into_iter().chain(settle) {
            monotonic += pass;
            wall += pass;
            match action {
                1 => {
                    // The store's own times never go back.
                    let last = stored.last().map_or(0, |last| last.deliver_at.0);
                    stored_at.push(monotonic);
                    stored.push(entry(stored.len() as u64, (wall + DELAY).max(last)));
                }
                // Backwards only: a clock set forwards makes messages due, that is what a wall clock is for.
                2 => wall -= jumps.next().map_or(0, i64::abs),
                _ => {}
            }
            let (now, held) = (Now { wall: Millis(wall), monotonic: Millis(monotonic) }, range(0, stored.len() as u64));
            for offset in due_offsets(&mut scheduler, now, held, &stored) {
                if offset % 4 == u64::from(fail) && fail > 0 {
                    scheduler.on_failed(3, QueueOffset(offset), now);
                    continue;
                }
                scheduler.on_delivered(3, QueueOffset(offset));
                proptest::prop_assert_eq!(delivered.insert(offset, monotonic), None, "twice: {}", offset);
                proptest::prop_assert!(monotonic - stored_at[offset as usize] >= DELAY, "early: {}", offset);
            }
        }
        proptest::prop_assert_eq!(delivered.len(), stored.len(), "all in the end");
    }
}
