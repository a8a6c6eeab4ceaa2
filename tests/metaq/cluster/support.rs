//! A broker in this process, and a client for it that speaks frames.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metaq::actors::broker::BrokerHandle;
use metaq::actors::net::{connect, ConnectionHandle, Output, Service};
use metaq::config::broker::BrokerConfig;
use metaq::env::{real, Env, Millis};
use metaq::proto::body::{from_slice, to_vec, ConsumerData, DelayOffsetSerializeWrapper, HeartbeatData, ProducerData};
use metaq::proto::filter::SubscriptionData;
use metaq::proto::message::{parse, properties, BodyCrc, Parsed};
use metaq::proto::remoting::requests::{
    ConsumerSendMsgBack, PullHeader, PullResponse, SendHeader, SendNames, SendResponse,
};
use metaq::proto::remoting::{encode_response, request, response, Command, Head, Language, RawFrame, Response, Text};
use tempfile::TempDir;

/// How long anything may take before a test fails.
const LIMIT: Duration = Duration::from_secs(20);
/// Small files, and nothing but the address from outside.
const SETTINGS: &str =
    "brokerName=broker-a\nbrokerIP1=127.0.0.1\nmappedFileSizeCommitLog=4194304\nmappedFileSizeConsumeQueue=20000\n\
                        maxHashSlotNum=1000\nmaxIndexNum=4000\n";

pub struct Broker {
    pub env: Env,
    directory: TempDir,
    settings: String,
    handle: BrokerHandle,
}

impl Broker {
    /// Starts with `settings`, `key=value` a line, on an empty directory.
    pub async fn start(settings: &str) -> Broker {
        Broker::start_in(real::env(), settings).await
    }

    /// The same in another world.
    pub async fn start_in(env: Env, settings: &str) -> Broker {
        Broker::open(env, TempDir::new().unwrap(), settings.to_owned()).await
    }

    async fn open(env: Env, directory: TempDir, settings: String) -> Broker {
        let mut config = BrokerConfig {
            store_path_root_dir: directory.path().display().to_string(),
            listen_port: 0,
            ..BrokerConfig::default()
        };
        assert_eq!(config.apply(&format!("{SETTINGS}{settings}")).unwrap(), []);
        let handle = BrokerHandle::start(&env, config, SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        Broker { env, directory, settings, handle }
    }

    /// Stops in order and starts again on the same directory.
    pub async fn restarted(self) -> Broker {
        self.restarted_after(async |_, _| ()).await
    }

    /// Stops in order, has something done to the directory, starts again.
    pub async fn restarted_after(self, change: impl AsyncFnOnce(&Env, &Path)) -> Broker {
        self.handle.stop(LIMIT).await.unwrap();
        change(&self.env, self.directory.path()).await;
        Broker::open(self.env, self.directory, self.settings).await
    }

    /// Stops in order and starts again on the same directory with other settings.
    pub async fn restarted_with(self, settings: &str) -> Broker {
        self.handle.stop(LIMIT).await.unwrap();
        Broker::open(self.env, self.directory, settings.to_owned()).await
    }

    /// As [`Broker::restarted_after`], with other settings afterwards.
    pub async fn restarted_with_after(mut self, settings: &str, change: impl AsyncFnOnce(&Env, &Path)) -> Broker {
        settings.clone_into(&mut self.settings);
        self.restarted_after(change).await
    }

    /// Stops in order and leaves its directory and its settings.
    pub async fn stop_and_keep(self) -> (TempDir, String) {
        self.handle.stop(LIMIT).await.unwrap();
        (self.directory, self.settings)
    }

    /// Starts on a directory that another one left.
    pub async fn start_again(directory: TempDir, settings: &str) -> Broker {
        Broker::open(real::env(), directory, settings.to_owned()).await
    }

    /// Stops in order; its directory goes.
    pub async fn stop(self) {
        self.handle.stop(LIMIT).await.unwrap();
    }

    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub fn address(&self) -> SocketAddr {
        self.handle.address()
    }

    pub fn handle(&self) -> &BrokerHandle {
        &self.handle
    }

    pub async fn client(&self) -> Client {
        Client::connect(&self.env, self.address()).await
    }
}

/// One connection, and what it answers to the broker's requests.
pub struct Client {
    pub env: Env,
    pub address: SocketAddr,
    pub handle: ConnectionHandle,
    service: Arc<ClientService>,
}

/// A message as a consumer sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub topic: String,
    pub body: String,
    pub properties: String,
    pub queue_offset: i64,
    pub position: i64,
    pub reconsume_times: i32,
    pub stored: Millis,
}

impl Message {
    pub fn property(&self, name: &str) -> Option<&str> {
        properties::find(&self.properties, name)
    }
}

/// Where a message went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    pub queue_offset: i64,
    pub message_id: String,
}

impl Client {
    pub async fn connect(env: &Env, address: SocketAddr) -> Client {
        let service = Arc::new(ClientService::default());
        let handle = connect(env, &address.to_string(), Arc::clone(&service), LIMIT).await.unwrap();
        Client { env: env.clone(), address, handle, service }
    }

    /// Sends a request and waits for its answer.
    pub async fn ask(&self, command: Command) -> Command {
        self.handle.call(&*self.env.clock, command, LIMIT).await.unwrap()
    }

    /// The answer has to be a success.
    pub async fn get(&self, command: Command) -> Command {
        let code = command.code;
        let answer = self.ask(command).await;
        assert_eq!(answer.code, response::SUCCESS, "{code}: {:?}", answer.remark);
        answer
    }

    /// What this client answers from now on to the broker's requests of a code. Without it, success.
    pub fn answers(&self, code: i32, answer: Response) {
        self.service.answers(code, Some(answer));
    }

    /// Requests of a code get no answer from now on.
    pub fn never_answers(&self, code: i32) {
        self.service.answers(code, None);
    }

    /// The broker's requests so far.
    pub fn asked(&self, code: i32) -> Vec<Command> {
        self.service.asked(code)
    }

    /// Waits for the broker's next request of a code, the first one if there was none.
    pub async fn wait_asked(&self, code: i32) -> Command {
        until(&self.env, async || self.asked(code).pop()).await
    }

    pub async fn send(&self, topic: &str, body: &str, properties: &[(&str, &str)]) -> Sent {
        let answer = self.get(send_command(topic, body, properties)).await;
        let fields = answer.ext_fields().unwrap();
        let sent = SendResponse::decode(&fields).unwrap();
        Sent { queue_offset: sent.queue_offset, message_id: sent.msg_id.into_owned() }
    }

    /// Pulls queue 0 from `offset` on, waiting for messages up to `hold`.
    pub async fn pull(&self, group: &str, topic: &str, offset: i64, hold: Duration) -> Command {
        self.ask(pull_command(group, topic, offset, hold)).await
    }

    /// Waits until the queue holds messages from `offset` on.
    pub async fn wait_messages(&self, group: &str, topic: &str, offset: i64) -> Vec<Message> {
        let answer = self.pull(group, topic, offset, LIMIT).await;
        assert_eq!(answer.code, response::SUCCESS, "{topic} at {offset}: {:?}", answer.remark);
        messages(&answer.body)
    }

    /// Waits until so many messages of a delay level are delivered, as slaves are told.
    pub async fn wait_delivered(&self, level: i32, messages: i64) {
        until(&self.env, async || {
            let answer = self.get(Command::request(request::GET_ALL_DELAY_OFFSET)).await;
            let progress: DelayOffsetSerializeWrapper = from_slice(&answer.body).unwrap();
            (progress.offset_table.get(&level) == Some(&messages)).then_some(())
        })
        .await
    }

    /// Hands a message back; `delay_level` and `max` as in the request.
    pub async fn send_back(&self, group: &str, message: &Message, delay_level: i32, max: i32) -> Command {
        let header = ConsumerSendMsgBack {
            offset: message.position,
            group: group.into(),
            delay_level,
            origin_msg_id: None,
            origin_topic: None,
            unit_mode: false,
            max_reconsume_times: Some(max),
        };
        self.ask(Command::request(request::CONSUMER_SEND_MSG_BACK).with_ext(&header)).await
    }

    /// Registers as a member of a group that subscribes to `topic`, written in `language`.
    pub async fn join(&self, client: &str, group: &str, topic: &str, language: Language) {
        let subscription =
            SubscriptionData { topic: topic.into(), sub_string: "*".into(), ..SubscriptionData::default() };
        let consumer = ConsumerData {
            group_name: group.into(),
            subscription_data_set: vec![subscription],
            ..ConsumerData::default()
        };
        let data =
            HeartbeatData { client_id: client.into(), consumer_data_set: vec![consumer], ..HeartbeatData::default() };
        let mut command = Command::request(request::HEART_BEAT).with_body(to_vec(&data));
        command.language = language;
        self.get(command).await;
    }

    /// Registers as a producer.
    pub async fn produce_as(&self, client: &str, group: &str) {
        let producer = ProducerData { group_name: group.into() };
        let data =
            HeartbeatData { client_id: client.into(), producer_data_set: vec![producer], ..HeartbeatData::default() };
        self.get(Command::request(request::HEART_BEAT).with_body(to_vec(&data))).await;
    }
}

/// A send to queue 0, in the form of current clients.
pub fn send_command(topic: &str, body: &str, pairs: &[(&str, &str)]) -> Command {
    let mut text = String::new();
    pairs.iter().for_each(|(name, value)| properties::append(&mut text, name, value));
    let header = SendHeader {
        producer_group: "pg".into(),
        topic: topic.into(),
        default_topic: "TBW102".into(),
        default_topic_queue_nums: 1,
        born_timestamp: 1,
        properties: Text::plain(&text),
        ..SendHeader::default()
    };
    let code = request::SEND_MESSAGE_V2;
    Command::request(code).with_ext(&(SendNames::of(code), &header)).with_body(body)
}

/// A pull of queue 0 from `offset` on that waits for messages up to `hold`.
pub fn pull_command(group: &str, topic: &str, offset: i64, hold: Duration) -> Command {
    let header = PullHeader {
        consumer_group: group.into(),
        topic: topic.into(),
        queue_id: 0,
        queue_offset: offset,
        max_msg_nums: 32,
        sys_flag: 2 + 4,
        commit_offset: 0,
        suspend_timeout_millis: hold.as_millis() as i64,
        subscription: Some("*".into()),
        sub_version: 0,
        expression_type: None,
        max_msg_bytes: None,
        request_source: None,
        proxy_forward_client_id: None,
    };
    Command::request(request::PULL_MESSAGE).with_ext(&header)
}

/// The messages in the body of an answer.
pub fn messages(mut body: &[u8]) -> Vec<Message> {
    let mut found = Vec::new();
    while !body.is_empty() {
        let Ok(Parsed::Record(record)) = parse(body, BodyCrc::Verify) else { panic!("no record: {body:?}") };
        found.push(Message {
            topic: record.topic().into_owned(),
            body: String::from_utf8_lossy(record.body()).into_owned(),
            properties: record.properties().into_owned(),
            queue_offset: record.queue_offset().0 as i64,
            position: record.physical_offset().0 as i64,
            reconsume_times: record.reconsume_times(),
            stored: record.store_timestamp(),
        });
        body = &body[record.total_size() as usize..];
    }
    found
}

/// The bodies of messages.
pub fn bodies(messages: &[Message]) -> Vec<&str> {
    messages.iter().map(|message| message.body.as_str()).collect()
}

/// Where a pull is to go on.
pub fn next_offset(answer: &Command) -> i64 {
    PullResponse::decode(&answer.ext_fields().unwrap()).unwrap().next_begin_offset
}

/// Asks until there is an answer.
pub async fn until<T>(env: &Env, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = env.clock.monotonic() + LIMIT;
    loop {
        if let Some(found) = ask().await {
            return found;
        }
        assert!(env.clock.monotonic() < deadline, "what was waited for did not come");
        env.clock.sleep(Duration::from_millis(2)).await;
    }
}

#[derive(Default)]
pub struct ClientService {
    asked: Mutex<Vec<Command>>,
    /// `None`: no answer at all.
    answers: Mutex<BTreeMap<i32, Option<Response>>>,
}

impl ClientService {
    /// What is answered from now on to requests of a code. Without it, success.
    pub fn answers(&self, code: i32, answer: Option<Response>) {
        self.answers.lock().unwrap().insert(code, answer);
    }

    /// The requests of a code so far.
    pub fn asked(&self, code: i32) -> Vec<Command> {
        let asked = self.asked.lock().unwrap();
        asked.iter().filter(|command| command.code == code).cloned().collect()
    }
}

impl Service for ClientService {
    type Connection = ();

    fn connected(&self, _: ConnectionHandle, _: SocketAddr) {}

    fn request(&self, _: &mut (), head: &Head<'_>, frame: &RawFrame<'_>, output: &mut Output) -> Result<(), String> {
        self.asked.lock().unwrap().push(Command::decode(frame).unwrap());
        if !head.is_oneway() {
            let answer = self.answers.lock().unwrap().get(&head.code).cloned();
            if let Some(answer) = answer.unwrap_or_else(|| Some(Response::success())) {
                encode_response(&mut output.bytes, frame.serialization, head.opaque, &answer);
            }
        }
        Ok(())
    }

    fn submit(&self, _: &mut (), _: &mut Output) {}

    fn disconnected(&self, (): ()) {}
}
