//! What reading a send's header costs, which every message pays: `cargo bench --bench header`.
#![allow(missing_docs, reason = "criterion's macro makes a public function without a text")]

use std::collections::HashMap;
use std::hint::black_box;

use criterion::{criterion_group, criterion_main, Criterion};
use metaq::proto::remoting::requests::{PullHeader, SendHeader, SendResponse};
use metaq::proto::remoting::{frame, Head, RawFrame, ResponseFrame, Serialization};

/// Frames of real clients, with a name for the results.
const SENDS: [(&str, &str); 4] = [
    ("send V2 JSON", include_str!("../tests/vectors/wire/07_send_message_v2_request_json.hex")),
    ("send V2 JSON real", include_str!("../tests/vectors/wire/35_real_send_v2_request.hex")),
    ("send V2 binary real", include_str!("../tests/vectors/wire/37_real_send_v2_request_rocketmq.hex")),
    ("send V1 JSON", include_str!("../tests/vectors/wire/28_send_message_request_go_style.hex")),
];
const PULL: &str = include_str!("../tests/vectors/wire/41_real_pull_request_push_consumer.hex");

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).expect("ascii"), 16).expect("hex");
    digits.chunks(2).map(byte).collect()
}

fn cut(bytes: &[u8]) -> RawFrame<'_> {
    frame::next(bytes).expect("a frame").expect("all of it")
}

/// A header as a parser for any JSON gives it: everything owned, the fields in a map.
#[derive(serde::Deserialize)]
#[expect(dead_code, reason = "filling the members is what is measured")]
#[serde(rename_all = "camelCase")]
struct Generic {
    code: i32,
    language: String,
    version: i32,
    opaque: i32,
    flag: i32,
    remark: Option<String>,
    ext_fields: HashMap<String, String>,
}

fn sends(criterion: &mut Criterion) {
    for (name, hex) in SENDS {
        let bytes = bytes(hex);
        let RawFrame { serialization, header, .. } = cut(&bytes);
        let mut group = criterion.benchmark_group(name);
        let mut head = Head::default();
        group.bench_function("header", |bencher| {
            bencher.iter(|| {
                head.read(serialization, black_box(header)).expect("a header");
                black_box(&head);
            });
        });
        group.bench_function("header and fields", |bencher| {
            bencher.iter(|| {
                head.read(serialization, black_box(header)).expect("a header");
                black_box(&SendHeader::decode(head.code, &head.ext).expect("a send"));
            });
        });
        group.bench_function("header into a new head, and fields", |bencher| {
            bencher.iter(|| {
                let head = Head::parse(serialization, black_box(header)).expect("a header");
                black_box(&SendHeader::decode(head.code, &head.ext).expect("a send"));
            });
        });
        let mut properties = Vec::with_capacity(1024);
        group.bench_function("properties", |bencher| {
            head.read(serialization, header).expect("a header");
            let send = SendHeader::decode(head.code, &head.ext).expect("a send");
            bencher.iter(|| {
                properties.clear();
                black_box(send.properties).append_to(&mut properties);
                black_box(&properties);
            });
        });
        if serialization == Serialization::Json {
            group.bench_function("serde_json into a map", |bencher| {
                bencher.iter(|| black_box(serde_json::from_slice::<Generic>(black_box(header)).expect("a header")));
            });
        }
        group.finish();
    }
}

fn pull(criterion: &mut Criterion) {
    let bytes = bytes(PULL);
    let frame = cut(&bytes);
    let mut head = Head::default();
    criterion.bench_function("pull JSON real/header and fields", |bencher| {
        bencher.iter(|| {
            head.read(frame.serialization, black_box(frame.header)).expect("a header");
            black_box(&PullHeader::decode(&head.ext).expect("a pull"));
        });
    });
}

fn answer(criterion: &mut Criterion) {
    let answer = SendResponse {
        msg_id: "7F00000100003E2700000000000050DB".into(),
        queue_id: 2,
        queue_offset: 41_234,
        transaction_id: Some("FD000000000000000000000000000002753F4E0E2F2A972C59860000".into()),
        region: Some("DefaultRegion".into()),
        trace_on: Some(true),
        batch_uniq_id: None,
        recall_handle: None,
    };
    let mut out = Vec::with_capacity(1024);
    for (name, serialization) in [("JSON", Serialization::Json), ("binary", Serialization::RocketMq)] {
        criterion.bench_function(&format!("send answer {name}"), |bencher| {
            bencher.iter(|| {
                out.clear();
                let frame = ResponseFrame::begin(&mut out, serialization, 7, 0, None, |ext| answer.encode(ext));
                frame.finish(&mut out);
                black_box(&out);
            });
        });
    }
}

criterion_group!(benches, sends, pull, answer);
criterion_main!(benches);
