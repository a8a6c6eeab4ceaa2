//! Where offsets are kept: by the brokers for a group whose members share its messages, in a file of this machine for one
//! whose members each get all.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;

use crate::client::error::Error;
use crate::client::instance::Shared;
use crate::client::MessageQueue;
use crate::env::Env;
use crate::proto::body::{from_slice, to_vec_pretty, ResetOffsetBody};
use crate::store::config_file::ConfigFile;

/// The longest offsets file that is read.
const FILE_LEN_MAX: u64 = 64 * 1024 * 1024;

/// Offsets of one group.
pub(super) enum Offsets {
    /// At the brokers.
    Brokers,
    /// Nowhere: whoever reads without a group begins anew each time.
    Nowhere,
    /// In a file. Queues whose broker is away keep theirs (OFF-9).
    Local(LocalOffsets),
}

pub(super) struct LocalOffsets {
    table: Mutex<BTreeMap<MessageQueue, i64>>,
    file: tokio::sync::Mutex<ConfigFile>,
}

impl LocalOffsets {
    /// Reads `directory/group/offsets.json`, the form of the Java client.
    pub fn open(env: &Env, directory: &Path, group: &str) -> Result<LocalOffsets, Error> {
        let path = directory.join(group).join("offsets.json");
        let parse = |content: &[u8]| from_slice::<ResetOffsetBody>(content);
        let (file, loaded) = ConfigFile::open(env.disk.clone(), path, FILE_LEN_MAX, parse)
            .map_err(|error| Error::File(format!("the offsets file cannot be read: {error}")))?;
        let table = loaded.into_value().map(|body| body.offset_table).unwrap_or_default();
        Ok(LocalOffsets { table: Mutex::new(table), file: tokio::sync::Mutex::new(file) })
    }

    fn table(&self) -> std::sync::MutexGuard<'_, BTreeMap<MessageQueue, i64>> {
        self.table.lock().expect("no holder panics")
    }
}

impl Offsets {
    /// The offset at which the group goes on; `None` if it never was in the queue. An error is no answer.
    pub async fn read(&self, client: &Shared, group: &str, queue: &MessageQueue) -> Result<Option<i64>, Error> {
        match self {
            Offsets::Brokers => client.committed(group, queue).await,
            Offsets::Nowhere => Ok(None),
            Offsets::Local(local) => Ok(local.table().get(queue).copied()),
        }
    }

    /// Keeps an offset; a local one is written by [`Offsets::save`].
    pub async fn write(&self, client: &Shared, group: &str, queue: &MessageQueue, offset: i64) -> Result<(), Error> {
        match self {
            Offsets::Brokers => client.commit(group, queue, offset).await,
            Offsets::Nowhere => Ok(()),
            Offsets::Local(local) => {
                local.table().insert(queue.clone(), offset);
                Ok(())
            }
        }
    }

    /// Writes local offsets to their file, atomically.
    pub async fn save(&self) -> Result<(), Error> {
        let Offsets::Local(local) = self else { return Ok(()) };
        let mut file = local.file.lock().await;
        let body = ResetOffsetBody { offset_table: local.table().clone() };
        let saved = file.save(&to_vec_pretty(&body)).await;
        saved.map_err(|error| Error::File(format!("the offsets file cannot be written: {error}")))
    }
}
