//! Whether slaves have what their masters have, read from their disks.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io;
use std::path::Path;
use std::time::Duration;

use metaq::env::{Disk, OpenMode};
use metaq::proto::ha::switch::{self, SlaveHandshake};
use metaq::proto::message::parse;
use metaq::proto::message::record::{BodyCrc, Parsed};
use metaq::proto::PhysicalOffset;

use crate::checkers::Violation;
use crate::cluster::{Cluster, Slave, HA_PORT};
use crate::disk::SimDisk;
use crate::world::{Life, NodeId, World};

const LOG: &str = "/data/store/commitlog";

/// Every slave's log becomes its master's, byte for byte, within `limit`. Nothing may be sent meanwhile.
///
/// # Errors
/// The first slave of which it does not.
pub async fn logs_become_equal(cluster: &Cluster, limit: Duration) -> Result<(), Violation> {
    let world = &cluster.world;
    let deadline = world.now() + limit;
    for slave in &cluster.slaves {
        while let Err(finding) = compare(cluster, slave) {
            if world.now() > deadline {
                return Err(Violation::new("slaves get their master's log", finding));
            }
            world.sleep(Duration::from_millis(500)).await;
        }
    }
    world.note(NodeId::WORLD, "logs are equal", &[], "");
    Ok(())
}

/// The files of both, as running processes see them. One that was made ahead of time holds nothing and may be missing.
fn compare(cluster: &Cluster, slave: &Slave) -> Result<(), String> {
    let world = &cluster.world;
    let (theirs, own) = (files(world, cluster.brokers[slave.broker])?, files(world, slave.node)?);
    // Each deletes old files on its own.
    let oldest = match (theirs.keys().next(), own.keys().next()) {
        (Some(theirs), Some(own)) => theirs.max(own).clone(),
        _ => String::new(),
    };
    for name in theirs.keys().chain(own.keys()).filter(|name| **name >= oldest) {
        let nothing = Vec::new();
        let (theirs, own) = (theirs.get(name).unwrap_or(&nothing), own.get(name).unwrap_or(&nothing));
        let len = theirs.len().max(own.len());
        let byte = |bytes: &[u8], at: usize| bytes.get(at).copied().unwrap_or(0);
        if let Some(at) = (0..len).find(|at| byte(theirs, *at) != byte(own, *at)) {
            return Err(format!("{} differs from its master at byte {at} of {name}", world.name(slave.node)));
        }
    }
    Ok(())
}

fn files(world: &World, node: NodeId) -> Result<BTreeMap<String, Vec<u8>>, String> {
    files_on(&*world.env(node).disk).map_err(|error| format!("{} cannot be read: {error}", world.name(node)))
}

fn files_on(disk: &dyn Disk) -> io::Result<BTreeMap<String, Vec<u8>>> {
    let mut files = BTreeMap::new();
    for entry in disk.read_dir(Path::new(LOG))? {
        let file = disk.open(&Path::new(LOG).join(&entry.name), OpenMode::Read)?;
        let mut bytes = vec![0; file.len()? as usize];
        file.read_at(0, &mut bytes)?;
        files.insert(entry.name, bytes);
    }
    Ok(files)
}

/// A machine's disk as whoever looks at it from outside sees it, whether the machine runs or not.
pub fn disk_of(world: &World, node: NodeId) -> SimDisk {
    SimDisk::new(world.disk(node), Life::default())
}

/// Where the records of a machine's log end, whether it runs or not.
pub fn log_length(world: &World, node: NodeId) -> u64 {
    let Ok(files) = files_on(&disk_of(world, node)) else { return 0 };
    let mut end = 0;
    for (name, bytes) in files {
        let mut at = 0;
        while let Ok(parsed) = parse(&bytes[at..], BodyCrc::Verify) {
            at += match parsed {
                Parsed::Record(record) => record.bytes().len(),
                Parsed::Blank { size } => size as usize,
            };
        }
        if at > 0 {
            end = name.parse().unwrap_or(0) + at as u64;
        }
    }
    end
}

/// Somebody who is no slave connects to a master's HA port every now and then and says something.
pub async fn send_junk(cluster: Cluster, broker: usize) {
    let world = &cluster.world;
    let mut random = world.random("junk");
    let address = format!("{}:{HA_PORT}", world.ip(cluster.brokers[broker]));
    let env = world.env(cluster.admin);
    loop {
        world.sleep(Duration::from_millis(random.between(10, 300))).await;
        let Ok(mut stream) = env.net.connect(&address).await else { continue };
        let said = match random.below(4) {
            // A position that no slave can have, twice, since the first one counts for nothing.
            0 => [i64::MAX.to_be_bytes(); 2].concat(),
            1 => vec![0; 8],
            // A slave of another kind, with a position of its own.
            2 => [
                &SlaveHandshake { sync_from_last_file: false, async_learner: false, broker_id: 99 }.encode()[..],
                &switch::report(PhysicalOffset(1 << 40)),
            ]
            .concat(),
            _ => (0..random.between(1, 64)).map(|_| random.below(256) as u8).collect(),
        };
        let mut written = 0;
        while written < said.len() {
            match poll_fn(|cx| stream.poll_write(cx, &said[written..])).await {
                Ok(more) if more > 0 => written += more,
                _ => break,
            }
        }
        world.sleep(Duration::from_millis(random.below(3_000))).await;
    }
}
