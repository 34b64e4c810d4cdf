//! Histograms of latencies, and the percentiles that are read from them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Buckets a factor of two is divided into: a percentile is at most 1/32 too high.
const PARTS: u32 = 32;

/// How many buckets a histogram of 64-bit nanoseconds has.
pub const LATENCY_BUCKETS: usize = (64 - 5) * PARTS as usize + PARTS as usize;

/// Percentiles of a time in nanoseconds, each the upper end of its bucket and so at most 1/32 above the exact one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Latency {
    /// How many measurements.
    pub count: u64,
    /// The median.
    pub p50_ns: u64,
    /// 90 % are no longer.
    pub p90_ns: u64,
    /// 99 % are no longer.
    pub p99_ns: u64,
    /// 99.9 % are no longer.
    pub p999_ns: u64,
    /// The longest, exactly.
    pub max_ns: u64,
}

/// The bucket of a time.
///
/// Below 32 ns each nanosecond is one; above, each power of two has 32.
pub const fn latency_bucket(nanoseconds: u64) -> usize {
    if nanoseconds < PARTS as u64 {
        return nanoseconds as usize;
    }
    let power = 63 - nanoseconds.leading_zeros();
    let part = (nanoseconds >> (power - 5)) as u32 & (PARTS - 1);
    ((power - 4) * PARTS + part) as usize
}

/// The longest time of a bucket.
const fn upper_end(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let parts = PARTS as u64;
    if bucket < parts {
        return bucket;
    }
    let (shift, part) = (bucket / parts - 1, bucket % parts);
    // The first time of the next bucket, less one; the last bucket's is the end of time.
    ((parts + part) << shift) + ((1 << shift) - 1)
}

/// A histogram of times; takes no memory before the first one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Histogram {
    buckets: Vec<u64>,
    longest: u64,
}

impl Histogram {
    /// A histogram from the counts of all [`LATENCY_BUCKETS`] and the longest time in nanoseconds.
    pub fn of(buckets: Vec<u64>, longest: u64) -> Self {
        debug_assert_eq!(buckets.len(), LATENCY_BUCKETS);
        Self { buckets, longest }
    }

    /// Counts a time in nanoseconds.
    pub fn add(&mut self, nanoseconds: u64) {
        self.buckets.resize(LATENCY_BUCKETS, 0);
        self.buckets[latency_bucket(nanoseconds)] += 1;
        self.longest = self.longest.max(nanoseconds);
    }

    /// Adds another histogram's counts.
    pub fn merge(&mut self, other: &Self) {
        self.buckets.resize(self.buckets.len().max(other.buckets.len()), 0);
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(count, others)| *count += others);
        self.longest = self.longest.max(other.longest);
    }

    /// The percentiles, if anything was counted.
    pub fn latency(&self) -> Option<Latency> {
        let latency = Latency::new(&self.buckets, self.longest);
        (latency.count > 0).then_some(latency)
    }
}

/// The latencies of a run: what each stopwatch measured, and as `wakeup NAME` the times from the posts of the semaphore NAME until the task
/// that waited for it runs.
///
/// Semaphores whose names differ in numbers alone (`work.0.0`, `work.0.1`) are measured as one, `wakeup work`.
///
/// ```
/// use schedlab_model::{Histogram, latencies};
/// let once = |nanoseconds| {
///     let mut times = Histogram::default();
///     times.add(nanoseconds);
///     times
/// };
/// let found = latencies([("request", once(9))], [("work.0", once(2)), ("work.1", once(4)), ("lonely", Histogram::default())]);
/// let counts: Vec<_> = found.iter().map(|(name, latency)| (name.as_str(), latency.count, latency.max_ns)).collect();
/// assert_eq!(counts, [("request", 1, 9), ("wakeup work", 2, 4)]);
/// ```
pub fn latencies<'a>(
    stopwatches: impl IntoIterator<Item = (&'a str, Histogram)>,
    semaphores: impl IntoIterator<Item = (&'a str, Histogram)>,
) -> BTreeMap<String, Latency> {
    let mut measured: BTreeMap<String, Histogram> = BTreeMap::new();
    let stopwatches = stopwatches.into_iter().map(|(name, times)| (name.to_owned(), times));
    let wakeups = semaphores.into_iter().map(|(name, times)| (format!("wakeup {}", without_numbers(name)), times));
    for (name, times) in stopwatches.chain(wakeups) {
        measured.entry(name).or_default().merge(&times);
    }
    measured.into_iter().filter_map(|(name, times)| Some((name, times.latency()?))).collect()
}

/// `work` of `work.0.1`.
fn without_numbers(name: &str) -> &str {
    match name.rsplit_once('.') {
        Some((before, number)) if !before.is_empty() && number.parse::<u64>().is_ok() => without_numbers(before),
        _ => name,
    }
}

impl Latency {
    /// Reads the percentiles from the counts of the buckets and the longest time: each the least upper end below which so many lie
    /// (the nearest-rank percentile).
    ///
    /// ```
    /// use schedlab_model::{LATENCY_BUCKETS, Latency, latency_bucket};
    /// let mut buckets = vec![0; LATENCY_BUCKETS];
    /// for time in 1..=100 {
    ///     buckets[latency_bucket(time)] += 1;
    /// }
    /// let latency = Latency::new(&buckets, 100);
    /// // The 50th of 100 is 50; times from 32 to 63 have a bucket each, those above two to a bucket: 99 shares 98's.
    /// assert_eq!((latency.count, latency.p50_ns, latency.p99_ns, latency.max_ns), (100, 50, 99, 100));
    /// ```
    pub fn new(buckets: &[u64], max_ns: u64) -> Self {
        let count: u64 = buckets.iter().sum();
        let percentile = |per_mille: u64| {
            let rank = (u128::from(count) * u128::from(per_mille)).div_ceil(1000);
            let mut below = 0u128;
            let found = buckets.iter().position(|bucket| {
                below += u128::from(*bucket);
                below >= rank
            });
            found.map_or(0, upper_end).min(max_ns)
        };
        if count == 0 {
            return Self::default();
        }
        let [p50_ns, p90_ns, p99_ns, p999_ns] = [500, 900, 990, 999].map(percentile);
        Self { count, p50_ns, p90_ns, p99_ns, p999_ns, max_ns }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_are_taken_off_names() {
        for (name, expected) in
            [("work.0.1", "work"), ("idle.12", "idle"), ("s", "s"), (".5", ".5"), ("v1.x", "v1.x"), ("a.b.7", "a.b")]
        {
            assert_eq!(without_numbers(name), expected);
        }
    }

    #[test]
    fn buckets_follow_one_another() {
        assert_eq!(latency_bucket(u64::MAX), LATENCY_BUCKETS - 1);
        assert_eq!(upper_end(LATENCY_BUCKETS - 1), u64::MAX);
        for bucket in 0..LATENCY_BUCKETS - 1 {
            assert_eq!(latency_bucket(upper_end(bucket)), bucket);
            assert_eq!(latency_bucket(upper_end(bucket) + 1), bucket + 1);
        }
    }

    proptest! {
        #[test]
        fn percentiles_are_the_nearest_rank_and_little_more(mut times in prop::collection::vec(0u64..10_000_000_000, 1..300)) {
            let mut buckets = vec![0; LATENCY_BUCKETS];
            times.iter().for_each(|time| buckets[latency_bucket(*time)] += 1);
            times.sort_unstable();
            let latency = Latency::new(&buckets, *times.last().unwrap());
            for (found, per_mille) in [(latency.p50_ns, 500), (latency.p90_ns, 900), (latency.p99_ns, 990), (latency.p999_ns, 999)] {
                let exact = times[(times.len() * per_mille).div_ceil(1000) - 1];
                prop_assert!(found >= exact && found <= exact + exact / 32, "{found} for {exact}");
            }
        }
    }
}
