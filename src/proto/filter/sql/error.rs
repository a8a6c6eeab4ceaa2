//! Why an expression is none, and where.

use std::fmt;

/// Characters of the expression shown on either side of the one that is wrong.
const SHOWN: usize = 32;

/// An expression that cannot be compiled. Its text shows the place:
///
/// ```text
/// character 7: `>` compares numbers, not strings
///   price > 'high'
///         ^
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct SqlError {
    /// The character that is wrong, counted from 1; one more than there are at the end.
    pub character: usize,
    /// What is wrong.
    pub what: String,
    /// The expression around it, on one line.
    excerpt: String,
    /// The character's place in the excerpt.
    caret: usize,
}

impl SqlError {
    /// The error at a byte of an expression.
    pub(super) fn at(expression: &str, byte: usize, what: impl Into<String>) -> SqlError {
        let byte = (0..=byte.min(expression.len())).rev().find(|at| expression.is_char_boundary(*at)).unwrap_or(0);
        let (before, behind) = expression.split_at(byte);
        let index = before.chars().count();
        let left = index.min(SHOWN);
        let shown = before.chars().skip(index - left).chain(behind.chars().take(SHOWN));
        let excerpt = shown.map(|c| if c.is_control() { ' ' } else { c }).collect();
        SqlError { character: index + 1, what: what.into(), excerpt, caret: left }
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SqlError { character, what, excerpt, caret } = self;
        write!(f, "character {character}: {what}\n  {excerpt}\n  {:caret$}^", "")
    }
}
