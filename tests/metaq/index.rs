//! The key index: queries, restarts, retention, refusing disks.

use std::io;
use std::path::PathBuf;

use metaq::env::Millis;
use metaq::proto::PhysicalOffset;
use metaq::store::index::{
    key_hash, IndexGeometry, IndexHeader, IndexLoadReport, IndexOptions, IndexRecord, IndexService, KeyQuery, Progress,
    HEADER_SIZE,
};

use crate::index_bytes::PlainIndex;
use crate::mem_disk::{now, MemDisk, Op};

pub const T0: i64 = 1_700_000_000_000;

pub fn small() -> IndexGeometry {
    IndexGeometry::new(16, 64)
}

pub fn directory() -> PathBuf {
    PathBuf::from("/store/index")
}

pub fn options(geometry: IndexGeometry) -> IndexOptions {
    IndexOptions { geometry, batch_entries_max: 8, ..IndexOptions::new(directory()) }
}

pub fn load(disk: &MemDisk, synced_until: Option<i64>) -> (IndexService, IndexLoadReport) {
    IndexService::load(disk.door(), options(small()), synced_until.map(Millis)).unwrap()
}

pub fn record<'a>(topic: &'a str, unique_key: &'a str, keys: &'a str, at: u64, time: i64) -> IndexRecord<'a> {
    IndexRecord {
        topic,
        unique_key: Some(unique_key).filter(|key| !key.is_empty()),
        keys: Some(keys),
        phy_offset: PhysicalOffset(at),
        store_timestamp: Millis(time),
        rolled_back: false,
    }
}

pub fn put(index: &IndexService, keys: &str, at: u64, time: i64) {
    index.put(&record("T", "", keys, at, time), Millis(time)).unwrap();
}

/// Starts of the records found for a key of topic `T`, without looking at records.
pub fn find(index: &IndexService, key: &str) -> Vec<u64> {
    find_between(index, key, 0, i64::MAX)
}

fn find_between(index: &IndexService, key: &str, begin: i64, end: i64) -> Vec<u64> {
    let query = KeyQuery { topic: "T", key, max: 64, begin: Millis(begin), end: Millis(end) };
    index.query(&query, &mut |_| true).unwrap().offsets.iter().map(|offset| offset.0).collect()
}

pub fn write(index: &IndexService) {
    while index.write_step().unwrap() == Progress::More {}
}

/// IDX-1: a query by key returned a message of another topic; and collisions must not use up the number asked for.
#[test]
fn idx_1_candidates_are_verified_before_they_count() {
    let (index, _) = load(&MemDisk::new(), None);
    index.put(&record("AaTopic", "", "Aa", 100, T0), Millis(T0)).unwrap();
    for at in [200, 300] {
        index.put(&record("BBTopic", "", "BB", at, T0), Millis(T0)).unwrap();
    }
    let query = KeyQuery { topic: "AaTopic", key: "Aa", max: 1, begin: Millis(0), end: Millis(i64::MAX) };
    let candidates = index.query(&KeyQuery { max: 64, ..query }, &mut |_| true).unwrap();
    assert_eq!(candidates.offsets.len(), 3, "the hashes are the same");
    let verified = index.query(&query, &mut |at| at == PhysicalOffset(100)).unwrap();
    assert_eq!(verified.offsets, [PhysicalOffset(100)]);
}

/// IDX-2: a message listing the same key twice was returned twice.
#[test]
fn idx_2_one_message_is_found_once_and_two_with_one_id_twice() {
    let (index, _) = load(&MemDisk::new(), None);
    index.put(&record("T", "id", "k k id", 100, T0), Millis(T0)).unwrap();
    index.put(&record("T", "id", "", 200, T0), Millis(T0)).unwrap();
    assert_eq!(find(&index, "k"), [100]);
    assert_eq!(find(&index, "id"), [100, 200]);
}

/// IDX-3: "not found", because index time is kept in seconds.
#[test]
fn idx_3_the_range_is_widened_to_the_index_resolution() {
    for stored_at in [T0, T0 + 999, T0 + 61_900] {
        let (index, _) = load(&MemDisk::new(), None);
        put(&index, "first", 0, T0);
        put(&index, "k", 100, stored_at);
        let made_at = stored_at + 1500;
        assert_eq!(find_between(&index, "k", made_at - 1000, made_at), [100], "the broker's clock is behind");
        assert_eq!(find_between(&index, "k", stored_at, stored_at), [100]);
        assert_eq!(find_between(&index, "k", stored_at + 3000, i64::MAX), [] as [u64; 0]);
        assert_eq!(find_between(&index, "k", 0, stored_at - 3000), [] as [u64; 0]);
        write(&index);
        assert_eq!(find_between(&index, "k", stored_at, stored_at), [100], "also from the file");
    }
}

/// IDX-4: a key whose hash is the smallest 32-bit number crashed the indexer.
#[test]
fn idx_4_the_smallest_hash_is_indexed_and_found() {
    let (index, _) = load(&MemDisk::new(), None);
    index.put(&record("TopicTest", "", "vlsoaerz", 100, T0), Millis(T0)).unwrap();
    let query = KeyQuery { topic: "TopicTest", key: "vlsoaerz", max: 1, begin: Millis(0), end: Millis(i64::MAX) };
    assert_eq!(index.query(&query, &mut |_| true).unwrap().offsets, [PhysicalOffset(100)]);
    write(&index);
    assert_eq!(index.query(&query, &mut |_| true).unwrap().offsets, [PhysicalOffset(100)]);
}

#[test]
fn the_newest_are_returned_in_log_order_up_to_the_limit() {
    let (index, _) = load(&MemDisk::new(), None);
    for n in 0..200 {
        put(&index, "k", n * 100, T0 + n as i64 * 1000);
    }
    let query = KeyQuery { topic: "T", key: "k", max: 3, begin: Millis(0), end: Millis(i64::MAX) };
    let newest: Vec<_> = [19_700, 19_800, 19_900].map(PhysicalOffset).into();
    assert_eq!(index.query(&query, &mut |_| true).unwrap().offsets, newest);
    let all = index.query(&KeyQuery { max: 1000, ..query }, &mut |_| true).unwrap().offsets;
    assert_eq!((all.len(), all[0]), (64, PhysicalOffset(13_600)), "64 is the limit, over several files");
    let old = index.query(&KeyQuery { end: Millis(T0 + 2000), max: 64, ..query }, &mut |_| true).unwrap().offsets;
    assert_eq!(old.first(), Some(&PhysicalOffset(0)));
    assert!(old.len() <= 4);
}

pub fn index_files(disk: &MemDisk) -> Vec<String> {
    let name = |path: PathBuf| path.file_name().unwrap().to_str().unwrap().to_string();
    disk.files().into_iter().filter(|path| path.starts_with(directory())).map(name).collect()
}

/// Fills files of 63 entries with records of one key each.
fn filled(records: u64) -> (MemDisk, IndexService) {
    let disk = MemDisk::new();
    let (index, _) = load(&disk, None);
    for n in 0..records {
        put(&index, &format!("k{n}"), n * 100, T0 + n as i64 * 1000);
    }
    (disk, index)
}

#[test]
fn a_full_file_is_followed_by_one_named_after_local_time() {
    let disk = MemDisk::new();
    let options = IndexOptions { utc_offset_seconds: 8 * 3600, ..options(small()) };
    let (index, _) = IndexService::load(disk.door(), options, None).unwrap();
    for n in 0..130 {
        put(&index, &format!("k{n}"), n * 100, T0 + 5000);
    }
    assert_eq!(index_files(&disk), ["20231115061325000", "20231115061325001", "20231115061325002"]);
    write(&index);
    let header = |name: &str| {
        let bytes = disk.get(directory().join(name)).unwrap();
        IndexHeader::decode(bytes[..HEADER_SIZE].try_into().unwrap(), small()).unwrap()
    };
    assert_eq!(header("20231115061325000").index_count, 64);
    assert_eq!(header("20231115061325001").begin_phy_offset, PhysicalOffset(6300));
    assert_eq!(header("20231115061325002").index_count, 5);
}

#[test]
fn finished_files_are_synced_before_the_checkpoint_may_say_so() {
    let (disk, index) = filled(100);
    assert_eq!(now(index.sync_finished()).unwrap(), Some(Millis(T0 + 62_000)));
    assert!(matches!(disk.ops()[..], [.., Op::Sync { .. }, Op::SyncDir { .. }]));
    assert_eq!(now(index.sync_finished()).unwrap(), None);
    assert_eq!(now(index.close()).unwrap(), None, "the current file does not count");
    let mut cuts = disk.power_cuts(disk.ops().len());
    let after_cut = cuts.pop().unwrap();
    assert!(cuts.is_empty(), "after a close everything is synced");
    let (index, report) = load(&after_cut, None);
    assert_eq!((report.kept, index.next()), (2, PhysicalOffset(9900)));
}

#[test]
fn a_failed_sync_never_moves_the_checkpoint_again() {
    let (disk, index) = filled(64);
    disk.refuse(|op| matches!(op, Op::Sync { .. }).then_some(io::ErrorKind::Other));
    assert!(now(index.sync_finished()).is_err());
    disk.refuse_nothing();
    for n in 64..200 {
        put(&index, &format!("k{n}"), n * 100, T0 + n as i64 * 1000);
    }
    assert_eq!(now(index.sync_finished()).unwrap(), None);
}

#[test]
fn after_an_abnormal_end_files_newer_than_the_checkpoint_are_built_again() {
    let (disk, index) = filled(100);
    let synced = now(index.sync_finished()).unwrap().unwrap();
    write(&index);
    drop(index);
    let (index, report) = load(&disk, Some(synced.0));
    assert_eq!((report.kept, report.deleted.len()), (1, 1));
    assert_eq!(index.next(), PhysicalOffset(6200), "the last record of the finished file");
    for n in 0..100 {
        put(&index, &format!("k{n}"), n * 100, T0 + n as i64 * 1000);
    }
    assert!((0..100).all(|n| find(&index, &format!("k{n}")) == [n * 100]), "all found, none twice");
    let (index, report) = load(&disk, Some(0));
    assert_eq!((report.kept, index.next()), (0, PhysicalOffset(0)));
    assert_eq!(index_files(&disk), [] as [String; 0]);
}

#[test]
fn unusable_files_go_with_all_behind_them() {
    for (damage, reason) in [
        (vec![0; 10], "it has 10 bytes, 1384 are configured (maxHashSlotNum, maxIndexNum)"),
        (vec![0xFF; 1384], "the index header's beginPhyOffset is out of bounds"),
    ] {
        let (disk, index) = filled(150);
        now(index.close()).unwrap();
        let names = index_files(&disk);
        disk.put(directory().join(&names[1]), &damage);
        disk.put(directory().join("readme"), b"not ours");
        let (index, report) = load(&disk, None);
        assert_eq!((report.kept, report.ignored), (1, vec!["readme".to_string()]));
        assert_eq!(report.deleted[1], (names[1].clone(), reason.to_string()));
        assert_eq!(report.deleted[0], (names[2].clone(), format!("{} before it is lost", names[1])));
        assert_eq!(index.next(), PhysicalOffset(6200));
        assert_eq!(index_files(&disk), [names[0].as_str(), "readme"]);
    }
}

/// A record's keys can be split between two files; put again after a restart, each is still there once.
#[test]
fn keys_of_a_record_split_between_files_are_not_doubled() {
    let (disk, index) = filled(62);
    put(&index, "a b c", 6200, T0);
    now(index.close()).unwrap();
    assert_eq!(index_files(&disk).len(), 2);
    let (index, _) = load(&disk, None);
    put(&index, "a b c", 6200, T0);
    now(index.close()).unwrap();
    for key in ["a", "b", "c"] {
        assert_eq!(find(&index, key), [6200]);
    }
    let second = disk.get(directory().join(&index_files(&disk)[1])).unwrap();
    let header = IndexHeader::decode(second[..HEADER_SIZE].try_into().unwrap(), small()).unwrap();
    assert_eq!(header.index_count, 3);
}

#[test]
fn what_recovery_cut_off_is_forgotten() {
    let (disk, index) = filled(150);
    now(index.close()).unwrap();
    assert_eq!(index.truncate(PhysicalOffset(14_901)).unwrap(), 0);
    assert_eq!(index.truncate(PhysicalOffset(14_900)).unwrap(), 1);
    assert_eq!(index.truncate(PhysicalOffset(6200)).unwrap(), 2);
    assert_eq!((index.next(), index_files(&disk).len()), (PhysicalOffset(0), 0));
    put(&index, "k", 0, T0);
    assert_eq!(find(&index, "k"), [0]);
}

#[test]
fn expired_files_go_but_never_the_newest() {
    let (disk, index) = filled(150);
    assert_eq!(index.expire(PhysicalOffset(6200)).unwrap(), 0);
    assert_eq!(index.expire(PhysicalOffset(6201)).unwrap(), 1);
    assert_eq!(find(&index, "k0"), [] as [u64; 0]);
    assert_eq!(find(&index, "k63"), [6300]);
    assert_eq!(index.expire(PhysicalOffset(u64::MAX)).unwrap(), 1);
    assert_eq!(index_files(&disk).len(), 1);
    assert_eq!(find(&index, "k149"), [14_900]);
}

/// A full disk is an error that loses nothing, whatever write it hits.
#[test]
fn a_refusing_disk_delays_entries_and_loses_none() {
    for refused in 0..12 {
        let disk = MemDisk::new();
        let (index, _) = load(&disk, None);
        let mut seen = 0;
        disk.refuse(move |op| {
            seen += usize::from(matches!(op, Op::Write { .. } | Op::SetLen { .. } | Op::Create { .. }));
            (seen > refused && seen <= refused + 2).then_some(io::ErrorKind::StorageFull)
        });
        let mut plain = PlainIndex::new(small(), None);
        for n in 0..60_u64 {
            let key = format!("k{n}");
            let record = record("T", "", &key, n * 100, T0);
            while index.put(&record, Millis(T0)).is_err() {}
            plain.put(key_hash("T", &key), n * 100, T0);
            if index.write_is_due(Millis(T0)) {
                let _ = index.write_step();
            }
            assert_eq!(find(&index, &key), [n * 100], "INV-IDX-1");
        }
        disk.refuse_nothing();
        write(&index);
        assert!(disk.get(directory().join("20231114221320000")).unwrap() == plain.bytes, "{refused}");
    }
}

/// Every try made a file with a name of its own and left it behind.
#[test]
fn a_full_disk_is_left_no_files() {
    let disk = MemDisk::new();
    let (index, _) = load(&disk, None);
    for refuses in [|op: &Op| matches!(op, Op::SetLen { .. }), |op: &Op| matches!(op, Op::Write { .. })] {
        disk.refuse(move |op| refuses(op).then_some(io::ErrorKind::StorageFull));
        for try_at in 0..5 {
            let refused = index.put(&record("T", "", "k", 0, T0), Millis(T0 + try_at * 1000));
            assert!(refused.is_err());
        }
        assert_eq!(index_files(&disk), [] as [String; 0]);
    }
    disk.refuse_nothing();
    put(&index, "k", 0, T0);
    assert_eq!(index_files(&disk).len(), 1);
}

#[test]
fn writes_are_due_after_a_second_or_enough_entries() {
    let (index, _) = load(&MemDisk::new(), None);
    assert!(!index.write_is_due(Millis(T0)));
    put(&index, "a", 0, T0);
    assert!(!index.write_is_due(Millis(T0 + 999)));
    assert!(index.write_is_due(Millis(T0 + 1000)));
    assert!(index.write_is_due(Millis(T0 - 1)), "a clock set back must not stop writes");
    write(&index);
    assert!(!index.write_is_due(Millis(T0 + 5000)));
    put(&index, "b c d e f g h i", 100, T0);
    assert!(index.write_is_due(Millis(T0)));
}
