//! What a producer takes a timed message back with: URL-safe Base64 of `v1 <topic> <broker> <time> <unique key>`.

use crate::env::Millis;

/// The longest handle that is read, in bytes.
const LEN_MAX: usize = 2048;
const VERSION: &str = "v1";
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// A handle, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecallHandle {
    /// The message's topic.
    pub topic: String,
    /// The name of the broker that holds it.
    pub broker: String,
    /// `TIMER_OUT_MS` and one millisecond: a time of delivery in the message's second.
    pub deliver_at: Millis,
    /// The message's unique key.
    pub unique_key: String,
}

impl RecallHandle {
    /// The handle's text.
    pub fn encode(&self) -> String {
        let RecallHandle { topic, broker, deliver_at, unique_key } = self;
        base64_url(format!("{VERSION} {topic} {broker} {} {unique_key}", deliver_at.0).as_bytes())
    }

    /// Reads a handle; `None` if it is none.
    pub fn decode(text: &str) -> Option<RecallHandle> {
        let bytes = from_base64_url(text)?;
        let mut parts = std::str::from_utf8(&bytes).ok()?.split(' ');
        if parts.next() != Some(VERSION) {
            return None;
        }
        let (topic, broker) = (parts.next()?.to_owned(), parts.next()?.to_owned());
        let deliver_at = Millis(parts.next()?.parse().ok()?);
        let unique_key = parts.next()?.to_owned();
        let is_whole = parts.next().is_none() && !topic.is_empty() && !unique_key.is_empty();
        is_whole.then_some(RecallHandle { topic, broker, deliver_at, unique_key })
    }
}

fn base64_url(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for digit in 0..4 {
            let index = (word >> (18 - 6 * digit)) & 63;
            text.push(if digit <= chunk.len() { char::from(ALPHABET[index as usize]) } else { '=' });
        }
    }
    text
}

fn from_base64_url(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_end_matches('=').as_bytes();
    if text.len() > LEN_MAX || text.len() % 4 == 1 {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    for chunk in text.chunks(4) {
        let mut word = 0_u32;
        for digit in chunk {
            word = word << 6 | ALPHABET.iter().position(|letter| letter == digit)? as u32;
        }
        word <<= 6 * (4 - chunk.len());
        bytes.extend_from_slice(&word.to_be_bytes()[1..chunk.len()]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What a 5.3.2 broker answered to a timed send, as captured.
    const CAPTURED: &str = include_str!("../../../tests/vectors/wire/40_real_send_response_timer.hex");

    fn captured() -> String {
        let hex: Vec<u8> = CAPTURED.bytes().filter(u8::is_ascii_hexdigit).collect();
        let digit = |digit: u8| (digit as char).to_digit(16).unwrap_or(0) as u8;
        let frame: Vec<u8> = hex.chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect();
        let text = String::from_utf8_lossy(&frame);
        let start = text.find("\"recallHandle\":\"").unwrap() + 16;
        text[start..].split('"').next().unwrap().to_owned()
    }

    #[test]
    fn handles_are_rocketmqs_byte_for_byte() {
        let handle = RecallHandle::decode(&captured()).unwrap();
        assert_eq!((handle.topic.as_str(), handle.deliver_at.0 % 1000), ("TopicTest", 1));
        assert_eq!(handle.encode(), captured());
    }

    #[test]
    fn what_is_no_handle_is_refused() {
        let text = |parts: &str| base64_url(parts.as_bytes());
        assert!(RecallHandle::decode(&text("v1 t b 5 u")).is_some());
        for other in ["v2 t b 5 u", "v1 t b x u", "v1 t b 5", "v1 t b 5 u u", "v1  b 5 u", ""] {
            assert_eq!(RecallHandle::decode(&text(other)), None, "{other}");
        }
        for other in ["no handle", "djE", "djE=x", &"A".repeat(4096)] {
            assert_eq!(RecallHandle::decode(other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn bytes_come_back(bytes: Vec<u8>) {
            prop_assert_eq!(from_base64_url(&base64_url(&bytes)), Some(bytes));
        }

        #[test]
        fn any_text_is_a_handle_or_none(text in ".*") {
            let _ = RecallHandle::decode(&text);
        }
    }
}
