//! A whole cluster inside a process.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{anyhow, Result};

use super::broker::BrokerHandle;
use super::nameserver::NameServerHandle;
use crate::config::broker::BrokerConfig;
use crate::config::nameserver::NameServerSettings;
use crate::env::Env;

/// Small files: a test needs no gigabyte.
const SMALL: &str = "brokerName=broker-a\nbrokerIP1=127.0.0.1\nmappedFileSizeCommitLog=16777216\n\
                     mappedFileSizeConsumeQueue=20000\nmaxHashSlotNum=1000\nmaxIndexNum=4000\n";
const STOP_LIMIT: Duration = Duration::from_secs(30);

/// A NameServer and a broker in this process, on free ports of 127.0.0.1: what `metaq up` runs, for tests of applications
/// and for small tools.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use metaq::client::{Client, Message};
///
/// let (env, data) = (metaq::env::real::env(), tempfile::tempdir()?);
/// let cluster = metaq::Embedded::start(&env, data.path(), "flushDiskType=SYNC_FLUSH").await?;
/// let client = Client::new(&env, cluster.nameserver())?;
/// let sent = client.producer("shop").start()?.send(Message::new("Orders", "a book")).await?;
/// assert_eq!(sent.offset, 0);
/// client.close().await;
/// cluster.stop().await?;
/// # Ok(())
/// # }
/// ```
pub struct Embedded {
    nameserver: NameServerHandle,
    address: String,
    broker: BrokerHandle,
}

impl Embedded {
    /// Starts both on `data`, a folder that is there. `settings` are further lines of broker.conf; files are small unless
    /// they say otherwise. When this returns, clients find the broker.
    ///
    /// # Errors
    /// For settings that cannot be, or whatever keeps one of the servers from serving.
    pub async fn start(env: &Env, data: &Path, settings: &str) -> Result<Embedded> {
        let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut config = BrokerConfig { store_path_root_dir: data.display().to_string(), ..BrokerConfig::default() };
        let unknown = config.apply(&format!("{SMALL}{settings}"))?;
        if let Some(warning) = unknown.first() {
            return Err(anyhow!("{warning}"));
        }
        let nameserver = NameServerHandle::start(env, NameServerSettings::default(), any_port, data).await?;
        let address = nameserver.address().to_string();
        config.namesrv_addr = address.clone();
        let broker = match BrokerHandle::start(env, config, any_port).await {
            Ok(broker) => broker,
            Err(error) => {
                nameserver.stop().await;
                return Err(error);
            }
        };
        broker.registered().await;
        Ok(Embedded { nameserver, address, broker })
    }

    /// Where clients find it, `HOST:PORT`.
    pub fn nameserver(&self) -> &str {
        &self.address
    }

    /// Stops the broker, everything flushed, and the NameServer.
    ///
    /// # Errors
    /// If the store cannot be flushed.
    pub async fn stop(self) -> Result<()> {
        let stopped = self.broker.stop(STOP_LIMIT).await;
        self.nameserver.stop().await;
        stopped
    }
}
