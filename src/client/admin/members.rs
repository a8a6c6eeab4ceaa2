//! Masters and slaves.

use super::Admin;
use crate::client::error::Error;
use crate::client::nameservers::read_body;
use crate::client::remote::ANSWER_LIMIT;
use crate::proto::body::HaRuntimeInfo;
use crate::proto::remoting::requests::{PromoteBroker, PromoteBrokerResponse};
use crate::proto::remoting::{own_request, request, Command};

impl Admin {
    /// How replication stands at a broker, by its address: a master tells of its slaves, a slave of itself.
    ///
    /// # Errors
    /// If the broker does not answer.
    pub async fn replication(&self, address: &str) -> Result<HaRuntimeInfo, Error> {
        let answer = self.ask(address, Command::request(request::GET_BROKER_HA_STATUS)).await?;
        read_body(&answer)
    }

    /// Makes a slave of metaq, by its address, the master of its broker name; returns where its log ended then. What the
    /// old master had above is lost unless it comes back as a slave and parks it. With `despite_master` although NameServers
    /// still name a master: only when that is known to be gone. With `despite_others` although other slaves do not answer, which
    /// may still follow the old master, or have more of its log.
    ///
    /// # Errors
    /// Why it was not promoted: it is a slave as before.
    pub async fn promote(&self, address: &str, despite_master: bool, despite_others: bool) -> Result<i64, Error> {
        let command =
            Command::request(own_request::PROMOTE_BROKER).with_ext(&PromoteBroker { despite_master, despite_others });
        // It waits for what is under way, and for the disk.
        let answer = self.client.ask(address, command, ANSWER_LIMIT * 5).await?;
        let malformed = |what: String| Error::Malformed { address: address.to_owned(), what };
        let fields = answer.ext_fields().map_err(|error| malformed(error.to_string()))?;
        Ok(PromoteBrokerResponse::decode(&fields).map_err(|error| malformed(error.to_string()))?.end)
    }
}
