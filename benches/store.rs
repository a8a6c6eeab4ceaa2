#![allow(missing_docs)] // criterion makes a function without
//! The store's hot paths: appending batches, and reading what a pull gets.
//!
//! `cargo bench --bench store`. Appending runs over one segment that is present in memory, as the writer finds it when
//! the pages ahead are prepared.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{criterion_group, criterion_main, BatchSize, Criterion, Throughput};
use metaq::env::Millis;
use metaq::proto::message::{encode_record, NewRecord};
use metaq::proto::QueueOffset;
use metaq::store::{
    open, AppendBatch, ConsumeQueue, EntryForFilter, LogWriter, Opened, Progress, ReadLimits, Store, StoreOptions,
};

const BODY: usize = 1024;

struct Bench {
    runtime: tokio::runtime::Runtime,
    _directory: tempfile::TempDir,
    store: Arc<Store>,
    writer: LogWriter,
    queues: Vec<Arc<ConsumeQueue>>,
}

impl Bench {
    fn new() -> Bench {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let options = StoreOptions::new(directory.path());
        let env = metaq::env::real::env();
        let Opened { store, writer, .. } = runtime.block_on(open(&env, options)).unwrap();
        let queues = (0..64).map(|id| store.queue_or_create("bench", id).unwrap()).collect();
        Bench { runtime, _directory: directory, store, writer, queues }
    }

    /// `messages` records for queues in turn.
    fn batch(&self, messages: usize) -> AppendBatch {
        let mut batch = AppendBatch::default();
        for n in 0..messages {
            let start = batch.bytes.len();
            encode_record(&mut batch.bytes, &message(n as i32 % 64)).unwrap();
            batch.push(start, Arc::clone(&self.queues[n % 64]), self.store.tags_code("bench", PROPERTIES));
        }
        batch
    }

    /// Appends, with the upkeep that belongs to it.
    fn append(&mut self, batch: &mut AppendBatch, results: &mut Vec<metaq::store::AppendResult>) {
        results.clear();
        if self.writer.append(batch, results) == Progress::NeedsSegment {
            self.runtime.block_on(self.writer.finish_append(batch, results));
        }
    }

    fn upkeep(&mut self, now: i64) {
        for job in self.writer.maintain(Millis(now)) {
            let done = self.runtime.block_on(job);
            self.writer.finish_job(done);
        }
    }
}

const PROPERTIES: &str = "UNIQ_KEY\u{1}7F00000100002A9F4F1B0000A1B20001\u{2}WAIT\u{1}true\u{2}TAGS\u{1}TagA\u{2}";

fn message(queue_id: i32) -> NewRecord<'static> {
    static BYTES: [u8; BODY] = [7; BODY];
    NewRecord {
        topic: "bench",
        queue_id,
        flag: 0,
        sys_flag: 0,
        born_timestamp: Millis(1_700_000_000_000),
        born_host: "127.0.0.1:5000".parse().unwrap(),
        store_host: "127.0.0.1:10911".parse().unwrap(),
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body: &BYTES,
        properties: PROPERTIES,
        edits: &[],
    }
}

fn append(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("append 1 KiB");
    for messages in [1, 32] {
        let mut bench = Bench::new();
        let mut batch = bench.batch(messages);
        let mut results = Vec::new();
        let mut now = 0;
        group.throughput(Throughput::Elements(messages as u64));
        group.bench_function(format!("batches of {messages}"), |bencher| {
            bencher.iter_custom(|iterations| {
                let mut spent = Duration::ZERO;
                for n in 0..iterations {
                    if bench.writer.wants_upkeep() || n % 4096 == 0 {
                        now += 10;
                        bench.upkeep(now);
                    }
                    #[allow(clippy::disallowed_methods)] // a bench measures the machine
                    let start = Instant::now();
                    bench.append(black_box(&mut batch), &mut results);
                    spent += start.elapsed();
                    if bench.store.statistics().segments > 3 {
                        now += 20_000;
                        if let Some(sync) = bench.writer.start_sync() {
                            let done = bench.runtime.block_on(sync);
                            bench.writer.finish_sync(done).unwrap();
                        }
                        for step in 0..8 {
                            bench.upkeep(now + step);
                        }
                        bench.runtime.block_on(bench.store.delete_oldest_segments(2)).unwrap();
                    }
                }
                spent
            });
        });
    }
    group.finish();
}

fn pull(criterion: &mut Criterion) {
    let mut bench = Bench::new();
    let mut batch = bench.batch(64 * 64);
    let mut results = Vec::new();
    for round in 0..4 {
        bench.append(&mut batch, &mut results);
        bench.upkeep(round * 2000);
    }
    let mut group = criterion.benchmark_group("pull 32 of 1 KiB");
    group.throughput(Throughput::Elements(32));
    let limits = ReadLimits { records: 32, bytes: u32::MAX };
    for (name, from) in [("from files", 0), ("from memory", 255 - 32)] {
        let queue = &bench.queues[5];
        group.bench_function(name, |bencher| {
            bencher.iter_batched_ref(
                || Vec::with_capacity(64 << 10),
                |out| {
                    let all = &mut |_: &EntryForFilter| true;
                    let outcome = bench.store.read(queue, QueueOffset(from), &limits, all, out).unwrap();
                    assert_eq!(outcome.records, 32);
                },
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, append, pull);
criterion_main!(benches);
