//! A plain copy of a file's bytes over TCP, from one process into a file of another: what replication is measured by.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{bail, Context, Result};
use clap::Args;

use crate::cli::console::say;
use crate::env::real::poll::{Acceptor, Poller, Socket};
use crate::env::{real, Clock, Disk, File, OpenMode};

/// Bytes read and written at once, as replication does.
const PIECE: usize = 256 << 10;
/// How long a connection attempt may take, and how long nothing may happen.
const LIMIT: Duration = Duration::from_secs(10);

/// Arguments of the hidden `metaq bench copy-sink`.
#[derive(Debug, Args)]
pub struct SinkArgs {
    /// The file
    #[arg(long)]
    pub to: PathBuf,
    /// How many bytes come
    #[arg(long)]
    pub bytes: u64,
}

/// Takes the bytes of one connection after another into the file, and answers with a byte once all are written.
pub fn serve(args: &SinkArgs) -> Result<std::convert::Infallible> {
    let disk = real::env().disk;
    let mut acceptor = Acceptor::listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    say!("copy {}", acceptor.local_addr()?);
    loop {
        let mut poller = Poller::new()?;
        poller.watch_acceptor(&acceptor, 0)?;
        let mut socket = loop {
            poller.wait(None, &mut Vec::new())?;
            if let Some(socket) = acceptor.accept()? {
                break socket;
            }
        };
        // A new file each time: its pages are new to both.
        let file = disk.open(&args.to, OpenMode::Truncate)?;
        take(&mut socket, &*file, args.bytes)?;
        drop(file);
        disk.remove_file(&args.to)?;
    }
}

fn take(socket: &mut Socket, file: &dyn File, bytes: u64) -> Result<()> {
    let mut poller = Poller::new()?;
    poller.watch(socket, 0)?;
    let mut buffer = vec![0; PIECE];
    let (mut at, mut tokens) = (0, Vec::new());
    while at < bytes {
        match socket.read(&mut buffer)? {
            Some(0) => return Ok(()),
            Some(read) => {
                file.write_at(at, &buffer[..read])?;
                at += read as u64;
            }
            None => poller.wait(None, &mut tokens)?,
        }
    }
    while socket.write(&[1])?.is_none() {
        poller.wait(None, &mut tokens)?;
    }
    Ok(())
}

/// Files whose bytes are copied, one after the other.
pub struct Source {
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    files: Vec<PathBuf>,
}

impl Source {
    /// The files of a folder in the order of their names.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn folder(disk: &Arc<dyn Disk>, clock: &Arc<dyn Clock>, folder: PathBuf) -> Result<Source> {
        let entries = disk.read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
        let files = entries.into_iter().map(|entry| folder.join(entry.name)).collect();
        Ok(Source { disk: Arc::clone(disk), clock: Arc::clone(clock), files })
    }

    /// Sends their first `bytes` bytes to a sink and says how long it took until all were written there.
    ///
    /// # Errors
    /// If the sink goes away, or hangs.
    pub fn copy(&self, to: SocketAddr, bytes: u64) -> Result<Duration> {
        let mut socket = Socket::connect(to, LIMIT)?;
        let mut poller = Poller::new()?;
        poller.watch(&socket, 0)?;
        let mut buffer = vec![0; PIECE];
        let (mut left, mut tokens) = (bytes, Vec::new());
        let began = self.clock.monotonic();
        for path in &self.files {
            let file = self.disk.open(path, OpenMode::Read)?;
            let mut at = 0;
            while left > 0 {
                let most = left.min(PIECE as u64) as usize;
                let read = file.read_at(at, &mut buffer[..most])?;
                if read == 0 {
                    break;
                }
                let mut written = 0;
                while written < read {
                    match socket.write(&buffer[written..read])? {
                        Some(more) => written += more,
                        None => poller.wait(Some(LIMIT), &mut tokens)?,
                    }
                }
                at += read as u64;
                left -= read as u64;
            }
        }
        if left > 0 {
            bail!("the log ended {left} bytes early");
        }
        let mut done = [0];
        loop {
            match socket.read(&mut done)? {
                Some(0) => bail!("the sink has gone"),
                Some(_) => return Ok(self.clock.monotonic() - began),
                None => poller.wait(Some(LIMIT), &mut tokens)?,
            }
        }
    }
}
