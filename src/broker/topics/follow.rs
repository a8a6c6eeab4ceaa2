//! The topics of a slave: those of its master.

use std::sync::Arc;

use crate::broker::metadata_sync::{take_over, Table};
use crate::broker::Effect;
use crate::proto::body::{TopicConfig, TopicConfigSerializeWrapper};

use super::{TopicTable, TopicView, STORED_NAME_MAX};

impl TopicTable {
    /// Takes over the topics of a slave's master; `anew` if another process tells than the last time, see
    /// [`metadata_sync`](crate::broker::metadata_sync). A topic that is gone goes with its queues. One with an illegal
    /// name is left out and keeps none of the others away (REP-6).
    pub fn follow(&mut self, master: TopicConfigSerializeWrapper, anew: bool, out: &mut Vec<Effect>) {
        let version = master.data_version;
        let mut new = Table::new();
        for (name, config) in master.topic_config_table {
            if name.is_empty() || name.len() > STORED_NAME_MAX {
                tracing::warn!(bytes = name.len(), "a topic of the master has an illegal name and is left out");
                continue;
            }
            let view = TopicView::new(TopicConfig { topic_name: name, ..config });
            new.insert(Arc::clone(view.name()), Arc::new(view));
        }
        let before = self.followed.take().filter(|_| !anew);
        let taken = take_over((&self.topics, &self.version), before.as_ref(), (&new, &version));
        let changed = !taken.put.is_empty() || !taken.remove.is_empty();
        if anew && !taken.whole {
            tracing::warn!(
                own = ?self.version,
                master = ?version,
                "the master's topics are older than this slave's: it has lost some, and takes none away here"
            );
        }
        taken.put.into_iter().for_each(|topic| self.publish(topic));
        for name in taken.remove {
            self.topics.remove(&name);
            self.directory.withdraw(&name);
            self.changes.add(Arc::clone(&name));
            out.push(Effect::DropQueues { topic: Arc::clone(&name) });
            out.push(Effect::ForgetTopicOffsets { topic: name });
        }
        if changed || taken.whole && self.version != version {
            self.version = if taken.whole { version } else { self.version };
            out.push(Effect::PersistTopics);
            out.push(Effect::Register);
        }
        self.followed = Some(new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::role::Role;
    use crate::broker::topics::TopicRules;
    use crate::env::Millis;
    use crate::proto::message::system::BootOptions;

    const WALL: Millis = Millis(1);

    fn table() -> TopicTable {
        let rules = TopicRules { auto_create: true, validate_system: true, topics_max: 1000 };
        let boot = BootOptions {
            cluster: "C",
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
        TopicTable::new(rules, &boot, TopicConfigSerializeWrapper::default(), WALL, &mut Vec::new())
    }

    fn made(master: &mut TopicTable, name: &str) {
        master.update(vec![TopicConfig::new(name, 4, 6)], WALL, &mut Vec::new()).unwrap();
    }

    /// REP-6: a slave stopped at the first topic with attributes.
    #[test]
    fn rep_6_every_topic_is_copied_with_its_attributes() {
        let (mut master, mut slave, mut out) = (table(), table().with_role(Role::slave(1)), Vec::new());
        let attributes = [("+message.type".to_owned(), "FIFO".to_owned())].into();
        let fifo = TopicConfig { attributes, ..TopicConfig::new("Fifo", 4, 6) };
        master.update(vec![fifo], WALL, &mut out).unwrap();
        made(&mut master, "Plain");
        let mut told = master.snapshot();
        told.topic_config_table.insert("x".repeat(300), TopicConfig::new("x".repeat(300), 1, 6));
        out.clear();
        slave.follow(told.clone(), true, &mut out);
        assert_eq!(out, [Effect::PersistTopics, Effect::Register]);
        assert_eq!(slave.snapshot(), master.snapshot());
        out.clear();
        slave.follow(told, false, &mut out);
        assert_eq!(out, [], "nothing has changed");
    }

    #[test]
    fn a_topic_that_is_gone_goes_with_its_queues() {
        let (mut master, mut slave, mut out) = (table(), table().with_role(Role::slave(1)), Vec::new());
        made(&mut master, "Orders");
        slave.follow(master.snapshot(), true, &mut out);
        slave.ensure("%RETRY%here", 1, false, 0, WALL, &mut out).unwrap();
        master.delete("Orders", WALL, &mut out).unwrap();
        out.clear();
        slave.follow(master.snapshot(), false, &mut out);
        assert_eq!(out[0], Effect::DropQueues { topic: "Orders".into() });
        assert!(slave.get("Orders").is_none() && slave.directory().get("Orders").is_none());
        assert!(slave.get("%RETRY%here").is_some(), "made for a consumer that came here");
        assert_eq!(slave.version(), master.version());
    }
}
