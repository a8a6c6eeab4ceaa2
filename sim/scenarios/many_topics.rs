//! More topics than are written whole for each change.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use metaq::proto::body::{from_slice, to_vec, TopicConfig, TopicConfigList, TopicConfigSerializeWrapper};
use metaq::proto::remoting::requests::{DeleteTopicInBroker, UpdateAndCreateTopic};
use metaq::proto::remoting::{request, Command};

use crate::checkers::Violation;
use crate::cluster::Cluster;
use crate::faults;
use crate::plan::Plan;
use crate::random::Stream;
use crate::scenarios::{Scenario, Verdict};
use crate::stage::begin_faults;
use crate::world::World;

/// Single topics change where changes stand beside the file.
pub const MANY_TOPICS: Scenario = Scenario {
    name: "many_topics",
    story:
        "a broker has so many topics that changes of single ones are saved beside the file; they are made, changed and \
            deleted through power cuts and kills, and what was answered holds",
    draft: |d| {
        d.nameservers(1..=1).brokers(1..=1);
        d.faults(1..=4, &["power_cut", "power_cut", "kill"]);
        let mut random = d.random("when");
        d.each_fault(|timed| timed.at_us = 2_000_000 + random.below(50_000_000));
    },
    play: |world, plan| play(world, plan).boxed_local(),
};

/// Enough for changes to stand beside the file.
const TOPICS: usize = 1_100;
/// Those that change.
const CHANGING: u64 = 40;
/// How long topics change at least.
const SPAN: Duration = Duration::from_secs(60);

async fn play(world: World, plan: Arc<Plan>) -> Verdict {
    let cluster = Cluster::start(&world, &plan).await;
    let topics = (0..TOPICS).map(|number| TopicConfig::new(name(number as u64), 1, 6)).collect();
    let list = to_vec(&TopicConfigList { topic_config_list: topics });
    cluster.ask(0, Command::request(request::UPDATE_AND_CREATE_TOPIC_LIST).with_body(list)).await?;
    let mut operator = Operator {
        cluster: &cluster,
        random: world.random("operator"),
        known: (0..TOPICS).map(|number| (name(number as u64), 1)).collect(),
    };
    begin_faults(&world, &plan);
    let end = (world.began() + plan.faults_end()).max(world.now() + SPAN);
    while world.now() < end {
        operator.act().await?;
        if operator.random.below(20) == 0 {
            operator.compare().await?;
        }
    }
    faults::heal(&world);
    world.sleep(Duration::from_secs(10)).await;
    operator.compare().await
}

fn name(number: u64) -> String {
    format!("many-{number:04}")
}

/// Changes topics one after the other; each change is asked for until it is answered.
struct Operator<'a> {
    cluster: &'a Cluster,
    random: Stream,
    /// The topics that there have to be, with their queues.
    known: BTreeMap<String, i32>,
}

impl Operator<'_> {
    async fn act(&mut self) -> Verdict {
        // Now and then long enough for changes to go into the file itself.
        let most = *self.random.pick(&[5, 50, 500, 500, 8_000]);
        self.cluster.world.sleep(Duration::from_millis(self.random.below(most))).await;
        // Old ones and new ones.
        let topic = name(TOPICS as u64 - CHANGING / 2 + self.random.below(CHANGING));
        if self.known.contains_key(&topic) && self.random.below(2) == 0 {
            let delete = DeleteTopicInBroker { topic: topic.as_str().into() };
            self.cluster.ask(0, Command::request(request::DELETE_TOPIC_IN_BROKER).with_ext(&delete)).await?;
            self.known.remove(&topic);
            return Ok(());
        }
        let queues = 1 + self.random.below(8) as i32;
        let make = UpdateAndCreateTopic {
            topic: topic.as_str().into(),
            default_topic: None,
            read_queue_nums: queues,
            write_queue_nums: queues,
            perm: 6,
            topic_filter_type: None,
            topic_sys_flag: 0,
            order: false,
            attributes: None,
            force: false,
        };
        self.cluster.ask(0, Command::request(request::UPDATE_AND_CREATE_TOPIC).with_ext(&make)).await?;
        self.known.insert(topic, queues);
        Ok(())
    }

    /// The broker has what it said it has.
    async fn compare(&self) -> Verdict {
        let answer = self.cluster.ask(0, Command::request(request::GET_ALL_TOPIC_CONFIG)).await?;
        let topics: TopicConfigSerializeWrapper =
            from_slice(&answer.body).map_err(|error| Violation::new("tables can be read", error.to_string()))?;
        let many = topics.topic_config_table.into_iter().filter(|(name, _)| name.starts_with("many-"));
        let there: BTreeMap<String, i32> = many.map(|(name, topic)| (name, topic.write_queue_nums)).collect();
        let wrong = |(name, queues): &(&String, &i32)| there.get(*name) != Some(*queues);
        let missing = self.known.iter().find(wrong);
        let extra = there.iter().find(|(name, _)| !self.known.contains_key(*name));
        if missing.is_none() && extra.is_none() {
            return Ok(());
        }
        let finding = format!("missing or other than answered: {missing:?}; deleted and there: {extra:?}");
        Err(Violation::new("topics are kept", finding))
    }
}
