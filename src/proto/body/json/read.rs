//! The reader: a serde deserializer over text.

use serde::de::{self, value::StrDeserializer, DeserializeOwned, DeserializeSeed, IntoDeserializer, Visitor};

use super::JsonError;

/// Deeper nesting is refused, so that no body can use up the stack.
const DEPTH_MAX: usize = 64;

pub(super) fn read<T: DeserializeOwned>(text: &str) -> Result<T, JsonError> {
    let mut reader = Reader { text, at: 0, depth: 0 };
    let value = T::deserialize(&mut reader).map_err(|error| reader.place(error))?;
    reader.skip_blanks();
    if reader.at != text.len() {
        return Err(reader.error("something stands behind the value"));
    }
    Ok(value)
}

struct Reader<'de> {
    text: &'de str,
    at: usize,
    depth: usize,
}

/// A value that is no list and no object, as it stands in the text.
enum Scalar<'de> {
    Null,
    Bool(bool),
    /// Digits, sign, point and exponent.
    Number(&'de str),
    Text(Text<'de>),
}

enum Text<'de> {
    Borrowed(&'de str),
    Unescaped(String),
}

impl Text<'_> {
    fn as_str(&self) -> &str {
        match self {
            Text::Borrowed(text) => text,
            Text::Unescaped(text) => text,
        }
    }
}

impl<'de> Reader<'de> {
    fn error(&self, what: impl Into<String>) -> JsonError {
        JsonError { at: self.at, what: what.into() }
    }

    /// Errors of visitors do not know where they happened.
    fn place(&self, mut error: JsonError) -> JsonError {
        if error.at == 0 {
            error.at = self.at;
        }
        error
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// The first byte of what comes next.
    fn next_byte(&mut self) -> Result<u8, JsonError> {
        self.skip_blanks();
        self.peek().ok_or_else(|| self.error("the text ends too early"))
    }

    fn expect(&mut self, byte: u8) -> Result<(), JsonError> {
        if self.next_byte()? != byte {
            return Err(self.error(format!("expected `{}`", char::from(byte))));
        }
        self.at += 1;
        Ok(())
    }

    fn enter(&mut self) -> Result<(), JsonError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.error("nested too deeply"));
        }
        Ok(())
    }

    fn scalar(&mut self) -> Result<Scalar<'de>, JsonError> {
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

    fn number(&mut self) -> &'de str {
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
    fn skip_value(&mut self) -> Result<(), JsonError> {
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
                self.depth -= 1;
                Ok(())
            }
            _ => self.scalar().map(|_| ()),
        }
    }

    /// In a list or object: takes its end, or the comma before the next element.
    fn closes(&mut self, close: u8, first: &mut bool) -> Result<bool, JsonError> {
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
    fn takes_null(&mut self) -> Result<bool, JsonError> {
        let is_null = self.next_byte()? == b'n';
        if is_null {
            self.word("null")?;
        }
        Ok(is_null)
    }

    fn integer<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, JsonError> {
        let scalar = self.scalar()?;
        let text = match &scalar {
            Scalar::Number(text) => text,
            Scalar::Text(text) => text.as_str().trim(),
            Scalar::Bool(_) | Scalar::Null => return Err(self.error("expected an integer")),
        };
        if let Ok(number) = text.parse::<i64>() {
            return visitor.visit_i64(number);
        }
        if let Ok(number) = text.parse::<u64>() {
            return visitor.visit_u64(number);
        }
        // 1.0 and 1e3 are integers too, as long as a double holds them exactly.
        match text.parse::<f64>() {
            Ok(number) if number.fract() == 0.0 && number.abs() < 9e15 => visitor.visit_i64(number as i64),
            _ => Err(self.error("expected an integer")),
        }
    }

    fn float<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, JsonError> {
        let scalar = self.scalar()?;
        let text = match &scalar {
            Scalar::Number(text) => text,
            Scalar::Text(text) => text.as_str().trim(),
            Scalar::Bool(_) | Scalar::Null => return Err(self.error("expected a number")),
        };
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => visitor.visit_f64(number),
            _ => Err(self.error("expected a number")),
        }
    }

    fn list<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, JsonError> {
        self.expect(b'[')?;
        self.enter()?;
        let mut elements = Elements { reader: self, first: true, done: false };
        let value = visitor.visit_seq(&mut elements)?;
        let done = elements.done;
        if !done {
            self.expect(b']')?;
        }
        self.depth -= 1;
        Ok(value)
    }

    fn object<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, JsonError> {
        self.expect(b'{')?;
        self.enter()?;
        let mut members = Members { reader: self, first: true, done: false };
        let value = visitor.visit_map(&mut members)?;
        let done = members.done;
        if !done {
            self.expect(b'}')?;
        }
        self.depth -= 1;
        Ok(value)
    }
}

struct Elements<'r, 'de> {
    reader: &'r mut Reader<'de>,
    first: bool,
    done: bool,
}

impl<'de> de::SeqAccess<'de> for &mut Elements<'_, 'de> {
    type Error = JsonError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, JsonError> {
        while !self.done {
            self.done = self.reader.closes(b']', &mut self.first)?;
            if !self.done && !self.reader.takes_null()? {
                return seed.deserialize(&mut *self.reader).map(Some);
            }
        }
        Ok(None)
    }
}

struct Members<'r, 'de> {
    reader: &'r mut Reader<'de>,
    first: bool,
    done: bool,
}

impl<'de> de::MapAccess<'de> for &mut Members<'_, 'de> {
    type Error = JsonError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, JsonError> {
        while !self.done {
            self.done = self.reader.closes(b'}', &mut self.first)?;
            if self.done {
                break;
            }
            // A member that is null is not there: look at the value before the key is given away.
            self.reader.skip_blanks();
            let key_at = self.reader.at;
            self.reader.skip_value()?;
            self.reader.expect(b':')?;
            if !self.reader.takes_null()? {
                self.reader.at = key_at;
                return seed.deserialize(&mut *self.reader).map(Some);
            }
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, JsonError> {
        self.reader.expect(b':')?;
        seed.deserialize(&mut *self.reader)
    }
}

impl<'de> de::Deserializer<'de> for &mut Reader<'de> {
    type Error = JsonError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        match self.next_byte()? {
            b'{' => self.object(visitor),
            b'[' => self.list(visitor),
            b'-' | b'0'..=b'9' => {
                let before = self.at;
                let is_float = self.number().contains(['.', 'e', 'E']);
                self.at = before;
                if is_float {
                    self.float(visitor)
                } else {
                    self.integer(visitor)
                }
            }
            _ => match self.scalar()? {
                Scalar::Bool(value) => visitor.visit_bool(value),
                Scalar::Text(Text::Borrowed(text)) => visitor.visit_borrowed_str(text),
                Scalar::Text(Text::Unescaped(text)) => visitor.visit_string(text),
                Scalar::Null | Scalar::Number(_) => visitor.visit_unit(),
            },
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        let scalar = self.scalar()?;
        let value = match &scalar {
            Scalar::Bool(value) => Some(*value),
            Scalar::Number(text) => Some(*text == "1"),
            Scalar::Text(text) => match text.as_str() {
                "true" | "TRUE" | "True" | "1" => Some(true),
                "false" | "FALSE" | "False" | "0" | "" => Some(false),
                _ => None,
            },
            Scalar::Null => None,
        };
        visitor.visit_bool(value.ok_or_else(|| self.error("expected a boolean"))?)
    }

    fn deserialize_i8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        self.integer(visitor)
    }

    fn deserialize_i16<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        self.integer(visitor)
    }

    fn deserialize_i32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        self.integer(visitor)
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        self.integer(visitor)
    }

    fn deserialize_u8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        self.integer(visitor)
    }

    fn deserialize_u16<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        self.integer(visitor)
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        self.integer(visitor)
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        self.integer(visitor)
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        self.float(visitor)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        self.float(visitor)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        match self.scalar()? {
            Scalar::Text(Text::Borrowed(text)) | Scalar::Number(text) => visitor.visit_borrowed_str(text),
            Scalar::Text(Text::Unescaped(text)) => visitor.visit_string(text),
            Scalar::Bool(value) => visitor.visit_borrowed_str(if value { "true" } else { "false" }),
            Scalar::Null => Err(self.error("expected a text")),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        if self.next_byte()? == b'{' {
            // An object in a key's place names no member of a struct.
            self.skip_value()?;
            return visitor.visit_borrowed_str("");
        }
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        if self.takes_null()? {
            return visitor.visit_none();
        }
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, JsonError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        self.list(visitor)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _len: usize, visitor: V) -> Result<V::Value, JsonError> {
        self.list(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        self.object(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, JsonError> {
        self.object(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, JsonError> {
        let scalar = self.scalar()?;
        let text = match &scalar {
            Scalar::Number(text) => text,
            Scalar::Text(text) => text.as_str(),
            Scalar::Bool(_) | Scalar::Null => return Err(self.error("expected a name or a number")),
        };
        let by_ordinal = text.parse::<usize>().ok().and_then(|at| variants.get(at).copied());
        let name: StrDeserializer<'_, JsonError> = by_ordinal.unwrap_or(text).into_deserializer();
        visitor.visit_enum(name)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        self.skip_value()?;
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! { i128 u128 bytes byte_buf unit unit_struct tuple_struct }
}

impl de::Error for JsonError {
    fn custom<T: std::fmt::Display>(what: T) -> JsonError {
        JsonError { at: 0, what: what.to_string() }
    }
}
