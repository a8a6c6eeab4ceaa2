//! One value of a table.

use serde_json::{json, Value};

use super::messages::{body_json, escaped};
use super::when;
use crate::env::Millis;

/// A value, before it is known who will read it.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Nothing is known.
    None,
    /// A text.
    Text(String),
    /// A whole number.
    Number(i64),
    /// A number of something a second, or a share.
    Rate(f64),
    /// A time.
    Time(Millis),
    /// Yes or no.
    Flag(bool),
    /// Several texts.
    Texts(Vec<String>),
    /// What a message says.
    Body(Vec<u8>),
    /// Names and values.
    Pairs(Vec<(String, String)>),
}

impl Cell {
    /// A text, or nothing.
    pub fn text(text: impl Into<String>) -> Cell {
        Cell::Text(text.into())
    }

    /// Texts, if there are some.
    pub fn texts<T: Into<String>>(texts: impl IntoIterator<Item = T>) -> Cell {
        Cell::Texts(texts.into_iter().map(Into::into).collect())
    }

    /// A text that may be missing.
    pub fn maybe(text: Option<&str>) -> Cell {
        text.map_or(Cell::None, Cell::text)
    }

    /// A time, of which servers say 0 or less if there is none.
    pub fn time(millis: i64) -> Cell {
        if millis > 0 {
            Cell::Time(Millis(millis))
        } else {
            Cell::None
        }
    }

    /// For eyes, with `zone` seconds added to UTC.
    pub fn human(&self, zone: i32) -> String {
        match self {
            Cell::None => "-".to_owned(),
            Cell::Text(text) => escaped(text.as_bytes()),
            Cell::Number(number) => number.to_string(),
            Cell::Rate(rate) if *rate == 0.0 => "0".to_owned(),
            Cell::Rate(rate) => format!("{rate:.1}"),
            Cell::Time(time) => when::text(*time, zone),
            Cell::Flag(flag) => if *flag { "yes" } else { "no" }.to_owned(),
            Cell::Texts(texts) if texts.is_empty() => "-".to_owned(),
            Cell::Texts(texts) => escaped(texts.join(" ").as_bytes()),
            Cell::Body(body) => escaped(body),
            Cell::Pairs(pairs) => {
                let pairs: Vec<_> = pairs.iter().map(|(name, value)| format!("{name}={value}")).collect();
                escaped(pairs.join(" ").as_bytes())
            }
        }
    }

    /// For templates: as for eyes, but nothing for what is missing, and on a pipe bodies as they are.
    pub fn plain(&self, zone: i32, terminal: bool) -> Vec<u8> {
        match self {
            Cell::None => Vec::new(),
            Cell::Texts(texts) if texts.is_empty() => Vec::new(),
            Cell::Text(text) if !terminal => text.clone().into_bytes(),
            Cell::Body(body) if !terminal => body.clone(),
            _ => self.human(zone).into_bytes(),
        }
    }

    /// For programs.
    pub fn json(&self) -> Value {
        match self {
            Cell::None => Value::Null,
            Cell::Text(text) => json!(text),
            Cell::Number(number) => json!(number),
            Cell::Rate(rate) => json!(rate),
            Cell::Time(time) => json!(time.0),
            Cell::Flag(flag) => json!(flag),
            Cell::Texts(texts) => json!(texts),
            Cell::Body(body) => body_json(body),
            Cell::Pairs(pairs) => pairs.iter().map(|(name, value)| (name.clone(), json!(value))).collect(),
        }
    }

    /// Whether it stands at the right of its column.
    pub fn is_number(&self) -> bool {
        matches!(self, Cell::Number(_) | Cell::Rate(_))
    }
}
