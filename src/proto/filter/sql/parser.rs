//! From words to a tree: one function for each level of the grammar, the loosest first.
//!
//! ```text
//! or         := and { OR and }
//! and        := equality { AND equality }
//! equality   := comparison { (= | <>) comparison | IS [NOT] NULL }
//! comparison := unary { (> | >= | < | <=) unary | [NOT] BETWEEN unary AND unary | [NOT] IN (string {, string})
//!                     | [NOT] (CONTAINS | STARTSWITH | ENDSWITH) string }
//! unary      := (+ | - | NOT) unary | literal | property | ( or )
//! ```

use super::error::SqlError;
use super::lexer::{Lexer, Token, Word};
use super::node::{Constant, Like, Node, Order, Place};
use super::{DEPTH_MAX, EXPRESSION_BYTES_MAX};

/// A node, and what errors and limits need to know about it.
struct Part {
    node: Node,
    /// The byte it begins at.
    start: usize,
    /// Nodes above one another.
    depth: usize,
}

pub(super) struct Parser<'a> {
    lexer: Lexer<'a>,
    /// The word to look at, and where it begins.
    token: Token<'a>,
    start: usize,
    /// Levels of parentheses and signs around it.
    nested: usize,
    names: Vec<Box<str>>,
}

impl<'a> Parser<'a> {
    /// The tree of an expression, and the names of the properties in it.
    pub(super) fn parse(text: &'a str) -> Result<(Node, Vec<Box<str>>), SqlError> {
        if text.len() > EXPRESSION_BYTES_MAX {
            let what = format!("an expression has {EXPRESSION_BYTES_MAX} bytes at most");
            return Err(SqlError::at(text, EXPRESSION_BYTES_MAX, what));
        }
        let mut lexer = Lexer::new(text);
        let (start, token) = lexer.next()?;
        let mut parser = Parser { lexer, token, start, nested: 0, names: Vec::new() };
        let whole = parser.or()?;
        if parser.token != Token::End {
            return Err(parser.unexpected("AND, OR, a comparison or the end"));
        }
        let condition = parser.condition(whole)?;
        Ok((condition.node, parser.names))
    }

    fn or(&mut self) -> Result<Part, SqlError> {
        self.chain(Word::Or, Parser::and, Node::Or)
    }

    fn and(&mut self) -> Result<Part, SqlError> {
        self.chain(Word::And, Parser::equality, Node::And)
    }

    /// Conditions with a word between them; one alone may be any value.
    fn chain(
        &mut self,
        word: Word,
        link: fn(&mut Self) -> Result<Part, SqlError>,
        join: fn(Vec<Node>) -> Node,
    ) -> Result<Part, SqlError> {
        let first = link(self)?;
        if self.token != Token::Word(word) {
            return Ok(first);
        }
        let first = self.condition(first)?;
        let (start, mut depth, mut nodes) = (first.start, first.depth, vec![first.node]);
        while self.accept_word(word)? {
            let next = link(self)?;
            let next = self.condition(next)?;
            depth = depth.max(next.depth);
            nodes.push(next.node);
        }
        self.above(start, depth, join(nodes))
    }

    fn equality(&mut self) -> Result<Part, SqlError> {
        let mut left = self.comparison()?;
        loop {
            let start = left.start;
            let unequal = match self.token {
                Token::Symbol("=") => false,
                Token::Symbol("<>") => true,
                Token::Word(Word::Is) => {
                    self.advance()?;
                    let not = self.accept_word(Word::Not)?;
                    self.expect(&Token::Word(Word::Null), "NULL")?;
                    left = self.above(start, left.depth, Node::IsNull(left.node.into()))?;
                    left = self.negated(not, left)?;
                    continue;
                }
                _ => return Ok(left),
            };
            let operator = self.start;
            self.advance()?;
            let right = self.comparison()?;
            self.check_equal(operator, &left, &right)?;
            let depth = left.depth.max(right.depth);
            left = self.above(start, depth, Node::Equal((left.node, right.node).into()))?;
            left = self.negated(unequal, left)?;
        }
    }

    fn comparison(&mut self) -> Result<Part, SqlError> {
        let mut left = self.unary()?;
        loop {
            left = match self.token {
                Token::Symbol(">") => self.order(left, Order::Greater)?,
                Token::Symbol(">=") => self.order(left, Order::GreaterOrEqual)?,
                Token::Symbol("<") => self.order(left, Order::Less)?,
                Token::Symbol("<=") => self.order(left, Order::LessOrEqual)?,
                Token::Word(Word::Not) => {
                    self.advance()?;
                    self.predicate(left, true)?.map_err(|_| self.unexpected("BETWEEN, IN or CONTAINS behind NOT"))?
                }
                _ => match self.predicate(left, false)? {
                    Ok(predicate) => predicate,
                    Err(left) => return Ok(left),
                },
            };
        }
    }

    /// What may have NOT before it; the left side back if none of these stands here.
    fn predicate(&mut self, left: Part, negated: bool) -> Result<Result<Part, Part>, SqlError> {
        let place = match self.token {
            Token::Word(Word::Between) => return self.between(left, negated).map(Ok),
            Token::Word(Word::In) => return self.one_of(left, negated).map(Ok),
            Token::Word(Word::Contains) => Place::Anywhere,
            Token::Word(Word::StartsWith) => Place::Start,
            Token::Word(Word::EndsWith) => Place::End,
            _ => return Ok(Err(left)),
        };
        self.advance()?;
        let text = self.string()?;
        let like = Node::Like(Like { place, negated, text }, left.node.into());
        self.above(left.start, left.depth, like).map(Ok)
    }

    fn order(&mut self, left: Part, order: Order) -> Result<Part, SqlError> {
        self.check_number(&left)?;
        self.advance()?;
        let right = self.unary()?;
        self.check_number(&right)?;
        let depth = left.depth.max(right.depth);
        self.above(left.start, depth, Node::Order(order, (left.node, right.node).into()))
    }

    fn between(&mut self, value: Part, negated: bool) -> Result<Part, SqlError> {
        self.check_number(&value)?;
        self.advance()?;
        let low = self.unary()?;
        self.check_number(&low)?;
        self.expect(&Token::Word(Word::And), "AND and the upper limit")?;
        let high = self.unary()?;
        self.check_number(&high)?;
        if is_above(&low.node, &high.node) {
            return Err(self.lexer.error(low.start, "the lower limit is above the upper one"));
        }
        let depth = value.depth.max(low.depth).max(high.depth);
        let parts = (value.node, low.node, high.node).into();
        self.above(value.start, depth, if negated { Node::NotBetween(parts) } else { Node::Between(parts) })
    }

    fn one_of(&mut self, left: Part, negated: bool) -> Result<Part, SqlError> {
        let Node::Property(name) = left.node else {
            return Err(self.lexer.error(left.start, "IN takes a property on its left"));
        };
        self.advance()?;
        self.expect(&Token::Symbol("("), "`(`")?;
        let mut texts = vec![self.string()?];
        while self.token == Token::Symbol(",") {
            self.advance()?;
            texts.push(self.string()?);
        }
        self.expect(&Token::Symbol(")"), "`,` or `)`")?;
        texts.sort();
        texts.dedup();
        let found = self.above(left.start, left.depth, Node::In(name, texts.into()))?;
        self.negated(negated, found)
    }

    fn unary(&mut self) -> Result<Part, SqlError> {
        let start = self.start;
        self.nested += 1;
        if self.nested > DEPTH_MAX {
            return Err(self.too_deep(start));
        }
        let part = match self.token {
            Token::Symbol("+") => {
                self.advance()?;
                self.unary()
            }
            Token::Symbol("-") => {
                self.advance()?;
                let of = self.unary()?;
                match of.node {
                    Node::Constant(Constant::Integer(number)) => self.constant(start, Constant::Integer(-number)),
                    Node::Constant(Constant::Double(number)) => self.constant(start, Constant::Double(-number)),
                    node => self.above(start, of.depth, Node::Negate(node.into())),
                }
            }
            Token::Word(Word::Not) => {
                self.advance()?;
                let of = self.unary()?;
                let of = self.condition(of)?;
                self.above(start, of.depth, Node::Not(of.node.into()))
            }
            _ => self.primary(),
        };
        self.nested -= 1;
        part
    }

    fn primary(&mut self) -> Result<Part, SqlError> {
        let start = self.start;
        let constant = match std::mem::replace(&mut self.token, Token::End) {
            Token::Text(text) => Constant::Text(text),
            Token::Integer(number) => Constant::Integer(number),
            Token::Double(number) => Constant::Double(number),
            Token::Word(Word::True) => Constant::Boolean(true),
            Token::Word(Word::False) => Constant::Boolean(false),
            Token::Word(Word::Null) => Constant::Null,
            Token::Name(name) => {
                let node = Node::Property(self.place_of(name));
                self.advance()?;
                return self.above(start, 0, node);
            }
            Token::Symbol("(") => {
                self.advance()?;
                let inner = self.or()?;
                self.expect(&Token::Symbol(")"), "AND, OR, a comparison or `)`")?;
                return Ok(inner);
            }
            other => {
                self.token = other;
                return Err(self.unexpected("a property, a number, a string or `(`"));
            }
        };
        self.advance()?;
        self.constant(start, constant)
    }

    fn place_of(&mut self, name: &str) -> usize {
        self.names.iter().position(|known| **known == *name).unwrap_or_else(|| {
            self.names.push(name.into());
            self.names.len() - 1
        })
    }

    fn string(&mut self) -> Result<Box<str>, SqlError> {
        match std::mem::replace(&mut self.token, Token::End) {
            Token::Text(text) => {
                self.advance()?;
                Ok(text)
            }
            other => {
                self.token = other;
                Err(self.unexpected("a string between single quotes"))
            }
        }
    }

    fn constant(&self, start: usize, constant: Constant) -> Result<Part, SqlError> {
        self.above(start, 0, Node::Constant(constant))
    }

    /// A node above others that are `depth` deep.
    fn above(&self, start: usize, depth: usize, node: Node) -> Result<Part, SqlError> {
        if depth >= DEPTH_MAX {
            return Err(self.too_deep(start));
        }
        Ok(Part { node, start, depth: depth + 1 })
    }

    fn negated(&self, negated: bool, part: Part) -> Result<Part, SqlError> {
        match negated {
            false => Ok(part),
            true => self.above(part.start, part.depth, Node::Not(part.node.into())),
        }
    }

    fn condition(&self, part: Part) -> Result<Part, SqlError> {
        match part.node {
            Node::Property(_) => self.above(part.start, part.depth, Node::Condition(part.node.into())),
            _ if part.node.is_boolean() => Ok(part),
            _ => Err(self.lexer.error(part.start, "this is a value, not a condition")),
        }
    }

    fn check_number(&self, part: &Part) -> Result<(), SqlError> {
        let what = match &part.node {
            Node::Constant(Constant::Text(_)) => "strings have no order here, only numbers do",
            node if node.is_boolean() => "conditions have no order, only numbers do",
            _ => return Ok(()),
        };
        Err(self.lexer.error(part.start, what))
    }

    fn check_equal(&self, operator: usize, left: &Part, right: &Part) -> Result<(), SqlError> {
        for part in [left, right] {
            if part.node == Node::Constant(Constant::Null) {
                return Err(self.lexer.error(part.start, "nothing equals NULL, `IS NULL` is how to ask"));
            }
        }
        match (&left.node, &right.node) {
            (Node::Constant(Constant::Boolean(_)), Node::Constant(right)) if !matches!(right, Constant::Boolean(_)) => {
                Err(self.lexer.error(operator, "a truth value never equals a number or a string"))
            }
            _ => Ok(()),
        }
    }

    fn advance(&mut self) -> Result<(), SqlError> {
        (self.start, self.token) = self.lexer.next()?;
        Ok(())
    }

    fn accept_word(&mut self, word: Word) -> Result<bool, SqlError> {
        let here = self.token == Token::Word(word);
        if here {
            self.advance()?;
        }
        Ok(here)
    }

    fn expect(&mut self, token: &Token<'_>, what: &str) -> Result<(), SqlError> {
        if self.token != *token {
            return Err(self.unexpected(what));
        }
        self.advance()
    }

    fn unexpected(&self, wanted: &str) -> SqlError {
        let what = match self.token {
            Token::End => format!("it ends where {wanted} should follow"),
            _ => format!("here should be {wanted}"),
        };
        self.lexer.error(self.start, what)
    }

    fn too_deep(&self, at: usize) -> SqlError {
        self.lexer.error(at, format!("more than {DEPTH_MAX} levels"))
    }
}

/// Whether two constants are such that no value lies between them.
fn is_above(low: &Node, high: &Node) -> bool {
    let (Node::Constant(low), Node::Constant(high)) = (low, high) else { return false };
    match (low, high) {
        (Constant::Integer(low), Constant::Integer(high)) => low > high,
        (Constant::Integer(low), Constant::Double(high)) => *low as f64 > *high,
        (Constant::Double(low), Constant::Integer(high)) => *low > *high as f64,
        (Constant::Double(low), Constant::Double(high)) => low > high,
        _ => false,
    }
}
