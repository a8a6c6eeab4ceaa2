//! A slave and its master meet: before anything is copied both logs have to be one.

use std::sync::Arc;

use super::replica::{End, Following, CONNECT_LIMIT};
use crate::actors::log_writer::Change;
use crate::actors::net::{connect, NoRequests};
use crate::proto::body::{from_slice, KvTable};
use crate::proto::ha::switch::MasterHandshake;
use crate::proto::remoting::{request, response, Command};
use crate::proto::PhysicalOffset;
use crate::store::epoch::{Epochs, Parting};
use crate::store::StoreError;

impl Following {
    /// Compares this log with the master's and takes back what the master does not have.
    pub(super) async fn meet(&self, master: &MasterHandshake) -> Result<(), End> {
        let store = self.ha.store();
        let end = store.end();
        let epochs = self.ha.epochs();
        match epochs.parting(end, &master.epochs, master.end) {
            Parting::At(at) => match self.take_back(Epochs::clone(&epochs), at).await {
                Err(End::Store(StoreError::Confirmed { confirmed })) => Err(End::Refused(format!(
                    "the master's log and this one part at {}, and what is here up to {} is confirmed: promote this \
                     slave, or move its store away to have it copy the master anew",
                    at.0, confirmed.0
                ))),
                taken_back => taken_back,
            },
            // All of it has expired on the master, and its oldest file comes behind: it begins anew there.
            Parting::Before(start) if end < start => Ok(()),
            Parting::Before(start) => Err(End::Refused(format!(
                "this log ends at {}, and the master has nothing before {}: move this slave's store away to have it copy \
                 the master anew",
                end.0, start.0
            ))),
            Parting::Foreign => Err(End::Refused(
                "this log has nothing in common with the master's: it belongs to another broker, or the master lost its \
                 disk"
                    .to_owned(),
            )),
        }
    }

    /// An Apache master sends heartbeats only to a slave that asks for what it does not have, so it is asked what it has first.
    /// Says whether it may send nothing at all, since this log ends where its own does.
    pub(super) async fn meet_plainly(&self) -> Result<bool, End> {
        let store = self.ha.store();
        let (begin, end) = (store.min().0, store.end().0);
        let Some((oldest, newest)) = self.extent().await else { return Ok(begin < end) };
        let anew = "move this slave's store away to have it copy the master anew";
        if end > newest {
            let parts = format!("this log ends at {end}, and the master's at {newest}");
            return Err(End::Refused(format!("{parts}: promote this slave, or {anew}")));
        }
        if end < oldest && begin < end {
            return Err(End::Refused(format!(
                "this log ends at {end}, and the master has nothing before {oldest}: {anew}"
            )));
        }
        if end < oldest && oldest.is_multiple_of(store.options().segment_size) {
            self.operate(Change::BeginAnew(PhysicalOffset(oldest))).await?;
        }
        Ok(store.end().0 == newest)
    }

    /// Where the log of an Apache master begins and ends, if it answers.
    async fn extent(&self) -> Option<(u64, u64)> {
        let (env, address) = (self.ha.env(), self.master.address.as_ref()?);
        let connection = connect(env, address, Arc::new(NoRequests), CONNECT_LIMIT).await.ok()?;
        let question = Command::request(request::GET_BROKER_RUNTIME_INFO);
        let answer = connection.call(&*env.clock, question, CONNECT_LIMIT).await;
        connection.close();
        let answer = answer.ok().filter(|answer| answer.code == response::SUCCESS)?;
        let table = from_slice::<KvTable>(&answer.body).ok()?.table;
        let number = |key: &str| table.get(key)?.parse().ok();
        Some((number("commitLogMinOffset")?, number("commitLogMaxOffset")?))
    }

    /// Both logs are equal up to `at`, and epochs that begin there have nothing here.
    async fn take_back(&self, mut epochs: Epochs, at: PhysicalOffset) -> Result<(), End> {
        if at < self.ha.store().end() {
            self.operate(Change::Truncate(at)).await?;
        }
        epochs.cut(at);
        Ok(self.ha.save_epochs(epochs).await?)
    }
}
