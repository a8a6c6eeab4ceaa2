//! Tag expressions: `TagA || TagB`.

use std::collections::BTreeSet;

use crate::proto::message::hash::java_hash;
use crate::proto::remoting::response;

/// The expression that wants every message.
pub const ALL: &str = "*";

/// An expression of nothing but separators.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the tag expression `{expression}` has no tag in it")]
pub struct TagExpressionError {
    /// The expression.
    pub expression: String,
}

impl TagExpressionError {
    /// RocketMQ's response code for it: SUBSCRIPTION_PARSE_FAILED.
    pub const CODE: i32 = response::SUBSCRIPTION_PARSE_FAILED;
}

/// The tags of an expression, none if it wants all messages.
///
/// Tags stand between `||`, blanks around them do not count, empty ones neither. Empty and exactly `*` want all; a `*`
/// with blanks is a tag like any other.
pub fn parse_tags(expression: &str) -> Result<BTreeSet<String>, TagExpressionError> {
    if expression.is_empty() || expression == ALL {
        return Ok(BTreeSet::new());
    }
    let tags: BTreeSet<String> =
        expression.split("||").map(java_trim).filter(|tag| !tag.is_empty()).map(str::to_owned).collect();
    if tags.is_empty() {
        return Err(TagExpressionError { expression: expression.chars().take(64).collect() });
    }
    Ok(tags)
}

/// What Java takes for blanks: everything up to U+0020.
fn java_trim(text: &str) -> &str {
    text.trim_matches(|c| c <= ' ')
}

/// Decides by the tags code of a consume-queue entry. Two tags may share a code; consumers compare the text again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TagFilter {
    /// Every message, with or without a tag.
    #[default]
    All,
    /// Messages whose tag has one of these hashes, in ascending order.
    Hashes(Box<[i32]>),
}

impl TagFilter {
    /// The filter of an expression.
    pub fn parse(expression: &str) -> Result<TagFilter, TagExpressionError> {
        parse_tags(expression).map(|tags| TagFilter::of_tags(tags.iter().map(String::as_str)))
    }

    /// The filter for some tags; all messages if there are none.
    pub fn of_tags<'a>(tags: impl IntoIterator<Item = &'a str>) -> TagFilter {
        let hashes: BTreeSet<i32> = tags.into_iter().map(java_hash).collect();
        if hashes.is_empty() {
            return TagFilter::All;
        }
        TagFilter::Hashes(hashes.into_iter().collect())
    }

    /// Whether a message with this tags code is wanted. Only the low 32 bits are the tag's hash.
    pub fn matches(&self, tags_code: i64) -> bool {
        match self {
            TagFilter::All => true,
            TagFilter::Hashes(hashes) if hashes.len() < 8 => hashes.contains(&(tags_code as i32)),
            TagFilter::Hashes(hashes) => hashes.binary_search(&(tags_code as i32)).is_ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::message::hash::tags_code;

    fn tags(expression: &str) -> Vec<String> {
        parse_tags(expression).unwrap().into_iter().collect()
    }

    #[test]
    fn blanks_and_empty_parts_do_not_count() {
        assert_eq!(tags("TagA"), ["TagA"]);
        assert_eq!(tags(" A ||C|| ||\tB B\n"), ["A", "B B", "C"]);
        assert_eq!(tags("A|B"), ["A|B"], "one bar is part of a tag");
    }

    #[test]
    fn all_and_nothing() {
        assert!(tags("").is_empty() && tags("*").is_empty());
        assert_eq!(tags(" * "), ["*"], "with blanks it is a tag that no message has");
        assert!(!TagFilter::parse(" * ").unwrap().matches(tags_code("TagA")));
        for expression in ["||", " ", " || || "] {
            assert!(parse_tags(expression).is_err(), "{expression:?}");
        }
    }

    #[test]
    fn codes_decide() {
        let filter = TagFilter::parse("TagA || polygenelubricants").unwrap();
        assert!(filter.matches(tags_code("TagA")));
        assert!(filter.matches(tags_code("polygenelubricants")), "the smallest hash");
        assert!(filter.matches(0x7FFF_FFFF_8000_0000), "only the low 32 bits count");
        assert!(!filter.matches(tags_code("TagB")));
        assert!(!filter.matches(0), "a message without a tag is none of the listed");
        assert!(TagFilter::All.matches(0));
        let many = (0..40).map(|n| format!("t{n}")).collect::<Vec<_>>();
        let filter = TagFilter::of_tags(many.iter().map(String::as_str));
        assert!(many.iter().all(|tag| filter.matches(tags_code(tag))) && !filter.matches(tags_code("t40")));
    }
}
