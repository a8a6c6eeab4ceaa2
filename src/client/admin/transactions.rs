//! Transactions, decided by hand.

use super::Admin;
use crate::client::error::Error;
use crate::client::producer::Named;
use crate::client::{LocalTransaction, Received};
use crate::proto::message::{ids, properties};
use crate::proto::remoting::requests::ResumeCheckHalfMessage;
use crate::proto::remoting::{request, Command};

impl Admin {
    /// Decides about the transaction of a half message, read from the half topic, in the place of its producer. The broker
    /// keeps to the first decision.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a message that names no producer group; [`Error::Refused`] if it is decided already.
    pub async fn end_transaction(&self, half: &Received, state: LocalTransaction) -> Result<(), Error> {
        let group = half.property(properties::PRODUCER_GROUP);
        let group = group.ok_or_else(|| Error::Invalid("the message names no producer group".into()))?;
        let id = half.message_id();
        let named = Named { topic: None, group, id: &id, offset: half.offset, position: half.physical_offset };
        self.client.ask_master(&half.queue, named.end(state.code(), true)).await.map(drop)
    }

    /// Puts a transaction that was given up into work again: its producer is asked anew. `given_up` is its message in
    /// `TRANS_CHECK_MAX_TIME_TOPIC`.
    ///
    /// # Errors
    /// [`Error::Refused`] if the transaction is open.
    pub async fn resume_transaction(&self, given_up: &Received) -> Result<(), Error> {
        let at = crate::proto::PhysicalOffset(given_up.physical_offset as u64);
        let header = ResumeCheckHalfMessage {
            msg_id: ids::offset_message_id(given_up.store_host, at).into(),
            topic: Some(given_up.queue.topic.as_str().into()),
        };
        let command = Command::request(request::RESUME_CHECK_HALF_MESSAGE).with_ext(&header);
        self.client.ask_master(&given_up.queue, command).await.map(drop)
    }
}
