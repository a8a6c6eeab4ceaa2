//! Which messages a subscription wants.
//!
//! By tag: [`TagFilter`], decided from the consume-queue entry alone. By SQL92 over properties: [`Sql`], decided on the
//! record. [`Filter`] is either, as [`ExpressionType`] says.

mod compiled;
mod expression;
pub mod fuzzing;
pub mod sql;
mod subscription;

pub use compiled::{Filter, FilterError};
pub use expression::{parse_tags, TagExpressionError, TagFilter};
pub use sql::{Sql, SqlError};
pub use subscription::{ExpressionType, SubscriptionData};
