//! Processes and machines: death, power, pauses, restarts.

use std::sync::Arc;

use futures::channel::oneshot;

use super::{Life, NodeId, World};
use crate::disk::Choose;
use crate::history::Event;
use crate::sometimes;

impl World {
    /// The process dies at once. The kernel lives on: its page cache stays, its connections are closed.
    pub fn kill(&self, node: NodeId) {
        self.note(node, "killed", &[], "");
        self.0.network.kill(node);
        self.end_life(node);
        self.disk(node).kill();
    }

    /// The machine loses its power: unsynced data is gone or torn, and nobody hears a farewell.
    pub fn power_cut(&self, node: NodeId) {
        self.note(node, "power cut", &[], "");
        self.0.network.power_off(node);
        self.end_life(node);
        self.disk(node).power_cut();
    }

    /// The kernel of the machine stops and it starts anew: unsynced data is gone, but no write is torn, and nobody hears a
    /// farewell.
    pub fn os_crash(&self, node: NodeId) {
        self.note(node, "os crash", &[], "");
        self.0.network.power_off(node);
        self.end_life(node);
        self.disk(node).os_crash();
    }

    /// As [`World::power_cut`], `choose` deciding what of the unsynced changes is on the disk.
    pub fn power_cut_by(&self, node: NodeId, choose: &mut dyn Choose) {
        self.note(node, "power cut", &[], "");
        self.0.network.power_off(node);
        self.end_life(node);
        self.disk(node).power_cut_by(choose);
    }

    /// Makes the machine ready for a new process, which the scenario starts.
    pub fn restart(&self, node: NodeId) {
        let machine = {
            let mut nodes = self.nodes();
            let n = nodes.get_mut(&node).expect("a node of this world");
            assert!(!n.life.is_alive(), "kill {} before restarting it", n.name);
            n.life = Life::default();
            n.incarnation += 1;
            n.stopped = false;
            n.machine
        };
        self.note(node, "restarted", &[], "");
        self.0.network.power_on(node);
        self.0.runtime.restart(machine);
    }

    /// Stops all tasks of a node for a while, as a long garbage collection or SIGSTOP does; its kernel goes on.
    pub fn pause(&self, node: NodeId) {
        self.note(node, "paused", &[], "");
        let (machine, pauses) = self.change(node, |n| {
            n.pauses += 1;
            (n.machine, n.pauses)
        });
        sometimes!(pauses > 1, "a machine was paused twice at once");
        self.0.runtime.pause(machine);
    }

    /// Ends one [`World::pause`]; the node goes on when none is left.
    pub fn resume(&self, node: NodeId) {
        let (machine, left) = self.change(node, |n| {
            n.pauses = n.pauses.saturating_sub(1);
            (n.machine, n.pauses)
        });
        if left == 0 {
            self.note(node, "resumed", &[], "");
            self.0.runtime.resume(machine);
        }
    }

    /// Ends every [`World::pause`] of a node.
    pub fn resume_fully(&self, node: NodeId) {
        if self.with(node, |n| n.pauses) > 0 {
            self.change(node, |n| n.pauses = 1);
            self.resume(node);
        }
    }

    /// What starts a machine's process: [`World::boot`] calls it.
    pub fn set_program(&self, node: NodeId, program: impl Fn(&World) + Send + Sync + 'static) {
        self.change(node, |n| n.program = Some(Arc::new(program)));
    }

    /// True if a machine has a program to run.
    pub fn has_program(&self, node: NodeId) -> bool {
        self.with(node, |n| n.program.is_some())
    }

    /// Starts a machine's process, which must not run already.
    pub fn run_program(&self, node: NodeId) {
        if let Some(program) = self.with(node, |n| n.program.clone()) {
            program(self);
        }
    }

    /// Switches a machine on that is off, and starts its process. Does nothing if it runs or has none.
    pub fn boot(&self, node: NodeId) {
        let program = self.with(node, |n| n.program.clone());
        if let (Some(program), false) = (program, self.is_alive(node)) {
            self.restart(node);
            program(self);
        }
    }

    /// Takes the way to ask a node's process to stop, from its start on.
    pub fn can_be_stopped(&self, node: NodeId, stop: oneshot::Sender<()>) {
        self.change(node, |n| n.stop = Some(stop));
    }

    /// Asks a process to stop, as SIGTERM does; false if it cannot be asked or was already.
    pub fn ask_to_stop(&self, node: NodeId) -> bool {
        let stop = self.change(node, |n| n.stop.take());
        self.note(node, "asked to stop", &[], "");
        stop.is_some_and(|stop| stop.send(()).is_ok())
    }

    /// The process has stopped as it was asked to.
    pub fn stopped(&self, node: NodeId) {
        self.note(node, "stopped", &[], "");
        self.change(node, |n| n.stopped = true);
    }

    /// True once it has.
    pub fn has_stopped(&self, node: NodeId) -> bool {
        self.with(node, |n| n.stopped)
    }

    /// From now on a node's process may end by itself, or refuse to start: its disk is to blame.
    pub fn excuse(&self, node: NodeId) {
        self.change(node, |n| n.excused = true);
    }

    /// True if a node's process may end by itself.
    pub fn is_excused(&self, node: NodeId) -> bool {
        self.with(node, |n| n.excused)
    }

    /// Ends [`World::excuse`]; true if there was one.
    pub fn take_excuse(&self, node: NodeId) -> bool {
        self.change(node, |n| std::mem::take(&mut n.excused))
    }

    /// Which life of its process a node lives, from 1 on.
    pub fn incarnation(&self, node: NodeId) -> u64 {
        self.with(node, |n| n.incarnation)
    }

    fn end_life(&self, node: NodeId) {
        let machine = self.with(node, |n| {
            n.life.end();
            n.machine
        });
        self.0.runtime.kill(machine);
        let name = self.with(node, |n| n.name.clone());
        self.history().add(node, Event::Down(name.as_str().into()));
    }
}
