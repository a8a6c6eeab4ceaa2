//! Plays a plan with real processes, and has it judged.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::time::Duration;

use metaq::audit::history::Event;
use metaq::client::{Client, Recorder};
use metaq::env::real;
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::sleep;

use super::machines::Machine;
use super::plan::{Fault, Plan, Way};
use super::proxy::Links;

/// Where all clients are.
const CLIENTS: &str = "clients";
const TOPIC: &str = "Audit";
/// Queues of the topic on each broker.
const QUEUES: i32 = 4;
/// How long servers may take until they serve, and clients until they come to their end.
const LIMIT: Duration = Duration::from_secs(90);

/// What plans do not name: small files, so that their ends come soon.
const SETTINGS: [(&str, &str); 4] = [
    ("mappedFileSizeCommitLog", "1048576"),
    ("mappedFileSizeConsumeQueue", "20000"),
    ("cleanFileForciblyEnable", "false"),
    ("registerNameServerPeriod", "10000"),
];

/// Addresses of loopback that no other stage of this machine has.
#[derive(Clone, Copy)]
struct Addresses {
    net: [u8; 2],
}

impl Addresses {
    fn fresh() -> Addresses {
        static STAGES: AtomicU32 = AtomicU32::new(0);
        // 127.0 is for everybody else; 16 stages a process.
        let number = std::process::id() * 16 + STAGES.fetch_add(1, Ordering::Relaxed) % 16;
        Addresses { net: [1 + (number / 256 % 254) as u8, (number % 256) as u8] }
    }

    fn at(self, host: usize, port: usize) -> SocketAddr {
        let ip = Ipv4Addr::new(127, self.net[0], self.net[1], host as u8);
        SocketAddr::new(IpAddr::V4(ip), port as u16)
    }

    fn nameserver(self, index: usize) -> SocketAddr {
        self.at(1, 9876 + index)
    }

    fn broker(self, index: usize) -> SocketAddr {
        self.at(100 + index, 10_911)
    }

    /// Where clients, or the broker of a number, see a NameServer.
    fn nameserver_seen(self, broker: Option<usize>, index: usize) -> SocketAddr {
        self.at(broker.map_or(2, |broker| 10 + broker), 9876 + index)
    }

    /// Where clients see a broker.
    fn broker_seen(self, index: usize) -> SocketAddr {
        self.at(200 + index, 10_911)
    }
}

/// A cluster of processes, the links between them and those who record.
pub struct Stage {
    metaq: PathBuf,
    folder: PathBuf,
    addresses: Addresses,
    nameservers: usize,
    links: Links,
    servers: BTreeMap<String, Mutex<Machine>>,
    recorder: Recorder,
}

/// How a plan ended.
pub struct Played {
    /// What `metaq audit` says.
    pub verdict: Value,
    /// What went wrong besides: a server died, a client did not end.
    pub trouble: Vec<String>,
}

impl Played {
    /// True if nothing went wrong.
    pub fn is_good(&self) -> bool {
        self.trouble.is_empty() && self.verdict["ok"] == true
    }
}

/// Plays a plan in an empty folder.
pub async fn play(metaq: &Path, plan: &Plan, folder: &Path) -> Played {
    let stage = Arc::new(Stage::start(metaq, plan.nameservers, plan.brokers, &plan.settings, folder).await);
    let (lasts, load) = (plan.lasts(), plan.load());
    let common = [
        ("--rate", load.rate.to_string()),
        ("--size", load.size.max(1).to_string()),
        ("--fail", load.fail.to_string()),
    ];
    let work = |name: &str, producers: usize, lasts: Duration| {
        let mut arguments = vec!["--record-only".to_owned(), "--seconds".to_owned(), lasts.as_secs_f64().to_string()];
        arguments.extend(["--producers".to_owned(), producers.to_string(), "--settle".to_owned(), "60".to_owned()]);
        arguments.extend(common.iter().flat_map(|(key, value)| [(*key).to_owned(), value.clone()]));
        stage.client(name, arguments)
    };
    let mut clients = work("clients", load.producers, lasts);
    clients.start();
    let faults = plan.faults.iter().cloned().map(|timed| {
        let stage = Arc::clone(&stage);
        tokio::spawn(async move {
            sleep(timed.at()).await;
            stage.apply(&timed.fault).await;
        })
    });
    let faults = faults.collect::<Vec<_>>();
    // Others come, die in the middle, and come again.
    let dies_at = lasts.mul_f64(0.3 + (plan.seed.wrapping_mul(2_654_435_761) % 400) as f64 / 1_000.0);
    let mut guests = work("guests", 1, lasts);
    guests.start();
    sleep(dies_at).await;
    guests.kill();
    let mut guests = work("guests-again", 1, lasts - dies_at);
    guests.start();

    let mut trouble = Vec::new();
    for fault in faults {
        if fault.await.is_err() {
            trouble.push("a fault could not be applied".to_owned());
        }
    }
    stage.recorder.add(Event::Healed);
    trouble.extend(stage.dead_servers().await);
    for client in [&mut clients, &mut guests] {
        match client.ended(lasts + LIMIT).await {
            Some(status) if status.success() => {}
            other => trouble.push(format!("{} ends so: {other:?}\n{}", client.name, client.said())),
        }
    }
    trouble.extend(stage.dead_servers().await);
    Played { verdict: stage.judge().await, trouble }
}

impl Stage {
    /// Starts servers, links and the topic.
    pub async fn start(
        metaq: &Path,
        nameservers: usize,
        brokers: usize,
        settings: &BTreeMap<String, String>,
        folder: &Path,
    ) -> Stage {
        let (addresses, links) = (Addresses::fresh(), Links::default());
        let mut servers = BTreeMap::new();
        for index in 0..nameservers {
            let name = format!("ns-{index}");
            let data = folder.join(&name);
            let arguments = ["nameserver", "--listen", &addresses.nameserver(index).to_string(), "--data", text(&data)];
            let mut machine = Machine::new(metaq, folder, &name, arguments.map(str::to_owned).to_vec());
            machine.start();
            servers.insert(name.clone(), Mutex::new(machine));
            for broker in (0..brokers).map(Some).chain([None]) {
                let from = broker.map_or(CLIENTS.to_owned(), |broker| format!("broker-{broker}"));
                let seen = addresses.nameserver_seen(broker, index);
                links.carry(&from, &name, seen, addresses.nameserver(index)).await.expect("the address is ours");
            }
        }
        let histories = folder.join("histories");
        std::fs::create_dir_all(&histories).expect("the folder is there");
        let recorder = Recorder::create(&real::env(), histories.join("stage.history")).expect("the folder is empty");
        let stage = Stage {
            metaq: metaq.to_owned(),
            folder: folder.to_owned(),
            addresses,
            nameservers,
            links,
            servers,
            recorder,
        };
        stage.with_brokers(brokers, settings).await
    }

    async fn with_brokers(mut self, brokers: usize, settings: &BTreeMap<String, String>) -> Stage {
        for index in 0..brokers {
            let name = format!("broker-{index}");
            let (listens, seen) = (self.addresses.broker(index), self.addresses.broker_seen(index));
            self.links.carry(CLIENTS, &name, seen, listens).await.expect("the address is ours");
            let (listens, data) = (listens.to_string(), self.folder.join(&name));
            let nameservers = self.nameservers_seen(Some(index));
            let mut arguments = vec!["broker", "--listen", &listens, "--data", text(&data), "-n", &nameservers];
            let mut sets = vec![format!("brokerName={name}"), format!("brokerIP1={}", seen.ip())];
            sets.extend(SETTINGS.iter().map(|(key, value)| format!("{key}={value}")));
            sets.extend(settings.iter().map(|(key, value)| format!("{key}={value}")));
            arguments.extend(sets.iter().flat_map(|set| ["--set", set.as_str()]));
            let arguments = arguments.into_iter().map(str::to_owned).collect();
            let mut machine = Machine::new(&self.metaq, &self.folder, &name, arguments);
            self.recorder.add(Event::Up(name.as_str().into()));
            machine.start();
            self.servers.insert(name, Mutex::new(machine));
        }
        self.make_topic(brokers).await;
        self
    }

    async fn make_topic(&self, brokers: usize) {
        let client = Client::new(&real::env(), &self.nameservers_seen(None)).expect("there is a NameServer");
        let admin = client.admin();
        self.until("brokers register", async || {
            admin.clusters().await.is_ok_and(|known| known.broker_addr_table.len() == brokers)
        })
        .await;
        self.until("the topic is made", async || admin.create_topic(TOPIC, QUEUES).await.is_ok()).await;
        self.until("every NameServer knows the topic", async || {
            admin.queues(TOPIC).await.is_ok_and(|queues| queues.len() == brokers * QUEUES as usize)
        })
        .await;
        client.close().await;
    }

    async fn until(&self, what: &str, mut so: impl AsyncFnMut() -> bool) {
        let end = tokio::time::Instant::now() + LIMIT;
        while !so().await {
            assert!(tokio::time::Instant::now() < end, "it takes too long until {what}: {}", self.folder.display());
            sleep(Duration::from_millis(50)).await;
        }
    }

    fn nameservers_seen(&self, broker: Option<usize>) -> String {
        let seen = (0..self.nameservers).map(|index| self.addresses.nameserver_seen(broker, index).to_string());
        seen.collect::<Vec<_>>().join(";")
    }

    /// A process of `metaq audit run`, not started.
    pub fn client(&self, name: &str, arguments: Vec<String>) -> Machine {
        let (nameservers, histories) = (self.nameservers_seen(None), self.folder.join("histories"));
        let mut all = vec!["audit", "run", "-n", &nameservers, "--topic", TOPIC, "--history", text(&histories)];
        all.extend(arguments.iter().map(String::as_str));
        Machine::new(&self.metaq, &self.folder, name, all.into_iter().map(str::to_owned).collect())
    }

    /// Ends the stage's own history, reads the topic to its end, and judges all histories.
    pub async fn judge(&self) -> Value {
        self.recorder.close().expect("the history can be written");
        let arguments = ["--producers", "0", "--consumers", "0", "--seconds", "0", "--json"];
        let mut judge = self.client("judge", arguments.map(str::to_owned).to_vec());
        judge.start();
        judge.ended(LIMIT).await;
        serde_json::from_str(&judge.printed()).unwrap_or_else(|_| Value::from(judge.said()))
    }

    /// A server.
    pub fn server(&self, name: &str) -> Option<&Mutex<Machine>> {
        self.servers.get(name)
    }

    async fn dead_servers(&self) -> Vec<String> {
        let mut dead = Vec::new();
        for (name, machine) in &self.servers {
            let mut machine = machine.lock().await;
            if machine.has_died() {
                dead.push(format!("{name} has ended by itself:\n{}", machine.said()));
            }
        }
        dead
    }

    /// Lets a fault happen, from its beginning to its end. Faults of one process wait for each other.
    async fn apply(&self, fault: &Fault) {
        match fault {
            Fault::Kill { machine, down_us } => self.down(machine, true, micros(*down_us)).await,
            Fault::CleanStop { machine, down_us } => self.down(machine, false, micros(*down_us)).await,
            Fault::CrashLoop { machine, times, life_us } => {
                for _ in 0..*times {
                    self.down(machine, true, micros(*life_us)).await;
                    sleep(micros(*life_us)).await;
                }
            }
            Fault::Pause { machine, for_us } => self.pause(machine, micros(*for_us)).await,
            Fault::Stutter { machine, step_us, times } => {
                for _ in 0..*times {
                    self.pause(machine, micros(*step_us)).await;
                    sleep(micros(*step_us)).await;
                }
            }
            Fault::Cut { a, b, for_us } => self.hold(&[(a, b), (b, a)], *for_us).await,
            Fault::CutOneWay { from, to, for_us } | Fault::Clog { from, to, for_us } => {
                self.hold(&[(from, to)], *for_us).await;
            }
            Fault::Isolate { machine, for_us } => self.part(std::slice::from_ref(machine), *for_us).await,
            Fault::Partition { part, for_us } => self.part(part, *for_us).await,
            Fault::SlowLink(Way { from, to, for_us }, millis) => {
                self.links.delay(place(from), place(to), Duration::from_millis(*millis));
                sleep(micros(*for_us)).await;
                self.links.delay(place(from), place(to), Duration::ZERO);
            }
            Fault::ResetConnections { a, b } => self.links.reset(place(a), place(b)),
        }
    }

    /// Ends a server's process and starts it again.
    pub async fn down(&self, name: &str, kill: bool, down: Duration) {
        let Some(machine) = self.server(name) else { return };
        let mut machine = machine.lock().await;
        if kill {
            machine.kill();
        } else if machine.stop().await.is_none_or(|status| !status.success()) {
            panic!("{name} does not stop cleanly:\n{}", machine.said());
        }
        self.recorder.add(Event::Down(name.into()));
        sleep(down).await;
        self.recorder.add(Event::Up(name.into()));
        machine.start();
    }

    async fn pause(&self, name: &str, pause: Duration) {
        let Some(machine) = self.server(name) else { return };
        let machine = machine.lock().await;
        machine.signal(libc::SIGSTOP);
        sleep(pause).await;
        machine.signal(libc::SIGCONT);
    }

    /// Cuts some machines off from all others.
    async fn part(&self, part: &[String], for_us: u64) {
        let inside = |name: &str| part.iter().any(|machine| place(machine) == name);
        let all: Vec<&str> = self.servers.keys().map(String::as_str).chain([CLIENTS]).collect();
        let ways = all.iter().flat_map(|from| all.iter().map(move |to| (*from, *to)));
        let ways: Vec<(&str, &str)> = ways.filter(|(from, to)| inside(from) != inside(to)).collect();
        self.hold(&ways, for_us).await;
    }

    async fn hold<T: AsRef<str>>(&self, ways: &[(T, T)], for_us: u64) {
        for (from, to) in ways {
            self.links.hold(place(from.as_ref()), place(to.as_ref()), true);
        }
        sleep(micros(for_us)).await;
        for (from, to) in ways {
            self.links.hold(place(from.as_ref()), place(to.as_ref()), false);
        }
    }
}

/// Where a machine of a plan is: all clients are in one place.
fn place(machine: &str) -> &str {
    if machine.starts_with("broker-") || machine.starts_with("ns-") {
        machine
    } else {
        CLIENTS
    }
}

fn micros(us: u64) -> Duration {
    Duration::from_micros(us)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary folders have plain names")
}
