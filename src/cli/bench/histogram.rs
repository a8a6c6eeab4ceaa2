//! Counts of durations, exact to 1 %, in fixed memory.

/// Buckets of one power of two.
const PER_OCTAVE: usize = 128;
const OCTAVE_BITS: u32 = PER_OCTAVE.trailing_zeros();
/// Durations up to 2^42 ns, an hour; longer ones count as that.
const OCTAVES: usize = 36;
const NANOS_MAX: u64 = (1 << (OCTAVES as u32 + OCTAVE_BITS - 1)) - 1;

/// A histogram of nanoseconds: below 256 one bucket each, above 128 buckets for each power of two.
#[derive(Clone)]
pub struct Histogram {
    counts: Box<[u64; OCTAVES * PER_OCTAVE]>,
    total: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { counts: Box::new([0; OCTAVES * PER_OCTAVE]), total: 0, max: 0 }
    }
}

impl Histogram {
    /// Adds `count` durations of `nanos`.
    pub fn record(&mut self, nanos: u64, count: u64) {
        self.counts[bucket(nanos.min(NANOS_MAX))] += count;
        self.total += count;
        self.max = self.max.max(nanos);
    }

    /// The duration that the share `quantile` of all does not exceed; 0 of none.
    pub fn quantile(&self, quantile: f64) -> u64 {
        let wanted = ((self.total as f64 * quantile).ceil() as u64).clamp(1, self.total.max(1));
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return upper_end(bucket).min(self.max);
            }
        }
        self.max
    }

    /// The longest duration.
    pub fn max(&self) -> u64 {
        self.max
    }
}

/// ```text
/// 0 .. 255 | 256 .. 511 by 2 | 512 .. 1023 by 4 | …
/// ```
fn bucket(nanos: u64) -> usize {
    let shift = (u64::BITS - nanos.leading_zeros()).saturating_sub(OCTAVE_BITS + 1);
    (shift as usize) * PER_OCTAVE + (nanos >> shift) as usize
}

/// The largest duration in a bucket.
fn upper_end(bucket: usize) -> u64 {
    let shift = (bucket / PER_OCTAVE).saturating_sub(1);
    let first = (bucket - shift * PER_OCTAVE) as u64;
    ((first + 1) << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_duration_is_in_its_bucket() {
        let mut before = 0;
        for nanos in (0..5000).chain((12..42).flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + 1])) {
            let nanos: u64 = nanos;
            let bucket = bucket(nanos.min(NANOS_MAX));
            assert!(bucket >= before || nanos < 5000, "{nanos}");
            assert!(upper_end(bucket) >= nanos.min(NANOS_MAX), "{nanos}");
            assert!(upper_end(bucket) as f64 <= nanos as f64 * 1.01 + 1.0, "{nanos} in {}", upper_end(bucket));
            before = bucket;
        }
        assert!(bucket(NANOS_MAX) < OCTAVES * PER_OCTAVE);
    }

    #[test]
    fn quantiles() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.5), 0);
        for nanos in 1..=100 {
            histogram.record(nanos, 1);
        }
        assert_eq!([0.5, 0.99, 0.999, 1.0].map(|q| histogram.quantile(q)), [50, 99, 100, 100]);
        histogram.record(u64::MAX, 100);
        assert_eq!(histogram.quantile(0.4), 80);
        assert_eq!(histogram.max(), u64::MAX);
    }
}
