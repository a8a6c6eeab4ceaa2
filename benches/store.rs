//! The store alone, without sessions and actors: appending, reading as pulls do, building queues again from the log.
#![allow(missing_docs, reason = "criterion's macro makes a public function without a text")]

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use criterion::{Criterion, Throughput};
use metaq::env::real::env;
use metaq::env::{Clock, Millis, OpenMode};
use metaq::proto::message::{encode_record, NewRecord};
use metaq::proto::QueueOffset;
use metaq::store::{
    open, AppendBatch, EntryForFilter, LogWriter, Opened, Progress, ReadLimits, Store, StoreOptions, TagsCode,
};
use tempfile::TempDir;
use tokio::runtime::Runtime;

fn now() -> Duration {
    CLOCK.with(|clock| clock.monotonic())
}

thread_local! {
    static CLOCK: Arc<dyn Clock> = env().clock;
}

const BODY: usize = 1024;
/// Records of a batch: what one read of a busy connection brings.
const BATCH: usize = 32;
/// A store that has grown to this is left for a new one, so that a long run does not fill the disk.
const LOG_MAX: u64 = 512 << 20;

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn options(root: &Path) -> StoreOptions {
    StoreOptions { index_enabled: false, segment_size: 256 << 20, ..StoreOptions::new(root) }
}

fn opened(runtime: &Runtime, root: &Path) -> Opened {
    runtime.block_on(open(&env(), options(root))).expect("an open store")
}

fn batch(store: &Store) -> AppendBatch {
    let body = vec![b'x'; BODY];
    let mut batch = AppendBatch::default();
    for number in 0..BATCH {
        let record = NewRecord {
            topic: "TopicTest",
            queue_id: number as i32 % 4,
            flag: 0,
            sys_flag: 0,
            born_timestamp: Millis(1_700_000_000_000),
            born_host: ([127, 0, 0, 1], 50_000).into(),
            store_host: ([127, 0, 0, 1], 10_911).into(),
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            body: &body,
            properties: "TAGS\u{1}TagA\u{2}WAIT\u{1}true\u{2}",
            edits: &[],
        };
        let start = batch.bytes.len();
        encode_record(&mut batch.bytes, &record).expect("a record");
        let queue = store.queue_or_create(record.topic, record.queue_id as u32).expect("a queue");
        batch.push(start, queue, TagsCode::Fixed(2_598_919));
    }
    batch
}

/// Appends as the log writer's actor does, upkeep included.
fn append(runtime: &Runtime, writer: &mut LogWriter, batch: &mut AppendBatch) {
    let mut results = Vec::with_capacity(BATCH);
    if writer.append(batch, &mut results) == Progress::NeedsSegment {
        runtime.block_on(writer.finish_append(batch, &mut results));
    }
    assert!(results.iter().all(Result::is_ok), "{results:?}");
}

fn upkeep(runtime: &Runtime, writer: &mut LogWriter) {
    for job in writer.maintain(env().clock.now()) {
        let done = runtime.block_on(job);
        writer.finish_job(done);
    }
}

fn appending(criterion: &mut Criterion) {
    let runtime = runtime();
    let mut group = criterion.benchmark_group("append");
    group.throughput(Throughput::Elements(BATCH as u64)).measurement_time(Duration::from_secs(2)).sample_size(10);
    group.bench_function("32 records of 1 KiB", |bencher| {
        bencher.iter_custom(|iterations| {
            let mut spent = Duration::ZERO;
            let mut left = iterations;
            while left > 0 {
                let directory = TempDir::new().expect("a directory");
                let Opened { store, mut writer, .. } = opened(&runtime, directory.path());
                let mut batch = batch(&store);
                upkeep(&runtime, &mut writer);
                while left > 0 && store.end().0 < LOG_MAX {
                    let start = now();
                    append(&runtime, &mut writer, &mut batch);
                    spent += now() - start;
                    // The next pages and segment come from another thread.
                    if writer.wants_upkeep() {
                        upkeep(&runtime, &mut writer);
                    }
                    left -= 1;
                }
            }
            spent
        });
    });
    group.finish();
}

fn filled(runtime: &Runtime, root: &Path, batches: usize) -> Opened {
    let mut opened = opened(runtime, root);
    let mut batch = batch(&opened.store);
    for _ in 0..batches {
        append(runtime, &mut opened.writer, &mut batch);
    }
    upkeep(runtime, &mut opened.writer);
    opened
}

fn pulling(criterion: &mut Criterion) {
    let runtime = runtime();
    let directory = TempDir::new().expect("a directory");
    let Opened { store, writer: _writer, .. } = filled(&runtime, directory.path(), 3000);
    let queue = store.queue("TopicTest", 1).expect("the queue");
    let limits = ReadLimits::new(32, u32::MAX);
    let mut group = criterion.benchmark_group("read");
    group.throughput(Throughput::Elements(32));
    let mut out = Vec::new();
    let mut from = 0;
    group.bench_function("32 records of 1 KiB", |bencher| {
        bencher.iter(|| {
            out.clear();
            let all = &mut |_: &EntryForFilter| true;
            let outcome = store.read(&queue, QueueOffset(from), &limits, all, &mut out).expect("records");
            from = if outcome.next == outcome.max { 0 } else { outcome.next.0 };
            black_box(outcome.records)
        });
    });
    group.finish();
}

fn building(criterion: &mut Criterion) {
    let runtime = runtime();
    let directory = TempDir::new().expect("a directory");
    let batches = 1000;
    let Opened { writer, .. } = filled(&runtime, directory.path(), batches);
    runtime.block_on(writer.close()).expect("a closed store");
    let mut group = criterion.benchmark_group("consume queues");
    group.throughput(Throughput::Elements((batches * BATCH) as u64)).sample_size(10);
    group.bench_function("from the log, after a crash", |bencher| {
        bencher.iter_custom(|iterations| {
            (0..iterations)
                .map(|_| {
                    let disk = env().disk;
                    disk.remove_dir_all(&directory.path().join("consumequeue")).expect("queues to remove");
                    disk.remove_file(&directory.path().join("checkpoint")).expect("a checkpoint to remove");
                    disk.open(&directory.path().join("abort"), OpenMode::CreateNew).expect("the mark of a crash");
                    let start = now();
                    let Opened { store, writer, .. } = opened(&runtime, directory.path());
                    let spent = now() - start;
                    let queue = store.queue("TopicTest", 0).expect("the queue");
                    assert_eq!(queue.max().0, (batches * BATCH / 4) as u64);
                    runtime.block_on(writer.close()).expect("a closed store");
                    spent
                })
                .sum()
        });
    });
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    appending(&mut criterion);
    pulling(&mut criterion);
    building(&mut criterion);
    criterion.final_summary();
}
