//! The commands of the one binary.

mod bench;
mod console;
mod serve;
#[cfg(feature = "tokio")]
mod signals;
mod store_check;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use self::console::tell;
use crate::store::OpenError;

/// Something was refused or not found.
pub const EXIT_REFUSED: u8 = 1;
/// The command line is wrong (clap uses the same number).
pub const EXIT_USAGE: u8 = 2;
/// A server is unreachable or did not answer in time.
pub const EXIT_UNREACHABLE: u8 = 3;
/// A bug of ours.
pub const EXIT_BUG: u8 = 70;

/// A message broker that RocketMQ clients use unchanged.
///
/// The first five minutes:
///
///   metaq up                        start a NameServer and a broker, data in ./metaq-data
///   metaq bench produce             send messages to it and see how fast it is
///   metaq bench consume             read them back
///   metaq store check metaq-data    check every byte of its store (after stopping it)
///
/// Any RocketMQ client (4.x or 5.x, remoting protocol) works with NAMESRV_ADDR=127.0.0.1:9876.
#[derive(Debug, Parser)]
#[command(name = "metaq", version, verbatim_doc_comment, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start a NameServer and a broker in one process: all that a first try or a test needs
    #[command(verbatim_doc_comment)]
    Up(UpArgs),
    /// Start a NameServer
    #[command(alias = "namesrv")]
    Nameserver(NameserverArgs),
    /// Start a broker
    Broker(BrokerArgs),
    Bench(bench::BenchArgs),
    /// Look into a store's files
    Store(store_check::StoreArgs),
}

/// Arguments of `metaq up`.
#[derive(Debug, Args)]
pub struct UpArgs {
    /// Folder for all data; made if missing, kept over restarts
    #[arg(long, value_name = "DIR", default_value = "./metaq-data")]
    pub data: PathBuf,
    /// Where the NameServer listens
    #[arg(long, value_name = "HOST:PORT", default_value = "0.0.0.0:9876")]
    pub nameserver: String,
    /// Where the broker listens; its host is also the address told to clients. Old clients use the port two below too
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:10911")]
    pub broker: String,
    /// Any key of RocketMQ's broker.conf, as often as needed
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

/// Arguments of `metaq nameserver`.
#[derive(Debug, Args)]
pub struct NameserverArgs {
    /// Settings file with RocketMQ's namesrv.conf keys
    #[arg(short = 'c', long = "config", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Where to listen; else `bindAddress` and `listenPort` of the settings, 0.0.0.0:9876
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: Option<String>,
    /// Folder for its key-value settings
    #[arg(long, value_name = "DIR", default_value = "./metaq-data")]
    pub data: PathBuf,
    /// Any key of namesrv.conf, as often as needed
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Print all settings with their values and exit
    #[arg(short = 'p', long)]
    pub print: bool,
}

/// Arguments of `metaq broker`.
#[derive(Debug, Args)]
pub struct BrokerArgs {
    /// Settings file with RocketMQ's broker.conf keys
    #[arg(short = 'c', long = "config", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// NameServers, separated by `;`
    #[arg(short = 'n', long = "namesrv", value_name = "HOST:PORT", env = "NAMESRV_ADDR")]
    pub nameservers: Option<String>,
    /// Folder for its store; else `storePathRootDir` of the settings
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Where to listen; else `listenPort` of the settings on all addresses
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: Option<String>,
    /// Any key of broker.conf, as often as needed; wins over the file
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Print all settings with their values and exit
    #[arg(short = 'p', long)]
    pub print: bool,
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = match cli.command {
        Command::Up(args) => serve::up(args),
        Command::Nameserver(args) => serve::nameserver(args),
        Command::Broker(args) => serve::broker(args),
        Command::Bench(args) => bench::run(args),
        Command::Store(args) => store_check::run(args),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            tell!("error: {error:#}");
            if let Some(hint) = hint(&error) {
                tell!("hint: {hint}");
            }
            ExitCode::from(exit_code(&error))
        }
    }
}

/// The command line asks for what cannot be.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);

fn exit_code(error: &anyhow::Error) -> u8 {
    let unreachable = |kind| matches!(kind, io::ErrorKind::ConnectionRefused | io::ErrorKind::TimedOut);
    let io = error.chain().find_map(|cause| cause.downcast_ref::<io::Error>());
    if error.is::<UsageError>() {
        EXIT_USAGE
    } else if io.is_some_and(|error| unreachable(error.kind())) {
        EXIT_UNREACHABLE
    } else {
        EXIT_REFUSED
    }
}

/// What to try next, where that is known.
fn hint(error: &anyhow::Error) -> Option<&'static str> {
    error.chain().find_map(|cause| {
        if let Some(hint) = cause.downcast_ref().and_then(OpenError::hint) {
            return Some(hint);
        }
        match cause.downcast_ref::<io::Error>()?.kind() {
            io::ErrorKind::AddrInUse => Some("stop what listens there, or choose another address; `--help` shows how"),
            io::ErrorKind::ConnectionRefused => {
                Some("is a NameServer running there? `metaq up` starts one with a broker")
            }
            _ => None,
        }
    })
}
