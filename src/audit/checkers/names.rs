//! Topics, members and routes are what they were said to be.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::Violation;
use crate::audit::history::{Event, Timed};

/// A topic that a tool was told of is there, whenever somebody asks, crashes or not.
pub fn topics_kept(history: &[Event]) -> Result<(), Violation> {
    let mut made = BTreeSet::new();
    for event in history {
        match event {
            Event::TopicMade(topic) => {
                made.insert(topic);
            }
            Event::TopicSeen(topic, false) if made.contains(topic) => {
                let finding = format!("{topic} was made and is not there");
                return Err(Violation::new("topics are kept", finding));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether each client is there, and since when.
type Clients<'a> = BTreeMap<&'a Arc<str>, (bool, Duration)>;

/// Whoever asks a broker for a group's members is told of no stranger, and of nobody who left longer than `limit` ago.
/// After all faults have ended and `limit` later, everybody is told of who is there.
pub fn members_true(history: &[Timed], limit: Duration) -> Result<(), Violation> {
    let healed = history.iter().rev().find(|(_, event)| matches!(event, Event::Healed)).map(|(at, _)| *at);
    let mut groups: BTreeMap<&Arc<str>, Clients<'_>> = BTreeMap::new();
    let wrong = |finding: String| Err(Violation::new("members are who is there", finding));
    for (at, event) in history {
        match event {
            Event::Joined(group, client) => {
                let since = groups.entry(group).or_default().entry(client).or_insert((true, *at));
                if !since.0 {
                    *since = (true, *at);
                }
            }
            Event::Left(group, client) => {
                groups.entry(group).or_default().insert(client, (false, *at));
            }
            // Clients are named after their machine and its life.
            Event::Down(machine) => {
                let lived_there = |client: &str| client.rsplit_once('@').is_some_and(|(_, at)| at == &**machine);
                for members in groups.values_mut() {
                    for (_, since) in members.iter_mut().filter(|(client, since)| lived_there(client) && since.0) {
                        *since = (false, *at);
                    }
                }
            }
            Event::Members(group, told) => {
                let members = groups.entry(group).or_default();
                for client in told {
                    match members.get(client) {
                        None => return wrong(format!("{client} is told to be in {group} and never joined")),
                        Some((false, since)) if *since + limit < *at => {
                            return wrong(format!(
                                "{client} left {group} and is still a member {} s later",
                                limit.as_secs()
                            ));
                        }
                        Some(_) => {}
                    }
                }
                let settled = healed.is_some_and(|healed| healed + limit < *at);
                let missing = members.iter().find(|(client, (there, since))| {
                    settled && *there && *since + limit < *at && !told.contains(client)
                });
                if let Some((client, _)) = missing {
                    return wrong(format!("{client} is in {group} and nobody is told"));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// No NameServer names a broker that never was, or one that has been down for longer than `expiry`.
pub fn routes_sound(history: &[Timed], expiry: Duration) -> Result<(), Violation> {
    let mut brokers: BTreeMap<&Arc<str>, (bool, Duration)> = BTreeMap::new();
    for (at, event) in history {
        match event {
            Event::Up(broker) => {
                brokers.insert(broker, (true, *at));
            }
            Event::Down(broker) => {
                brokers.insert(broker, (false, *at));
            }
            Event::Route(nameserver, told) => {
                let stale = told.iter().find(|broker| match brokers.get(broker) {
                    None => true,
                    Some((up, since)) => !up && *since + expiry < *at,
                });
                if let Some(broker) = stale {
                    let finding = format!("{nameserver} names {broker}, which is not there");
                    return Err(Violation::new("routes name brokers that are there", finding));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// After all faults have ended and `limit` later, every NameServer names every broker that is up.
pub fn routes_true(history: &[Timed], limit: Duration) -> Result<(), Violation> {
    let healed = history.iter().rev().find(|(_, event)| matches!(event, Event::Healed)).map(|(at, _)| *at);
    let Some(healed) = healed else { return Ok(()) };
    let mut brokers: BTreeMap<&Arc<str>, Duration> = BTreeMap::new();
    for (at, event) in history {
        match event {
            Event::Up(broker) => {
                brokers.entry(broker).or_insert(*at);
            }
            Event::Down(broker) => {
                brokers.remove(broker);
            }
            Event::Route(nameserver, told) => {
                let since = |up: &Duration| healed.max(*up) + limit < *at;
                if let Some((broker, _)) = brokers.iter().find(|(name, up)| since(up) && !told.contains(name)) {
                    let finding =
                        format!("{nameserver} does not name {broker} {} s after the last fault", limit.as_secs());
                    return Err(Violation::new("routes become true", finding));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{accepts, rejects, untimed};
    use super::*;

    #[test]
    fn rejects_lost_topics() {
        rejects(
            untimed(topics_kept),
            &[
                ("made t, missing t", "at once"),
                ("made t, seen t, missing t", "later"),
                ("made t, made u, seen t, missing u", "one of two"),
                ("made t, down broker, up broker, missing t", "over a crash"),
                ("missing t, made t, seen t, down broker, missing t, seen t", "for a while"),
            ],
        );
    }

    #[test]
    fn accepts_kept_topics() {
        accepts(
            untimed(topics_kept),
            &[
                ("", "nothing happened"),
                ("missing t, made t, seen t", "made"),
                ("missing t", "never made"),
                ("seen t", "made, and nobody was told"),
                ("made t, missing u", "another one"),
            ],
        );
    }

    fn members(history: &[Timed]) -> Result<(), Violation> {
        members_true(history, Duration::from_secs(60))
    }

    #[test]
    fn rejects_wrong_members() {
        rejects(
            members,
            &[
                ("joined a, members a b", "a stranger"),
                ("joined a, at 10, left a, at 71, members a", "gone for long"),
                ("joined a, at 10, healed, at 71, members", "there and not named"),
                ("joined a, joined b, at 10, healed, at 80, members a", "one of two"),
                ("at 5, healed, at 10, joined a, left a, joined b, at 80, members a b", "the one that left"),
                ("joined a@m, at 10, down m, at 71, members a@m", "its machine died"),
            ],
        );
    }

    #[test]
    fn accepts_true_members() {
        accepts(
            members,
            &[
                ("", "nothing happened"),
                ("joined a, members a", "there"),
                ("joined a, at 10, members", "not named while there are faults"),
                ("joined a, at 10, left a, at 69, members a", "not noticed yet"),
                ("joined a, left a, at 10, joined a, at 100, healed, at 200, members a", "came back"),
                ("at 5, healed, at 100, joined a, at 110, members", "has just come"),
            ],
        );
    }

    fn sound(history: &[Timed]) -> Result<(), Violation> {
        routes_sound(history, Duration::from_secs(130))
    }

    #[test]
    fn rejects_unsound_routes() {
        rejects(
            sound,
            &[
                ("route ns b", "never was"),
                ("up b, at 10, down b, at 141, route ns b", "long gone"),
                ("up b, up c, at 10, down c, at 200, route ns b c", "one of two is gone"),
                ("up b, at 10, down b, at 50, up b, at 60, down b, at 200, route ns b", "gone again"),
                ("up b, down b, at 200, route ns-0, route ns-1 b", "the other NameServer"),
            ],
        );
    }

    #[test]
    fn accepts_sound_routes() {
        accepts(
            sound,
            &[
                ("", "nothing happened"),
                ("up b, route ns b", "there"),
                ("up b, route ns", "not registered yet"),
                ("up b, at 10, down b, at 139, route ns b", "not noticed yet"),
                ("up b, at 10, down b, at 300, up b, route ns b", "back again"),
            ],
        );
    }

    fn become_true(history: &[Timed]) -> Result<(), Violation> {
        routes_true(history, Duration::from_secs(60))
    }

    #[test]
    fn rejects_routes_that_stay_wrong() {
        rejects(
            become_true,
            &[
                ("up b, at 10, healed, at 71, route ns", "nobody is named"),
                ("up b, up c, at 10, healed, at 71, route ns b", "one is missing"),
                ("healed, at 10, up b, at 71, route ns", "it came after the faults"),
                ("up b, down b, at 5, up b, at 10, healed, at 71, route ns", "it came back"),
                ("up b, at 10, healed, at 71, route ns-0 b, route ns-1", "one NameServer does not know"),
            ],
        );
    }

    #[test]
    fn accepts_routes_that_become_true() {
        accepts(
            become_true,
            &[
                ("", "nothing happened"),
                ("up b, at 100, route ns", "faults never ended"),
                ("up b, at 10, healed, at 69, route ns, at 71, route ns b", "in time"),
                ("up b, at 10, healed, at 20, down b, at 100, route ns", "it is down"),
                ("up b, at 10, healed, at 100, down b, up b, at 120, route ns", "it has just come back"),
                ("up b, at 10, healed, at 100, route ns b c", "one more than there is, which is not judged here"),
            ],
        );
    }
}
