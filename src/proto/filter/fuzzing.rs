//! What has to hold for any bytes: shared by the fuzz target and the corpus.

use super::sql::Sql;

/// An expression up to the first line end, and behind it properties. It compiles or its error has a place; what compiles
/// decides the same each time, and what is false is not also true when negated.
pub fn sql(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (expression, properties) = text.split_once('\n').unwrap_or((&text, ""));
    match Sql::compile(expression) {
        Ok(sql) => {
            let matches = sql.matches(properties);
            assert_eq!(sql.matches(properties), matches);
            // The expression may be as deep or as long as it can be already, or end with a comment.
            if let Ok(opposite) = Sql::compile(&format!("NOT ({expression})")) {
                assert!(!(matches && opposite.matches(properties)), "{expression}");
            }
        }
        Err(error) => {
            assert!((1..=expression.chars().count() + 1).contains(&error.character), "{expression}");
            assert_eq!(error.to_string().lines().count(), 3, "{error}");
        }
    }
}
