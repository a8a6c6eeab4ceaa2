//! Random numbers.

/// Random numbers of one node: from the operating system in production, from the seed in a simulation.
pub trait Rng: Send + Sync + 'static {
    /// A random number.
    fn next_u64(&self) -> u64;

    /// A number in `0..bound`; 0 if `bound` is 0. The bias (below 2^-32 for small bounds) does not matter here.
    fn below(&self, bound: u64) -> u64 {
        if bound == 0 {
            return 0;
        }
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}
