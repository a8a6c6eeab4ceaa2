//! The few fields of a JSON header that the probe needs, in one pass, trusting that the bench wrote it.

/// What the probe looks at. Strings are as on the wire, escapes included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head<'a> {
    /// The request code.
    pub code: i64,
    /// The request's number.
    pub opaque: i64,
    /// `b` or `topic`.
    pub topic: &'a [u8],
    /// `e` or `queueId`.
    pub queue: i64,
    /// `i`, with its separators escaped.
    pub properties: &'a [u8],
    /// `g`.
    pub born: i64,
    /// `queueOffset`.
    pub offset: i64,
    /// `maxMsgNums`.
    pub wanted: i64,
}

impl<'a> Head<'a> {
    /// Reads a header; what is missing is zero or empty.
    pub fn scan(text: &'a [u8]) -> Head<'a> {
        let mut head = Head::default();
        let mut at = 0;
        while let Some(name) = string(text, &mut at) {
            // `:` and whatever opens the value
            at += 1;
            let value = match text.get(at) {
                Some(b'"') => string(text, &mut at).unwrap_or_default(),
                Some(b'{') => continue,
                _ => {
                    let start = at;
                    at += text[at.min(text.len())..].iter().take_while(|byte| !matches!(byte, b',' | b'}')).count();
                    text.get(start..at).unwrap_or_default()
                }
            };
            match name {
                b"code" => head.code = number(value),
                b"opaque" => head.opaque = number(value),
                b"b" | b"topic" => head.topic = value,
                b"e" | b"queueId" => head.queue = number(value),
                b"i" => head.properties = value,
                b"g" => head.born = number(value),
                b"queueOffset" => head.offset = number(value),
                b"maxMsgNums" => head.wanted = number(value),
                _ => {}
            }
        }
        head
    }
}

/// The next string from `at` on; `at` is behind it afterwards.
fn string<'a>(text: &'a [u8], at: &mut usize) -> Option<&'a [u8]> {
    let start = *at + text.get(*at..)?.iter().position(|byte| *byte == b'"')? + 1;
    let mut end = start;
    loop {
        end += text.get(end..)?.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
        if text[end] == b'"' {
            break;
        }
        end += 2;
    }
    *at = end + 1;
    Some(&text[start..end])
}

fn number(text: &[u8]) -> i64 {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |number: i64, digit| number.wrapping_mul(10).wrapping_add(i64::from(digit - b'0')))
}

/// Appends properties to `out`, their `\u0001` and `\u0002` as single bytes.
pub fn unescape(properties: &[u8], out: &mut Vec<u8>) {
    let mut rest = properties;
    while let Some(at) = rest.iter().position(|byte| *byte == b'\\') {
        out.extend_from_slice(&rest[..at]);
        // `\u00` and two digits; others do not occur in what the bench sends.
        out.push(rest.get(at + 5).map_or(b'?', |digit| digit - b'0'));
        rest = rest.get(at + 6..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::bench::frames::{Numbers, Template};
    use crate::proto::remoting::frame;

    #[test]
    fn the_benchs_own_requests_are_read() {
        let mut out = Vec::new();
        Template::send("TopicTest", "broker-a", 5, 1).write(&mut out, Numbers { slot: 3, queue: 2, key: 1, offset: 0 });
        let head = Head::scan(frame::next(&out).unwrap().unwrap().header);
        assert_eq!((head.code, head.opaque, head.topic, head.queue), (310, 1_000_000_003, &b"TopicTest"[..], 2));
        let mut properties = Vec::new();
        unescape(head.properties, &mut properties);
        assert!(properties.starts_with(b"UNIQ_KEY\x01BENCH"), "{properties:?}");
        assert!(properties.ends_with(b"TAGS\x01TagA\x02"), "{properties:?}");

        out.clear();
        let pull = Template::pull("TopicTest", "broker-a", "group", 32, false);
        pull.write(&mut out, Numbers { slot: 4, queue: 1, key: 0, offset: 77 });
        let head = Head::scan(frame::next(&out).unwrap().unwrap().header);
        assert_eq!((head.code, head.opaque, head.queue, head.offset, head.wanted), (11, 1_000_000_004, 1, 77, 32));
    }

    #[test]
    fn broken_headers_end_the_scan() {
        for text in ["", "{", "{\"", "{\"code", "{\"code\"", "{\"code\":", "{\"a\":\"\\", "{\"a\":{"] {
            assert_eq!(Head::scan(text.as_bytes()), Head::default(), "{text}");
        }
    }
}
