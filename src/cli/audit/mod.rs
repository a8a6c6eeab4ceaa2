//! `metaq audit`: is what was promised what happened?
//!
//! [`run`] makes histories under load, [`verdict`] reads histories and judges them.

mod load;
mod reading;
mod run;
mod verdict;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};

/// Prove that no promise was broken, from what clients did and saw
///
/// Clients that record (`Client::record` of the library, or `metaq audit run`) keep a history file each. This puts
/// histories together and asks every checker whose promise holds: that what was acknowledged is kept, that groups get
/// everything, that offsets are dense, and so on. Checkers that were not asked are named with the reason.
///
///   metaq audit run --topic Orders.audit --seconds 60 --history DIR     make load and a history, then judge it
///   metaq audit DIR                                                     judge again
///   metaq audit one.history other.history --json
///
/// The clocks of the processes have to agree: those of one machine do. Exit code 1 if a promise was broken.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub struct AuditArgs {
    #[command(subcommand)]
    command: Option<AuditCommand>,
    #[command(flatten)]
    files: verdict::FilesArgs,
}

#[derive(Debug, Subcommand)]
enum AuditCommand {
    /// Send and consume messages, record it, read the topic to its end, and judge
    ///
    /// Whatever happens to brokers, machines and the network meanwhile is the test. The topic should be used by nothing
    /// else; messages of others are passed over. A run with nothing to send and nobody to consume only reads and judges.
    Run(run::RunArgs),
}

/// Runs `metaq audit`.
pub fn run(args: AuditArgs) -> Result<ExitCode> {
    match args.command {
        Some(AuditCommand::Run(args)) => run::run(args),
        None => verdict::run(&args.files),
    }
}
