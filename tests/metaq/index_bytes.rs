//! Bytes of index files: against the vectors, and batches against single puts.

use std::sync::Arc;

use metaq::env::{Disk, File, Millis, OpenMode};
use metaq::proto::PhysicalOffset;
use metaq::store::index::{
    key_hash, IndexFile, IndexGeometry, IndexHeader, IndexLoadReport, IndexOptions, IndexRecord, IndexService,
    KeyQuery, ENTRY_SIZE, HEADER_SIZE, SLOT_SIZE,
};
use proptest::prelude::*;

use crate::index::{directory, find, index_files, load, options, put, record, small, write, T0};
use crate::mem_disk::{read_real, vectors, MemDisk};

fn new_file(disk: &MemDisk, name: &str) -> Arc<dyn File> {
    disk.create_dir_all(&directory()).unwrap();
    disk.open(&directory().join(name), OpenMode::CreateNew).unwrap()
}

/// RocketMQ's put, word for word as the format page has it.
pub struct PlainIndex {
    geometry: IndexGeometry,
    header: IndexHeader,
    pub bytes: Vec<u8>,
}

impl PlainIndex {
    pub fn new(geometry: IndexGeometry, previous: Option<&IndexHeader>) -> PlainIndex {
        let header = IndexHeader::following(previous);
        let mut plain = PlainIndex { geometry, header, bytes: vec![0; geometry.file_len() as usize] };
        plain.bytes[..HEADER_SIZE].copy_from_slice(&header.encode());
        plain
    }

    /// False if the file is full.
    pub fn put(&mut self, hash: u32, at: u64, time: i64) -> bool {
        let header = &mut self.header;
        if header.index_count >= self.geometry.entries() {
            return false;
        }
        let slot_at = HEADER_SIZE + SLOT_SIZE * (hash % self.geometry.slots()) as usize;
        let slot = u32::from_be_bytes(self.bytes[slot_at..slot_at + 4].try_into().unwrap());
        let seconds = (time - header.begin_timestamp.0) / 1000;
        let seconds = if header.begin_timestamp.0 > 0 { seconds.clamp(0, i64::from(i32::MAX)) } else { 0 };
        let entry =
            [&hash.to_be_bytes()[..], &at.to_be_bytes(), &(seconds as u32).to_be_bytes(), &slot.to_be_bytes()].concat();
        let entry_at = self.geometry.entry_at(header.index_count) as usize;
        self.bytes[entry_at..entry_at + ENTRY_SIZE].copy_from_slice(&entry);
        self.bytes[slot_at..slot_at + 4].copy_from_slice(&header.index_count.to_be_bytes());
        if header.index_count <= 1 {
            header.begin_phy_offset = PhysicalOffset(at);
            header.begin_timestamp = Millis(time);
        }
        header.hash_slot_count += u32::from(slot == 0);
        header.index_count += 1;
        header.end_phy_offset = PhysicalOffset(at);
        header.end_timestamp = Millis(time);
        self.bytes[..HEADER_SIZE].copy_from_slice(&self.header.encode());
        true
    }
}

/// The four puts of the format page's worked example.
fn worked_example(geometry: IndexGeometry, disk: &MemDisk) {
    let mut file = IndexFile::create(new_file(disk, "20231114221320000"), geometry, None).unwrap();
    let at = PhysicalOffset(0x4000_0400);
    let puts = [
        ("7F00000100002A9F4F1B0000A1B20001", 1_700_000_000_456),
        ("order-1001", 1_700_000_000_456),
        ("vlsoaerz", 1_700_000_062_000),
        ("order-1001", 1_700_000_062_000),
    ];
    for (key, time) in puts {
        file.put(key_hash("TopicTest", key), at, Millis(time)).unwrap();
    }
    file.write_all().unwrap();
}

#[test]
fn a_small_file_is_byte_for_byte_the_vector() {
    let disk = MemDisk::new();
    worked_example(small(), &disk);
    let expected = read_real(&vectors().join("bin/index_small.bin"));
    assert!(disk.get(directory().join("20231114221320000")).unwrap() == expected);
}

#[test]
fn a_file_of_full_size_holds_what_the_vector_lists() {
    let disk = MemDisk::new();
    worked_example(IndexGeometry::DEFAULT, &disk);
    let vector: serde_json::Value = serde_json::from_slice(&read_real(&vectors().join("vectors.json"))).unwrap();
    let vector = &vector["index_default_geometry"];
    let file = disk.open(&directory().join("20231114221320000"), OpenMode::Read).unwrap();
    let hex_at = |at: u64, len: usize| {
        let mut bytes = vec![0; len];
        assert_eq!(file.read_at(at, &mut bytes).unwrap(), len);
        bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    assert_eq!(file.len().unwrap(), vector["file_size"].as_u64().unwrap());
    assert_eq!(hex_at(0, HEADER_SIZE), vector["header"].as_str().unwrap());
    for put in vector["puts"].as_array().unwrap() {
        assert_eq!(hex_at(put["slot_offset"].as_u64().unwrap(), SLOT_SIZE), put["slot_bytes"].as_str().unwrap());
        assert_eq!(hex_at(put["entry_offset"].as_u64().unwrap(), ENTRY_SIZE), put["entry_bytes"].as_str().unwrap());
    }
}

/// What the mini store's own list of messages says about a record.
struct Listed {
    topic: String,
    unique_key: Option<String>,
    keys: Option<String>,
    at: u64,
    time: i64,
    rolled_back: bool,
}

fn mini_store() -> Vec<Listed> {
    let vector: serde_json::Value = serde_json::from_slice(&read_real(&vectors().join("vectors.json"))).unwrap();
    let listed = |message: &serde_json::Value| {
        let property = |name: &str| message["properties"][name].as_str().map(str::to_string);
        Listed {
            topic: message["topic"].as_str().unwrap().to_string(),
            unique_key: property("UNIQ_KEY"),
            keys: property("KEYS"),
            at: message["phyOffset"].as_u64().unwrap(),
            time: message["storeTimestamp"].as_i64().unwrap(),
            rolled_back: message["sysFlag"].as_i64().unwrap() & 0xC == 0xC,
        }
    };
    vector["mini_store"]["messages"].as_array().unwrap().iter().map(listed).collect()
}

impl Listed {
    fn record(&self) -> IndexRecord<'_> {
        IndexRecord {
            topic: &self.topic,
            unique_key: self.unique_key.as_deref(),
            keys: self.keys.as_deref(),
            phy_offset: PhysicalOffset(self.at),
            store_timestamp: Millis(self.time),
            rolled_back: self.rolled_back,
        }
    }
}

#[test]
fn the_mini_stores_index_is_built_byte_for_byte() {
    let (disk, listed) = (MemDisk::new(), mini_store());
    let (index, _) = load(&disk, None);
    index.put_all(listed.iter().map(Listed::record), Millis(T0)).unwrap();
    write(&index);
    let expected = read_real(&vectors().join("mini-store/index/20231114221320000"));
    assert!(disk.get(directory().join("20231114221320000")).unwrap() == expected);
}

#[test]
fn the_mini_stores_index_answers_and_is_extended() {
    let (disk, listed) = (MemDisk::new(), mini_store());
    disk.copy_in(&vectors().join("mini-store/index"), &directory());
    let (index, report) = load(&disk, None);
    assert_eq!(report, IndexLoadReport { kept: 1, ..IndexLoadReport::default() });
    assert_eq!(index.next(), PhysicalOffset(4449));
    let find = |key: &str| {
        let query = KeyQuery { topic: "TopicTest", key, max: 64, begin: Millis(0), end: Millis(i64::MAX) };
        let mut accept = |at: PhysicalOffset| {
            let record = listed.iter().find(|listed| listed.at == at.0).expect("entries point to records");
            record.record().answers("TopicTest", key)
        };
        index.query(&query, &mut accept).unwrap().offsets.iter().map(|at| at.0).collect::<Vec<_>>()
    };
    let expected = |key: &str| {
        let has = |listed: &&Listed| listed.record().answers("TopicTest", key);
        listed.iter().filter(has).map(|listed| listed.at).collect::<Vec<_>>()
    };
    for key in ["k0", "k11", "shared", "键1", "last", "0A00000500002A9F4F1B000000000003", "none"] {
        assert_eq!(find(key), expected(key), "{key}");
    }
    assert_eq!(find("shared").len(), 12);
    let before = disk.get(directory().join("20231114221320000")).unwrap();
    index.put_all(listed.iter().map(Listed::record), Millis(T0)).unwrap();
    write(&index);
    assert!(disk.get(directory().join("20231114221320000")).unwrap() == before, "repeats leave no trace");
    index.put(&record("TopicTest", "", "new", 5000, T0 + 60_000), Millis(T0)).unwrap();
    let query = KeyQuery { topic: "TopicTest", key: "new", max: 64, begin: Millis(0), end: Millis(i64::MAX) };
    let answer = index.query(&query, &mut |_| true).unwrap();
    assert_eq!(answer.offsets, [PhysicalOffset(5000)]);
    assert_eq!((answer.last_update_offset, answer.last_update_timestamp), (PhysicalOffset(5000), Millis(T0 + 60_000)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever the batches, the files are those of one put after the other, and every entry is found at any time.
    #[test]
    fn batches_leave_the_bytes_of_single_puts(
        slots in 1_u32..40,
        entries in 2_u32..50,
        batch in 1_usize..20,
        steps in prop::collection::vec((0_u32..30, 0_usize..4), 1..150),
    ) {
        let geometry = IndexGeometry::new(slots, entries);
        let disk = MemDisk::new();
        let options = IndexOptions { batch_entries_max: batch, ..options(geometry) };
        let (index, _) = IndexService::load(disk.door(), options, None).unwrap();
        let mut plain = vec![PlainIndex::new(geometry, None)];
        let mut model: Vec<(u32, u64)> = Vec::new();
        for (n, (key, writes)) in steps.iter().enumerate() {
            let (at, time) = (n as u64 * 100, T0 + n as i64 * 700);
            put(&index, &key.to_string(), at, time);
            let hash = key_hash("T", &key.to_string());
            if !plain.last_mut().unwrap().put(hash, at, time) {
                let previous = plain.last().unwrap().header;
                plain.push(PlainIndex::new(geometry, Some(&previous)));
                prop_assert!(plain.last_mut().unwrap().put(hash, at, time));
            }
            model.push((*key, at));
            for _ in 0..*writes {
                index.write_step().unwrap();
            }
            let mut expected: Vec<u64> = model.iter().filter(|(k, _)| k == key).map(|(_, at)| *at).collect();
            expected.drain(..expected.len().saturating_sub(64));
            prop_assert_eq!(find(&index, &key.to_string()), expected);
        }
        write(&index);
        let files = index_files(&disk);
        prop_assert_eq!(files.len(), plain.len());
        for (name, plain) in files.iter().zip(&plain) {
            prop_assert!(disk.get(directory().join(name)).unwrap() == plain.bytes);
        }
    }

    /// Any bytes in an index file: it is used or thrown away, and queries end.
    #[test]
    fn damaged_files_never_panic(seed in prop::collection::vec(any::<u8>(), 1384), keep in 0_usize..HEADER_SIZE) {
        let mut bytes = read_real(&vectors().join("mini-store/index/20231114221320000"));
        bytes[keep..].copy_from_slice(&seed[keep..]);
        bytes[..8].copy_from_slice(&T0.to_be_bytes());
        bytes[24..32].copy_from_slice(&4449_u64.to_be_bytes()); // a file that knows of more than the log has is dropped
        for good_header in [false, true] {
            if good_header {
                let vector = read_real(&vectors().join("mini-store/index/20231114221320000"));
                bytes[..HEADER_SIZE].copy_from_slice(&vector[..HEADER_SIZE]);
            }
            let disk = MemDisk::new();
            disk.put(directory().join("20231114221320000"), &bytes);
            let (index, _) = load(&disk, None);
            for key in 0..20 {
                find(&index, &key.to_string());
                put(&index, &key.to_string(), 1 << 40 | key, T0);
                prop_assert!(find(&index, &key.to_string()).contains(&(1 << 40 | key)));
            }
            write(&index);
            for key in 0..20 {
                prop_assert!(find(&index, &key.to_string()).contains(&(1 << 40 | key)), "once merged");
            }
        }
    }
}
