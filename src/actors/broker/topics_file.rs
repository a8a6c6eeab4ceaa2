//! `topics.json`, and beside it the changes since it was written: with many topics, to write all of them whenever one is
//! made would take ever longer.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};

use super::saved::Saved;
use crate::broker::topics::TopicTable;
use crate::env::{Canary, Env};
use crate::proto::body::{from_slice, to_vec, TopicConfig, TopicConfigSerializeWrapper};
use crate::store::config_journal::{Change, ConfigJournal, ContentId};

/// With fewer topics the file itself is written each time, as RocketMQ does.
const JOURNAL_FROM: usize = 1024;
/// Bytes of changes above which the file is written again.
const JOURNAL_LEN_MAX: u64 = 1 << 20;
/// Saves of offsets after which changes go into the file itself, so that RocketMQ finds them there too.
const TICKS_MAX: u32 = 6;
/// The name under which a change of the table's version stands: no topic can have it.
const VERSION: &str = "";

/// See the module's text.
pub struct TopicsFile {
    whole: Saved,
    journal: ConfigJournal,
    /// The changes of the table up to this number are on disk.
    saved: u64,
    ticks: u32,
    journal_from: usize,
}

/// What one save has to write.
enum Due {
    Whole(TopicConfigSerializeWrapper),
    Changes(ContentId, Vec<Change>),
}

impl TopicsFile {
    /// Loads `topics.json` and what has changed since.
    ///
    /// # Errors
    /// If there is something that cannot be read: to start without would forget it.
    pub fn open(env: &Env, root: &Path) -> Result<(TopicsFile, TopicConfigSerializeWrapper)> {
        TopicsFile::open_with(env, root, JOURNAL_FROM)
    }

    fn open_with(env: &Env, root: &Path, journal_from: usize) -> Result<(TopicsFile, TopicConfigSerializeWrapper)> {
        let (whole, mut topics) = Saved::open::<TopicConfigSerializeWrapper>(env, root)?;
        let (path, content) = (whole.path().to_owned(), whole.content());
        let (journal, changes) = ConfigJournal::open(Arc::clone(&env.disk), &path, content, 16 * JOURNAL_LEN_MAX)
            .with_context(|| format!("cannot read the changes of {}", path.display()))?;
        let changes = if env.canary(Canary::TopicChangesForgotten) { Vec::new() } else { changes };
        apply(&mut topics, changes).with_context(|| format!("cannot read a change of {}", path.display()))?;
        Ok((TopicsFile { whole, journal, saved: 0, ticks: 0, journal_from }, topics))
    }

    /// Saves what has changed. `topics` shows the table to a function.
    ///
    /// # Errors
    /// A text for the answer's remark.
    pub async fn save(&mut self, topics: impl Fn(&mut dyn FnMut(&TopicTable))) -> Result<(), String> {
        let (mut due, mut count) = (None, 0);
        topics(&mut |table| {
            count = table.changes();
            due = Some(self.due(table));
        });
        let saved = match due {
            Some(Due::Changes(content, changes)) => self.journal.add(content, changes).await.is_ok(),
            Some(Due::Whole(snapshot)) => {
                self.save_snapshot(&snapshot).await?;
                true
            }
            None => false,
        };
        if !saved {
            return self.save_whole(topics).await;
        }
        self.saved = count;
        Ok(())
    }

    /// Saves everything in `topics.json` itself.
    ///
    /// # Errors
    /// A text for the answer's remark.
    pub async fn save_whole(&mut self, topics: impl Fn(&mut dyn FnMut(&TopicTable))) -> Result<(), String> {
        let (mut snapshot, mut count) = (TopicConfigSerializeWrapper::default(), 0);
        topics(&mut |table| (snapshot, count) = (table.snapshot(), table.changes()));
        self.save_snapshot(&snapshot).await?;
        self.saved = count;
        Ok(())
    }

    /// Called every few seconds: whether changes have stood beside the file for long enough.
    pub fn on_tick(&mut self) -> bool {
        self.ticks = if self.journal.is_empty() { 0 } else { self.ticks + 1 };
        self.ticks >= TICKS_MAX
    }

    async fn save_snapshot(&mut self, snapshot: &TopicConfigSerializeWrapper) -> Result<(), String> {
        self.whole.save(snapshot).await?;
        self.ticks = 0;
        if !self.journal.is_empty() {
            self.journal.forget();
        }
        Ok(())
    }

    fn due(&self, table: &TopicTable) -> Due {
        let content = self.whole.content().filter(|_| table.len() >= self.journal_from);
        let content = content.filter(|_| self.journal.len() < JOURNAL_LEN_MAX);
        match (content, table.changes_since(self.saved)) {
            (Some(content), Some(changed)) => {
                let version = (VERSION.to_owned(), Some(to_vec(&table.version())));
                let changed = changed.into_iter().map(|(name, config)| (name.to_string(), config.map(to_vec)));
                Due::Changes(content, changed.chain([version]).collect())
            }
            _ => Due::Whole(table.snapshot()),
        }
    }
}

/// Makes changes to the topics of the file.
fn apply(topics: &mut TopicConfigSerializeWrapper, changes: Vec<Change>) -> Result<()> {
    for (name, value) in changes {
        match value {
            Some(version) if name == VERSION => topics.data_version = from_slice(&version)?,
            Some(config) => {
                topics.topic_config_table.insert(name, from_slice::<TopicConfig>(&config)?);
            }
            None => {
                topics.topic_config_table.remove(&name);
            }
        }
    }
    Ok(())
}

#[cfg(all(test, feature = "tokio"))]
mod tests {
    use std::cell::RefCell;

    use tempfile::TempDir;

    use super::*;
    use crate::broker::topics::TopicRules;
    use crate::broker::Effect;
    use crate::env::{real, Millis, OpenMode};
    use crate::proto::message::system::BootOptions;

    fn block_on<T>(future: impl std::future::Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    /// Journals from the first topic on.
    fn open(root: &TempDir) -> (TopicsFile, RefCell<TopicTable>) {
        let (file, loaded) = TopicsFile::open_with(&real::env(), root.path(), 1).unwrap();
        let rules = TopicRules { auto_create: true, validate_system: true, topics_max: 10_000 };
        let mut effects: Vec<Effect> = Vec::new();
        let boot = BootOptions {
            cluster: "DefaultCluster",
            broker: "broker-a",
            auto_create_topic: true,
            default_topic_queues: 8,
            cluster_topic: true,
            broker_topic: true,
            trace_topic: false,
            trace_topic_name: "RMQ_SYS_TRACE_TOPIC",
            timer: false,
            revive_queues: 8,
        };
        let table = TopicTable::new(rules, &boot, loaded, Millis(1), &mut effects);
        (file, RefCell::new(table))
    }

    fn save(file: &mut TopicsFile, table: &RefCell<TopicTable>) {
        block_on(file.save(|show| show(&table.borrow()))).unwrap();
    }

    fn make(table: &RefCell<TopicTable>, topic: &str, queues: i32) {
        let config = TopicConfig::new(topic, queues, 6);
        table.borrow_mut().update(vec![config], Millis(2), &mut Vec::new()).unwrap();
    }

    fn delete(table: &RefCell<TopicTable>, topic: &str) {
        table.borrow_mut().delete(topic, Millis(3), &mut Vec::new()).unwrap();
    }

    fn text(root: &TempDir, name: &str) -> Option<Vec<u8>> {
        let file = real::env().disk.open(&root.path().join("config").join(name), OpenMode::Read).ok()?;
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_at(0, &mut bytes).unwrap();
        Some(bytes)
    }

    /// Puts `bytes` where the changes stand.
    fn put_changes(root: &TempDir, bytes: &[u8]) {
        let path = root.path().join("config/topics.json.changes");
        real::env().disk.open(&path, OpenMode::Truncate).unwrap().write_at(0, bytes).unwrap();
    }

    #[test]
    fn changes_stand_beside_the_file_until_it_is_written_again() {
        let root = TempDir::new().unwrap();
        let (mut file, table) = open(&root);
        save(&mut file, &table);
        let whole = text(&root, "topics.json").unwrap();
        for number in 0..100 {
            make(&table, &format!("T{number}"), 4);
            save(&mut file, &table);
        }
        make(&table, "T7", 9);
        delete(&table, "T8");
        save(&mut file, &table);
        assert_eq!(text(&root, "topics.json").unwrap(), whole, "nothing of all that costs a whole file");
        let expected = table.borrow().snapshot();
        assert_eq!(open(&root).1.borrow().snapshot(), expected);
        assert!(!expected.topic_config_table.contains_key("T8"));
        assert_eq!(expected.topic_config_table["T7"].read_queue_nums, 9);

        assert_eq!((0..6).map(|_| file.on_tick()).collect::<Vec<_>>(), [false, false, false, false, false, true]);
        block_on(file.save_whole(|show| show(&table.borrow()))).unwrap();
        assert_eq!(text(&root, "topics.json.changes"), None);
        assert_eq!(open(&root).1.borrow().snapshot(), expected);
        assert!(!file.on_tick());
    }

    /// RocketMQ may have had the folder meanwhile, or a power cut may have taken the removal.
    #[test]
    fn changes_of_another_content_count_for_nothing() {
        let root = TempDir::new().unwrap();
        let (mut file, table) = open(&root);
        save(&mut file, &table);
        make(&table, "Old", 4);
        save(&mut file, &table);
        let left = text(&root, "topics.json.changes").unwrap();
        delete(&table, "Old");
        block_on(file.save_whole(|show| show(&table.borrow()))).unwrap();
        put_changes(&root, &left);
        let (mut file, table) = open(&root);
        assert!(!table.borrow().snapshot().topic_config_table.contains_key("Old"));
        make(&table, "New", 4);
        save(&mut file, &table);
        let names = open(&root).1.borrow().snapshot().topic_config_table;
        assert!(names.contains_key("New") && !names.contains_key("Old"));
    }

    /// A crash may leave any part of the last block.
    #[test]
    fn a_torn_change_ends_what_counts() {
        let root = TempDir::new().unwrap();
        let (mut file, table) = open(&root);
        save(&mut file, &table);
        make(&table, "A", 4);
        save(&mut file, &table);
        let one = text(&root, "topics.json.changes").unwrap().len();
        make(&table, "B", 4);
        save(&mut file, &table);
        let two = text(&root, "topics.json.changes").unwrap();
        for len in one..two.len() {
            put_changes(&root, &two[..len]);
            let (mut file, table) = open(&root);
            let names = table.borrow().snapshot().topic_config_table;
            assert!(names.contains_key("A") && !names.contains_key("B"), "{len} bytes");
            make(&table, "C", 4);
            save(&mut file, &table);
            let names = open(&root).1.borrow().snapshot().topic_config_table;
            assert!(names.contains_key("A") && names.contains_key("C") && !names.contains_key("B"), "{len} bytes");
        }
    }
}
