//! Asking before something is changed that cannot be taken back.

use std::io::{self, BufRead, IsTerminal, Write};

use anyhow::Result;
use clap::Args;

use super::{ListArgs, Listing, Screen};
use crate::cli::console::tell;
use crate::cli::fail::Failure;

/// Options of every command that destroys or moves something.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct ConfirmArgs {
    /// Do it without asking
    #[arg(long, short = 'y')]
    pub yes: bool,
    /// Only show what would change
    #[arg(long, conflicts_with = "yes")]
    pub dry_run: bool,
}

/// What a command is about to do.
pub struct Plan {
    /// In one sentence, such as `delete topic Orders on 2 brokers`.
    pub what: String,
    /// What changes, one by one.
    pub changes: Listing,
}

/// Shows a plan and says whether to carry it out. With `--dry-run` the plan is the command's data.
///
/// # Errors
/// If nobody can be asked, or the answer is no.
pub fn confirmed(screen: &Screen, plan: &Plan, args: ConfirmArgs, list: &ListArgs) -> Result<bool> {
    if args.dry_run {
        screen.list(&plan.changes, list)?;
        tell!("dry run: nothing was changed; this would {}", plan.what);
        return Ok(false);
    }
    if args.yes {
        return Ok(true);
    }
    if !io::stdin().is_terminal() {
        let failure = Failure::usage(format!("this would {}; nobody is there to be asked", plan.what));
        return Err(failure.hint("`--dry-run` shows what would change, `--yes` does it").into());
    }
    for line in plan.changes.lines(screen.zone, false) {
        tell!("{line}");
    }
    let mut out = io::stderr();
    let _ = write!(out, "This will {}. Go on? [y/N] ", plan.what).and_then(|()| out.flush());
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    if matches!(answer.trim().to_lowercase().as_str(), "y" | "yes") {
        return Ok(true);
    }
    Err(Failure::refused("nothing was changed").into())
}
