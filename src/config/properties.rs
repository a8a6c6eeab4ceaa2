//! Java's properties format, in which `broker.conf` and `namesrv.conf` are written.
//!
//! `key=value`, `key:value` or `key value`, one a line; `#` and `!` begin comments; a backslash at a line's end joins it
//! with the next one; `\t`, `\n`, `\r`, `\f`, `\uXXXX` and a backslash before any other character are escapes.

/// Most bytes of a properties file that are read.
pub const BYTES_MAX: usize = 1 << 20;

/// The pairs of a text in order, repeated keys included (the last one counts). Lines without a key are left out.
pub fn parse(text: &str) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let line = line.trim_start();
        if line.is_empty() || line.starts_with(['#', '!']) {
            continue;
        }
        let mut logical = line.to_owned();
        while ends_in_continuation(&logical) {
            logical.pop();
            match lines.next() {
                Some(next) => logical.push_str(next.trim_start()),
                None => break,
            }
        }
        let (key, value) = split(&logical);
        if !key.is_empty() {
            pairs.push((unescape(key), unescape(value)));
        }
    }
    pairs
}

/// A pair as a line that [`parse`] reads back.
pub fn write(out: &mut String, key: &str, value: &str) {
    out.push_str(key);
    out.push('=');
    for (at, character) in value.chars().enumerate() {
        match character {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            ' ' if at == 0 => out.push_str("\\ "),
            other => out.push(other),
        }
    }
    out.push('\n');
}

/// A text with values changed. A key that is there gets its new value where it stood last, which is the one that counts;
/// the others are appended. Everything else stays byte for byte: comments, blank lines, order, line ends.
pub fn edited(text: &str, changes: &[(String, String)]) -> String {
    let mut out = text.to_owned();
    for (key, value) in changes {
        let mut pair = String::new();
        write(&mut pair, key, value);
        match last_lines_of(&out, key) {
            Some(lines) => {
                let end = if out[lines.clone()].ends_with("\r\n") { "\r\n" } else { "\n" };
                pair.truncate(pair.len() - 1);
                out.replace_range(lines, &(pair + end));
            }
            None => {
                // A backslash at the end would join the new pair to the last one.
                let joins =
                    out.split_inclusive('\n').next_back().is_some_and(|last| ends_in_continuation(without_end(last)));
                if !out.is_empty() && !out.ends_with('\n') {
                    out.push('\n');
                }
                if joins {
                    out.push('\n');
                }
                out.push_str(&pair);
            }
        }
    }
    out
}

/// The bytes of the last pair with this key, its line end and the lines it goes on in included.
fn last_lines_of(text: &str, key: &str) -> Option<std::ops::Range<usize>> {
    let mut found = None;
    let mut at = 0;
    let mut lines = text.split_inclusive('\n');
    while let Some(line) = lines.next() {
        let start = at;
        at += line.len();
        let mut logical = without_end(line).trim_start().to_owned();
        if logical.is_empty() || logical.starts_with(['#', '!']) {
            continue;
        }
        while ends_in_continuation(&logical) {
            logical.pop();
            let Some(next) = lines.next() else { break };
            at += next.len();
            logical.push_str(without_end(next).trim_start());
        }
        if unescape(split(&logical).0) == key {
            found = Some(start..at);
        }
    }
    found
}

/// As [`str::lines`] sees a line.
fn without_end(line: &str) -> &str {
    let line = line.strip_suffix('\n').unwrap_or(line);
    line.strip_suffix('\r').unwrap_or(line)
}

fn ends_in_continuation(line: &str) -> bool {
    line.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
}

/// The key ends at the first `=`, `:` or blank that no backslash stands before.
fn split(line: &str) -> (&str, &str) {
    let mut escaped = false;
    let end = line.find(|character: char| {
        let ends = !escaped && (matches!(character, '=' | ':') || character.is_whitespace());
        escaped = character == '\\' && !escaped;
        ends
    });
    let Some(end) = end else { return (line, "") };
    let (key, rest) = line.split_at(end);
    let rest = rest.trim_start();
    (key, rest.strip_prefix(['=', ':']).unwrap_or(rest).trim_start())
}

fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        if character != '\\' {
            out.push(character);
            continue;
        }
        match rest.next() {
            Some('t') => out.push('\t'),
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('f') => out.push('\u{c}'),
            Some('u') => {
                let digits: String = rest.by_ref().take(4).collect();
                let unit = u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32);
                out.push(unit.unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            Some(other) => out.push(other),
            None => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_java_reads() {
        let text = "# comment\n! another\n\nbrokerName = broker-a\nbrokerId:0\nnamesrvAddr 1.2.3.4:9876;5.6.7.8:9876\n\
                    path=C\\:\\\\store\nlong=a,\\\n   b\nempty=\nkey\\ with\\ blanks=x\nchar=\\u4e2d\n  =nothing\nlast=1";
        let pairs = parse(text);
        let expected = [
            ("brokerName", "broker-a"),
            ("brokerId", "0"),
            ("namesrvAddr", "1.2.3.4:9876;5.6.7.8:9876"),
            ("path", "C:\\store"),
            ("long", "a,b"),
            ("empty", ""),
            ("key with blanks", "x"),
            ("char", "中"),
            ("last", "1"),
        ];
        let found: Vec<(&str, &str)> = pairs.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn odd_ends_are_no_errors() {
        assert_eq!(parse("a=\\u12"), [("a".to_owned(), "\u{12}".to_owned())]);
        assert_eq!(parse("a=\\"), [("a".to_owned(), String::new())]);
        assert_eq!(parse("\\=b"), [("=b".to_owned(), String::new())]);
        assert_eq!(parse("\u{feff}"), [("\u{feff}".to_owned(), String::new())]);
    }

    fn change(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn an_edit_touches_nothing_else() {
        let text = "# mine\n\nbrokerName = a\n  fileReservedTime : 48\nbrokerName=b\nlong=1,\\\n  2\n! end";
        let changes = change(&[("fileReservedTime", "24"), ("long", "3"), ("brokerName", "c"), ("new", "x\\y")]);
        let expected = "# mine\n\nbrokerName = a\nfileReservedTime=24\nbrokerName=c\nlong=3\n! end\nnew=x\\\\y\n";
        assert_eq!(edited(text, &changes), expected);
        assert_eq!(edited("a=1\r\nb=2\r\n", &change(&[("a", "3")])), "a=3\r\nb=2\r\n");
        assert_eq!(edited("", &change(&[("a", "1")])), "a=1\n");
        assert_eq!(edited("a=1", &change(&[("a", "")])), "a=\n");
        assert_eq!(edited("b=1\\", &change(&[("a", "1")])), "b=1\\\n\na=1\n");
    }

    proptest::proptest! {
        #[test]
        fn an_edit_changes_one_key(text in "([ab=:#! 12\\\\]|\r\n|\n){0,60}", value in "[a-z\\\\ =#]{0,8}") {
            let after = parse(&edited(&text, &change(&[("a", &value)])));
            let last = |pairs: &[(String, String)], wanted: &str| {
                pairs.iter().rev().find(|(key, _)| key == wanted).map(|(_, value)| value.clone())
            };
            proptest::prop_assert_eq!(last(&after, "a"), Some(value.trim_end_matches('\n').to_owned()));
            let others = |pairs: Vec<(String, String)>| -> Vec<_> {
                pairs.into_iter().filter(|(key, _)| key != "a").collect()
            };
            proptest::prop_assert_eq!(others(after), others(parse(&text)));
        }

        #[test]
        fn what_is_written_is_read_back(value in ".*") {
            let mut text = String::new();
            write(&mut text, "key", &value);
            let pairs = parse(&text);
            proptest::prop_assert_eq!(pairs.len(), 1);
            // Other blanks and line ends than Java's escapes cover are trimmed, as Java does.
            proptest::prop_assert!(pairs[0].1 == value || value.contains(|c: char| c.is_whitespace() && c != ' '));
        }

        #[test]
        fn any_text_is_read(text in "(?s).{0,200}") {
            parse(&text);
        }
    }
}
