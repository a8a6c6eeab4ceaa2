//! What travels on links: quality of links, shapes of partitions, frames, sockets.

use std::time::Duration;

use metaq::proto::remoting::request;
use serde::{Deserialize, Serialize};

use super::{Draw, Fault, Harm, Kind};
use crate::net::{Barred, FrameFault, FrameRule, Frames, LinkSettings, LinkState, Shape, Spread};
use crate::random::Stream;
use crate::world::{NodeId, World};

/// Faults of what travels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum WireFault {
    /// Everything from one machine to another takes long.
    SlowLink(Way, u64),
    /// Most of it is quick; now and then it takes very long.
    Jitter(Way),
    /// So many of 1,000 segments are lost and sent again.
    Loss(Way, u64),
    /// So many bytes a second.
    Narrow(Way, u64),
    /// Segments of a few bytes.
    TinySegments(Way, usize),
    /// Nobody reaches a machine, which reaches everybody.
    Deaf(Shaped),
    /// A machine reaches nobody, and everybody reaches it.
    Mute(Shaped),
    /// The machines fall into two halves.
    Halves(Shaped),
    /// Two halves, and one machine sees both.
    Bridge(Shaped),
    /// Every machine sees its neighbours in a ring.
    MajoritiesRing(Shaped),
    /// Each direction is cut by the toss of a coin.
    OneWayUniform(Shaped),
    /// A partition that comes and goes; so many times.
    Flapping(Shaped, u32),
    /// Machines are clogged one after the other, and let go in another order.
    Swizzle(Shaped),
    /// Requests are lost.
    DropRequests(FramesOf),
    /// Answers are lost: what was asked is done, and nobody knows.
    DropResponses(FramesOf),
    /// Requests come late, and later ones overtake them.
    DelayRequests(FramesOf),
    /// Answers come late.
    DelayResponses(FramesOf),
    /// Requests that may be repeated come a second time, later.
    DuplicateRequests(FramesOf),
    /// The first bytes of a frame are wrong.
    DamageFrames(FramesOf),
    /// Something between two machines forgets their connections.
    ForgetConnections(Pair),
    /// Something between two machines resets their connections.
    ResetConnections(Pair),
    /// A server's port refuses new connections.
    PortRefuses(Host),
    /// A server's port does not answer new connections.
    PortSilent(Host),
    /// A machine cannot resolve names.
    NamesFail(Host),
    /// A process has no sockets left but for a few.
    FewSockets(Host, usize),
    /// Hardly any connection may wait to be accepted.
    ShortBacklog(Host, usize),
    /// A machine takes few bytes at once.
    SmallWindow(Host, u64),
}

/// One direction between two machines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Way {
    /// Where it is sent.
    pub from: String,
    /// Where it arrives.
    pub to: String,
    /// Until it is good again.
    pub for_us: u64,
}

/// Two machines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair {
    /// One.
    pub a: String,
    /// The other.
    pub b: String,
}

/// One machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Its name.
    pub machine: String,
    /// Until it is well.
    pub for_us: u64,
}

/// A partition of all machines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shaped {
    /// Which machine has which place.
    pub seed: u64,
    /// Until they are one again.
    pub for_us: u64,
}

/// Some frames.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FramesOf {
    /// Requests of these codes, or their answers; all if there are none.
    pub codes: Vec<i32>,
    /// Of 1,000, how many.
    pub per_mille: u64,
    /// How many at most.
    pub count: u32,
    /// How much later, if they are late.
    pub later_us: u64,
    /// Until all come through.
    pub for_us: u64,
}

/// Requests that a client or broker repeats by itself, so that a second one must do no harm.
const REPEATED: &[i32] = &[
    request::HEART_BEAT,
    request::LOCK_BATCH_MQ,
    request::UPDATE_CONSUMER_OFFSET,
    request::PULL_MESSAGE,
    request::REGISTER_BROKER,
    request::GET_ROUTEINFO_BY_TOPIC,
];

/// Requests whose loss or lateness is told apart.
const TELLING: &[i32] = &[
    request::SEND_MESSAGE_V2,
    request::PULL_MESSAGE,
    request::UPDATE_CONSUMER_OFFSET,
    request::REGISTER_BROKER,
    request::UNREGISTER_BROKER,
    request::CONSUMER_SEND_MSG_BACK,
    request::HEART_BEAT,
    request::LOCK_BATCH_MQ,
];

const fn kind(name: &'static str, draw: fn(&mut Draw<'_>) -> Fault) -> Kind {
    Kind { name, harm: Harm::Delay, draw }
}

/// The kinds.
pub(super) const KINDS: &[Kind] = &[
    kind("slow_link", |d| {
        let millis = *d.random.pick(&[20, 200, 1_500]);
        Fault::Wire(WireFault::SlowLink(way(d), millis))
    }),
    kind("jitter", |d| Fault::Wire(WireFault::Jitter(way(d)))),
    kind("loss", |d| {
        let per_mille = *d.random.pick(&[10, 100, 300]);
        Fault::Wire(WireFault::Loss(way(d), per_mille))
    }),
    kind("narrow", |d| {
        let bytes = *d.random.pick(&[2_000, 20_000, 200_000]);
        Fault::Wire(WireFault::Narrow(way(d), bytes))
    }),
    kind("tiny_segments", |d| {
        let bytes = *d.random.pick(&[1, 7, 64]);
        Fault::Wire(WireFault::TinySegments(way(d), bytes))
    }),
    kind("deaf", |d| Fault::Wire(WireFault::Deaf(shaped(d)))),
    kind("mute", |d| Fault::Wire(WireFault::Mute(shaped(d)))),
    kind("halves", |d| Fault::Wire(WireFault::Halves(shaped(d)))),
    kind("bridge", |d| Fault::Wire(WireFault::Bridge(shaped(d)))),
    kind("majorities_ring", |d| Fault::Wire(WireFault::MajoritiesRing(shaped(d)))),
    kind("one_way_uniform", |d| Fault::Wire(WireFault::OneWayUniform(shaped(d)))),
    kind("flapping", |d| {
        let times = d.random.between(2, 5) as u32;
        Fault::Wire(WireFault::Flapping(shaped(d), times))
    }),
    kind("swizzle", |d| Fault::Wire(WireFault::Swizzle(shaped(d)))),
    kind("drop_requests", |d| Fault::Wire(WireFault::DropRequests(frames(d, TELLING)))),
    kind("drop_responses", |d| Fault::Wire(WireFault::DropResponses(frames(d, TELLING)))),
    kind("delay_requests", |d| Fault::Wire(WireFault::DelayRequests(frames(d, TELLING)))),
    kind("delay_responses", |d| Fault::Wire(WireFault::DelayResponses(frames(d, TELLING)))),
    kind("duplicate_requests", |d| Fault::Wire(WireFault::DuplicateRequests(frames(d, REPEATED)))),
    kind("damage_frames", |d| Fault::Wire(WireFault::DamageFrames(frames(d, &[])))),
    kind("forget_connections", |d| {
        let (a, b) = d.pair();
        Fault::Wire(WireFault::ForgetConnections(Pair { a, b }))
    }),
    kind("reset_connections", |d| {
        let (a, b) = d.pair();
        Fault::Wire(WireFault::ResetConnections(Pair { a, b }))
    }),
    kind("port_refuses", |d| Fault::Wire(WireFault::PortRefuses(host(d)))),
    kind("port_silent", |d| Fault::Wire(WireFault::PortSilent(host(d)))),
    kind("names_fail", |d| {
        let machine = d.machine();
        Fault::Wire(WireFault::NamesFail(Host { machine, for_us: d.us_up_to(30_000) }))
    }),
    kind("few_sockets", |d| {
        let most = d.random.below(4) as usize;
        Fault::Wire(WireFault::FewSockets(host(d), most))
    }),
    kind("short_backlog", |d| {
        let most = d.random.below(2) as usize;
        Fault::Wire(WireFault::ShortBacklog(host(d), most))
    }),
    kind("small_window", |d| {
        let bytes = *d.random.pick(&[1, 100, 1_500]);
        Fault::Wire(WireFault::SmallWindow(host(d), bytes))
    }),
];

fn way(d: &mut Draw<'_>) -> Way {
    let (from, to) = d.pair();
    Way { from, to, for_us: d.us_up_to(60_000) }
}

fn shaped(d: &mut Draw<'_>) -> Shaped {
    Shaped { seed: d.random.draw(), for_us: d.us_up_to(60_000) }
}

fn host(d: &mut Draw<'_>) -> Host {
    let machine = d.server();
    Host { machine, for_us: d.us_up_to(30_000) }
}

/// Often frames of one code only, so that its loss stands out.
fn frames(d: &mut Draw<'_>, codes: &[i32]) -> FramesOf {
    let codes = match codes {
        [] => Vec::new(),
        codes if d.random.below(3) == 0 => codes.to_vec(),
        codes => vec![*d.random.pick(codes)],
    };
    FramesOf {
        codes,
        per_mille: *d.random.pick(&[20, 200, 1_000]),
        count: d.random.between(1, 20) as u32,
        later_us: d.us_up_to(20_000),
        for_us: d.us_up_to(60_000),
    }
}

impl WireFault {
    pub(super) fn lasts_us(&self) -> u64 {
        match self {
            WireFault::SlowLink(way, _)
            | WireFault::Jitter(way)
            | WireFault::Loss(way, _)
            | WireFault::Narrow(way, _)
            | WireFault::TinySegments(way, _) => way.for_us,
            WireFault::Deaf(shaped)
            | WireFault::Mute(shaped)
            | WireFault::Halves(shaped)
            | WireFault::Bridge(shaped)
            | WireFault::MajoritiesRing(shaped)
            | WireFault::OneWayUniform(shaped)
            | WireFault::Flapping(shaped, _)
            | WireFault::Swizzle(shaped) => shaped.for_us,
            WireFault::DropRequests(frames)
            | WireFault::DropResponses(frames)
            | WireFault::DelayRequests(frames)
            | WireFault::DelayResponses(frames)
            | WireFault::DuplicateRequests(frames)
            | WireFault::DamageFrames(frames) => frames.for_us,
            WireFault::ForgetConnections(_) | WireFault::ResetConnections(_) => 0,
            WireFault::PortRefuses(host)
            | WireFault::PortSilent(host)
            | WireFault::NamesFail(host)
            | WireFault::FewSockets(host, _)
            | WireFault::ShortBacklog(host, _)
            | WireFault::SmallWindow(host, _) => host.for_us,
        }
    }

    pub(super) fn apply(&self, world: &World) -> bool {
        match self {
            WireFault::SlowLink(way, millis) => way.degrade(world, "slow_link", |healthy| {
                let latency_min = Duration::from_millis(*millis);
                LinkSettings { latency_min, latency_max: latency_min * 2, ..healthy }
            }),
            WireFault::Jitter(way) => {
                way.degrade(world, "jitter", |healthy| LinkSettings { spread: Spread::TwoPaths, ..healthy })
            }
            WireFault::Loss(way, loss_per_mille) => way.degrade(world, "loss", |healthy| LinkSettings {
                loss_per_mille: *loss_per_mille,
                segment_max: healthy.segment_max.min(1_460),
                ..healthy
            }),
            WireFault::Narrow(way, bytes) => {
                way.degrade(world, "narrow", |healthy| LinkSettings { bytes_per_second: Some(*bytes), ..healthy })
            }
            WireFault::TinySegments(way, segment_max) => {
                way.degrade(world, "tiny_segments", |healthy| LinkSettings { segment_max: *segment_max, ..healthy })
            }
            WireFault::Deaf(shaped) => shaped.divide(world, Shape::Deaf, "deaf", 1),
            WireFault::Mute(shaped) => shaped.divide(world, Shape::Mute, "mute", 1),
            WireFault::Halves(shaped) => shaped.divide(world, Shape::Halves, "halves", 1),
            WireFault::Bridge(shaped) => shaped.divide(world, Shape::Bridge, "bridge", 1),
            WireFault::MajoritiesRing(shaped) => shaped.divide(world, Shape::MajoritiesRing, "majorities_ring", 1),
            WireFault::OneWayUniform(shaped) => shaped.divide(world, Shape::OneWayUniform, "one_way_uniform", 1),
            WireFault::Flapping(shaped, times) => shaped.divide(world, Shape::Uniform, "flapping", *times),
            WireFault::Swizzle(shaped) => shaped.swizzle(world),
            WireFault::DropRequests(frames) => frames.hit(world, Frames::Requests, FrameFault::Drop, "drop_requests"),
            WireFault::DropResponses(frames) => {
                frames.hit(world, Frames::Responses, FrameFault::Drop, "drop_responses")
            }
            WireFault::DelayRequests(frames) => {
                frames.hit(world, Frames::Requests, FrameFault::Delay(frames.later()), "delay_requests")
            }
            WireFault::DelayResponses(frames) => {
                frames.hit(world, Frames::Responses, FrameFault::Delay(frames.later()), "delay_responses")
            }
            WireFault::DuplicateRequests(frames) => {
                frames.hit(world, Frames::Requests, FrameFault::Duplicate(frames.later()), "duplicate_requests")
            }
            WireFault::DamageFrames(frames) => frames.hit(world, Frames::Requests, FrameFault::Damage, "damage_frames"),
            WireFault::ForgetConnections(pair) => {
                pair.nodes(world).is_some_and(|(a, b)| world.network().forget_connections(a, b) > 0)
            }
            WireFault::ResetConnections(pair) => {
                pair.nodes(world).is_some_and(|(a, b)| world.network().reset_connections(a, b) > 0)
            }
            WireFault::PortRefuses(host) => host.bar(world, Barred::Refused),
            WireFault::PortSilent(host) => host.bar(world, Barred::Silent),
            WireFault::NamesFail(host) => host.change(
                world,
                |world, node| world.network().fail_names(node, true),
                |world, node| world.network().fail_names(node, false),
            ),
            WireFault::FewSockets(host, most) => {
                let most = *most;
                host.change(
                    world,
                    move |world, node| world.network().limit_sockets(node, most),
                    |world, node| world.network().limit_sockets(node, usize::MAX),
                )
            }
            WireFault::ShortBacklog(host, most) => {
                let most = *most;
                host.change(
                    world,
                    move |world, node| world.network().limit_backlog(node, Some(most)),
                    |world, node| world.network().limit_backlog(node, None),
                )
            }
            WireFault::SmallWindow(host, bytes) => {
                let bytes = *bytes;
                host.change(
                    world,
                    move |world, node| world.network().limit_window(node, Some(bytes)),
                    |world, node| world.network().limit_window(node, None),
                )
            }
        }
    }
}

impl Way {
    fn degrade(&self, world: &World, kind: &'static str, change: impl FnOnce(LinkSettings) -> LinkSettings) -> bool {
        let (Some(from), Some(to)) = (world.find(&self.from), world.find(&self.to)) else { return false };
        if from == to {
            return false;
        }
        let settings = change(world.network().healthy_link(from, to));
        world.network().degrade(from, to, Some((settings, kind)));
        world.later(Duration::from_micros(self.for_us), move |world| world.network().degrade(from, to, None));
        true
    }
}

impl Pair {
    fn nodes(&self, world: &World) -> Option<(NodeId, NodeId)> {
        let (a, b) = (world.find(&self.a)?, world.find(&self.b)?);
        (a != b).then_some((a, b))
    }
}

impl Host {
    fn change(
        &self,
        world: &World,
        begin: impl FnOnce(&World, NodeId),
        end: impl FnOnce(&World, NodeId) + Send + 'static,
    ) -> bool {
        let Some(node) = world.find(&self.machine) else { return false };
        begin(world, node);
        world.later(Duration::from_micros(self.for_us), move |world| end(world, node));
        true
    }

    fn bar(&self, world: &World, how: Barred) -> bool {
        const PORTS: [u16; 2] = [9_876, 10_911];
        let set = move |world: &World, node: NodeId, how: Option<Barred>| {
            PORTS.iter().for_each(|port| world.network().bar_port(node, *port, how));
        };
        self.change(world, move |world, node| set(world, node, Some(how)), move |world, node| set(world, node, None))
    }
}

impl Shaped {
    fn nodes(&self, world: &World) -> (Vec<NodeId>, Stream) {
        (world.nodes_by_name().into_values().collect(), Stream::new(self.seed, "shape"))
    }

    /// Divides the machines `times` times, with pauses as long as the partitions.
    fn divide(&self, world: &World, shape: Shape, kind: &'static str, times: u32) -> bool {
        let (nodes, mut random) = self.nodes(world);
        let turn = Duration::from_micros(self.for_us) / (2 * times - 1).max(1);
        let mut some = false;
        for time in 0..times {
            let cuts = shape.cuts(&nodes, &mut random);
            some |= !cuts.is_empty();
            world.later(turn * 2 * time, move |world| {
                for (from, to) in &cuts {
                    world.shut_link(*from, *to, LinkState::Cut, kind);
                }
                world.later(turn, move |world| {
                    for (from, to) in cuts {
                        world.open_link(from, to, LinkState::Cut, kind);
                    }
                });
            });
        }
        some
    }

    /// Clogs all links of some machines, one machine after the other, and opens them in another order.
    fn swizzle(&self, world: &World) -> bool {
        let (nodes, mut random) = self.nodes(world);
        let chosen: Vec<NodeId> = nodes.iter().filter(|_| random.below(2) == 0).copied().collect();
        let half = self.for_us / 2;
        for node in &chosen {
            let (node, nodes) = (*node, nodes.clone());
            let (begin, end) = (random.below(half + 1), half + random.below(half + 1));
            let links = move || {
                let others = nodes.clone().into_iter().filter(move |other| *other != node);
                others.flat_map(move |other| [(node, other), (other, node)])
            };
            let opened = links.clone();
            world.later(Duration::from_micros(begin), move |world| {
                links().for_each(|(from, to)| world.shut_link(from, to, LinkState::Clogged, "swizzle"));
            });
            world.later(Duration::from_micros(end), move |world| {
                opened().for_each(|(from, to)| world.open_link(from, to, LinkState::Clogged, "swizzle"));
            });
        }
        !chosen.is_empty()
    }
}

impl FramesOf {
    fn later(&self) -> Duration {
        Duration::from_micros(self.later_us)
    }

    fn hit(&self, world: &World, frames: Frames, fault: FrameFault, kind: &'static str) -> bool {
        let (codes, per_mille, left) = (self.codes.clone(), self.per_mille, self.count);
        let rule = FrameRule { from: None, to: None, frames, codes, fault, per_mille, left, kind };
        world.network().add_frame_rule(rule.clone());
        world.later(Duration::from_micros(self.for_us), move |world| world.network().remove_frame_rule(&rule));
        true
    }
}
