//! Which unsynced changes a power cut keeps.

use crate::random::Stream;

/// Makes the choices of a crash: a random stream, or all of them in turn.
pub trait Choose {
    /// A number in `0..count`; `count` is at least 1.
    fn choose(&mut self, count: u64) -> u64;
}

impl Choose for Stream {
    fn choose(&mut self, count: u64) -> u64 {
        self.below(count)
    }
}

/// The shape of the loss. Real devices rarely lose sectors at random: they lose everything, nothing, or a tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Nothing unsynced is there.
    Nothing,
    /// Everything is there.
    Everything,
    /// The changes before one moment are there, given in thousandths of all changes; the one at that moment is torn.
    Before(u64),
    /// Every write as a whole, in any order.
    Writes,
    /// Every sector for itself.
    Each,
}

impl Style {
    /// Draws a style.
    pub fn draw(stream: &mut Stream) -> Style {
        match stream.below(8) {
            0 => Style::Nothing,
            1 => Style::Everything,
            2 | 3 => Style::Before(stream.below(1_001)),
            4 | 5 => Style::Writes,
            _ => Style::Each,
        }
    }

    /// How many of `count` changes of the length landed. The length and the data are separate on a device, so even a
    /// style that loses all data may keep the length.
    pub(super) fn lengths(self, count: usize, choose: &mut dyn Choose) -> usize {
        match self {
            Style::Everything => count,
            _ if count == 0 => 0,
            Style::Each | Style::Writes => choose.choose(count as u64 + 1) as usize,
            Style::Nothing | Style::Before(_) => [0, count][choose.choose(2) as usize],
        }
    }

    /// How many of the writes `indexes` to one sector landed, out of `total` changes of the file. `whole` says of each
    /// change whether it landed, for [`Style::Writes`].
    pub(super) fn version(self, indexes: &[usize], total: usize, whole: &[bool], choose: &mut dyn Choose) -> u64 {
        let all = indexes.len() as u64;
        match self {
            Style::Nothing => 0,
            Style::Everything => all,
            Style::Writes => indexes.iter().rposition(|index| whole[*index]).map_or(0, |last| last as u64 + 1),
            Style::Each => choose.choose(all + 1),
            Style::Before(thousandth) => {
                let moment = total as u64 * thousandth / 1_000;
                let before = indexes.iter().filter(|index| (**index as u64) < moment).count() as u64;
                let torn = indexes.iter().any(|index| *index as u64 == moment);
                before + if torn { choose.choose(2) } else { 0 }
            }
        }
    }

    /// Whether a change of a name landed, given its place among `total` of its directory.
    pub(super) fn name(self, index: usize, total: usize, choose: &mut dyn Choose) -> bool {
        match self {
            Style::Nothing => false,
            Style::Everything => true,
            Style::Before(thousandth) => (index as u64) < total as u64 * thousandth / 1_000,
            Style::Each | Style::Writes => choose.choose(2) == 1,
        }
    }
}

/// Goes through all combinations of choices: as an odometer, the last digit turns fastest.
#[derive(Default)]
pub struct Odometer {
    /// Choice made and number of choices, in the order they were asked for.
    digits: Vec<(u64, u64)>,
    next: usize,
}

impl Odometer {
    /// Sets the next combination; false when all were used. Call it after each crash.
    pub fn advance(&mut self) -> bool {
        self.digits.truncate(self.next);
        self.next = 0;
        while let Some((choice, count)) = self.digits.pop() {
            if choice + 1 < count {
                self.digits.push((choice + 1, count));
                return true;
            }
        }
        false
    }
}

impl Choose for Odometer {
    fn choose(&mut self, count: u64) -> u64 {
        if self.next == self.digits.len() {
            self.digits.push((0, count));
        }
        self.next += 1;
        self.digits[self.next - 1].0
    }
}
