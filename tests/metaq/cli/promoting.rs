//! A master and its slaves as processes: the master is killed under load, and one of the slaves takes its place.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metaq::client::{ConsumeFrom, Durability, Message, Producer};
use metaq::env::real;
use metaq::proto::body::{to_vec, BrokerData, ClusterInfo, HaClientRuntimeInfo, HaRuntimeInfo};
use metaq::proto::remoting::requests::PromoteBrokerResponse;
use metaq::proto::remoting::{own_request, request, response, Command, Response};
use tempfile::TempDir;

use super::group::Group;
use super::process::{run, Ended};
use super::{text, up, LIMIT};
use crate::client::support::Server;
use crate::cluster::support::until;

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
    let mut group = Group::start(&[]);
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
    for id in [1, 2] {
        group.stop_member(id);
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

/// A NameServer that knows these slaves of `broker-a`, by id from 1 on, and no master of it.
async fn nameserver_of(slaves: &[&Server]) -> Server {
    let addresses = slaves.iter().map(|slave| slave.address.clone());
    let broker = BrokerData { broker_addrs: (1..).zip(addresses).collect(), ..BrokerData::default() };
    let info = ClusterInfo { broker_addr_table: [("broker-a".into(), broker)].into(), ..ClusterInfo::default() };
    Server::start(move |_| Some(Response::success().with_body(to_vec(&info)))).await
}

/// A slave whose log ends at each of these positions in turn, and at the last one from then on; asked to be the master it
/// refuses as long as `longest` is not there.
async fn slave(ends: &'static [i64], longest: i64) -> Server {
    let looks = AtomicUsize::new(0);
    Server::start(move |command: &Command| {
        let now = looks.load(Ordering::Acquire).min(ends.len() - 1);
        Some(match command.code {
            request::GET_BROKER_HA_STATUS => {
                looks.fetch_add(1, Ordering::AcqRel);
                let itself = HaClientRuntimeInfo { max_offset: ends[now], ..HaClientRuntimeInfo::default() };
                let state = HaRuntimeInfo { ha_client_runtime_info: itself, ..HaRuntimeInfo::default() };
                Response::success().with_body(to_vec(&state))
            }
            own_request::PROMOTE_BROKER if ends[now] < longest => {
                Response::error(response::SYSTEM_ERROR, "another slave has more of the log")
            }
            _ => Response::success().with_ext(&PromoteBrokerResponse { epoch: 2, end: ends[now] }),
        })
    })
    .await
}

async fn promote(slaves: &[&Server], more: &'static [&'static str]) -> Ended {
    let nameserver = nameserver_of(slaves).await;
    let promoted =
        move || run(&[&["broker", "promote", "broker-a", "-n", &nameserver.address, "--yes"], more].concat());
    tokio::task::spawn_blocking(promoted).await.unwrap()
}

/// The slave that seemed to have most of the log was asked while another one still wrote what its socket held: that one is
/// chosen then, and a few changes of mind are enough.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_promotion_looks_again_when_another_slave_turns_out_to_have_more() {
    let (one, other) = (slave(&[100], 120).await, slave(&[90, 120], 120).await);
    let promoted = promote(&[&one, &other], &[]).await;
    assert_eq!(promoted.code, Some(0), "{promoted:?}");
    assert!(promoted.says("slave 1 was not promoted, and slave 2 has more of the log now"), "{promoted:?}");
    assert!(promoted.says("slave 2 at ") && promoted.says("its log ended at 120"), "{promoted:?}");

    let (one, other) = (slave(&[100], 120).await, slave(&[90, 120], 120).await);
    let named = promote(&[&one, &other], &["--id", "1"]).await;
    assert_eq!(named.code, Some(1), "who names a slave is told, and no other one is taken: {named:?}");
    assert!(named.says("slave 2 has 20 B more of the log than slave 1"), "{named:?}");

    let (one, other) = (slave(&[10, 10, 30, 30, 50], 99).await, slave(&[9, 20, 20, 40], 99).await);
    let given_up = promote(&[&one, &other], &[]).await;
    assert_eq!(given_up.code, Some(1), "{given_up:?}");
    assert_eq!(given_up.lines_with("was not promoted").count(), 2, "{given_up:?}");
}
