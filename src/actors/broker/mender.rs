//! Mends damaged records: another broker of the name has them too.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef};

use super::catch_up;
use super::shared::Shared;
use crate::config::broker::BrokerConfig;
use crate::env::{Canary, Env};
use crate::proto::remoting::requests::ViewMessageById;
use crate::proto::remoting::{request, Command};
use crate::proto::PhysicalOffset;
use crate::store::{Opened, Store};

/// How long another broker may take to answer.
const LIMIT: Duration = Duration::from_secs(3);
/// Messages that are waited for while nobody has them.
const TRIES: u32 = 3;
/// Pause before the others are asked again: one of them may be about to come back.
const PAUSE: Duration = Duration::from_secs(2);

/// What the actor is told.
pub enum MenderMessage {
    /// There are damaged records.
    Look,
    /// So many tries were in vain.
    Again {
        /// Tries.
        tries: u32,
    },
}

/// See the module's text.
pub struct Mender;

impl Actor for Mender {
    type Msg = MenderMessage;
    type State = Arc<Shared>;
    type Arguments = Arc<Shared>;

    async fn pre_start(
        &self,
        myself: ActorRef<Self::Msg>,
        shared: Self::Arguments,
    ) -> Result<Self::State, ActorProcessingErr> {
        shared.store.on_damage(move || {
            // An actor that is gone means that the broker is stopping.
            let _ = myself.cast(MenderMessage::Look);
        });
        Ok(shared)
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        message: Self::Msg,
        shared: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        let tries = match message {
            MenderMessage::Look => 1,
            MenderMessage::Again { tries } => tries + 1,
        };
        let damaged = shared.store.damaged();
        if damaged.is_empty() {
            return Ok(());
        }
        let others = catch_up::all_others(shared).await;
        let mut left = 0;
        for at in damaged {
            if mend(shared, others.iter().map(String::as_str), at).await {
                continue;
            }
            left += 1;
            if tries >= TRIES || others.is_empty() {
                tracing::error!(
                    position = at.0,
                    "a message in the log is damaged, and no other broker has it: it is lost"
                );
                shared.store.give_up_record(at);
            }
        }
        if left > 0 && tries < TRIES && !others.is_empty() {
            myself.send_after(PAUSE, move || MenderMessage::Again { tries });
        }
        Ok(())
    }
}

/// Asks the others, one after the other, for the record at a position.
async fn mend(shared: &Shared, others: impl Iterator<Item = &str>, at: PhysicalOffset) -> bool {
    mend_at(&shared.env, &shared.store, others, at).await.is_some()
}

/// The same without shared state. Gives the bytes of the record.
async fn mend_at(env: &Env, store: &Store, others: impl Iterator<Item = &str>, at: PhysicalOffset) -> Option<usize> {
    for other in others {
        let header = ViewMessageById { offset: at.0 as i64, topic: None };
        let view = Command::request(request::VIEW_MESSAGE_BY_ID).with_ext(&header);
        let Some(answer) = catch_up::ask_at(env, other, view, LIMIT).await else { continue };
        match store.mend(at, &answer.body).await {
            Ok(true) => {
                tracing::warn!(position = at.0, other, "a damaged message was written again, as another broker has it");
                return Some(answer.body.len());
            }
            Ok(false) => {}
            Err(error) => tracing::error!(position = at.0, %error, "a damaged message cannot be written again"),
        }
    }
    None
}

/// Mends what a start has found damaged, from what other brokers have; `true` if something was. The log has to be read anew
/// then: what was damaged is in no queue.
pub async fn mend_at_start(env: &Env, config: &BrokerConfig, own: SocketAddr, opened: &Opened) -> bool {
    let damaged: Vec<(PhysicalOffset, PhysicalOffset)> = opened.report.damage().collect();
    if damaged.is_empty() || env.canary(Canary::DamageSkipped) {
        return false;
    }
    let own = own.to_string();
    let others = catch_up::members_of(env, config).await.into_iter().map(|(_, address)| address);
    let others: Vec<String> = others.filter(|address| *address != own).collect();
    let mut mended = false;
    for (mut at, end) in damaged {
        while at < end {
            let Some(len) = mend_at(env, &opened.store, others.iter().map(String::as_str), at).await else { break };
            (at.0, mended) = (at.0 + len as u64, true);
        }
    }
    mended
}
