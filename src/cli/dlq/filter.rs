//! Which dead letters.

use clap::Args;

use crate::cli::connect::Cluster;
use crate::cli::show::When;
use crate::client::Received;
use crate::env::Millis;

/// Filters of dead letters; all have to fit.
#[derive(Clone, Debug, Default, Args)]
pub struct FilterArgs {
    /// Only those that died at this time or later: `5m` (ago), `12:30`, `2026-11-30`, `2026-11-30 12:30`
    #[arg(long, value_name = "TIME")]
    pub from: Option<When>,
    /// Only those that died before this time
    #[arg(long, value_name = "TIME")]
    pub to: Option<When>,
    /// Only those that were sent to this topic
    #[arg(long)]
    pub topic: Option<String>,
    /// Only those with this key
    #[arg(short = 'k', long)]
    pub key: Option<String>,
    /// Only those with this tag
    #[arg(short = 't', long)]
    pub tag: Option<String>,
    /// Only the one with this id
    #[arg(long)]
    pub id: Option<String>,
    /// Only those that say this somewhere
    #[arg(long, value_name = "TEXT")]
    pub contains: Option<String>,
}

/// Filters with their times known.
pub struct Filter {
    args: FilterArgs,
    from: Millis,
    to: Millis,
}

impl FilterArgs {
    /// Whether all dead letters fit.
    pub fn is_empty(&self) -> bool {
        self.from.is_none()
            && self.to.is_none()
            && [&self.topic, &self.key, &self.tag, &self.id, &self.contains].iter().all(|text| text.is_none())
    }

    /// With their times known.
    pub fn resolve(&self, cluster: &Cluster) -> Filter {
        let at = |when: Option<When>, else_at| {
            when.map_or(Millis(else_at), |when| when.resolve(cluster.now(), cluster.screen.zone))
        };
        Filter { from: at(self.from, i64::MIN), to: at(self.to, i64::MAX), args: self.clone() }
    }
}

impl Filter {
    /// Whether a message fits.
    pub fn fits(&self, message: &Received) -> bool {
        let args = &self.args;
        (self.from..self.to).contains(&message.stored_at)
            && args.topic.as_ref().is_none_or(|topic| **topic == *message.topic)
            && args.key.as_ref().is_none_or(|key| message.keys().any(|own| own == key))
            && args.tag.as_deref().is_none_or(|tag| message.tag() == Some(tag))
            && args.id.as_ref().is_none_or(|id| *id == message.message_id() || *id == message.offset_message_id())
            && args.contains.as_ref().is_none_or(|text| memchr::memmem::find(&message.body, text.as_bytes()).is_some())
    }
}
