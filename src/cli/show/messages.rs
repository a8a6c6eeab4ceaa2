//! Messages, shown.

use serde_json::{json, Value};

use super::{Cell, Details, Listing};
use crate::client::Received;

/// The columns of a message: name for JSON and templates, title in tables.
pub const COLUMNS: [(&str, &str); 17] = [
    ("topic", ""),
    ("broker", "BROKER"),
    ("queue", "QUEUE"),
    ("offset", "OFFSET"),
    ("stored", "STORED"),
    ("id", "ID"),
    ("tag", "TAG"),
    ("key", "KEY"),
    ("keys", ""),
    ("body", "BODY"),
    ("born", ""),
    ("producer", ""),
    ("offsetId", ""),
    ("retries", ""),
    ("size", ""),
    ("flag", ""),
    ("properties", ""),
];

/// The longest body that a table shows.
const BODY_MAX: usize = 60;

/// An empty list of messages.
pub fn message_columns(empty: &'static str) -> Listing {
    Listing::new(&COLUMNS, empty)
}

/// A message as a row. For eyes, long bodies are cut.
pub fn message_row(message: &Received) -> Vec<Cell> {
    vec![
        Cell::text(&*message.topic),
        Cell::text(&message.queue.broker_name),
        Cell::Number(i64::from(message.queue.queue_id)),
        Cell::Number(message.offset),
        Cell::Time(message.stored_at),
        Cell::text(message.message_id()),
        Cell::maybe(message.tag()),
        Cell::maybe(message.keys().next()),
        Cell::texts(message.keys()),
        Cell::Body(message.body.clone()),
        Cell::Time(message.born_at),
        Cell::text(message.born_host.to_string()),
        Cell::text(message.offset_message_id()),
        Cell::Number(i64::from(message.reconsume_times)),
        Cell::Number(message.size as i64),
        Cell::Number(i64::from(message.flag)),
        Cell::Pairs(message.all_properties().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()),
    ]
}

/// A message, complete.
pub fn message_details(message: &Received) -> Details {
    let mut properties = Listing::new(&[("name", "NAME"), ("value", "VALUE")], "none");
    for (name, value) in message.all_properties() {
        properties.push(vec![Cell::text(name), Cell::text(value)]);
    }
    let queue = format!("{}/{}", message.queue.broker_name, message.queue.queue_id);
    Details::default()
        .fact("topic", "topic", Cell::text(&*message.topic))
        .fact("storedIn", "stored in", Cell::text(&message.queue.topic))
        .fact("queue", "queue", Cell::text(queue))
        .fact("offset", "offset", Cell::Number(message.offset))
        .fact("id", "id", Cell::text(message.message_id()))
        .fact("offsetId", "offset id", Cell::text(message.offset_message_id()))
        .fact("tag", "tag", Cell::maybe(message.tag()))
        .fact("keys", "keys", Cell::texts(message.keys()))
        .fact("born", "born", Cell::Time(message.born_at))
        .fact("stored", "stored", Cell::Time(message.stored_at))
        .fact("producer", "producer", Cell::text(message.born_host.to_string()))
        .fact("retries", "retries", Cell::Number(i64::from(message.reconsume_times)))
        .fact("size", "bytes", Cell::Number(message.size as i64))
        .list("properties", "properties", properties)
        .body("body", &message.body)
}

/// A body for a table.
pub fn body_of(row: &mut [Cell]) {
    for cell in row {
        if let Cell::Body(body) = cell {
            let text = escaped(body);
            if text.chars().count() > BODY_MAX {
                *cell = Cell::Text(text.chars().take(BODY_MAX - 1).chain(['…']).collect());
            }
        }
    }
}

/// Bytes as text on a terminal: nothing in it moves the cursor.
pub fn escaped(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' => shown.push_str("\\n"),
            '\t' => shown.push('\t'),
            letter if letter.is_control() => shown.extend(letter.escape_default()),
            letter => shown.push(letter),
        }
    }
    shown
}

/// A text, or `{"base64": …}` for bytes that are none.
pub fn body_json(body: &[u8]) -> Value {
    match std::str::from_utf8(body) {
        Ok(text) => json!(text),
        Err(_) => json!({ "base64": base64(body) }),
    }
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let bits = three.iter().enumerate().fold(0u32, |bits, (at, byte)| bits | u32::from(*byte) << (16 - 8 * at));
        for at in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * at) & 63) as usize];
            text.push(if at <= three.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_harmless_on_a_terminal_and_complete_for_programs() {
        assert_eq!(escaped("a\x1b[2J\nß".as_bytes()), "a\\u{1b}[2J\\nß");
        assert_eq!(body_json(b"plain"), json!("plain"));
        assert_eq!(body_json(&[0xff]), json!({ "base64": "/w==" }));
        assert_eq!((base64(b"f"), base64(b"fo"), base64(b"foobar")), ("Zg==".into(), "Zm8=".into(), "Zm9vYmFy".into()));
    }
}
