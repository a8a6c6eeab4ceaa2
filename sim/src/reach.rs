//! Which rare states a run went through, read from its events afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::faults::Fault;
use crate::sometimes;
use crate::trace::{Noted, Recording};
use crate::world::NodeId;

/// What is known while the events go by.
#[derive(Default)]
struct Reader<'a> {
    names: &'a [String],
    down: BTreeSet<NodeId>,
    /// Servers that were started and do not serve yet.
    starting: BTreeSet<NodeId>,
    served: BTreeSet<NodeId>,
    /// When the last of the faults so far ends.
    faults_until: Duration,
    /// Messages under way, acknowledged, of unclear fate, and handed back, with the number of restarts before.
    sending: BTreeMap<u64, usize>,
    stored: BTreeMap<u64, usize>,
    scheduled: BTreeMap<u64, usize>,
    unclear: BTreeSet<u64>,
    handed_back: BTreeSet<u64>,
    consumed: BTreeSet<(NodeId, u64)>,
    seen: BTreeSet<u64>,
    /// Deaths and starts of brokers so far.
    deaths: usize,
    restarts: usize,
}

/// Reaches the marks of a run.
pub fn reach(recording: &Recording) {
    let mut reader = Reader { names: &recording.names, ..Reader::default() };
    reader.starting =
        (0..recording.names.len() as u32).map(NodeId).filter(|node| reader.is(*node, "broker-")).collect();
    for event in &recording.events {
        reader.machine(event);
        reader.world(event);
        reader.client(event);
    }
    let lost = reader.unclear.len();
    sometimes!(
        lost > 0 && recording.events.iter().any(|event| event.what == "found"),
        "an unclear send was not stored"
    );
}

impl Reader<'_> {
    fn is(&self, node: NodeId, role: &str) -> bool {
        self.names.get(node.0 as usize).is_some_and(|name| name.starts_with(role))
    }

    fn count(&self, nodes: &BTreeSet<NodeId>, role: &str) -> usize {
        nodes.iter().filter(|node| self.is(**node, role)).count()
    }

    fn all(&self, role: &str) -> usize {
        self.names.iter().filter(|name| name.starts_with(role)).count()
    }

    /// Deaths and lives of machines.
    fn machine(&mut self, event: &Noted) {
        let (node, is_broker) = (event.node, self.is(event.node, "broker-"));
        match event.what {
            "killed" | "power cut" | "os crash" => {
                sometimes!(is_broker && self.starting.contains(&node), "a broker died before it served");
                self.down.insert(node);
                self.starting.remove(&node);
                self.deaths += usize::from(is_broker);
                sometimes!(self.count(&self.down, "broker-") > 1, "two brokers were down at once");
                let nameservers = self.all("ns-");
                sometimes!(
                    nameservers > 0 && self.count(&self.down, "ns-") == nameservers,
                    "all NameServers were down at once"
                );
            }
            "restarted" => {
                self.down.remove(&node);
                if is_broker {
                    self.starting.insert(node);
                    self.restarts += 1;
                }
            }
            "broker serves" => {
                self.starting.remove(&node);
                sometimes!(!self.served.insert(node), "a broker served again");
            }
            _ => {}
        }
    }

    /// Faults, network and disks.
    fn world(&mut self, event: &Noted) {
        match event.what {
            "fault" => {
                sometimes!(event.at < self.faults_until, "a fault struck while another was on");
                if let Ok(fault) = serde_json::from_str::<Fault>(&event.words) {
                    self.faults_until = self.faults_until.max(event.at + fault.lasts());
                }
            }
            "net gave up" => sometimes!("a connection was given up"),
            "net reset" => sometimes!("a connection was reset"),
            "net unwanted" => sometimes!("bytes came for a connection that nobody holds"),
            "disk sync failed" => sometimes!("a sync failed"),
            "disk full" => sometimes!("a write found the disk full"),
            "disk create" => {
                let later = event.words.rsplit('/').next().is_some_and(|name| name.bytes().any(|byte| byte != b'0'));
                sometimes!(later && event.words.contains("/commitlog/"), "the log got another segment");
                sometimes!(later && event.words.contains("/consumequeue/"), "a queue got another file");
            }
            _ => {}
        }
    }

    /// What became of messages.
    fn client(&mut self, event: &Noted) {
        let Some(message) = event.numbers.first().copied() else { return };
        match event.what {
            "sending" => {
                self.sending.insert(message, self.deaths);
            }
            "acknowledged" | "scheduled" | "unknown" | "refused" => {
                let began = self.sending.remove(&message);
                sometimes!(
                    began.is_some_and(|deaths| deaths < self.deaths),
                    "a broker died while a send was under way"
                );
                match event.what {
                    "acknowledged" => {
                        let nameserver_down = self.count(&self.down, "ns-") > 0;
                        sometimes!(nameserver_down, "a send was acknowledged while a NameServer was down");
                        sometimes!(self.seen.contains(&message), "a consumer got a message before its sender heard");
                        self.stored.insert(message, self.restarts);
                    }
                    "scheduled" => drop(self.scheduled.insert(message, self.restarts)),
                    "unknown" => drop(self.unclear.insert(message)),
                    _ => {}
                }
            }
            "handed back" => drop(self.handed_back.insert(message)),
            "consumed" => self.consumed(event.node, message),
            "found" => sometimes!(self.unclear.remove(&message), "an unclear send was stored"),
            _ => {}
        }
    }

    fn consumed(&mut self, node: NodeId, message: u64) {
        let again = !self.consumed.insert((node, message));
        self.seen.insert(message);
        let restarted = |since: Option<&usize>| since.is_some_and(|restarts| *restarts < self.restarts);
        sometimes!(again, "a consumer got a message twice");
        sometimes!(again && self.handed_back.contains(&message), "a handed back message came again");
        sometimes!(restarted(self.stored.get(&message)), "a message outlived its broker's process");
        sometimes!(restarted(self.scheduled.get(&message)), "a delayed message outlived its broker's process");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::marks;

    fn reached(events: &[(u64, u32, &'static str, &[u64], &str)]) -> BTreeSet<&'static str> {
        let noted = |(at, node, what, numbers, words): &(u64, u32, &'static str, &[u64], &str)| Noted {
            at: Duration::from_millis(*at),
            node: NodeId(*node),
            what,
            numbers: (*numbers).into(),
            words: (*words).into(),
        };
        let names = ["world", "ns-0", "broker-0", "producer-0", "consumer"].map(str::to_owned).to_vec();
        reach(&Recording { names, events: events.iter().map(noted).collect() });
        marks::reached().into_keys().collect()
    }

    #[test]
    fn states_are_read_from_events() {
        let marks = reached(&[
            (1, 3, "sending", &[10_000], ""),
            (2, 0, "fault", &[], r#"{"power_cut":{"machine":"broker-0","down_us":5000}}"#),
            (2, 2, "power cut", &[], ""),
            (3, 0, "fault", &[], r#"{"kill":{"machine":"ns-0","down_us":5000}}"#),
            (3, 1, "killed", &[], ""),
            (4, 3, "unknown", &[10_000], ""),
            (7, 2, "restarted", &[], ""),
            (7, 2, "disk create", &[7], "/data/store/commitlog/00000000000000032768"),
            (8, 2, "broker serves", &[], ""),
            (9, 4, "found", &[10_000, 0], "broker-0/orders/0"),
        ]);
        for mark in [
            "a broker died before it served",
            "a broker died while a send was under way",
            "all NameServers were down at once",
            "a fault struck while another was on",
            "an unclear send was stored",
            "the log got another segment",
        ] {
            assert!(marks.contains(mark), "{mark} is not in {marks:?}");
        }
    }
}
