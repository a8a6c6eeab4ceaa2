//! The writer: a serde serializer that prints like fastjson.

use serde::ser::{self, Serialize};

use super::JsonError;

/// How values are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// No blanks at all: the Go client takes a route apart as text.
    Compact,
    /// Tabs and lines, as in fastjson's pretty format.
    Pretty,
}

pub(super) fn write<T: Serialize + ?Sized>(value: &T, form: Form) -> Vec<u8> {
    let mut writer = Writer { out: Vec::new(), form, indent: 0 };
    // Only maps with keys that are neither scalars nor structs fail; there are none among the bodies.
    let written = value.serialize(&mut writer);
    debug_assert!(written.is_ok(), "{written:?}");
    writer.out
}

struct Writer {
    out: Vec<u8>,
    form: Form,
    indent: usize,
}

impl Writer {
    fn text(&mut self, text: &str) {
        self.out.push(b'"');
        let mut plain_from = 0;
        for (at, byte) in text.bytes().enumerate() {
            let escape: &[u8] = match byte {
                b'"' => b"\\\"",
                b'\\' => b"\\\\",
                b'\n' => b"\\n",
                b'\r' => b"\\r",
                b'\t' => b"\\t",
                0x08 => b"\\b",
                0x0C => b"\\f",
                0..0x20 => b"\\u00",
                _ => continue,
            };
            self.out.extend_from_slice(&text.as_bytes()[plain_from..at]);
            plain_from = at + 1;
            self.out.extend_from_slice(escape);
            if escape == b"\\u00" {
                let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or('0') as u8;
                self.out.extend([digit(byte >> 4), digit(byte & 15)].map(|digit| digit.to_ascii_uppercase()));
            }
        }
        self.out.extend_from_slice(&text.as_bytes()[plain_from..]);
        self.out.push(b'"');
    }

    fn display(&mut self, value: impl std::fmt::Display) {
        self.out.extend_from_slice(value.to_string().as_bytes());
    }

    fn new_line(&mut self) {
        if self.form == Form::Pretty {
            self.out.push(b'\n');
            self.out.extend(std::iter::repeat_n(b'\t', self.indent));
        }
    }

    fn open(&mut self) -> Members<'_> {
        self.out.push(b'{');
        self.indent += 1;
        Members { member_at: self.out.len(), writer: self, is_empty: true }
    }
}

/// Writes the members of an object.
struct Members<'w> {
    writer: &'w mut Writer,
    is_empty: bool,
    /// Where the last member begins, comma included: taken back if its value turns out to be null.
    member_at: usize,
}

impl Members<'_> {
    fn key(&mut self, key: &(impl Serialize + ?Sized)) -> Result<(), JsonError> {
        self.member_at = self.writer.out.len();
        if !self.is_empty {
            self.writer.out.push(b',');
        }
        key.serialize(KeyWriter { writer: self.writer })?;
        self.writer.out.push(b':');
        Ok(())
    }

    fn value(&mut self, value: &(impl Serialize + ?Sized)) -> Result<(), JsonError> {
        let value_at = self.writer.out.len();
        value.serialize(&mut *self.writer)?;
        if &self.writer.out[value_at..] == b"null" {
            self.writer.out.truncate(self.member_at);
        } else {
            self.is_empty = false;
        }
        Ok(())
    }

    fn close(self) {
        self.writer.indent -= 1;
        if !self.is_empty {
            self.writer.new_line();
        }
        self.writer.out.push(b'}');
    }
}

impl ser::SerializeMap for Members<'_> {
    type Ok = ();
    type Error = JsonError;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), JsonError> {
        self.key(key)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), JsonError> {
        self.value(value)
    }

    fn end(self) -> Result<(), JsonError> {
        self.close();
        Ok(())
    }
}

impl ser::SerializeStruct for Members<'_> {
    type Ok = ();
    type Error = JsonError;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), JsonError> {
        self.key(key)?;
        self.value(value)
    }

    fn end(self) -> Result<(), JsonError> {
        self.close();
        Ok(())
    }
}

/// Writes the elements of a list, without lines between them even in the pretty form.
struct Elements<'w> {
    writer: &'w mut Writer,
    is_empty: bool,
}

impl ser::SerializeSeq for Elements<'_> {
    type Ok = ();
    type Error = JsonError;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), JsonError> {
        if !std::mem::replace(&mut self.is_empty, false) {
            self.writer.out.push(b',');
        }
        value.serialize(&mut *self.writer)
    }

    fn end(self) -> Result<(), JsonError> {
        self.writer.out.push(b']');
        Ok(())
    }
}

impl ser::SerializeTuple for Elements<'_> {
    type Ok = ();
    type Error = JsonError;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), JsonError> {
        ser::SerializeSeq::serialize_element(self, value)
    }

    fn end(self) -> Result<(), JsonError> {
        ser::SerializeSeq::end(self)
    }
}

/// Methods for kinds of values that no body has.
macro_rules! refuse {
    ($($method:ident($($argument:ty),*) -> $ok:ty;)*) => {
        $(fn $method(self, $(_: $argument),*) -> Result<$ok, JsonError> {
            Err(ser::Error::custom("no body holds such a value"))
        })*
    };
}

/// Methods that all write a value the same way.
macro_rules! write_with {
    ($write:ident: $($method:ident($value:ty),)*) => {
        $(fn $method(self, value: $value) -> Result<(), JsonError> {
            self.$write(value);
            Ok(())
        })*
    };
}

impl<'w> ser::Serializer for &'w mut Writer {
    type Ok = ();
    type Error = JsonError;
    type SerializeSeq = Elements<'w>;
    type SerializeTuple = Elements<'w>;
    type SerializeTupleStruct = ser::Impossible<(), JsonError>;
    type SerializeTupleVariant = ser::Impossible<(), JsonError>;
    type SerializeMap = Members<'w>;
    type SerializeStruct = Members<'w>;
    type SerializeStructVariant = ser::Impossible<(), JsonError>;

    write_with! { display:
        serialize_bool(bool), serialize_i8(i8), serialize_i16(i16), serialize_i32(i32), serialize_i64(i64),
        serialize_u8(u8), serialize_u16(u16), serialize_u32(u32), serialize_u64(u64),
    }
    write_with! { text: serialize_str(&str), }

    fn serialize_f32(self, value: f32) -> Result<(), JsonError> {
        self.serialize_f64(f64::from(value))
    }

    /// With a point, as Java prints a double; what is not a number is null there.
    fn serialize_f64(self, value: f64) -> Result<(), JsonError> {
        if value.is_finite() {
            self.display(format_args!("{value:?}"));
            return Ok(());
        }
        self.serialize_none()
    }

    fn serialize_char(self, value: char) -> Result<(), JsonError> {
        self.text(value.encode_utf8(&mut [0; 4]));
        Ok(())
    }

    fn serialize_none(self) -> Result<(), JsonError> {
        self.display("null");
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), JsonError> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), JsonError> {
        self.serialize_none()
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), JsonError> {
        self.text(variant);
        Ok(())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<(), JsonError> {
        value.serialize(self)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Elements<'w>, JsonError> {
        self.out.push(b'[');
        Ok(Elements { writer: self, is_empty: true })
    }

    fn serialize_tuple(self, len: usize) -> Result<Elements<'w>, JsonError> {
        self.serialize_seq(Some(len))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Members<'w>, JsonError> {
        Ok(self.open())
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Members<'w>, JsonError> {
        Ok(self.open())
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<(), JsonError> {
        Err(ser::Error::custom("no body holds such a value"))
    }

    refuse! {
        serialize_bytes(&[u8]) -> ();
        serialize_unit_struct(&'static str) -> ();
        serialize_tuple_struct(&'static str, usize) -> Self::SerializeTupleStruct;
        serialize_tuple_variant(&'static str, u32, &'static str, usize) -> Self::SerializeTupleVariant;
        serialize_struct_variant(&'static str, u32, &'static str, usize) -> Self::SerializeStructVariant;
    }
}

/// Writes what stands before a colon: texts and integers in quotes, objects as they are. In the pretty form every key
/// but an integer begins a line.
struct KeyWriter<'w> {
    writer: &'w mut Writer,
}

impl KeyWriter<'_> {
    fn text(self, key: &str) {
        self.writer.new_line();
        self.writer.text(key);
    }

    fn integer(self, key: impl std::fmt::Display) {
        self.writer.display(format_args!("\"{key}\""));
    }
}

impl<'w> ser::Serializer for KeyWriter<'w> {
    type Ok = ();
    type Error = JsonError;
    type SerializeSeq = ser::Impossible<(), JsonError>;
    type SerializeTuple = ser::Impossible<(), JsonError>;
    type SerializeTupleStruct = ser::Impossible<(), JsonError>;
    type SerializeTupleVariant = ser::Impossible<(), JsonError>;
    type SerializeMap = ser::Impossible<(), JsonError>;
    type SerializeStruct = Members<'w>;
    type SerializeStructVariant = ser::Impossible<(), JsonError>;

    write_with! { integer:
        serialize_i8(i8), serialize_i16(i16), serialize_i32(i32), serialize_i64(i64),
        serialize_u8(u8), serialize_u16(u16), serialize_u32(u32), serialize_u64(u64), serialize_bool(bool),
    }
    write_with! { text: serialize_str(&str), }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), JsonError> {
        self.text(variant);
        Ok(())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<(), JsonError> {
        value.serialize(self)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), JsonError> {
        value.serialize(self)
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Members<'w>, JsonError> {
        self.writer.new_line();
        Ok(self.writer.open())
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<(), JsonError> {
        Err(ser::Error::custom("no body holds such a key"))
    }

    refuse! {
        serialize_f32(f32) -> ();
        serialize_f64(f64) -> ();
        serialize_char(char) -> ();
        serialize_bytes(&[u8]) -> ();
        serialize_none() -> ();
        serialize_unit() -> ();
        serialize_unit_struct(&'static str) -> ();
        serialize_seq(Option<usize>) -> Self::SerializeSeq;
        serialize_tuple(usize) -> Self::SerializeTuple;
        serialize_tuple_struct(&'static str, usize) -> Self::SerializeTupleStruct;
        serialize_tuple_variant(&'static str, u32, &'static str, usize) -> Self::SerializeTupleVariant;
        serialize_map(Option<usize>) -> Self::SerializeMap;
        serialize_struct_variant(&'static str, u32, &'static str, usize) -> Self::SerializeStructVariant;
    }
}

impl ser::Error for JsonError {
    fn custom<T: std::fmt::Display>(what: T) -> JsonError {
        JsonError { at: 0, what: what.to_string() }
    }
}
