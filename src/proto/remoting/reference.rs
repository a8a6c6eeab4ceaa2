//! The header parser against one that cannot be wrong in the same way: `serde_json` and a map.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::Value;

use super::{frame, fuzzing, Command, Head, Language, RawFrame, Serialization};

/// A header as values.
#[derive(Debug, PartialEq)]
struct Values {
    numbers: [i32; 4],
    language: Language,
    remark: Option<String>,
    ext: BTreeMap<String, String>,
}

fn ours(header: &[u8]) -> Option<Values> {
    let head = Head::parse(Serialization::Json, header).ok()?;
    let mut ext = BTreeMap::new();
    for field in &head.ext {
        let name = field.name.str().into_owned();
        match field.value {
            Some(value) => ext.insert(name, value.str().into_owned()),
            None => ext.remove(&name),
        };
    }
    for (name, value) in &ext {
        assert_eq!(head.ext.str(name).as_deref(), Some(value.as_str()), "looking up is like collecting");
    }
    let numbers = [head.code, head.opaque, head.flag, head.version];
    Some(Values { numbers, language: head.language, remark: head.remark.map(|text| text.str().into_owned()), ext })
}

fn reference(header: &[u8]) -> Option<Values> {
    let Value::Object(members) = serde_json::from_slice(header).ok()? else { return None };
    let text = |name: &str| members.get(name).and_then(value_text);
    let number = |name: &str| text(name).map_or(Some(0), |text| text.parse().ok());
    let numbers = [number("code")?, number("opaque")?, number("flag")?, number("version").unwrap_or(0)];
    let ext = match members.get("extFields") {
        None | Some(Value::Null) => BTreeMap::new(),
        Some(Value::Object(fields)) => {
            fields.iter().filter_map(|(name, value)| Some((name.clone(), value_text(value)?))).collect()
        }
        Some(_) => return None,
    };
    let language = text("language").map(|text| Language::from_text(&text)).unwrap_or_default();
    Some(Values { numbers, language, remark: text("remark"), ext })
}

fn value_text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// JSON between tokens.
fn blank() -> impl Strategy<Value = &'static str> {
    prop_oneof![6 => Just(""), 1 => Just(" "), 1 => Just("\n"), 1 => Just("\t\r\n ")]
}

/// A JSON string, each character written in one of the ways there are.
fn string() -> impl Strategy<Value = String> {
    let characters = prop_oneof![any::<char>(), prop::char::range('\0', '\u{7f}')];
    vec((characters, any::<bool>()), 0..20).prop_map(|characters| {
        let mut text = String::from("\"");
        for (character, escape) in characters {
            match character {
                '"' | '\\' | '/' if escape => text.extend(['\\', character]),
                '\n' if escape => text.push_str("\\n"),
                '\u{8}' if escape => text.push_str("\\b"),
                _ if escape || character < ' ' || matches!(character, '"' | '\\') => {
                    let units = character.encode_utf16(&mut [0; 2]).to_vec();
                    text.extend(units.iter().map(|unit| format!("\\u{unit:04x}")));
                }
                _ => text.push(character),
            }
        }
        text + "\""
    })
}

/// A value of any kind.
fn value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        4 => string(),
        1 => any::<i32>().prop_map(|number| number.to_string()),
        1 => any::<i64>().prop_map(|number| number.to_string()),
        1 => prop::sample::select(vec!["null", "true", "false", "0", "-1"]).prop_map(String::from),
        1 => prop::sample::select(vec!["\"JAVA\"", "\"CPP\"", "\"12\"", "\"\""]).prop_map(String::from),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(|items| format!("[{}]", items.join(","))),
            vec(inner, 0..3).prop_map(|items| {
                let members: Vec<_> = items.iter().enumerate().map(|(at, item)| format!("\"k{at}\":{item}")).collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    })
}

/// A value of an ext field. Numbers are whole and nothing is nested: of all else `serde_json` does not keep the text.
fn ext_value() -> impl Strategy<Value = String> {
    prop_oneof![8 => string(), 1 => any::<i64>().prop_map(|number| number.to_string()), 1 => Just("null".to_owned())]
}

fn object(members: impl Strategy<Value = Vec<(String, String)>>) -> impl Strategy<Value = String> {
    (members, blank(), blank(), blank(), blank()).prop_map(|(members, a, b, c, d)| {
        let members: Vec<_> = members.iter().map(|(name, value)| format!("{a}{name}{b}:{c}{value}{d}")).collect();
        format!("{{{}}}", members.join(","))
    })
}

/// Some names, some of them written with escapes, so that repeated ones come up.
fn name(names: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop_oneof![
        9 => prop::sample::select(names).prop_map(|name| format!("\"{name}\"")),
        1 => prop::sample::select(names).prop_map(|name| format!("\"\\u{:04x}{}\"", name.as_bytes()[0], &name[1..])),
        1 => string(),
    ]
}

fn ext_object() -> impl Strategy<Value = String> {
    object(vec((name(&["a", "b", "i", "n", "topic", "queueId", "consumerGroup"]), ext_value()), 0..30))
}

fn header() -> impl Strategy<Value = String> {
    let number = || prop_oneof![any::<i32>().prop_map(|number| number.to_string()), Just("null".to_owned())];
    let member = prop_oneof![
        3 => (name(&["code", "opaque", "flag", "version"]), number()),
        2 => (Just("\"extFields\"".to_owned()), prop_oneof![9 => ext_object(), 1 => Just("null".to_owned())]),
        1 => (Just("\"remark\"".to_owned()), ext_value()),
        2 => (name(&["language", "version", "serializeTypeCurrentRPC", "odd"]), value()),
    ];
    (blank(), object(vec(member, 0..8)), blank()).prop_map(|(before, object, after)| format!("{before}{object}{after}"))
}

fn pairs() -> impl Strategy<Value = Vec<(String, String)>> {
    proptest::collection::btree_map(any::<String>(), any::<String>(), 0..40).prop_map(|map| map.into_iter().collect())
}

fn command() -> impl Strategy<Value = Command> {
    let remark = proptest::option::of(any::<String>());
    let numbers = (any::<i16>(), 0..14u8, any::<i16>(), any::<i32>(), any::<i32>());
    (numbers, remark, pairs(), vec(any::<u8>(), 0..50)).prop_map(|(numbers, remark, ext, body)| Command {
        code: i32::from(numbers.0),
        language: Language::from_byte(numbers.1),
        version: i32::from(numbers.2),
        opaque: numbers.3,
        flag: numbers.4,
        remark,
        ext: ext.into_iter().collect(),
        body,
    })
}

fn sent(command: &Command, serialization: Serialization) -> Command {
    let mut out = b"earlier".to_vec();
    command.encode(serialization, &mut out).unwrap();
    let frame = frame::next(&out[7..]).unwrap().unwrap();
    assert_eq!(frame.len, out.len() - 7);
    Command::decode(&frame).unwrap()
}

proptest! {
    #[test]
    fn headers_read_like_the_reference(header in header()) {
        let ours = ours(header.as_bytes());
        prop_assert_eq!(&ours, &reference(header.as_bytes()), "{}", header);
        prop_assert!(ours.is_some(), "{}", header);
    }

    #[test]
    fn broken_headers_are_read_only_if_the_reference_reads_them(
        header in header(),
        edits in vec((any::<prop::sample::Index>(), prop::sample::select(br#"{}[],:"\ntu01-eE. "#.as_slice())), 1..4),
    ) {
        let mut header = header.into_bytes();
        for (index, byte) in edits {
            let at = index.index(header.len());
            header[at] = byte;
        }
        let reference = reference(&header);
        let ours = ours(&header);
        if reference.is_some() {
            prop_assert!(ours.is_some(), "{}", String::from_utf8_lossy(&header));
        } else if ours.is_some() {
            // We replace half surrogate pairs and take numbers of any size; serde_json refuses both.
            let text = String::from_utf8(header).unwrap();
            prop_assert!(text.contains("\\u") || text.contains(['e', 'E']), "{}", text);
        }
    }

    #[test]
    fn json_commands_survive_the_wire(command in command()) {
        prop_assert_eq!(sent(&command, Serialization::Json), command);
    }

    #[test]
    fn binary_commands_survive_the_wire_but_for_empty_texts(command in command()) {
        let back = sent(&command, Serialization::RocketMq);
        let mut expected = command;
        expected.remark = expected.remark.filter(|remark| !remark.is_empty());
        expected.ext.retain(|name, value| !name.is_empty() && !value.is_empty());
        if back.code > 200_000 {
            expected.code = back.code;
        }
        prop_assert_eq!(back, expected);
    }

    #[test]
    fn any_bytes_are_frames_or_errors(mut bytes in vec(any::<u8>(), 0..300), len in 0..300u32, kind in 0..3u8) {
        fuzzing::frames(&bytes);
        // With a plausible prefix the rest is looked at, too.
        if let Some(prefix) = bytes.first_chunk_mut::<8>() {
            let [_, header @ ..] = (len / 2).to_be_bytes();
            prefix[..4].copy_from_slice(&len.to_be_bytes());
            prefix[4] = kind;
            prefix[5..].copy_from_slice(&header);
        }
        fuzzing::frames(&bytes);
    }

    #[test]
    fn any_bytes_are_headers_or_errors(bytes in vec(any::<u8>(), 0..200)) {
        fuzzing::header(Serialization::Json, &bytes);
        fuzzing::header(Serialization::RocketMq, &bytes);
    }

    #[test]
    fn any_json_is_a_header_or_an_error(header in value()) {
        fuzzing::header(Serialization::Json, header.as_bytes());
    }

    #[test]
    fn any_json_header_can_be_written_and_typed(header in header()) {
        fuzzing::header(Serialization::Json, header.as_bytes());
    }

    #[test]
    fn any_fields_are_taken_or_refused(fields in vec((name(NAMES), ext_value()), 0..30)) {
        let fields: Vec<_> = fields.iter().map(|(name, value)| format!("{name}:{value}")).collect();
        let header = format!("{{\"extFields\":{{{}}}}}", fields.join(","));
        fuzzing::header(Serialization::Json, header.as_bytes());
    }

    #[test]
    fn damaged_binary_headers_are_read_or_refused(
        command in command(),
        edits in vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut out = Vec::new();
        command.encode(Serialization::RocketMq, &mut out).unwrap();
        let RawFrame { header, .. } = frame::next(&out).unwrap().unwrap();
        let mut header = header.to_vec();
        for (index, byte) in edits {
            let at = index.index(header.len());
            header[at] = byte;
        }
        fuzzing::header(Serialization::RocketMq, &header);
        fuzzing::header(Serialization::RocketMq, &header[..cut.index(header.len())]);
    }
}

/// Enough names that whole requests come together by chance.
const NAMES: &[&str] = &[
    "a",
    "b",
    "c",
    "d",
    "e",
    "f",
    "g",
    "h",
    "i",
    "topic",
    "queueId",
    "group",
    "consumerGroup",
    "producerGroup",
    "offset",
    "key",
    "namespace",
    "value",
    "timestamp",
    "isForce",
    "boundaryType",
    "committed",
    "brokerName",
    "changed",
];
