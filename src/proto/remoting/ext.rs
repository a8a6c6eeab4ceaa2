//! The named values of a header (`extFields`).

use std::borrow::Cow;

use super::head::HeadError;
use super::text::Text;
use super::writer::Decimal;

/// Fields held without an allocation. The longest header that clients usually send is a signed send: 14 fields and the
/// two or three of the signature.
const INLINE: usize = 18;

/// The most fields of one header. Real ones stay below 30; without an end, 16 MiB of `"":0,` would take 160 MiB here.
pub const MAX_EXT_FIELDS: usize = 1024;

/// One named value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtField<'a> {
    /// The name.
    pub name: Text<'a>,
    /// The value as text; `None` for a JSON null and, in a binary header, for an empty value.
    pub value: Option<Text<'a>>,
}

/// The `extFields` of a request or response, in the order they came. On the wire every value is text; numbers and
/// booleans, which some clients send, count as their text. Of fields with one name the last counts.
#[derive(Clone, Debug)]
pub struct ExtFields<'a> {
    inline: [ExtField<'a>; INLINE],
    count: usize,
    /// All fields, once there are more than `inline` holds.
    spilled: Vec<ExtField<'a>>,
}

impl Default for ExtFields<'_> {
    fn default() -> Self {
        const NONE: ExtField<'static> = ExtField { name: Text::plain(""), value: None };
        Self { inline: [NONE; INLINE], count: 0, spilled: Vec::new() }
    }
}

impl<'a> ExtFields<'a> {
    /// Fields out of text that was never a header.
    pub(super) fn from_pairs(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Result<Self, HeadError> {
        let mut fields = Self::default();
        for (name, value) in pairs {
            fields.push(Text::plain(name), Some(Text::plain(value)))?;
        }
        Ok(fields)
    }

    /// Adds a field.
    #[inline]
    pub(super) fn push(&mut self, name: Text<'a>, value: Option<Text<'a>>) -> Result<(), HeadError> {
        let field = ExtField { name, value };
        if let Some(place) = self.inline.get_mut(self.count) {
            *place = field;
        } else if self.count < MAX_EXT_FIELDS {
            if self.spilled.is_empty() {
                self.spilled.extend_from_slice(&self.inline);
            }
            self.spilled.push(field);
        } else {
            return Err(HeadError::TooManyFields);
        }
        self.count += 1;
        Ok(())
    }

    /// Forgets all fields.
    pub(super) fn clear(&mut self) {
        self.count = 0;
        self.spilled.clear();
    }

    /// All fields as they came, repeated names and nulls included.
    pub fn as_slice(&self) -> &[ExtField<'a>] {
        if self.spilled.is_empty() {
            &self.inline[..self.count]
        } else {
            &self.spilled
        }
    }

    /// All fields as they came, repeated names and nulls included: whoever collects them lets the last one win.
    pub fn iter(&self) -> std::slice::Iter<'_, ExtField<'a>> {
        self.as_slice().iter()
    }

    /// Whether the header brought no fields.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The value of `name` as it came; `None` if absent or null.
    pub fn get(&self, name: &str) -> Option<Text<'a>> {
        self.iter().rev().find(|field| field.name.str() == name).and_then(|field| field.value)
    }

    /// The text of `name`; `None` if absent or null, the empty text if empty.
    pub fn str(&self, name: &str) -> Option<Cow<'a, str>> {
        self.get(name).map(Text::str)
    }

    /// The number `name`; `None` if absent, null or empty.
    pub fn i32(&self, name: &'static str) -> Result<Option<i32>, FieldError> {
        integer(name, self.get(name), "a 32-bit integer")
    }

    /// The number `name`; `None` if absent, null or empty.
    pub fn i64(&self, name: &'static str) -> Result<Option<i64>, FieldError> {
        integer(name, self.get(name), "a 64-bit integer")
    }

    /// The truth of `name`: as in Java whatever is not `true` is false. `None` if absent or null.
    pub fn bool(&self, name: &str) -> Option<bool> {
        self.get(name).map(truth)
    }
}

impl<'s, 'a> IntoIterator for &'s ExtFields<'a> {
    type Item = &'s ExtField<'a>;
    type IntoIter = std::slice::Iter<'s, ExtField<'a>>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Where ext fields are written to: a header going out, a [`Response`](super::Response), a
/// [`Command`](super::Command).
pub trait ExtSink {
    /// Adds a field.
    fn put_str(&mut self, name: &'static str, value: &str);

    /// Adds a field that holds a number.
    fn put_i64(&mut self, name: &'static str, value: i64) {
        self.put_str(name, Decimal::new(value).as_str());
    }

    /// Adds a field that holds a truth.
    fn put_bool(&mut self, name: &'static str, value: bool) {
        self.put_str(name, if value { "true" } else { "false" });
    }
}

impl ExtSink for Vec<(Cow<'static, str>, String)> {
    fn put_str(&mut self, name: &'static str, value: &str) {
        self.push((name.into(), value.to_owned()));
    }
}

/// What can be written as ext fields: all of [`requests`](super::requests).
pub trait ToExt {
    /// Writes the fields that are present to `sink`.
    fn encode(&self, sink: &mut impl ExtSink);
}

/// Reads an integer. Java's parser takes a leading `+` and no blanks, as Rust's does; the empty text, which a binary
/// header cannot tell from an absent field, is absent.
#[inline]
pub(super) fn integer<T: std::str::FromStr>(
    name: &'static str,
    text: Option<Text<'_>>,
    wanted: &'static str,
) -> Result<Option<T>, FieldError> {
    let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(None) };
    let text = text.str();
    match text.parse() {
        Ok(number) => Ok(Some(number)),
        Err(_) => Err(not_a_number(name, wanted, &text)),
    }
}

#[cold]
fn not_a_number(name: &'static str, wanted: &'static str, text: &str) -> FieldError {
    FieldError::NotANumber { name, wanted, value: text.chars().take(SHOWN_CHARS).collect() }
}

/// Reads a boolean the way Java does. C++ clients send `0` and `1`, and Java takes both for false.
pub(super) fn truth(text: Text<'_>) -> bool {
    text.str().eq_ignore_ascii_case("true")
}

/// How much of a value that is no number an error repeats.
const SHOWN_CHARS: usize = 64;

/// A field that a request needs and that is not there or cannot be read. The request is answered with code 1 and this
/// text as remark.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    /// Absent, null or, where a number belongs, empty.
    #[error("the field `{0}` is missing")]
    Missing(&'static str),
    /// There, and no number.
    #[error("the field `{name}` is not {wanted}: `{value}`")]
    NotANumber {
        /// The field.
        name: &'static str,
        /// What belongs there.
        wanted: &'static str,
        /// The beginning of what stands there.
        value: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields<'a>(pairs: &[(&'a str, Option<&'a str>)]) -> ExtFields<'a> {
        let mut fields = ExtFields::default();
        for (name, value) in pairs {
            fields.push(Text::plain(name), value.map(Text::plain)).unwrap();
        }
        fields
    }

    #[test]
    fn the_last_of_a_name_counts_even_if_null() {
        let ext = fields(&[("a", Some("1")), ("b", Some("2")), ("a", Some("3")), ("b", None)]);
        assert_eq!(ext.i32("a"), Ok(Some(3)));
        assert_eq!(ext.str("b"), None);
        assert_eq!(ext.iter().count(), 4);
    }

    #[test]
    fn typed_reading_follows_java() {
        let ext = fields(&[
            ("plus", Some("+7")),
            ("big", Some("2147483648")),
            ("empty", Some("")),
            ("word", Some("seven")),
            ("TRUE", Some("True")),
            ("one", Some("1")),
        ]);
        assert_eq!(ext.i32("plus"), Ok(Some(7)));
        assert_eq!(ext.i64("big"), Ok(Some(2_147_483_648)));
        assert_eq!(ext.i32("big").unwrap_err().to_string(), "the field `big` is not a 32-bit integer: `2147483648`");
        assert_eq!(ext.i32("empty"), Ok(None));
        assert_eq!(ext.str("empty").as_deref(), Some(""));
        assert!(ext.i64("word").is_err());
        assert_eq!(ext.bool("TRUE"), Some(true));
        assert_eq!(ext.bool("one"), Some(false));
        assert_eq!(ext.bool("absent"), None);
    }

    #[test]
    fn fields_spill_and_end() {
        let names: Vec<String> = (0..MAX_EXT_FIELDS).map(|number| format!("field{number}")).collect();
        let mut ext = ExtFields::default();
        for (count, name) in names.iter().enumerate() {
            ext.push(Text::plain(name), Some(Text::plain("x"))).unwrap();
            assert_eq!(ext.as_slice().len(), count + 1);
        }
        assert!(names.iter().zip(&ext).all(|(name, field)| field.name.str() == *name));
        assert_eq!(ext.push(Text::plain("more"), None), Err(HeadError::TooManyFields));
        ext.clear();
        assert!(ext.is_empty() && ext.as_slice().is_empty());
    }
}
