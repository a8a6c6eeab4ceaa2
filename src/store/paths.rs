//! Names of files and directories below the store's root.

use std::path::{Path, PathBuf};

/// Digits of a file's name: its first byte's position in the family of files.
const NAME_DIGITS: usize = 20;

/// The name of the file that begins at `base`.
pub fn file_name(base: u64) -> String {
    format!("{base:0NAME_DIGITS$}")
}

/// Where the file of this name begins; `None` for a name of another form.
pub fn file_base(name: &str) -> Option<u64> {
    (name.len() == NAME_DIGITS && name.bytes().all(|b| b.is_ascii_digit())).then(|| name.parse().ok()).flatten()
}

/// The consume queues' directory.
pub fn consume_queue_dir(root: &Path) -> PathBuf {
    root.join("consumequeue")
}

/// Directory of one queue. Topic names are legal file names: the broker's name check leaves no `/`, and `.` and `..`
/// are refused by [`is_directory_name`].
pub fn queue_dir(root: &Path, topic: &str, queue_id: u32) -> PathBuf {
    consume_queue_dir(root).join(topic).join(queue_id.to_string())
}

/// Whether a topic can be a directory's name.
pub fn is_directory_name(topic: &str) -> bool {
    !topic.is_empty() && topic.len() <= 255 && topic != "." && topic != ".." && !topic.contains(['/', '\0'])
}

/// The index files' directory.
pub fn index_dir(root: &Path) -> PathBuf {
    root.join("index")
}

/// The timer log's directory, see [`super::timer`]; RocketMQ ignores it: its own is called `timerlog`.
pub fn timer_log_dir(root: &Path) -> PathBuf {
    root.join("timer")
}

/// The marker that stands while the store is open.
pub fn abort(root: &Path) -> PathBuf {
    root.join("abort")
}

/// The file that carries the lock.
pub fn lock(root: &Path) -> PathBuf {
    root.join("lock")
}

/// RocketMQ's checkpoint.
pub fn checkpoint(root: &Path) -> PathBuf {
    root.join("checkpoint")
}

/// metaq's own table of queue lengths, see [`super::queue_table`]; RocketMQ ignores it.
pub fn queue_table(root: &Path) -> PathBuf {
    root.join("queueTable")
}

/// metaq's own list of deleted topics, see [`super::deleted_topics`]; RocketMQ ignores it.
pub fn deleted_topics(root: &Path) -> PathBuf {
    root.join("deletedTopics")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_twenty_digits() {
        assert_eq!(file_name(1_073_741_824), "00000000001073741824");
        assert_eq!(file_base("00000000001073741824"), Some(1_073_741_824));
        for other in ["", "1073741824", "0000000000107374182x", "00000000001073741824.bak", "99999999999999999999"] {
            assert_eq!(file_base(other), None, "{other}");
        }
    }

    #[test]
    fn some_topics_cannot_be_directories() {
        assert!(is_directory_name("%RETRY%group"));
        for other in ["", ".", "..", "a/b", "a\0"] {
            assert!(!is_directory_name(other), "{other:?}");
        }
    }
}
