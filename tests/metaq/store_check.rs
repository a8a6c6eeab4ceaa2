//! The store check against the vectors, whole and damaged.

use std::path::{Path, PathBuf};

use metaq::env::Disk;
use metaq::proto::message::{self, encode_record, patch_offsets, BodyCrc, DelayLevels, NewRecord, Parsed};
use metaq::proto::{PhysicalOffset, QueueOffset};
use metaq::store::check::{check_store, CheckOptions, CheckReport, Severity};
use metaq::store::index::IndexGeometry;
use proptest::prelude::*;

use crate::mem_disk::{read_real, vectors, MemDisk};

const SEGMENT: u64 = 4096;
const LOG_END: u64 = 4615;

fn root() -> PathBuf {
    PathBuf::from("/store")
}

fn mini_store() -> MemDisk {
    let disk = MemDisk::new();
    disk.copy_in(&vectors().join("mini-store"), &root());
    disk
}

fn options() -> CheckOptions {
    CheckOptions { index_geometry: Some(IndexGeometry::new(16, 64)), ..CheckOptions::new(DelayLevels::default()) }
}

fn check(disk: &MemDisk) -> CheckReport {
    check_store(&disk.door(), &root(), &options()).unwrap()
}

fn findings(disk: &MemDisk) -> Vec<String> {
    check(disk).findings.iter().map(ToString::to_string).collect()
}

/// The store with one byte of one file changed.
fn damaged(path: &Path, at: u64, flip: u8) -> MemDisk {
    let disk = mini_store();
    flip_byte(&disk, path, at, flip);
    disk
}

/// Checks `disk` while one byte of one file is changed.
fn check_damaged(disk: &MemDisk, path: &Path, at: u64, flip: u8) -> CheckReport {
    flip_byte(disk, path, at, flip);
    let report = check(disk);
    flip_byte(disk, path, at, flip);
    report
}

fn flip_byte(disk: &MemDisk, path: &Path, at: u64, flip: u8) {
    let mut bytes = disk.get(path).unwrap();
    bytes[at as usize] ^= flip;
    disk.put(path, &bytes);
}

fn log_file(at: u64) -> PathBuf {
    root().join(format!("commitlog/{:020}", at - at % SEGMENT))
}

#[test]
fn the_mini_store_is_sound() {
    let report = check(&mini_store());
    assert_eq!(report.findings, []);
    assert!(report.closed && report.is_sound());
    assert_eq!((report.segments, report.records, report.blanks), (2, 23, 1));
    assert_eq!((report.log_min, report.log_end), (PhysicalOffset(0), PhysicalOffset(LOG_END)));
    assert_eq!((report.queues, report.queue_entries), (6, 21));
    assert_eq!((report.index_files, report.index_entries), (1, 48));
    assert_eq!(
        report.to_string(),
        "commit log: 2 segments from 0 to 4615 with 23 records and 1 fillers\n\
         consume queues: 6 with 21 entries\n\
         index: 1 files with 48 entries\n\
         closed; 0 damaged, 0 repaired at start, 0 notes"
    );
}

#[test]
fn the_index_tells_its_geometry() {
    let detecting = CheckOptions::new(DelayLevels::default());
    let disk = mini_store();
    let report = check_store(&disk.door(), &root(), &detecting).unwrap();
    assert_eq!((&report.findings[..], report.index_entries), (&[][..], 48));

    // Not four entries a slot, so neither the defaults nor their proportion help.
    let path = root().join("index/20231114221320000");
    let mut wide = disk.get(&path).unwrap();
    wide.splice(40..40 + 64, vec![0; 17 * 4]);
    for entry in 1..=48 {
        let at = 40 + 17 * 4 + entry * 20;
        let hash = u32::from_be_bytes(wide[at..at + 4].try_into().unwrap());
        let slot = 40 + hash as usize % 17 * 4;
        let previous: [u8; 4] = wide[slot..slot + 4].try_into().unwrap();
        wide[at + 16..at + 20].copy_from_slice(&previous);
        wide[slot..slot + 4].copy_from_slice(&(entry as u32).to_be_bytes());
    }
    let used = wide[40..40 + 68].chunks(4).filter(|slot| *slot != [0; 4]).count();
    wide[32..36].copy_from_slice(&(used as u32).to_be_bytes());
    disk.put(&path, &wide);
    let report = check_store(&disk.door(), &root(), &detecting).unwrap();
    assert_eq!((&report.findings[..], report.index_entries), (&[][..], 48));
}

#[test]
fn an_empty_directory_is_sound() {
    let disk = MemDisk::new();
    assert!(check(&disk).is_sound());
    assert_eq!(check(&disk).records, 0);
}

/// Places of the records in the mini store.
fn records() -> Vec<(u64, Vec<u8>)> {
    let mut found = Vec::new();
    for base in [0, SEGMENT] {
        let bytes = read_real(&vectors().join(format!("mini-store/commitlog/{base:020}")));
        let mut at = 0;
        while let Ok(Parsed::Record(view)) = message::parse(&bytes[at..], BodyCrc::Verify) {
            found.push((base + at as u64, view.bytes().to_vec()));
            at += view.total_size() as usize;
        }
    }
    found
}

/// Sizes, magic, crc, queue and offset fields, body, topic: whatever one bit of theirs becomes, it is seen. (RocketMQ
/// protects the rest, like times and hosts, by nothing.)
#[test]
fn every_damaged_byte_of_a_protected_field_is_found() {
    let disk = mini_store();
    for (base, bytes) in records() {
        let Ok(Parsed::Record(view)) = message::parse(&bytes, BodyCrc::Verify) else { panic!() };
        if matches!(view.sys_flag() & 0xC, 0x4 | 0xC) {
            continue; // in no queue
        }
        let place_of = |part: &[u8]| part.as_ptr() as u64 - view.bytes().as_ptr() as u64;
        let body = place_of(view.body())..place_of(view.body()) + view.body().len() as u64;
        let topic = place_of(view.topic_bytes())..place_of(view.topic_bytes()) + view.topic_bytes().len() as u64;
        let body_length = body.start - 4..body.start;
        let topic_length = topic.start - 1..topic.start;
        let properties_length = topic.end..topic.end + 2;
        for field in [0..16, 20..36, body_length, body, topic_length, topic, properties_length] {
            for at in field.map(|at| base + at) {
                for flip in [0x01, 0x80] {
                    let report = check_damaged(&disk, &log_file(at), at % SEGMENT, flip);
                    assert!(!report.is_sound(), "byte {at} ^ {flip:02x} was not noticed");
                }
            }
        }
    }
}

#[test]
fn every_damaged_byte_of_a_queue_entry_is_found() {
    let disk = mini_store();
    for path in disk.files().into_iter().filter(|path| path.starts_with(root().join("consumequeue"))) {
        let bytes = disk.get(&path).unwrap();
        let used = bytes.chunks(20).take_while(|entry| entry[8..12] != [0; 4]).count() * 20;
        for at in 0..used as u64 {
            let report = check_damaged(&disk, &path, at, 0x10);
            assert_ne!(report.findings, [], "{} byte {at} was not noticed", path.display());
            assert!(report.findings.iter().any(|finding| finding.file == path), "{:?}", report.findings);
        }
    }
}

#[test]
fn every_damaged_byte_of_the_index_is_found() {
    let disk = mini_store();
    let path = root().join("index/20231114221320000");
    let used = 40 + 16 * 4 + 20..40 + 16 * 4 + 49 * 20;
    for at in (0..40 + 16 * 4).chain(used).filter(|at| !(40 + 64 + 20 + 12..40 + 64 + 20 + 16).contains(at)) {
        let report = check_damaged(&disk, &path, at, 0x02);
        assert!(!report.is_sound(), "byte {at} was not noticed");
        assert_eq!(report.findings[0].file, path);
    }
}

#[test]
fn findings_name_file_and_byte() {
    assert_eq!(
        findings(&damaged(&log_file(175), 175 + 88, 1))[0],
        "damage: /store/commitlog/00000000000000000000 byte 175: the body's crc is 1504980853, the record says 354299883"
    );
    let queue = root().join("consumequeue/TopicTest/0/00000000000000000160");
    assert_eq!(
        findings(&damaged(&queue, 12 + 7, 1)),
        ["damage: /store/consumequeue/TopicTest/0/00000000000000000160 byte 12: entry 8 has tags code 2598918, its \
          record 2598919"]
    );
    let index = root().join("index/20231114221320000");
    assert_eq!(
        findings(&damaged(&index, 7, 1))[0],
        "damage: /store/index/20231114221320000 byte 0: beginTimestamp is 1700000000001, its record has 1700000000000"
    );
}

#[test]
fn findings_are_counted_but_the_list_is_bounded() {
    let disk = mini_store();
    disk.put(root().join("index/20231114221320000"), &[0xFF; 1384]);
    for entry in 0..8 {
        flip_byte(&disk, &root().join("consumequeue/TopicTest/0/00000000000000000000"), entry * 20 + 19, 1);
    }
    let report = check_store(&disk.door(), &root(), &CheckOptions { findings_max: 3, ..options() }).unwrap();
    assert_eq!((report.findings.len(), report.count(Severity::Damage)), (3, 9));
}

/// What a crash leaves behind is for the next start to repair, and no damage.
#[test]
fn an_unclosed_store_may_have_a_torn_tail() {
    let disk = mini_store();
    let mut bytes = disk.get(log_file(SEGMENT)).unwrap();
    bytes[(LOG_END - SEGMENT) as usize - 90..].fill(0);
    disk.put(log_file(SEGMENT), &bytes);
    assert!(!check(&disk).is_sound(), "in a closed store it is damage");
    disk.put(root().join("abort"), b"");
    let report = check(&disk);
    assert!(!report.closed);
    assert!(report.is_sound(), "{:?}", report.findings);
    assert!(report.count(Severity::Repairable) > 0);
}

#[test]
fn a_queue_behind_the_log_is_repaired_at_start() {
    let disk = mini_store();
    let queue = root().join("consumequeue/TopicTest/1/00000000000000000000");
    let mut bytes = disk.get(&queue).unwrap();
    bytes[40..60].fill(0);
    disk.put(&queue, &bytes);
    assert_eq!(
        findings(&disk),
        ["repaired at start: /store/consumequeue/TopicTest/1/00000000000000000000 byte 40: 1 records in the log have no \
          entry"]
    );
    bytes[20..40].fill(0);
    bytes[40..60].copy_from_slice(
        &read_real(&vectors().join("mini-store/consumequeue/TopicTest/1").join("0".repeat(20)))[40..60],
    );
    disk.put(&queue, &bytes);
    assert!(findings(&disk)[0].contains("entries 1 to 1 point to no record of this queue"));
}

#[test]
fn queues_of_deleted_topics_are_a_note() {
    let disk = mini_store();
    disk.remove_dir_all(&root().join("consumequeue/SCHEDULE_TOPIC_XXXX")).unwrap();
    disk.remove_file(&root().join("checkpoint")).unwrap();
    let report = check(&disk);
    assert!(report.is_sound());
    assert_eq!(report.count(Severity::Note), 2);
}

#[test]
fn what_stops_rocketmq_from_starting_is_damage() {
    let disk = mini_store();
    disk.put(root().join("commitlog/00000000000000008192"), b"");
    assert_eq!(check(&disk).count(Severity::Repairable), 1, "an empty last file is removed at start");
    disk.put(root().join("commitlog/notes~"), b"x");
    assert_eq!(check(&disk).count(Severity::Damage), 1);
    let disk = mini_store();
    disk.put(root().join("commitlog/00000000000000008193"), &[0; 4096]);
    assert_eq!(check(&disk).count(Severity::Damage), 1, "a gap");
    let disk = mini_store();
    disk.put(root().join("checkpoint"), &[0; 10]);
    assert_eq!(check(&disk).count(Severity::Damage), 1);
}

#[test]
fn a_segment_prepared_behind_the_end_is_no_finding() {
    let disk = mini_store();
    disk.put(root().join("commitlog/00000000000000008192"), &[0; 4096]);
    assert_eq!(findings(&disk), [] as [String; 0]);
}

/// After retention, queue and index entries of records that are gone are no finding.
#[test]
fn expired_records_are_no_finding() {
    let disk = mini_store();
    disk.remove_file(&log_file(0)).unwrap();
    let report = check(&disk);
    assert_eq!(report.findings, []);
    assert_eq!((report.log_min, report.log_end), (PhysicalOffset(4096), PhysicalOffset(LOG_END)));
    assert!(report.index_entries < 48);
}

/// RocketMQ gives a queue offset again after some crashes: the queue shows one of the two records.
#[test]
fn two_records_with_one_number_are_a_note() {
    let disk = MemDisk::new();
    let mut log = Vec::new();
    let mut at = Vec::new();
    let like = read_real(&vectors().join("bin/record_v1_empty.bin"));
    let Ok(Parsed::Record(like)) = message::parse(&like, BodyCrc::Verify) else { panic!() };
    for number in [0, 0, 1] {
        let start = log.len();
        encode_record(&mut log, &NewRecord { queue_id: 0, ..NewRecord::copy_of(&like, "T", "") }).unwrap();
        patch_offsets(&mut log[start..], QueueOffset(number), PhysicalOffset(start as u64), metaq::env::Millis(1));
        at.push((start as u64, (log.len() - start) as u32));
    }
    let entry = |(at, size): (u64, u32)| [&at.to_be_bytes()[..], &size.to_be_bytes(), &[0; 8]].concat();
    let mut queue = [entry(at[1]), entry(at[2])].concat();
    queue.resize(160, 0);
    log.resize(4096, 0);
    disk.put(log_file(0), &log);
    disk.put(root().join(format!("consumequeue/T/0/{:020}", 0)), &queue);
    let report = check(&disk);
    assert!(report.is_sound(), "{:?}", report.findings);
    assert!(report.findings[0].to_string().contains("1 older records have no entry"), "{:?}", report.findings);
}

/// A store of one record, with its place set to 0.
fn store_of(record: &str, queue_offset: u64) -> MemDisk {
    let disk = MemDisk::new();
    let mut log = read_real(&vectors().join("bin").join(record));
    let time = i64::from_be_bytes(log[56..64].try_into().unwrap());
    patch_offsets(&mut log, QueueOffset(queue_offset), PhysicalOffset(0), metaq::env::Millis(time));
    log.resize(4096, 0);
    disk.put(log_file(0), &log);
    disk
}

/// A vector's entry, pointing to position 0.
fn entry(vector: &str) -> Vec<u8> {
    let mut bytes = read_real(&vectors().join("bin").join(vector));
    bytes[..8].fill(0);
    bytes
}

#[test]
fn batch_queues_are_checked() {
    let disk = store_of("record_v1_innerbatch.bin", 40);
    let path = root().join(format!("batchconsumequeue/BatchTopic/2/{:020}", 0));
    let mut queue = entry("bcq_entry.bin");
    queue.resize(460, 0);
    disk.put(&path, &queue);
    assert_eq!(findings(&disk)[1..], [] as [String; 0]);
    assert_eq!(check(&disk).queue_entries, 1);
    for at in 0..46 {
        let report = check_damaged(&disk, &path, at, 1);
        assert!(report.findings.iter().any(|finding| finding.file == path), "byte {at}");
    }
}

#[test]
fn tags_codes_in_ext_units_are_checked() {
    let disk = store_of("record_v1.bin", 7);
    let pre_blank = read_real(&vectors().join("bin/cq_preblank.bin"));
    let mut queue = [pre_blank.repeat(7), entry("cq_entry_ext.bin")].concat();
    queue.resize(400, 0);
    disk.put(root().join(format!("consumequeue/TopicTest/2/{:020}", 0)), &queue);
    let unit = read_real(&vectors().join("bin/cqext_unit.bin"));
    let path = root().join(format!("consumequeue_ext/TopicTest/2/{:020}", 0));
    let mut ext = unit.repeat(2);
    ext.resize(1000, 0);
    disk.put(&path, &ext);
    assert!(check(&disk).is_sound(), "{:?}", findings(&disk));
    for at in 34..34 + 20 {
        assert!(!check_damaged(&disk, &path, at, 1).is_sound(), "byte {at}");
    }
}

/// Light queues hold the entry of a record in another topic.
#[test]
fn light_queues_are_checked() {
    let disk = store_of("record_v1_lmq.bin", 0);
    let pre_blank = read_real(&vectors().join("bin/cq_preblank.bin"));
    let mut own = [0_u64.to_be_bytes().to_vec(), 167_u32.to_be_bytes().to_vec(), vec![0; 8]].concat();
    own.resize(200, 0);
    let mut third = [pre_blank.repeat(3), own[..20].to_vec()].concat();
    third.resize(200, 0);
    disk.put(root().join(format!("consumequeue/TopicTest/2/{:020}", 0)), &own);
    disk.put(root().join(format!("consumequeue/%LMQ%a/0/{:020}", 0)), &third);
    disk.put(root().join(format!("consumequeue/%LMQ%b/0/{:020}", 0)), &own);
    assert!(check(&disk).is_sound(), "{:?}", findings(&disk));
    assert_eq!(check(&disk).queue_entries, 3);
    disk.put(root().join(format!("consumequeue/%LMQ%b/0/{:020}", 0)), &third);
    assert!(!check(&disk).is_sound());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever lies in the files, the check ends with a report.
    #[test]
    fn any_damage_ends_in_a_report(
        places in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()), 1..20),
        unclosed: bool,
    ) {
        let disk = mini_store();
        let files: Vec<PathBuf> = disk.files();
        for (file, at, value) in places {
            let path = file.get(&files);
            let len = disk.get(path).unwrap().len();
            flip_byte(&disk, path, at.index(len) as u64, value);
        }
        if unclosed {
            disk.put(root().join("abort"), b"");
        }
        check(&disk);
    }
}
