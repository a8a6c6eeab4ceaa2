//! Makes a failing plan small: fewer faults, messages, clients, machines and settings, shorter times, as long as the same
//! checker still finds a broken promise.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::Mutex;

use crate::plan::{Client, Plan, Quality};
use crate::sweep::{child_of_plan, in_parallel, ChildRun};

/// What was made of a plan.
pub struct Shrunk {
    /// The smallest plan that fails.
    pub plan: Plan,
    /// How it fails.
    pub run: ChildRun,
    /// How many runs it took.
    pub runs: usize,
    /// Processor time of all of them, in milliseconds.
    pub cpu_ms: u64,
}

/// How hard to try.
#[derive(Clone, Debug)]
pub struct Effort {
    /// The simulator.
    pub binary: PathBuf,
    /// Runs at the same time.
    pub jobs: usize,
    /// Runs in all, about.
    pub runs_max: usize,
    /// Processor time in all, about, in milliseconds.
    pub cpu_ms_max: u64,
    /// Orders of tasks tried for each candidate: with fewer messages another order may be the one that fails.
    pub schedules: u64,
}

struct Shrinker<'a> {
    effort: &'a Effort,
    checker: String,
    runs: AtomicUsize,
    cpu_ms: AtomicU64,
    best: Plan,
}

/// Settings without which a plan is another one.
const NEEDED: [&str; 1] = ["flushDiskType"];

/// Shrinks a plan; `None` if it does not fail.
pub fn shrink(plan: &Plan, effort: &Effort, progress: &dyn Fn(&Plan, usize)) -> Option<Shrunk> {
    let first = child_of_plan(&effort.binary, plan, None);
    let checker = first.checker()?.to_owned();
    let (runs, cpu_ms) = (AtomicUsize::new(1), AtomicU64::new(first.report.cpu_ms));
    let mut shrinker = Shrinker { effort, checker, runs, cpu_ms, best: plan.clone() };
    shrinker.cut_the_tail(&first);
    loop {
        let before = shrinker.best.clone();
        for step in [
            Shrinker::fewer_faults,
            Shrinker::fewer_clients,
            Shrinker::fewer_sends,
            Shrinker::fewer_machines,
            Shrinker::usual_settings,
            Shrinker::shorter,
        ] {
            step(&mut shrinker);
            progress(&shrinker.best, shrinker.runs.load(Ordering::Relaxed));
        }
        if shrinker.best == before || shrinker.is_tired() {
            break;
        }
    }
    let Shrinker { best, runs, cpu_ms, .. } = shrinker;
    let run = child_of_plan(&effort.binary, &best, None);
    let cpu_ms = cpu_ms.into_inner() + run.report.cpu_ms;
    Some(Shrunk { plan: best, run, runs: runs.into_inner() + 1, cpu_ms })
}

impl Shrinker<'_> {
    fn is_tired(&self) -> bool {
        self.runs.load(Ordering::Relaxed) >= self.effort.runs_max
            || self.cpu_ms.load(Ordering::Relaxed) >= self.effort.cpu_ms_max
    }

    /// The plan, with an order of tasks in which it fails.
    fn failing(&self, candidate: &Plan) -> Option<Plan> {
        for number in 0..self.effort.schedules {
            if self.is_tired() {
                return None;
            }
            let mut candidate = candidate.clone();
            candidate.schedule = candidate.schedule.wrapping_add(number);
            self.runs.fetch_add(1, Ordering::Relaxed);
            let run = child_of_plan(&self.effort.binary, &candidate, None);
            self.cpu_ms.fetch_add(run.report.cpu_ms, Ordering::Relaxed);
            if run.checker() == Some(&self.checker) {
                return Some(candidate);
            }
        }
        None
    }

    /// The first of the candidates that fails becomes the best plan.
    fn take_first(&mut self, candidates: &[Plan]) -> Option<usize> {
        let jobs = self.effort.jobs.max(1);
        for (round, some) in candidates.chunks(jobs).enumerate() {
            let results = Mutex::new(vec![None; some.len()]);
            in_parallel(jobs, some.len(), &|index| {
                let failing = self.failing(&some[index]);
                results.lock().expect("no run panics")[index] = failing;
                true
            });
            let results = results.into_inner().expect("no run panics");
            if let Some((index, Some(plan))) = results.into_iter().enumerate().find(|(_, plan)| plan.is_some()) {
                self.best = plan;
                return Some(round * jobs + index);
            }
        }
        None
    }

    /// Delta debugging: takes out as many of `count` parts as possible. `without` makes a plan of the best one that
    /// keeps only the parts it is told.
    fn minimise(&mut self, count: usize, without: &dyn Fn(&Plan, &[usize]) -> Plan) {
        let whole = self.best.clone();
        let mut kept: Vec<usize> = (0..count).collect();
        if kept.is_empty() || self.take_first(&[without(&whole, &[])]).is_some() {
            return;
        }
        let mut pieces = 2;
        while kept.len() > 1 && !self.is_tired() {
            let size = kept.len().div_ceil(pieces);
            let rests: Vec<Vec<usize>> = (0..kept.len())
                .step_by(size)
                .map(|from| [&kept[..from], &kept[(from + size).min(kept.len())..]].concat())
                .collect();
            let candidates: Vec<Plan> = rests.iter().map(|rest| without(&whole, rest)).collect();
            match self.take_first(&candidates) {
                Some(index) => {
                    kept = rests[index].clone();
                    pieces = (pieces - 1).max(2);
                }
                None if size == 1 => return,
                None => pieces = (pieces * 2).min(kept.len()),
            }
        }
    }

    /// What would come after the violation cannot matter.
    fn cut_the_tail(&mut self, first: &ChildRun) {
        let end = first.report.simulated_us.saturating_sub(first.report.began_us);
        let mut plan = self.best.clone();
        plan.faults.retain(|timed| timed.at_us <= end);
        if plan != self.best {
            self.take_first(&[plan]);
        }
    }

    fn fewer_faults(&mut self) {
        self.minimise(self.best.faults.len(), &|plan, kept| {
            let mut plan = plan.clone();
            plan.faults = kept.iter().map(|index| plan.faults[*index].clone()).collect();
            plan
        });
        self.minimise(self.best.lasting.len(), &|plan, kept| {
            let mut plan = plan.clone();
            plan.lasting = kept.iter().map(|index| plan.lasting[*index].clone()).collect();
            plan
        });
    }

    fn fewer_clients(&mut self) {
        self.minimise(self.best.clients.len(), &|plan, kept| {
            let mut plan = plan.clone();
            plan.clients = kept.iter().map(|index| plan.clients[*index].clone()).collect();
            plan
        });
    }

    /// The pause before a message that is taken out goes to the next one, so that all others keep their times.
    fn fewer_sends(&mut self) {
        self.minimise(self.best.operations(), &|plan, kept| {
            let mut plan = plan.clone();
            let mut number = 0;
            for client in &mut plan.clients {
                let Client::Producer { sends, .. } = client else { continue };
                let mut pause = 0;
                sends.retain_mut(|send| {
                    pause += send.after_us;
                    let keep = kept.binary_search(&number).is_ok();
                    number += 1;
                    if keep {
                        send.after_us = std::mem::take(&mut pause);
                    }
                    keep
                });
            }
            plan
        });
    }

    fn fewer_machines(&mut self) {
        while self.best.brokers > 1 && self.change(|plan| plan.brokers -= 1) {}
        while self.best.nameservers > 1 && self.change(|plan| plan.nameservers -= 1) {}
    }

    fn usual_settings(&mut self) {
        let keys: Vec<String> =
            self.best.settings.keys().filter(|key| !NEEDED.contains(&key.as_str())).cloned().collect();
        self.minimise(keys.len(), &|plan, kept| {
            let mut plan = plan.clone();
            let gone = |key: &String| !kept.iter().any(|index| keys[*index] == *key);
            plan.settings.retain(|key, _| NEEDED.contains(&key.as_str()) || !gone(key));
            plan
        });
        if self.best.quirks {
            self.change(|plan| plan.quirks = false);
        }
        if self.best.network != Quality::Lan {
            self.change(|plan| plan.network = Quality::Lan);
        }
        if !self.best.expect.is_empty() {
            self.change(|plan| plan.expect.clear());
        }
    }

    /// Everything sooner, and plain messages.
    fn shorter(&mut self) {
        while self.best.workload_us() > 1_000 && self.change(|plan| scale(plan, 2)) {}
        self.change(|plan| each_send(plan, &|send| send.bytes = send.bytes.min(20)));
        self.change(|plan| each_send(plan, &|send| send.delay_level = 0));
        self.change(|plan| each_send(plan, &|send| send.recall_ms = 0));
        self.change(|plan| each_send(plan, &|send| send.timer_ms = 0));
    }

    fn change(&mut self, change: impl Fn(&mut Plan)) -> bool {
        let mut plan = self.best.clone();
        change(&mut plan);
        plan != self.best && self.take_first(&[plan]).is_some()
    }
}

fn each_send(plan: &mut Plan, change: &dyn Fn(&mut crate::plan::Send)) {
    for client in &mut plan.clients {
        if let Client::Producer { sends, .. } = client {
            sends.iter_mut().for_each(change);
        }
    }
}

fn scale(plan: &mut Plan, by: u64) {
    each_send(plan, &|send| send.after_us /= by);
    for timed in &mut plan.faults {
        timed.at_us /= by;
    }
}
