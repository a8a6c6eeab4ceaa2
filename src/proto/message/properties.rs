//! The properties of a message: one text, `name` U+0001 `value` U+0002, repeated.
//!
//! The last U+0002 may be missing (Java 4.9.1 to 5.1.4), so whoever appends has to add it. Of a repeated name the last
//! one counts. Segments without U+0001, with an empty name or with an empty value do not exist for a reader. There is
//! no escaping, and the order carries no meaning. A stored text is never parsed and printed again: what the broker
//! changes, it changes by [`Edit`], and all other bytes stay as the producer sent them.

/// Between a name and its value.
pub const NAME_END: char = '\u{1}';
/// Behind a value.
pub const VALUE_END: char = '\u{2}';

/// Index keys, separated by one space each.
pub const KEYS: &str = "KEYS";
/// The one tag.
pub const TAGS: &str = "TAGS";
/// `false`: answer without waiting for disk and replicas.
pub const WAIT: &str = "WAIT";
/// Delay level, decimal, from 1.
pub const DELAY: &str = "DELAY";
/// Delay in seconds.
pub const TIMER_DELAY_SEC: &str = "TIMER_DELAY_SEC";
/// Delay in milliseconds.
pub const TIMER_DELAY_MS: &str = "TIMER_DELAY_MS";
/// Time of delivery in milliseconds since 1970.
pub const TIMER_DELIVER_MS: &str = "TIMER_DELIVER_MS";
/// Time of delivery as the broker rounded it.
pub const TIMER_OUT_MS: &str = "TIMER_OUT_MS";
/// When the timer took a message in.
pub const TIMER_ENQUEUE_MS: &str = "TIMER_ENQUEUE_MS";
/// When the timer let a message out.
pub const TIMER_DEQUEUE_MS: &str = "TIMER_DEQUEUE_MS";
/// How often the timer wheel turned for a message.
pub const TIMER_ROLL_TIMES: &str = "TIMER_ROLL_TIMES";
/// metaq's own: the number in the timer topic's queue of the record that this one is a copy of. By it the timer knows after
/// a crash what it has delivered.
pub const TIMER_QUEUE_OFFSET: &str = "TIMER_QUEUE_OFFSET";
/// Marks a record that cancels a timer message.
pub const TIMER_DEL_UNIQKEY: &str = "TIMER_DEL_UNIQKEY";
/// When a producer asked for a message to be taken back.
pub const BORN_TIMESTAMP: &str = "BORN_TIMESTAMP";
/// The client's message id.
pub const UNIQ_KEY: &str = "UNIQ_KEY";
/// Sharding key of an ordered message.
pub const SHARDING_KEY: &str = "__SHARDINGKEY";
/// Producer group of a half message.
pub const PRODUCER_GROUP: &str = "PGROUP";
/// `true` on a half message.
pub const TRANSACTION_PREPARED: &str = "TRAN_MSG";
/// Transaction id: the UNIQ_KEY of the half message.
pub const TRANSACTION_ID: &str = "__transactionId__";
/// How often the producer was asked about a half message.
pub const TRANSACTION_CHECK_TIMES: &str = "TRANSACTION_CHECK_TIMES";
/// Age in seconds below which a half message is not asked about.
pub const CHECK_IMMUNITY_TIME_IN_SECONDS: &str = "CHECK_IMMUNITY_TIME_IN_SECONDS";
/// Queue offset of the half message that was put again.
pub const TRANSACTION_PREPARED_QUEUE_OFFSET: &str = "TRAN_PREPARED_QUEUE_OFFSET";
/// Destination of a half, delayed or timer message.
pub const REAL_TOPIC: &str = "REAL_TOPIC";
/// Destination queue of a half, delayed or timer message.
pub const REAL_QUEUE_ID: &str = "REAL_QID";
/// Ties a reply to its request.
pub const CORRELATION_ID: &str = "CORRELATION_ID";
/// The client that waits for the reply.
pub const REPLY_TO_CLIENT: &str = "REPLY_TO_CLIENT";
/// Milliseconds a requester waits.
pub const TTL: &str = "TTL";
/// `reply` on replies.
pub const MESSAGE_TYPE: &str = "MSG_TYPE";
/// When the broker pushed a reply.
pub const PUSH_REPLY_TIME: &str = "PUSH_REPLY_TIME";
/// Cluster of the storing broker; consumers need it to reply.
pub const CLUSTER: &str = "CLUSTER";
/// Region of the storing broker.
pub const MSG_REGION: &str = "MSG_REGION";
/// Whether clients trace the message.
pub const TRACE_ON: &str = "TRACE_ON";
/// Original topic of a retry or dead-letter message.
pub const RETRY_TOPIC: &str = "RETRY_TOPIC";
/// Id of a message's first delivery.
pub const ORIGIN_MESSAGE_ID: &str = "ORIGIN_MESSAGE_ID";
/// Set by a consumer that sends a message to its retry topic itself.
pub const RECONSUME_TIME: &str = "RECONSUME_TIME";
/// Set by a consumer that sends a message to its retry topic itself.
pub const MAX_RECONSUME_TIMES: &str = "MAX_RECONSUME_TIMES";
/// Handle of a popped message; never stored from a client.
pub const POP_CHECK_POINT: &str = "POP_CK";
/// When a message was popped first.
pub const FIRST_POP_TIME: &str = "1ST_POP_TIME";
/// Messages in an inner batch.
pub const INNER_NUM: &str = "INNER_NUM";
/// Queue offset of an inner batch's first message.
pub const INNER_BASE: &str = "INNER_BASE";
/// Light queues a record is dispatched to, comma-separated.
pub const INNER_MULTI_DISPATCH: &str = "INNER_MULTI_DISPATCH";
/// The record's offsets in those light queues.
pub const INNER_MULTI_QUEUE_OFFSET: &str = "INNER_MULTI_QUEUE_OFFSET";
/// Namespace of the sender.
pub const INSTANCE_ID: &str = "INSTANCE_ID";
/// CRC over a whole record, appended last by brokers that are told to.
pub const CRC32: &str = "__CRC32#";

/// The pairs of a text in order, repeated names included.
pub fn iterate(text: &str) -> impl DoubleEndedIterator<Item = (&str, &str)> {
    Segments { rest: Some(text) }.filter_map(pair)
}

/// The pieces between [`VALUE_END`]s. They are short, and there are many in each message: looking at one byte after the
/// other takes half the time of a search made for long texts.
struct Segments<'a> {
    rest: Option<&'a str>,
}

impl<'a> Iterator for Segments<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let rest = self.rest?;
        let end = memchr::memchr(VALUE_END as u8, rest.as_bytes());
        let (segment, behind) = end.map_or((rest, None), |end| (&rest[..end], Some(&rest[end + 1..])));
        self.rest = behind;
        Some(segment)
    }
}

impl DoubleEndedIterator for Segments<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let rest = self.rest?;
        let start = memchr::memrchr(VALUE_END as u8, rest.as_bytes());
        let (segment, before) = start.map_or((rest, None), |start| (&rest[start + 1..], Some(&rest[..start])));
        self.rest = before;
        Some(segment)
    }
}

/// The value of `name`; of repeated ones the last. Allocates nothing.
pub fn find<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    iterate(text).rev().find(|(found, _)| *found == name).map(|(_, value)| value)
}

/// The value of `name` as a number; absent if it is none.
pub fn find_number<N: std::str::FromStr>(text: &str, name: &str) -> Option<N> {
    find(text, name)?.parse().ok()
}

/// Appends a pair, and first the separator if the text lacks its last one. A pair with an empty name or value would
/// not exist for a reader and is left out.
pub fn append(text: &mut String, name: &str, value: &str) {
    if name.is_empty() || value.is_empty() {
        return;
    }
    if !text.is_empty() && !text.ends_with(VALUE_END) {
        text.push(VALUE_END);
    }
    text.push_str(name);
    text.push(NAME_END);
    text.push_str(value);
    text.push(VALUE_END);
}

/// The index keys of a message: the parts of `KEYS`, split by single spaces, empty ones left out.
pub fn keys(text: &str) -> impl Iterator<Item = &str> {
    find(text, KEYS).into_iter().flat_map(|keys| keys.split(' ')).filter(|key| !key.is_empty())
}

/// Whether a name or value can be written: neither empty nor with one of the two separators in it.
pub fn is_writable(name_or_value: &str) -> bool {
    !name_or_value.is_empty() && !name_or_value.contains([NAME_END, VALUE_END])
}

/// One change the broker makes to a message's properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit<'a> {
    /// The name gets this value, whatever it had.
    Set(&'a str, &'a str),
    /// The name gets this value unless it has one: `UNIQ_KEY` of a message sent without, properties of a batch.
    SetIfAbsent(&'a str, &'a str),
    /// The name goes.
    Remove(&'a str),
    /// Whole properties, closed by their separators, with names that neither the text nor another edit holds.
    Append(&'a str),
}

impl Edit<'_> {
    fn name(&self) -> &str {
        match self {
            Edit::Set(name, _) | Edit::SetIfAbsent(name, _) | Edit::Remove(name) => name,
            // No property is called that.
            Edit::Append(_) => "",
        }
    }

    /// Whether it may take something out of the text.
    fn may_replace(&self) -> bool {
        matches!(self, Edit::Set(..) | Edit::Remove(_))
    }

    /// Whether what `name` had before is gone.
    fn replaces(&self, name: &str) -> bool {
        self.may_replace() && self.name() == name
    }
}

/// Appends `text` to `out`, with `edits` made one after another. Segments no edit names are copied as they are.
pub fn write_edited(out: &mut Vec<u8>, text: &str, edits: &[Edit<'_>]) {
    let start = out.len();
    let replaced = |name: &str| edits.iter().any(|edit| edit.replaces(name));
    if edits.iter().any(Edit::may_replace) && iterate(text).any(|(name, _)| replaced(name)) {
        for segment in text.split_inclusive(VALUE_END) {
            let kept = match pair(segment.strip_suffix(VALUE_END).unwrap_or(segment)) {
                Some((name, _)) => !replaced(name),
                None => true,
            };
            if kept {
                out.extend_from_slice(segment.as_bytes());
            }
        }
    } else {
        out.extend_from_slice(text.as_bytes());
    }
    for (at, edit) in edits.iter().enumerate() {
        let (name, value) = match *edit {
            Edit::Set(name, value) => (name, value),
            Edit::SetIfAbsent(name, value) if is_absent(text, name, &edits[..at]) => (name, value),
            Edit::SetIfAbsent(..) | Edit::Remove(_) => continue,
            Edit::Append(pairs) => {
                close(out, start);
                out.extend_from_slice(pairs.as_bytes());
                continue;
            }
        };
        let replaced_later = edits[at + 1..].iter().any(|later| later.replaces(name));
        if name.is_empty() || value.is_empty() || replaced_later {
            continue;
        }
        close(out, start);
        out.extend_from_slice(name.as_bytes());
        out.push(NAME_END as u8);
        out.extend_from_slice(value.as_bytes());
        out.push(VALUE_END as u8);
    }
}

/// Adds the separator that the text from `start` on may lack.
fn close(out: &mut Vec<u8>, start: usize) {
    if out.len() > start && out.last() != Some(&(VALUE_END as u8)) {
        out.push(VALUE_END as u8);
    }
}

/// Whether a name has no value in `text` after `edits`.
fn is_absent(text: &str, name: &str, edits: &[Edit<'_>]) -> bool {
    match edits.iter().rev().find(|edit| edit.name() == name) {
        Some(Edit::Remove(_)) => true,
        Some(_) => false,
        None => find(text, name).is_none(),
    }
}

/// `text` with `edits` made, for the paths where an allocation does not matter.
pub fn edited(text: &str, edits: &[Edit<'_>]) -> String {
    let mut out = Vec::with_capacity(text.len() + 128);
    write_edited(&mut out, text, edits);
    // Only whole pieces of texts went in.
    String::from_utf8(out).unwrap_or_default()
}

fn pair(segment: &str) -> Option<(&str, &str)> {
    let end = memchr::memchr(NAME_END as u8, segment.as_bytes())?;
    let (name, value) = (&segment[..end], &segment[end + 1..]);
    (!name.is_empty() && !value.is_empty()).then_some((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "KEYS\u{1}a b\u{2}TAGS\u{1}TagA\u{2}";

    #[test]
    fn finds_the_last_of_a_repeated_name() {
        let text = "A\u{1}1\u{2}B\u{1}x\u{1}y\u{2}A\u{1}2";
        assert_eq!(find(text, "A"), Some("2"), "the last separator may be missing");
        assert_eq!(find(text, "B"), Some("x\u{1}y"), "a value goes on behind a second separator");
        assert_eq!(find(text, "C"), None);
    }

    #[test]
    fn segments_without_name_or_value_do_not_exist() {
        let text = "\u{2}A\u{2}B\u{1}\u{2}\u{1}v\u{2}C\u{1}1\u{2}";
        assert_eq!(iterate(text).collect::<Vec<_>>(), [("C", "1")]);
    }

    #[test]
    fn pairs_are_the_same_from_both_ends() {
        for text in ["", "\u{2}", TEXT, "A\u{1}1", "\u{2}\u{2}A\u{1}1\u{2}B", "标\u{1}签\u{2}é\u{1}\u{1}"] {
            let expected: Vec<_> = text.split(VALUE_END).collect();
            assert_eq!(Segments { rest: Some(text) }.collect::<Vec<_>>(), expected);
            let mut backwards: Vec<_> = Segments { rest: Some(text) }.rev().collect();
            backwards.reverse();
            assert_eq!(backwards, expected);
        }
    }

    #[test]
    fn appending_adds_the_missing_separator() {
        let mut text = "A\u{1}1".to_owned();
        append(&mut text, "B", "2");
        append(&mut text, "C", "");
        assert_eq!(text, "A\u{1}1\u{2}B\u{1}2\u{2}");
    }

    #[test]
    fn keys_are_split_by_single_spaces() {
        assert_eq!(keys("KEYS\u{1} a  b \u{2}").collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(keys("TAGS\u{1}a").count(), 0);
    }

    #[test]
    fn edits_touch_only_what_they_name() {
        assert_eq!(edited(TEXT, &[]), TEXT);
        assert_eq!(edited(TEXT, &[Edit::Remove("KEYS")]), "TAGS\u{1}TagA\u{2}");
        assert_eq!(edited(TEXT, &[Edit::Set("KEYS", "c")]), "TAGS\u{1}TagA\u{2}KEYS\u{1}c\u{2}");
        assert_eq!(edited(TEXT, &[Edit::SetIfAbsent("KEYS", "c")]), TEXT);
        assert_eq!(edited("A\u{1}1", &[Edit::SetIfAbsent("B", "2")]), "A\u{1}1\u{2}B\u{1}2\u{2}");
        assert_eq!(edited("A\u{1}1", &[Edit::Append("B\u{1}2\u{2}")]), "A\u{1}1\u{2}B\u{1}2\u{2}");
        assert_eq!(edited("", &[Edit::Append("B\u{1}2\u{2}"), Edit::Set("A", "1")]), "B\u{1}2\u{2}A\u{1}1\u{2}");
        assert_eq!(edited("A\u{1}1", &[Edit::Remove("B")]), "A\u{1}1", "nothing to change, nothing changed");
    }

    #[test]
    fn edits_are_made_one_after_another() {
        let (one, two) = (Edit::Set("A", "1"), Edit::Set("A", "2"));
        let if_absent = Edit::SetIfAbsent("A", "3");
        for (edits, expected) in [
            ([one, two], "A\u{1}2\u{2}"),
            ([one, if_absent], "A\u{1}1\u{2}"),
            ([if_absent, one], "A\u{1}1\u{2}"),
            ([if_absent, if_absent], "A\u{1}3\u{2}"),
            ([one, Edit::Remove("A")], ""),
            ([Edit::Remove("A"), if_absent], "A\u{1}3\u{2}"),
        ] {
            assert_eq!(edited("", &edits), expected, "{edits:?}");
        }
        assert_eq!(edited("A\u{1}0", &[Edit::Remove("A"), if_absent]), "A\u{1}3\u{2}");
    }
}
