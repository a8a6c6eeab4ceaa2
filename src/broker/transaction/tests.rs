use super::*;
use crate::env::{Canaries, Millis};
use crate::proto::{PhysicalOffset, QueueOffset};

const START: Progress = Progress { half: QueueOffset(0), op: QueueOffset(0) };
const RULES: CheckRules = CheckRules { timeout_ms: 6_000, checks_max: 15, age_max_ms: 72 * 3_600_000 };

fn ledger() -> HalfLedger {
    HalfLedger::new(START, Canaries::default())
}

fn id(key: &str) -> TransactionId {
    TransactionId { group: "pg".into(), key: key.into() }
}

fn place(offset: u64) -> Place {
    Place { offset: QueueOffset(offset), position: PhysicalOffset(offset * 1_000) }
}

fn half(key: &str, offset: u64, since: i64) -> Half {
    Half { id: id(key), place: place(offset), first: None, checks: 0, immunity_ms: None, since: Millis(since) }
}

/// An op, behind all halves.
fn op(offset: u64) -> Place {
    Place { offset: QueueOffset(offset), position: PhysicalOffset(10_000_000 + offset) }
}

/// Puts a transaction again, and reads the half that stands for it now.
fn put_again(ledger: &mut HalfLedger, from: u64, to: u64) {
    ledger.on_put_again(QueueOffset(from), place(to), true);
    ledger.on_half(half("read", to, 0));
}

fn end(key: &str, offset: u64) -> End {
    End { id: id(key), offset: QueueOffset(offset), from_check: false }
}

fn asked(ledger: &HalfLedger, now: i64) -> Vec<(u64, DueKind)> {
    let due = ledger.due(QueueOffset(0)..ledger.next(), 100, &RULES, Millis(now));
    due.iter().map(|due| (due.half.0, due.kind)).collect()
}

/// TXN-1: a half message of exactly the immunity time was neither asked about nor kept.
#[test]
fn txn_1_one_of_exactly_the_age_is_asked_about_once_in_a_round() {
    let mut ledger = ledger();
    for (offset, since) in [(0, 1), (1, 0), (2, -1)] {
        ledger.on_half(half(&offset.to_string(), offset, since));
    }
    assert_eq!(asked(&ledger, 6_000), [(1, DueKind::Ask), (2, DueKind::Ask)]);
    let to = ledger.next();
    put_again(&mut ledger, 1, 3);
    let left = ledger.due(QueueOffset(2)..to, 100, &RULES, Millis(6_000));
    assert_eq!(left.len(), 1, "what was put again lies behind the round");
    assert_eq!(asked(&ledger, 6_001).len(), 3, "none is passed over in the next round");
}

/// TXN-2: committed transactions were asked about again and again.
#[test]
fn txn_2_nobody_is_asked_about_what_has_ended_and_progress_reaches_the_end() {
    let mut ledger = ledger();
    for offset in 0..100 {
        ledger.on_half(half(&offset.to_string(), offset, 0));
        ledger.on_ended(QueueOffset(offset), Decision::Commit, op(offset));
    }
    assert_eq!(asked(&ledger, 1_000_000), []);
    ledger.on_read_to(QueueOffset(100));
    assert_eq!(ledger.progress(), Progress { half: QueueOffset(100), op: QueueOffset(100) });
}

/// TXN-3: reading the op queue one past its end moved its offset.
#[test]
fn txn_3_progress_of_the_op_queue_counts_ops() {
    let mut ledger = ledger();
    assert_eq!(ledger.progress().op, QueueOffset(0));
    ledger.on_half(half("a", 0, 0));
    assert_eq!(ledger.progress().op, QueueOffset(0));
    ledger.on_ended(QueueOffset(0), Decision::Rollback, op(0));
    assert_eq!(ledger.progress(), START, "it may lie behind halves of the transaction that are still to be read");
    ledger.on_read_to(QueueOffset(1));
    assert_eq!(ledger.progress().op, QueueOffset(1));
}

/// TXN-4: the answer to a question said rollback, the slow local transaction commit: the message was delivered.
#[test]
fn txn_4_the_first_decision_stands_and_later_ones_are_told_which() {
    let mut ledger = ledger();
    ledger.on_half(half("a", 0, 0));
    put_again(&mut ledger, 0, 1);
    let answer = End { from_check: true, ..end("a", 1) };
    assert_eq!(ledger.on_end(&answer, Millis(60_000)), Verdict::Decide(QueueOffset(1)));
    assert_eq!(ledger.op_of(QueueOffset(1)), [0, 1].map(QueueOffset));
    ledger.on_ended(QueueOffset(1), Decision::Rollback, op(0));
    for late in [end("a", 0), answer] {
        assert_eq!(ledger.on_end(&late, Millis(65_000)), Verdict::Ended(Some(Decision::Rollback)));
    }
    assert_eq!(ledger.on_end(&end("b", 0), Millis(0)), Verdict::Ended(None), "forgotten");
    assert_eq!(ledger.on_end(&end("a", 2), Millis(0)), Verdict::Unknown, "not read yet");
}

#[test]
fn the_op_queue_is_needed_from_the_oldest_op_that_says_something_about_an_open_half() {
    let mut ledger = ledger();
    (0..4).for_each(|offset| ledger.on_half(half(&offset.to_string(), offset, 0)));
    for (number, ended) in [2, 0, 3].into_iter().enumerate() {
        ledger.on_ended(QueueOffset(ended), Decision::Commit, op(number as u64));
    }
    assert_eq!(ledger.progress(), START, "0 may have been sent again before its op");
    ledger.on_read_to(QueueOffset(4));
    assert_eq!(ledger.progress(), Progress { half: QueueOffset(1), op: QueueOffset(0) });
    put_again(&mut ledger, 1, 4);
    ledger.on_read_to(QueueOffset(5));
    assert_eq!(ledger.progress(), Progress { half: QueueOffset(4), op: QueueOffset(3) });
}

#[test]
fn a_producer_that_wants_time_is_not_asked_before_and_decides_alone_only_in_it() {
    let mut ledger = ledger();
    ledger.on_half(Half { immunity_ms: Some(20_000), ..half("a", 0, 0) });
    assert_eq!(asked(&ledger, 19_999), []);
    assert_eq!(asked(&ledger, 20_000), [(0, DueKind::Ask)]);
    assert_eq!(ledger.on_end(&end("a", 0), Millis(20_000)), Verdict::Decide(QueueOffset(0)));
    assert_eq!(ledger.on_end(&end("a", 0), Millis(20_001)), Verdict::Immune);
    let answer = End { from_check: true, ..end("a", 0) };
    assert_eq!(ledger.on_end(&answer, Millis(20_001)), Verdict::Decide(QueueOffset(0)));
}

/// Race T13: a long immunity time used up the questions. TXN-6: one that nobody heard counted.
#[test]
fn only_questions_that_were_asked_count() {
    let mut ledger = ledger();
    ledger.on_half(half("a", 0, 0));
    for offset in 1..=15 {
        assert_eq!(asked(&ledger, 6_000 + offset as i64 * 30_000), [(offset - 1, DueKind::Ask)]);
        put_again(&mut ledger, offset - 1, offset);
    }
    assert_eq!(asked(&ledger, 1_000_000), [(15, DueKind::GiveUp)]);
    ledger.on_not_asked(QueueOffset(15));
    assert_eq!((ledger.checks_of(QueueOffset(15)), asked(&ledger, 1_000_000)), (14, vec![(15, DueKind::Ask)]));
    assert_eq!(ledger.first_of(QueueOffset(15)), QueueOffset(0));
}

#[test]
fn what_is_about_to_expire_is_given_up_although_nobody_was_there_to_ask() {
    let mut ledger = ledger();
    ledger.on_half(half("a", 0, 0));
    ledger.on_half(Half { immunity_ms: Some(u64::MAX), ..half("b", 1, 0) });
    let due = asked(&ledger, 72 * 3_600_000);
    assert_eq!(due, [(0, DueKind::GiveUp), (1, DueKind::GiveUp)]);
}

/// Race T11 on one broker: the answer to a half message was lost, and its client sent it again.
#[test]
fn a_retried_half_message_is_the_same_transaction_while_that_is_open() {
    let mut ledger = ledger();
    ledger.on_half(half("a", 0, 0));
    ledger.on_half(half("a", 1, 500));
    assert_eq!(ledger.on_end(&end("a", 0), Millis(0)), Verdict::Decide(QueueOffset(1)));
    ledger.on_ended(QueueOffset(1), Decision::Commit, op(0));
    assert_eq!(ledger.open(), 0);
    ledger.on_half(Half { place: Place { offset: QueueOffset(2), ..op(100) }, ..half("a", 2, 900) });
    assert_eq!(ledger.on_end(&end("a", 2), Millis(0)), Verdict::Decide(QueueOffset(2)), "sent again on purpose");
    assert_eq!(ledger.on_end(&end("a", 0), Millis(0)), Verdict::Ended(Some(Decision::Commit)), "an old end");
}

#[test]
fn a_commit_whose_op_was_lost_is_found_by_its_place_behind_the_half() {
    let mut ledger = ledger();
    ledger.on_half(half("a", 0, 0));
    ledger.on_half(half("b", 1, 0));
    let nowhere = PhysicalOffset(u64::MAX);
    let earlier = ledger.on_committed_before(Some(&id("b")), nowhere, PhysicalOffset(900));
    assert!(!earlier, "one of an earlier transaction");
    assert!(!ledger.on_committed_before(None, PhysicalOffset(17), PhysicalOffset(1_900)), "of none that is known");
    assert!(ledger.on_committed_before(Some(&id("b")), nowhere, PhysicalOffset(1_900)));
    assert_eq!(ledger.on_end(&end("b", 1), Millis(0)), Verdict::Ended(Some(Decision::Commit)));
    assert_eq!(ledger.owed(), [QueueOffset(1)]);
    ledger.on_ended(QueueOffset(0), Decision::Commit, op(0));
    ledger.on_read_to(QueueOffset(2));
    assert_eq!(ledger.progress().half, QueueOffset(1), "until its op is there");
    ledger.on_paid(QueueOffset(1), &[QueueOffset(1)]);
    ledger.on_read_to(QueueOffset(2));
    assert_eq!(ledger.progress(), Progress { half: QueueOffset(2), op: QueueOffset(2) });
}

/// Halves that are sent while others are put again lie before those, and are read after them.
#[test]
fn a_half_that_comes_in_between_is_not_passed_over() {
    let mut ledger = ledger();
    ledger.on_half(half("a", 0, 0));
    ledger.on_put_again(QueueOffset(0), place(2), true);
    assert_eq!(ledger.next(), QueueOffset(1));
    assert_eq!(ledger.progress().half, QueueOffset(1));
    ledger.on_half(half("b", 1, 0));
    ledger.on_half(half("a", 2, 0));
    assert_eq!(asked(&ledger, 10_000), [(1, DueKind::Ask), (2, DueKind::Ask)]);
    assert_eq!(ledger.checks_of(QueueOffset(2)), 1);
}

/// A repeated send that lies before the end of its transaction, and is read only after it, is no new transaction.
#[test]
fn a_half_before_the_end_of_its_transaction_has_ended_with_it() {
    let mut ledger = ledger();
    ledger.on_half(half("a", 0, 0));
    ledger.on_ended(QueueOffset(0), Decision::Commit, op(0));
    ledger.on_half(half("a", 1, 0));
    assert_eq!((ledger.open(), ledger.owed()), (0, vec![QueueOffset(1)]));
    assert_eq!(ledger.on_end(&end("a", 1), Millis(0)), Verdict::Ended(None));
}

/// The simulator found it: a power cut tore the properties of the last record, and nobody knew whose it was.
#[test]
fn a_torn_commit_is_found_by_its_half() {
    let mut ledger = ledger();
    ledger.on_half(half("a", 0, 0));
    ledger.on_half(half("b", 1, 0));
    put_again(&mut ledger, 0, 2);
    assert!(ledger.on_committed_before(None, place(0).position, PhysicalOffset(2_900)));
    assert_eq!((ledger.is_open(&id("a")), ledger.is_open(&id("b"))), (false, true));
}

/// However often a half message is sent under one id, its op stays short.
#[test]
fn halves_of_one_transaction_are_bounded() {
    let mut ledger = ledger();
    (0..1_000).for_each(|offset| ledger.on_half(half("a", offset, 0)));
    assert!(ledger.open() <= 64 && ledger.op_of(QueueOffset(999)).len() <= 64);
    ledger.on_ended(QueueOffset(999), Decision::Rollback, op(0));
    ledger.on_read_to(QueueOffset(1_000));
    assert_eq!((ledger.open(), ledger.progress().half), (0, QueueOffset(1_000)));
}
