//! Ext fields that are owned.

use super::ext::ExtSink;

/// Named values in their order, each name once. All texts stand in one buffer: a send has 14 fields, and 28 allocations for
/// one message are half of what it costs its client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtList {
    /// Names and values one after the other.
    text: String,
    /// Where each name and each value ends.
    ends: Vec<(usize, usize)>,
}

impl ExtList {
    /// Makes room for so many more fields with so many bytes of text.
    pub(super) fn reserve(&mut self, fields: usize, bytes: usize) {
        self.text.reserve(bytes);
        self.ends.reserve(fields);
    }

    /// Adds a field whose name is not there yet.
    pub fn push(&mut self, name: &str, value: &str) {
        self.text.push_str(name);
        let name_end = self.text.len();
        self.text.push_str(value);
        self.ends.push((name_end, self.text.len()));
    }

    /// Puts a field at the end, in the place of one of that name.
    pub fn set(&mut self, name: &str, value: &str) {
        self.retain(|known, _| known != name);
        self.push(name, value);
    }

    /// Keeps the fields that `wanted` wants.
    pub fn retain(&mut self, mut wanted: impl FnMut(&str, &str) -> bool) {
        let kept = self.iter().filter(|(name, value)| wanted(name, value)).collect();
        *self = kept;
    }

    /// The value of a field.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(own, _)| *own == name).map(|(_, value)| value)
    }

    /// All fields in their order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        let mut start = 0;
        self.ends.iter().map(move |&(name_end, end)| {
            let field = (&self.text[start..name_end], &self.text[name_end..end]);
            start = end;
            field
        })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}

impl ExtSink for ExtList {
    fn put_str(&mut self, name: &'static str, value: &str) {
        self.push(name, value);
    }
}

impl<N: AsRef<str>, V: AsRef<str>> Extend<(N, V)> for ExtList {
    fn extend<I: IntoIterator<Item = (N, V)>>(&mut self, fields: I) {
        fields.into_iter().for_each(|(name, value)| self.push(name.as_ref(), value.as_ref()));
    }
}

impl<N: AsRef<str>, V: AsRef<str>> FromIterator<(N, V)> for ExtList {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(fields: I) -> ExtList {
        let mut list = ExtList::default();
        list.extend(fields);
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_keep_their_order() {
        let mut list = ExtList::from_iter([("a", "1"), ("", "two"), ("c", "")]);
        assert_eq!((list.len(), list.get("a"), list.get(""), list.get("c")), (3, Some("1"), Some("two"), Some("")));
        assert_eq!((list.get("1"), list.get("two")), (None, None), "a value is no name");
        list.set("a", "é");
        list.retain(|name, _| name != "c");
        assert_eq!(list.iter().collect::<Vec<_>>(), [("", "two"), ("a", "é")]);
        assert_eq!(list, ExtList::from_iter([("", "two"), ("a", "é")]));
        assert_ne!(list, ExtList::from_iter([("t", "wo"), ("a", "é")]), "the same text, cut elsewhere");
        list.retain(|_, _| false);
        assert!(list.is_empty());
    }
}
