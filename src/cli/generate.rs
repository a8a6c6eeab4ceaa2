//! `metaq completions` and `metaq man`: what shells and readers of manuals need, made from the commands themselves.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, Command};
use clap_complete::Shell;

use super::console::tell;
use super::show::Screen;
use crate::env::real;

/// Print completions for a shell
///
///   bash   metaq completions bash > ~/.local/share/bash-completion/completions/metaq
///   zsh    metaq completions zsh > "${fpath[1]}/_metaq"
///   fish   metaq completions fish > ~/.config/fish/completions/metaq.fish
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct CompletionsArgs {
    /// Which shell
    shell: Shell,
}

/// Print the manual page, or write all pages
///
///   metaq man | man -l -
///   metaq man --out ~/.local/share/man/man1
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct ManArgs {
    /// Write a page for each command into this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Runs `metaq completions`.
pub fn completions(args: &CompletionsArgs, mut command: Command) -> Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "metaq", &mut script);
    print(&script);
    Ok(ExitCode::SUCCESS)
}

/// Runs `metaq man`.
pub fn man(args: ManArgs, command: Command) -> Result<ExitCode> {
    let Some(directory) = args.out else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page)?;
        print(&page);
        return Ok(ExitCode::SUCCESS);
    };
    let unwritable = || format!("manual pages cannot be written to {}", directory.display());
    real::env().disk.create_dir_all(&directory).with_context(unwritable)?;
    clap_mangen::generate_to(command, &directory).with_context(unwritable)?;
    tell!("wrote the manual pages to {}; read one with `man -l {}/metaq.1`", directory.display(), directory.display());
    Ok(ExitCode::SUCCESS)
}

fn print(text: &[u8]) {
    Screen::new(&real::env()).line(text.trim_ascii_end());
}
