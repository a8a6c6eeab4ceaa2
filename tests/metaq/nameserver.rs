//! The NameServer asked the way peers ask it. Names with NSR, WIR and N are cases of field faults and races.

use std::collections::BTreeMap;

use metaq::config::nameserver::NameServerSettings;
use metaq::env::{ConnectionId, Millis};
use metaq::nameserver::{body_checksum, Effect, KvConfig, NameServer, COMPLETE_TOPIC_TABLE};
use metaq::proto::body::{
    from_slice, ClusterInfo, DataVersion, RegisterBrokerBody, TopicConfig, TopicConfigSerializeWrapper, TopicList,
    TopicRouteData,
};
use metaq::proto::remoting::{frame, request, response, Command, Head, Response};

use super::vectors;

mod late;
mod topics;
mod wire;
mod views;
mod settings;
mod histories;

const READ_WRITE: i32 = 6;

/// A NameServer, its clock, and what it wanted done.
struct World {
    server: NameServer,
    now: Millis,
    effects: Vec<Effect>,
}

impl World {
    fn new(settings: NameServerSettings) -> World {
        let now = Millis(1_000);
        World { server: NameServer::new(settings, KvConfig::default(), now), now, effects: Vec::new() }
    }

    fn ask(&mut self, code: i32, ext: &[(&str, &str)]) -> Response {
        self.send(99, code, ext, b"")
    }

    fn send(&mut self, connection: u64, code: i32, ext: &[(&str, &str)], body: &[u8]) -> Response {
        self.send_as(479, connection, code, ext, body)
    }

    fn send_as(&mut self, version: i32, connection: u64, code: i32, ext: &[(&str, &str)], body: &[u8]) -> Response {
        let mut command = Command::request(code);
        command.ext = ext.iter().copied().collect();
        let head = Head { code, version, ext: command.ext_fields().unwrap(), ..Head::default() };
        let answer = self.server.handle(self.now, ConnectionId(connection), &head, body, &mut self.effects);
        self.server.routes().check();
        answer
    }

    /// Sends a frame as it was seen on the wire.
    fn replay(&mut self, connection: u64, bytes: &[u8]) -> Response {
        let frame = frame::next(bytes).unwrap().unwrap();
        let head = Head::parse(frame.serialization, frame.header).unwrap();
        let answer = self.server.handle(self.now, ConnectionId(connection), &head, frame.body, &mut self.effects);
        self.server.routes().check();
        answer
    }

    fn register(&mut self, connection: u64, broker: &Broker) -> Response {
        self.send(connection, request::REGISTER_BROKER, &broker.ext(), &broker.body())
    }

    fn unregister(&mut self, connection: u64, broker: &Broker) {
        let answer = self.send(connection, request::UNREGISTER_BROKER, &broker.ext(), b"");
        assert_eq!(answer, Response::success(), "a goodbye is always answered with success");
    }

    fn close(&mut self, connection: u64) {
        self.server.connection_closed(ConnectionId(connection), &mut self.effects);
        self.server.routes().check();
    }

    fn pass(&mut self, millis: i64) {
        self.now = self.now.plus(millis);
        self.server.tick(self.now, &mut self.effects);
        self.server.routes().check();
    }

    fn route(&mut self, topic: &str) -> Option<TopicRouteData> {
        let answer = self.ask(request::GET_ROUTEINFO_BY_TOPIC, &[("topic", topic)]);
        match answer.code {
            response::SUCCESS => Some(from_slice(&answer.body).unwrap()),
            response::TOPIC_NOT_EXIST => None,
            other => panic!("route answered {other}: {:?}", answer.remark),
        }
    }

    /// The route in short: `broker-a[0=addr 1=addr]:write/perm …`; empty if the topic does not exist.
    fn shown(&mut self, topic: &str) -> String {
        let Some(route) = self.route(topic) else { return String::new() };
        let line = |(data, queues): (&metaq::proto::body::BrokerData, &metaq::proto::body::QueueData)| {
            assert_eq!(data.broker_name, queues.broker_name);
            let addresses: Vec<String> = data.broker_addrs.iter().map(|(id, at)| format!("{id}={at}")).collect();
            format!("{}[{}]:{}/{}", data.broker_name, addresses.join(" "), queues.write_queue_nums, queues.perm)
        };
        route.broker_datas.iter().zip(&route.queue_datas).map(line).collect::<Vec<_>>().join(" ")
    }

    fn topics(&mut self, code: i32, ext: &[(&str, &str)]) -> Vec<String> {
        let list: TopicList = from_slice(&self.ask(code, ext).body).unwrap();
        list.topic_list.into_iter().collect()
    }
}

/// A broker process and what it would register now.
#[derive(Clone)]
struct Broker {
    name: &'static str,
    id: i64,
    address: &'static str,
    version: DataVersion,
    topics: BTreeMap<String, TopicConfig>,
    extra: Vec<(&'static str, &'static str)>,
}

impl Broker {
    /// A 5.x broker with two topics of its own and `T` with 4 queues.
    fn new(name: &'static str, id: i64, address: &'static str) -> Broker {
        let version = DataVersion { counter: 1, state_version: 0, timestamp: 1_700_000_000_000 };
        let extra = vec![("enableActingMaster", "false")];
        let mut broker = Broker { name, id, address, version, topics: BTreeMap::new(), extra };
        for topic in [name, "TBW102", "T"] {
            broker = broker.with(topic, 4);
        }
        broker
    }

    fn with(mut self, topic: &str, queues: i32) -> Broker {
        self.topics.insert(topic.to_owned(), TopicConfig::new(topic, queues, READ_WRITE));
        self.version.counter += 1;
        self.version.timestamp += 10;
        self
    }

    fn without(mut self, topic: &str) -> Broker {
        self.topics.remove(topic);
        self.version.counter += 1;
        self
    }

    /// The same process in a later epoch.
    fn in_epoch(mut self, state_version: i64) -> Broker {
        self.version.state_version = state_version;
        self
    }

    fn saying(mut self, name: &'static str, value: &'static str) -> Broker {
        self.extra.retain(|(own, _)| *own != name);
        self.extra.push((name, value));
        self
    }

    /// The registration of one changed topic, as RocketMQ's brokers send it.
    fn only(&self, topic: &str) -> Broker {
        let mut update = self.clone();
        update.topics.retain(|name, _| name == topic);
        update
    }

    fn ext(&self) -> Vec<(&'static str, &'static str)> {
        let id = ["0", "1", "2", "3"][usize::try_from(self.id).unwrap()];
        let mut ext = vec![
            ("brokerName", self.name),
            ("brokerAddr", self.address),
            ("clusterName", "C"),
            ("haServerAddr", "ha"),
            ("brokerId", id),
        ];
        ext.extend_from_slice(&self.extra);
        ext
    }

    fn body(&self) -> Vec<u8> {
        let topics =
            TopicConfigSerializeWrapper { data_version: self.version, topic_config_table: self.topics.clone() };
        RegisterBrokerBody::new(topics, DataVersion::default()).encode()
    }
}

fn world() -> World {
    World::new(NameServerSettings::default())
}

fn world_with(change: impl FnOnce(&mut NameServerSettings)) -> World {
    let mut settings = NameServerSettings::default();
    change(&mut settings);
    World::new(settings)
}
