//! Which messages a subscription wants.
//!
//! By tag: [`TagFilter`], decided from the consume-queue entry alone. By SQL92 over properties: a later issue; the
//! place for its compiled form is beside [`TagFilter`] in this module, chosen by [`ExpressionType`].

mod expression;
mod subscription;

pub use expression::{parse_tags, TagExpressionError, TagFilter};
pub use subscription::{ExpressionType, SubscriptionData};
