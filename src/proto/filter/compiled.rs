//! A subscription's expression, made ready to decide on messages.

use super::expression::{TagExpressionError, TagFilter};
use super::sql::{Sql, SqlError};
use super::subscription::{ExpressionType, SubscriptionData};
use crate::proto::message::record::{self, BodyCrc, Parsed};

/// Decides which messages are wanted.
#[derive(Clone, Debug, PartialEq)]
pub enum Filter {
    /// By the tag, from the consume-queue entry alone.
    Tags(TagFilter),
    /// By the properties, which are in the record.
    Sql(Sql),
}

/// An expression that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// A tag expression.
    #[error(transparent)]
    Tags(#[from] TagExpressionError),
    /// An SQL92 expression.
    #[error(transparent)]
    Sql(#[from] SqlError),
    /// In a language this broker does not know.
    #[error("there are no expressions of type `{kind}`")]
    Type {
        /// The type.
        kind: String,
    },
}

impl Filter {
    /// Every message.
    pub const ALL: Filter = Filter::Tags(TagFilter::All);

    /// Compiles an expression.
    ///
    /// # Errors
    /// If it is none.
    pub fn compile(kind: &ExpressionType, expression: &str) -> Result<Filter, FilterError> {
        match kind {
            ExpressionType::Tag => Ok(Filter::Tags(TagFilter::parse(expression)?)),
            ExpressionType::Sql92 => Ok(Filter::Sql(Sql::compile(expression)?)),
            ExpressionType::Other(name) => Err(FilterError::Type { kind: name.chars().take(64).collect() }),
        }
    }

    /// The filter of a subscription that was normalized.
    ///
    /// # Errors
    /// If its expression is none.
    pub fn of(subscription: &SubscriptionData) -> Result<Filter, FilterError> {
        match &subscription.expression_type {
            ExpressionType::Tag => Ok(Filter::Tags(subscription.tag_filter())),
            other => Filter::compile(other, &subscription.sub_string),
        }
    }

    /// Whether a message may be wanted, as far as its consume-queue entry tells.
    pub fn matches_code(&self, tags_code: i64) -> bool {
        match self {
            Filter::Tags(tags) => tags.matches(tags_code),
            Filter::Sql(_) => true,
        }
    }

    /// Whether a message whose code matches is wanted. What is no record goes to whoever asked: nobody can tell here.
    pub fn matches_record(&self, record: &[u8]) -> bool {
        let Filter::Sql(sql) = self else { return true };
        match record::parse(record, BodyCrc::Trust) {
            Ok(Parsed::Record(view)) => sql.matches(&view.properties()),
            _ => true,
        }
    }
}
