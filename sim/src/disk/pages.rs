//! Bytes of a file in pages; holes take no memory and read as zeros.

/// Size of a page, the unit of space on the simulated disk.
pub(super) const PAGE: usize = 4096;
/// The unit the device writes as a whole.
pub(super) const SECTOR: usize = 512;

type Page = Box<[u8; PAGE]>;

/// A file's content.
#[derive(Clone, Default)]
pub(super) struct Pages {
    len: u64,
    pages: Vec<Option<Page>>,
}

impl Pages {
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Sets the length. What is cut off reads as zeros when the file grows again.
    pub(super) fn set_len(&mut self, len: u64) {
        let count = len.div_ceil(PAGE as u64) as usize;
        if len < self.len {
            self.pages.truncate(count);
            let used = (len % PAGE as u64) as usize;
            if let (Some(Some(page)), true) = (self.pages.last_mut(), used > 0) {
                page[used..].fill(0);
            }
        } else {
            self.pages.resize_with(count, || None);
        }
        self.len = len;
    }

    /// Writes within the length.
    pub(super) fn write(&mut self, mut at: u64, mut bytes: &[u8]) {
        assert!(at + bytes.len() as u64 <= self.len, "a write beyond the end of the pages");
        while !bytes.is_empty() {
            let (index, start) = ((at / PAGE as u64) as usize, (at % PAGE as u64) as usize);
            let (now, rest) = bytes.split_at(bytes.len().min(PAGE - start));
            let page = self.pages[index].get_or_insert_with(|| Box::new([0; PAGE]));
            page[start..start + now.len()].copy_from_slice(now);
            at += now.len() as u64;
            bytes = rest;
        }
    }

    /// Reads up to the end; returns the number of bytes.
    pub(super) fn read(&self, at: u64, into: &mut [u8]) -> usize {
        let len = (self.len.saturating_sub(at)).min(into.len() as u64) as usize;
        let mut done = 0;
        while done < len {
            let position = at + done as u64;
            let (index, start) = ((position / PAGE as u64) as usize, (position % PAGE as u64) as usize);
            let count = (len - done).min(PAGE - start);
            let target = &mut into[done..done + count];
            match &self.pages[index] {
                Some(page) => target.copy_from_slice(&page[start..start + count]),
                None => target.fill(0),
            }
            done += count;
        }
        len
    }

    /// Copies one page from `other`, as far as both reach.
    pub(super) fn copy_page(&mut self, index: usize, other: &Pages) {
        if let (Some(mine), Some(theirs)) = (self.pages.get_mut(index), other.pages.get(index)) {
            mine.clone_from(theirs);
        }
    }

    /// Pages that take space.
    pub(super) fn used(&self) -> u64 {
        self.pages.iter().filter(|page| page.is_some()).count() as u64
    }

    /// Pages that a write of `len` bytes at `at` would newly take.
    pub(super) fn missing(&self, at: u64, len: usize) -> u64 {
        if len == 0 {
            return 0;
        }
        let first = (at / PAGE as u64) as usize;
        let last = ((at + len as u64 - 1) / PAGE as u64) as usize;
        (first..=last).filter(|index| !matches!(self.pages.get(*index), Some(Some(_)))).count() as u64
    }

    /// Takes the space for all pages.
    pub(super) fn fill_holes(&mut self) {
        for page in &mut self.pages {
            page.get_or_insert_with(|| Box::new([0; PAGE]));
        }
    }
}
