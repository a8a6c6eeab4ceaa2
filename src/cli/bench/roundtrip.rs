//! From a send to its delivery by a pull that waits for it.

use anyhow::{bail, Result};

use super::client::{Link, Load};
use super::frames::{body_of, Answer, Numbers, Template};
use super::measured::Measured;
use crate::proto::remoting::response;

/// Link 0 pulls, link 1 sends; both use queue 0.
const CONSUMER: usize = 0;
const PRODUCER: usize = 1;
/// How long a pull has been under way before a message is sent to it: it waits in the broker by then.
const PARKED_NANOS: u64 = 300_000;
/// A message that has not come after this is missed: its pull was not woken.
const MISSED_NANOS: u64 = 1_000_000_000;
/// An offset that no queue has reached: the answer tells the end.
const BEYOND: u64 = i64::MAX as u64;

/// One message at a time, each to a pull that waits.
pub struct Roundtrip {
    send: Template,
    pull: Template,
    nanos_between: u64,
    limit: u64,
    started: bool,
    stopped: bool,
    place: u64,
    /// Since when the pull that waits has been under way; `None` while the queue's end is not known.
    pulling_since: Option<u64>,
    /// The message on its way: its number and when it was sent.
    on_its_way: Option<(u64, u64)>,
    next_send: u64,
    sent: u64,
    /// Messages that did not come in time.
    pub missed: u64,
    /// Send to delivery.
    pub delivery: Measured,
    /// Send to acknowledgement.
    pub acknowledged: Measured,
}

impl Roundtrip {
    /// `rate` messages a second.
    pub fn new(send: Template, pull: Template, rate: f64, limit: Option<u64>) -> Roundtrip {
        Roundtrip {
            send,
            pull,
            nanos_between: (1e9 / rate) as u64,
            limit: limit.unwrap_or(u64::MAX),
            started: false,
            stopped: false,
            place: BEYOND,
            pulling_since: None,
            on_its_way: None,
            next_send: 0,
            sent: 0,
            missed: 0,
            delivery: Measured::default(),
            acknowledged: Measured::default(),
        }
    }

    fn pull(&mut self, link: &mut Link, now: u64) {
        if let Some(slot) = link.take(now) {
            self.pull.write(link.out(), Numbers { slot, offset: self.place, ..Numbers::default() });
        }
    }

    fn delivered(&mut self, answer: &Answer<'_>, now: u64) {
        for body in answer.records().filter_map(body_of) {
            let mark = body.first_chunk().map(|mark| u64::from_be_bytes(*mark));
            let Some((_, sent_at)) = self.on_its_way.take_if(|(number, _)| Some(*number) == mark) else { continue };
            self.delivery.messages += 1;
            self.delivery.bytes += body.len() as u64;
            self.delivery.latency.record(now - sent_at, 1);
        }
    }
}

impl Load for Roundtrip {
    fn tick(&mut self, links: &mut [Link], now: u64) -> Option<u64> {
        if self.stopped {
            return None;
        }
        if !std::mem::replace(&mut self.started, true) {
            self.pull(&mut links[CONSUMER], now);
        }
        if let Some((_, sent_at)) = self.on_its_way {
            if now < sent_at + MISSED_NANOS {
                return Some(sent_at + MISSED_NANOS);
            }
            self.missed += 1;
            self.on_its_way = None;
        }
        let due = self.next_send.max(self.pulling_since? + PARKED_NANOS);
        if now < due {
            return Some(due);
        }
        if let Some(slot) = links[PRODUCER].take(now) {
            self.sent += 1;
            let numbers = Numbers { slot, key: self.sent, ..Numbers::default() };
            self.send.write_marked(links[PRODUCER].out(), numbers, self.sent);
            self.on_its_way = Some((self.sent, now));
            self.next_send = now + self.nanos_between;
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
        match (number, answer.code) {
            (PRODUCER, response::SUCCESS) => {
                self.acknowledged.messages += 1;
                self.acknowledged.latency.record(now - since, 1);
                return Ok(());
            }
            (CONSUMER, response::SUCCESS) => self.delivered(answer, now),
            (CONSUMER, response::PULL_OFFSET_MOVED | response::PULL_NOT_FOUND | response::PULL_RETRY_IMMEDIATELY) => {}
            (_, code) => bail!("a request was refused with code {code}: {}", answer.remark()),
        }
        self.place = answer.field("nextBeginOffset").unwrap_or_default().max(0) as u64;
        self.pulling_since = Some(now);
        self.pull(link, now);
        Ok(())
    }

    fn begin(&mut self) {
        self.delivery = Measured::default();
        self.acknowledged = Measured::default();
        self.missed = 0;
    }

    fn is_done(&self) -> bool {
        self.delivery.messages >= self.limit
    }

    fn stop(&mut self) {
        self.stopped = true;
    }
}
