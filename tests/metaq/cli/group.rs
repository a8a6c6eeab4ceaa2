//! A master and its slaves as processes.

use std::collections::BTreeMap;

use metaq::client::Client;
use metaq::env::real;
use tempfile::TempDir;

use super::process::Process;
use super::{text, ANY, SMALL};
use crate::cluster::support::until;

/// A NameServer, a master that waits for two copies, and two slaves.
pub struct Group {
    pub directory: TempDir,
    pub nameservers: String,
    _nameserver: Process,
    settings: Vec<String>,
    /// By broker id.
    pub members: BTreeMap<u64, Process>,
    /// Where each listens, which it keeps.
    addresses: BTreeMap<u64, String>,
}

impl Group {
    /// Starts all, with more `settings` for the brokers.
    pub fn start(settings: &[&str]) -> Group {
        let directory = TempDir::new().unwrap();
        let data = directory.path().join("nameserver");
        let mut nameserver = Process::start(&["nameserver", "--listen", ANY, "--data", text(&data)]);
        let nameservers = nameserver.line("nameserver ");
        nameserver.line("ready");
        let mut group = Group {
            directory,
            nameservers,
            _nameserver: nameserver,
            settings: settings.iter().map(|setting| setting.to_string()).collect(),
            members: BTreeMap::new(),
            addresses: BTreeMap::new(),
        };
        for id in 0..3 {
            group.start_member(id);
        }
        group
    }

    fn data(&self, id: u64) -> std::path::PathBuf {
        self.directory.path().join(id.to_string())
    }

    pub fn start_member(&mut self, id: u64) {
        let (data, id_text) = (self.data(id), id.to_string());
        let listen = self.addresses.get(&id).map_or(ANY, String::as_str).to_owned();
        let mut args = vec!["broker", "-n", &self.nameservers, "--listen", &listen, "--data", text(&data)];
        args.extend(["--broker-id", &id_text, "--set", "brokerName=broker-a", "--set", "defaultTopicQueueNums=4"]);
        args.extend(["--set", "inSyncReplicas=2"]);
        if id == 0 {
            args.extend(["--set", "brokerRole=SYNC_MASTER"]);
        }
        args.extend(self.settings.iter().flat_map(|setting| ["--set", setting]));
        args.extend(SMALL);
        let mut member = Process::start(&args);
        let line = member.line("broker ");
        let address = line.split_whitespace().next().unwrap().trim_end_matches(',').to_owned();
        self.addresses.insert(id, address);
        member.line("ready");
        self.members.insert(id, member);
    }

    /// Asks a member to stop, and waits until it has.
    pub fn stop_member(&mut self, id: u64) {
        let member = self.members.remove(&id).unwrap();
        member.signal(libc::SIGTERM);
        let ended = member.ended();
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }

    pub fn client(&self) -> Client {
        Client::new(&real::env(), &self.nameservers).unwrap()
    }

    /// Waits until the master counts both slaves.
    pub async fn wait_in_sync(&self, client: &Client) {
        let admin = client.admin();
        until(&real::env(), async || {
            let table = admin.clusters().await.ok()?.broker_addr_table;
            let master = table.get("broker-a")?.broker_addrs.get(&0)?.clone();
            (admin.replication(&master).await.ok()?.in_sync_slave_nums == 2).then_some(())
        })
        .await;
    }
}
