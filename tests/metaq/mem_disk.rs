//! A disk in memory that remembers every operation, so that a test can cut the power between any two of them and see
//! every state the next start may find. Files are sparse, so index files of full size cost nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use futures::future::BoxFuture;
use metaq::env::{DirEntry, Disk, File, FileLock, Mapping, Metadata, Millis, OpenMode, Space};

const PAGE: u64 = 4096;

/// What a program did to the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    Create { path: PathBuf, inode: usize },
    Rename { from: PathBuf, to: PathBuf, inode: usize },
    Remove { path: PathBuf },
    Write { inode: usize, at: u64, bytes: Vec<u8> },
    SetLen { inode: usize, len: u64 },
    Sync { inode: usize },
    SyncDir { path: PathBuf },
}

/// Bytes of a file; pages never written read as zeros.
#[derive(Clone, Debug, Default)]
struct Content {
    pages: BTreeMap<u64, Box<[u8]>>,
    len: u64,
}

impl Content {
    fn read(&self, at: u64, into: &mut [u8]) -> usize {
        let len = (self.len.saturating_sub(at)).min(into.len() as u64) as usize;
        for (position, byte) in (at..).zip(&mut into[..len]) {
            *byte = self.pages.get(&(position / PAGE)).map_or(0, |page| page[(position % PAGE) as usize]);
        }
        len
    }

    fn write(&mut self, at: u64, bytes: &[u8]) {
        let mut at = at;
        let mut rest = bytes;
        while !rest.is_empty() {
            let page = self.pages.entry(at / PAGE).or_insert_with(|| vec![0; PAGE as usize].into());
            let start = (at % PAGE) as usize;
            let len = rest.len().min(PAGE as usize - start);
            page[start..start + len].copy_from_slice(&rest[..len]);
            at += len as u64;
            rest = &rest[len..];
        }
        self.len = self.len.max(at);
    }

    fn set_len(&mut self, len: u64) {
        if len < self.len {
            self.pages.retain(|page, _| page * PAGE < len);
            if let Some(page) = self.pages.get_mut(&(len / PAGE)) {
                page[(len % PAGE) as usize..].fill(0);
            }
        }
        self.len = len;
    }
}

type Refusal = Box<dyn FnMut(&Op) -> Option<io::ErrorKind> + Send>;

/// Names and contents.
type Image = (BTreeMap<PathBuf, usize>, Vec<Content>);

#[derive(Default)]
struct State {
    /// What was there, and durable, before the first of `ops`.
    base: Image,
    names: BTreeMap<PathBuf, usize>,
    directories: BTreeSet<PathBuf>,
    inodes: Vec<Content>,
    ops: Vec<Op>,
    refuse: Option<Refusal>,
}

impl State {
    fn based_on(base: Image) -> State {
        State { names: base.0.clone(), inodes: base.1.clone(), base, ..State::default() }
    }
}

/// The disk; clones are the same disk.
#[derive(Clone, Default)]
pub struct MemDisk {
    state: Arc<Mutex<State>>,
}

impl MemDisk {
    pub fn new() -> MemDisk {
        MemDisk::default()
    }

    /// The same disk behind the product's door.
    pub fn door(&self) -> Arc<dyn Disk> {
        Arc::new(self.clone())
    }

    /// Makes a file with its directories.
    pub fn put(&self, path: impl AsRef<Path>, bytes: &[u8]) {
        let path = path.as_ref();
        self.create_dir_all(path.parent().unwrap()).unwrap();
        self.open(path, OpenMode::Truncate).unwrap().write_at(0, bytes).unwrap();
    }

    /// All bytes of a file; `None` if there is no such file.
    pub fn get(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        let state = self.lock_state();
        let content = &state.inodes[*state.names.get(path.as_ref())?];
        let mut bytes = vec![0; content.len as usize];
        content.read(0, &mut bytes);
        Some(bytes)
    }

    /// Names of all files.
    pub fn files(&self) -> Vec<PathBuf> {
        self.lock_state().names.keys().cloned().collect()
    }

    /// Operations so far.
    pub fn ops(&self) -> Vec<Op> {
        self.lock_state().ops.clone()
    }

    /// From now on asks `refuse` before each operation that changes something or syncs.
    pub fn refuse(&self, refuse: impl FnMut(&Op) -> Option<io::ErrorKind> + Send + 'static) {
        self.lock_state().refuse = Some(Box::new(refuse));
    }

    /// Ends all refusals.
    pub fn refuse_nothing(&self) {
        self.lock_state().refuse = None;
    }

    /// A copy of a directory of the machine, below `at`.
    pub fn copy_in(&self, from: &Path, at: &Path) {
        self.create_dir_all(at).unwrap();
        let mut entries: Vec<_> = walk(from);
        entries.sort();
        for path in entries {
            let bytes = read_real(&path);
            self.put(at.join(path.strip_prefix(from).unwrap()), &bytes);
        }
    }

    /// Every disk that a start may find if the power is cut after the first `done` operations: what was synced is
    /// there; of everything else any part is, each write whole, torn in the middle or missing.
    pub fn power_cuts(&self, done: usize) -> Vec<MemDisk> {
        let state = self.lock_state();
        let ops = &state.ops[..done];
        let unsure: Vec<usize> = (0..done).filter(|&at| !is_durable(ops, at)).collect();
        assert!(unsure.len() < 12, "too many unsynced operations to try them all: {}", unsure.len());
        (0..3_usize.pow(unsure.len() as u32))
            .map(|choice| {
                let mut fates = vec![2; done];
                let mut choice = choice;
                for &at in &unsure {
                    fates[at] = choice % 3;
                    choice /= 3;
                }
                replay(&state, ops, &fates)
            })
            .collect()
    }

    /// One of the disks of [`MemDisk::power_cuts`] after everything so far, for tests with too many operations to try
    /// them all: `fate` says for each operation that is not durable whether it is missing (0), torn (1) or there (2).
    pub fn power_cut(&self, mut fate: impl FnMut() -> usize) -> MemDisk {
        let state = self.lock_state();
        let ops = &state.ops[..];
        let fates: Vec<_> = (0..ops.len()).map(|at| if is_durable(ops, at) { 2 } else { fate() }).collect();
        replay(&state, ops, &fates)
    }

    /// A copy on which everything so far has been synced.
    pub fn durable(&self) -> MemDisk {
        let state = self.lock_state();
        let (names, inodes) = (state.names.clone(), state.inodes.clone());
        let copy = State { directories: state.directories.clone(), ..State::based_on((names, inodes)) };
        MemDisk { state: Arc::new(Mutex::new(copy)) }
    }

    fn lock_state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn apply(&self, op: Op) -> io::Result<()> {
        let mut state = self.lock_state();
        if let Some(kind) = state.refuse.as_mut().and_then(|refuse| refuse(&op)) {
            return Err(io::Error::new(kind, "refused by the test"));
        }
        carry_out(&mut state, &op, 2);
        state.ops.push(op);
        Ok(())
    }

    fn inode(&self, path: &Path) -> io::Result<usize> {
        self.lock_state().names.get(path).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// `fate` 0: never happened; 1: a write is torn, all else happened; 2: happened.
fn carry_out(state: &mut State, op: &Op, fate: usize) {
    match op {
        _ if fate == 0 => {}
        Op::Create { path, inode } => {
            state.names.insert(path.clone(), *inode);
        }
        Op::Rename { from, to, inode } => {
            state.names.remove(from);
            state.names.insert(to.clone(), *inode);
        }
        Op::Remove { path } => {
            state.names.remove(path);
        }
        Op::Write { inode, at, bytes } if fate == 1 => state.inodes[*inode].write(*at, &bytes[..bytes.len() / 2]),
        Op::Write { inode, at, bytes } => state.inodes[*inode].write(*at, bytes),
        Op::SetLen { inode, len } => state.inodes[*inode].set_len(*len),
        Op::Sync { .. } | Op::SyncDir { .. } => {}
    }
}

fn is_durable(ops: &[Op], at: usize) -> bool {
    let later = &ops[at + 1..];
    match &ops[at] {
        Op::Write { inode, .. } | Op::SetLen { inode, .. } => later.contains(&Op::Sync { inode: *inode }),
        Op::Create { path, .. } | Op::Remove { path } | Op::Rename { to: path, .. } => {
            later.contains(&Op::SyncDir { path: path.parent().unwrap().to_path_buf() })
        }
        Op::Sync { .. } | Op::SyncDir { .. } => true,
    }
}

fn replay(state: &State, ops: &[Op], fates: &[usize]) -> MemDisk {
    let mut found = State { directories: state.directories.clone(), ..State::based_on(state.base.clone()) };
    found.inodes.resize_with(state.inodes.len(), Content::default);
    for (op, fate) in ops.iter().zip(fates) {
        carry_out(&mut found, op, *fate);
    }
    MemDisk { state: Arc::new(Mutex::new(found)) }
}

impl Disk for MemDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let found = self.inode(path);
        let inode = match (mode, found) {
            (OpenMode::Read | OpenMode::Write, Err(missing)) => return Err(missing),
            (OpenMode::CreateNew, Ok(_)) => return Err(io::ErrorKind::AlreadyExists.into()),
            (OpenMode::Truncate, Ok(inode)) => {
                self.apply(Op::SetLen { inode, len: 0 })?;
                inode
            }
            (_, Ok(inode)) => inode,
            (_, Err(_)) => {
                if !self.lock_state().directories.contains(path.parent().unwrap()) {
                    return Err(io::ErrorKind::NotFound.into());
                }
                let inode = {
                    let mut state = self.lock_state();
                    state.inodes.push(Content::default());
                    state.inodes.len() - 1
                };
                self.apply(Op::Create { path: path.to_path_buf(), inode })?;
                inode
            }
        };
        Ok(Arc::new(MemFile { disk: self.clone(), inode, writable: mode != OpenMode::Read }))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.lock_state().directories.extend(path.ancestors().map(Path::to_path_buf));
        Ok(())
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let state = self.lock_state();
        if !state.directories.contains(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let entry = |inside: &PathBuf, is_dir| {
            let name = inside.strip_prefix(path).ok()?.to_str()?;
            (!name.is_empty() && !name.contains('/')).then(|| DirEntry { name: name.to_string(), is_dir })
        };
        let files = state.names.keys().filter_map(|inside| entry(inside, false));
        let mut entries: Vec<DirEntry> =
            files.chain(state.directories.iter().filter_map(|inside| entry(inside, true))).collect();
        entries.sort();
        Ok(entries)
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        let is_dir = self.lock_state().directories.contains(path);
        let len = match self.inode(path) {
            Ok(inode) => self.lock_state().inodes[inode].len,
            Err(_) if is_dir => 0,
            Err(missing) => return Err(missing),
        };
        Ok(Metadata { len, modified: Millis(0), is_dir })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let inode = self.inode(from)?;
        self.apply(Op::Rename { from: from.to_path_buf(), to: to.to_path_buf(), inode })
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.inode(path)?;
        self.apply(Op::Remove { path: path.to_path_buf() })
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        for file in self.files().iter().filter(|file| file.starts_with(path)) {
            self.remove_file(file)?;
        }
        self.lock_state().directories.retain(|directory| !directory.starts_with(path));
        Ok(())
    }

    fn sync_dir(&self, path: &Path) -> BoxFuture<'static, io::Result<()>> {
        let synced = self.apply(Op::SyncDir { path: path.to_path_buf() });
        Box::pin(async move { synced })
    }

    fn space(&self, _path: &Path) -> io::Result<Space> {
        Ok(Space { total: 1 << 40, available: 1 << 39 })
    }

    fn lock(&self, _path: &Path) -> io::Result<Box<dyn FileLock>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

struct MemFile {
    disk: MemDisk,
    inode: usize,
    writable: bool,
}

impl MemFile {
    fn change(&self, op: Op) -> io::Result<()> {
        if !self.writable {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        self.disk.apply(op)
    }
}

impl File for MemFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.lock_state().inodes[self.inode].len)
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        Ok(self.disk.lock_state().inodes[self.inode].read(at, into))
    }

    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.change(Op::Write { inode: self.inode, at, bytes: bytes.to_vec() })
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(Op::SetLen { inode: self.inode, len })
    }

    fn allocate(&self, len: u64) -> BoxFuture<'static, io::Result<()>> {
        let done = self.set_len(len);
        Box::pin(async move { done })
    }

    fn sync(&self) -> BoxFuture<'static, io::Result<()>> {
        let done = self.disk.apply(Op::Sync { inode: self.inode });
        Box::pin(async move { done })
    }

    fn map(&self, len: u64) -> io::Result<Arc<dyn Mapping>> {
        let file = MemFile { disk: self.disk.clone(), inode: self.inode, writable: self.writable };
        Ok(Arc::new(MemMapping { file, len: len as usize }))
    }
}

/// A mapping whose stores are writes like all others.
struct MemMapping {
    file: MemFile,
    len: usize,
}

impl Mapping for MemMapping {
    fn len(&self) -> usize {
        self.len
    }

    fn read(&self, at: usize, into: &mut [u8]) {
        assert_eq!(self.file.read_at(at as u64, into).unwrap(), into.len());
    }

    fn append_to(&self, at: usize, len: usize, out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + len, 0);
        self.read(at, &mut out[start..]);
    }

    fn write(&self, at: usize, bytes: &[u8]) {
        self.file.write_at(at as u64, bytes).unwrap();
    }

    fn prefault(&self, _at: usize, _len: usize) -> BoxFuture<'static, ()> {
        Box::pin(async {})
    }

    fn release(&self, _at: usize, _len: usize) -> BoxFuture<'static, ()> {
        Box::pin(async {})
    }
}

fn walk(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files.extend(walk(&path)),
            false => files.push(path),
        }
    }
    files
}

/// A file of the machine.
pub fn read_real(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The folder of the store vectors.
pub fn vectors() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/store")
}

/// Completes a future that never waits.
pub fn now<T>(future: impl std::future::Future<Output = T>) -> T {
    futures::FutureExt::now_or_never(future).expect("it never waits on a disk in memory")
}
