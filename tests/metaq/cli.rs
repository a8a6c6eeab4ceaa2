//! The commands, run as a user runs them.

use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use metaq::env::real;
use tempfile::TempDir;

use self::process::{metaq, run, Process};
use crate::cluster::support::{bodies, Client};

mod apache;
mod group;
mod kept;
mod letters;
mod looking;
pub mod process;
mod promoting;
mod rolling;
mod sending;
pub mod tool;
mod transactions;

/// Small files, so that no test takes a gigabyte.
const SMALL: [&str; 4] = ["--set", "mappedFileSizeCommitLog=4194304", "--set", "mappedFileSizeConsumeQueue=20000"];
const ANY: &str = "127.0.0.1:0";
/// How long anything may take before a test fails.
const LIMIT: Duration = Duration::from_secs(20);

fn up(data: &Path, more: &[&str]) -> Process {
    Process::start(&[&up_args(data)[..], more].concat())
}

fn up_args(data: &Path) -> Vec<&str> {
    [&["up", "--data", text(data), "--nameserver", ANY, "--broker", ANY], &SMALL[..]].concat()
}

/// A client of the broker that a process has said to be ready.
async fn client_of(process: &mut Process) -> Client {
    let line = process.line("broker ");
    let address = line.split_whitespace().next().unwrap().trim_end_matches(',').parse().unwrap();
    process.line("ready");
    Client::connect(&real::env(), address).await
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[tokio::test]
async fn up_stops_cleanly_when_asked_and_keeps_what_was_sent() {
    let directory = TempDir::new().unwrap();
    for (signal, before) in [(libc::SIGINT, 0), (libc::SIGTERM, 1)] {
        let mut server = up(directory.path(), &[]);
        let client = client_of(&mut server).await;
        assert_eq!(client.send("Orders", &before.to_string(), &[]).await.queue_offset, before);
        server.signal(signal);
        let ended = server.ended();
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let check = run(&["store", "check", text(directory.path())]);
        assert_eq!(check.code, Some(0), "{check:?}");
        assert!(check.says("cleanly closed") && check.says("ok "), "{check:?}");
    }
    let mut server = up(directory.path(), &[]);
    assert_eq!(bodies(&client_of(&mut server).await.wait_messages("cg", "Orders", 0).await), ["0", "1"]);
}

#[tokio::test]
async fn a_killed_broker_has_everything_when_it_starts_again() {
    let directory = TempDir::new().unwrap();
    let mut server = up(directory.path(), &[]);
    let client = client_of(&mut server).await;
    for n in 0..10 {
        client.send("Orders", &n.to_string(), &[]).await;
    }
    server.signal(libc::SIGKILL);
    assert_eq!(server.ended().code, None);

    let mut server = up(directory.path(), &[]);
    let client = client_of(&mut server).await;
    let came = client.wait_messages("cg", "Orders", 0).await;
    assert_eq!(bodies(&came), ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]);
    assert_eq!(client.send("Orders", "next", &[]).await.queue_offset, 10);
    server.signal(libc::SIGTERM);
    assert_eq!(server.ended().code, Some(0));
    assert_eq!(run(&["store", "check", text(directory.path())]).code, Some(0));
}

#[tokio::test]
async fn a_folder_in_use_is_refused() {
    let directory = TempDir::new().unwrap();
    let mut server = up(directory.path(), &[]);
    let client = client_of(&mut server).await;
    let second = up(directory.path(), &[]).ended();
    assert_eq!(second.code, Some(1));
    assert!(second.says("error: the broker did not start: store "), "{second:?}");
    assert!(second.says("is in use by another process") && second.says("hint: stop that broker"), "{second:?}");
    let check = run(&["store", "check", text(directory.path())]);
    assert_eq!(check.code, Some(1));
    assert!(check.says("a broker is running on"), "{check:?}");
    assert_eq!(client.send("Orders", "a", &[]).await.queue_offset, 0, "the first one goes on");
}

#[test]
fn a_port_that_is_taken_is_named() {
    let (directory, taken) = (TempDir::new().unwrap(), TcpListener::bind(ANY).unwrap());
    let address = taken.local_addr().unwrap().to_string();
    let data = text(directory.path());
    for args in [
        ["up", "--data", data, "--nameserver", ANY, "--broker", &address].as_slice(),
        &["up", "--data", data, "--broker", ANY, "--nameserver", &address],
        &["nameserver", "--data", data, "--listen", &address],
        &["broker", "--data", data, "--listen", &address],
    ] {
        let refused = Process::start(&[args, if args[0] == "nameserver" { &[] } else { &SMALL }].concat()).ended();
        assert_eq!(refused.code, Some(1), "{args:?}");
        assert!(refused.says(&format!("cannot listen on {address}")), "{refused:?}");
        assert!(refused.says("hint: stop what listens there, or choose another address"), "{refused:?}");
    }
}

#[tokio::test]
async fn a_nameserver_and_a_broker_are_processes_of_their_own() {
    let directory = TempDir::new().unwrap();
    let mut nameserver = Process::start(&["nameserver", "--listen", ANY, "--data", text(&directory.path().join("ns"))]);
    let address = nameserver.line("nameserver ");
    assert!(nameserver.line("ready").contains(&format!("metaq broker -n {}", address.trim())));
    let args = ["broker", "-n", address.trim(), "--listen", ANY, "--data", text(directory.path())];
    let mut broker = Process::start(&[&args, &SMALL[..]].concat());
    let client = client_of(&mut broker).await;
    client.send("Orders", "a", &[]).await;
    for process in [broker, nameserver] {
        process.signal(libc::SIGTERM);
        assert_eq!(process.ended().code, Some(0));
    }
}

/// Shells start programs with 1,024, and a broker with a thousand queues in use needs more.
#[test]
fn a_server_may_open_as_many_files_as_the_system_allows() {
    let directory = TempDir::new().unwrap();
    let args = ["nameserver", "--listen", ANY, "--data", text(directory.path())];
    let mut server = Process::start_with_files(64, &args);
    server.line("ready");
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.id())).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let [soft, hard] = [3, 4].map(|field| line.split_whitespace().nth(field).unwrap());
    assert_eq!(soft, hard, "{line}");
}

#[test]
fn unknown_settings_are_warned_of_with_the_nearest_known_one() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("a.conf");
    std::fs::write(&file, "listenport=1\nsendMessageThreadPoolNums=4\nlistenPort=7000\n").unwrap();
    for command in ["broker", "nameserver"] {
        let shown = run(&[command, "-p", "-c", text(&file), "--set", "listnPort=2", "--set", "xyzzy=1"]);
        assert_eq!(shown.code, Some(0));
        let from = file.display();
        assert!(shown.says(&format!("warning: {from}: unknown setting `listenport`, did you mean `listenPort`?")));
        assert!(shown.says("warning: unknown setting `listnPort`, did you mean `listenPort`?"), "{shown:?}");
        assert!(shown.says("warning: unknown setting `xyzzy`\n"), "{shown:?}");
        assert!(shown.says("listenPort=7000\n"), "{shown:?}");
    }
}

#[test]
fn a_wrong_command_line_is_told_with_code_2() {
    for (args, what) in [
        (["up", "--set", "listenPort"].as_slice(), "`--set listenPort` is no KEY=VALUE"),
        (&["up", "--broker", "10911"], "`10911` is no HOST:PORT"),
        (&["up", "--set", "flushDiskType=SOON"], "`SOON` is no value for `flushDiskType`"),
        (&["broker", "-p", "--set", "brokerRole=SLAVE"], "a slave needs a brokerId of its own"),
        (&["broker", "-p", "--set", "listenPort=x"], "`x` is no value for `listenPort`: a whole number is expected"),
        (&["nameserver", "-p", "--set", "listenPort=70000"], "`70000` is no value for `listenPort`"),
        (&["uq"], "unrecognized subcommand 'uq'"),
        (&["up", "--dta", "x"], "unexpected argument '--dta'"),
        (&["store", "check"], "<DIR>"),
    ] {
        let refused = run(args);
        assert_eq!(refused.code, Some(2), "{args:?} {refused:?}");
        assert!(refused.says("error: ") && refused.says(what), "{args:?} {refused:?}");
    }
}

#[test]
fn a_settings_file_that_cannot_be_used_is_named() {
    let directory = TempDir::new().unwrap();
    let path = |name: &str, content: &[u8]| {
        let path = directory.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    };
    let files = [
        (directory.path().join("missing.conf"), "cannot be read: No such file"),
        (directory.path().to_owned(), "cannot be read: Is a directory"),
        (path("latin.conf", b"brokerName=\xE4x"), "cannot be read: invalid utf-8"),
        (path("value.conf", b"listenPort=x"), "`x` is no value for `listenPort`"),
        (path("long.conf", &vec![b'#'; (1 << 20) + 1]), "1048577 bytes"),
    ];
    for (file, what) in files {
        for command in ["broker", "nameserver"] {
            let refused = run(&[command, "-p", "-c", text(&file)]);
            assert_eq!(refused.code, Some(1), "{refused:?}");
            assert!(refused.says(text(&file)) && refused.says(what), "{refused:?}");
        }
    }
}

#[test]
fn damage_is_told_with_what_to_do() {
    let directory = TempDir::new().unwrap();
    let log = directory.path().join("commitlog");
    std::fs::create_dir_all(&log).unwrap();
    std::fs::write(log.join("0".repeat(20)), [1; 4096]).unwrap();
    let check = run(&["store", "check", text(directory.path())]);
    assert_eq!(check.code, Some(1));
    assert!(check.says("DAMAGED   1 damage\n") && check.says("hint: copy the folder"), "{check:?}");
    assert!(check.says("the next start ends the log here"), "{check:?}");
}

#[test]
fn help_teaches() {
    for (args, what) in [
        (["--help"].as_slice(), "The first five minutes"),
        (&["up", "--help"], "kept over restarts"),
        (&["nameserver", "--help"], "namesrv.conf"),
        (&["broker", "--help"], "broker.conf"),
        (&["bench", "--help"], "metaq bench produce"),
        (&["store", "check", "--help"], "storePathRootDir"),
        (&["store", "check", "--help"], "repaired at start"),
    ] {
        let help = run(args);
        assert_eq!(help.code, Some(0));
        assert!(help.says(what), "{help:?}");
    }
}

#[test]
fn who_cannot_be_reached_is_told_with_code_3() {
    let free = TcpListener::bind(ANY).unwrap().local_addr().unwrap().to_string();
    let unreachable = run(&["bench", "produce", "-n", &free]);
    assert_eq!(unreachable.code, Some(3), "{unreachable:?}");
    assert!(unreachable.says(&format!("NameServer {free} does not answer")), "{unreachable:?}");
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let directory = TempDir::new().unwrap();
    std::fs::create_dir_all(directory.path().join("commitlog")).unwrap();
    let store = text(directory.path());
    let probe = ["bench", "produce", "--start", "--messages", "100", "--seconds", "0.1", "--warmup", "0"];
    let probe = [&probe[..], &["--data", store], &SMALL[..]].concat();
    for args in [&["broker", "-p"][..], &["store", "check", store], &["store", "check", "--json", store], &probe] {
        let mut child = metaq(args).stdout(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        assert!(child.wait().unwrap().success(), "{args:?}");
    }
    let mut child = metaq(&["broker", "--set", "x"]).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stderr.take());
    assert_eq!(child.wait().unwrap().code(), Some(2), "an error stays one");
}

/// A terminal that is closed takes standard error with it and hangs up; the store is closed all the same.
#[tokio::test]
async fn up_stops_cleanly_when_nobody_hears_it_any_more() {
    let directory = TempDir::new().unwrap();
    for (signal, before) in [(libc::SIGTERM, 0), (libc::SIGHUP, 1)] {
        let mut server = Process::start_unheard(&up_args(directory.path()));
        let client = client_of(&mut server).await;
        assert_eq!(client.send("Orders", &before.to_string(), &[]).await.queue_offset, before);
        assert!(directory.path().join("abort").exists());
        server.signal(signal);
        let ended = server.ended();
        assert_eq!(ended.code, Some(0), "signal {signal}: {ended:?}");
        assert!(!directory.path().join("abort").exists(), "signal {signal}: the store was not closed");
    }
}
