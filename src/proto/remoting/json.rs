//! Reading the JSON header, in one pass and without a map: most requests of a broker begin here.

use super::ext::ExtFields;
use super::head::{Head, HeadError};
use super::language::Language;
use super::text::Text;

/// How deep objects and arrays may sit in each other. The protocol knows two levels; members it does not know may have
/// more.
pub(super) const MAX_DEPTH: u32 = 64;

/// Reads a JSON header. Members may come in any order, be absent or null, and be followed by blanks; unknown ones are
/// skipped, and of repeated ones the last counts.
pub(super) fn parse(header: &[u8]) -> Result<Head<'_>, HeadError> {
    let text = std::str::from_utf8(header).map_err(|_| HeadError::NotUtf8)?;
    let mut scanner = Scanner { text, at: 0, depth: 0 };
    let mut head = Head::default();
    scanner.skip_blanks();
    scanner.object(|scanner, name| {
        match &*name.str() {
            "code" => head.code = number("code", scanner.value()?)?,
            "opaque" => head.opaque = number("opaque", scanner.value()?)?,
            "flag" => head.flag = number("flag", scanner.value()?)?,
            // Neither decides how to answer, so whatever a client says here is fine.
            "version" => head.version = number("version", scanner.value()?).unwrap_or_default(),
            "language" => head.language = language(scanner.value()?),
            "remark" => head.remark = scanner.value()?,
            "extFields" => ext_fields(scanner, &mut head.ext)?,
            _ => drop(scanner.value()?),
        }
        Ok(())
    })?;
    scanner.skip_blanks();
    match scanner.peek() {
        None => Ok(head),
        Some(_) => Err(scanner.expected("the end")),
    }
}

fn ext_fields<'a>(scanner: &mut Scanner<'a>, fields: &mut ExtFields<'a>) -> Result<(), HeadError> {
    fields.clear();
    if scanner.peek() == Some(b'n') {
        return scanner.value().map(drop);
    }
    scanner.object(|scanner, name| {
        let value = scanner.value()?;
        fields.push(name, value)
    })
}

fn number(name: &'static str, value: Option<Text<'_>>) -> Result<i32, HeadError> {
    value.map_or(Ok(0), |text| text.str().parse().map_err(|_| HeadError::NotANumber(name)))
}

fn language(value: Option<Text<'_>>) -> Language {
    value.map(|text| Language::from_text(&text.str())).unwrap_or_default()
}

/// A position in JSON text.
struct Scanner<'a> {
    text: &'a str,
    at: usize,
    depth: u32,
}

impl<'a> Scanner<'a> {
    /// Reads an object and hands each member's name to `member`, which reads the value. Must stand at the brace.
    #[inline]
    fn object(
        &mut self,
        mut member: impl FnMut(&mut Self, Text<'a>) -> Result<(), HeadError>,
    ) -> Result<(), HeadError> {
        self.list(b'{', b'}', "an object", |scanner| {
            let name = scanner.string()?;
            scanner.skip_blanks();
            scanner.byte(b':', "a colon")?;
            scanner.skip_blanks();
            member(scanner, name)
        })
    }

    /// Reads `open`, items with commas between them, and `close`.
    #[inline]
    fn list(
        &mut self,
        open: u8,
        close: u8,
        what: &'static str,
        mut item: impl FnMut(&mut Self) -> Result<(), HeadError>,
    ) -> Result<(), HeadError> {
        self.byte(open, what)?;
        self.skip_blanks();
        if self.peek() == Some(close) {
            self.at += 1;
            return Ok(());
        }
        loop {
            item(self)?;
            self.skip_blanks();
            if self.peek() == Some(close) {
                self.at += 1;
                return Ok(());
            }
            self.byte(b',', "a comma or the end of the list")?;
            self.skip_blanks();
        }
    }

    /// Reads any value: `None` for null, a string's inside, and the source text of everything else.
    fn value(&mut self) -> Result<Option<Text<'a>>, HeadError> {
        match self.peek() {
            Some(b'"') => self.string().map(Some),
            Some(b'n') => self.word("null").map(|_| None),
            Some(b't') => self.word("true").map(Some),
            Some(b'f') => self.word("false").map(Some),
            Some(b'-' | b'0'..=b'9') => self.number().map(Some),
            Some(b'{' | b'[') => self.nested().map(Some),
            _ => Err(self.expected("a value")),
        }
    }

    /// Reads a string, checks its escapes and leaves them as they are.
    #[inline]
    fn string(&mut self) -> Result<Text<'a>, HeadError> {
        self.byte(b'"', "a string")?;
        let start = self.at;
        let mut escaped = false;
        loop {
            self.at += plain_len(&self.text.as_bytes()[self.at..]);
            match self.peek() {
                Some(b'"') => {
                    let raw = &self.text[start..self.at];
                    self.at += 1;
                    return Ok(Text::json(raw, escaped));
                }
                Some(_) => {
                    escaped = true;
                    self.escape()?;
                }
                None => return Err(self.expected("a closing quote")),
            }
        }
    }

    /// Steps over a backslash and what it escapes.
    fn escape(&mut self) -> Result<(), HeadError> {
        self.at += 1;
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 1,
            Some(b'u') => {
                let digits = self.text.as_bytes().get(self.at + 1..self.at + 5);
                if !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
                    return Err(self.expected("four hex digits"));
                }
                self.at += 5;
            }
            _ => return Err(self.expected("an escape")),
        }
        Ok(())
    }

    fn word(&mut self, word: &'static str) -> Result<Text<'a>, HeadError> {
        if !self.text[self.at..].starts_with(word) {
            return Err(self.expected(word));
        }
        self.at += word.len();
        Ok(Text::plain(word))
    }

    fn number(&mut self) -> Result<Text<'a>, HeadError> {
        let start = self.at;
        self.skip_if(|byte| byte == b'-');
        // JSON has no leading zeros.
        if !self.skip_if(|byte| byte == b'0') {
            self.digits()?;
        }
        if self.skip_if(|byte| byte == b'.') {
            self.digits()?;
        }
        if self.skip_if(|byte| matches!(byte, b'e' | b'E')) {
            self.skip_if(|byte| matches!(byte, b'+' | b'-'));
            self.digits()?;
        }
        Ok(Text::plain(&self.text[start..self.at]))
    }

    fn digits(&mut self) -> Result<(), HeadError> {
        if !self.skip_if(|byte| byte.is_ascii_digit()) {
            return Err(self.expected("a digit"));
        }
        while self.skip_if(|byte| byte.is_ascii_digit()) {}
        Ok(())
    }

    /// Reads an object or array and returns its source text.
    #[cold]
    fn nested(&mut self) -> Result<Text<'a>, HeadError> {
        let start = self.at;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(HeadError::TooDeep);
        }
        if self.peek() == Some(b'{') {
            self.object(|scanner, _| scanner.value().map(drop))?;
        } else {
            self.list(b'[', b']', "an array", |scanner| scanner.value().map(drop))?;
        }
        self.depth -= 1;
        Ok(Text::plain(&self.text[start..self.at]))
    }

    #[inline]
    fn skip_blanks(&mut self) {
        while self.skip_if(|byte| matches!(byte, b' ' | b'\n' | b'\r' | b'\t')) {}
    }

    #[inline]
    fn skip_if(&mut self, wanted: impl Fn(u8) -> bool) -> bool {
        let skip = self.peek().is_some_and(wanted);
        self.at += usize::from(skip);
        skip
    }

    #[inline]
    fn byte(&mut self, byte: u8, what: &'static str) -> Result<(), HeadError> {
        if self.peek() != Some(byte) {
            return Err(self.expected(what));
        }
        self.at += 1;
        Ok(())
    }

    #[inline]
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    #[cold]
    fn expected(&self, expected: &'static str) -> HeadError {
        HeadError::NotJson { at: self.at, expected }
    }
}

/// How many bytes come before the first quote or backslash.
#[inline]
fn plain_len(bytes: &[u8]) -> usize {
    bytes.iter().position(|byte| matches!(byte, b'"' | b'\\')).unwrap_or(bytes.len())
}
