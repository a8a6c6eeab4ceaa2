//! What deciding on one message costs: `cargo bench --bench filter`.
#![allow(missing_docs, reason = "criterion's macro makes a public function without a text")]

use std::hint::black_box;

use criterion::{criterion_group, criterion_main, Criterion};
use metaq::env::Millis;
use metaq::proto::filter::{ExpressionType, Filter, Sql};
use metaq::proto::message::hash::tags_code;
use metaq::proto::message::{encode_record, NewRecord};

/// As a Java client and a broker leave them, with four of the application's own.
const PROPERTIES: &str = "region\u{1}eu-west\u{2}price\u{1}149\u{2}vip\u{1}true\u{2}MSG_REGION\u{1}DefaultRegion\u{2}\
    UNIQ_KEY\u{1}C0A801141A2B18B4AAC247B760000000\u{2}CLUSTER\u{1}DefaultCluster\u{2}WAIT\u{1}true\u{2}\
    kind\u{1}book\u{2}TAGS\u{1}TagA\u{2}TRACE_ON\u{1}true\u{2}";

const EXPRESSIONS: [(&str, &str); 5] = [
    ("one number", "price > 100"),
    ("one text", "kind = 'book'"),
    ("absent", "none IS NULL"),
    (
        "five conditions",
        "price BETWEEN 100 AND 200 AND region IN ('eu-west', 'eu-north') AND vip = TRUE AND none IS NULL",
    ),
    ("a long list", "kind IN ('a','b','c','d','e','f','g','h','i','j','k','l','m','n','o','p') OR kind = 'book'"),
];

fn filters(criterion: &mut Criterion) {
    let mut record = Vec::new();
    let new = NewRecord {
        topic: "TopicTest",
        queue_id: 3,
        flag: 0,
        sys_flag: 0,
        born_timestamp: Millis(1_700_000_000_000),
        born_host: ([127, 0, 0, 1], 50_000).into(),
        store_host: ([127, 0, 0, 1], 10_911).into(),
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body: &[b'x'; 1024],
        properties: PROPERTIES,
        edits: &[],
    };
    encode_record(&mut record, &new).expect("a record");
    let code = tags_code("TagA");

    let tags = Filter::compile(&ExpressionType::Tag, "TagA || TagB || TagC").expect("tags");
    criterion.bench_function("tags, by the queue entry", |bencher| {
        bencher.iter(|| black_box(&tags).matches_code(black_box(code)));
    });
    for (name, expression) in EXPRESSIONS {
        let sql = Filter::compile(&ExpressionType::Sql92, expression).expect("an expression");
        assert!(sql.matches_record(&record), "{expression}");
        criterion.bench_function(&format!("SQL92 on a record, {name}"), |bencher| {
            bencher.iter(|| black_box(&sql).matches_record(black_box(&record)));
        });
    }
    let (_, longest) = EXPRESSIONS[3];
    criterion.bench_function("compile five conditions", |bencher| {
        bencher.iter(|| Sql::compile(black_box(longest)));
    });
}

criterion_group!(benches, filters);
criterion_main!(benches);
