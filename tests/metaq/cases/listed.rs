//! The list of cases is kept by hand; this keeps it true.

use std::collections::BTreeSet;
use std::path::Path;

/// The areas whose every case is listed, with their last numbers.
const AREAS: [(&str, u32); 11] = [
    ("STO", 11),
    ("DSK", 5),
    ("IDX", 6),
    ("CFG", 4),
    ("NSR", 7),
    ("OFF", 10),
    ("RTY", 7),
    ("DLY", 11),
    ("TXN", 8),
    ("WIR", 6),
    ("RES", 5),
];

fn functions(directory: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            functions(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let names = text.split("fn ").skip(1).filter_map(|rest| rest.split('(').next());
            found.extend(names.map(str::to_owned));
        }
    }
}

#[test]
fn every_case_is_listed_and_every_test_listed_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let list = std::fs::read_to_string(root.join("tests/CASES.md")).unwrap();
    let mut existing = BTreeSet::new();
    for directory in ["src", "tests/metaq", "sim/src", "sim/scenarios", "sim/tests"] {
        functions(&root.join(directory), &mut existing);
    }
    let rows: Vec<Vec<&str>> = list
        .lines()
        .filter(|line| line.starts_with("| ") && line.contains('-') && !line.starts_with("| ---"))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    for row in &rows {
        for name in row[1].split('`').skip(1).step_by(2) {
            assert!(existing.contains(name), "{}: there is no `{name}`", row[0]);
        }
        assert!(row[1].contains('`') || row[1].len() > 10, "{}: neither a test nor a reason", row[0]);
    }
    let listed: BTreeSet<&str> = rows.iter().map(|row| row[0]).collect();
    for (area, last) in AREAS {
        for number in 1..=last {
            let case = format!("{area}-{number}");
            assert!(listed.contains(case.as_str()), "{case} is not listed");
        }
    }
    assert!(listed.contains("OTH-7"));
}
