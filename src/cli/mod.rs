//! The commands of the one binary.

mod audit;
mod bench;
mod cluster;
mod connect;
mod console;
mod dlq;
mod fail;
mod generate;
mod group;
mod message;
mod mqadmin;
mod offset;
mod promote;
mod send;
mod serve;
mod show;
#[cfg(feature = "tokio")]
mod signals;
mod store_check;
mod tail;
mod topic;
mod trace;
mod txn;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand};

use self::console::tell;

/// Something was refused or not found.
pub const EXIT_REFUSED: u8 = 1;
/// The command line is wrong (clap uses the same number).
pub const EXIT_USAGE: u8 = 2;
/// A server is unreachable or did not answer in time.
pub const EXIT_UNREACHABLE: u8 = 3;
/// A bug of ours.
pub const EXIT_BUG: u8 = 70;

/// A message broker that RocketMQ clients use unchanged, and a command line for every RocketMQ cluster.
///
/// The first five minutes:
///
///   metaq up                                    start a NameServer and a broker, data in ./metaq-data
///   metaq send Orders 'a book' -k order-1       send a message, from another terminal
///   metaq tail Orders --follow                  see messages as they come
///   metaq tail Orders -g billing --from begin   consume them as a group
///   metaq group lag billing                     see how many wait for it
///   metaq topic list                            and `topic show`, `cluster health`, `dlq list`, …
///   metaq bench produce                         see how fast it is
///   metaq audit run --topic T --history DIR     see that it loses nothing
///
/// Commands find the cluster by -n HOST:PORT, else NAMESRV_ADDR, else 127.0.0.1:9876.
/// Whatever shows something takes --json; whatever destroys something asks, and takes --yes.
/// Exit codes: 0 done, 1 refused or not found, 2 usage, 3 unreachable or timed out, 70 a bug.
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
    /// Start a broker, or promote a slave
    Broker(BrokerArgs),
    Send(send::SendArgs),
    Tail(tail::TailArgs),
    /// Topics: list, show, create, update, delete, stats
    Topic(topic::TopicArgs),
    /// Consumer groups: list, show, lag, reset, clone, delete
    Group(group::GroupArgs),
    /// Single messages: show, find, resend
    Message(message::MessageArgs),
    /// Dead letters: list, show, redrive
    Dlq(dlq::DlqArgs),
    /// Transactions that are not decided: list, show, commit, rollback
    Txn(txn::TxnArgs),
    /// Offsets: search
    Offset(offset::OffsetArgs),
    /// Brokers and NameServers: list, health, stats
    Cluster(cluster::ClusterCommands),
    Audit(audit::AuditArgs),
    Bench(bench::BenchArgs),
    /// Look into a store's files
    Store(store_check::StoreArgs),
    Mqadmin(mqadmin::MqadminArgs),
    Completions(generate::CompletionsArgs),
    Man(generate::ManArgs),
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
    /// Slaves of the broker, in the same process: listening 10, 20, … ports above it, data in slave-1, slave-2, … of the
    /// folder
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=9))]
    pub slaves: u16,
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
#[command(args_conflicts_with_subcommands = true)]
pub struct BrokerArgs {
    /// What to do with brokers that run; without it one is started
    #[command(subcommand)]
    pub command: Option<promote::BrokerCommand>,
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
    /// 0 makes it the master of its brokerName, any other a slave: short for brokerId and brokerRole
    #[arg(long, value_name = "ID")]
    pub broker_id: Option<u64>,
    /// Any key of broker.conf, as often as needed; wins over the file
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Print all settings with their values and exit
    #[arg(short = 'p', long)]
    pub print: bool,
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let outcome = run(Cli::parse());
    match outcome {
        Ok(code) => code,
        Err(error) => {
            tell!("error: {}", fail::story(&error));
            for hint in fail::hints(&error) {
                tell!("hint: {hint}");
            }
            ExitCode::from(fail::exit_code(&error))
        }
    }
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    match cli.command {
        Command::Up(args) => serve::up(args),
        Command::Nameserver(args) => serve::nameserver(args),
        Command::Broker(BrokerArgs { command: Some(command), .. }) => promote::run(command),
        Command::Broker(args) => serve::broker(args),
        Command::Send(args) => send::run(args),
        Command::Tail(args) => tail::run(args),
        Command::Topic(args) => topic::run(args),
        Command::Group(args) => group::run(args),
        Command::Message(args) => message::run(args),
        Command::Dlq(args) => dlq::run(args),
        Command::Txn(args) => txn::run(args),
        Command::Offset(args) => offset::run(args),
        Command::Cluster(args) => cluster::run(args),
        Command::Audit(args) => audit::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Store(args) => store_check::run(args),
        Command::Mqadmin(args) => {
            let words = mqadmin::translate(args)?;
            run(Cli::parse_from(std::iter::once("metaq".to_owned()).chain(words)))
        }
        Command::Completions(args) => generate::completions(&args, Cli::command()),
        Command::Man(args) => generate::man(args, Cli::command()),
    }
}

/// The command line asks for what cannot be.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);
