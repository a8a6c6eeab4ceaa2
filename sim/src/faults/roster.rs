//! Who a fault can befall, and the dice.

use crate::random::Stream;

/// The machines of a plan by role.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roster {
    /// NameServers.
    pub nameservers: Vec<String>,
    /// Brokers: their masters.
    pub brokers: Vec<String>,
    /// Slaves of all of them.
    pub slaves: Vec<String>,
    /// Producers and consumers.
    pub clients: Vec<String>,
}

impl Roster {
    /// NameServers and brokers, slaves among them.
    pub fn servers(&self) -> Vec<String> {
        self.nameservers.iter().chain(&self.brokers).chain(&self.slaves).cloned().collect()
    }

    /// All machines.
    pub fn all(&self) -> Vec<String> {
        self.servers().into_iter().chain(self.clients.iter().cloned()).collect()
    }
}

/// What a fault draws its parameters from. Every fault has a stream of its own.
pub struct Draw<'a> {
    /// The dice.
    pub random: Stream,
    /// The machines.
    pub roster: &'a Roster,
}

impl<'a> Draw<'a> {
    /// Dice and machines; there must be a broker.
    pub fn new(random: Stream, roster: &'a Roster) -> Draw<'a> {
        assert!(!roster.brokers.is_empty(), "a plan has a broker");
        Draw { random, roster }
    }

    /// Some broker, master or slave.
    pub fn broker(&mut self) -> String {
        if self.roster.slaves.is_empty() || self.random.below(2) == 0 {
            return self.random.pick(&self.roster.brokers).clone();
        }
        self.random.pick(&self.roster.slaves).clone()
    }

    /// A broker, or now and then a NameServer.
    pub fn server(&mut self) -> String {
        let nameserver = !self.roster.nameservers.is_empty() && self.random.below(4) == 0;
        if nameserver {
            return self.random.pick(&self.roster.nameservers).clone();
        }
        self.broker()
    }

    /// Some broker's master or slave.
    pub fn member(&mut self) -> String {
        let members: Vec<String> = self.roster.brokers.iter().chain(&self.roster.slaves).cloned().collect();
        self.random.pick(&members).clone()
    }

    /// Any machine.
    pub fn machine(&mut self) -> String {
        let all = self.roster.all();
        self.random.pick(&all).clone()
    }

    /// Two different machines, of which at least one is a server; the same twice if there is only one.
    pub fn pair(&mut self) -> (String, String) {
        let server = self.server();
        let others: Vec<String> = self.roster.all().into_iter().filter(|name| *name != server).collect();
        let other = if others.is_empty() { server.clone() } else { self.random.pick(&others).clone() };
        if self.random.below(2) == 0 {
            (server, other)
        } else {
            (other, server)
        }
    }

    /// A duration in microseconds: of any order of magnitude from 1 ms up to `longest_ms`.
    pub fn us_up_to(&mut self, longest_ms: u64) -> u64 {
        let mut scales = vec![longest_ms];
        while scales.last().is_some_and(|scale| *scale >= 20) {
            scales.push(scales[scales.len() - 1] / 10);
        }
        let scale = *self.random.pick(&scales);
        self.random.between(1, scale.max(1) * 1_000)
    }
}
