//! Masters and slaves over real TCP, and what Apache's would do. REP are cases of field faults.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use metaq::actors::ha::{FollowState, HaStatus};
use metaq::proto::ha::{plain, Decoded};
use metaq::proto::remoting::response;
use metaq::proto::PhysicalOffset;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::support::{bodies, send_command, until, Broker};

const SMALL_FILES: &str = "mappedFileSizeCommitLog=16384\nmaxMessageSize=4096\n";

/// A port that nobody has. By default slaves are served a port above that for clients, which another test may have.
pub async fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port()
}

async fn master(settings: &str) -> Broker {
    Broker::start(&format!("{SMALL_FILES}haListenPort={}\n{settings}", free_port().await)).await
}

async fn slave_settings(master: &Broker, id: u64) -> String {
    let (address, port) = (ha_address(master), free_port().await);
    format!(
        "{SMALL_FILES}brokerRole=SLAVE\nbrokerId={id}\nhaListenPort={port}\nhaMasterAddress={address}\n\
         slaveReadEnable=true\n"
    )
}

fn ha_address(broker: &Broker) -> SocketAddr {
    broker.handle().ha_address().expect("the port for slaves was free")
}

pub async fn send_many(broker: &Broker, from: usize, to: usize) {
    let client = broker.client().await;
    for number in from..to {
        client.send("orders", &format!("{number} {}", "x".repeat(number * 37 % 1000)), &[("KEYS", "k")]).await;
    }
}

/// Waits until the slave has, and lets read, all that its master has.
async fn caught_up(master: &Broker, slave: &Broker) -> HaStatus {
    until(&master.env, async || {
        let (there, here) = (master.handle().ha_status(), slave.handle().ha_status());
        (here.end == there.end && here.confirmed == there.end).then_some(here)
    })
    .await
}

/// The files of a log, without the zeros at their ends, and without one that was only made ahead of time.
fn log(broker: &Broker) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(broker.directory().join("commitlog")).unwrap();
    let read = |path: &Path| {
        let mut bytes = std::fs::read(path).unwrap();
        bytes.truncate(bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1));
        bytes
    };
    let files = entries
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), read(&entry.path())));
    files.filter(|(_, bytes)| !bytes.is_empty()).collect()
}

#[tokio::test]
async fn a_slave_gets_the_whole_log_and_goes_on_as_the_master() {
    let master = master("").await;
    send_many(&master, 0, 100).await;
    let slave = Broker::start(&slave_settings(&master, 1).await).await;
    caught_up(&master, &slave).await;
    send_many(&master, 100, 120).await;
    let status = caught_up(&master, &slave).await;
    assert!(status.is_slave && status.master_confirmed == status.end);
    let seen = until(&master.env, async || {
        master.handle().ha_status().slaves.into_iter().find(|slave| slave.behind == Some(0))
    })
    .await;
    assert!(seen.in_sync && seen.behind_ms == 0);
    assert!(log(&master).len() > 3);
    assert_eq!(log(&slave), log(&master));

    slave.stop().await;
    master.stop().await;
}

#[tokio::test]
async fn a_slave_that_was_away_and_one_whose_master_was_away_go_on() {
    let port = free_port().await;
    let master = Broker::start(&format!("{SMALL_FILES}haListenPort={port}\n")).await;
    send_many(&master, 0, 30).await;
    let settings = slave_settings(&master, 1).await;
    let slave = Broker::start(&settings).await;
    caught_up(&master, &slave).await;
    let master = master.restarted().await;
    send_many(&master, 30, 60).await;
    caught_up(&master, &slave).await;
    let slave = slave.restarted().await;
    send_many(&master, 60, 90).await;
    caught_up(&master, &slave).await;
    assert_eq!(log(&slave), log(&master));
    slave.stop().await;
    master.stop().await;
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (path, to) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        match path.is_dir() {
            true => copy_folder(&path, &to),
            false => drop(std::fs::copy(&path, &to).unwrap()),
        }
    }
}

/// ASYNC_FLUSH: a power cut took from the master what its slave has and may have shown. The slave keeps it, follows no longer,
/// and takes the master's place when it is asked to.
#[tokio::test]
async fn a_slave_refuses_a_master_that_has_lost_what_was_confirmed() {
    let settings = format!(
        "{SMALL_FILES}haListenPort={}
inSyncReplicas=2
brokerRole=SYNC_MASTER
",
        free_port().await
    );
    let master = Broker::start(&settings).await;
    let slave = Broker::start(&slave_settings(&master, 1).await).await;
    let both = async || (master.handle().ha_status().in_sync == 2).then_some(());
    until(&master.env, both).await;
    send_many(&master, 0, 20).await;
    caught_up(&master, &slave).await;
    let (keep, settings) = master.stop_and_keep().await;
    let earlier = TempDir::new().unwrap();
    copy_folder(keep.path(), earlier.path());
    let master = Broker::start_again(keep, &settings).await;
    until(&master.env, async || (master.handle().ha_status().in_sync == 2).then_some(())).await;
    send_many(&master, 20, 40).await;
    let end = caught_up(&master, &slave).await.end;
    master.stop().await;

    let master = Broker::start_again(earlier, &settings).await;
    assert!(master.handle().ha_status().end < end);
    until(&slave.env, async || match slave.handle().ha_status().following {
        FollowState::Refusing(why) => why.contains("is confirmed: promote this slave").then_some(()),
        _ => None,
    })
    .await;
    assert_eq!(slave.handle().ha_status().end, end);
    master.stop().await;
    let new = slave.restarted_with(SMALL_FILES).await;
    let sent = new.client().await.send("orders", "40", &[]).await;
    assert_eq!(sent.queue_offset, 40, "nothing is lost");
    new.stop().await;
}

/// REP-2: what a slave lacks has expired: it begins anew with the oldest file instead of waiting for ever.
#[tokio::test]
async fn a_slave_that_was_away_for_too_long_begins_anew() {
    let master = Broker::start(&format!("{SMALL_FILES}haListenPort={}\n", free_port().await)).await;
    send_many(&master, 0, 40).await;
    let slave = Broker::start(&slave_settings(&master, 1).await).await;
    caught_up(&master, &slave).await;
    let (keep, settings) = slave.stop_and_keep().await;
    send_many(&master, 40, 200).await;
    let master = master.restarted().await;
    // Nothing is deleted until the timer knows that nothing waits.
    let store = &master.handle().shared().store;
    until(&master.env, async || (store.delete_oldest_segments(3).await.unwrap().0 > 0).then_some(())).await;
    let slave = Broker::start_again(keep, &settings).await;
    caught_up(&master, &slave).await;
    assert_eq!(log(&slave), log(&master));
    send_many(&master, 200, 210).await;
    caught_up(&master, &slave).await;
    let new = slave.restarted_with(SMALL_FILES).await;
    let client = new.client().await;
    assert_eq!(client.send("orders", "210", &[]).await.queue_offset, 210);
    let messages = client.wait_messages("audit", "orders", 205).await;
    assert_eq!(bodies(&messages)[0].split(' ').next(), Some("205"));
    new.stop().await;
    master.stop().await;
}

#[tokio::test]
async fn a_slave_that_is_made_master_has_every_message() {
    let old = master("flushDiskType=SYNC_FLUSH\n").await;
    send_many(&old, 0, 60).await;
    let slave = Broker::start(&format!("{}flushDiskType=SYNC_FLUSH\n", slave_settings(&old, 1).await)).await;
    caught_up(&old, &slave).await;
    old.stop().await;
    let new = slave.restarted_with(SMALL_FILES).await;
    let client = new.client().await;
    // It knows the messages, and the topic as soon as somebody sends to it.
    let sent = client.send("orders", "60", &[]).await;
    assert_eq!(sent.queue_offset, 60);
    let mut found = Vec::new();
    while found.len() < 61 {
        let messages = client.wait_messages("audit", "orders", found.len() as i64).await;
        found.extend(bodies(&messages).iter().map(|body| body.split(' ').next().unwrap().to_owned()));
    }
    assert_eq!(found, (0..=60).map(|number| number.to_string()).collect::<Vec<_>>());
    new.stop().await;
}

/// Reads a plain master's frames until the log up to `end` has come.
async fn follow_plainly(stream: &mut TcpStream, end: u64) -> Vec<u8> {
    let (mut input, mut log) = (Vec::new(), Vec::new());
    while (log.len() as u64) < end {
        let mut bytes = [0; 4096];
        let read = stream.read(&mut bytes).await.unwrap();
        assert!(read > 0, "the master closed the connection");
        input.extend_from_slice(&bytes[..read]);
        while let Decoded::Frame(header, head) = plain::DataHeader::decode(&input).unwrap() {
            let Some(part) = input[head..].get(..header.size as usize) else { break };
            assert_eq!(header.at.0, log.len() as u64);
            let crosses = header.size > 0 && header.at.0 / 16384 != (header.at.0 + u64::from(header.size) - 1) / 16384;
            assert!(!crosses && header.size <= 32768, "{header:?}");
            log.extend_from_slice(part);
            input.drain(..head + header.size as usize);
        }
    }
    log
}

#[tokio::test]
async fn an_apache_slave_gets_the_log_in_its_own_protocol() {
    let master = master("").await;
    send_many(&master, 0, 100).await;
    let end = master.handle().ha_status().end;
    let mut stream = TcpStream::connect(ha_address(&master)).await.unwrap();
    stream.write_all(&plain::report(PhysicalOffset(0))).await.unwrap();
    let copied = follow_plainly(&mut stream, end).await;
    let mut whole = Vec::new();
    for (name, bytes) in log(&master) {
        whole.resize(name.parse().unwrap(), 0);
        whole.extend(bytes);
    }
    assert!(copied == whole, "{} bytes copied, the log has {}", copied.len(), whole.len());
    stream.write_all(&plain::report(PhysicalOffset(end))).await.unwrap();
    until(&master.env, async || master.handle().ha_status().slaves.into_iter().find(|slave| slave.acked == Some(end)))
        .await;
    drop(stream);
    until(&master.env, async || master.handle().ha_status().slaves.is_empty().then_some(())).await;
    master.stop().await;
}

/// REP-4: a send is answered when its copy is there, and else at its time.
#[tokio::test]
async fn a_sync_master_waits_for_its_slave_and_no_longer_than_it_may() {
    let master = master("brokerRole=SYNC_MASTER\nslaveTimeout=400\n").await;
    let slave = Broker::start(&slave_settings(&master, 1).await).await;
    caught_up(&master, &slave).await;
    until(&master.env, async || (master.handle().ha_status().in_sync == 2).then_some(())).await;
    send_many(&master, 0, 50).await;
    slave.stop().await;
    until(&master.env, async || (master.handle().ha_status().in_sync == 1).then_some(())).await;
    let client = master.client().await;
    assert_eq!(client.ask(send_command("orders", "50", &[])).await.code, response::SLAVE_NOT_AVAILABLE);

    let mut silent = TcpStream::connect(ha_address(&master)).await.unwrap();
    silent.write_all(&[0; 16]).await.unwrap();
    until(&master.env, async || (master.handle().ha_status().in_sync == 2).then_some(())).await;
    let begun = master.env.clock.monotonic();
    let answer = client.ask(send_command("orders", "51", &[])).await;
    let took = master.env.clock.monotonic() - begun;
    assert_eq!((answer.code, answer.ext("queueOffset")), (response::FLUSH_SLAVE_TIMEOUT, Some("51")));
    assert!(took >= Duration::from_millis(400), "{took:?}");
    let unwaited = client.ask(send_command("orders", "52", &[("WAIT", "false")])).await;
    assert_eq!(unwaited.code, response::SUCCESS);

    // Nobody reads what only one node has.
    let pull = client.pull("audit", "orders", 50, Duration::ZERO).await;
    assert_eq!(pull.code, response::PULL_NOT_FOUND, "{:?}", pull.remark);
    let end = master.handle().ha_status().end;
    follow_plainly(&mut silent, end).await;
    silent.write_all(&plain::report(PhysicalOffset(end))).await.unwrap();
    assert_eq!(bodies(&client.wait_messages("audit", "orders", 50).await), ["50", "51", "52"]);
    master.stop().await;
}

#[tokio::test]
async fn a_sync_master_that_must_not_be_alone_takes_nothing_alone() {
    let master = master("brokerRole=SYNC_MASTER\nminInSyncReplicas=2\n").await;
    let client = master.client().await;
    let answer = client.ask(send_command("orders", "0", &[])).await;
    assert_eq!(answer.code, response::SYSTEM_ERROR);
    assert!(answer.remark.is_some_and(|remark| remark.contains("minInSyncReplicas is 2")));
    assert_eq!(master.handle().ha_status().end, 0);
    master.stop().await;
}

/// REP-1: eight bytes that mean a huge position are no acknowledgement.
#[tokio::test]
async fn junk_on_the_ha_port_harms_nobody() {
    let master = master("brokerRole=SYNC_MASTER\n").await;
    let junk: [&[u8]; 4] = [&[0x7F; 8], &[0xFF; 100], b"GET / HTTP/1.1\r\n\r\n", &[0, 0, 0, 1, 0, 9]];
    for junk in junk {
        let mut stream = TcpStream::connect(ha_address(&master)).await.unwrap();
        stream.write_all(junk).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut rest = Vec::new();
        // However it ends.
        let _ = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut rest)).await.unwrap();
        assert_eq!(rest, b"");
    }
    let answer = master.client().await.ask(send_command("orders", "alone", &[])).await;
    assert_eq!(answer.code, response::SLAVE_NOT_AVAILABLE);
    assert!(answer.ext("msgId").is_some() && answer.ext("queueOffset") == Some("0"));
    master.stop().await;
}
