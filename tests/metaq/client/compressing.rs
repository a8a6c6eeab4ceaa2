//! Bodies that travel compressed: what the Java client wrote, and what ours writes.

use std::fmt::Write;

use metaq::client::{CompressionType, Message, Received, UnpackError};
use metaq::env::Millis;
use metaq::proto::message::{encode_record, parse, sys_flag, BodyCrc, NewRecord, Parsed};
use proptest::prelude::{any, prop, ProptestConfig};
use proptest::proptest;

use super::support::Cluster;
use crate::vectors::compressed;

/// The sysFlag's type bits and the name of each compression that a client may write.
const KINDS: [(i32, &str); 4] = [(0x001, "zlib"), (0x101, "lz4"), (0x201, "zstd"), (0x301, "zlib")];

/// As the generator of the vectors makes it.
fn java_body(lines: u32) -> Vec<u8> {
    let mut text = String::new();
    for line in 0..lines {
        writeln!(text, "order {line} of customer {}, amount {}", line % 89, line * 31 % 101).unwrap();
    }
    text.into_bytes()
}

/// A message with a body as it lies in a broker's log.
fn stored(flags: i32, body: &[u8]) -> Received {
    let mut bytes = Vec::new();
    let record = NewRecord {
        topic: "Orders",
        queue_id: 0,
        flag: 0,
        sys_flag: flags,
        born_timestamp: Millis(0),
        born_host: ([127, 0, 0, 1], 1).into(),
        store_host: ([127, 0, 0, 1], 2).into(),
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body,
        properties: "",
        edits: &[],
    };
    encode_record(&mut bytes, &record).unwrap();
    let Ok(Parsed::Record(record)) = parse(&bytes, BodyCrc::Verify) else { panic!("no record") };
    Received::of_record("broker-a", &record)
}

#[test]
fn bodies_that_the_java_client_compressed_are_read() {
    for (flags, name) in KINDS {
        for (size, lines) in [("short", 200), ("long", 4000)] {
            let message = stored(flags, &compressed(&format!("{name}-{size}.bin")));
            assert_eq!(message.body_error, None, "{name}-{size}");
            assert!(message.body == java_body(lines), "{name}-{size}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever bytes come: a body or an error, and never a panic.
    #[test]
    fn damaged_bodies_are_an_error_or_a_body(
        kind in 0..KINDS.len(),
        at in any::<prop::sample::Index>(),
        with in prop::collection::vec(any::<u8>(), 0..8),
    ) {
        let (flags, name) = KINDS[kind];
        let mut bytes = compressed(&format!("{name}-short.bin"));
        let at = at.index(bytes.len());
        let end = bytes.len().min(at + with.len());
        bytes.splice(at..end, with);
        let message = stored(flags, &bytes);
        let is_as_it_came = message.body == bytes;
        assert_eq!(message.body_error.is_some(), is_as_it_came);
        assert!(!matches!(message.body_error, Some(UnpackError::UnknownType(_))));
    }
}

#[tokio::test]
async fn long_bodies_travel_compressed() {
    let cluster = Cluster::start(1, "").await;
    let client = cluster.client();
    let body = java_body(200);
    let kinds = [CompressionType::Zlib, CompressionType::Lz4, CompressionType::Zstd];
    for (kind, flags) in kinds.into_iter().zip([0x301, 0x101, 0x201]) {
        let producer = client.producer("pg").compress_with(kind).start().unwrap();
        let sent = producer.send(Message::new("Orders", body.clone())).await.unwrap();
        let stored = client.admin().message_by_id(&sent.offset_message_id).await.unwrap();
        assert!(stored.body == body, "{kind:?}");
        assert_eq!(stored.sys_flag & (sys_flag::COMPRESSED | sys_flag::COMPRESSION_MASK), flags);
        assert!(stored.size < body.len() / 2, "{kind:?}: {} bytes", stored.size);

        let short = producer.send(Message::new("Orders", "short")).await.unwrap();
        assert_eq!(client.admin().message_by_id(&short.offset_message_id).await.unwrap().sys_flag & 0x701, 0);
        producer.close().await;
    }
}
