//! Config files against power cuts, bad files and refusing disks.

use std::collections::BTreeSet;
use std::io;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use metaq::store::config_file::{ConfigFile, ConfigLoadError, ConfigSaveError, Loaded};

use crate::mem_disk::{now, MemDisk, Op};

const LEN_MAX: u64 = 1000;

fn path() -> PathBuf {
    PathBuf::from("/store/config/topics.json")
}

fn backup() -> PathBuf {
    PathBuf::from("/store/config/topics.json.bak")
}

/// Complete versions look like `{…}`.
fn parse(bytes: &[u8]) -> Result<String, String> {
    let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
    match text.starts_with('{') && text.ends_with('}') {
        true => Ok(text.to_string()),
        false => Err("it is not complete".to_string()),
    }
}

fn open(disk: &MemDisk) -> Result<(ConfigFile, Loaded<String>), ConfigLoadError> {
    ConfigFile::open(disk.door(), path(), LEN_MAX, parse)
}

fn load(disk: &MemDisk) -> Option<String> {
    open(disk).expect("a version loads").1.into_value()
}

/// Cuts the power after every number of operations in `range` and returns every version that loads then.
fn versions_after_cuts(disk: &MemDisk, range: RangeInclusive<usize>) -> BTreeSet<Option<String>> {
    range.flat_map(|done| disk.power_cuts(done)).map(|found| load(&found)).collect()
}

#[test]
fn what_is_saved_is_loaded_and_the_version_before_is_kept() {
    let disk = MemDisk::new();
    let (mut file, nothing) = open(&disk).unwrap();
    assert!(matches!(nothing, Loaded::Nothing));
    now(file.save("{标签 1}".as_bytes())).unwrap();
    assert_eq!(disk.get(backup()), None);
    now(file.save(b"{2}")).unwrap();
    assert_eq!(load(&disk).as_deref(), Some("{2}"));
    assert_eq!(disk.get(backup()).unwrap(), "{标签 1}".as_bytes(), "CFG-4: byte by byte");
    assert_eq!(disk.files(), [path(), backup()], "no new version is left over");
}

/// CFG-2: a config file vanished after the host went down.
#[test]
fn cfg_2_at_every_cut_the_old_or_the_new_version_loads() {
    let disk = MemDisk::new();
    let (mut file, _) = open(&disk).unwrap();
    now(file.save(b"{1}")).unwrap();
    let first = disk.ops().len();
    now(file.save(b"{2}")).unwrap();
    let second = disk.ops().len();
    now(file.save(b"{3}")).unwrap();
    let some = |text: &str| Some(text.to_string());
    assert_eq!(versions_after_cuts(&disk, second..=disk.ops().len()), BTreeSet::from([some("{2}"), some("{3}")]));
    assert_eq!(versions_after_cuts(&disk, first..=second), BTreeSet::from([some("{1}"), some("{2}")]));
    assert_eq!(
        versions_after_cuts(&disk, 0..=first),
        BTreeSet::from([None, some("{1}")]),
        "before the first save there is nothing"
    );
}

/// CFG-1: power loss during a save destroyed both the config file and its backup.
#[test]
fn cfg_1_a_bad_main_never_replaces_a_good_backup() {
    for bad in [&b""[..], b"{torn", &[0; 64], &[b' '; LEN_MAX as usize + 1]] {
        let disk = MemDisk::new();
        disk.put(backup(), b"{1}");
        disk.put(path(), bad);
        let image = disk.durable();
        let (mut file, loaded) = open(&image).unwrap();
        assert!(matches!(&loaded, Loaded::Backup { value, .. } if value == "{1}"), "{loaded:?}");
        let before = image.ops().len();
        now(file.save(b"{2}")).unwrap();
        let found = versions_after_cuts(&image, before..=image.ops().len());
        assert_eq!(found, BTreeSet::from([Some("{1}".to_string()), Some("{2}".to_string())]));
        assert_eq!(image.get(backup()).unwrap(), b"{1}");
    }
}

#[test]
fn a_missing_main_loads_the_backup_and_is_made_again() {
    let disk = MemDisk::new();
    disk.put(backup(), b"{1}");
    let (mut file, loaded) = open(&disk).unwrap();
    assert!(matches!(loaded, Loaded::Backup { main, .. } if main == "it is missing"));
    now(file.save(b"{2}")).unwrap();
    now(file.save(b"{3}")).unwrap();
    assert_eq!((disk.get(path()).unwrap(), disk.get(backup()).unwrap()), (b"{3}".to_vec(), b"{2}".to_vec()));
}

/// Starting with an empty table would let auto-creation fill in for what was lost.
#[test]
fn two_bad_files_are_an_error_and_not_an_empty_table() {
    let disk = MemDisk::new();
    disk.put(path(), b"{torn");
    let error = open(&disk).map(|_| ()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "/store/config/topics.json and its backup are both unusable: it is not complete; it is missing"
    );
    disk.put(backup(), b"");
    assert!(matches!(open(&disk), Err(ConfigLoadError::Unusable { .. })));
}

/// Every operation of a save fails once, alone or for ever: the old or the new version loads, then and after a cut.
#[test]
fn a_refusing_disk_costs_the_save_and_nothing_else() {
    for first_refused in 0..8 {
        for for_ever in [false, true] {
            let disk = MemDisk::new();
            let (mut file, _) = open(&disk).unwrap();
            now(file.save(b"{0}")).unwrap();
            now(file.save(b"{1}")).unwrap();
            let before = disk.ops().len();
            let mut seen = 0;
            disk.refuse(move |_| {
                seen += 1;
                (seen - 1 == first_refused || for_ever && seen > first_refused).then_some(io::ErrorKind::StorageFull)
            });
            let saved = now(file.save(b"{2}"));
            let loads = load(&disk).unwrap();
            assert!(loads == "{1}" || loads == "{2}", "{loads}");
            assert_eq!(file.failed_saves(), u64::from(saved.is_err()), "CFG-3: failed saves are counted");
            disk.refuse_nothing();
            now(file.save(b"{3}")).unwrap();
            assert_eq!(load(&disk).unwrap(), "{3}");
            for found in versions_after_cuts(&disk, before..=disk.ops().len()) {
                assert!(["{1}", "{2}", "{3}"].contains(&found.as_deref().unwrap()), "{found:?}");
            }
        }
    }
}

/// CFG-3: the error says which file and what the disk said.
#[test]
fn cfg_3_a_failed_save_says_why() {
    let disk = MemDisk::new();
    let (mut file, _) = open(&disk).unwrap();
    disk.refuse(|op| matches!(op, Op::Write { .. }).then_some(io::ErrorKind::ReadOnlyFilesystem));
    let error = now(file.save(b"{1}")).unwrap_err();
    assert_eq!(error.to_string(), "cannot write the new version of /store/config/topics.json: refused by the test");
    assert_eq!(file.failed_saves(), 1);
}

#[test]
fn too_long_a_content_is_refused_before_anything_is_touched() {
    let disk = MemDisk::new();
    let (mut file, _) = open(&disk).unwrap();
    now(file.save(b"{1}")).unwrap();
    let before = disk.ops();
    let refused = now(file.save(&[b'{'; LEN_MAX as usize + 1]));
    assert!(matches!(refused, Err(ConfigSaveError::TooLarge { len: 1001, limit: LEN_MAX, .. })));
    assert_eq!(disk.ops(), before);
}
