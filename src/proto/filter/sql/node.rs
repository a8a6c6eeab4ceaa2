//! A compiled expression.

/// A part of an expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    Constant(Constant),
    /// The value of a property, by its place among the names.
    Property(usize),
    /// Of a number the negative one, of anything else unknown.
    Negate(Box<Node>),
    /// A property alone where a condition should be: RocketMQ takes whatever text it has for false.
    Condition(Box<Node>),
    Not(Box<Node>),
    /// Two or more.
    And(Vec<Node>),
    /// Two or more.
    Or(Vec<Node>),
    Equal(Box<(Node, Node)>),
    Order(Order, Box<(Node, Node)>),
    /// A value, its lower and its upper limit.
    Between(Box<(Node, Node, Node)>),
    /// A value below a lower or above an upper limit. Not the opposite of the former: each comparison may be unknown.
    NotBetween(Box<(Node, Node, Node)>),
    IsNull(Box<Node>),
    /// Whether a property's text is one of those, which are sorted.
    In(usize, Box<[Box<str>]>),
    Like(Like, Box<Node>),
}

/// A value that stands in the expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Constant {
    Null,
    Boolean(bool),
    Integer(i64),
    Double(f64),
    Text(Box<str>),
}

/// Which order two numbers must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// What a text must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Like {
    pub(super) place: Place,
    pub(super) negated: bool,
    pub(super) text: Box<str>,
}

/// Where in the other a text must stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Anywhere,
    Start,
    End,
}

impl Node {
    /// Whether it is true, false or unknown, whatever the message.
    pub(super) fn is_boolean(&self) -> bool {
        match self {
            Node::Constant(constant) => matches!(constant, Constant::Null | Constant::Boolean(_)),
            Node::Property(_) | Node::Negate(_) => false,
            _ => true,
        }
    }
}
