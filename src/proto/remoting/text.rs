//! A piece of a header that is only unescaped when somebody looks at it.

use std::borrow::Cow;
use std::fmt;

/// Text out of a header, still as it stood there. Reading a header copies nothing; a value that holds JSON escapes is
/// unescaped when it is asked for.
#[derive(Clone, Copy, Default)]
pub struct Text<'a> {
    raw: &'a str,
    /// How many escapes `raw` holds.
    escapes: usize,
}

impl<'a> Text<'a> {
    /// Text that means what it says.
    pub const fn plain(raw: &'a str) -> Self {
        Self { raw, escapes: 0 }
    }

    /// The inside of a JSON string with this many escapes, which have been checked.
    pub(super) const fn json(raw: &'a str, escapes: usize) -> Self {
        Self { raw, escapes }
    }

    /// The text, borrowed from the header unless it holds escapes.
    #[inline]
    pub fn str(self) -> Cow<'a, str> {
        if self.escapes == 0 {
            Cow::Borrowed(self.raw)
        } else {
            Cow::Owned(self.unescaped())
        }
    }

    #[cold]
    fn unescaped(self) -> String {
        let mut out = String::with_capacity(self.raw.len());
        self.for_each_piece(|piece| out.push_str(piece));
        out
    }

    /// The text, borrowed from the header or, if it holds escapes, from `buffer`, whose content it replaces. For paths
    /// that may not allocate.
    pub fn str_in<'b>(self, buffer: &'b mut String) -> &'b str
    where
        'a: 'b,
    {
        if self.escapes == 0 {
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
        while let Some(at) = rest.bytes().position(|byte| byte == b'\\').filter(|_| self.escapes > 0) {
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
#[inline]
fn unescape(text: &str) -> (char, usize) {
    match text.as_bytes() {
        // The separators of message properties, which is what nearly all escapes are.
        [_, b'u', b'0', b'0', b'0', digit @ b'0'..=b'9', ..] => (char::from(digit - b'0'), 6),
        [_, b'u', ..] => unescape_unicode(text),
        [_, b'b', ..] => ('\u{8}', 2),
        [_, b'f', ..] => ('\u{c}', 2),
        [_, b'n', ..] => ('\n', 2),
        [_, b'r', ..] => ('\r', 2),
        [_, b't', ..] => ('\t', 2),
        [_, other, ..] => (char::from(*other), 2),
        _ => (char::REPLACEMENT_CHARACTER, text.len()),
    }
}

fn unescape_unicode(text: &str) -> (char, usize) {
    const LEN: usize = 6;
    let Some(unit) = code_unit(text) else { return (char::REPLACEMENT_CHARACTER, text.len()) };
    if let Some(character) = char::from_u32(u32::from(unit)) {
        return (character, LEN);
    }
    // Half of a pair: the other half is the next escape, or missing.
    let units = [Some(unit), text.get(LEN..).and_then(code_unit)];
    match char::decode_utf16(units.into_iter().flatten()).next() {
        Some(Ok(character)) => (character, 2 * LEN),
        _ => (char::REPLACEMENT_CHARACTER, LEN),
    }
}

/// The number in a `\u` escape at the start of `text`.
fn code_unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.as_bytes().first_chunk::<4>()?;
    digits.iter().try_fold(0, |unit, digit| Some(unit << 4 | char::from(*digit).to_digit(16)? as u16))
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
    fn check(raw: &str, escapes: usize, expected: &str) {
        let text = Text::json(raw, escapes);
        assert_eq!(text.str(), expected);
        assert_eq!(text.str_in(&mut "before".to_owned()), expected);
        let mut out = Vec::new();
        text.append_to(&mut out);
        assert_eq!(out, expected.as_bytes());
    }

    #[test]
    fn escapes_are_undone() {
        check("", 0, "");
        check("TopicTest", 0, "TopicTest");
        check(r"KEYS\u0001order-1\u0002", 2, "KEYS\u{1}order-1\u{2}");
        check(r#"\"\\\/\b\f\n\r\t"#, 8, "\"\\/\u{8}\u{c}\n\r\t");
        check(r"\u00e9\u4E2D", 2, "é中");
        check(r"\ud83d\ude00!", 2, "😀!");
    }

    #[test]
    fn half_a_surrogate_pair_is_replaced() {
        check(r"\ud83d", 1, "\u{FFFD}");
        check(r"\ude00\ud83d", 2, "\u{FFFD}\u{FFFD}");
        check(r"\ud83dA", 1, "\u{FFFD}A");
        check(r"\ud83d\u0041", 2, "\u{FFFD}A");
        check(r"\ud83d\ud83d\ude00", 3, "\u{FFFD}😀");
        check(r"\ud83d\n", 2, "\u{FFFD}\n");
    }

    #[test]
    fn plain_text_may_hold_backslashes() {
        assert_eq!(Text::plain(r"a\nb").str(), r"a\nb");
        let mut out = Vec::new();
        Text::plain(r"a\nb").append_to(&mut out);
        assert_eq!(out, br"a\nb");
    }
}
