//! Stored records, batches, tags codes and ids against RocketMQ's own bytes.

use std::net::SocketAddr;

use metaq::env::Millis;
use metaq::proto::message::record::{self, BodyCrc, Parsed, RecordError, RecordView};
use metaq::proto::message::{batch, hash, ids, patch_offsets, properties, sys_flag, Edit, EncodeError, NewRecord};
use metaq::proto::message::{encode_record, DelayLevels};

use crate::vectors::{frame_body, store, store_json, wire};

fn view(bytes: &[u8]) -> RecordView<'_> {
    match record::parse(bytes, BodyCrc::Verify) {
        Ok(Parsed::Record(view)) => view,
        other => panic!("{other:?}"),
    }
}

/// The record written again from its fields.
fn encode_again(view: &RecordView<'_>) -> Vec<u8> {
    let (topic, properties) = (view.topic(), view.properties());
    let mut out = Vec::new();
    let size =
        encode_record(&mut out, &NewRecord::copy_of(view, &topic, &properties)).expect("a record that was stored");
    assert_eq!(size, out.len());
    patch_offsets(&mut out, view.queue_offset(), view.physical_offset(), view.store_timestamp());
    out
}

#[test]
fn every_stored_vector_is_written_again_byte_for_byte() {
    let wire_records = ["13_stored_record_v1_ipv4", "16_stored_record_v1_ipv6", "17_stored_record_v2_long_topic"];
    let store_records = [
        "record_v1",
        "record_v1_ipv6",
        "record_v1_empty",
        "record_v1_crc_masked",
        "record_v1_propcrc",
        "record_v1_innerbatch",
        "record_v1_lmq",
        "record_v2",
    ];
    let records = wire_records.map(wire).into_iter().chain(store_records.map(|name| store(&format!("bin/{name}.bin"))));
    for bytes in records {
        let view = view(&bytes);
        assert_eq!(view.total_size() as usize, bytes.len());
        assert_eq!(encode_again(&view), bytes, "{view:?}");
    }
}

#[test]
fn records_of_a_running_apache_broker_are_written_again_byte_for_byte() {
    let bytes = store("captured/records.bin");
    let described = store_json("captured/records.json");
    let mut at = 0;
    for expected in described.as_array().expect("a list of records") {
        let view = view(&bytes[at..]);
        let note = &expected["note"];
        assert_eq!(view.bytes().len() as u64, expected["size"], "{note}");
        assert_eq!(format!("{:08x}", view.magic()), expected["magic"], "{note}");
        assert_eq!(view.body_crc(), expected["bodyCRC"], "{note}");
        assert_eq!(view.queue_id(), expected["queueId"], "{note}");
        assert_eq!(view.flag(), expected["flag"], "{note}");
        assert_eq!(view.queue_offset().0, expected["queueOffset"], "{note}");
        assert_eq!(view.physical_offset().0, expected["physicalOffset"], "{note}");
        assert_eq!(view.sys_flag(), expected["sysFlag"], "{note}");
        assert_eq!(view.born_timestamp().0, expected["bornTimestamp"], "{note}");
        assert_eq!(host(&expected["bornHost"]), view.born_host(), "{note}");
        assert_eq!(view.store_timestamp().0, expected["storeTimestamp"], "{note}");
        assert_eq!(host(&expected["storeHost"]), view.store_host(), "{note}");
        assert_eq!(view.reconsume_times(), expected["reconsumeTimes"], "{note}");
        assert_eq!(view.prepared_transaction_offset(), expected["preparedTransactionOffset"], "{note}");
        assert_eq!(view.topic(), expected["topic"].as_str().expect("a topic"), "{note}");
        let pairs: Vec<_> = properties::iterate(&view.properties()).map(|(k, v)| format!("{k}={v}")).collect();
        let listed = expected["properties"].as_array().expect("a list of properties");
        // A recall marker has an empty TRACE_CONTEXT, which no reader sees.
        let listed: Vec<_> =
            listed.iter().filter_map(|pair| pair.as_str()).filter(|pair| !pair.ends_with('=')).collect();
        assert_eq!(pairs, listed, "{note}");
        assert_eq!(encode_again(&view), view.bytes(), "{note}");
        at += view.bytes().len();
    }
    assert_eq!(at, bytes.len(), "nothing is left over");
    assert_eq!(record::iterate(&bytes, BodyCrc::Verify).filter(Result::is_ok).count(), 24);
}

/// IPv6 hosts are written without brackets there.
fn host(value: &serde_json::Value) -> SocketAddr {
    let text = value.as_str().expect("a host");
    let (address, port) = text.rsplit_once(':').expect("a port");
    let address = address.trim_matches(['[', ']']).parse().expect("an address");
    SocketAddr::new(address, port.parse().expect("a port number"))
}

#[test]
fn fields_of_the_worked_example() {
    let bytes = store("bin/record_v1.bin");
    let view = view(&bytes);
    assert_eq!((view.queue_id(), view.queue_offset().0, view.physical_offset().0), (2, 7, 1_073_742_848));
    assert_eq!((view.born_timestamp(), view.store_timestamp()), (Millis(1_700_000_000_123), Millis(1_700_000_000_456)));
    assert_eq!(view.born_host(), "192.168.1.10:54321".parse().unwrap());
    assert_eq!(view.body(), b"Hello RocketMQ");
    assert_eq!(properties::find(&view.properties(), properties::TAGS), Some("TagA"));
    assert_eq!(ids::offset_message_id(view.store_host(), view.physical_offset()), "0A00000500002A9F0000000040000400");
}

#[test]
fn pull_answers_hold_records_back_to_back() {
    let frame = wire("14_pull_message_response_two_messages");
    let views: Vec<_> = record::iterate(frame_body(&frame), BodyCrc::Verify).collect::<Result<_, _>>().unwrap();
    assert_eq!(views.len(), 2);
    assert_eq!(views[0].bytes(), wire("13_stored_record_v1_ipv4"));
    assert_eq!(sys_flag::Compression::of(views[1].sys_flag()), sys_flag::Compression::Zlib);
    let mut inflated = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::ZlibDecoder::new(views[1].body()), &mut inflated).unwrap();
    assert_eq!(inflated, [b'A'; 200]);
    for name in
        ["43_real_pull_response_found", "49_real_check_transaction_state", "19_check_transaction_state_request_json"]
    {
        let frame = wire(name);
        assert_eq!(record::iterate(frame_body(&frame), BodyCrc::Verify).filter(Result::is_ok).count(), 1, "{name}");
    }
}

#[test]
fn fillers() {
    let mut bytes = store("bin/blank.bin");
    assert_eq!(
        record::parse(&bytes, BodyCrc::Verify),
        Err(RecordError::Truncated { total_size: 500, have: 8 }),
        "a filler reaches to the end of its file"
    );
    bytes.resize(500, 0xFF);
    assert_eq!(record::parse(&bytes, BodyCrc::Verify), Ok(Parsed::Blank { size: 500 }));
    assert_eq!(metaq::proto::message::encode::blank(500), bytes[..8]);
    assert_eq!(record::parse(&store("bin/blank_min.bin"), BodyCrc::Verify), Ok(Parsed::Blank { size: 8 }));
}

#[test]
fn the_record_crc_property() {
    let bytes = store("bin/record_v1_propcrc.bin");
    assert_eq!(view(&bytes).check_property_crc(), Ok(()));
    let mut damaged = bytes.clone();
    damaged[record::FLAG_AT] ^= 1;
    assert_eq!(view(&damaged).check_property_crc(), Err(RecordError::PropertyCrc));
    assert_eq!(view(&store("bin/record_v1.bin")).check_property_crc(), Err(RecordError::PropertyCrc));
}

#[test]
fn tags_codes_of_the_reference() {
    let vectors = store_json("vectors.json");
    for (tag, code) in vectors["tags_codes"].as_object().expect("tags") {
        assert_eq!(hash::tags_code(tag), *code, "{tag}");
    }
    for (tag, code) in vectors["tags_codes_be64"].as_object().expect("tags") {
        assert_eq!(format!("{:016x}", hash::tags_code(tag)), *code, "{tag}");
    }
    for put in vectors["index_default_geometry"]["puts"].as_array().expect("puts") {
        let (topic, key) = put["key"].as_str().and_then(|key| key.split_once('#')).expect("topic#key");
        assert_eq!(hash::index_key_hash(topic, key), put["key_hash"], "{key}");
    }
}

#[test]
fn client_batches() {
    for (name, first_flag) in [("10_send_batch_message_request_json", 0), ("38_real_batch_request", 0)] {
        let frame = wire(name);
        let body = frame_body(&frame);
        let items: Vec<_> = batch::items(body).collect::<Result<_, _>>().unwrap();
        assert_eq!(items.len(), 2, "{name}");
        assert_eq!(batch::count(body), Ok(2));
        assert_eq!((items[0].body, items[0].flag), (b"first".as_slice(), first_flag));
        assert_eq!((items[1].body, items[1].flag), (b"second!".as_slice(), 9));
        assert_eq!(properties::find(items[1].properties, properties::TAGS), Some("TagB"));
        let mut again = Vec::new();
        items.iter().for_each(|item| batch::push_item(&mut again, item).unwrap());
        assert_eq!(again, body, "{name}");
    }
}

fn message<'a>(body: &'a [u8], properties: &'a str, edits: &'a [Edit<'a>]) -> NewRecord<'a> {
    NewRecord {
        topic: "TopicTest",
        queue_id: 0,
        flag: 0,
        sys_flag: 0,
        born_timestamp: Millis(1_700_000_000_000),
        born_host: "127.0.0.1:1234".parse().unwrap(),
        store_host: "127.0.0.1:10911".parse().unwrap(),
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body,
        properties,
        edits,
    }
}

/// STO-7: messages whose checksum is exactly 0 were reported as corrupt.
#[test]
fn sto_7_a_checksum_of_zero_is_a_checksum() {
    let body = [0x9D, 0x0A, 0xD9, 0x6D];
    assert_eq!(record::body_crc(&body), 0);
    let mut bytes = Vec::new();
    encode_record(&mut bytes, &message(&body, "", &[])).unwrap();
    assert_eq!(view(&bytes).body(), body);
    bytes[record::BODY_CRC_AT + 3] = 1;
    assert_eq!(record::parse(&bytes, BodyCrc::Verify), Err(RecordError::BodyCrc { stored: 1, computed: 0 }));
    assert!(record::parse(&bytes, BodyCrc::Trust).is_ok());
}

/// PRO-3: a message with 40 000 bytes of properties was stored damaged.
#[test]
fn pro_3_properties_that_do_not_fit_are_refused() {
    let of_length = |bytes: usize| format!("a\u{1}{}", "x".repeat(bytes - 2));
    let mut out = b"before".to_vec();
    let size = encode_record(&mut out, &message(b"b", &of_length(32_767), &[])).unwrap();
    assert_eq!(view(&out[6..]).properties().len(), 32_767);
    assert_eq!(size, out.len() - 6);
    for bytes in [32_768, 40_000] {
        let refused = encode_record(&mut out, &message(b"b", &of_length(bytes), &[]));
        assert_eq!(refused, Err(EncodeError::Properties { bytes }));
        assert_eq!(out.len(), 6 + size, "nothing of it is left");
    }
    let added = [Edit::Set("CLUSTER", "DefaultCluster")];
    assert!(encode_record(&mut out, &message(b"b", &of_length(32_767), &added)).is_err(), "additions count");

    let mut batch = Vec::new();
    batch::push_item(&mut batch, &batch::Item { flag: 0, body: b"ok", properties: &of_length(32_767) }).unwrap();
    assert_eq!(batch::count(&batch), Ok(1));
    let item_at = batch.len();
    // What a client writes that does not look: the length of 40 000 as 16 bits.
    let long = of_length(40_000);
    for word in [(22 + 2 + long.len()) as i32, 0, 0, 0, 2] {
        batch.extend_from_slice(&word.to_be_bytes());
    }
    batch.extend_from_slice(b"no");
    batch.extend_from_slice(&(long.len() as u16).to_be_bytes());
    batch.extend_from_slice(long.as_bytes());
    let refused = batch::count(&batch).unwrap_err();
    assert_eq!(refused, batch::BatchError::PropertiesTooLong { at: item_at });
    assert_eq!(refused.code(), 13);
}

/// PRO-4: in a batch the last property of a message was merged with the batch's own.
#[test]
fn pro_4_a_batchs_properties_stay_apart_from_its_messages() {
    let header = "UNIQ_KEY\u{1}BATCH\u{2}WAIT\u{1}true";
    let mut edits = Vec::new();
    batch::edits(header, &mut edits);
    edits.push(Edit::Set("CLUSTER", "DefaultCluster"));
    for item in ["UNIQ_KEY\u{1}ONE", "TAGS\u{1}TagA", "KEYS\u{1}k1"] {
        let mut bytes = Vec::new();
        encode_record(&mut bytes, &message(b"b", item, &edits)).unwrap();
        let stored = view(&bytes).properties().into_owned();
        let mut expected: Vec<_> = properties::iterate(item).collect();
        if !item.starts_with("UNIQ_KEY") {
            expected.push(("UNIQ_KEY", "BATCH"));
        }
        expected.extend([("WAIT", "true"), ("CLUSTER", "DefaultCluster")]);
        assert_eq!(properties::iterate(&stored).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn damage_is_an_error_with_a_name() {
    let whole = store("bin/record_v1.bin");
    let parse = |bytes: &[u8]| record::parse(bytes, BodyCrc::Verify).map(|_| ());
    assert_eq!(parse(&[0; 64]), Err(RecordError::Magic { magic: 0 }));
    assert!(parse(&[0; 64]).unwrap_err().is_unwritten());
    assert_eq!(parse(&whole[..7]), Err(RecordError::TooShort { have: 7 }));
    assert_eq!(parse(&whole[..214]), Err(RecordError::Truncated { total_size: 215, have: 214 }));
    let with = |at: usize, byte: u8| {
        let mut bytes = whole.clone();
        bytes[at] = byte;
        parse(&bytes).unwrap_err()
    };
    assert!(matches!(with(0, 0x80), RecordError::Length { .. }), "a negative size");
    assert_eq!(with(3, 214), RecordError::Length { field: "properties" });
    assert!(matches!(with(88, 0), RecordError::BodyCrc { .. }));
    assert_eq!(with(84, 0x80), RecordError::Length { field: "body" });
    assert_eq!(with(102, 0x80), RecordError::Length { field: "topic" });
    assert_eq!(with(113, 100), RecordError::TotalSize { total_size: 215, computed: 214 });
}

#[test]
fn a_delayed_record_is_due_after_its_level() {
    let bytes = store("bin/cq_entry_delay.bin");
    let due = i64::from_be_bytes(bytes[12..].try_into().unwrap());
    assert_eq!(DelayLevels::default().deliver_at(3, Millis(1_700_000_000_456)), Millis(due));
}
