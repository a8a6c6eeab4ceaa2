//! Message traces: what clients note in the trace topic about the messages they send and consume.
//!
//! A trace message holds records, each closed by U+0002, of fields with U+0001 between them; its keys are the ids and keys
//! of the messages in it. Clients of different ages write records of different lengths, so fields that a record lacks
//! are empty.

use std::fmt::Write;

/// Between two fields.
const FIELD_END: char = '\u{1}';
/// Behind a record.
const RECORD_END: char = '\u{2}';

/// Something that happened to a message, as a client tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// What happened.
    pub kind: TraceKind,
    /// When, ms since 1970 by the client's clock; 0: not told.
    pub at: i64,
    /// The group it happened in.
    pub group: String,
    /// The message's id; those of a batch with commas between them.
    pub message_id: String,
    /// The message's keys.
    pub keys: String,
}

/// The things that happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceKind {
    /// It was sent, or should have been.
    Sent {
        /// The broker's region.
        region: String,
        /// Where it was sent.
        topic: String,
        /// Its tag.
        tags: String,
        /// The broker's address.
        store_host: String,
        /// Bytes of its body.
        body_bytes: i64,
        /// How long it took, in ms.
        took_ms: i64,
        /// 0 plain, 1 half, 2 committed, 3 delayed, 4 ordered.
        message_type: i32,
        /// The id of its place.
        offset_message_id: String,
        /// Whether it is stored.
        success: bool,
        /// The client's address; older clients do not tell.
        client_host: String,
    },
    /// A listener gets it.
    Consuming {
        /// The broker's region.
        region: String,
        /// Ties it to its end.
        request_id: String,
        /// How often it came before.
        retry_times: i32,
        /// The client's address or id; most clients do not tell.
        client_host: String,
    },
    /// A listener is done with it.
    Consumed {
        /// Ties it to its beginning.
        request_id: String,
        /// How long the call took, in ms.
        took_ms: i64,
        /// Whether it is consumed.
        success: bool,
        /// 0 success, 1 time-out, 2 exception, 3 no answer, 4 failure.
        code: i32,
    },
    /// The end of a transaction was told to the broker.
    EndTransaction {
        /// The topic.
        topic: String,
        /// `COMMIT_MESSAGE`, `ROLLBACK_MESSAGE` or `UNKNOW`.
        state: String,
        /// Whether the broker had asked.
        checked: bool,
    },
}

impl Trace {
    /// Appends the record as Java's clients write it.
    pub fn encode(&self, out: &mut String) {
        let Trace { at, group, message_id, keys, .. } = self;
        // Writing to a String never fails. Separators within fields would make two of one.
        let mut fields = Fields { out, first: true };
        match &self.kind {
            TraceKind::Sent {
                region,
                topic,
                tags,
                store_host,
                body_bytes,
                took_ms,
                message_type,
                offset_message_id,
                success,
                client_host,
            } => {
                fields.put("Pub").put(at).put(region).put(group).put(topic).put(message_id).put(tags).put(keys);
                fields.put(store_host).put(body_bytes).put(took_ms).put(message_type).put(offset_message_id);
                fields.put(success).put(client_host);
            }
            TraceKind::Consuming { region, request_id, retry_times, client_host } => {
                fields.put("SubBefore").put(at).put(region).put(group).put(request_id).put(message_id);
                fields.put(retry_times).put(keys).put(client_host);
            }
            TraceKind::Consumed { request_id, took_ms, success, code } => {
                fields.put("SubAfter").put(request_id).put(message_id).put(took_ms).put(success).put(keys);
                fields.put(code).put(at).put(group);
            }
            TraceKind::EndTransaction { topic, state, checked } => {
                fields.put("EndTransaction").put(at).put("").put(group).put(topic).put(message_id).put("").put(keys);
                fields.put("").put(2).put("").put(state).put(checked);
            }
        }
        out.push(RECORD_END);
    }

    /// The records of a trace message, as far as they are known.
    pub fn decode_all(body: &str) -> impl Iterator<Item = Trace> + '_ {
        body.split(RECORD_END).filter_map(Trace::decode)
    }

    fn decode(record: &str) -> Option<Trace> {
        let fields: Vec<&str> = record.split(FIELD_END).collect();
        let text = |index: usize| fields.get(index).copied().unwrap_or_default().to_owned();
        let number = |index: usize| text(index).parse::<i64>().unwrap_or(0);
        let (kind, at, group, message_id, keys) = match *fields.first()? {
            "Pub" if fields.len() >= 12 => {
                // The oldest clients did not tell the place's id.
                let old = fields.len() == 13;
                let kind = TraceKind::Sent {
                    region: text(2),
                    topic: text(4),
                    tags: text(6),
                    store_host: text(8),
                    body_bytes: number(9),
                    took_ms: number(10),
                    message_type: number(11) as i32,
                    offset_message_id: if old { String::new() } else { text(12) },
                    success: text(if old { 12 } else { 13 }) != "false",
                    client_host: text(14),
                };
                (kind, number(1), text(3), text(5), text(7))
            }
            "SubBefore" if fields.len() >= 8 => {
                let kind = TraceKind::Consuming {
                    region: text(2),
                    request_id: text(4),
                    retry_times: number(6) as i32,
                    client_host: text(8),
                };
                (kind, number(1), text(3), text(5), text(7))
            }
            "SubAfter" if fields.len() >= 6 => {
                let kind = TraceKind::Consumed {
                    request_id: text(1),
                    took_ms: number(3),
                    success: text(4) == "true",
                    code: number(6) as i32,
                };
                (kind, number(7), text(8), text(2), text(5))
            }
            "EndTransaction" if fields.len() >= 13 => {
                let kind = TraceKind::EndTransaction { topic: text(4), state: text(11), checked: text(12) == "true" };
                (kind, number(1), text(3), text(5), text(7))
            }
            _ => return None,
        };
        Some(Trace { kind, at, group, message_id, keys })
    }

    /// Whether it is about the message with this id, or with this key.
    pub fn is_about(&self, id_or_key: &str) -> bool {
        let in_place =
            matches!(&self.kind, TraceKind::Sent { offset_message_id, .. } if offset_message_id == id_or_key);
        in_place
            || self.message_id.split(',').any(|id| id == id_or_key)
            || self.keys.split(' ').any(|key| key == id_or_key)
    }
}

/// Writes fields, with what parts them between.
struct Fields<'a> {
    out: &'a mut String,
    first: bool,
}

impl Fields<'_> {
    fn put(&mut self, value: impl std::fmt::Display) -> &mut Self {
        if !std::mem::take(&mut self.first) {
            self.out.push(FIELD_END);
        }
        let _ = write!(self.out, "{value}");
        self
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn one(record: &str) -> Trace {
        Trace::decode_all(&record.replace('|', "\u{1}")).next().expect(record)
    }

    #[test]
    fn sends_of_all_ages_are_read() {
        let newest = one(
            "Pub|1700000000000|DefaultRegion|pg|Orders|AC10|TagA|k1 k2|10.0.0.1:10911|12|3|4|0A00|true|10.0.0.9\u{2}",
        );
        assert_eq!((newest.at, newest.group.as_str(), newest.keys.as_str()), (1_700_000_000_000, "pg", "k1 k2"));
        let TraceKind::Sent { took_ms, message_type, success, client_host, .. } = &newest.kind else { panic!() };
        assert_eq!((*took_ms, *message_type, *success, client_host.as_str()), (3, 4, true, "10.0.0.9"));
        assert!(newest.is_about("AC10") && newest.is_about("k2") && newest.is_about("0A00") && !newest.is_about("k"));
        let oldest = one("Pub|1|r|pg|Orders|AC10|TagA|k1|h|12|3|0|false\u{2}");
        assert!(
            matches!(oldest.kind, TraceKind::Sent { success: false, ref offset_message_id, .. } if offset_message_id.is_empty())
        );
    }

    #[test]
    fn consumptions_of_all_ages_are_read() {
        let before = one("SubBefore|5|r|cg|req|AC10|2|k1\u{2}");
        assert!(matches!(before.kind, TraceKind::Consuming { retry_times: 2, .. }) && before.group == "cg");
        let after = one("SubAfter|req|AC10|7|true|k1|4|9|cg\u{2}");
        assert_eq!((after.at, after.group.as_str()), (9, "cg"));
        assert!(matches!(after.kind, TraceKind::Consumed { took_ms: 7, success: true, code: 4, .. }));
        let old = one("SubAfter|req|AC10|7|false|k1\u{2}");
        assert!(matches!(old.kind, TraceKind::Consumed { success: false, code: 0, .. }) && old.group.is_empty());
        assert_eq!(Trace::decode_all("Odd\u{1}x\u{2}\u{2}Pub\u{1}1\u{2}").count(), 0, "what nobody knows is left out");
    }

    fn text() -> impl Strategy<Value = String> {
        "[a-zA-Z0-9 :.,|标]{0,8}"
    }

    fn kind() -> impl Strategy<Value = TraceKind> {
        let sent = (
            (text(), text(), text(), text(), text()),
            (any::<i64>(), any::<i64>(), any::<i32>(), any::<bool>(), text()),
        )
            .prop_map(|(texts, numbers)| TraceKind::Sent {
                region: texts.0,
                topic: texts.1,
                tags: texts.2,
                store_host: texts.3,
                offset_message_id: texts.4,
                body_bytes: numbers.0,
                took_ms: numbers.1,
                message_type: numbers.2,
                success: numbers.3,
                client_host: numbers.4,
            });
        let consuming =
            (text(), text(), any::<i32>(), text()).prop_map(|(region, request_id, retry_times, client_host)| {
                TraceKind::Consuming { region, request_id, retry_times, client_host }
            });
        let consumed =
            (text(), any::<i64>(), any::<bool>(), any::<i32>()).prop_map(|(request_id, took_ms, success, code)| {
                TraceKind::Consumed { request_id, took_ms, success, code }
            });
        let ended = (text(), text(), any::<bool>()).prop_map(|(topic, state, checked)| TraceKind::EndTransaction {
            topic,
            state,
            checked,
        });
        prop_oneof![sent, consuming, consumed, ended]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            kinds in prop::collection::vec(kind(), 0..4),
            at in any::<i64>(),
            (group, message_id, keys) in (text(), text(), text()),
        ) {
            let record = |kind| {
                Trace { kind, at, group: group.clone(), message_id: message_id.clone(), keys: keys.clone() }
            };
            let records: Vec<Trace> = kinds.into_iter().map(record).collect();
            let mut written = String::new();
            records.iter().for_each(|trace| trace.encode(&mut written));
            prop_assert_eq!(Trace::decode_all(&written).collect::<Vec<_>>(), records);
        }

        #[test]
        fn any_text_is_read(text in "[\u{1}\u{2}a-zA-Z0-9]{0,64}", kind in "(Pub|SubBefore|SubAfter|EndTransaction)") {
            let _ = Trace::decode_all(&format!("{kind}\u{1}{text}")).count();
        }
    }
}
