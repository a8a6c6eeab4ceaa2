//! SQL92 over the properties of messages: RocketMQ's grammar, types and rules for what is absent.
//!
//! Logic has three values, and a message matches only if the expression is true. Properties are texts; compared with a
//! number they are read as one, compared with TRUE or FALSE they are true if they say `true` in any case. What RocketMQ
//! matches is matched. Beyond that:
//!
//! | here | RocketMQ |
//! | --- | --- |
//! | a text that is no number leaves its comparison unknown: the other side of an OR may still hold | the whole expression fails, no match |
//! | texts are compared with numbers by value: `a > 5` matches `5.5` and `3000000000` | the text must be a number of the literal's own type, else no match |
//! | `TRUE = a` means `a = TRUE` | fails, no match |
//! | `0.0` is a number, a comment may end with the expression | refused |
//! | text behind the expression is refused (`a = 1 b = 2`, `a = 007`) | ignored |
//! | BETWEEN with a lower limit above the upper one is refused | only if neither has a sign |
//!
//! Kept as it is: NOT binds tighter than comparisons (`NOT a = 1` is `(NOT a) = 1`), and a property alone as a condition
//! is false whatever its text.

mod error;
mod eval;
mod lexer;
mod node;
mod parser;
#[cfg(test)]
mod tests;

pub use error::SqlError;

use eval::Message;
use node::Node;
use parser::Parser;

/// Bytes of an expression, at most.
pub const EXPRESSION_BYTES_MAX: usize = 64 << 10;

/// Levels of an expression, at most: both the reading and the evaluation of one call themselves.
pub const DEPTH_MAX: usize = 64;

/// A compiled expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Sql {
    root: Node,
    /// The properties it looks at.
    names: Vec<Box<str>>,
}

impl Sql {
    /// Compiles an expression.
    ///
    /// # Errors
    /// With the character that is wrong.
    pub fn compile(expression: &str) -> Result<Sql, SqlError> {
        let (root, names) = Parser::parse(expression)?;
        Ok(Sql { root, names })
    }

    /// Whether a message with these properties, as records hold them, is wanted. Allocates nothing.
    pub fn matches(&self, properties: &str) -> bool {
        Message::new(properties, &self.names).truth(&self.root) == Some(true)
    }
}
