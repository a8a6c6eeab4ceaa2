//! Writing headers, straight into the buffer that goes out.

use super::ext::ExtSink;
use super::frame::{Serialization, MAX_FRAME_LEN};
use super::language::Language;

/// The members of a header but for the ext fields.
#[derive(Clone, Copy, Debug)]
pub(super) struct Members<'a> {
    pub code: i32,
    pub language: Language,
    pub version: i32,
    pub opaque: i32,
    pub flag: i32,
    pub remark: Option<&'a str>,
}

/// Begins a frame at the end of `out`: its prefix, with the length still open, and its header with the fields that
/// `ext` puts in. The body follows, then [`close_frame`].
pub(super) fn open_frame(
    out: &mut Vec<u8>,
    serialization: Serialization,
    members: Members<'_>,
    ext: impl FnOnce(&mut ExtWriter<'_>),
) {
    out.extend_from_slice(&[0; PREFIX_LEN]);
    let start = out.len();
    match serialization {
        Serialization::Json => json_header(out, members, ext),
        Serialization::RocketMq => binary_header(out, members, ext),
    }
    // A header that does not fit its three bytes does not fit a frame either, which `close_frame` reports.
    let header_len = (out.len() - start) as u32;
    let [_, length @ ..] = header_len.to_be_bytes();
    out[start - 4] = serialization.byte();
    out[start - 3..start].copy_from_slice(&length);
}

/// Ends the frame that began at `start` of `out` by filling in its length. A frame above the limit is taken back, and
/// its length returned as the error.
pub(super) fn close_frame(out: &mut Vec<u8>, start: usize) -> Result<(), usize> {
    let frame_len = out.len() - start;
    if frame_len > MAX_FRAME_LEN {
        out.truncate(start);
        return Err(frame_len);
    }
    let length = (frame_len - 4) as u32;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

/// The length field, and the word of serialization and header length.
const PREFIX_LEN: usize = 8;

/// Members in alphabetical order and without nulls, as a Java peer writes them. `extFields` is there even if empty,
/// because clients look into it unasked, and `serializeTypeCurrentRPC` because strict readers miss it.
fn json_header(out: &mut Vec<u8>, members: Members<'_>, ext: impl FnOnce(&mut ExtWriter<'_>)) {
    out.extend_from_slice(b"{\"code\":");
    push_number(out, members.code);
    out.extend_from_slice(b",\"extFields\":{");
    ext(&mut ExtWriter { out, serialization: Serialization::Json, first: true });
    out.extend_from_slice(b"},\"flag\":");
    push_number(out, members.flag);
    out.extend_from_slice(b",\"language\":\"");
    out.extend_from_slice(members.language.name().as_bytes());
    out.extend_from_slice(b"\",\"opaque\":");
    push_number(out, members.opaque);
    if let Some(remark) = members.remark {
        out.extend_from_slice(b",\"remark\":");
        push_json_string(out, remark);
    }
    out.extend_from_slice(b",\"serializeTypeCurrentRPC\":\"JSON\",\"version\":");
    push_number(out, members.version);
    out.push(b'}');
}

fn binary_header(out: &mut Vec<u8>, members: Members<'_>, ext: impl FnOnce(&mut ExtWriter<'_>)) {
    // Java cuts the codes above 16 bits (POP) off in the same way.
    out.extend_from_slice(&(members.code as i16).to_be_bytes());
    out.push(members.language.byte());
    out.extend_from_slice(&(members.version as i16).to_be_bytes());
    out.extend_from_slice(&members.opaque.to_be_bytes());
    out.extend_from_slice(&members.flag.to_be_bytes());
    push_binary_text(out, members.remark.unwrap_or_default());
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    ext(&mut ExtWriter { out, serialization: Serialization::RocketMq, first: true });
    let length = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

fn push_binary_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u32).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// The longest name of an ext field in a binary header: its length is a signed 16-bit number.
pub(super) const MAX_BINARY_NAME_LEN: usize = i16::MAX as usize;

/// Writes ext fields into a header. Values are always text: the Go client cannot read a frame with any other.
#[derive(Debug)]
pub struct ExtWriter<'o> {
    out: &'o mut Vec<u8>,
    serialization: Serialization,
    first: bool,
}

impl ExtWriter<'_> {
    /// Writes a field whose name is not known beforehand.
    ///
    /// # Panics
    /// If a binary header has no room for the length of `name`: cutting it would rename the field. Names from outside
    /// go through [`Command`](super::Command), which refuses such a name.
    pub(super) fn put(&mut self, name: &str, value: &str) {
        match self.serialization {
            Serialization::Json => {
                if !std::mem::take(&mut self.first) {
                    self.out.push(b',');
                }
                push_json_string(self.out, name);
                self.out.push(b':');
                push_json_string(self.out, value);
            }
            Serialization::RocketMq => {
                assert!(name.len() <= MAX_BINARY_NAME_LEN, "an ext field's name is longer than its length can say");
                self.out.extend_from_slice(&(name.len() as u16).to_be_bytes());
                self.out.extend_from_slice(name.as_bytes());
                push_binary_text(self.out, value);
            }
        }
    }
}

impl ExtSink for ExtWriter<'_> {
    fn put_str(&mut self, name: &'static str, value: &str) {
        self.put(name, value);
    }
}

fn push_number(out: &mut Vec<u8>, number: i32) {
    out.extend_from_slice(Decimal::new(i64::from(number)).as_bytes());
}

/// A whole number in decimal, written without an allocation.
pub(super) struct Decimal {
    digits: [u8; 20],
    start: usize,
}

impl Decimal {
    pub fn new(number: i64) -> Self {
        let mut decimal = Self { digits: [0; 20], start: 20 };
        let mut rest = number.unsigned_abs();
        loop {
            decimal.push_front(b'0' + (rest % 10) as u8);
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if number < 0 {
            decimal.push_front(b'-');
        }
        decimal
    }

    fn push_front(&mut self, byte: u8) {
        self.start -= 1;
        self.digits[self.start] = byte;
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.digits[self.start..]
    }

    pub fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).expect("digits are text")
    }
}

/// Writes `text` as a JSON string. Message properties are full of U+0001 and U+0002, so control characters are not
/// rare here.
fn push_json_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    // Most texts need no escape, and looking at all of one without stopping goes many bytes at a time.
    if rest.iter().fold(false, |found, byte| found | needs_escape(*byte)) {
        while let Some(at) = rest.iter().position(|byte| needs_escape(*byte)) {
            out.extend_from_slice(&rest[..at]);
            push_escape(out, rest[at]);
            rest = &rest[at + 1..];
        }
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

fn needs_escape(byte: u8) -> bool {
    matches!(byte, b'"' | b'\\' | 0..0x20)
}

fn push_escape(out: &mut Vec<u8>, byte: u8) {
    const HEX: [u8; 16] = *b"0123456789abcdef";
    match byte {
        b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
        b'\n' => out.extend_from_slice(b"\\n"),
        b'\r' => out.extend_from_slice(b"\\r"),
        b'\t' => out.extend_from_slice(b"\\t"),
        _ => {
            out.extend_from_slice(b"\\u00");
            out.push(HEX[usize::from(byte >> 4)]);
            out.push(HEX[usize::from(byte & 15)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_right_at_the_ends() {
        for number in [0, 7, -7, 10, i64::from(i32::MIN), i64::MAX, i64::MIN] {
            assert_eq!(Decimal::new(number).as_str(), number.to_string());
        }
    }

    #[test]
    fn strings_are_escaped_as_json_wants() {
        let all: String = (0..=0x80u8).map(char::from).chain("é中😀\u{2028}".chars()).collect();
        let mut out = Vec::new();
        push_json_string(&mut out, &all);
        assert!(out.iter().all(|byte| *byte >= 0x20));
        assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), all);
        out.clear();
        push_json_string(&mut out, "KEYS\u{1}a\u{2}");
        assert_eq!(out, br#""KEYS\u0001a\u0002""#);
    }
}
