//! Measurements of a time that happens often: a histogram, and the percentiles that are read from it.

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
