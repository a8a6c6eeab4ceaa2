//! Pulls: each slot of a link reads one queue from end to end.

use anyhow::{bail, Result};

use super::client::{Link, Load};
use super::frames::{Answer, Numbers, Template};
use super::measured::Measured;
use crate::proto::remoting::response;

/// What a reader does at the end of its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtEnd {
    /// Begin anew, to go on measuring.
    Again,
    /// Wait for more: its pulls are of the kind that the server holds.
    Wait,
}

/// Pulls over all links, in turn for each of the groups that the templates are of.
pub struct Consume {
    groups: Vec<Template>,
    /// Where reading begins in each queue.
    starts: Vec<u64>,
    at_end: AtEnd,
    limit: u64,
    started: bool,
    stopped: bool,
    /// Where each slot of each link reads.
    places: Vec<Vec<u64>>,
    /// Slots that read on.
    reading: usize,
    /// What has been measured so far.
    pub measured: Measured,
}

impl Consume {
    /// Reads queues, one for each of `starts` and from there on, until `limit` messages have come.
    pub fn new(groups: Vec<Template>, starts: Vec<u64>, at_end: AtEnd, limit: Option<u64>) -> Consume {
        Consume {
            groups,
            starts,
            at_end,
            limit: limit.unwrap_or(u64::MAX),
            started: false,
            stopped: false,
            places: Vec::new(),
            reading: 0,
            measured: Measured::default(),
        }
    }

    /// The queue that a slot reads.
    fn queue(&self, slot: u32) -> u32 {
        slot % self.starts.len().max(1) as u32
    }

    fn start(&self, slot: u32) -> u64 {
        self.starts.get(self.queue(slot) as usize).copied().unwrap_or_default()
    }

    fn pull(&mut self, number: usize, link: &mut Link, now: u64) {
        let Some(slot) = link.take(now) else { return };
        let offset = self.places[number][slot as usize];
        let numbers = Numbers { slot, queue: self.queue(slot), key: 0, offset };
        self.groups[number % self.groups.len()].write(link.out(), numbers);
    }
}

impl Load for Consume {
    fn tick(&mut self, links: &mut [Link], now: u64) -> Option<u64> {
        if !std::mem::replace(&mut self.started, true) {
            for (number, link) in links.iter_mut().enumerate() {
                let slots = link.free();
                self.places.push((0..slots as u32).map(|slot| self.start(slot)).collect());
                self.reading += slots;
                (0..slots).for_each(|_| self.pull(number, link, now));
            }
        }
        None
    }

    fn answered(
        &mut self,
        (number, link): (usize, &mut Link),
        answer: &Answer<'_>,
        since: u64,
        now: u64,
    ) -> Result<()> {
        if self.stopped {
            return Ok(());
        }
        let next = answer.field("nextBeginOffset").unwrap_or_default().max(0) as u64;
        let start = self.start(answer.slot);
        let place = &mut self.places[number][answer.slot as usize];
        match answer.code {
            response::SUCCESS => {
                let records = answer.records().count() as u64;
                *place = next;
                self.measured.messages += records;
                self.measured.bytes += answer.body.len() as u64;
                self.measured.latency.record(now.saturating_sub(since), records);
            }
            response::PULL_NOT_FOUND if self.at_end == AtEnd::Wait => {}
            response::PULL_NOT_FOUND if self.at_end == AtEnd::Again && *place > start => *place = start,
            response::PULL_RETRY_IMMEDIATELY | response::PULL_OFFSET_MOVED => *place = next,
            response::PULL_NOT_FOUND => {
                self.reading -= 1;
                if self.reading == 0 && self.measured.messages == 0 {
                    bail!("the topic holds no messages; `metaq bench produce` sends some");
                }
                return Ok(());
            }
            code => bail!("a pull was refused with code {code}: {}", answer.remark()),
        }
        self.pull(number, link, now);
        Ok(())
    }

    fn begin(&mut self) {
        self.measured = Measured::default();
    }

    fn is_done(&self) -> bool {
        self.measured.messages >= self.limit || (self.started && self.reading == 0)
    }

    fn stop(&mut self) {
        self.stopped = true;
    }
}

/// Sends over the first links and pulls over the others, at once.
pub struct Mixed<'a> {
    /// The sender.
    pub produce: &'a mut dyn Load,
    /// The reader.
    pub consume: &'a mut dyn Load,
    /// Links of the sender.
    pub producers: usize,
}

impl Load for Mixed<'_> {
    fn tick(&mut self, links: &mut [Link], now: u64) -> Option<u64> {
        let (producers, consumers) = links.split_at_mut(self.producers);
        let due = self.produce.tick(producers, now);
        self.consume.tick(consumers, now);
        due
    }

    fn answered(
        &mut self,
        (number, link): (usize, &mut Link),
        answer: &Answer<'_>,
        since: u64,
        now: u64,
    ) -> Result<()> {
        match number.checked_sub(self.producers) {
            Some(number) => self.consume.answered((number, link), answer, since, now),
            None => self.produce.answered((number, link), answer, since, now),
        }
    }

    fn begin(&mut self) {
        self.produce.begin();
        self.consume.begin();
    }

    fn is_done(&self) -> bool {
        self.produce.is_done()
    }

    fn stop(&mut self) {
        self.produce.stop();
        self.consume.stop();
    }
}
