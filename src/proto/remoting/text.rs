//! A piece of a header that is only unescaped when somebody looks at it.

use std::borrow::Cow;
use std::fmt;

/// Text out of a header, still as it stood there. Reading a header copies nothing; a value that holds JSON escapes is
/// unescaped when it is asked for.
#[derive(Clone, Copy, Default)]
pub struct Text<'a> {
    raw: &'a str,
    escaped: bool,
}

impl<'a> Text<'a> {
    /// Text that means what it says.
    pub const fn plain(raw: &'a str) -> Self {
        Self { raw, escaped: false }
    }

    /// The inside of a JSON string whose escapes, if `escaped`, have been checked.
    pub(super) const fn json(raw: &'a str, escaped: bool) -> Self {
        Self { raw, escaped }
    }

    /// The text, borrowed from the header unless it holds escapes.
    pub fn str(self) -> Cow<'a, str> {
        if !self.escaped {
            return Cow::Borrowed(self.raw);
        }
        let mut out = String::with_capacity(self.raw.len());
        self.for_each_piece(|piece| out.push_str(piece));
        Cow::Owned(out)
    }

    /// The text, borrowed from the header or, if it holds escapes, from `buffer`, whose content it replaces. For paths
    /// that may not allocate.
    pub fn str_in<'b>(self, buffer: &'b mut String) -> &'b str
    where
        'a: 'b,
    {
        if !self.escaped {
            return self.raw;
        }
        buffer.clear();
        self.for_each_piece(|piece| buffer.push_str(piece));
        buffer
    }

    /// Appends the text to `out`, without a copy in between.
    pub fn append_to(self, out: &mut Vec<u8>) {
        self.for_each_piece(|piece| out.extend_from_slice(piece.as_bytes()));
    }

    /// Whether there is nothing in it.
    pub const fn is_empty(self) -> bool {
        self.raw.is_empty()
    }

    fn for_each_piece(self, mut emit: impl FnMut(&str)) {
        let mut rest = self.raw;
        // Pieces are short: a search made for long texts takes longer to begin than this one to end.
        let escape = |text: &str| text.bytes().position(|byte| byte == b'\\');
        while let Some(at) = escape(rest).filter(|_| self.escaped) {
            emit(&rest[..at]);
            let (character, used) = unescape(&rest[at..]);
            emit(character.encode_utf8(&mut [0; 4]));
            rest = &rest[at + used..];
        }
        emit(rest);
    }
}

/// The character that the escape at the start of `text` stands for, and how many bytes the escape takes. Half of a
/// surrogate pair, which no UTF-8 can hold, becomes U+FFFD.
fn unescape(text: &str) -> (char, usize) {
    let character = match text.as_bytes().get(1) {
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'u') => return unescape_unicode(text),
        Some(other) => char::from(*other),
        None => char::REPLACEMENT_CHARACTER,
    };
    (character, 2)
}

fn unescape_unicode(text: &str) -> (char, usize) {
    const LEN: usize = 6;
    // The separators of properties: nearly all escapes there are.
    if let [_, _, b'0', b'0', b'0', digit @ b'0'..=b'9', ..] = text.as_bytes() {
        return (char::from(digit - b'0'), LEN);
    }
    let Some(first) = code_unit(text) else { return (char::REPLACEMENT_CHARACTER, text.len()) };
    let second = text.get(LEN..).and_then(code_unit);
    // Two units make one character only if they are a high and a low surrogate.
    match char::decode_utf16([Some(first), second].into_iter().flatten()).next() {
        Some(Ok(character)) => (character, character.len_utf16() * LEN),
        _ => (char::REPLACEMENT_CHARACTER, LEN),
    }
}

/// The number in a `\u` escape at the start of `text`.
fn code_unit(text: &str) -> Option<u16> {
    u16::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok()
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.str())
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.str(), out)
    }
}

impl PartialEq for Text<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.str() == other.str()
    }
}

impl Eq for Text<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(raw: &str, expected: &str) {
        let text = Text::json(raw, raw.contains('\\'));
        assert_eq!(text.str(), expected);
        assert_eq!(text.str_in(&mut "before".to_owned()), expected);
        let mut out = Vec::new();
        text.append_to(&mut out);
        assert_eq!(out, expected.as_bytes());
    }

    #[test]
    fn escapes_are_undone() {
        check("", "");
        check("TopicTest", "TopicTest");
        check(r"KEYS\u0001order-1\u0002", "KEYS\u{1}order-1\u{2}");
        check(r#"\"\\\/\b\f\n\r\t"#, "\"\\/\u{8}\u{c}\n\r\t");
        check(r"\u00e9\u4E2D", "é中");
        check(r"\ud83d\ude00!", "😀!");
    }

    #[test]
    fn half_a_surrogate_pair_is_replaced() {
        check(r"\ud83d", "\u{FFFD}");
        check(r"\ude00\ud83d", "\u{FFFD}\u{FFFD}");
        check(r"\ud83dA", "\u{FFFD}A");
        check(r"\ud83d\u0041", "\u{FFFD}A");
        check(r"\ud83d\ud83d\ude00", "\u{FFFD}😀");
        check(r"\ud83d\n", "\u{FFFD}\n");
    }

    #[test]
    fn plain_text_may_hold_backslashes() {
        assert_eq!(Text::plain(r"a\nb").str(), r"a\nb");
        let mut out = Vec::new();
        Text::plain(r"a\nb").append_to(&mut out);
        assert_eq!(out, br"a\nb");
    }
}
