//! A master and its slaves as processes: the master is killed under load, and one of the slaves takes its place.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metaq::client::{Client, ConsumeFrom, Durability, Message, Producer};
use metaq::env::real;
use tempfile::TempDir;

use super::process::{run, Process};
use super::{text, up, ANY, LIMIT, SMALL};
use crate::cluster::support::until;

/// A NameServer, a master that waits for two copies, and two slaves.
struct Group {
    directory: TempDir,
    nameservers: String,
    _nameserver: Process,
    /// By broker id.
    members: BTreeMap<u64, Process>,
}

impl Group {
    fn start() -> Group {
        let directory = TempDir::new().unwrap();
        let data = directory.path().join("nameserver");
        let mut nameserver = Process::start(&["nameserver", "--listen", ANY, "--data", text(&data)]);
        let nameservers = nameserver.line("nameserver ");
        nameserver.line("ready");
        let mut group = Group { directory, nameservers, _nameserver: nameserver, members: BTreeMap::new() };
        for id in 0..3 {
            group.start_member(id);
        }
        group
    }

    fn data(&self, id: u64) -> std::path::PathBuf {
        self.directory.path().join(id.to_string())
    }

    fn start_member(&mut self, id: u64) {
        let (data, id_text) = (self.data(id), id.to_string());
        let mut args = vec!["broker", "-n", &self.nameservers, "--listen", ANY, "--data", text(&data)];
        args.extend(["--broker-id", &id_text, "--set", "brokerName=broker-a", "--set", "defaultTopicQueueNums=4"]);
        args.extend(["--set", "inSyncReplicas=2"]);
        if id == 0 {
            args.extend(["--set", "brokerRole=SYNC_MASTER"]);
        }
        args.extend(SMALL);
        let mut member = Process::start(&args);
        member.line("ready");
        self.members.insert(id, member);
    }

    fn client(&self) -> Client {
        Client::new(&real::env(), &self.nameservers).unwrap()
    }

    /// Waits until the master counts both slaves.
    async fn wait_in_sync(&self, client: &Client) {
        let admin = client.admin();
        until(&real::env(), async || {
            let table = admin.clusters().await.ok()?.broker_addr_table;
            let master = table.get("broker-a")?.broker_addrs.get(&0)?.clone();
            (admin.replication(&master).await.ok()?.in_sync_slave_nums == 2).then_some(())
        })
        .await;
    }
}

/// Sends until it is told to stop, and keeps what was acknowledged.
async fn load(producer: Arc<Producer>, name: usize, acknowledged: Arc<Mutex<BTreeSet<String>>>, stop: Arc<AtomicBool>) {
    for n in 0.. {
        if stop.load(Ordering::Acquire) {
            return;
        }
        let body = format!("{name}-{n}");
        if producer
            .send(Message::new("Orders", body.clone()))
            .await
            .is_ok_and(|sent| sent.durability == Durability::AsAsked)
        {
            acknowledged.lock().unwrap().insert(body);
        }
    }
}

/// SYNC_MASTER with two copies: kill -9 of the master under load, promotion, and nothing that was acknowledged is lost.
#[tokio::test]
async fn a_master_is_killed_under_load_and_nothing_acknowledged_is_lost() {
    let mut group = Group::start();
    let client = group.client();
    client.admin().create_topic("Orders", 4).await.unwrap();
    group.wait_in_sync(&client).await;
    let producer = Arc::new(client.producer("pg").timeout(Duration::from_secs(2)).start().unwrap());
    let (acknowledged, stop) = (Arc::<Mutex<BTreeSet<String>>>::default(), Arc::<AtomicBool>::default());
    let count = || acknowledged.lock().unwrap().len();
    let loads: Vec<_> =
        (0..8).map(|name| tokio::spawn(load(producer.clone(), name, acknowledged.clone(), stop.clone()))).collect();
    until(&real::env(), async || (count() > 500).then_some(())).await;
    let master = group.members.remove(&0).unwrap();
    master.signal(libc::SIGKILL);
    assert_eq!(master.ended().code, None);

    let promoted = run(&["broker", "promote", "broker-a", "-n", &group.nameservers, "--yes"]);
    assert_eq!(promoted.code, Some(0), "{promoted:?}");
    assert!(promoted.says("is the master of broker-a; its log ended at "), "{promoted:?}");
    let before = count();
    until(&real::env(), async || (count() > before + 200).then_some(())).await;
    stop.store(true, Ordering::Release);
    for load in loads {
        load.await.unwrap();
    }

    let builder = client.pull_consumer("auditors").subscribe("Orders", "*").consume_from(ConsumeFrom::First);
    let mut consumer = builder.start().await.unwrap();
    let mut missing = acknowledged.lock().unwrap().clone();
    let deadline = real::env().clock.monotonic() + LIMIT;
    while !missing.is_empty() && real::env().clock.monotonic() < deadline {
        for message in consumer.poll(Duration::from_secs(1)).await.unwrap() {
            missing.remove(&*String::from_utf8_lossy(&message.body));
        }
    }
    assert_eq!(missing, BTreeSet::new(), "of {} acknowledged", count());
    consumer.close().await;
    client.close().await;
    for (_, member) in group.members {
        member.signal(libc::SIGTERM);
        assert_eq!(member.ended().code, Some(0));
    }
    let check = |id: u64| run(&["store", "check", text(&group.directory.path().join(id.to_string()))]).code;
    assert_eq!((check(1), check(2)), (Some(0), Some(0)));
}

/// `up --slaves` is ready once its slaves are in sync, and `cluster list` says so.
#[test]
fn up_starts_slaves_and_tells_how_they_are() {
    let directory = TempDir::new().unwrap();
    let mut server = up(directory.path(), &["--slaves", "2", "--set", "brokerRole=SYNC_MASTER"]);
    let nameserver = server.line("nameserver ");
    server.line("slave 1");
    server.line("slave 2");
    server.line("ready");
    let list = run(&["cluster", "list", "-n", &nameserver, "--json"]);
    assert_eq!(list.code, Some(0), "{list:?}");
    for shown in ["\"role\":\"slave\"", "\"inSync\":\"2 of 2\"", "\"inSync\":\"yes\"", "\"lagBytes\":0"] {
        assert!(list.says(shown) || list.says(&shown.replace("\":", "\": ")), "{shown}: {list:?}");
    }
    let refused = run(&["broker", "promote", "broker-a", "-n", &nameserver, "--yes"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.says("the master of broker-a answers at"), "{refused:?}");
    assert!(Path::new(directory.path()).join("slave-2/commitlog").exists());
    server.signal(libc::SIGTERM);
    assert_eq!(server.ended().code, Some(0));
}
