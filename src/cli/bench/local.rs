//! Servers that the bench starts for itself: this same binary on free ports, its data in a folder that goes with it.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{bail, Context, Result};

use super::target::{resolve, Target};
use crate::env::real::poll::Acceptor;
use crate::env::real::process;
use crate::env::{Clock, Disk, Env};

/// Where private servers keep their data, how they are run.
#[derive(Clone)]
pub struct Ground {
    /// The world.
    pub env: Env,
    /// The folder under which theirs are made.
    pub data: PathBuf,
    /// Settings of the broker, as KEY=VALUE.
    pub settings: Vec<String>,
    /// The one CPU servers run on.
    pub cpu: Option<usize>,
}

impl Ground {
    /// A new folder's name.
    pub(super) fn folder(&self, kind: &str) -> PathBuf {
        self.data.join(format!("metaq-bench-{kind}-{:016x}", self.env.rng.next_u64()))
    }

    /// The last steps of a start: pins the process.
    fn settle(&self, child: &Child) -> Result<()> {
        match self.cpu {
            Some(cpu) => process::pin(child.id(), cpu).context("cannot pin a server to a CPU"),
            None => Ok(()),
        }
    }
}

/// The data of servers, which goes with the last who uses it unless somebody wants to keep it.
pub struct DataFolder {
    path: PathBuf,
    disk: Arc<dyn Disk>,
    keep: bool,
}

impl DataFolder {
    /// A new one, which goes.
    pub fn temporary(ground: &Ground, kind: &str) -> Result<Arc<DataFolder>> {
        DataFolder::make(ground, ground.folder(kind), false)
    }

    /// The user's, which stays.
    pub fn kept(ground: &Ground, path: PathBuf) -> Result<Arc<DataFolder>> {
        DataFolder::make(ground, path, true)
    }

    fn make(ground: &Ground, path: PathBuf, keep: bool) -> Result<Arc<DataFolder>> {
        let disk = Arc::clone(&ground.env.disk);
        disk.create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Arc::new(DataFolder { path, disk, keep }))
    }
}

impl Drop for DataFolder {
    fn drop(&mut self) {
        if !self.keep {
            // A folder that stays behind is the user's to remove; there is nobody to tell.
            let _ = self.disk.remove_dir_all(&self.path);
        }
    }
}

/// A running child, which ends when it is dropped, and its folder.
struct Running {
    child: Child,
    folder: Arc<DataFolder>,
}

impl Running {
    /// Starts this binary with `arguments` and waits for the line that `is_ready` takes something out of.
    fn start<T>(
        ground: &Ground,
        folder: Arc<DataFolder>,
        arguments: &[String],
        is_ready: impl Fn(&str) -> Option<T>,
    ) -> Result<(Running, T)> {
        let program = std::env::current_exe().context("this program's own file is not known")?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).env("METAQ_LOG", "error");
        let child = process::spawn(&mut command).context("cannot start a server")?;
        let mut running = Running { child, folder };
        ground.settle(&running.child)?;
        let output = running.child.stdout.take().context("the server has no output")?;
        for line in BufReader::new(output).lines() {
            if let Some(found) = is_ready(&line?) {
                return Ok((running, found));
            }
        }
        bail!("a server did not start")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        process::terminate(&self.child);
        let _ = self.child.wait();
    }
}

/// A NameServer and a broker of our own.
pub struct PrivateBroker {
    running: Running,
    nameserver: SocketAddr,
    address: SocketAddr,
    /// From its start to the line that says it is ready.
    pub ready_after: Duration,
}

impl PrivateBroker {
    /// Starts one with nothing stored.
    pub fn start(ground: &Ground, settings: &[String]) -> Result<PrivateBroker> {
        PrivateBroker::start_in(ground, &DataFolder::temporary(ground, "broker")?, settings)
    }

    /// Starts one on the data of another that has ended.
    pub fn start_in(ground: &Ground, folder: &Arc<DataFolder>, settings: &[String]) -> Result<PrivateBroker> {
        let started = ground.env.clock.monotonic();
        let (nameserver, broker) = (free_address()?, free_address()?);
        let mut arguments = ["up", "--data"].map(str::to_owned).to_vec();
        arguments.push(folder.path.display().to_string());
        arguments.extend(["--nameserver".to_owned(), nameserver.to_string()]);
        arguments.extend(["--broker".to_owned(), broker.to_string()]);
        for setting in ground.settings.iter().chain(settings) {
            arguments.extend(["--set".to_owned(), setting.clone()]);
        }
        let is_ready = |line: &str| line.starts_with("ready").then_some(());
        let (running, ()) = Running::start(ground, Arc::clone(folder), &arguments, is_ready)?;
        let ready_after = ground.env.clock.monotonic() - started;
        Ok(PrivateBroker { running, nameserver, address: broker, ready_after })
    }

    /// Where clients find it.
    pub fn nameserver(&self) -> String {
        self.nameserver.to_string()
    }

    /// Its process.
    pub fn process(&self) -> u32 {
        self.running.child.id()
    }

    /// Where it answers.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where its log's files are.
    pub fn log(&self) -> PathBuf {
        self.running.folder.path.join("commitlog")
    }

    /// Ends it as a crash of its process would.
    pub fn kill(mut self) -> Result<()> {
        self.running.child.kill().context("cannot kill the broker")
    }

    /// It and a topic, which is made.
    pub fn target(&self, clock: &Arc<dyn Clock>, topic: &str) -> Result<Target> {
        let target = Target::find(clock, &self.nameserver(), topic, true)?;
        Ok(Target { process: Some(self.process()), ..target })
    }
}

/// A slave of a broker of our own.
pub struct PrivateSlave {
    running: Running,
    address: SocketAddr,
}

impl PrivateSlave {
    /// Starts one, with an empty folder.
    pub fn start(ground: &Ground, master: &PrivateBroker) -> Result<PrivateSlave> {
        let (address, folder) = (free_address()?, DataFolder::temporary(ground, "slave")?);
        let mut arguments = vec!["broker".to_owned(), "-n".to_owned(), master.nameserver()];
        arguments.extend(["--listen".to_owned(), address.to_string()]);
        arguments.extend(["--data".to_owned(), folder.path.display().to_string()]);
        arguments.extend(["--broker-id", "1", "--set", "brokerName=broker-a"].map(str::to_owned));
        for setting in &ground.settings {
            arguments.extend(["--set".to_owned(), setting.clone()]);
        }
        let is_ready = |line: &str| line.starts_with("ready").then_some(());
        let (running, ()) = Running::start(ground, folder, &arguments, is_ready)?;
        Ok(PrivateSlave { running, address })
    }

    /// Where it answers.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process.
    pub fn process(&self) -> u32 {
        self.running.child.id()
    }
}

/// A process that writes into a file what it gets.
pub struct Sink {
    _running: Running,
    /// Where it listens.
    pub address: SocketAddr,
}

impl Sink {
    /// Starts one that takes so many bytes at a time.
    pub fn start(ground: &Ground, bytes: u64) -> Result<Sink> {
        let folder = DataFolder::temporary(ground, "copy")?;
        let file = folder.path.join("copy").display().to_string();
        let arguments = ["bench", "copy-sink", "--to", &file, "--bytes", &bytes.to_string()].map(str::to_owned);
        let listens = |line: &str| line.strip_prefix("copy ").map(str::to_owned);
        let (running, address) = Running::start(ground, folder, &arguments, listens)?;
        Ok(Sink { _running: running, address: resolve(&address)? })
    }
}

/// The ceiling probe in a process of its own.
pub struct Probe {
    running: Running,
    serve: SocketAddr,
    echo: SocketAddr,
}

impl Probe {
    /// Starts one with a log of `bytes` bytes.
    pub fn start(ground: &Ground, bytes: u64) -> Result<Probe> {
        let folder = DataFolder::temporary(ground, "probe")?;
        let log: &Path = &folder.path.join("log");
        let arguments = ["bench", "probe-server", "--log", &log.display().to_string(), "--bytes", &bytes.to_string()];
        let addresses = |line: &str| {
            let mut words = line.split_whitespace();
            match (words.next(), words.next(), words.next(), words.next()) {
                (Some("probe"), Some(serve), Some("echo"), Some(echo)) => Some((serve.to_owned(), echo.to_owned())),
                _ => None,
            }
        };
        let (running, (serve, echo)) = Running::start(ground, folder, &arguments.map(str::to_owned), addresses)?;
        Ok(Probe { running, serve: resolve(&serve)?, echo: resolve(&echo)? })
    }

    /// The probe, for requests like a broker's.
    pub fn target(&self, topic: &str) -> Target {
        Target {
            address: self.serve,
            broker: "probe".to_owned(),
            topic: topic.to_owned(),
            queues: 4,
            process: Some(self.running.child.id()),
        }
    }

    /// The port that only echoes.
    pub fn echo(&self, topic: &str) -> Target {
        Target { address: self.echo, ..self.target(topic) }
    }
}

/// An address of this machine that nobody listens on at this moment.
fn free_address() -> Result<SocketAddr> {
    Ok(Acceptor::listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?.local_addr()?)
}
