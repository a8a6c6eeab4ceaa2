//! What an expression says about a message.

use std::cmp::Ordering;

use super::node::{Constant, Like, Node, Order, Place};
use crate::proto::message::properties;

/// Names whose values are looked up in one pass over the properties; those of further ones are looked for one by one.
const IN_ONE_PASS: usize = 16;

/// A value.
#[derive(Clone, Copy)]
enum Value<'a> {
    /// Absent, or unknown.
    Null,
    Boolean(bool),
    Integer(i64),
    Double(f64),
    Text(&'a str),
}

/// The properties of one message.
pub(super) struct Message<'a> {
    text: &'a str,
    names: &'a [Box<str>],
    values: [Option<&'a str>; IN_ONE_PASS],
}

impl<'a> Message<'a> {
    pub(super) fn new(text: &'a str, names: &'a [Box<str>]) -> Message<'a> {
        let mut values = [None; IN_ONE_PASS];
        let looked_for = &names[..names.len().min(IN_ONE_PASS)];
        for (name, value) in properties::iterate(text) {
            // Of a repeated name the last one counts.
            if let Some(place) = looked_for.iter().position(|wanted| **wanted == *name) {
                values[place] = Some(value);
            }
        }
        Message { text, names, values }
    }

    fn property(&self, place: usize) -> Option<&'a str> {
        match self.values.get(place) {
            Some(value) => *value,
            None => properties::find(self.text, &self.names[place]),
        }
    }

    /// Whether a condition holds; `None`: unknown.
    pub(super) fn truth(&self, node: &'a Node) -> Option<bool> {
        match node {
            Node::Constant(Constant::Boolean(truth)) => Some(*truth),
            Node::Not(of) => self.truth(of).map(|truth| !truth),
            Node::And(all) => chain(all.iter().map(|node| self.truth(node)), false),
            Node::Or(any) => chain(any.iter().map(|node| self.truth(node)), true),
            Node::Condition(of) => match self.value(of) {
                Value::Null => None,
                Value::Boolean(truth) => Some(truth),
                _ => Some(false),
            },
            Node::Equal(sides) => equal(self.value(&sides.0), self.value(&sides.1)),
            Node::Order(order, sides) => {
                compare(self.value(&sides.0), self.value(&sides.1)).map(|ordering| match order {
                    Order::Less => ordering.is_lt(),
                    Order::LessOrEqual => ordering.is_le(),
                    Order::Greater => ordering.is_gt(),
                    Order::GreaterOrEqual => ordering.is_ge(),
                })
            }
            Node::Between(parts) => {
                let (low, high) = self.limits(parts);
                chain([low.map(Ordering::is_ge), high.map(Ordering::is_le)], false)
            }
            Node::NotBetween(parts) => {
                let (low, high) = self.limits(parts);
                chain([low.map(Ordering::is_lt), high.map(Ordering::is_gt)], true)
            }
            Node::IsNull(of) => Some(matches!(self.value(of), Value::Null)),
            Node::In(place, texts) => {
                let text = self.property(*place)?;
                Some(texts.binary_search_by(|listed| (**listed).cmp(text)).is_ok())
            }
            Node::Like(like, of) => Some(self.like(like, of)),
            Node::Constant(_) | Node::Property(_) | Node::Negate(_) => None,
        }
    }

    fn value(&self, node: &'a Node) -> Value<'a> {
        match node {
            Node::Constant(Constant::Null) => Value::Null,
            Node::Constant(Constant::Boolean(truth)) => Value::Boolean(*truth),
            Node::Constant(Constant::Integer(number)) => Value::Integer(*number),
            Node::Constant(Constant::Double(number)) => Value::Double(*number),
            Node::Constant(Constant::Text(text)) => Value::Text(text),
            Node::Property(place) => self.property(*place).map_or(Value::Null, Value::Text),
            Node::Negate(of) => match self.value(of) {
                Value::Integer(number) => number.checked_neg().map_or(Value::Null, Value::Integer),
                Value::Double(number) => Value::Double(-number),
                _ => Value::Null,
            },
            condition => self.truth(condition).map_or(Value::Null, Value::Boolean),
        }
    }

    /// How a value stands to its lower and to its upper limit.
    fn limits(&self, parts: &'a (Node, Node, Node)) -> (Option<Ordering>, Option<Ordering>) {
        let value = self.value(&parts.0);
        (compare(value, self.value(&parts.1)), compare(value, self.value(&parts.2)))
    }

    /// False in both forms for what is no text, and for an empty text to look for.
    fn like(&self, like: &'a Like, of: &'a Node) -> bool {
        let Value::Text(text) = self.value(of) else { return false };
        if like.text.is_empty() {
            return false;
        }
        let found = match like.place {
            Place::Anywhere => text.contains(&*like.text),
            Place::Start => text.starts_with(&*like.text),
            Place::End => text.ends_with(&*like.text),
        };
        found != like.negated
    }
}

/// Whether one condition is `decisive`, and the opposite if all are known not to be.
fn chain(conditions: impl IntoIterator<Item = Option<bool>>, decisive: bool) -> Option<bool> {
    let mut known = true;
    for condition in conditions {
        match condition {
            Some(truth) if truth == decisive => return Some(decisive),
            Some(_) => {}
            None => known = false,
        }
    }
    known.then_some(!decisive)
}

/// `=`. Nothing equals nothing; a left side that is absent leaves it unknown, a right side that is makes it false.
fn equal(left: Value<'_>, right: Value<'_>) -> Option<bool> {
    match (left, right) {
        (Value::Null, Value::Null) => Some(true),
        (Value::Null, _) => None,
        (_, Value::Null) => Some(false),
        (Value::Text(left), Value::Text(right)) => Some(left == right),
        (Value::Boolean(left), Value::Boolean(right)) => Some(left == right),
        (Value::Boolean(truth), Value::Text(text)) | (Value::Text(text), Value::Boolean(truth)) => {
            Some(text.eq_ignore_ascii_case("true") == truth)
        }
        (Value::Boolean(_), _) | (_, Value::Boolean(_)) => Some(false),
        _ => compare(left, right).map(Ordering::is_eq),
    }
}

/// The order of two numbers, texts read as numbers; `None` if one is none.
fn compare(left: Value<'_>, right: Value<'_>) -> Option<Ordering> {
    match (number(left)?, number(right)?) {
        (Value::Integer(left), Value::Integer(right)) => Some(left.cmp(&right)),
        (left, right) => Some(double(left)?.total_cmp(&double(right)?)),
    }
}

/// A value as a number: whole if it is one of 64 bits.
fn number(value: Value<'_>) -> Option<Value<'_>> {
    let Value::Text(text) = value else {
        return matches!(value, Value::Integer(_) | Value::Double(_)).then_some(value);
    };
    if let Ok(number) = text.parse() {
        return Some(Value::Integer(number));
    }
    // As Java reads doubles: blanks around them and a letter for the type behind do not count.
    let text = text.trim_matches(|c| c <= ' ');
    let text = match text.strip_suffix(['d', 'D', 'f', 'F']) {
        Some(number) if number.ends_with(|c: char| c.is_ascii_digit() || c == '.') => number,
        _ => text,
    };
    text.parse().ok().map(Value::Double)
}

/// A number as a double whose order is that of values: one zero, and one that is no number, above all others.
fn double(value: Value<'_>) -> Option<f64> {
    match value {
        Value::Integer(number) => Some(number as f64),
        Value::Double(number) if number.is_nan() => Some(f64::NAN),
        Value::Double(number) => Some(number + 0.0),
        _ => None,
    }
}
