//! Reads the sources and says where they leave the plan of DESIGN.md: who may use whom, and who may touch the world.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Modules of `src/` and the modules each may name, besides itself.
fn allowed() -> BTreeMap<&'static str, Vec<&'static str>> {
    let base = vec!["env"];
    let proto = base.clone();
    let config = [base.clone(), vec!["proto"]].concat();
    let store = [proto.clone(), vec!["proto", "config"]].concat();
    let rules = [store.clone(), vec!["store"]].concat();
    let actors = [rules.clone(), vec!["nameserver", "broker", "ha"]].concat();
    let client = [proto.clone(), vec!["proto", "store", "actors", "audit"]].concat();
    let cli = [actors.clone(), vec!["actors", "client", "audit"]].concat();
    BTreeMap::from([
        ("env", vec![]),
        ("config", config),
        ("proto", proto),
        ("store", store),
        ("nameserver", rules.clone()),
        ("broker", rules.clone()),
        ("ha", rules),
        ("actors", actors),
        ("audit", vec!["proto", "store"]),
        ("client", client),
        ("cli", cli),
    ])
}

/// Modules whose code decides and therefore names no runtime.
const DECIDE: [&str; 7] = ["proto", "store", "nameserver", "broker", "ha", "config", "audit"];
/// They panic when nobody reads any more.
const LOUD: [&str; 4] = [" println!(", " eprintln!(", " print!(", " eprint!("];
/// The world, which only `env/real` touches.
const WORLD: [&str; 9] = [
    "memmap2",
    "libc::",
    "std::fs",
    "tokio::net",
    "std::net::Tcp",
    "SystemTime::now",
    "Instant::now",
    "spawn_blocking",
    "rand::rng(",
];

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The lines that ship: no comments, and nothing from the unit tests on, which stand last in a file.
fn shipped_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .take_while(|(_, line)| !line.trim_start().starts_with("#[cfg(test)]"))
        .map(|(at, line)| (at + 1, line.split("//").next().unwrap_or("")))
}

fn findings() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let allowed = allowed();
    let mut findings = Vec::new();
    for path in files {
        let relative = path.strip_prefix(&root).unwrap();
        let module = relative.components().next().unwrap().as_os_str().to_str().unwrap().trim_end_matches(".rs");
        let text = std::fs::read_to_string(&path).unwrap();
        let real = relative.starts_with("env/real");
        for (at, line) in shipped_lines(&text) {
            let place = format!("src/{}:{at}", relative.display());
            for (used, _) in line.match_indices("crate::").filter_map(|(start, _)| {
                let name = &line[start + "crate::".len()..];
                let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(name.len());
                allowed.contains_key(&name[..end]).then_some((&name[..end], ()))
            }) {
                if module != used && allowed.get(module).is_some_and(|may| !may.contains(&used)) {
                    findings.push(format!("{place}: `{module}` may not use `{used}`"));
                }
            }
            if DECIDE.contains(&module) || relative.starts_with("client/rules") {
                for runtime in ["tokio", "ractor"] {
                    if line.contains(runtime) {
                        findings.push(format!("{place}: `{module}` decides and may not name {runtime}"));
                    }
                }
            }
            for loud in LOUD.iter().filter(|loud| line.contains(**loud)) {
                findings.push(format!("{place}: `{}` panics behind `| head`: use cli::console", loud.trim()));
            }
            if !real {
                for world in WORLD.iter().filter(|world| line.contains(**world)) {
                    findings.push(format!("{place}: `{world}` stands behind the traits of `env`"));
                }
            }
        }
    }
    findings
}

#[test]
fn the_sources_keep_to_the_plan() {
    let findings = findings();
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}
