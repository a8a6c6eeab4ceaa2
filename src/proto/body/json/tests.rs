use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::*;

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct Queue {
    broker_name: String,
    queue_id: i32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
enum Model {
    Broadcasting,
    #[default]
    Clustering,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
struct Everything {
    flag: bool,
    list: Vec<i32>,
    #[serde(deserialize_with = "known_or_default")]
    model: Model,
    number: i64,
    numbered: BTreeMap<i64, String>,
    offsets: BTreeMap<Queue, i64>,
    option: Option<i32>,
    ratio: f64,
    text: String,
}

fn read(text: &str) -> Everything {
    from_slice(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn keys_may_be_integers_and_objects() {
    let read = read(r#"{"numbered":{0:"a","1":"b",-2:"c"},"offsets":{{"brokerName":"b","queueId":1}:5}}"#);
    assert_eq!(read.numbered, BTreeMap::from([(0, "a".into()), (1, "b".into()), (-2, "c".into())]));
    assert_eq!(read.offsets, BTreeMap::from([(Queue { broker_name: "b".into(), queue_id: 1 }, 5)]));
    let written = br#"{"flag":false,"list":[],"model":"Clustering","number":0,"numbered":{"-2":"c","0":"a","1":"b"},"#;
    let written = [written.as_slice(), br#""offsets":{{"brokerName":"b","queueId":1}:5},"ratio":0.0,"text":""}"#];
    assert_eq!(String::from_utf8(to_vec(&read)), String::from_utf8(written.concat()));
    assert_eq!(from_slice::<Everything>(&to_vec(&read)), Ok(read));
}

#[test]
fn what_is_wanted_decides_how_text_is_taken() {
    for number in [r#""17""#, "17", "17.0", r#"" 17 ""#] {
        assert_eq!(read(&format!(r#"{{"number":{number},"list":[{number}]}}"#)).number, 17, "{number}");
    }
    for (flag, expected) in [("true", true), (r#""true""#, true), ("1", true), (r#""0""#, false), ("0", false)] {
        assert_eq!(read(&format!(r#"{{"flag":{flag}}}"#)).flag, expected, "{flag}");
    }
    assert_eq!(read(r#"{"text":12}"#).text, "12");
    assert_eq!(read(r#"{"text":true}"#).text, "true");
    assert_eq!(read(r#"{"model":0}"#).model, Model::Broadcasting);
    assert_eq!(read(r#"{"model":"Broadcasting"}"#).model, Model::Broadcasting);
    assert_eq!(read(r#"{"model":"Unheard","number":1}"#), Everything { number: 1, ..Everything::default() });
    assert_eq!(read(r#"{"model":9}"#).model, Model::Clustering);
    assert_eq!(read(r#"{"ratio":"1.5"}"#).ratio, 1.5);
}

#[test]
fn nulls_and_unknown_members_are_not_there() {
    let text = r#"{"flag":null,"list":[1,null,2],"x":{{"$ref":"$.a"}:[{}],1:2},"option":null,
        "text":null,"number":7,"numbered":{"1":null}} "#;
    let expected = Everything { list: vec![1, 2], number: 7, ..Everything::default() };
    assert_eq!(read(text), expected);
}

#[test]
fn escapes() {
    let read = read(r#"{"text":"a\u0001b\n\"\\\/\uD83D\uDE80\ud83d標"}"#);
    assert_eq!(read.text, "a\u{1}b\n\"\\/🚀\u{FFFD}標");
    let again = String::from_utf8(to_vec(&read.text)).unwrap();
    assert_eq!(again, r#""a\u0001b\n\"\\/🚀�標""#);
    assert_eq!(from_slice::<String>(again.as_bytes()), Ok(read.text));
}

#[test]
fn broken_text_is_an_error_with_a_place() {
    for (text, at) in [
        ("", 0),
        ("{", 1),
        (r#"{"text":"a"#, 9),
        (r#"{"number":{}}"#, 10),
        (r#"{"number":1}x"#, 12),
        (r#"{"number":1,,"flag":true}"#, 12),
        (r#"{"text":"\u12"}"#, 11),
        (r#"{"list":[1 2]}"#, 11),
        (r#"{"number" 1}"#, 10),
    ] {
        assert_eq!(from_slice::<Everything>(text.as_bytes()).unwrap_err().at, at, "{text}");
    }
    assert!(from_slice::<Everything>(br#"{"list":[99999999999]}"#).is_err(), "too big for 32 bits");
}

#[test]
fn deep_nesting_is_refused() {
    for open in ["[", r#"{"a":"#, "{{"] {
        let text = format!(r#"{{"x":{}"#, open.repeat(100_000));
        assert_eq!(from_slice::<Everything>(text.as_bytes()).unwrap_err().what, "nested too deeply");
    }
}

#[test]
fn the_pretty_form_packs_integer_keys() {
    let value = BTreeMap::from([("a", BTreeMap::from([(1, 10), (2, 20)])), ("b", BTreeMap::new())]);
    assert_eq!(String::from_utf8(to_vec_pretty(&value)).unwrap(), "{\n\t\"a\":{\"1\":10,\"2\":20\n\t},\n\t\"b\":{}\n}");
}
