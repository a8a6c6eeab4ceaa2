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

    proptest::proptest! {
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
