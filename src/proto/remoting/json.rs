//! Reading the JSON header, in one pass and without a map: most requests of a broker begin here.

use super::ext::ExtFields;
use super::head::{Head, HeadError};
use super::language::Language;
use super::text::Text;

/// How deep objects and arrays may sit in each other. The protocol knows two levels; members it does not know may have
/// more.
pub(super) const MAX_DEPTH: u32 = 64;

/// Reads a JSON header into `head`, which is empty. Members may come in any order, be absent or null; unknown ones are
/// skipped, of repeated ones the last counts, and blanks may follow.
pub(super) fn read<'a>(header: &'a [u8], head: &mut Head<'a>) -> Result<(), HeadError> {
    let text = std::str::from_utf8(header).map_err(|_| HeadError::NotUtf8)?;
    let mut scanner = Scanner { text, at: 0, depth: 0 };
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
            _ => _ = scanner.value()?,
        }
        Ok(())
    })?;
    scanner.skip_blanks();
    match scanner.peek() {
        None => Ok(()),
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
    #[inline(always)]
    fn value(&mut self) -> Result<Option<Text<'a>>, HeadError> {
        match self.peek() {
            Some(b'"') => self.string().map(Some),
            _ => self.other_value(),
        }
    }

    fn other_value(&mut self) -> Result<Option<Text<'a>>, HeadError> {
        match self.peek() {
            Some(b'n') => self.word("null").map(|_| None),
            Some(b't') => self.word("true").map(Some),
            Some(b'f') => self.word("false").map(Some),
            Some(b'-' | b'0'..=b'9') => self.number().map(Some),
            Some(b'{' | b'[') => self.nested().map(Some),
            _ => Err(self.expected("a value")),
        }
    }

    /// Reads a string, checks its escapes and leaves them as they are.
    #[inline(always)]
    fn string(&mut self) -> Result<Text<'a>, HeadError> {
        self.byte(b'"', "a string")?;
        let bytes = self.text.as_bytes();
        let start = self.at;
        let mut end = start;
        let mut escapes = 0;
        // Byte by byte is as quick as eight at a time: strings are short, and where the next one begins is guessed
        // ahead by the processor instead of computed.
        loop {
            match bytes.get(end) {
                Some(b'"') => break,
                Some(b'\\') => {
                    end += escape_len(&bytes[end..]).ok_or(HeadError::NotJson { at: end, expected: "an escape" })?;
                    escapes += 1;
                }
                Some(_) => end += 1,
                None => return Err(HeadError::NotJson { at: end, expected: "a closing quote" }),
            }
        }
        self.at = end + 1;
        Ok(Text::json(&self.text[start..end], escapes))
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
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    #[inline]
    fn skip_if(&mut self, wanted: impl Fn(u8) -> bool) -> bool {
        match self.peek() {
            Some(byte) if wanted(byte) => {
                self.at += 1;
                true
            }
            _ => false,
        }
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

/// How many bytes the escape at the start of `bytes` takes.
#[inline]
fn escape_len(bytes: &[u8]) -> Option<usize> {
    match bytes {
        [_, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => Some(2),
        [_, b'u', digits @ ..] if digits.len() >= 4 && digits[..4].iter().all(u8::is_ascii_hexdigit) => Some(6),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{version, Serialization};
    use super::*;

    fn parse(header: &[u8]) -> Result<Head<'_>, HeadError> {
        Head::parse(Serialization::Json, header)
    }

    #[track_caller]
    fn refused(header: &str) -> HeadError {
        parse(header.as_bytes()).expect_err(header)
    }

    #[test]
    fn a_header_as_java_sends_it() {
        let header = concat!(
            r#"{"code":105,"extFields":{"topic":"TopicTest"},"flag":2,"language":"GO","opaque":-1,"#,
            r#""remark":"why","serializeTypeCurrentRPC":"JSON","version":479}"#
        );
        let head = parse(header.as_bytes()).unwrap();
        assert_eq!((head.code, head.opaque, head.version), (105, -1, version::CURRENT));
        assert_eq!(head.language, Language::Go);
        assert!(head.is_oneway() && !head.is_response());
        assert_eq!(head.remark.unwrap().str(), "why");
        assert_eq!(head.ext.str("topic").as_deref(), Some("TopicTest"));
    }

    #[test]
    fn members_may_be_missing_null_or_unknown() {
        for header in [
            "{}",
            " \n{ } \t\r\n",
            r#"{"code":null,"flag":null,"opaque":null,"version":null,"language":null,"remark":null,"extFields":null}"#,
            r#"{"extFields":{}}"#,
            r#"{"x":1.5e-7,"y":[{"code":5},[],[[1]],"]"],"z":{"opaque":{"a":null}},"w":true,"v":"\"}"}"#,
        ] {
            let head = parse(header.as_bytes()).unwrap();
            assert_eq!((head.code, head.opaque, head.flag, head.version), (0, 0, 0, 0), "{header}");
            assert_eq!((head.language, head.remark), (Language::Java, None), "{header}");
            assert!(head.ext.is_empty(), "{header}");
        }
    }

    #[test]
    fn whatever_is_said_of_language_and_version_is_fine() {
        for (value, language) in [
            (r#""RUST""#, Language::Rust),
            (r#""ZIG""#, Language::Other),
            ("9", Language::Go),
            ("99", Language::Other),
            ("1.5", Language::Other),
            ("{}", Language::Other),
            (r#""\u0043PP""#, Language::Cpp),
        ] {
            let header = format!(r#"{{"language":{value},"version":{value},"opaque":7}}"#);
            let head = parse(header.as_bytes()).unwrap();
            assert_eq!((head.language, head.opaque), (language, 7), "{value}");
        }
    }

    #[test]
    fn ext_values_of_any_kind_are_text() {
        let header = concat!(
            r#"{"extFields":{"number":2,"text":"2","real":-1.50e+3,"yes":true,"no":false,"none":null,"#,
            r#""empty":"","object":{"a": [1]},"array":[ ]}}"#
        );
        let ext = parse(header.as_bytes()).unwrap().ext;
        for (name, text) in [
            ("number", Some("2")),
            ("text", Some("2")),
            ("real", Some("-1.50e+3")),
            ("yes", Some("true")),
            ("no", Some("false")),
            ("none", None),
            ("empty", Some("")),
            ("object", Some(r#"{"a": [1]}"#)),
            ("array", Some("[ ]")),
        ] {
            assert_eq!(ext.str(name).as_deref(), text, "{name}");
        }
    }

    #[test]
    fn the_last_of_a_name_counts() {
        let header = r#"{"code":1,"extFields":{"a":"1"},"code":2,"extFields":{"b":"2","\u0062":"3"},"code":3}"#;
        let head = parse(header.as_bytes()).unwrap();
        assert_eq!(head.code, 3);
        assert_eq!(head.ext.str("a"), None);
        assert_eq!(head.ext.str("b").as_deref(), Some("3"));
        let head = parse(br#"{"extFields":{"a":"1"},"extFields":null,"code":3,"code":null}"#).unwrap();
        assert_eq!(head.code, 0);
        assert!(head.ext.is_empty());
    }

    #[test]
    fn what_is_not_json_is_refused_where_it_breaks() {
        for (header, at, expected) in [
            ("", 0, "an object"),
            ("[]", 0, "an object"),
            ("null", 0, "an object"),
            ("{", 1, "a string"),
            ("{'code':1}", 1, "a string"),
            ("{code:1}", 1, "a string"),
            (r#"{"code" 1}"#, 8, "a colon"),
            (r#"{"code":}"#, 8, "a value"),
            (r#"{"code":1,}"#, 10, "a string"),
            (r#"{"code":1 "flag":2}"#, 10, "a comma or the end of the list"),
            (r#"{"code":01}"#, 9, "a comma or the end of the list"),
            (r#"{"x":-}"#, 6, "a digit"),
            (r#"{"x":1.}"#, 7, "a digit"),
            (r#"{"x":1e+}"#, 8, "a digit"),
            (r#"{"x":nul}"#, 5, "null"),
            (r#"{"x":True}"#, 5, "a value"),
            (r#"{"x":"\x"}"#, 6, "an escape"),
            (r#"{"x":"\u12g4"}"#, 6, "an escape"),
            (r#"{"x":"\u12"#, 6, "an escape"),
            (r#"{"x":"\"#, 6, "an escape"),
            (r#"{"x":"open}"#, 11, "a closing quote"),
            (r#"{"x":[1,2}"#, 9, "a comma or the end of the list"),
            (r#"{"extFields":"text"}"#, 13, "an object"),
            ("{}{}", 2, "the end"),
            ("{}\0", 2, "the end"),
        ] {
            assert_eq!(refused(header), HeadError::NotJson { at, expected }, "{header}");
        }
    }

    #[test]
    fn numbers_that_decide_must_be_whole_and_fit() {
        for value in ["1.0", "2147483648", "true", "\"\"", "\"x\"", "[1]"] {
            assert_eq!(refused(&format!(r#"{{"opaque":{value}}}"#)), HeadError::NotANumber("opaque"));
        }
        assert_eq!(parse(br#"{"code":"105"}"#).unwrap().code, 105);
    }

    #[test]
    fn bytes_that_are_no_text_are_refused() {
        assert_eq!(parse(b"{\"remark\":\"\xC3\x28\"}").unwrap_err(), HeadError::NotUtf8);
        assert_eq!(parse(b"{\"remark\":\"\xED\xA0\x80\"}").unwrap_err(), HeadError::NotUtf8);
    }

    #[test]
    fn depth_has_an_end() {
        let nested = |depth: usize| format!(r#"{{"x":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
        assert!(parse(nested(MAX_DEPTH as usize).as_bytes()).is_ok());
        assert_eq!(refused(&nested(MAX_DEPTH as usize + 1)), HeadError::TooDeep);
        assert_eq!(refused(&"{\"x\":[".repeat(1_000_000)), HeadError::TooDeep);
    }

    #[test]
    fn the_number_of_fields_has_an_end() {
        let fields = vec![r#""":0"#; super::super::MAX_EXT_FIELDS + 1].join(",");
        assert_eq!(refused(&format!(r#"{{"extFields":{{{fields}}}}}"#)), HeadError::TooManyFields);
    }
}
