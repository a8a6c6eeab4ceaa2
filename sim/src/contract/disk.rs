//! Files and directories.

use std::io::ErrorKind::{AlreadyExists, NotADirectory, NotFound};
use std::sync::Arc;

use metaq::env::{File, OpenMode};

use super::{contracts, Place};

contracts! {
    a_new_file_is_empty: "a file that is made is there and empty",
    create_new_needs_room: "making a new file where one is fails",
    missing_files: "opening a file that is not there fails",
    create_or_open_keeps: "opening or making keeps what is there",
    truncate_empties: "truncating empties",
    a_directory_is_no_file: "a directory cannot be opened for writing",
    no_directory_no_file: "a file needs a directory",
    a_file_is_no_directory: "a file is no directory",
    what_is_written_is_read: "what is written is read",
    holes_are_zeros: "what was never written reads as zeros",
    reads_end_at_the_end: "reads end where the file ends",
    empty_writes: "an empty write changes nothing",
    overwriting: "a later write wins",
    read_only: "a handle for reading does not write",
    longer: "a longer file has zeros at its end",
    shorter: "what was cut off is gone",
    allocation: "allocating keeps content and sets the length",
    handles_agree: "all handles see the same",
    len_of_handles: "the length is that of the file, not of the handle",
    sync_is_fine: "syncing works, also without changes",
    sync_needs_a_directory: "a directory that is not there cannot be synced",
    rename_moves: "a renamed file has its new name only",
    rename_replaces: "renaming replaces what was there",
    old_handles_stay: "a handle outlives a rename over its file",
    rename_needs_something: "what is not there cannot be renamed",
    rename_to_itself: "renaming to the same name changes nothing",
    directories_are_renamed: "a directory is renamed with what is in it",
    removed_is_gone: "a removed file is gone",
    removed_and_read: "a handle outlives its file",
    a_name_is_used_again: "a name can be used again while an old handle lives",
    nothing_to_remove: "what is not there cannot be removed",
    a_directory_is_not_removed_as_a_file: "a directory is not removed as a file",
    directories_in_directories: "directories are made with all above them",
    a_directory_in_the_way: "a file in the way of a directory fails",
    listing: "a listing is sorted and tells directories",
    listing_needs_a_directory: "only directories can be listed",
    all_below_is_removed: "a directory is removed with all below it",
    metadata: "metadata tells length and kind",
    modified: "metadata tells of changes",
    space: "there is no more free space than space",
    locks: "a lock that was dropped can be taken again",
    mappings_read: "a mapping shows what is in the file, before and after",
    mappings_write: "what is stored into a mapping is in the file",
    mappings_outlive: "a mapping outlives its file's name and handle",
    mapping_nothing: "nothing can be mapped behind the end",
    append_to: "a mapping appends to what is there",
}

fn open(place: &Place, name: &str, mode: OpenMode) -> Arc<dyn File> {
    place.server.disk.open(&place.path(name), mode).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn write(place: &Place, name: &str, bytes: &[u8]) {
    open(place, name, OpenMode::Truncate).write_at(0, bytes).unwrap();
}

fn content(file: &dyn File) -> Vec<u8> {
    let mut bytes = vec![0; file.len().unwrap() as usize + 10];
    let len = file.read_at(0, &mut bytes).unwrap();
    bytes.truncate(len);
    bytes
}

fn read(place: &Place, name: &str) -> Vec<u8> {
    content(&*open(place, name, OpenMode::Read))
}

fn error(place: &Place, name: &str, mode: OpenMode) -> std::io::ErrorKind {
    place.server.disk.open(&place.path(name), mode).err().expect("it should fail").kind()
}

async fn a_new_file_is_empty(place: Place) {
    for (name, mode) in [("a", OpenMode::CreateNew), ("b", OpenMode::CreateOrOpen), ("c", OpenMode::Truncate)] {
        let file = open(&place, name, mode);
        assert!(file.is_empty().unwrap() && place.server.disk.exists(&place.path(name)));
    }
}

async fn create_new_needs_room(place: Place) {
    write(&place, "a", b"a");
    assert_eq!(error(&place, "a", OpenMode::CreateNew), AlreadyExists);
    assert_eq!(read(&place, "a"), b"a");
}

async fn missing_files(place: Place) {
    assert_eq!(error(&place, "a", OpenMode::Read), NotFound);
    assert_eq!(error(&place, "a", OpenMode::Write), NotFound);
    assert!(!place.server.disk.exists(&place.path("a")));
}

async fn create_or_open_keeps(place: Place) {
    write(&place, "a", b"kept");
    assert_eq!(content(&*open(&place, "a", OpenMode::CreateOrOpen)), b"kept");
    assert_eq!(content(&*open(&place, "a", OpenMode::Write)), b"kept");
}

async fn truncate_empties(place: Place) {
    write(&place, "a", b"gone");
    let before = open(&place, "a", OpenMode::Read);
    open(&place, "a", OpenMode::Truncate);
    assert_eq!(before.len().unwrap(), 0, "it is the same file");
}

async fn a_directory_is_no_file(place: Place) {
    place.server.disk.create_dir_all(&place.path("d")).unwrap();
    error(&place, "d", OpenMode::Write);
    error(&place, "d", OpenMode::CreateOrOpen);
}

async fn no_directory_no_file(place: Place) {
    assert_eq!(error(&place, "d/a", OpenMode::CreateNew), NotFound);
}

async fn a_file_is_no_directory(place: Place) {
    write(&place, "a", b"");
    assert_eq!(error(&place, "a/b", OpenMode::Read), NotADirectory);
    assert_eq!(error(&place, "a/b", OpenMode::CreateNew), NotADirectory);
    assert_eq!(place.server.disk.metadata(&place.path("a/b")).unwrap_err().kind(), NotADirectory);
    assert!(place.server.disk.read_dir(&place.path("a")).is_err());
}

async fn what_is_written_is_read(place: Place) {
    let bytes: Vec<u8> = (0..20_000_u32).map(|number| (number % 251) as u8).collect();
    write(&place, "a", &bytes);
    assert_eq!(read(&place, "a"), bytes);
    let mut some = [0; 100];
    assert_eq!(open(&place, "a", OpenMode::Read).read_at(5_000, &mut some).unwrap(), 100);
    assert_eq!(some, bytes[5_000..5_100]);
}

async fn holes_are_zeros(place: Place) {
    let file = open(&place, "a", OpenMode::CreateNew);
    file.write_at(10_000, b"x").unwrap();
    let bytes = content(&*file);
    assert_eq!((bytes.len(), bytes[10_000]), (10_001, b'x'));
    assert!(bytes[..10_000].iter().all(|byte| *byte == 0));
}

async fn reads_end_at_the_end(place: Place) {
    write(&place, "a", b"12345");
    let file = open(&place, "a", OpenMode::Read);
    let mut into = [7; 4];
    assert_eq!(file.read_at(3, &mut into).unwrap(), 2);
    assert_eq!(into, [b'4', b'5', 7, 7]);
    assert_eq!(file.read_at(5, &mut into).unwrap(), 0);
    assert_eq!(file.read_at(500, &mut into).unwrap(), 0);
    assert_eq!(file.read_at(0, &mut []).unwrap(), 0);
}

async fn empty_writes(place: Place) {
    write(&place, "a", b"123");
    open(&place, "a", OpenMode::Write).write_at(100, b"").unwrap();
    assert_eq!(read(&place, "a"), b"123");
}

async fn overwriting(place: Place) {
    write(&place, "a", &[b'-'; 9_000]);
    let file = open(&place, "a", OpenMode::Write);
    file.write_at(4_090, b"across pages").unwrap();
    file.write_at(4_095, b"X").unwrap();
    assert_eq!(&content(&*file)[4_088..4_104], b"--acrosX pages--");
}

async fn read_only(place: Place) {
    write(&place, "a", b"kept");
    let file = open(&place, "a", OpenMode::Read);
    assert!(file.write_at(0, b"lost").is_err());
    assert!(file.set_len(1).is_err());
    assert_eq!(read(&place, "a"), b"kept");
}

async fn longer(place: Place) {
    write(&place, "a", b"12");
    let file = open(&place, "a", OpenMode::Write);
    file.set_len(5).unwrap();
    assert_eq!(content(&*file), b"12\0\0\0");
}

async fn shorter(place: Place) {
    write(&place, "a", b"12345");
    let file = open(&place, "a", OpenMode::Write);
    file.set_len(2).unwrap();
    file.set_len(4).unwrap();
    assert_eq!(content(&*file), b"12\0\0");
}

async fn allocation(place: Place) {
    write(&place, "a", b"12");
    let file = open(&place, "a", OpenMode::Write);
    file.allocate(10_000).await.unwrap();
    assert_eq!(file.len().unwrap(), 10_000);
    assert_eq!(&content(&*file)[..4], b"12\0\0");
}

async fn handles_agree(place: Place) {
    let (first, second) = (open(&place, "a", OpenMode::CreateNew), open(&place, "a", OpenMode::Write));
    first.write_at(0, b"1-").unwrap();
    second.write_at(1, b"2").unwrap();
    assert_eq!(content(&*first), b"12");
    assert_eq!(content(&*second), b"12");
}

async fn len_of_handles(place: Place) {
    let (first, second) = (open(&place, "a", OpenMode::CreateNew), open(&place, "a", OpenMode::Read));
    first.write_at(0, b"123").unwrap();
    assert_eq!((first.len().unwrap(), second.len().unwrap()), (3, 3));
}

async fn sync_is_fine(place: Place) {
    let file = open(&place, "a", OpenMode::CreateNew);
    file.sync().await.unwrap();
    file.write_at(0, b"1").unwrap();
    open(&place, "a", OpenMode::Read).sync().await.unwrap();
    file.sync().await.unwrap();
    place.server.disk.sync_dir(&place.path("")).await.unwrap();
}

async fn sync_needs_a_directory(place: Place) {
    assert_eq!(place.server.disk.sync_dir(&place.path("d")).await.unwrap_err().kind(), NotFound);
}

async fn rename_moves(place: Place) {
    write(&place, "a", b"moved");
    place.server.disk.rename(&place.path("a"), &place.path("b")).unwrap();
    assert_eq!(error(&place, "a", OpenMode::Read), NotFound);
    assert_eq!(read(&place, "b"), b"moved");
}

async fn rename_replaces(place: Place) {
    write(&place, "a", b"new");
    write(&place, "b", b"old");
    place.server.disk.rename(&place.path("a"), &place.path("b")).unwrap();
    assert_eq!(read(&place, "b"), b"new");
}

async fn old_handles_stay(place: Place) {
    write(&place, "a", b"new");
    write(&place, "b", b"old");
    let (old, moved) = (open(&place, "b", OpenMode::Read), open(&place, "a", OpenMode::Write));
    place.server.disk.rename(&place.path("a"), &place.path("b")).unwrap();
    moved.write_at(3, b"er").unwrap();
    assert_eq!(content(&*old), b"old");
    assert_eq!(read(&place, "b"), b"newer");
}

async fn rename_needs_something(place: Place) {
    write(&place, "b", b"b");
    assert_eq!(place.server.disk.rename(&place.path("a"), &place.path("b")).unwrap_err().kind(), NotFound);
    assert_eq!(read(&place, "b"), b"b");
}

async fn rename_to_itself(place: Place) {
    write(&place, "a", b"a");
    place.server.disk.rename(&place.path("a"), &place.path("a")).unwrap();
    assert_eq!(read(&place, "a"), b"a");
}

async fn directories_are_renamed(place: Place) {
    place.server.disk.create_dir_all(&place.path("d")).unwrap();
    write(&place, "d/a", b"a");
    place.server.disk.rename(&place.path("d"), &place.path("e")).unwrap();
    assert_eq!(read(&place, "e/a"), b"a");
    assert!(!place.server.disk.exists(&place.path("d")));
}

async fn removed_is_gone(place: Place) {
    write(&place, "a", b"a");
    place.server.disk.remove_file(&place.path("a")).unwrap();
    assert_eq!(error(&place, "a", OpenMode::Read), NotFound);
}

async fn removed_and_read(place: Place) {
    write(&place, "a", b"ghost");
    let file = open(&place, "a", OpenMode::Write);
    place.server.disk.remove_file(&place.path("a")).unwrap();
    file.write_at(5, b"ly").unwrap();
    assert_eq!(content(&*file), b"ghostly");
    file.sync().await.unwrap();
}

async fn a_name_is_used_again(place: Place) {
    write(&place, "a", b"old");
    let old = open(&place, "a", OpenMode::Read);
    place.server.disk.remove_file(&place.path("a")).unwrap();
    write(&place, "a", b"new");
    assert_eq!(content(&*old), b"old");
    assert_eq!(read(&place, "a"), b"new");
}

async fn nothing_to_remove(place: Place) {
    assert_eq!(place.server.disk.remove_file(&place.path("a")).unwrap_err().kind(), NotFound);
    assert_eq!(place.server.disk.remove_dir_all(&place.path("d")).unwrap_err().kind(), NotFound);
}

async fn a_directory_is_not_removed_as_a_file(place: Place) {
    place.server.disk.create_dir_all(&place.path("d")).unwrap();
    assert!(place.server.disk.remove_file(&place.path("d")).is_err());
    assert!(place.server.disk.exists(&place.path("d")));
}

async fn directories_in_directories(place: Place) {
    for _ in 0..2 {
        place.server.disk.create_dir_all(&place.path("d/e/f")).unwrap();
    }
    write(&place, "d/e/f/a", b"deep");
    assert_eq!(read(&place, "d/e/f/a"), b"deep");
}

async fn a_directory_in_the_way(place: Place) {
    write(&place, "a", b"");
    assert!(place.server.disk.create_dir_all(&place.path("a/d")).is_err());
    assert!(place.server.disk.create_dir_all(&place.path("a")).is_err());
}

async fn listing(place: Place) {
    write(&place, "b", b"");
    write(&place, "a", b"");
    place.server.disk.create_dir_all(&place.path("c")).unwrap();
    write(&place, "c/hidden", b"");
    let entries = place.server.disk.read_dir(&place.path("")).unwrap();
    let entries: Vec<_> = entries.iter().map(|entry| (entry.name.as_str(), entry.is_dir)).collect();
    assert_eq!(entries, [("a", false), ("b", false), ("c", true)]);
}

async fn listing_needs_a_directory(place: Place) {
    write(&place, "a", b"");
    assert_eq!(place.server.disk.read_dir(&place.path("a")).unwrap_err().kind(), NotADirectory);
    assert_eq!(place.server.disk.read_dir(&place.path("d")).unwrap_err().kind(), NotFound);
}

async fn all_below_is_removed(place: Place) {
    place.server.disk.create_dir_all(&place.path("d/e")).unwrap();
    write(&place, "d/e/a", b"");
    place.server.disk.remove_dir_all(&place.path("d")).unwrap();
    assert_eq!(place.server.disk.read_dir(&place.path("")).unwrap(), []);
}

async fn metadata(place: Place) {
    write(&place, "a", b"12345");
    place.server.disk.create_dir_all(&place.path("d")).unwrap();
    let file = place.server.disk.metadata(&place.path("a")).unwrap();
    assert_eq!((file.len, file.is_dir), (5, false));
    assert!(place.server.disk.metadata(&place.path("d")).unwrap().is_dir);
    assert_eq!(place.server.disk.metadata(&place.path("b")).unwrap_err().kind(), NotFound);
}

async fn modified(place: Place) {
    write(&place, "a", b"1");
    let before = place.server.disk.metadata(&place.path("a")).unwrap().modified;
    place.server.clock.sleep(std::time::Duration::from_millis(30)).await;
    open(&place, "a", OpenMode::Write).write_at(0, b"2").unwrap();
    let after = place.server.disk.metadata(&place.path("a")).unwrap().modified;
    assert!(after > before, "{before:?} {after:?}");
}

async fn space(place: Place) {
    let space = place.server.disk.space(&place.path("")).unwrap();
    assert!(space.available <= space.total && space.total > 0);
}

async fn locks(place: Place) {
    for _ in 0..3 {
        let lock = place.server.disk.lock(&place.path("lock")).unwrap();
        assert!(place.server.disk.exists(&place.path("lock")));
        drop(lock);
    }
}

async fn mappings_read(place: Place) {
    write(&place, "a", b"before----");
    let file = open(&place, "a", OpenMode::Write);
    let mapping = file.map(10).unwrap();
    file.write_at(6, b"then").unwrap();
    let mut into = [0; 10];
    mapping.read(0, &mut into);
    assert_eq!((&into, mapping.len()), (b"beforethen", 10));
}

async fn mappings_write(place: Place) {
    let file = open(&place, "a", OpenMode::CreateNew);
    file.allocate(8_192).await.unwrap();
    let mapping = file.map(8_192).unwrap();
    mapping.write(0, b"before");
    let pages = mapping.prefault(6, 8_186);
    mapping.write(6, b"then");
    file.write_at(8_000, b"far").unwrap();
    pages.await;
    mapping.write(4_094, b"across");
    file.sync().await.unwrap();
    let bytes = read(&place, "a");
    assert_eq!(
        (&bytes[..10], &bytes[4_094..4_100], &bytes[8_000..8_003]),
        (&b"beforethen"[..], &b"across"[..], &b"far"[..])
    );
}

async fn mappings_outlive(place: Place) {
    write(&place, "a", b"ghost");
    let mapping = open(&place, "a", OpenMode::Write).map(5).unwrap();
    place.server.disk.remove_file(&place.path("a")).unwrap();
    let mut into = [0; 5];
    mapping.read(0, &mut into);
    assert_eq!(&into, b"ghost");
}

async fn mapping_nothing(place: Place) {
    write(&place, "a", b"12");
    let mapping = open(&place, "a", OpenMode::Write).map(2).unwrap();
    assert_eq!((mapping.len(), mapping.is_empty()), (2, false));
}

async fn append_to(place: Place) {
    write(&place, "a", b"0123456789");
    let mapping = open(&place, "a", OpenMode::Write).map(10).unwrap();
    let mut out = b"> ".to_vec();
    mapping.append_to(3, 4, &mut out);
    mapping.append_to(0, 0, &mut out);
    assert_eq!(out, b"> 3456");
}
