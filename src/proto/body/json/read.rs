//! The reader's upper half: a serde deserializer.

use serde::de::{self, value::StrDeserializer, DeserializeOwned, DeserializeSeed, IntoDeserializer, Visitor};

use super::scan::{Reader, Scalar, Text};
use super::JsonError;

pub(super) fn read<T: DeserializeOwned>(text: &str) -> Result<T, JsonError> {
    let mut reader = Reader::new(text);
    let value = T::deserialize(&mut reader).map_err(|error| reader.place(error))?;
    reader.skip_blanks();
    if reader.at != text.len() {
        return Err(reader.error("something stands behind the value"));
    }
    Ok(value)
}

impl<'de> Reader<'de> {
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
        self.leave();
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
        self.leave();
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

/// Methods that all read a value the same way.
macro_rules! read_with {
    ($read:ident: $($method:ident,)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
            self.$read(visitor)
        })*
    };
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

    read_with! { integer:
        deserialize_i8, deserialize_i16, deserialize_i32, deserialize_i64,
        deserialize_u8, deserialize_u16, deserialize_u32, deserialize_u64,
    }
    read_with! { float: deserialize_f32, deserialize_f64, }
    read_with! { list: deserialize_seq, }
    read_with! { object: deserialize_map, }

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

    fn deserialize_tuple<V: Visitor<'de>>(self, _len: usize, visitor: V) -> Result<V::Value, JsonError> {
        self.list(visitor)
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
