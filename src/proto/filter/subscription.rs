//! A group's subscription to one topic, as heartbeats carry it.

use std::collections::BTreeSet;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::expression::{parse_tags, TagExpressionError, TagFilter};
use crate::proto::message::hash::java_hash;

/// The language of a filter expression.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExpressionType {
    /// Tags; also what is meant when nothing is said.
    #[default]
    Tag,
    /// SQL92 over properties.
    Sql92,
    /// A language this broker does not know.
    Other(Box<str>),
}

impl ExpressionType {
    /// The type of a name in a body or ext field; none or an empty one means tags.
    pub fn of_name(name: Option<&str>) -> ExpressionType {
        match name {
            None | Some("" | "TAG") => ExpressionType::Tag,
            Some("SQL92") => ExpressionType::Sql92,
            Some(other) => ExpressionType::Other(other.into()),
        }
    }

    /// RocketMQ's name for it.
    pub fn name(&self) -> &str {
        match self {
            ExpressionType::Tag => "TAG",
            ExpressionType::Sql92 => "SQL92",
            ExpressionType::Other(name) => name,
        }
    }
}

impl Serialize for ExpressionType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for ExpressionType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ExpressionType, D::Error> {
        let name = String::deserialize(deserializer)?;
        Ok(ExpressionType::of_name(Some(&name)))
    }
}

/// What a group wants of one topic.
///
/// Clients fill the sets in many ways (strings for codes, zeros, hashes of untrimmed tags, nothing); what counts is
/// `sub_string`, and [`SubscriptionData::normalize`] makes the sets agree with it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SubscriptionData {
    /// Filtering by uploaded classes, which is gone since 4.3.
    pub class_filter_mode: bool,
    /// Hashes of the tags.
    #[serde(deserialize_with = "codes_or_nothing")]
    pub code_set: BTreeSet<i32>,
    /// The language of `sub_string`.
    pub expression_type: ExpressionType,
    /// The expression.
    pub sub_string: String,
    /// Larger is newer: ms in Java, ns in Go.
    pub sub_version: i64,
    /// The tags of a tag expression; none: all messages.
    pub tags_set: BTreeSet<String>,
    /// The topic.
    pub topic: String,
}

/// Codes are computed anew from the expression, so those that came may be anything.
fn codes_or_nothing<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeSet<i32>, D::Error> {
    let codes = BTreeSet::<i64>::deserialize(deserializer)?;
    Ok(codes.into_iter().map(|code| code as i32).collect())
}

impl SubscriptionData {
    /// The subscription of an expression. Only tag expressions are taken apart.
    pub fn new(
        topic: &str,
        expression_type: ExpressionType,
        expression: &str,
        version: i64,
    ) -> Result<SubscriptionData, TagExpressionError> {
        let mut subscription = SubscriptionData {
            topic: topic.to_owned(),
            expression_type,
            sub_string: expression.to_owned(),
            sub_version: version,
            ..SubscriptionData::default()
        };
        subscription.normalize()?;
        Ok(subscription)
    }

    /// Recomputes tags and codes from the expression; without an expression, from the tags that came. After an error
    /// the subscription is as before.
    pub fn normalize(&mut self) -> Result<(), TagExpressionError> {
        if self.expression_type != ExpressionType::Tag {
            self.tags_set.clear();
        } else if !self.sub_string.is_empty() {
            self.tags_set = parse_tags(&self.sub_string)?;
        } else if self.tags_set.is_empty() {
            self.sub_string = super::expression::ALL.to_owned();
        } else {
            // The tags count as far as an expression can say them: blanks around a tag are no part of it.
            let tags: Vec<&str> = self.tags_set.iter().map(String::as_str).collect();
            let expression = tags.join(" || ");
            self.tags_set = parse_tags(&expression)?;
            self.sub_string = if expression.is_empty() { super::expression::ALL.to_owned() } else { expression };
        }
        self.code_set = self.tags_set.iter().map(|tag| java_hash(tag)).collect();
        Ok(())
    }

    /// What a pull of this subscription is filtered by in the consume queue. SQL92 is decided on the record.
    pub fn tag_filter(&self) -> TagFilter {
        TagFilter::of_tags(self.tags_set.iter().map(String::as_str))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::body::{from_slice, to_vec};
    use crate::proto::message::hash::tags_code;

    #[test]
    fn tags_without_an_expression_are_read_as_one() {
        let read = |json: &str| {
            let mut read: SubscriptionData = from_slice(json.as_bytes()).unwrap();
            read.normalize().map(|()| (read.sub_string.clone(), read.tags_set.clone()))
        };
        let odd = read(r#"{"tagsSet":["A\u0000 ","B"],"topic":"T"}"#).unwrap();
        assert_eq!(odd, ("A\0  || B".to_owned(), ["A", "B"].map(str::to_owned).into()));
        assert_eq!(read(r#"{"tagsSet":[""],"topic":"T"}"#).unwrap(), ("*".to_owned(), Default::default()));
        assert!(read(r#"{"tagsSet":["", " "],"topic":"T"}"#).is_err());
    }

    #[test]
    fn java_and_go_and_cpp_mean_the_same() {
        let java = br#"{"classFilterMode":false,"codeSet":[2598919],"expressionType":"TAG","subString":"TagA","subVersion":1700000000000,"tagsSet":["TagA"],"topic":"TopicTest"}"#;
        let go = br#"{"classFilterMode":false,"topic":"TopicTest","subString":"TagA","tagsSet":["TagA"],"codeSet":["2598919"],"subVersion":1700000000000,"expressionType":"TAG"}"#;
        let cpp = br#"{"codeSet":["0"],"subString":"TagA","subVersion":"1700000000000","tagsSet":["TagA"],"topic":"TopicTest"}"#;
        let rust =
            br#"{"codeSet":[2558405599321],"subString":" TagA ","subVersion":1700000000000,"topic":"TopicTest"}"#;
        let read = |json: &[u8]| {
            let mut read: SubscriptionData = from_slice(json).unwrap();
            read.normalize().unwrap();
            read
        };
        let expected = SubscriptionData::new("TopicTest", ExpressionType::Tag, "TagA", 1_700_000_000_000).unwrap();
        assert_eq!(read(java), expected);
        assert_eq!(read(go), expected);
        assert_eq!(read(cpp), expected);
        assert_eq!(read(rust).code_set, expected.code_set);
        assert_eq!(to_vec(&expected), java);
    }

    #[test]
    fn without_expression_the_tags_count() {
        let mut of_tags: SubscriptionData = from_slice(br#"{"topic":"T","tagsSet":["B","A"]}"#).unwrap();
        of_tags.normalize().unwrap();
        assert_eq!(of_tags.sub_string, "A || B");
        assert!(of_tags.tag_filter().matches(tags_code("B")) && !of_tags.tag_filter().matches(0));
        let mut of_nothing: SubscriptionData = from_slice(br#"{"topic":"T"}"#).unwrap();
        of_nothing.normalize().unwrap();
        assert_eq!((of_nothing.sub_string.as_str(), of_nothing.tag_filter()), ("*", TagFilter::All));
    }

    #[test]
    fn other_languages_are_kept_by_name() {
        let sql = SubscriptionData::new("T", ExpressionType::of_name(Some("SQL92")), "a > 5 || b", 1).unwrap();
        assert!(sql.tags_set.is_empty() && sql.expression_type == ExpressionType::Sql92);
        assert_eq!(ExpressionType::of_name(Some("")), ExpressionType::Tag);
        assert_eq!(ExpressionType::of_name(Some("XPATH")).name(), "XPATH");
    }

    #[test]
    fn an_expression_of_separators_is_refused_and_changes_nothing() {
        let mut subscription = SubscriptionData::new("T", ExpressionType::Tag, "A", 1).unwrap();
        subscription.sub_string = "||".into();
        assert!(subscription.normalize().is_err());
        assert_eq!(subscription.tags_set.len(), 1);
    }
}
