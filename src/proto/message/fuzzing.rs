//! What has to hold for any bytes: shared by the fuzz targets, the corpus and the property tests. Each function takes
//! whatever comes and panics only if a promise is broken.

use super::properties::{self, Edit};
use super::record::{self, BodyCrc, Parsed, RecordView};
use super::{batch, encode_record, patch_offsets, NewRecord};

/// Bytes are a record, a filler or an error; a record written again from its fields is the same record.
pub fn record(bytes: &[u8]) {
    for crc in [BodyCrc::Verify, BodyCrc::Trust] {
        match record::parse(bytes, crc) {
            Ok(Parsed::Record(view)) => record_survives(&view),
            Ok(Parsed::Blank { size }) => assert!(size as usize <= bytes.len()),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    let covered: usize = record::iterate(bytes, BodyCrc::Trust).flatten().map(|view| view.bytes().len()).sum();
    assert!(covered <= bytes.len());
}

fn record_survives(view: &RecordView<'_>) {
    let _ = view.check_property_crc();
    let (topic, properties) = (view.topic(), view.properties());
    let mut again = Vec::new();
    // Texts that were no UTF-8 may have grown beyond what a record holds.
    let Ok(size) = encode_record(&mut again, &NewRecord::copy_of(view, &topic, &properties)) else { return };
    patch_offsets(&mut again, view.queue_offset(), view.physical_offset(), view.store_timestamp());
    assert_eq!(size, again.len());
    let Ok(Parsed::Record(copy)) = record::parse(&again, BodyCrc::Verify) else {
        panic!("a record just written is not one");
    };
    assert_eq!((copy.topic(), copy.properties(), copy.body()), (topic, properties, view.body()));
    assert_eq!((copy.queue_id(), copy.flag(), copy.sys_flag()), (view.queue_id(), view.flag(), view.sys_flag()));
    assert_eq!((copy.born_host(), copy.store_host()), (view.born_host(), view.store_host()));
    assert_eq!((copy.born_timestamp(), copy.store_timestamp()), (view.born_timestamp(), view.store_timestamp()));
    assert_eq!((copy.queue_offset(), copy.physical_offset()), (view.queue_offset(), view.physical_offset()));
    assert_eq!(copy.reconsume_times(), view.reconsume_times());
    assert_eq!(copy.prepared_transaction_offset(), view.prepared_transaction_offset());
}

/// Any text has properties; edits change what they name and nothing else.
pub fn properties(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    assert_eq!(properties::edited(&text, &[]), text);
    let pairs: Vec<_> = properties::iterate(&text).collect();
    // Names beyond the first few add nothing but time.
    for (name, value) in pairs.iter().copied().take(16) {
        let last = pairs.iter().rev().find(|(other, _)| *other == name).map(|(_, value)| *value);
        assert_eq!(properties::find(&text, name), last);
        let others = || pairs.iter().copied().filter(|(other, _)| *other != name);

        let removed = properties::edited(&text, &[Edit::Remove(name)]);
        assert!(properties::iterate(&removed).eq(others()), "{text:?} without {name:?} is {removed:?}");
        let set = properties::edited(&removed, &[Edit::SetIfAbsent(name, value)]);
        assert!(properties::iterate(&set).eq(others().chain([(name, value)])), "{set:?}");
        assert_eq!(properties::edited(&set, &[Edit::SetIfAbsent(name, "other")]), set);
        assert_eq!(properties::edited(&text, &[Edit::Set(name, value)]), set);
    }
    let mut appended = text.into_owned();
    properties::append(&mut appended, "name", "value");
    assert_eq!(properties::find(&appended, "name"), Some("value"));
    assert!(properties::keys(&appended).all(|key| !key.is_empty()));
}

/// Bytes are a batch or an error; the items written again are the same bytes.
pub fn batch(bytes: &[u8]) {
    let mut again = Vec::new();
    for item in batch::items(bytes) {
        let Ok(item) = item else {
            assert!(batch::count(bytes).is_err());
            break;
        };
        assert_eq!(batch::push_item(&mut again, &item), Ok(()));
    }
    // Two words of an item say nothing, so they need not come back: compare lengths and what is read.
    assert!(again.len() <= bytes.len());
    assert!(batch::items(&again).flatten().eq(batch::items(bytes).map_while(Result::ok)));
}
