//! The reader's lower half: goes over the text and takes scalars off it.

use super::JsonError;

/// Deeper nesting is refused, so that no body can use up the stack.
const DEPTH_MAX: usize = 64;

/// A place in a text.
pub(super) struct Reader<'de> {
    pub(super) text: &'de str,
    /// The next byte.
    pub(super) at: usize,
    /// Lists and objects that are open.
    depth: usize,
}

/// A value that is no list and no object, as it stands in the text.
pub(super) enum Scalar<'de> {
    Null,
    Bool(bool),
    /// Digits, sign, point and exponent.
    Number(&'de str),
    Text(Text<'de>),
}

pub(super) enum Text<'de> {
    Borrowed(&'de str),
    Unescaped(String),
}

impl Text<'_> {
    pub(super) fn as_str(&self) -> &str {
        match self {
            Text::Borrowed(text) => text,
            Text::Unescaped(text) => text,
        }
    }
}

impl<'de> Reader<'de> {
    pub(super) fn new(text: &'de str) -> Reader<'de> {
        Reader { text, at: 0, depth: 0 }
    }

    pub(super) fn error(&self, what: impl Into<String>) -> JsonError {
        JsonError { at: self.at, what: what.into() }
    }

    /// Errors of visitors do not know where they happened.
    pub(super) fn place(&self, mut error: JsonError) -> JsonError {
        if error.at == 0 {
            error.at = self.at;
        }
        error
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    pub(super) fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// The first byte of what comes next.
    pub(super) fn next_byte(&mut self) -> Result<u8, JsonError> {
        self.skip_blanks();
        self.peek().ok_or_else(|| self.error("the text ends too early"))
    }

    pub(super) fn expect(&mut self, byte: u8) -> Result<(), JsonError> {
        if self.next_byte()? != byte {
            return Err(self.error(format!("expected `{}`", char::from(byte))));
        }
        self.at += 1;
        Ok(())
    }

    pub(super) fn enter(&mut self) -> Result<(), JsonError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.error("nested too deeply"));
        }
        Ok(())
    }

    pub(super) fn leave(&mut self) {
        self.depth -= 1;
    }

    pub(super) fn scalar(&mut self) -> Result<Scalar<'de>, JsonError> {
        match self.next_byte()? {
            b'"' => self.string().map(Scalar::Text),
            b'-' | b'0'..=b'9' => Ok(Scalar::Number(self.number())),
            b't' => self.word("true").map(|()| Scalar::Bool(true)),
            b'f' => self.word("false").map(|()| Scalar::Bool(false)),
            b'n' => self.word("null").map(|()| Scalar::Null),
            _ => Err(self.error("expected a text, a number or a boolean")),
        }
    }

    fn word(&mut self, word: &str) -> Result<(), JsonError> {
        if !self.text[self.at..].starts_with(word) {
            return Err(self.error(format!("expected `{word}`")));
        }
        self.at += word.len();
        Ok(())
    }

    pub(super) fn number(&mut self) -> &'de str {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E')) {
            self.at += 1;
        }
        &self.text[start..self.at]
    }

    fn string(&mut self) -> Result<Text<'de>, JsonError> {
        self.at += 1;
        let start = self.at;
        let rest = &self.text.as_bytes()[start..];
        let Some(stop) = rest.iter().position(|byte| matches!(byte, b'"' | b'\\')) else {
            return Err(self.error("a text has no end"));
        };
        self.at += stop;
        let plain = &self.text[start..self.at];
        if self.peek() == Some(b'"') {
            self.at += 1;
            return Ok(Text::Borrowed(plain));
        }
        self.unescape(plain.to_owned()).map(Text::Unescaped)
    }

    /// Reads on from a backslash behind `text`.
    fn unescape(&mut self, mut text: String) -> Result<String, JsonError> {
        loop {
            let rest = &self.text[self.at..];
            let Some(stop) = rest.find(['"', '\\']) else {
                return Err(self.error("a text has no end"));
            };
            text.push_str(&rest[..stop]);
            self.at += stop + 1;
            if rest.as_bytes()[stop] == b'"' {
                return Ok(text);
            }
            let escape = self.peek().ok_or_else(|| self.error("a text has no end"))?;
            self.at += 1;
            text.push(match escape {
                b'"' | b'\\' | b'/' | b'\'' => char::from(escape),
                b'b' => '\u{8}',
                b'f' => '\u{c}',
                b'n' => '\n',
                b'r' => '\r',
                b't' => '\t',
                b'u' => self.unicode_escape()?,
                _ => return Err(self.error("no such escape")),
            });
        }
    }

    /// Reads the digits of `\uXXXX`, and of a second one if the first is half of a pair. A lone half is U+FFFD.
    fn unicode_escape(&mut self) -> Result<char, JsonError> {
        let unit = self.four_digits()?;
        if (0xD800..0xDC00).contains(&unit) && self.text[self.at..].starts_with("\\u") {
            let before = self.at;
            self.at += 2;
            let low = self.four_digits()?;
            if (0xDC00..0xE000).contains(&low) {
                let joined = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
                return Ok(char::from_u32(joined).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            self.at = before;
        }
        Ok(char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn four_digits(&mut self) -> Result<u32, JsonError> {
        let digits = self.text.get(self.at..self.at + 4).filter(|digits| digits.bytes().all(|d| d.is_ascii_hexdigit()));
        let unit = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let unit = unit.ok_or_else(|| self.error("expected four hex digits"))?;
        self.at += 4;
        Ok(unit)
    }

    /// Passes over one value of any kind.
    pub(super) fn skip_value(&mut self) -> Result<(), JsonError> {
        match self.next_byte()? {
            open @ (b'{' | b'[') => {
                let close = if open == b'{' { b'}' } else { b']' };
                self.enter()?;
                self.at += 1;
                let mut first = true;
                while !self.closes(close, &mut first)? {
                    self.skip_value()?;
                    if open == b'{' {
                        self.expect(b':')?;
                        self.skip_value()?;
                    }
                }
                self.leave();
                Ok(())
            }
            _ => self.scalar().map(|_| ()),
        }
    }

    /// In a list or object: takes its end, or the comma before the next element.
    pub(super) fn closes(&mut self, close: u8, first: &mut bool) -> Result<bool, JsonError> {
        if self.next_byte()? == close {
            self.at += 1;
            return Ok(true);
        }
        if !std::mem::replace(first, false) {
            self.expect(b',')?;
        }
        Ok(false)
    }

    /// Whether a `null` comes next; takes it if so.
    pub(super) fn takes_null(&mut self) -> Result<bool, JsonError> {
        let is_null = self.next_byte()? == b'n';
        if is_null {
            self.word("null")?;
        }
        Ok(is_null)
    }
}
