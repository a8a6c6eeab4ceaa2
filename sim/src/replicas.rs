//! Whether slaves have what their masters have, read from their disks.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use metaq::env::OpenMode;

use crate::checkers::Violation;
use crate::cluster::{Cluster, Slave};
use crate::world::{NodeId, World};

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
    for name in theirs.keys().chain(own.keys()) {
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
    let disk = world.env(node).disk;
    let failed = |error: std::io::Error| format!("{} cannot be read: {error}", world.name(node));
    let mut files = BTreeMap::new();
    for entry in disk.read_dir(Path::new(LOG)).map_err(failed)? {
        let file = disk.open(&Path::new(LOG).join(&entry.name), OpenMode::Read).map_err(failed)?;
        let mut bytes = vec![0; file.len().map_err(failed)? as usize];
        file.read_at(0, &mut bytes).map_err(failed)?;
        files.insert(entry.name, bytes);
    }
    Ok(files)
}
