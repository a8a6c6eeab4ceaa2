//! Gathers messages into batches.

use std::collections::BTreeMap;

/// Open batches by what their messages have in common.
#[derive(Debug)]
pub struct Accumulator<K, T> {
    open: BTreeMap<K, Open<T>>,
    next_number: u64,
    bytes_max: usize,
}

#[derive(Debug)]
struct Open<T> {
    number: u64,
    items: Vec<T>,
    bytes: usize,
}

/// What a new item led to.
#[derive(Debug, PartialEq, Eq)]
pub struct Pushed<T> {
    /// Batches that are full now: send them.
    pub full: Vec<Vec<T>>,
    /// A batch was opened with this number: take it once it has been held long enough.
    pub opened: Option<u64>,
}

impl<K: Ord + Clone, T> Accumulator<K, T> {
    /// Batches of at most `bytes_max` bytes.
    pub fn new(bytes_max: usize) -> Accumulator<K, T> {
        Accumulator { open: BTreeMap::new(), next_number: 0, bytes_max }
    }

    /// Adds an item of `bytes` bytes.
    pub fn push(&mut self, key: &K, item: T, bytes: usize) -> Pushed<T> {
        let mut pushed = Pushed { full: Vec::new(), opened: None };
        if self.open.get(key).is_some_and(|open| open.bytes + bytes > self.bytes_max) {
            pushed.full.extend(self.open.remove(key).map(|open| open.items));
        }
        let open = self.open.entry(key.clone()).or_insert_with(|| {
            self.next_number += 1;
            pushed.opened = Some(self.next_number);
            Open { number: self.next_number, items: Vec::new(), bytes: 0 }
        });
        open.items.push(item);
        open.bytes += bytes;
        if open.bytes >= self.bytes_max {
            pushed.opened = None;
            pushed.full.extend(self.open.remove(key).map(|open| open.items));
        }
        pushed
    }

    /// Takes a batch that has been held long enough; `None` if it was full before.
    pub fn take(&mut self, key: &K, number: u64) -> Option<Vec<T>> {
        if self.open.get(key)?.number != number {
            return None;
        }
        self.open.remove(key).map(|open| open.items)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_end_by_size_or_by_time() {
        let mut batches = Accumulator::new(100);
        assert_eq!(batches.push(&"T", 1, 40), Pushed { full: vec![], opened: Some(1) });
        assert_eq!(batches.push(&"T", 2, 40), Pushed { full: vec![], opened: None });
        assert_eq!(batches.push(&"U", 9, 40), Pushed { full: vec![], opened: Some(2) });
        assert_eq!(batches.push(&"T", 3, 40), Pushed { full: vec![vec![1, 2]], opened: Some(3) });
        assert_eq!(batches.take(&"T", 1), None, "it was full before");
        assert_eq!(batches.push(&"T", 4, 60), Pushed { full: vec![vec![3, 4]], opened: None });
        assert_eq!(batches.take(&"T", 3), None);
        assert_eq!(batches.take(&"U", 2), Some(vec![9]));
        assert_eq!(batches.push(&"T", 5, 500), Pushed { full: vec![vec![5]], opened: None });
    }
}
