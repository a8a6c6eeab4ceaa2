use super::*;
use crate::proto::body::config_files::ConfigFile;
use crate::proto::body::ConsumerOffsetSerializeWrapper as Wrapper;

const NOW: Millis = Millis(1000);
const WALL: Millis = Millis(1_700_000_000_000);

fn table() -> OffsetTable {
    OffsetTable::new(500, 100)
}

fn commit(table: &mut OffsetTable, group: &str, queue: (&str, i32), offset: i64) -> Commit {
    table.commit(group, queue, offset, (Who::Other, None), NOW, &mut Vec::new())
}

fn pull(table: &mut OffsetTable, from: i64, commit: Option<i64>, by: &Arc<str>) -> (Option<i64>, Vec<Effect>) {
    let (topic, mut out) = ("t".into(), Vec::new());
    let by = Who::Member(by);
    let step = PullStep { group: "g", topic: &topic, queue_id: 0, from, commit, by, holder: None };
    (table.pull(step, NOW, &mut out), out)
}

fn facts(min: i64, max: i64) -> QueueFacts {
    QueueFacts { topic_exists: true, min, max, first_is_recent: true }
}

/// OFF-5: first commits of a new group for two queues at once: one was lost. All orders of the four commits.
#[test]
fn off_5_first_commits_do_not_replace_each_other() {
    for order in 0..24 {
        let (mut left, mut order) = (vec![(0, 5), (1, 6), (0, 7), (1, 8)], order);
        let (mut table, mut last) = (table(), BTreeMap::new());
        while !left.is_empty() {
            let (queue_id, offset) = left.remove(order % left.len());
            order /= left.len() + 1;
            commit(&mut table, "g", ("t", queue_id), offset);
            last.insert(queue_id, offset);
        }
        let again = OffsetTable::load(table.snapshot(WALL), 500, 100);
        assert_eq!(again.offsets("g", "t").collect::<BTreeMap<_, _>>(), last, "after a restart");
    }
}

/// OFF-3 and OFF-7: the piggybacked offset of the pull that fetched a reset is not committed.
#[test]
fn off_7_the_pull_that_fetches_a_reset_does_not_undo_it() {
    let (mut table, client) = (table(), Arc::from("a"));
    pull(&mut table, 100, Some(100), &client);
    table.reset("g", ("t", 0), 40, &mut Vec::new());
    assert_eq!(table.query("g", ("t", 0), true, facts(0, 200)), Some(40), "a restarted consumer begins there");
    assert_eq!(pull(&mut table, 120, Some(110), &client).0, Some(40));
    assert_eq!(table.committed_offset("g", "t", 0), Some(40));
    assert_eq!(pull(&mut table, 40, Some(40), &client).0, None);
    assert_eq!(pull(&mut table, 45, Some(45), &client).0, None);
    let again = OffsetTable::load(table.snapshot(WALL), 500, 100);
    assert_eq!(again.committed_offset("g", "t", 0), Some(45), "after a restart");
}

/// OTH-7: the report names everyone and the numbers.
#[test]
fn oth_7_a_late_commit_is_reported() {
    let (mut table, a, b) = (table(), Arc::from("a"), Arc::from("b"));
    pull(&mut table, 100, None, &a);
    pull(&mut table, 100, Some(200), &b);
    let mut out = Vec::new();
    let late = table.commit("g", ("t", 0), 100, (Who::Member(&a), None), NOW, &mut out);
    assert_eq!(late, Commit::Late { kept: 200 });
    let [Effect::Report(report)] = out.as_slice() else { panic!("{out:?}") };
    assert_eq!(report.to_string(), "ignored a late commit of 100 by a in group g: t queue 0 stays at 200");
}

/// OFF-4: offsets of a deleted topic came back with the next topic of that name.
#[test]
fn off_4_nothing_of_a_deleted_topic_stays() {
    let (mut table, client) = (table(), Arc::from("a"));
    pull(&mut table, 1000, Some(1000), &client);
    table.reset("g", ("t", 1), 7, &mut Vec::new());
    commit(&mut table, "g", ("other", 0), 3);
    table.remove_topic("t");
    assert_eq!(table.query("g", ("t", 0), true, facts(0, 10)), Some(0));
    assert_eq!(table.pulled_offset("g", "t", 0), None);
    assert_eq!(pull(&mut table, 0, None, &client).0, None, "no reset is left either");
    assert_eq!(table.len(), 2);
    table.remove_group("g");
    assert!(table.is_empty());
}

/// OFF-8: a message that came between the question for the offset and the start was skipped.
#[test]
fn off_8_an_empty_queue_begins_at_0() {
    let table = table();
    let query = |topic, zero, facts| table.query("g", (topic, 0), zero, facts);
    assert_eq!(query("t", true, facts(0, 0)), Some(0), "never written");
    assert_eq!(query("t", true, facts(0, 9)), Some(0), "young");
    assert_eq!(query("t", true, QueueFacts { first_is_recent: false, ..facts(0, 9) }), None, "old");
    assert_eq!(query("t", true, facts(5, 9)), None, "its head has expired");
    assert_eq!(query("t", true, facts(9, 9)), None, "all of it has expired");
    assert_eq!(query("t", false, facts(0, 0)), None, "not wanted");
    assert_eq!(query("t", true, QueueFacts { topic_exists: false, ..facts(0, 0) }), None);
}

/// RTY-7: the first retries of a new group were skipped.
#[test]
fn rty_7_a_retry_queue_begins_at_its_first_message() {
    let table = table();
    let old = QueueFacts { first_is_recent: false, ..facts(3, 9) };
    assert_eq!(table.query("g", ("%RETRY%g", 0), true, old), Some(3));
}

#[test]
fn minus_one_reads_back_as_none() {
    let mut table = table();
    commit(&mut table, "g", ("t", 0), -1);
    assert_eq!(table.query("g", ("t", 0), false, facts(0, 0)), None);
    assert!(table.snapshot(WALL).offset_table.is_empty());
}

#[test]
fn a_group_can_be_cloned() {
    let mut table = table();
    for (topic, queue_id, offset) in [("t", 0, 5), ("t", 1, 6), ("u", 0, 7)] {
        commit(&mut table, "source", (topic, queue_id), offset);
    }
    assert_eq!(table.clone_group("source", "copy", &["t"], &mut Vec::new()), 2);
    assert_eq!(table.offsets("copy", "t").collect::<Vec<_>>(), [(0, 5), (1, 6)]);
    assert_eq!(table.clone_group("source", "all", &[], &mut Vec::new()), 3);
    assert_eq!(table.groups_of("u").map(|group| &**group).collect::<Vec<_>>(), ["all", "source"]);
    assert_eq!(table.clone_group("nobody", "x", &[], &mut Vec::new()), 0);
}

#[test]
fn the_table_is_bounded_and_says_so() {
    let (mut table, mut out) = (OffsetTable::new(500, 1), Vec::new());
    commit(&mut table, "g", ("t", 0), 1);
    table.commit("g", ("t", 1), 1, (Who::Other, None), NOW, &mut out);
    assert_eq!(out, [Effect::Report(Report::TableFull { setting: "offsetsMax", limit: 1 })]);
    assert_eq!(table.len(), 1);
}

#[test]
fn the_version_steps_with_the_updates() {
    let mut table = OffsetTable::new(3, 100);
    for offset in 0..7 {
        commit(&mut table, "g", ("t", 0), offset);
    }
    assert!(table.take_dirty() && !table.take_dirty());
    assert_eq!(table.snapshot(WALL).data_version.map(|version| version.counter), Some(2));
    assert_eq!(table.snapshot(WALL).data_version.map(|version| version.counter), Some(2));
}

#[test]
fn the_files_of_apache_brokers_are_read_and_kept() {
    for bytes in [
        include_bytes!("../../../tests/vectors/store/captured/config/consumerOffset.json").as_slice(),
        include_bytes!("../../../tests/vectors/store/config-samples/consumerOffset.json"),
    ] {
        let loaded = Wrapper::parse(bytes).unwrap();
        let mut table = OffsetTable::load(loaded.clone(), 500, 100);
        let mut kept = table.snapshot(WALL);
        assert_eq!((&kept.offset_table, kept.data_version), (&loaded.offset_table, loaded.data_version));
        // The order of the topics in it carries nothing.
        let mut listed = loaded.group_topic_map.unwrap();
        listed.values_mut().for_each(|topics| topics.sort());
        assert_eq!(kept.group_topic_map.take(), Some(listed));
        assert!(!table.take_dirty());
    }
    let broadcast = Wrapper::parse(br#"{"offsetTable":{"t@g@broadcast":{0:7},"nonsense":{0:1}}}"#).unwrap();
    let mut table = OffsetTable::load(broadcast, 500, 100);
    assert_eq!(table.committed_offset("g@broadcast", "t", 0), Some(7));
    assert_eq!(table.groups_of("t").count(), 0);
    assert_eq!(table.snapshot(WALL).offset_table.keys().collect::<Vec<_>>(), ["t@g@broadcast"]);
}

/// OFF-7: after a restart of the broker the running consumer's next commit undid the reset.
#[test]
fn off_7_a_reset_survives_a_restart_and_goes_to_slaves() {
    let (mut table, a, b) = (table(), Arc::from("a"), Arc::from("b"));
    pull(&mut table, 100, Some(100), &a);
    table.reset("g", ("t", 0), 40, &mut Vec::new());
    let file = Wrapper::parse(&table.snapshot(WALL).print()).unwrap();
    let mut slave = OffsetTable::new(500, 100).with_role(Role::slave(1));
    slave.follow(file.clone(), true, NOW, &mut Vec::new());
    let mut restarted = OffsetTable::load(file, 500, 100);
    for table in [&mut restarted, &mut slave] {
        let late = table.commit("g", ("t", 0), 110, (Who::Member(&a), None), NOW, &mut Vec::new());
        assert_eq!((late, table.committed_offset("g", "t", 0)), (Commit::Resetting, Some(40)));
    }
    assert_eq!(pull(&mut restarted, 110, Some(110), &a).0, Some(40));
    let before = restarted.changes();
    assert_eq!(pull(&mut restarted, 40, None, &b).0, None);
    assert!(restarted.changes() > before, "slaves are told that it is over");
    let taken_up = restarted.snapshot(WALL);
    assert!(taken_up.reset_table.is_empty());
    slave.follow(taken_up, false, NOW, &mut Vec::new());
    let commit = slave.commit("g", ("t", 0), 41, (Who::Member(&b), None), NOW, &mut Vec::new());
    assert_eq!(commit, Commit::Stored);
}

/// A former owner that comes back on a new connection has not said who it is yet.
#[test]
fn off_7_a_nameless_commit_does_not_undo_a_reset_that_was_taken_up() {
    let (mut table, a) = (table(), Arc::from("a"));
    table.reset("g", ("t", 0), 40, &mut Vec::new());
    pull(&mut table, 40, None, &a);
    assert_eq!(commit(&mut table, "g", ("t", 0), 110), Commit::Resetting);
    assert_eq!(table.committed_offset("g", "t", 0), Some(40));
    table.reset("g", ("t", 0), 40, &mut Vec::new());
    let (topic, mut out) = ("t".into(), Vec::new());
    let (from, by) = (40, Who::Other);
    let step = PullStep { group: "g", topic: &topic, queue_id: 0, from, commit: None, by, holder: None };
    assert_eq!(table.pull(step, NOW, &mut out), None);
    assert_eq!(commit(&mut table, "g", ("t", 0), 41), Commit::Stored, "a consumer that never registers");
}

#[test]
fn a_group_that_runs_goes_where_another_one_is_cloned_to_it() {
    let (mut table, a) = (table(), Arc::from("a"));
    commit(&mut table, "from", ("t", 0), 30);
    pull(&mut table, 100, Some(100), &a);
    assert_eq!(table.clone_group("from", "g", &["t"], &mut Vec::new()), 1);
    assert_eq!(pull(&mut table, 110, Some(110), &a).0, Some(30));
    assert_eq!(table.committed_offset("g", "t", 0), Some(30));
}
