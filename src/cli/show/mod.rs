//! How commands show what they found: tables for eyes, JSON for programs, templates for scripts.

mod cell;
mod confirm;
mod details;
mod listing;
mod messages;
mod progress;
mod template;
mod when;

use std::io::{self, IsTerminal, Write};

use anyhow::Result;
use clap::Args;

pub use self::cell::Cell;
pub use self::confirm::{confirmed, ConfirmArgs, Plan};
pub use self::details::Details;
pub use self::listing::Listing;
pub use self::messages::{body_of, escaped, message_columns, message_details, message_row};
pub use self::progress::Progress;
pub use self::template::Template;
pub use self::when::{duration_of, span, When};
use super::fail::Failure;
use crate::env::Env;

/// How a list is to be printed.
#[derive(Clone, Debug, Default, Args)]
pub struct ListArgs {
    #[command(flatten)]
    pub json: JsonArg,
    /// Print a line like this for each: `{name}` stands for a column, `\t` and `\n` are understood
    #[arg(long, value_name = "TEMPLATE", conflicts_with = "json")]
    pub format: Option<String>,
}

/// How one thing is to be printed.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct JsonArg {
    /// Print JSON for programs; times are milliseconds since 1970
    #[arg(long)]
    pub json: bool,
}

/// Where data goes, and who reads it.
#[derive(Clone, Copy, Debug)]
pub struct Screen {
    /// Seconds to add to UTC for times shown to people.
    pub zone: i32,
    /// Standard output is a terminal that shows bold and colours.
    styled: bool,
    /// Standard output is a terminal.
    pub terminal: bool,
}

impl Screen {
    /// Standard output of this process.
    pub fn new(env: &Env) -> Screen {
        let terminal = io::stdout().is_terminal();
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os("TERM").is_none_or(|terminal| terminal == "dumb");
        Screen { zone: env.clock.local_offset_seconds(), styled: terminal && !plain, terminal }
    }

    /// Prints a list as asked.
    ///
    /// # Errors
    /// If the template names a column that is not there.
    pub fn list(&self, listing: &Listing, args: &ListArgs) -> Result<()> {
        if args.json.json {
            self.line(listing.to_json().to_string().as_bytes());
        } else if let Some(text) = &args.format {
            let template = Template::parse(text)?;
            template.check(listing.columns.iter().map(|column| column.key))?;
            for row in &listing.rows {
                let line = template.fill(|name| listing.cell(row, name), self);
                self.line(&line);
            }
        } else {
            self.table(listing);
        }
        Ok(())
    }

    /// Prints a table.
    pub fn table(&self, listing: &Listing) {
        for line in listing.lines(self.zone, self.styled) {
            self.line(line.as_bytes());
        }
    }

    /// Prints everything about one thing.
    pub fn details(&self, details: &Details, json: JsonArg) {
        if json.json {
            self.line(details.to_json().to_string().as_bytes());
            return;
        }
        for line in details.lines(self.zone, self.styled) {
            self.line(line.as_bytes());
        }
    }

    /// Prints a line of data; `false` if nobody reads any more.
    pub fn line(&self, line: &[u8]) -> bool {
        let mut out = io::stdout().lock();
        out.write_all(line).and_then(|()| out.write_all(b"\n")).is_ok()
    }
}

/// `1 message`, `2 messages`.
pub fn count(number: i64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// Bold on a terminal.
fn bold(text: &str, styled: bool) -> String {
    if styled {
        format!("\x1b[1m{text}\x1b[0m")
    } else {
        text.to_owned()
    }
}

/// The error of a name in a template that stands for nothing.
fn unknown_field(name: &str, known: &[&str]) -> anyhow::Error {
    let known: Vec<_> = known.iter().map(|name| format!("{{{name}}}")).collect();
    Failure::usage(format!("`{{{name}}}` stands for nothing here")).hint(format!("there is {}", known.join(" "))).into()
}
