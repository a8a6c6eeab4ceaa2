//! Templates: `{topic} {offset} {body}`.

use anyhow::Result;

use super::{unknown_field, Cell, Screen};
use crate::cli::fail::Failure;

/// A line with names in it that stand for values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Field(String),
}

impl Template {
    /// Reads one. `{{` is a brace; `\t`, `\n`, `\0` and `\\` are what they are in most languages.
    ///
    /// # Errors
    /// A usage error for a brace that is not closed.
    pub fn parse(text: &str) -> Result<Template> {
        let (mut pieces, mut plain) = (Vec::new(), String::new());
        let mut rest = text.chars();
        while let Some(next) = rest.next() {
            match next {
                '\\' => match rest.next() {
                    Some('t') => plain.push('\t'),
                    Some('n') => plain.push('\n'),
                    Some('0') => plain.push('\0'),
                    Some('\\') | None => plain.push('\\'),
                    Some(other) => plain.extend(['\\', other]),
                },
                '{' if rest.as_str().starts_with('{') => plain.extend(rest.next()),
                '}' if rest.as_str().starts_with('}') => plain.extend(rest.next()),
                '{' => {
                    let Some((name, behind)) = rest.as_str().split_once('}') else {
                        return Err(Failure::usage(format!("the template `{text}` has a `{{` without `}}`")).into());
                    };
                    pieces.push(Piece::Text(std::mem::take(&mut plain)));
                    pieces.push(Piece::Field(name.to_owned()));
                    rest = behind.chars();
                }
                other => plain.push(other),
            }
        }
        pieces.push(Piece::Text(plain));
        Ok(Template { pieces })
    }

    /// Whether all its names stand for something.
    ///
    /// # Errors
    /// A usage error that says which do.
    pub fn check(&self, known: impl Iterator<Item = &'static str>) -> Result<()> {
        let known: Vec<_> = known.collect();
        for piece in &self.pieces {
            if let Piece::Field(name) = piece {
                if !known.contains(&name.as_str()) {
                    return Err(unknown_field(name, &known));
                }
            }
        }
        Ok(())
    }

    /// A line.
    pub fn fill(&self, value: impl Fn(&str) -> Cell, screen: &Screen) -> Vec<u8> {
        let mut line = Vec::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => line.extend_from_slice(text.as_bytes()),
                Piece::Field(name) => line.extend(value(name).plain(screen.zone, screen.terminal)),
            }
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_replaced_and_braces_doubled() {
        let screen = Screen { zone: 0, styled: false, terminal: false };
        let template = Template::parse(r"{a}\t{{{b}}} \\").unwrap();
        let line = template.fill(|name| Cell::text(name.to_uppercase()), &screen);
        assert_eq!(String::from_utf8(line).unwrap(), "A\t{B} \\");
        assert!(Template::parse("{a").is_err());
        let error = template.check(["a", "c"].into_iter()).unwrap_err();
        assert_eq!(error.to_string(), "`{b}` stands for nothing here");
    }
}
