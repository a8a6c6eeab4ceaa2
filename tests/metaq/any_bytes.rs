//! Any bytes are a value or an error, never a panic: over the committed corpus, over every vector cut and damaged, and
//! over what proptest makes up.

use std::net::{IpAddr, SocketAddr};

use metaq::env::Millis;
use metaq::proto::filter::fuzzing as expressions;
use metaq::proto::message::record::{self, BodyCrc, Parsed};
use metaq::proto::message::{batch, encode_record, fuzzing as messages, patch_offsets, Edit, NewRecord};
use metaq::proto::{body::fuzzing as bodies, PhysicalOffset, QueueOffset};
use proptest::prelude::*;

use crate::vectors::{corpus, frame_body, store, wire};

#[test]
fn the_corpus() {
    corpus("record").iter().for_each(|bytes| messages::record(bytes));
    corpus("properties").iter().for_each(|bytes| messages::properties(bytes));
    corpus("sql").iter().for_each(|bytes| expressions::sql(bytes));
    corpus("batch").iter().for_each(|bytes| messages::batch(bytes));
    corpus("heartbeat").iter().for_each(|bytes| bodies::heartbeat(bytes));
    corpus("body").iter().for_each(|bytes| bodies::bodies(bytes));
}

/// Calls `check` with every beginning of `bytes` and with every byte changed in four ways.
fn damage(bytes: &[u8], check: fn(&[u8])) {
    (0..=bytes.len()).for_each(|end| check(&bytes[..end]));
    let mut bytes = bytes.to_vec();
    for at in 0..bytes.len() {
        let whole = bytes[at];
        for damaged in [0, 0x7F, 0xFF, whole ^ 0x80] {
            bytes[at] = damaged;
            check(&bytes);
        }
        bytes[at] = whole;
    }
}

#[test]
fn damaged_records_and_batches() {
    for name in ["record_v1", "record_v1_ipv6", "record_v2", "record_v1_propcrc", "record_v1_empty"] {
        damage(&store(&format!("bin/{name}.bin")), messages::record);
    }
    damage(frame_body(&wire("38_real_batch_request")), messages::batch);
}

#[test]
fn damaged_bodies() {
    damage(frame_body(&wire("11_heartbeat_request_json")), bodies::heartbeat);
    damage(frame_body(&wire("25_register_broker_request_compressed")), bodies::registration);
    for name in ["03_route_response_json", "20_reset_client_offset_request_json", "30_consume_stats_response_json"] {
        damage(frame_body(&wire(name)), bodies::bodies);
    }
}

fn host() -> impl Strategy<Value = SocketAddr> {
    (any::<IpAddr>(), any::<u16>()).prop_map(|(address, port)| SocketAddr::new(address, port))
}

/// A text of properties: mostly well formed, with the separators in odd places now and then.
fn properties() -> impl Strategy<Value = String> {
    let segment = prop_oneof![
        8 => ("(KEYS|TAGS|UNIQ_KEY|a|键)", "[a-z 标🚀]{1,12}").prop_map(|(name, value)| format!("{name}\u{1}{value}")),
        1 => "[\u{1}a-c]{0,4}",
    ];
    (prop::collection::vec(segment, 0..8), any::<bool>()).prop_map(|(segments, closed)| {
        let text = segments.join("\u{2}");
        if closed && !text.is_empty() {
            text + "\u{2}"
        } else {
            text
        }
    })
}

proptest! {
    #[test]
    fn records_come_back(
        topic in "[%a-zA-Z0-9_-]{1,255}",
        numbers in any::<[i32; 4]>(),
        longs in any::<[i64; 3]>(),
        hosts in (host(), host()),
        offsets in any::<(u64, u64)>(),
        body in prop::collection::vec(any::<u8>(), 0..300),
        properties in properties(),
    ) {
        let [queue_id, flag, sys_flag, reconsume_times] = numbers;
        let [born, stored, prepared_transaction_offset] = longs;
        let new = NewRecord {
            topic: &topic,
            queue_id,
            flag,
            sys_flag,
            born_timestamp: Millis(born),
            born_host: hosts.0,
            store_host: hosts.1,
            reconsume_times,
            prepared_transaction_offset,
            body: &body,
            properties: &properties,
            edits: &[Edit::Set("CLUSTER", "DefaultCluster")],
        };
        let mut bytes = b"batch so far".to_vec();
        let size = encode_record(&mut bytes, &new).unwrap();
        prop_assert!(bytes.starts_with(b"batch so far"));
        let record_bytes = &mut bytes[12..];
        prop_assert_eq!(record_bytes.len(), size);
        patch_offsets(record_bytes, QueueOffset(offsets.0), PhysicalOffset(offsets.1), Millis(stored));

        let Ok(Parsed::Record(view)) = record::parse(record_bytes, BodyCrc::Verify) else { panic!("not a record") };
        prop_assert_eq!(view.topic(), topic.as_str());
        prop_assert_eq!(view.magic(), if topic.len() > 127 { record::MAGIC_V2 } else { record::MAGIC_V1 });
        prop_assert_eq!((view.queue_id(), view.flag(), view.reconsume_times()), (queue_id, flag, reconsume_times));
        prop_assert_eq!(view.sys_flag() & !0x30, sys_flag & !0x30);
        prop_assert_eq!((view.born_host(), view.store_host()), hosts);
        prop_assert_eq!((view.born_timestamp(), view.store_timestamp()), (Millis(born), Millis(stored)));
        prop_assert_eq!((view.queue_offset().0, view.physical_offset().0), offsets);
        prop_assert_eq!(view.prepared_transaction_offset(), prepared_transaction_offset);
        prop_assert_eq!(view.body(), &body);
        messages::record(record_bytes);
    }

    #[test]
    fn properties_change_only_by_their_edits(text in properties()) {
        messages::properties(text.as_bytes());
    }

    #[test]
    fn batches_come_back(
        items in prop::collection::vec((any::<i32>(), prop::collection::vec(any::<u8>(), 0..40), properties()), 1..6)
    ) {
        let mut bytes = Vec::new();
        for (flag, body, properties) in &items {
            batch::push_item(&mut bytes, &batch::Item { flag: *flag, body, properties }).unwrap();
        }
        prop_assert_eq!(batch::count(&bytes), Ok(items.len()));
        messages::batch(&bytes);
    }

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        messages::record(&bytes);
        messages::properties(&bytes);
        messages::batch(&bytes);
        bodies::bodies(&bytes);
    }

    /// Bytes that look like JSON go deeper into the reader than any bytes do.
    #[test]
    fn any_json_like_text(tokens in prop::collection::vec(prop::sample::select(TOKENS), 0..60)) {
        bodies::bodies(tokens.concat().as_bytes());
        bodies::bodies(["{", &tokens.concat()].concat().as_bytes());
    }
}

const TOKENS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\"",
    "\\",
    "\\u00",
    "null",
    "true",
    "0",
    "-1",
    "1.5e3",
    "9223372036854775808",
    " ",
    "\"clientID\":\"c\"",
    "\"offsetTable\":",
    "\"topic\":\"T\"",
    "{\"brokerName\":\"b\",\"queueId\":1,\"topic\":\"T\"}:",
    "\"consumerDataSet\":[{\"groupName\":\"g\",\"consumeType\":1,\"subscriptionDataSet\":[",
    "\"subString\":\"A || B\"",
    "\"codeSet\":[\"1\",2]",
    "\"table\":{\"a\":1}",
    "\"dataVersion\":",
    "\"counter\":3",
    "{0:1,\"2\":3}",
    "{\"$ref\":\"$\"}",
];
