//! A cluster in this process and clients for it; servers that answer as a test says.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metaq::actors::nameserver::NameServerHandle;
use metaq::client::Client;
use metaq::config::nameserver::NameServerSettings;
use metaq::env::{real, Env};
use metaq::proto::body::{to_vec, BrokerData, QueueData, TopicRouteData};
use metaq::proto::remoting::{encode_response, frame, request, response, Command, Response, Serialization};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

pub use crate::cluster::support::{until, Broker};

/// How long anything may take before a test fails.
pub const LIMIT: Duration = Duration::from_secs(20);

/// A NameServer and brokers `broker-a`, `broker-b`, ….
pub struct Cluster {
    pub env: Env,
    nameserver: NameServerHandle,
    pub brokers: Vec<Option<Broker>>,
    settings: String,
    _directory: TempDir,
}

impl Cluster {
    /// Brokers with `settings`, `key=value` a line.
    pub async fn start(brokers: usize, settings: &str) -> Cluster {
        let (env, directory) = (real::env(), TempDir::new().unwrap());
        let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
        let settings_of = NameServerSettings::default();
        let nameserver = NameServerHandle::start(&env, settings_of, any_port, directory.path()).await.unwrap();
        let settings = format!("namesrvAddr={}\n{settings}", nameserver.address());
        let mut cluster = Cluster { env, nameserver, brokers: Vec::new(), settings, _directory: directory };
        for index in 0..brokers {
            let settings = format!("{}brokerName={}\n", cluster.settings, broker_name(index));
            cluster.brokers.push(Some(Broker::start(&settings).await));
        }
        let client = cluster.client();
        until(&cluster.env, async || {
            let info = client.admin().clusters().await.ok()?;
            (info.broker_addr_table.len() == brokers).then_some(())
        })
        .await;
        cluster
    }

    pub fn nameserver(&self) -> String {
        self.nameserver.address().to_string()
    }

    /// A client of its own, as another process would have.
    pub fn client(&self) -> Client {
        Client::new(&self.env, &self.nameserver()).unwrap()
    }

    /// Makes a topic with `queues` queues on every broker, and waits until its route says so.
    pub async fn make_topic(&self, topic: &str, queues: i32) {
        let admin = self.client().admin();
        admin.create_topic(topic, queues).await.unwrap();
        let brokers = self.brokers.iter().flatten().count();
        until(&self.env, async || {
            let route = admin.route(topic).await.ok()?;
            (route.queue_datas.len() == brokers).then_some(())
        })
        .await;
    }

    pub async fn stop_broker(&mut self, index: usize) {
        self.brokers[index].take().unwrap().stop().await;
    }
}

pub fn broker_name(index: usize) -> String {
    format!("broker-{}", (b'a' + index as u8) as char)
}

/// What a [`Server`] answers; `None`: nothing.
type Script = dyn Fn(&Command) -> Option<Response> + Send + Sync;

/// A server that answers as a test says, and remembers what it was asked.
#[derive(Clone)]
pub struct Server {
    pub address: String,
    asked: Arc<Mutex<Vec<Command>>>,
}

impl Server {
    pub async fn start(script: impl Fn(&Command) -> Option<Response> + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Server { address: listener.local_addr().unwrap().to_string(), asked: Arc::default() };
        let (asked, script) = (Arc::clone(&server.asked), Arc::new(script) as Arc<Script>);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (asked, script) = (Arc::clone(&asked), Arc::clone(&script));
                tokio::spawn(async move {
                    let mut received = Vec::new();
                    while stream.read_buf(&mut received).await.is_ok_and(|read| read > 0) {
                        let mut out = Vec::new();
                        while let Some(frame) = frame::next(&received).unwrap() {
                            let (command, len) = (Command::decode(&frame).unwrap(), frame.len);
                            received.drain(..len);
                            let answer = script(&command).filter(|_| !command.is_oneway());
                            if let Some(answer) = answer {
                                encode_response(&mut out, Serialization::Json, command.opaque, &answer);
                            }
                            asked.lock().unwrap().push(command);
                        }
                        stream.write_all(&out).await.unwrap();
                    }
                });
            }
        });
        server
    }

    /// A NameServer that knows one topic, with one queue on each of these brokers.
    pub async fn nameserver(topic: &str, brokers: &[(&str, &str)]) -> Server {
        let route = route(brokers.iter().map(|&(name, address)| (name, 0, address)));
        Server::nameserver_saying(topic, move |_| route.clone()).await
    }

    /// A NameServer that knows one topic, and describes it as `say` does when it is asked for the n-th time.
    pub async fn nameserver_saying(
        topic: &str,
        say: impl Fn(usize) -> TopicRouteData + Send + Sync + 'static,
    ) -> Server {
        let (topic, asked) = (topic.to_owned(), AtomicUsize::new(0));
        Server::start(move |command| {
            let known = command.code == request::GET_ROUTEINFO_BY_TOPIC && command.ext("topic") == Some(&topic);
            Some(if known {
                Response::success().with_body(to_vec(&say(asked.fetch_add(1, Ordering::SeqCst))))
            } else {
                Response::error(response::TOPIC_NOT_EXIST, "no such topic")
            })
        })
        .await
    }

    /// What it was asked with a code.
    pub fn asked(&self, code: i32) -> Vec<Command> {
        self.asked.lock().unwrap().iter().filter(|command| command.code == code).cloned().collect()
    }
}

/// The route of a topic with one queue on each of these brokers, given by name, id and address.
pub fn route<'a>(brokers: impl Iterator<Item = (&'a str, i64, &'a str)>) -> TopicRouteData {
    let (queue_datas, broker_datas) = brokers
        .map(|(name, id, address)| {
            let queue = QueueData {
                broker_name: name.into(),
                perm: 6,
                read_queue_nums: 1,
                topic_sys_flag: 0,
                write_queue_nums: 1,
            };
            let broker_addrs = [(id, address.to_owned())].into();
            (queue, BrokerData { broker_name: name.into(), broker_addrs, ..BrokerData::default() })
        })
        .unzip();
    TopicRouteData { queue_datas, broker_datas, ..TopicRouteData::default() }
}
