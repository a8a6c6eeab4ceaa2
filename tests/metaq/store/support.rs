//! A store in a temporary directory, with a clock the test moves and a disk that fails on request.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metaq::env::{BoxFuture, Clock, DirEntry, Disk, Env, File, FileLock, Mapping, Metadata, Millis, OpenMode, Space};
use metaq::proto::message::record::{BodyCrc, RecordView};
use metaq::proto::message::{encode_record, record, NewRecord};
use metaq::proto::{PhysicalOffset, QueueOffset};
use metaq::store::index::KeyQuery;
use metaq::store::{
    open, AppendBatch, AppendResult, Dispatcher, EntryForFilter, FlushMode, LogWriter, OpenError, Opened, Progress,
    ReadLimits, ReadOutcome, RecoveryReport, Store, StoreOptions,
};

pub const START: i64 = 1_700_000_000_000;
pub const SEGMENT: u64 = 4096;
pub const QUEUE_FILE: u64 = 160;

/// What a test needs around a store; the directory goes with it.
pub struct World {
    pub directory: tempfile::TempDir,
    pub clock: Arc<TestClock>,
    pub disk: Arc<TestDisk>,
    pub options: StoreOptions,
}

/// An open store.
pub struct Running {
    pub store: Arc<Store>,
    pub writer: LogWriter,
    pub dispatcher: Dispatcher,
    pub report: RecoveryReport,
}

impl World {
    /// Small files, so that rolls and file ends come soon.
    pub fn new(flush: FlushMode) -> World {
        let directory = tempfile::tempdir().unwrap();
        World::on(metaq::env::real::env().disk, directory, flush)
    }

    /// The same on another disk.
    pub fn on(disk: Arc<dyn Disk>, directory: tempfile::TempDir, flush: FlushMode) -> World {
        let mut options = StoreOptions::new(directory.path());
        (options.segment_size, options.queue_file_size, options.flush) = (SEGMENT, QUEUE_FILE, flush);
        (options.index_slots, options.index_entries) = (16, 64);
        let clock = Arc::new(TestClock(AtomicI64::new(START)));
        let disk = Arc::new(TestDisk::new(disk));
        World { directory, clock, disk, options }
    }

    pub fn env(&self) -> Env {
        let mut env = metaq::env::real::env();
        env.clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
        env.disk = Arc::clone(&self.disk) as Arc<dyn Disk>;
        env
    }

    pub async fn try_open(&self) -> Result<Running, OpenError> {
        let Opened { store, writer, dispatcher, report } = open(&self.env(), self.options.clone()).await?;
        Ok(Running { store, writer, dispatcher, report })
    }

    pub async fn open(&self) -> Running {
        self.try_open().await.unwrap()
    }

    pub fn path(&self, relative: &str) -> PathBuf {
        self.directory.path().join(relative)
    }

    /// File names and contents below a directory of the store.
    pub fn files(&self, relative: &str) -> Vec<(PathBuf, Vec<u8>)> {
        let mut found = Vec::new();
        collect(&self.path(relative), &mut found);
        found.sort();
        found
    }
}

fn collect(path: &Path, found: &mut Vec<(PathBuf, Vec<u8>)>) {
    let Ok(entries) = std::fs::read_dir(path) else { return };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, found);
        } else {
            found.push((path.clone(), std::fs::read(path).unwrap()));
        }
    }
}

pub fn copy_tree(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// What is logged on this thread meanwhile.
pub fn logged(run: impl FnOnce()) -> String {
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);
    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    tracing::subscriber::with_default(subscriber, run);
    let bytes = lines.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

/// A message of these tests.
pub fn message<'a>(topic: &'a str, queue_id: i32, body: &'a [u8], properties: &'a str) -> NewRecord<'a> {
    NewRecord {
        topic,
        queue_id,
        flag: 0,
        sys_flag: 0,
        born_timestamp: Millis(START),
        born_host: "127.0.0.1:5000".parse().unwrap(),
        store_host: "127.0.0.1:10911".parse().unwrap(),
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body,
        properties,
        edits: &[],
    }
}

impl Running {
    /// Adds a message as a unit of its own.
    pub fn add(&self, batch: &mut AppendBatch, message: &NewRecord<'_>) {
        let start = batch.bytes.len();
        encode_record(&mut batch.bytes, message).unwrap();
        let queue = self.store.queue_or_create(message.topic, message.queue_id as u32).unwrap();
        let code = self.store.tags_code(message.topic, message.properties);
        batch.push(start, queue, code);
    }

    pub async fn append(&mut self, batch: &mut AppendBatch) -> Vec<AppendResult> {
        let mut results = Vec::new();
        if self.writer.append(batch, &mut results) == Progress::NeedsSegment {
            self.writer.finish_append(batch, &mut results).await;
        }
        assert_eq!(results.len(), batch.items.len());
        results
    }

    pub async fn send(&mut self, topic: &str, queue_id: i32, body: &[u8]) -> AppendResult {
        self.send_with(&message(topic, queue_id, body, "TAGS\u{1}TagA\u{2}")).await
    }

    pub async fn send_with(&mut self, message: &NewRecord<'_>) -> AppendResult {
        let mut batch = AppendBatch::default();
        self.add(&mut batch, message);
        self.append(&mut batch).await.remove(0)
    }

    pub async fn sync(&mut self) -> Result<(), metaq::store::StoreError> {
        while let Some(sync) = self.writer.start_sync() {
            self.writer.finish_sync(sync.await)?;
        }
        Ok(())
    }

    /// Lets the writer do what is due at `now`, until nothing is.
    pub async fn maintain(&mut self, now: i64) {
        for step in 0..4 {
            for job in self.writer.maintain(Millis(now + step)) {
                let done = job.await;
                self.writer.finish_job(done);
            }
        }
    }

    pub async fn close(mut self) {
        self.dispatcher.drain(Millis(START)).unwrap();
        self.writer.close().await.unwrap();
    }

    /// Bodies of what a key query finds.
    pub fn query(&self, topic: &str, key: &str) -> Vec<Vec<u8>> {
        let query = KeyQuery { topic, key, max: 64, begin: Millis(0), end: Millis(i64::MAX) };
        let mut out = Vec::new();
        self.store.query_by_key(&query, &mut out).unwrap();
        record::iterate(&out, BodyCrc::Verify).map(|record| record.unwrap().body().to_vec()).collect()
    }

    /// Bodies of everything in a queue, read as a consumer would.
    pub fn bodies(&self, topic: &str, queue_id: u32) -> Vec<Vec<u8>> {
        self.records(topic, queue_id, |record| record.body().to_vec())
    }

    /// The first byte of every body.
    pub fn firsts(&self, topic: &str, queue_id: u32) -> Vec<u8> {
        self.records(topic, queue_id, |record| record.body().first().copied().unwrap_or_default())
    }

    pub fn records<T>(&self, topic: &str, queue_id: u32, mut each: impl FnMut(&RecordView<'_>) -> T) -> Vec<T> {
        let Some(queue) = self.store.queue(topic, queue_id) else { return Vec::new() };
        let (mut next, mut found) = (queue.min(), Vec::new());
        while next < queue.max() {
            let mut out = Vec::new();
            let outcome = self.read(topic, queue_id, next.0, &mut out);
            found.extend(record::iterate(&out, BodyCrc::Verify).map(|record| each(&record.unwrap())));
            assert!(outcome.next > next, "{outcome:?}");
            next = outcome.next;
        }
        found
    }

    pub fn read(&self, topic: &str, queue_id: u32, from: u64, out: &mut Vec<u8>) -> ReadOutcome {
        let queue = self.store.queue(topic, queue_id).unwrap();
        let limits = ReadLimits::new(32, u32::MAX);
        self.store.read(&queue, QueueOffset(from), &limits, &mut |_: &EntryForFilter| true, out).unwrap()
    }

    pub fn range(&self, topic: &str, queue_id: u32) -> (u64, u64) {
        self.store.queue(topic, queue_id).map_or((0, 0), |queue| (queue.min().0, queue.max().0))
    }

    /// Physical and queue offset of every record in a queue.
    pub fn offsets(&self, topic: &str, queue_id: u32) -> Vec<(PhysicalOffset, QueueOffset)> {
        self.records(topic, queue_id, |record| (record.physical_offset(), record.queue_offset()))
    }
}

/// Time as the test sets it.
pub struct TestClock(pub AtomicI64);

impl Clock for TestClock {
    fn now(&self) -> Millis {
        Millis(self.0.load(Ordering::Relaxed))
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed) as u64)
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(async {})
    }
}

/// The real disk, with faults the test switches on.
pub struct TestDisk {
    inner: Arc<dyn Disk>,
    pub faults: Arc<Faults>,
}

#[derive(Default)]
pub struct Faults {
    pub syncs_fail: AtomicBool,
    pub writes_fail: AtomicBool,
    pub allocations_fail: AtomicBool,
    pub queues_full: AtomicBool,
    /// A bad sector in the commit log.
    pub log_reads_fail: AtomicBool,
    /// How often `topics.json` was put in its place.
    pub topics_saved: AtomicUsize,
}

impl TestDisk {
    pub fn new(inner: Arc<dyn Disk>) -> TestDisk {
        TestDisk { inner, faults: Arc::default() }
    }
}

fn failing(fault: &AtomicBool, error: io::ErrorKind) -> io::Result<()> {
    if fault.load(Ordering::Relaxed) {
        return Err(error.into());
    }
    Ok(())
}

struct TestFile {
    is_queue: bool,
    is_log: bool,
    inner: Arc<dyn File>,
    faults: Arc<Faults>,
}

impl Disk for TestDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let creating = matches!(mode, OpenMode::CreateNew | OpenMode::Truncate);
        if creating || !self.inner.exists(path) && mode == OpenMode::CreateOrOpen {
            failing(&self.faults.writes_fail, io::ErrorKind::ReadOnlyFilesystem)?;
        }
        let [is_queue, is_log] =
            ["consumequeue", "commitlog"].map(|name| path.components().any(|part| part.as_os_str() == name));
        let (inner, faults) = (self.inner.open(path, mode)?, Arc::clone(&self.faults));
        Ok(Arc::new(TestFile { is_queue, is_log, inner, faults }))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.inner.create_dir_all(path)
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        self.inner.read_dir(path)
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        self.inner.metadata(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        failing(&self.faults.writes_fail, io::ErrorKind::ReadOnlyFilesystem)?;
        if to.ends_with("topics.json") {
            self.faults.topics_saved.fetch_add(1, Ordering::Relaxed);
        }
        self.inner.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        failing(&self.faults.writes_fail, io::ErrorKind::ReadOnlyFilesystem)?;
        self.inner.remove_file(path)
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        failing(&self.faults.writes_fail, io::ErrorKind::ReadOnlyFilesystem)?;
        self.inner.remove_dir_all(path)
    }

    fn sync_dir(&self, path: &Path) -> BoxFuture<'static, io::Result<()>> {
        self.inner.sync_dir(path)
    }

    /// Half full, whatever the machine's is.
    fn space(&self, _: &Path) -> io::Result<Space> {
        Ok(Space { total: 1 << 30, available: 1 << 29 })
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn FileLock>> {
        match self.inner.lock(path) {
            // A disk in memory has one user.
            Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(Box::new(NoLock)),
            locked => locked,
        }
    }
}

struct NoLock;

impl FileLock for NoLock {}

impl File for TestFile {
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        if self.is_log && self.faults.log_reads_fail.load(Ordering::Relaxed) {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        self.inner.read_at(at, into)
    }

    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        failing(&self.faults.writes_fail, io::ErrorKind::ReadOnlyFilesystem)?;
        if self.is_queue {
            failing(&self.faults.queues_full, io::ErrorKind::StorageFull)?;
        }
        self.inner.write_at(at, bytes)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        failing(&self.faults.writes_fail, io::ErrorKind::ReadOnlyFilesystem)?;
        self.inner.set_len(len)
    }

    fn allocate(&self, len: u64) -> BoxFuture<'static, io::Result<()>> {
        let faults = Arc::clone(&self.faults);
        let allocate = self.inner.allocate(len);
        Box::pin(async move {
            failing(&faults.writes_fail, io::ErrorKind::ReadOnlyFilesystem)?;
            failing(&faults.allocations_fail, io::ErrorKind::StorageFull)?;
            allocate.await
        })
    }

    fn sync(&self) -> BoxFuture<'static, io::Result<()>> {
        let faults = Arc::clone(&self.faults);
        let sync = self.inner.sync();
        Box::pin(async move {
            failing(&faults.syncs_fail, io::ErrorKind::Other)?;
            sync.await
        })
    }

    fn map(&self, len: u64) -> io::Result<Arc<dyn Mapping>> {
        self.inner.map(len)
    }
}
