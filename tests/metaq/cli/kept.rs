//! What servers keep, and what they say when several meet or are pestered.

use std::future::poll_fn;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use futures::future::join_all;
use metaq::env::real::process::anonymous_memory;
use metaq::proto::remoting::{request, Command};
use tempfile::TempDir;

use super::process::Process;
use super::{client_of, text, up, ANY, SMALL};
use crate::cluster::support::{until, Client};

async fn update(client: &Client, settings: &str) {
    client.get(Command::request(request::UPDATE_BROKER_CONFIG).with_body(settings)).await;
}

async fn shows(client: &Client, line: &str) -> bool {
    let answer = client.get(Command::request(request::GET_BROKER_CONFIG)).await;
    String::from_utf8(answer.body).unwrap().lines().any(|shown| shown == line)
}

fn stop(process: Process) {
    process.signal(libc::SIGTERM);
    assert_eq!(process.ended().code, Some(0));
}

/// They used to be lost at the next start.
#[tokio::test]
async fn settings_changed_by_request_are_kept_in_the_store() {
    let directory = TempDir::new().unwrap();
    let mut server = up(directory.path(), &[]);
    update(&client_of(&mut server).await, "maxMessageSize=1000\nfileReservedTime=5\n").await;
    stop(server);
    let kept = std::fs::read_to_string(directory.path().join("config/broker.properties")).unwrap();
    assert_eq!(kept, "maxMessageSize=1000\nfileReservedTime=5\n");

    let mut server = up(directory.path(), &["--set", "fileReservedTime=7"]);
    let client = client_of(&mut server).await;
    assert!(shows(&client, "maxMessageSize=1000").await);
    assert!(shows(&client, "fileReservedTime=7").await, "the command line wins");
    stop(server);
}

/// With `-c` that file is the one that is kept up to date, and stays the operator's own.
#[tokio::test]
async fn settings_changed_by_request_are_written_to_the_settings_file() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("broker.conf");
    let own = "# our broker\nbrokerName = shop\n\nmaxMessageSize: 2000   \n# the end\n";
    std::fs::write(&file, own).unwrap();
    let data = directory.path().join("store");
    let start = || {
        let args = ["broker", "-c", text(&file), "--listen", ANY, "--data", text(&data)];
        Process::start(&[&args, &SMALL[..]].concat())
    };
    let mut server = start();
    update(&client_of(&mut server).await, "maxMessageSize=1000\ntraceOn=false\n").await;
    let kept = "# our broker\nbrokerName = shop\n\nmaxMessageSize=1000\n# the end\ntraceOn=false\n";
    assert_eq!(std::fs::read_to_string(&file).unwrap(), kept);
    stop(server);
    let mut server = start();
    let client = client_of(&mut server).await;
    assert!(shows(&client, "maxMessageSize=1000").await && shows(&client, "brokerName=shop").await);
    stop(server);
    assert!(!data.join("config/broker.properties").exists());
}

/// The same for a NameServer, which never read what it had written.
#[tokio::test]
async fn a_nameservers_settings_are_kept_too() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("namesrv.conf");
    std::fs::write(&file, "# ours\norderMessageEnable=false\n").unwrap();
    let change = Command::request(request::UPDATE_NAMESRV_CONFIG).with_body("orderMessageEnable=true\n");
    for (config, kept) in
        [(["-c", text(&file)].as_slice(), file.clone()), (&[], directory.path().join("namesrv/namesrv.properties"))]
    {
        let args = ["nameserver", "--listen", ANY, "--data", text(directory.path())];
        for changed in [true, false] {
            let mut server = Process::start(&[&args, config].concat());
            let address = server.line("nameserver ").parse().unwrap();
            server.line("ready");
            let client = Client::connect(&metaq::env::real::env(), address).await;
            if changed {
                client.get(change.clone()).await;
            }
            let shown = client.get(Command::request(request::GET_NAMESRV_CONFIG)).await;
            assert!(String::from_utf8(shown.body).unwrap().contains("orderMessageEnable=true\n"), "{config:?}");
            stop(server);
        }
        let kept = std::fs::read_to_string(kept).unwrap();
        assert_eq!(kept.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>(), ["orderMessageEnable=true"]);
    }
    assert!(std::fs::read_to_string(&file).unwrap().starts_with("# ours\n"));
}

#[tokio::test]
async fn a_broker_that_takes_anothers_place_is_noticed_by_both_sides() {
    let directory = TempDir::new().unwrap();
    let mut first = up(directory.path(), &[]);
    let nameserver = first.line("nameserver ");
    first.line("ready");
    let data = directory.path().join("second");
    let args = ["broker", "-n", &nameserver, "--listen", ANY, "--data", text(&data), "--set", "brokerName=broker-a"];
    let mut second = Process::start(&[&args, &SMALL[..]].concat());
    second.line_with("this broker took the place of another that has its brokerName");
    first.line_with("another address takes a broker's place; if both run, give each a brokerName of its own");
    stop(second);
    stop(first);
}

/// Anybody can open connections and send rubbish; that must not fill the log.
#[tokio::test]
async fn malformed_connections_are_logged_once_and_counted() {
    const CONNECTIONS: usize = 300;
    let directory = TempDir::new().unwrap();
    let mut server = up(directory.path(), &[]);
    let line = server.line("broker ");
    let address: SocketAddr = line.split_whitespace().next().unwrap().trim_end_matches(',').parse().unwrap();
    server.line("ready");
    for _ in 0..CONNECTIONS {
        let mut connection = TcpStream::connect(address).unwrap();
        connection.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        connection.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        let closed = connection.read(&mut [0; 16]);
        assert!(matches!(closed, Ok(0)) || closed.is_err_and(|e| e.kind() == std::io::ErrorKind::ConnectionReset));
    }
    server.signal(libc::SIGTERM);
    let ended = server.ended();
    let lines: Vec<_> = ended.lines_with("closed a connection: malformed input").collect();
    assert!((1..=3).contains(&lines.len()), "one in 10 s, not {}: {ended:?}", lines.len());
    let counted = |line: &str, name: &str| -> usize {
        let Some((_, rest)) = line.split_once(&format!("{name}=")) else { return 0 };
        rest.split_whitespace().next().unwrap().parse().unwrap()
    };
    let held_back: usize = lines.iter().map(|line| counted(line, "held_back")).sum();
    let more = ended.lines_with("more connections were closed for the same reason");
    let more: usize = more.map(|line| counted(line, "connections")).sum();
    assert_eq!(lines.len() + held_back + more, CONNECTIONS, "{ended:?}");
}

/// Buffers of large frames are given back to the system, also when many came at once.
#[tokio::test]
async fn large_frames_leave_no_memory_behind() {
    const BYTES: usize = 12_000_000;
    let directory = TempDir::new().unwrap();
    let mut server = up(directory.path(), &[]);
    let client = client_of(&mut server).await;
    let mut frame = ((BYTES - 4) as u32).to_be_bytes().to_vec();
    let header = br#"{"code":34,"opaque":1}"#;
    frame.extend_from_slice(&(header.len() as u32).to_be_bytes());
    frame.extend_from_slice(header);
    frame.resize(BYTES, b'x');
    for _ in 0..2 {
        let asking = (0..16).map(|_| {
            let (env, frame, address) = (client.env.clone(), frame.clone(), client.address.to_string());
            async move {
                let mut stream = env.net.connect(&address).await.unwrap();
                let mut rest = &frame[..];
                while !rest.is_empty() {
                    rest = &rest[poll_fn(|cx| stream.poll_write(cx, rest)).await.unwrap()..];
                }
                assert!(poll_fn(|cx| stream.poll_read(cx, &mut [0; 64])).await.unwrap() > 0, "it is answered");
            }
        });
        join_all(asking).await;
    }
    let held = || anonymous_memory(server.id()).unwrap();
    until(&client.env, async || (held() < 2 * BYTES as u64).then_some(())).await;
    stop(server);
}
