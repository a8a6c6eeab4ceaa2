//! What knowing sends by their keys costs, with a million keys known: `cargo bench --bench deduplication`.
#![allow(missing_docs, reason = "criterion's macro makes a public function without a text")]

use std::hint::black_box;
use std::time::Duration;

use criterion::{criterion_group, criterion_main, Criterion, Throughput};
use metaq::env::real::env;
use metaq::env::Millis;
use metaq::proto::message::{encode_record, NewRecord};
use metaq::store::{open, AppendBatch, Deduplication, LogWriter, Progress, StoreOptions, TagsCode, UniqueSend};
use tempfile::TempDir;
use tokio::runtime::Runtime;

const BATCH: u64 = 32;
const KEYS: u64 = 1_000_000;
const WINDOW_MS: i64 = 3_600_000;

/// Which keys the records of a batch have.
#[derive(Clone, Copy, PartialEq)]
enum Keys {
    None,
    New,
    Known,
}

fn key(number: u64) -> String {
    format!("C0A801141A2B18B4AAC2{number:012X}")
}

struct Bench {
    runtime: Runtime,
    writer: LogWriter,
    batch: AppendBatch,
    next: u64,
    _directory: TempDir,
}

impl Bench {
    fn new() -> Bench {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let directory = TempDir::new().expect("a directory");
        let options =
            StoreOptions { index_enabled: false, segment_size: 256 << 20, ..StoreOptions::new(directory.path()) };
        let opened = runtime.block_on(open(&env(), options)).expect("an open store");
        let (store, mut writer) = (opened.store, opened.writer);
        writer.set_deduplication(Deduplication::new(KEYS as usize));
        let mut batch = AppendBatch::default();
        let queue = store.queue_or_create("TopicTest", 0).expect("a queue");
        for _ in 0..BATCH {
            let record = NewRecord {
                topic: "TopicTest",
                queue_id: 0,
                flag: 0,
                sys_flag: 0,
                born_timestamp: Millis(1_700_000_000_000),
                born_host: ([127, 0, 0, 1], 50_000).into(),
                store_host: ([127, 0, 0, 1], 10_911).into(),
                reconsume_times: 0,
                prepared_transaction_offset: 0,
                body: b"x",
                properties: "TAGS\u{1}TagA\u{2}",
                edits: &[],
            };
            let start = batch.bytes.len();
            encode_record(&mut batch.bytes, &record).expect("a record");
            batch.push(start, queue.clone(), TagsCode::Fixed(2_598_919));
        }
        Bench { runtime, writer, batch, next: 0, _directory: directory }
    }

    /// Appends a batch; the time that took, without making its keys.
    fn append(&mut self, keys: Keys) -> Duration {
        let clock = env().clock;
        let texts: Vec<String> = (0..BATCH)
            .map(|at| match keys {
                Keys::Known => key(self.next.saturating_sub(KEYS / 2) + at),
                Keys::New | Keys::None => key(self.next + at),
            })
            .collect();
        let mut results = Vec::with_capacity(BATCH as usize);
        let begun = clock.monotonic();
        for (item, text) in self.batch.items.iter_mut().zip(&texts) {
            item.unique = match keys {
                Keys::None => None,
                Keys::New | Keys::Known => UniqueSend::new("TopicTest", black_box(text), WINDOW_MS, 0),
            };
        }
        if self.writer.append(&mut self.batch, &mut results) == Progress::NeedsSegment {
            self.runtime.block_on(self.writer.finish_append(&mut self.batch, &mut results));
        }
        let took = clock.monotonic() - begun;
        if keys == Keys::New {
            self.next += BATCH;
        }
        if self.writer.wants_upkeep() {
            for job in self.writer.maintain(clock.now()) {
                let done = self.runtime.block_on(job);
                self.writer.finish_job(done);
            }
        }
        took
    }
}

fn deduplication(criterion: &mut Criterion) {
    let mut bench = Bench::new();
    while bench.next < KEYS + KEYS / 2 {
        bench.append(Keys::New);
    }
    let mut group = criterion.benchmark_group("append 32 small records, a million keys known");
    group.throughput(Throughput::Elements(BATCH)).measurement_time(Duration::from_secs(2)).sample_size(10);
    for (name, keys) in [("without keys", Keys::None), ("new keys", Keys::New), ("known keys", Keys::Known)] {
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|iterations| (0..iterations).map(|_| bench.append(keys)).sum());
        });
    }
    group.finish();
}

criterion_group!(benches, deduplication);
criterion_main!(benches);
