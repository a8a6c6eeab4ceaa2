//! Names: directories as running programs see them and as the device has them.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex};

use metaq::env::Millis;

use super::crash::{Choose, Style};
use super::inode::Inode;

/// A file that may have names and open handles.
pub(super) type FileRef = Arc<Mutex<Inode>>;

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    File(u64),
    Directory(u64),
}

/// A change of names that is perhaps not on the device.
enum Change {
    Set(String, Entry),
    Remove(String),
    Rename(String, String, Entry),
}

impl Change {
    fn names(&self) -> Vec<&String> {
        match self {
            Change::Set(name, _) | Change::Remove(name) => vec![name],
            Change::Rename(from, to, _) => vec![from, to],
        }
    }

    fn apply(self, names: &mut BTreeMap<String, Entry>) {
        match self {
            Change::Set(name, entry) => {
                names.insert(name, entry);
            }
            Change::Remove(name) => {
                names.remove(&name);
            }
            Change::Rename(from, to, entry) => {
                names.remove(&from);
                names.insert(to, entry);
            }
        }
    }
}

#[derive(Default)]
struct Directory {
    names: BTreeMap<String, Entry>,
    durable: BTreeMap<String, Entry>,
    changes: Vec<Change>,
    settled: u64,
}

impl Directory {
    /// Everything it holds or may hold after a power cut.
    fn entries(&self) -> impl Iterator<Item = Entry> + '_ {
        let pending = self.changes.iter().filter_map(|change| match change {
            Change::Set(_, entry) | Change::Rename(_, _, entry) => Some(*entry),
            Change::Remove(_) => None,
        });
        self.names.values().chain(self.durable.values()).copied().chain(pending)
    }

    fn settle(&mut self, mark: u64) {
        let count = (mark.saturating_sub(self.settled) as usize).min(self.changes.len());
        self.settled += count as u64;
        for change in self.changes.drain(..count) {
            change.apply(&mut self.durable);
        }
    }

    /// A change lands only if all earlier ones of the same names did.
    fn power_cut(&mut self, style: Style, choose: &mut dyn Choose) {
        let mut lost: Vec<String> = Vec::new();
        let total = self.changes.len();
        self.settled += total as u64;
        for (index, change) in self.changes.drain(..).enumerate() {
            let depends = change.names().iter().any(|name| lost.contains(name));
            if style.name(index, total, choose) && !depends {
                change.apply(&mut self.durable);
            } else {
                lost.extend(change.names().into_iter().cloned());
            }
        }
        self.names = self.durable.clone();
    }
}

/// All names and files of one disk. Directory 0 is the root.
pub(super) struct Tree {
    directories: BTreeMap<u64, Directory>,
    files: BTreeMap<u64, FileRef>,
    next: u64,
}

fn not_found(path: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("{} does not exist", path.display()))
}

fn parts(path: &Path) -> io::Result<Vec<&str>> {
    let mut parts = Vec::new();
    for component in path.components() {
        match component {
            Component::RootDir | Component::CurDir => {}
            Component::Normal(name) => parts.push(name.to_str().ok_or(io::ErrorKind::InvalidInput)?),
            Component::ParentDir | Component::Prefix(_) => return Err(io::ErrorKind::InvalidInput.into()),
        }
    }
    Ok(parts)
}

impl Tree {
    pub(super) fn new() -> Tree {
        Tree { directories: BTreeMap::from([(0, Directory::default())]), files: BTreeMap::new(), next: 1 }
    }

    /// What a path stands for; the root if it is empty.
    pub(super) fn find(&self, path: &Path) -> io::Result<Entry> {
        let mut entry = Entry::Directory(0);
        for part in parts(path)? {
            let Entry::Directory(id) = entry else { return Err(io::ErrorKind::NotADirectory.into()) };
            entry = *self.directories[&id].names.get(part).ok_or_else(|| not_found(path))?;
        }
        Ok(entry)
    }

    pub(super) fn directory(&self, path: &Path) -> io::Result<u64> {
        match self.find(path)? {
            Entry::Directory(id) => Ok(id),
            Entry::File(_) => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    pub(super) fn file(&self, path: &Path) -> io::Result<FileRef> {
        match self.find(path)? {
            Entry::File(id) => Ok(self.files[&id].clone()),
            Entry::Directory(_) => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    pub(super) fn create(&mut self, path: &Path, now: Millis) -> io::Result<FileRef> {
        let (parent, name) = self.parent(path)?;
        let id = self.number();
        let file = Arc::new(Mutex::new(Inode::new(id, now)));
        self.files.insert(id, file.clone());
        self.change(parent, Change::Set(name, Entry::File(id)));
        Ok(file)
    }

    pub(super) fn create_dir_all(&mut self, path: &Path) -> io::Result<()> {
        let mut at = 0;
        for part in parts(path)? {
            at = match self.directories[&at].names.get(part) {
                Some(Entry::Directory(id)) => *id,
                Some(Entry::File(_)) => return Err(io::ErrorKind::NotADirectory.into()),
                None => {
                    let id = self.number();
                    self.directories.insert(id, Directory::default());
                    self.change(at, Change::Set(part.to_owned(), Entry::Directory(id)));
                    id
                }
            };
        }
        Ok(())
    }

    pub(super) fn list(&self, path: &Path) -> io::Result<Vec<(String, Entry)>> {
        let directory = &self.directories[&self.directory(path)?];
        Ok(directory.names.iter().map(|(name, entry)| (name.clone(), *entry)).collect())
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let entry = self.find(from)?;
        let (from_parent, from_name) = self.parent(from)?;
        let (to_parent, to_name) = self.parent(to)?;
        if from_parent != to_parent {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "the simulated disk renames within a directory only",
            ));
        }
        if from_name != to_name {
            self.change(from_parent, Change::Rename(from_name, to_name, entry));
        }
        Ok(())
    }

    pub(super) fn remove(&mut self, path: &Path) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        self.change(parent, Change::Remove(name));
        Ok(())
    }

    /// Stands for all changes of a directory so far.
    pub(super) fn mark(&self, path: &Path) -> io::Result<(u64, u64)> {
        let id = self.directory(path)?;
        let directory = &self.directories[&id];
        Ok((id, directory.settled + directory.changes.len() as u64))
    }

    pub(super) fn settle(&mut self, (id, mark): (u64, u64)) {
        if let Some(directory) = self.directories.get_mut(&id) {
            directory.settle(mark);
        }
    }

    /// All files, in the order they were made.
    pub(super) fn files(&self) -> impl Iterator<Item = &FileRef> {
        self.files.values()
    }

    /// Paths of all files, in order.
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        let (mut paths, mut open) = (Vec::new(), vec![(0, PathBuf::from("/"))]);
        while let Some((id, path)) = open.pop() {
            for (name, entry) in &self.directories[&id].names {
                match entry {
                    Entry::Directory(id) => open.push((*id, path.join(name))),
                    Entry::File(_) => paths.push(path.join(name)),
                }
            }
        }
        paths.sort();
        paths
    }

    /// Everything so far is on the device: the state a simulation begins with.
    pub(super) fn settle_all(&mut self) {
        for directory in self.directories.values_mut() {
            directory.settle(u64::MAX);
        }
        for file in self.files.values() {
            lock(file).settle(u64::MAX);
        }
    }

    /// The machine lost its power. `style` is asked once for each directory and file.
    pub(super) fn power_cut(&mut self, style: &mut dyn FnMut() -> Style, choose: &mut dyn Choose) {
        for directory in self.directories.values_mut() {
            directory.power_cut(style(), choose);
        }
        self.forget_unreachable();
        for file in self.files.values() {
            lock(file).power_cut(style(), choose);
        }
    }

    /// Pages in use by files that have a name, now or after a power cut, or a handle; forgets the others.
    pub(super) fn used_pages(&mut self) -> u64 {
        self.forget_unreachable();
        self.files.values().map(|file| lock(file).cache.used()).sum()
    }

    fn forget_unreachable(&mut self) {
        let (mut directories, mut files) = (BTreeSet::new(), BTreeSet::new());
        let mut open = vec![0];
        while let Some(id) = open.pop() {
            if !directories.insert(id) {
                continue;
            }
            for entry in self.directories[&id].entries() {
                match entry {
                    Entry::Directory(id) => open.push(id),
                    Entry::File(id) => {
                        files.insert(id);
                    }
                }
            }
        }
        self.directories.retain(|id, _| directories.contains(id));
        self.files.retain(|id, file| files.contains(id) || Arc::strong_count(file) > 1);
    }

    fn change(&mut self, directory: u64, change: Change) {
        let Some(directory) = self.directories.get_mut(&directory) else { return };
        match &change {
            Change::Set(name, entry) => {
                directory.names.insert(name.clone(), *entry);
            }
            Change::Remove(name) => {
                directory.names.remove(name);
            }
            Change::Rename(from, to, entry) => {
                directory.names.remove(from);
                directory.names.insert(to.clone(), *entry);
            }
        }
        directory.changes.push(change);
    }

    fn parent(&self, path: &Path) -> io::Result<(u64, String)> {
        let mut parts = parts(path)?;
        let name = parts.pop().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
        let above: PathBuf = parts.iter().collect();
        let parent = self.directory(&above)?;
        Ok((parent, name))
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }
}

/// Locks a file; a panic elsewhere does not make it unusable.
pub(super) fn lock(file: &Mutex<Inode>) -> std::sync::MutexGuard<'_, Inode> {
    file.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
