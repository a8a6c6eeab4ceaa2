//! What each fault of a disk does.

use std::collections::BTreeSet;
use std::future::Future;
use std::io;
use std::time::Duration;

use metaq::env::{Env, OpenMode};

use super::tests::{machine, path, read, reboot, write, write_synced};
use super::FailedPages;
use crate::testing::simulate;
use crate::world::{NodeId, World};

const SEEDS: u64 = 40;

/// What the file `/a` holds after `fault`, before and after a power cut, over many seeds.
fn contents<F: Future<Output = ()>>(fault: impl Fn(World, NodeId, Env) -> F) -> BTreeSet<(Vec<u8>, Vec<u8>)> {
    let fault = &fault;
    let seen = |seed| {
        simulate(seed, |world| async move {
            let (node, env) = machine(&world);
            write_synced(&*env.disk, "/a", &[b'-'; 1024]).await;
            fault(world.clone(), node, env.clone()).await;
            let before = read(&*env.disk, "/a").unwrap();
            (before, read(&*reboot(&world, node).disk, "/a").unwrap())
        })
    };
    (0..SEEDS).map(seen).collect()
}

async fn overwrite(env: &Env, byte: u8) -> io::Result<()> {
    let file = env.disk.open(path("/a"), OpenMode::Write).unwrap();
    file.write_at(0, &[byte; 1024])?;
    file.sync().await
}

fn is_mixed(bytes: &[u8]) -> bool {
    bytes.chunks(512).all(|sector| sector.iter().all(|byte| *byte == sector[0]))
}

#[test]
fn a_failed_sync_leaves_the_pages_clean_reverted_or_dirty() {
    let failing = |pages| {
        contents(move |world, node, env| async move {
            world.disk(node).fail_syncs_with(1, pages);
            overwrite(&env, b'x').await.unwrap_err();
            // A second sync reports success whatever it did.
            env.disk.open(path("/a"), OpenMode::Read).unwrap().sync().await.unwrap();
        })
    };
    let clean = failing(FailedPages::Clean);
    assert!(clean.iter().all(|(before, _)| *before == [b'x'; 1024]), "the new bytes can be read");
    assert!(clean.iter().any(|(_, after)| after.contains(&b'-')), "and are gone after a crash");
    let reverted = failing(FailedPages::Reverted);
    assert!(reverted.iter().all(|(before, after)| before == after && is_mixed(after)), "readers see the device");
    assert!(reverted.iter().any(|(before, _)| before.contains(&b'-')));
    let dirty = failing(FailedPages::Dirty);
    assert!(dirty.iter().all(|(_, after)| *after == [b'x'; 1024]), "the second sync brought them");
}

#[test]
fn reverted_pages_keep_what_was_written_since() {
    simulate(3, |world| async move {
        let (node, env) = machine(&world);
        write_synced(&*env.disk, "/a", &[b'-'; 1024]).await;
        let file = env.disk.open(path("/a"), OpenMode::Write).unwrap();
        world.disk(node).fail_syncs_with(1, FailedPages::Reverted);
        file.write_at(0, &[b'x'; 1024]).unwrap();
        let sync = file.sync();
        file.write_at(100, b"later").unwrap();
        sync.await.unwrap_err();
        assert_eq!(&read(&*env.disk, "/a").unwrap()[100..105], b"later");
    });
}

#[test]
fn a_failed_write_back_is_told_once_to_each_who_has_the_file_open() {
    simulate(1, |world| async move {
        let (node, env) = machine(&world);
        write_synced(&*env.disk, "/a", &[b'-'; 1024]).await;
        let files: Vec<_> = (0..2).map(|_| env.disk.open(path("/a"), OpenMode::Write).unwrap()).collect();
        files[0].write_at(0, &[b'x'; 1024]).unwrap();
        assert_eq!(world.disk(node).fail_write_back(), 1);
        for file in &files {
            assert!(file.sync().await.is_err());
            file.sync().await.unwrap();
        }
        env.disk.open(path("/a"), OpenMode::Read).unwrap().sync().await.unwrap();
        files[0].write_at(0, &[b'y'; 1024]).unwrap();
        drop(files);
        assert_eq!(world.disk(node).fail_write_back(), 1);
        let late = env.disk.open(path("/a"), OpenMode::Read).unwrap();
        assert!(late.sync().await.is_err(), "nobody else was told");
    });
}

#[test]
fn a_lying_disk_keeps_nothing() {
    let seen = contents(|world, node, env| async move {
        world.disk(node).lie(true);
        overwrite(&env, b'x').await.unwrap();
    });
    assert!(seen.iter().any(|(_, after)| *after == [b'-'; 1024]), "it was all a lie");
}

#[test]
fn lost_and_misdirected_writes_show_after_a_reboot() {
    let lost = contents(|world, node, env| async move {
        world.disk(node).lose_writes(1);
        overwrite(&env, b'x').await.unwrap();
    });
    assert_eq!(lost, [(vec![b'x'; 1024], vec![b'-'; 1024])].into());
    let misdirected = contents(|world, node, env| async move {
        world.disk(node).misdirect_writes(1);
        overwrite(&env, b'x').await.unwrap();
    });
    let after = [[b'-'; 512], [b'x'; 512]].concat();
    assert_eq!(misdirected, [(vec![b'x'; 1024], after)].into());
}

#[test]
fn calls_fail_as_often_as_they_are_told_to() {
    simulate(1, |world| async move {
        let (node, env) = machine(&world);
        let (disk, drive) = (env.disk.clone(), world.disk(node));
        write(&*disk, "/a", b"0123456789");
        drive.fail_reads(1);
        assert!(read(&*disk, "/a").is_err());
        assert_eq!(read(&*disk, "/a").unwrap(), b"0123456789");
        drive.fail_writes(1);
        assert!(disk.open(path("/a"), OpenMode::Write).unwrap().write_at(0, b"abcd").is_err());
        assert_eq!(read(&*disk, "/a").unwrap(), b"ab23456789", "a part was written");
        drive.fail_renames(1);
        assert!(disk.rename(path("/a"), path("/b")).is_err());
        disk.rename(path("/a"), path("/b")).unwrap();
        drive.fail_dir_syncs(1);
        assert!(disk.sync_dir(path("/")).await.is_err());
        disk.sync_dir(path("/")).await.unwrap();
    });
}

#[test]
fn files_names_and_handles_run_out() {
    simulate(1, |world| async move {
        let (node, env) = machine(&world);
        let (disk, drive) = (env.disk.clone(), world.disk(node));
        write(&*disk, "/a", b"a");
        drive.limit_files(Some(1));
        let first = disk.open(path("/a"), OpenMode::Read).unwrap();
        assert_eq!(disk.open(path("/a"), OpenMode::Read).err().unwrap().raw_os_error(), Some(24));
        drop(first);
        disk.open(path("/a"), OpenMode::Read).unwrap();
        drive.limit_files(None);
        drive.fail_new_names(true);
        let full = io::ErrorKind::StorageFull;
        assert_eq!(disk.open(path("/b"), OpenMode::CreateNew).err().unwrap().kind(), full);
        assert_eq!(disk.create_dir_all(path("/d")).unwrap_err().kind(), full);
        disk.create_dir_all(path("/")).unwrap();
        disk.open(path("/a"), OpenMode::CreateOrOpen).unwrap();
        drive.repair();
        write(&*disk, "/b", b"b");
    });
}

#[test]
fn a_bad_sector_is_good_again_once_it_is_written() {
    simulate(1, |world| async move {
        let (node, env) = machine(&world);
        write(&*env.disk, "/a", &[7; 2048]);
        world.disk(node).spoil_sector(path("/a"), 600).unwrap();
        let file = env.disk.open(path("/a"), OpenMode::Write).unwrap();
        let mut into = [0; 512];
        file.read_at(0, &mut into).unwrap();
        assert!(file.read_at(100, &mut into).is_err());
        file.read_at(1024, &mut into).unwrap();
        file.write_at(512, &[8; 512]).unwrap();
        file.read_at(512, &mut into).unwrap();
    });
}

#[test]
fn slowness_and_throttling_take_time() {
    simulate(1, |world| async move {
        let (node, env) = machine(&world);
        write(&*env.disk, "/a", &[7; 100_000]);
        let takes = |world: World, env: Env| async move {
            let began = world.now();
            env.disk.open(path("/a"), OpenMode::Read).unwrap().sync().await.unwrap();
            world.now() - began
        };
        world.disk(node).throttle(30_000, Duration::from_secs(60));
        assert!(takes(world.clone(), env.clone()).await >= Duration::from_secs(3));
        world.disk(node).repair();
        world.disk(node).slow_down(1_000, Duration::from_secs(60));
        assert!(takes(world.clone(), env.clone()).await >= Duration::from_millis(10));
        world.disk(node).slow_down(1_000_000, Duration::from_secs(2));
        let slow = takes(world.clone(), env.clone()).await;
        assert!(slow >= Duration::from_secs(2) && slow < Duration::from_secs(3), "it ends with the slowness: {slow:?}");
        assert!(takes(world.clone(), env.clone()).await < Duration::from_secs(1), "nothing is slow any more");
    });
}

#[test]
fn disks_can_be_lost_and_swapped() {
    simulate(1, |world| async move {
        let (first, env) = machine(&world);
        let second = world.add_node("second");
        write_synced(&*env.disk, "/a", b"first").await;
        for node in [first, second] {
            world.power_cut(node);
        }
        world.disk(first).swap_with(&world.disk(second));
        for node in [first, second] {
            world.restart(node);
        }
        assert!(read(&*world.env(first).disk, "/a").is_err());
        assert_eq!(read(&*world.env(second).disk, "/a").unwrap(), b"first");
        world.power_cut(second);
        world.disk(second).wipe();
        world.restart(second);
        assert!(read(&*world.env(second).disk, "/a").is_err());
    });
}

#[test]
fn an_os_crash_loses_what_was_not_synced_and_tears_nothing() {
    let mut seen = BTreeSet::new();
    for seed in 0..SEEDS {
        simulate(seed, |world| async move {
            let (node, env) = machine(&world);
            write_synced(&*env.disk, "/a", &[b'-'; 2048]).await;
            let file = env.disk.open(path("/a"), OpenMode::Write).unwrap();
            file.write_at(0, &[b'1'; 2048]).unwrap();
            world.os_crash(node);
            world.restart(node);
            read(&*world.env(node).disk, "/a").unwrap()
        })
        .iter()
        .for_each(|byte| {
            seen.insert(*byte);
        });
    }
    assert_eq!(seen, [b'-', b'1'].into());
}
