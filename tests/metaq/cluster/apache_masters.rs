//! A slave of a master that behaves as Apache's: it sends whatever it is asked for, and only heartbeats if it does not have that.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use metaq::actors::ha::FollowState;
use metaq::actors::net::{ListenerHandle, ListenerOptions};
use metaq::env::real;
use metaq::proto::body::{to_vec, KvTable, TopicConfig, TopicConfigSerializeWrapper};
use metaq::proto::ha::plain::{DataHeader, REPORT_SIZE};
use metaq::proto::remoting::requests::RegisterBrokerResponse;
use metaq::proto::remoting::{own_request, request, Response};
use metaq::proto::PhysicalOffset;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::replication::{free_port, send_many};
use super::support::{bodies, until, Broker, ClientService};

const FILE: usize = 16384;
const SMALL_FILES: &str = "mappedFileSizeCommitLog=16384\nmaxMessageSize=4096\n";

/// What it has of a log.
#[derive(Clone, Default)]
struct Held {
    oldest: usize,
    log: Vec<u8>,
}

/// The master, and a NameServer that names it.
struct Apache {
    held: Arc<Mutex<Held>>,
    service: Arc<ClientService>,
    address: SocketAddr,
}

impl Apache {
    async fn start() -> Apache {
        let env = real::env();
        let (held, service) = (Arc::<Mutex<Held>>::default(), Arc::new(ClientService::default()));
        let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = ListenerHandle::start(&env, any_port, Arc::clone(&service), ListenerOptions::default());
        let address = listener.await.unwrap().address();
        let slaves = TcpListener::bind(any_port).await.unwrap();
        let named = RegisterBrokerResponse {
            ha_server_addr: Some(slaves.local_addr().unwrap().to_string().into()),
            master_addr: Some(address.to_string().into()),
        };
        service.answers(request::REGISTER_BROKER, Some(Response::success().with_ext(&named)));
        let ours = own_request::WAIT_METADATA_CHANGE;
        service.answers(ours, Some(Response::not_supported(ours)));
        let log = Arc::clone(&held);
        tokio::spawn(async move {
            while let Ok((stream, _)) = slaves.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&log)));
            }
        });
        Apache { held, service, address }
    }

    /// From now on it has this part of the log.
    fn holds(&self, oldest: usize, log: &[u8]) {
        *self.held.lock().unwrap() = Held { oldest, log: log.to_vec() };
        let numbers = [("commitLogMinOffset", oldest), ("commitLogMaxOffset", log.len())];
        let table = numbers.map(|(key, number)| (key.to_owned(), number.to_string()));
        let info = KvTable { table: table.into_iter().collect() };
        self.service.answers(request::GET_BROKER_RUNTIME_INFO, Some(Response::success().with_body(to_vec(&info))));
    }

    async fn slave_settings(&self) -> String {
        let (nameserver, port) = (self.address, free_port().await);
        format!("{SMALL_FILES}brokerRole=SLAVE\nbrokerId=1\nnamesrvAddr={nameserver}\nhaListenPort={port}\n")
    }
}

/// One connection of a slave, from its first report on.
async fn serve(mut stream: TcpStream, held: Arc<Mutex<Held>>) {
    let mut said = [0; 64];
    let read = stream.read(&mut said).await.unwrap();
    let last = said[..read].chunks_exact(REPORT_SIZE).last().unwrap();
    let mut at = u64::from_be_bytes(last.try_into().unwrap()) as usize;
    let Held { oldest, log } = held.lock().unwrap().clone();
    let header = |at: usize, size: usize| DataHeader { at: PhysicalOffset(at as u64), size: size as u32 }.encode();
    stream.write_all(&header(at, 0)).await.unwrap();
    while at >= oldest && at < log.len() {
        let end = (at + 3000).min((at / FILE + 1) * FILE).min(log.len());
        let frame = [&header(at, end - at)[..], &log[at..end]].concat();
        if stream.write_all(&frame).await.is_err() {
            return;
        }
        at = end;
    }
    while stream.read(&mut said).await.is_ok_and(|read| read > 0) {}
}

/// A log of at least four files.
async fn some_log() -> Vec<u8> {
    let log = log_after(async |source| send_many(source, 0, 130).await).await;
    assert!(log.len() > 3 * FILE);
    log
}

/// The log of a broker after this.
async fn log_after(work: impl AsyncFnOnce(&Broker)) -> Vec<u8> {
    let source = Broker::start(&format!("{SMALL_FILES}haListenPort={}\n", free_port().await)).await;
    work(&source).await;
    let end = source.handle().shared().store.end().0 as usize;
    let (directory, _) = source.stop_and_keep().await;
    let mut files: Vec<_> =
        std::fs::read_dir(directory.path().join("commitlog")).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    let mut log: Vec<u8> = files.iter().flat_map(|file| std::fs::read(file).unwrap()).collect();
    log.truncate(end);
    log
}

async fn refuses(slave: &Broker, why: &str) {
    until(&slave.env, async || match slave.handle().ha_status().following {
        FollowState::Refusing(said) => said.contains(why).then_some(()),
        _ => None,
    })
    .await;
}

/// Its oldest files have expired, as they have on any master that has run for some days.
#[tokio::test]
async fn a_fresh_slave_begins_with_an_apache_masters_oldest_file() {
    let (apache, log) = (Apache::start().await, some_log().await);
    apache.holds(2 * FILE, &log);
    let slave = Broker::start(&apache.slave_settings().await).await;
    let store = &slave.handle().shared().store;
    until(&slave.env, async || (store.end().0 as usize == log.len()).then_some(())).await;
    assert_eq!(store.min().0 as usize, 2 * FILE);
    let file = std::fs::read(slave.directory().join(format!("commitlog/{:020}", 2 * FILE))).unwrap();
    assert!(file == log[2 * FILE..3 * FILE], "the file is the master's, byte for byte");
    let promoted = slave.handle().shared().promote(true, true).await.unwrap();
    assert_eq!(promoted.end.0 as usize, log.len(), "where its log ended then");
    let client = slave.client().await;
    assert_eq!(client.send("orders", "130", &[]).await.queue_offset, 130);
    let messages = client.wait_messages("audit", "orders", 129).await;
    assert_eq!(bodies(&messages)[0].split(' ').next(), Some("129"));
    slave.stop().await;
}

/// Apache's own slave waits for ever, or appends foreign bytes later.
#[tokio::test]
async fn a_slave_that_an_apache_master_has_nothing_for_says_so() {
    let (apache, log) = (Apache::start().await, some_log().await);
    apache.holds(0, &log[..FILE + 100]);
    let slave = Broker::start(&apache.slave_settings().await).await;
    let store = &slave.handle().shared().store;
    until(&slave.env, async || (store.end().0 as usize > FILE / 2).then_some(())).await;
    apache.holds(2 * FILE, &log);
    let slave = slave.restarted().await;
    refuses(&slave, "the master has nothing before 32768").await;
    apache.holds(0, &log[..200]);
    let slave = slave.restarted().await;
    refuses(&slave, "the master's at 200: promote this slave").await;
    slave.stop().await;
}

/// What an Apache master has delivered of messages with a time of delivery is not delivered again by the slave that takes its
/// place: the master's timer checkpoint says how far it was.
#[tokio::test]
async fn timed_messages_that_an_apache_master_has_delivered_do_not_come_again() {
    let log = log_after(async |source| {
        let (client, at) = (source.client().await, source.env.clock.now().plus(3_000).0.to_string());
        for body in ["delivered", "waits"] {
            client.send("Orders", body, &[("TIMER_DELIVER_MS", &at)]).await;
        }
    })
    .await;
    let apache = Apache::start().await;
    apache.holds(0, &log);
    let read_to = real::env().clock.now().plus(3_600_000).0;
    // | lastReadTimeMs | lastTimerLogFlushPos | lastTimerQueueOffset | masterTimerQueueOffset | dataVersion 3 × 8 |
    let checkpoint: Vec<u8> = [read_to, 0, 1, 1, 0, 0, 0].into_iter().flat_map(i64::to_be_bytes).collect();
    apache.service.answers(request::GET_TIMER_CHECK_POINT, Some(Response::success().with_body(checkpoint)));
    let mut topics = TopicConfigSerializeWrapper::default();
    topics.data_version.counter = 100;
    topics.topic_config_table.insert("Orders".into(), TopicConfig::new("Orders", 4, 6));
    apache.service.answers(request::GET_ALL_TOPIC_CONFIG, Some(Response::success().with_body(to_vec(&topics))));
    let slave = Broker::start(&apache.slave_settings().await).await;
    let store = &slave.handle().shared().store;
    let has_log = async || (store.end().0 as usize == log.len()).then_some(());
    until(&slave.env, has_log).await;
    // What was copied counts as a whole.
    until(&slave.env, async || slave.handle().shared().topics().get("Orders").is_some().then_some(())).await;
    slave.handle().shared().promote(true, true).await.unwrap();
    let client = slave.client().await;
    let sent = client.send("Orders", "first", &[]).await;
    let came = client.wait_messages("cg", "Orders", sent.queue_offset + 1).await;
    assert_eq!(bodies(&came), ["waits"]);
    slave.stop().await;
}
