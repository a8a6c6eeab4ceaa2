//! The compiled form against one that walks over a tree of its own, by RocketMQ's rules with their errors and by ours.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::Sql;

#[derive(Clone, Debug)]
enum Operand {
    Property(String),
    Negated(String),
    Integer(i64),
    Double(f64),
    Text(String),
    Truth(bool),
}

#[derive(Clone, Debug)]
enum Condition {
    Compare(Operand, &'static str, Operand),
    IsNull(Operand, bool),
    Between(Operand, bool, i32, i32),
    In(String, bool, Vec<String>),
    Find(Operand, bool, &'static str, String),
    Alone(String),
    Not(Box<Condition>),
    And(Vec<Condition>),
    Or(Vec<Condition>),
}

/// How it is written.
fn operand(operand: &Operand) -> String {
    match operand {
        Operand::Property(name) => name.clone(),
        Operand::Negated(name) => format!("-{name}"),
        Operand::Integer(number) => number.to_string(),
        Operand::Double(number) => format!("{number:?}"),
        Operand::Text(text) => quoted(text),
        Operand::Truth(truth) => truth.to_string(),
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn written(condition: &Condition) -> String {
    let not = |negated: &bool| if *negated { "NOT " } else { "" };
    let several =
        |all: &[Condition], word: &str| format!("({})", all.iter().map(written).collect::<Vec<_>>().join(word));
    match condition {
        Condition::Compare(left, sign, right) => format!("({} {sign} {})", operand(left), operand(right)),
        Condition::IsNull(of, negated) => format!("({} IS {}NULL)", operand(of), not(negated)),
        Condition::Between(of, negated, low, high) => {
            format!("({} {}BETWEEN {low} AND {high})", operand(of), not(negated))
        }
        Condition::In(name, negated, list) => {
            let list: Vec<String> = list.iter().map(|text| quoted(text)).collect();
            format!("({name} {}IN ({}))", not(negated), list.join(", "))
        }
        Condition::Find(of, negated, how, text) => format!("({} {}{how} {})", operand(of), not(negated), quoted(text)),
        Condition::Alone(name) => name.clone(),
        Condition::Not(of) => format!("NOT {}", parenthesized(of)),
        Condition::And(all) => several(all, " AND "),
        Condition::Or(all) => several(all, " OR "),
    }
}

fn parenthesized(condition: &Condition) -> String {
    format!("({})", written(condition))
}

/// A value of RocketMQ's types.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    Null,
    Truth(bool),
    Int32(i32),
    Int64(i64),
    Double(f64),
    Text(String),
}

/// The evaluation ends: a text cannot be read as what it is compared with.
struct Failed;

type Outcome = Result<Option<bool>, Failed>;

/// One message, and whose rules hold.
struct Naive<'a> {
    properties: &'a BTreeMap<String, String>,
    rocketmq: bool,
}

impl Naive<'_> {
    fn property(&self, name: &str) -> Value {
        self.properties.get(name).map_or(Value::Null, |text| Value::Text(text.clone()))
    }

    fn value(&self, operand: &Operand) -> Value {
        match operand {
            Operand::Property(name) => self.property(name),
            Operand::Negated(_) => Value::Null,
            Operand::Integer(number) => i32::try_from(*number).map_or(Value::Int64(*number), Value::Int32),
            Operand::Double(number) => Value::Double(*number),
            Operand::Text(text) => Value::Text(text.clone()),
            Operand::Truth(truth) => Value::Truth(*truth),
        }
    }

    fn condition(&self, condition: &Condition) -> Outcome {
        match condition {
            Condition::Compare(left, "=", right) => self.equal(self.value(left), self.value(right)),
            Condition::Compare(left, "<>", right) => {
                Ok(self.equal(self.value(left), self.value(right))?.map(|equal| !equal))
            }
            Condition::Compare(left, sign, right) => self.ordered(self.value(left), sign, self.value(right)),
            Condition::IsNull(of, negated) => Ok(Some((self.value(of) == Value::Null) != *negated)),
            Condition::Between(of, negated, low, high) => {
                let (signs, decisive) = if *negated { (["<", ">"], true) } else { ([">=", "<="], false) };
                let limits = [*low, *high].map(Value::Int32);
                let each = signs.into_iter().zip(limits);
                several(each.map(|(sign, limit)| self.ordered(self.value(of), sign, limit)), decisive)
            }
            Condition::In(name, negated, list) => Ok(match self.property(name) {
                Value::Text(text) => Some(list.contains(&text) != *negated),
                _ => None,
            }),
            Condition::Find(of, negated, how, wanted) => Ok(Some(match self.value(of) {
                Value::Text(_) if wanted.is_empty() => false,
                Value::Text(text) => {
                    let found = match *how {
                        "CONTAINS" => text.contains(wanted.as_str()),
                        "STARTSWITH" => text.starts_with(wanted.as_str()),
                        _ => text.ends_with(wanted.as_str()),
                    };
                    found != *negated
                }
                _ => false,
            })),
            Condition::Alone(name) => Ok((self.property(name) != Value::Null).then_some(false)),
            Condition::Not(of) => Ok(self.condition(of)?.map(|truth| !truth)),
            Condition::And(all) => several(all.iter().map(|condition| self.condition(condition)), false),
            Condition::Or(all) => several(all.iter().map(|condition| self.condition(condition)), true),
        }
    }

    fn equal(&self, left: Value, right: Value) -> Outcome {
        match (&left, &right) {
            (Value::Null, Value::Null) => Ok(Some(true)),
            (Value::Null, _) => Ok(None),
            (_, Value::Null) => Ok(Some(false)),
            _ if left == right => Ok(Some(true)),
            (Value::Truth(_), Value::Text(_)) if self.rocketmq => Err(Failed),
            (Value::Truth(truth), Value::Text(text)) | (Value::Text(text), Value::Truth(truth)) => {
                Ok(Some((text.to_lowercase() == "true") == *truth))
            }
            (Value::Text(_), Value::Text(_)) | (Value::Truth(_), _) | (_, Value::Truth(_)) => Ok(Some(false)),
            _ => Ok(self.pair(&left, &right)?.map(|(left, right)| left == right)),
        }
    }

    fn ordered(&self, left: Value, sign: &str, right: Value) -> Outcome {
        if left == Value::Null || right == Value::Null {
            return Ok(None);
        }
        Ok(self.pair(&left, &right)?.map(|(left, right)| match sign {
            "<" => left < right,
            "<=" => left <= right,
            ">" => left > right,
            _ => left >= right,
        }))
    }

    /// Both as numbers. Those of the tests are small enough for a double to hold them exactly.
    fn pair(&self, left: &Value, right: &Value) -> Result<Option<(f64, f64)>, Failed> {
        match (self.number(left, right), self.number(right, left)) {
            (Some(left), Some(right)) => Ok(Some((left, right))),
            _ if self.rocketmq => Err(Failed),
            _ => Ok(None),
        }
    }

    fn number(&self, value: &Value, other: &Value) -> Option<f64> {
        match value {
            Value::Int32(number) => Some(f64::from(*number)),
            Value::Int64(number) => Some(*number as f64),
            Value::Double(number) => Some(*number),
            Value::Text(text) => match other {
                Value::Int32(_) if self.rocketmq => text.parse::<i32>().ok().map(f64::from),
                Value::Int64(_) if self.rocketmq => text.parse::<i64>().ok().map(|number| number as f64),
                _ => text.trim().trim_end_matches(['d', 'f']).parse().ok(),
            },
            _ => None,
        }
    }
}

/// AND (`decisive` false) or OR (true), one after the other.
fn several(outcomes: impl Iterator<Item = Outcome>, decisive: bool) -> Outcome {
    let mut all_known = true;
    for outcome in outcomes {
        match outcome? {
            Some(truth) if truth == decisive => return Ok(Some(decisive)),
            Some(_) => {}
            None => all_known = false,
        }
    }
    Ok(all_known.then_some(!decisive))
}

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "c", "$d_1"]).prop_map(str::to_owned)
}

fn text() -> impl Strategy<Value = String> {
    let texts = [
        "5",
        "-7",
        "+5",
        "5.5",
        "5.0",
        "3000000000",
        "-3000000000",
        "1e3",
        " 5 ",
        "2.5d",
        "abc",
        "b",
        "true",
        "TRUE",
        "falsE",
        "it's",
        "",
        "9007199254740991",
        "0",
        "-",
        ".",
        "5x",
        "éß",
    ];
    prop::sample::select(texts.to_vec()).prop_map(str::to_owned)
}

fn number() -> impl Strategy<Value = Operand> {
    prop_oneof![
        3 => name().prop_map(Operand::Property),
        1 => name().prop_map(Operand::Negated),
        2 => prop::sample::select(vec![0, 5, -7, 1000, 3_000_000_000, -3_000_000_000]).prop_map(Operand::Integer),
        1 => prop::sample::select(vec![5.0, 5.5, -7.0, 1e300, 2.5]).prop_map(Operand::Double),
    ]
}

fn condition() -> impl Strategy<Value = Condition> {
    let signs = || prop::sample::select(vec!["<", "<=", ">", ">=", "=", "<>"]);
    let equals = || prop::sample::select(vec!["=", "<>"]);
    let kinds = || prop::sample::select(vec!["CONTAINS", "STARTSWITH", "ENDSWITH"]);
    let anything = || prop_oneof![number(), text().prop_map(Operand::Text)];
    let leaf = prop_oneof![
        4 => (number(), signs(), number()).prop_map(|(left, sign, right)| Condition::Compare(left, sign, right)),
        2 => (anything(), equals(), anything()).prop_map(|(left, sign, right)| Condition::Compare(left, sign, right)),
        1 => (anything(), equals(), any::<bool>())
            .prop_map(|(left, sign, truth)| Condition::Compare(left, sign, Operand::Truth(truth))),
        1 => (name(), equals(), any::<bool>()).prop_map(|(name, sign, truth)| {
            Condition::Compare(Operand::Truth(truth), sign, Operand::Property(name))
        }),
        1 => (number(), any::<bool>()).prop_map(|(of, negated)| Condition::IsNull(of, negated)),
        1 => (number(), any::<bool>(), -10..10, 0..10)
            .prop_map(|(of, negated, low, more)| Condition::Between(of, negated, low, low + more)),
        1 => (name(), any::<bool>(), prop::collection::vec(text(), 1..8))
            .prop_map(|(name, negated, list)| Condition::In(name, negated, list)),
        1 => (anything(), any::<bool>(), kinds(), text())
            .prop_map(|(of, negated, how, text)| Condition::Find(of, negated, how, text)),
        1 => name().prop_map(Condition::Alone),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            inner.clone().prop_map(|of| Condition::Not(of.into())),
            prop::collection::vec(inner.clone(), 2..4).prop_map(Condition::And),
            prop::collection::vec(inner, 2..4).prop_map(Condition::Or),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// What RocketMQ decides without an error we decide alike; where it fails we go by our own rules.
    #[test]
    fn decides_as_a_naive_evaluator(
        condition in condition(),
        properties in prop::collection::btree_map(name(), text(), 0..5),
    ) {
        let expression = written(&condition);
        let sql = Sql::compile(&expression).map_err(|error| TestCaseError::fail(format!("{expression}\n{error}")))?;
        let text: String = properties.iter().map(|(name, value)| format!("{name}\u{1}{value}\u{2}")).collect();
        let properties = properties.into_iter().filter(|(_, value)| !value.is_empty()).collect();
        let matches = sql.matches(&text);

        let ours = Naive { properties: &properties, rocketmq: false };
        let expected = ours.condition(&condition).unwrap_or(None) == Some(true);
        prop_assert_eq!(matches, expected, "{} {:?}", expression, properties);

        let theirs = Naive { properties: &properties, rocketmq: true };
        if let Ok(truth) = theirs.condition(&condition) {
            prop_assert_eq!(matches, truth == Some(true), "RocketMQ: {} {:?}", expression, properties);
        }
    }
}
