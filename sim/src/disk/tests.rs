//! One test for each promise in `env::Disk`, and for each thing it does not promise and the simulated disk must break.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use metaq::env::{Disk, Env, OpenMode};

use super::Odometer;
use crate::testing::simulate;
use crate::world::{NodeId, World};

const SEEDS: u64 = 60;

pub(super) fn path(text: &str) -> &Path {
    Path::new(text)
}

pub(super) fn machine(world: &World) -> (NodeId, Env) {
    let node = world.add_node("machine");
    (node, world.env(node))
}

pub(super) fn reboot(world: &World, node: NodeId) -> Env {
    world.power_cut(node);
    world.restart(node);
    world.env(node)
}

pub(super) fn write(disk: &dyn Disk, at: &str, bytes: &[u8]) {
    disk.open(path(at), OpenMode::CreateOrOpen).unwrap().write_at(0, bytes).unwrap();
}

pub(super) async fn write_synced(disk: &dyn Disk, at: &str, bytes: &[u8]) {
    write(disk, at, bytes);
    disk.open(path(at), OpenMode::Read).unwrap().sync().await.unwrap();
    disk.sync_dir(path(at).parent().unwrap()).await.unwrap();
}

pub(super) fn read(disk: &dyn Disk, at: &str) -> io::Result<Vec<u8>> {
    let file = disk.open(path(at), OpenMode::Read)?;
    let mut bytes = vec![0; file.len()? as usize];
    file.read_at(0, &mut bytes)?;
    Ok(bytes)
}

/// What `observe` sees after `before` and a power cut, over many seeds.
fn after_power_cuts<F: std::future::Future<Output = ()>, T: Ord>(
    before: impl Fn(World, NodeId, Env) -> F,
    observe: impl Fn(&dyn Disk) -> T,
) -> BTreeSet<T> {
    let (before, observe) = (&before, &observe);
    let seen = |seed| {
        simulate(seed, |world| async move {
            let (node, env) = machine(&world);
            before(world.clone(), node, env).await;
            observe(&*reboot(&world, node).disk)
        })
    };
    (0..SEEDS).map(seen).collect()
}

#[test]
fn a_dead_process_loses_nothing_it_wrote_and_holds_no_lock() {
    simulate(1, |world| async move {
        let (node, env) = machine(&world);
        let lock = env.disk.lock(path("/lock")).unwrap();
        assert_eq!(env.disk.lock(path("/lock")).err().unwrap().kind(), io::ErrorKind::WouldBlock);
        write(&*env.disk, "/a", b"unsynced");
        world.kill(node);
        world.restart(node);
        let env = world.env(node);
        assert_eq!(read(&*env.disk, "/a").unwrap(), b"unsynced");
        let held = env.disk.lock(path("/lock")).unwrap();
        drop(lock);
        assert!(env.disk.lock(path("/lock")).is_err(), "a dead process's lock is not the living one's");
        drop(held);
        env.disk.lock(path("/lock")).unwrap();
    });
}

#[test]
fn synced_bytes_under_a_synced_name_survive() {
    let before = |_, _, env: Env| async move {
        env.disk.create_dir_all(path("/d/e")).unwrap();
        env.disk.sync_dir(path("/")).await.unwrap();
        env.disk.sync_dir(path("/d")).await.unwrap();
        write_synced(&*env.disk, "/d/e/a", b"kept").await;
        write(&*env.disk, "/d/e/b", b"perhaps");
    };
    let seen = after_power_cuts(before, |disk| read(disk, "/d/e/a").unwrap());
    assert_eq!(seen, BTreeSet::from([b"kept".to_vec()]));
}

#[test]
fn an_unsynced_name_is_there_or_not() {
    let before = |_, _, env: Env| async move {
        write(&*env.disk, "/a", b"data");
        env.disk.open(path("/a"), OpenMode::Read).unwrap().sync().await.unwrap();
    };
    let seen = after_power_cuts(before, |disk| read(disk, "/a").ok());
    assert_eq!(seen, BTreeSet::from([None, Some(b"data".to_vec())]));
}

#[test]
fn unsynced_writes_land_in_any_order_torn_at_sectors() {
    let before = |_, _, env: Env| async move {
        write_synced(&*env.disk, "/a", &[b'-'; 2048]).await;
        let file = env.disk.open(path("/a"), OpenMode::Write).unwrap();
        file.write_at(0, &[b'1'; 1024]).unwrap();
        file.write_at(1024, &[b'2'; 1024]).unwrap();
    };
    let seen = after_power_cuts(before, |disk| read(disk, "/a").unwrap());
    let letters = |bytes: &Vec<u8>| -> String {
        let sectors = bytes.chunks(512).map(|sector| {
            assert!(sector.iter().all(|byte| *byte == sector[0]), "a sector is written as a whole");
            char::from(sector[0])
        });
        sectors.collect()
    };
    let seen: BTreeSet<String> = seen.iter().map(letters).collect();
    for expected in ["----", "1122", "11--", "--22", "1---", "-122"] {
        assert!(seen.contains(expected), "{expected} was never seen, only {seen:?}");
    }
}

#[test]
fn the_length_lands_with_the_data_or_without() {
    let before = |_, _, env: Env| async move {
        write_synced(&*env.disk, "/a", b"").await;
        write(&*env.disk, "/a", b"data");
    };
    let seen = after_power_cuts(before, |disk| read(disk, "/a").unwrap());
    assert_eq!(seen, BTreeSet::from([vec![], vec![0; 4], b"data".to_vec()]));
}

#[test]
fn a_rename_may_land_before_the_data() {
    let before = |_, _, env: Env| async move {
        write_synced(&*env.disk, "/a", b"old").await;
        write(&*env.disk, "/a.tmp", b"new");
        env.disk.rename(path("/a.tmp"), path("/a")).unwrap();
        env.disk.sync_dir(path("/")).await.unwrap();
    };
    let seen = after_power_cuts(before, |disk| read(disk, "/a").unwrap());
    assert_eq!(seen, BTreeSet::from([vec![], vec![0; 3], b"new".to_vec()]));
}

#[test]
fn an_unsynced_rename_leaves_the_old_file_or_the_new_one() {
    let before = |_, _, env: Env| async move {
        write_synced(&*env.disk, "/a", b"old").await;
        write_synced(&*env.disk, "/a.tmp", b"new").await;
        env.disk.rename(path("/a.tmp"), path("/a")).unwrap();
        assert_eq!(read(&*env.disk, "/a").unwrap(), b"new", "running processes see it at once");
    };
    let seen = after_power_cuts(before, |disk| (read(disk, "/a").unwrap(), disk.exists(path("/a.tmp"))));
    assert_eq!(seen, BTreeSet::from([(b"new".to_vec(), false), (b"old".to_vec(), true)]));
}

#[test]
fn an_unsynced_removal_may_come_back() {
    let before = |_, _, env: Env| async move {
        write_synced(&*env.disk, "/a", b"old").await;
        env.disk.remove_file(path("/a")).unwrap();
    };
    let seen = after_power_cuts(before, |disk| disk.exists(path("/a")));
    assert_eq!(seen, BTreeSet::from([false, true]));
}

#[test]
fn after_a_failed_sync_no_later_sync_makes_up_for_it() {
    let before = |world: World, node, env: Env| async move {
        write_synced(&*env.disk, "/a", &[b'-'; 1024]).await;
        let file = env.disk.open(path("/a"), OpenMode::Write).unwrap();
        file.write_at(0, &[b'1'; 1024]).unwrap();
        world.disk(node).fail_syncs(1);
        file.sync().await.unwrap_err();
        assert_eq!(read(&*env.disk, "/a").unwrap(), [b'1'; 1024], "the page cache keeps it");
        file.sync().await.unwrap();
    };
    let seen = after_power_cuts(before, |disk| read(disk, "/a").unwrap());
    assert!(seen.contains(&vec![b'-'; 1024]), "all of it may be lost");
    assert!(seen.len() > 2, "a part of it may be lost");
}

#[test]
fn a_page_written_again_after_a_failed_sync_is_written_whole() {
    let before = |world: World, node, env: Env| async move {
        write_synced(&*env.disk, "/a", &[b'-'; 1024]).await;
        let file = env.disk.open(path("/a"), OpenMode::Write).unwrap();
        file.write_at(0, &[b'1'; 1000]).unwrap();
        world.disk(node).fail_syncs(1);
        file.sync().await.unwrap_err();
        file.write_at(1000, &[b'1'; 24]).unwrap();
        file.sync().await.unwrap();
    };
    let seen = after_power_cuts(before, |disk| read(disk, "/a").unwrap());
    assert_eq!(seen, BTreeSet::from([vec![b'1'; 1024]]));
}

#[test]
fn a_sync_covers_what_was_written_before_it_and_takes_time() {
    simulate(3, |world| async move {
        let (node, env) = machine(&world);
        write_synced(&*env.disk, "/a", &[b'-'; 1024]).await;
        let file = env.disk.open(path("/a"), OpenMode::Write).unwrap();
        file.write_at(0, &[b'1'; 512]).unwrap();
        let sync = file.sync();
        file.write_at(512, &[b'2'; 512]).unwrap();
        let before = world.now();
        sync.await.unwrap();
        assert!(world.now() > before);
        world.disk(node).power_cut_by(&mut LoseAll);
        let bytes = read(&*env.disk, "/a").unwrap();
        assert_eq!((bytes[0], bytes[1023]), (b'1', b'-'));
    });
}

/// Takes the first choice each time: nothing unsynced is kept.
struct LoseAll;

impl super::Choose for LoseAll {
    fn choose(&mut self, _: u64) -> u64 {
        0
    }
}

#[test]
fn a_full_disk_refuses_what_needs_space_and_nothing_else() {
    simulate(1, |world| async move {
        let (node, env) = machine(&world);
        let file = env.disk.open(path("/a"), OpenMode::CreateNew).unwrap();
        world.disk(node).set_capacity(16 * 4096);
        file.allocate(8 * 4096).await.unwrap();
        let other = env.disk.open(path("/b"), OpenMode::CreateNew).unwrap();
        other.set_len(1 << 30).unwrap();
        other.write_at(1 << 20, &[1; 8 * 4096]).unwrap();
        assert_eq!(env.disk.space(path("/")).unwrap().available, 0);
        assert_eq!(other.write_at(0, b"x").unwrap_err().kind(), io::ErrorKind::StorageFull);
        file.write_at(0, &[1; 8 * 4096]).unwrap();
        assert!(file.allocate(9 * 4096).await.is_err());
        drop(other);
        env.disk.remove_file(path("/b")).unwrap();
        env.disk.sync_dir(path("/")).await.unwrap();
        file.allocate(9 * 4096).await.unwrap();
    });
}

#[test]
fn a_mapping_and_its_file_are_one() {
    simulate(1, |world| async move {
        let (node, env) = machine(&world);
        write_synced(&*env.disk, "/a", &[b'-'; 8192]).await;
        let file = env.disk.open(path("/a"), OpenMode::Write).unwrap();
        let mapping = file.map(8192).unwrap();
        file.write_at(4000, b"file").unwrap();
        mapping.write(5000, b"store");
        let mut seen = Vec::new();
        mapping.append_to(4000, 4, &mut seen);
        assert_eq!(seen, b"file");
        assert_eq!(&read(&*env.disk, "/a").unwrap()[5000..5005], b"store");
        file.sync().await.unwrap();
        let env = reboot(&world, node);
        assert_eq!(&read(&*env.disk, "/a").unwrap()[5000..5005], b"store");
    });
}

#[test]
fn handles_of_a_dead_process_do_nothing() {
    simulate(1, |world| async move {
        let (node, env) = machine(&world);
        write_synced(&*env.disk, "/a", b"old").await;
        let file = env.disk.open(path("/a"), OpenMode::Write).unwrap();
        let mapping = file.map(3).unwrap();
        let now = reboot(&world, node);
        file.write_at(0, b"new").unwrap_err();
        file.sync().await.unwrap_err();
        mapping.write(0, b"new");
        env.disk.remove_file(path("/a")).unwrap_err();
        env.disk.open(path("/b"), OpenMode::CreateNew).err().unwrap();
        assert_eq!(read(&*now.disk, "/a").unwrap(), b"old");
        assert_eq!(now.disk.read_dir(path("/")).unwrap().len(), 1);
    });
}

#[test]
fn the_odometer_visits_every_image_once() {
    let mut odometer = Odometer::default();
    let mut images = Vec::new();
    loop {
        images.push(simulate(1, |world| {
            let odometer = &mut odometer;
            async move {
                let (node, env) = machine(&world);
                write_synced(&*env.disk, "/a", &[b'-'; 1024]).await;
                env.disk.open(path("/a"), OpenMode::Write).unwrap().write_at(256, &[b'1'; 512]).unwrap();
                env.disk.rename(path("/a"), path("/b")).unwrap();
                world.disk(node).power_cut_by(odometer);
                let name = if env.disk.exists(path("/a")) { "/a" } else { "/b" };
                let bytes = read(&*env.disk, name).unwrap();
                (name, bytes[256], bytes[512])
            }
        }));
        if !odometer.advance() {
            break;
        }
    }
    assert_eq!(images.len(), 8, "two sectors and one name, each there or not");
    assert_eq!(images.iter().collect::<BTreeSet<_>>().len(), 8);
}
