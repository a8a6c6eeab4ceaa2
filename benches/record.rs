//! Encoding and reading records.
#![allow(missing_docs, reason = "criterion's macro makes a public function without a text")]

use std::hint::black_box;

use criterion::{Criterion, Throughput};
use metaq::env::Millis;
use metaq::proto::message::properties::{self, Edit};
use metaq::proto::message::{encode_record, parse, patch_offsets, BodyCrc, NewRecord};
use metaq::proto::{PhysicalOffset, QueueOffset};

const PROPERTIES: &str = "UNIQ_KEY\u{1}C0A801141A2B18B4AAC247B760000000\u{2}WAIT\u{1}true\u{2}TAGS\u{1}TagA\u{2}";

/// What a broker stamps on each message.
const EDITS: [Edit<'static>; 3] = [
    Edit::Set(properties::MSG_REGION, "DefaultRegion"),
    Edit::Set(properties::TRACE_ON, "true"),
    Edit::Set(properties::CLUSTER, "DefaultCluster"),
];

fn record(body: &[u8]) -> NewRecord<'_> {
    NewRecord {
        topic: "TopicTest",
        queue_id: 3,
        flag: 0,
        sys_flag: 0,
        born_timestamp: Millis(1_700_000_000_000),
        born_host: ([127, 0, 0, 1], 50_000).into(),
        store_host: ([127, 0, 0, 1], 10_911).into(),
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body,
        properties: PROPERTIES,
        edits: &EDITS,
    }
}

fn records(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("record");
    for size in [128_usize, 1024, 16 * 1024] {
        let body = vec![b'x'; size];
        group.throughput(Throughput::Bytes(size as u64));
        let mut out = Vec::new();
        group.bench_function(format!("encode and patch, {size} bytes"), |bencher| {
            bencher.iter(|| {
                out.clear();
                encode_record(&mut out, black_box(&record(&body))).expect("a record");
                patch_offsets(&mut out, QueueOffset(7), PhysicalOffset(4711), Millis(1_700_000_000_001));
                black_box(out.len())
            });
        });
        group.bench_function(format!("parse and verify, {size} bytes"), |bencher| {
            bencher.iter(|| black_box(parse(black_box(&out), BodyCrc::Verify).is_ok()));
        });
    }
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    records(&mut criterion);
    criterion.final_summary();
}
