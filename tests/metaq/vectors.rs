//! Reads the byte vectors in tests/vectors.

use std::path::PathBuf;

/// The bytes of a wire vector, by its name without `.hex`.
pub fn wire(name: &str) -> Vec<u8> {
    let hex = String::from_utf8(read(&format!("wire/{name}.hex"))).expect("hex digits");
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).expect("ascii"), 16).expect("hex");
    digits.chunks(2).map(byte).collect()
}

/// A file of the store vectors.
pub fn store(name: &str) -> Vec<u8> {
    read(&format!("store/{name}"))
}

/// A JSON file of the store vectors.
pub fn store_json(name: &str) -> serde_json::Value {
    serde_json::from_slice(&store(name)).expect("JSON")
}

/// A body that the Java client compressed.
pub fn compressed(name: &str) -> Vec<u8> {
    read(&format!("compression/{name}"))
}

/// What follows the header in a frame.
pub fn frame_body(frame: &[u8]) -> &[u8] {
    let header = u32::from_be_bytes(frame[4..8].try_into().expect("4 bytes")) & 0x00FF_FFFF;
    &frame[8 + header as usize..]
}

#[expect(clippy::disallowed_methods, reason = "a test reads its vectors from the real disk")]
fn read(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/vectors").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All files of a folder of the fuzz corpus, in the order of their names.
#[expect(clippy::disallowed_methods, reason = "a test reads its corpus from the real disk")]
pub fn corpus(folder: &str) -> Vec<Vec<u8>> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(folder);
    let entries = std::fs::read_dir(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("a readable folder").path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} is empty", path.display());
    paths.iter().map(|path| std::fs::read(path).expect("a readable file")).collect()
}
