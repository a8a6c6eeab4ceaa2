//! Sends: as fast as the answers come, or at a given rate.

use anyhow::Result;

use super::client::{Link, Load};
use super::frames::{Answer, Numbers, Template};
use super::measured::Measured;
use crate::proto::remoting::{request, response};

/// Sends the same requests again and again over all links.
pub struct Produce {
    /// One for each topic, all of as many messages and bytes.
    templates: Vec<Template>,
    messages_each: u32,
    payload_each: u64,
    queues: u32,
    pace: Option<Pace>,
    /// Messages after which it is done.
    limit: u64,
    started: bool,
    stopped: bool,
    next_key: u64,
    next_queue: u32,
    next_template: usize,
    next_link: usize,
    /// What has been measured so far.
    pub measured: Measured,
}

/// When requests are due. They are, whether the server keeps up or not: a request that has to wait for its turn is
/// counted from the time at which it was due, so that a slow answer shows in all that it held up.
struct Pace {
    nanos_each: f64,
    first: Option<u64>,
    sent: u64,
}

impl Pace {
    fn due(&mut self, now: u64) -> u64 {
        *self.first.get_or_insert(now) + (self.sent as f64 * self.nanos_each) as u64
    }
}

impl Produce {
    /// Sends `templates` in turn, each to its topic's `queues` queues in turn, `rate` messages a second if one is given,
    /// until `limit` messages are acknowledged.
    pub fn new(templates: Vec<Template>, queues: u32, rate: Option<f64>, limit: Option<u64>) -> Produce {
        let (messages_each, payload_each) = templates.first().map_or((1, 0), |first| (first.messages, first.payload));
        let nanos_each = |rate: f64| 1e9 * f64::from(messages_each) / rate;
        let pace = rate.map(|rate| Pace { nanos_each: nanos_each(rate), first: None, sent: 0 });
        Produce {
            templates,
            messages_each,
            payload_each,
            queues: queues.max(1),
            pace,
            limit: limit.unwrap_or(u64::MAX),
            started: false,
            stopped: false,
            next_key: 0,
            next_queue: 0,
            next_template: 0,
            next_link: 0,
            measured: Measured::default(),
        }
    }

    fn send(&mut self, link: &mut Link, since: u64) -> bool {
        let Some(slot) = link.take(since) else { return false };
        let numbers = Numbers { slot, queue: self.next_queue, key: self.next_key, offset: 0 };
        self.templates[self.next_template].write(link.out(), numbers);
        self.next_template = (self.next_template + 1) % self.templates.len();
        if self.next_template == 0 {
            self.next_queue = (self.next_queue + 1) % self.queues;
        }
        self.next_key += u64::from(self.messages_each) + 1;
        true
    }
}

impl Load for Produce {
    fn tick(&mut self, links: &mut [Link], now: u64) -> Option<u64> {
        if self.stopped {
            return None;
        }
        let Some(mut pace) = self.pace.take() else {
            if !std::mem::replace(&mut self.started, true) {
                links.iter_mut().for_each(|link| while self.send(link, now) {});
            }
            return None;
        };
        let mut due = pace.due(now);
        let mut waits_for_answers = false;
        while due <= now && !waits_for_answers {
            let count = links.len();
            let free = (self.next_link..self.next_link + count).find(|number| links[number % count].free() > 0);
            match free {
                Some(number) => {
                    self.send(&mut links[number % count], due);
                    self.next_link = (number + 1) % count;
                    pace.sent += 1;
                    due = pace.due(now);
                }
                None => waits_for_answers = true,
            }
        }
        self.pace = Some(pace);
        (!waits_for_answers).then_some(due)
    }

    fn answered(&mut self, (_, link): (usize, &mut Link), answer: &Answer<'_>, since: u64, now: u64) -> Result<()> {
        // At a given rate every request counts that was due in time, however late its answer comes.
        if self.stopped && self.pace.is_none() {
            return Ok(());
        }
        match answer.code {
            // An echo comes back with the request's code.
            response::SUCCESS | request::SEND_MESSAGE_V2 | request::SEND_BATCH_MESSAGE => {
                self.measured.messages += u64::from(self.messages_each);
                self.measured.bytes += self.payload_each;
                self.measured.latency.record(now.saturating_sub(since), u64::from(self.messages_each));
            }
            code => self.measured.error(code, || answer.remark()),
        }
        if self.pace.is_none() {
            self.send(link, now);
        }
        Ok(())
    }

    fn begin(&mut self) {
        self.measured = Measured::default();
    }

    fn is_done(&self) -> bool {
        self.measured.messages >= self.limit
    }

    fn stop(&mut self) {
        self.stopped = true;
    }
}
