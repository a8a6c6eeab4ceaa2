//! Expressions that pulls bring along, compiled once.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::broker::BrokerError;
use crate::proto::filter::{ExpressionType, Filter};

/// Expressions one connection keeps. A client of many topics mostly has fewer expressions than topics.
const KEPT_MAX: usize = 16;
/// Bytes of an expression that is kept, at most: a connection holds only so much.
const KEPT_BYTES_MAX: usize = 4096;

/// The expressions that came last over one connection, the newest first.
#[derive(Debug, Default)]
pub struct Expressions {
    kept: VecDeque<Kept>,
}

#[derive(Debug)]
struct Kept {
    kind: ExpressionType,
    text: Box<str>,
    filter: Arc<Filter>,
}

impl Expressions {
    /// The filter of an expression.
    ///
    /// # Errors
    /// If it does not compile.
    pub fn filter(&mut self, kind: ExpressionType, text: &str) -> Result<Arc<Filter>, BrokerError> {
        let place = self.kept.iter().position(|kept| *kept.text == *text && kept.kind == kind);
        if let Some(kept) = place.and_then(|place| self.kept.remove(place)) {
            let filter = Arc::clone(&kept.filter);
            self.kept.push_front(kept);
            return Ok(filter);
        }
        let filter = Arc::new(Filter::compile(&kind, text).map_err(BrokerError::Expression)?);
        if text.len() <= KEPT_BYTES_MAX {
            self.kept.truncate(KEPT_MAX - 1);
            self.kept.push_front(Kept { kind, text: text.into(), filter: Arc::clone(&filter) });
        }
        Ok(filter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_compiled_once() {
        let mut expressions = Expressions::default();
        let mut get = |text: &str| expressions.filter(ExpressionType::Sql92, text).unwrap();
        let first = get("a = 0");
        for n in 1..KEPT_MAX {
            get(&format!("a = {n}"));
            assert!(Arc::ptr_eq(&first, &get("a = 0")), "what is used stays");
        }
        (0..KEPT_MAX).for_each(|n| drop(get(&format!("b = {n}"))));
        assert!(!Arc::ptr_eq(&first, &get("a = 0")), "what is not used makes room");
    }

    #[test]
    fn the_type_counts_and_errors_stay_errors() {
        let mut expressions = Expressions::default();
        assert!(matches!(*expressions.filter(ExpressionType::Tag, "a = 1").unwrap(), Filter::Tags(_)));
        assert!(matches!(*expressions.filter(ExpressionType::Sql92, "a = 1").unwrap(), Filter::Sql(_)));
        for _ in 0..2 {
            assert_eq!(expressions.filter(ExpressionType::Sql92, "a =").unwrap_err().code(), 23);
        }
    }
}
