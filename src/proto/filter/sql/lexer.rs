//! Words of an expression.

use super::error::SqlError;

/// One word.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token<'a> {
    Name(&'a str),
    Word(Word),
    Integer(i64),
    Double(f64),
    Text(Box<str>),
    /// `= <> > >= < <= + - ( ) ,`
    Symbol(&'static str),
    End,
}

/// The words that name no property, in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    Not,
    And,
    Or,
    Between,
    In,
    True,
    False,
    Null,
    Is,
    Contains,
    StartsWith,
    EndsWith,
}

const WORDS: [(&str, Word); 12] = [
    ("NOT", Word::Not),
    ("AND", Word::And),
    ("OR", Word::Or),
    ("BETWEEN", Word::Between),
    ("IN", Word::In),
    ("TRUE", Word::True),
    ("FALSE", Word::False),
    ("NULL", Word::Null),
    ("IS", Word::Is),
    ("CONTAINS", Word::Contains),
    ("STARTSWITH", Word::StartsWith),
    ("ENDSWITH", Word::EndsWith),
];

/// The symbols, longer ones first.
const SYMBOLS: [&str; 11] = ["<>", ">=", "<=", "=", ">", "<", "+", "-", "(", ")", ","];

/// What people write out of habit, and what to write instead.
const HABITS: [(&str, &str); 7] = [
    ("!=", "`<>` is how to say unequal"),
    ("!", "`NOT` is how to negate"),
    ("&&", "`AND` is how to say and"),
    ("||", "`OR` is how to say or"),
    ("\"", "strings stand between single quotes"),
    ("*", "there is no arithmetic"),
    ("/", "there is no arithmetic"),
];

/// Cuts an expression into words.
pub(super) struct Lexer<'a> {
    text: &'a str,
    /// Where the next word is looked for.
    at: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Lexer<'a> {
        Lexer { text, at: 0 }
    }

    /// The next word and the byte it begins at.
    pub(super) fn next(&mut self) -> Result<(usize, Token<'a>), SqlError> {
        self.skip_blanks()?;
        let start = self.at;
        let rest = &self.text[start..];
        let Some(first) = rest.bytes().next() else { return Ok((start, Token::End)) };
        let token = match first {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$' => self.name(),
            b'0'..=b'9' => self.number()?,
            b'.' if rest.as_bytes().get(1).is_some_and(u8::is_ascii_digit) => self.number()?,
            b'\'' => self.string()?,
            _ => self.symbol()?,
        };
        Ok((start, token))
    }

    fn skip_blanks(&mut self) -> Result<(), SqlError> {
        loop {
            let rest = self.text[self.at..].trim_start_matches([' ', '\t', '\n', '\r', '\u{c}']);
            self.at = self.text.len() - rest.len();
            if rest.starts_with("--") {
                self.at += rest.find(['\n', '\r']).unwrap_or(rest.len());
            } else if let Some(comment) = rest.strip_prefix("/*") {
                let Some(end) = comment.find("*/") else { return Err(self.error(self.at, "this comment has no end")) };
                self.at += end + 4;
            } else {
                return Ok(());
            }
        }
    }

    fn name(&mut self) -> Token<'a> {
        let rest = &self.text[self.at..];
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$');
        let name = &rest[..rest.bytes().position(|byte| !is_part(byte)).unwrap_or(rest.len())];
        self.at += name.len();
        let word = WORDS.iter().find(|(text, _)| name.eq_ignore_ascii_case(text));
        word.map_or(Token::Name(name), |(_, word)| Token::Word(*word))
    }

    /// `0`, `15`, `15L`; `1.5`, `1.`, `.5`, `5e3`.
    fn number(&mut self) -> Result<Token<'a>, SqlError> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let mut end = start + digits(start);
        let mut is_double = false;
        if bytes.get(end) == Some(&b'.') {
            is_double = true;
            end += 1;
            end += digits(end);
        }
        if matches!(bytes.get(end), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
            let exponent = digits((end + 1 + sign).min(bytes.len()));
            if exponent > 0 {
                is_double = true;
                end += 1 + sign + exponent;
            }
        }
        let text = &self.text[start..end];
        self.at = end;
        if is_double {
            return self.double(start, text);
        }
        if text.len() > 1 && text.starts_with('0') {
            return Err(self.error(start, "a whole number does not begin with 0"));
        }
        if text != "0" && matches!(bytes.get(end), Some(b'l' | b'L')) {
            self.at += 1;
        }
        let number = text.parse().map_err(|_| self.error(start, format!("{text} is above {}", i64::MAX)))?;
        Ok(Token::Integer(number))
    }

    fn double(&self, start: usize, text: &str) -> Result<Token<'a>, SqlError> {
        let value: f64 = text.parse().map_err(|_| self.error(start, "this is no number"))?;
        let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
        let vanished = value == 0.0 && mantissa.bytes().any(|byte| matches!(byte, b'1'..=b'9'));
        if vanished || !value.is_finite() {
            return Err(self.error(start, format!("{text} is beyond what a double can hold")));
        }
        Ok(Token::Double(value))
    }

    /// `'it''s'`
    fn string(&mut self) -> Result<Token<'a>, SqlError> {
        let start = self.at;
        let mut text = String::new();
        loop {
            let rest = &self.text[self.at + 1..];
            let Some(end) = rest.find('\'') else { return Err(self.error(start, "this string has no end")) };
            text.push_str(&rest[..end]);
            self.at += 1 + end;
            if !self.text[self.at + 1..].starts_with('\'') {
                self.at += 1;
                return Ok(Token::Text(text.into()));
            }
            text.push('\'');
            self.at += 1;
        }
    }

    fn symbol(&mut self) -> Result<Token<'a>, SqlError> {
        let rest = &self.text[self.at..];
        if let Some(symbol) = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol)) {
            self.at += symbol.len();
            return Ok(Token::Symbol(symbol));
        }
        let habit = HABITS.iter().find(|(habit, _)| rest.starts_with(habit));
        let what = habit.map_or("no word begins with this", |(_, instead)| instead);
        Err(self.error(self.at, what))
    }

    pub(super) fn error(&self, at: usize, what: impl Into<String>) -> SqlError {
        SqlError::at(self.text, at, what)
    }
}
