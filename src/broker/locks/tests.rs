use super::*;
use crate::proto::body::config_files::ConfigFile;

const A: ConnectionId = ConnectionId(1);
const B: ConnectionId = ConnectionId(2);

fn queue(queue_id: i32) -> QueueKey {
    QueueKey::new("orders", queue_id)
}

fn lock(
    locks: &mut QueueLocks,
    group: &str,
    client: &str,
    connection: ConnectionId,
    queues: &[QueueKey],
    at: i64,
) -> Vec<QueueKey> {
    locks.lock_batch(group, client, connection, queues.to_vec(), Millis(at)).queues
}

#[test]
fn a_queue_has_one_holder() {
    let mut locks = QueueLocks::new(100);
    assert_eq!(lock(&mut locks, "g", "a", A, &[queue(0), queue(1)], 0), [queue(0), queue(1)]);
    assert_eq!(lock(&mut locks, "g", "b", B, &[queue(1), queue(2)], 1), [queue(2)]);
    assert_eq!(lock(&mut locks, "other", "b", B, &[queue(1)], 1), [queue(1)], "groups are apart");
    assert_eq!(locks.holder("g", &queue(1), Millis(1)).map(|held| held.client), Some("a".into()));
    locks.unlock_batch("g", "b", &[queue(1)]);
    assert_eq!(
        locks.holder("g", &queue(1), Millis(1)).map(|held| held.client),
        Some("a".into()),
        "only the holder gives back"
    );
    locks.unlock_batch("g", "a", &[queue(1)]);
    assert_eq!(lock(&mut locks, "g", "b", B, &[queue(1)], 2), [queue(1)]);
    assert_eq!(locks.len(), 4);
    let mut full = QueueLocks::new(1);
    assert_eq!(lock(&mut full, "g", "a", A, &[queue(0), queue(1)], 0), [queue(0)]);
}

#[test]
fn an_unrenewed_lock_is_free_after_60_seconds() {
    let mut locks = QueueLocks::new(100);
    lock(&mut locks, "g", "a", A, &[queue(0)], 0);
    lock(&mut locks, "g", "a", A, &[queue(0)], 20_000);
    assert_eq!(lock(&mut locks, "g", "b", B, &[queue(0)], 80_000), []);
    assert!(locks.holds_any("g", Millis(80_000)));
    assert!(!locks.holds_any("g", Millis(80_001)));
    assert_eq!(lock(&mut locks, "g", "b", B, &[queue(0)], 80_001), [queue(0)]);
    locks.on_tick(Millis(200_000));
    assert!(locks.is_empty());
}

/// REB-2: two consumers worked on one queue. A broken connection does not mean a dead consumer.
#[test]
fn reb_2_a_lock_outlives_its_connection_as_long_as_its_client_trusts_it() {
    let mut locks = QueueLocks::new(100);
    lock(&mut locks, "g", "a", A, &[queue(0)], 0);
    locks.on_connection_closed(A);
    assert_eq!(lock(&mut locks, "g", "b", B, &[queue(0)], 31_000), []);
    assert_eq!(lock(&mut locks, "g", "b", B, &[queue(0)], 31_001), [queue(0)]);
    locks.on_connection_closed(A);
    assert!(locks.holder("g", &queue(0), Millis(90_000)).is_some(), "the old connection is not b's");
}

#[test]
fn a_client_that_says_goodbye_frees_its_queues_at_once() {
    let mut locks = QueueLocks::new(100);
    lock(&mut locks, "g", "a", A, &[queue(0)], 0);
    lock(&mut locks, "h", "a", A, &[queue(0)], 0);
    locks.on_unregistered("g", "a");
    assert_eq!(lock(&mut locks, "g", "b", B, &[queue(0)], 1), [queue(0)]);
    assert!(locks.holds_any("h", Millis(1)));
}

/// REB-2: a broker that restarted gave a queue to another one while its holder still worked on it.
#[test]
fn reb_2_a_restart_takes_no_lock_away() {
    let mut locks = QueueLocks::new(100);
    lock(&mut locks, "g", "a", A, &[queue(0), queue(7)], 0);
    lock(&mut locks, "g", "b", B, &[queue(1)], 0);
    let (saved, _) = locks.unsaved(Millis(0)).unwrap();
    let saved = SavedLocks::parse(&saved.print()).unwrap();
    let mut locks = QueueLocks::load(saved, false, 100, Millis(5_000));
    assert_eq!((locks.len(), locks.unsaved(Millis(5_000))), (3, None));
    assert_eq!(lock(&mut locks, "g", "c", B, &[queue(0), queue(1), queue(2)], 5_001), [queue(2)]);
    assert_eq!(lock(&mut locks, "g", "a", A, &[queue(0), queue(1)], 20_000), [queue(0)], "it goes on");
    assert_eq!(lock(&mut locks, "g", "c", B, &[queue(0), queue(1)], 36_000), []);
    assert_eq!(lock(&mut locks, "g", "c", B, &[queue(0), queue(1)], 36_001), [queue(1)], "b is gone");
}

#[test]
fn a_client_is_told_of_a_lock_once_it_is_saved() {
    let mut locks = QueueLocks::new(100);
    let first = locks.lock_batch("g", "a", A, vec![queue(0)], Millis(0));
    assert!(!locks.is_saved(first.change));
    let (_, change) = locks.unsaved(Millis(0)).unwrap();
    let second = locks.lock_batch("g", "a", A, vec![queue(1)], Millis(0));
    locks.on_saved(change);
    assert!(locks.is_saved(first.change) && !locks.is_saved(second.change));
    let again = locks.lock_batch("g", "a", A, vec![queue(0)], Millis(20_000));
    assert!(locks.is_saved(again.change), "a renewal changes no holder");
    let again = locks.lock_batch("g", "a", A, vec![queue(0), queue(1)], Millis(20_000));
    assert!(!locks.is_saved(again.change), "asked twice before it is saved");
    locks.on_saved(second.change);
    assert!(locks.is_saved(again.change) && locks.unsaved(Millis(0)).is_none());
    locks.unlock_batch("g", "a", &[queue(0)]);
    let (saved, _) = locks.unsaved(Millis(20_000)).unwrap();
    assert_eq!(saved.groups["g"]["a"]["orders"], [1]);
    let taken = locks.lock_batch("g", "b", B, vec![queue(0)], Millis(20_000));
    assert!(!locks.is_saved(taken.change));
    let (_, change) = locks.unsaved(Millis(90_000)).unwrap();
    locks.on_saved(change);
    let late = locks.lock_batch("g", "b", B, vec![queue(0)], Millis(90_000));
    assert!(!locks.is_saved(late.change), "it ran out, and the file was written without it");
    locks.on_tick(Millis(200_000));
    assert!(locks.unsaved(Millis(200_000)).unwrap().0.groups.is_empty());
}

/// A promoted slave does not know the old master's locks, and neither does who starts with a folder without the file.
#[test]
fn while_holders_are_unknown_nobody_is_given_a_lock() {
    let mut promoted = QueueLocks::new(100);
    lock(&mut promoted, "g", "a", A, &[queue(0)], 0);
    promoted.on_promoted(Millis(1_000));
    assert_eq!(lock(&mut promoted, "g", "b", B, &[queue(0)], 42_000), []);
    let (saved, change) = promoted.unsaved(Millis(2_000)).unwrap();
    promoted.on_saved(change);
    assert!(saved.incomplete, "another start begins to wait anew");
    promoted.on_tick(Millis(42_001));
    assert!(!promoted.unsaved(Millis(42_001)).unwrap().0.incomplete);
    for (saved, is_new, waits) in [
        (saved, false, true),
        (SavedLocks::default(), false, true),
        (SavedLocks::default(), true, false),
        (SavedLocks { incomplete: false, ..SavedLocks::default() }, false, false),
    ] {
        let mut locks = QueueLocks::load(saved, is_new, 100, Millis(0));
        assert_eq!(lock(&mut locks, "g", "b", B, &[queue(0)], 41_000).is_empty(), waits);
        assert_eq!(lock(&mut locks, "g", "b", B, &[queue(0)], 41_001), [queue(0)]);
    }
}
