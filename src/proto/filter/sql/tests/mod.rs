//! Expressions by example; `compared` holds them against another evaluator.

mod compared;

use super::*;

/// `price=5 big=3000000000 half=5.5 word=abc vip=TRUE quote=it's $_x1=1 TAGS=TagA`
const PROPERTIES: &str = "price\u{1}9\u{2}big\u{1}3000000000\u{2}half\u{1}5.5\u{2}word\u{1}abc\u{2}vip\u{1}TRUE\u{2}\
                          quote\u{1}it's\u{2}$_x1\u{1}1\u{2}TAGS\u{1}TagA\u{2}price\u{1}5\u{2}";

fn holds(expression: &str) -> bool {
    Sql::compile(expression).unwrap_or_else(|error| panic!("{expression}\n{error}")).matches(PROPERTIES)
}

#[track_caller]
fn all(expected: bool, expressions: &[&str]) {
    for expression in expressions {
        assert_eq!(holds(expression), expected, "{expression}");
    }
}

#[test]
fn numbers() {
    let yes = [
        "price = 5",
        "price > 4",
        "price >= 5",
        "price < 6",
        "price <= 5",
        "price <> 6",
        "5 = price",
        "4 < price",
        "price = 5.0",
        "price > 4.9",
        "price = +5",
        "price > -5",
        "-5 < price",
        "price = 5L",
        "price = 5e0",
        "price = .5e1",
        "price BETWEEN 5 AND 5",
        "price NOT BETWEEN 6 AND 7",
        "price BETWEEN -1 AND 5.5",
        "price > 0.0",
        "price = 5.",
        "half > 5",
        "half = 5.5",
        "big > 5",
        "big = 3000000000",
        "half < big",
        "5 < 6",
        "price = price",
    ];
    all(true, &yes);
    let no = [
        "price = 6",
        "price > 5",
        "price < 5",
        "price <> 5",
        "price BETWEEN 6 AND 7",
        "price NOT BETWEEN 5 AND 6",
        "word > 5",
        "word < 5",
        "word = 5",
        "word <> 5",
        "NOT (word > 5)",
        "-price < 0",
        "price = -5",
        "half = 5",
    ];
    all(false, &no);
}

#[test]
fn texts_and_truth() {
    let yes = [
        "word = 'abc'",
        "word <> 'b'",
        "quote = 'it''s'",
        "word IN ('x', 'abc')",
        "word NOT IN ('x')",
        "word CONTAINS 'b'",
        "word STARTSWITH 'ab'",
        "word ENDSWITH 'bc'",
        "word NOT CONTAINS 'x'",
        "word NOT STARTSWITH 'b'",
        "word NOT ENDSWITH 'b'",
        "TAGS = 'TagA'",
        "$_x1 = 1",
        "vip = TRUE",
        "vip = true",
        "TRUE = vip",
        "word = FALSE",
        "vip <> FALSE",
        "TRUE",
        "NOT FALSE",
        "TRUE = TRUE",
        "(price = 5) = TRUE",
        "'a' = 'a'",
        "price = '5'",
    ];
    all(true, &yes);
    let no = [
        "word = 'ABC'",
        "word <> 'abc'",
        "word IN ('x')",
        "word NOT IN ('abc')",
        "word CONTAINS 'B'",
        "word CONTAINS ''",
        "word NOT CONTAINS ''",
        "tags = 'TagA'",
        "vip = FALSE",
        "FALSE",
        "vip",
        "word",
        "price = '5.0'",
        "5 = TRUE",
    ];
    all(false, &no);
    assert!(holds("NOT vip"), "a property alone is false whatever it says, as RocketMQ has it");
    assert!(holds("NOT word = TRUE"), "(NOT word) = TRUE");
}

#[test]
fn what_is_absent_is_unknown() {
    let yes = [
        "none IS NULL",
        "price IS NOT NULL",
        "none = none2",
        "none IS NULL AND price = 5",
        "none > 1 OR price = 5",
        "(none > 1) IS NULL",
        "NOT (none > 1 AND price = 6)",
        "NOT (price = none)",
        "(word > 5) IS NULL",
        "word > 5 OR price = 5",
        "NULL IS NULL",
        "none = 1 OR TRUE",
    ];
    all(true, &yes);
    let no = [
        "none IS NOT NULL",
        "price IS NULL",
        "none = 1",
        "none <> 1",
        "price = none",
        "none > 1",
        "NOT (none > 1)",
        "none",
        "NOT none",
        "none IN ('a')",
        "none NOT IN ('a')",
        "none CONTAINS 'a'",
        "none NOT CONTAINS 'a'",
        "price CONTAINS ''",
        "none BETWEEN 1 AND 2",
        "none NOT BETWEEN 1 AND 2",
        "none > 1 AND price = 5",
        "NULL",
        "none = 1 AND TRUE",
    ];
    all(false, &no);
}

#[test]
fn and_binds_tighter_than_or_and_words_have_no_case() {
    assert!(holds("price = 5 OR price = 6 AND price = 7"));
    assert!(!holds("(price = 5 OR price = 6) AND price = 7"));
    assert!(holds("price in ('5') aNd Not (word iS nUll) oR false"));
    assert!(holds("price/* five */= -- here it comes\n 5 -- and no more"));
    assert!(holds("\t price\r\n=\u{c}5 "));
}

/// Expressions, the character that is wrong, and a part of what is said of it.
const WRONG: &[(&str, usize, &str)] = &[
    ("", 1, "it ends where a property"),
    ("5", 1, "a value, not a condition"),
    ("'a' AND price = 5", 1, "a value, not a condition"),
    ("price = 5 AND 'x'", 15, "a value, not a condition"),
    ("price >", 8, "it ends where a property"),
    ("price = 5 price", 11, "AND, OR"),
    ("price > 'high'", 9, "strings have no order"),
    ("price > TRUE", 9, "conditions have no order"),
    ("price = NULL", 9, "IS NULL"),
    ("TRUE = 5", 6, "never equals"),
    ("a = 1 OR (b = 2", 16, "it ends where AND, OR"),
    ("a = 1)", 6, "AND, OR"),
    ("a == 1", 4, "a property, a number"),
    ("a != 1", 3, "`<>`"),
    ("a = 1 && b = 2", 7, "`AND`"),
    ("a = 1 || b = 2", 7, "`OR`"),
    ("a = \"x\"", 5, "single quotes"),
    ("a = 'x", 5, "has no end"),
    ("a = 1 /* x", 7, "has no end"),
    ("a LIKE 'x'", 3, "AND, OR"),
    ("a + 1 = 2", 3, "AND, OR"),
    ("a IN (1)", 7, "single quotes"),
    ("a IN ('x'", 10, "`,` or `)`"),
    ("5 IN ('x')", 1, "IN takes a property"),
    ("a NOT 5", 7, "behind NOT"),
    ("a IS 5", 6, "NULL"),
    ("a BETWEEN 5 AND 4", 11, "above the upper"),
    ("a BETWEEN -4 AND -5", 11, "above the upper"),
    ("a BETWEEN 1 OR 2", 13, "AND and the upper limit"),
    ("a = 9223372036854775808", 5, "above 9223372036854775807"),
    ("a = 1e999", 5, "beyond what a double"),
    ("a = 1e-999", 5, "beyond what a double"),
    ("a = 007", 5, "does not begin with 0"),
    ("größe = 5", 3, "no word begins"),
    ("a = 'ö' ? b", 9, "no word begins"),
];

#[test]
fn errors_point_at_the_character() {
    for (expression, character, what) in WRONG {
        let error = Sql::compile(expression).expect_err(expression);
        assert_eq!(error.character, *character, "{expression}\n{error}");
        assert!(error.what.contains(what), "{expression}\n{error}");
    }
    let text = Sql::compile("price > 'high'").unwrap_err().to_string();
    assert_eq!(text, "character 9: strings have no order here, only numbers do\n  price > 'high'\n          ^");
    let long = format!("{}ä\n= ? AND {0}", "a = 1 AND ".repeat(50));
    let text = Sql::compile(&long).unwrap_err().to_string();
    let [_, shown, caret] = text.lines().collect::<Vec<_>>()[..] else { panic!("{text}") };
    assert!(shown.chars().count() < 80 && !text.contains("ä\n"), "{text}");
    assert_eq!(shown.chars().nth(caret.len() - 1), Some('ä'), "{text}");
}

#[test]
fn length_and_depth_have_limits() {
    let chain = vec!["price = 5"; 4000].join(" AND ");
    assert!(holds(&chain), "a row of conditions is no depth");
    for deep in [
        format!("{}a = 1{}", "(".repeat(20_000), ")".repeat(20_000)),
        format!("{}a", "NOT ".repeat(15_000)),
        format!("a = -{}1", " -".repeat(20_000)),
        format!("a{}", " = b".repeat(10_000)),
        format!("a{}", " IS NULL".repeat(8_000)),
        format!("{}a BETWEEN 1 AND 2{}", "-(".repeat(100), ") BETWEEN 1 AND 2".repeat(100)),
    ] {
        assert!(Sql::compile(&deep).unwrap_err().what.contains("levels"), "{}", &deep[..40]);
    }
    assert!(holds(&format!("{}price = 5{}", "(".repeat(50), ")".repeat(50))));
    let long = format!("a = '{}'", "x".repeat(EXPRESSION_BYTES_MAX));
    assert!(Sql::compile(&long).unwrap_err().what.contains("bytes"));
}

#[test]
fn many_names_are_found() {
    let text: String = (0..40).map(|n| format!("n{n}\u{1}{n}\u{2}")).collect();
    let conditions: Vec<String> = (0..40).map(|n| format!("n{n} = {n}")).collect();
    assert!(Sql::compile(&conditions.join(" AND ")).unwrap().matches(&text));
    assert!(!Sql::compile(&(conditions.join(" AND ") + " AND n39 = 1")).unwrap().matches(&text));
}
