//! Random durations: one stream a task, keyed by the run's seed and the task's path.
//!
//! Logarithm and cosine come from `libm` and not from the platform, and no distribution crate is used: a generic one takes the
//! platform's functions whenever any other crate of the build asks for its `std` feature, and a run's result would depend on that.

use std::f64::consts::TAU;

use rand::{Rng, RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use schedlab_model::{Duration, Time};

/// The hash of a name (FNV-1a, 64 bits).
pub(crate) fn name_key(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// A bijection of 64 bits in which every input bit reaches every output bit (the finaliser of SplitMix64).
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// The key of a task below `parent` (the seed, for a task that is there from the start).
pub(crate) fn path_key(parent: u64, name_key: u64, instance: u32) -> u64 {
    let golden = 0x9e37_79b9_7f4a_7c15u64;
    mix(mix(parent.wrapping_add(golden) ^ name_key).wrapping_add(golden.wrapping_mul(u64::from(instance) + 1)))
}

/// A task's stream of random times.
#[derive(Debug, Clone)]
pub(crate) struct Stream(Xoshiro256PlusPlus);

impl Stream {
    pub(crate) fn new(key: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(key))
    }

    /// The next time of this distribution. Draws as many words as the distribution needs and keeps nothing back.
    #[inline(always)]
    pub(crate) fn draw(&mut self, duration: Duration) -> Time {
        if let Duration::Uniform { low, high } = duration { self.between(low, high) } else { self.draw_other(duration) }
    }

    /// Uniform from `low` to `high`, both included.
    #[inline(always)]
    pub(crate) fn between(&mut self, low: Time, high: Time) -> Time {
        debug_assert!(low <= high, "the compiler refuses others");
        let (low, number) = (low.as_nanos(), (high.as_nanos() - low.as_nanos()).wrapping_add(1));
        if number == 0 { Time::from_nanos(self.0.next_u64()) } else { self.among(low, number) }
    }

    /// Uniform among `number` nanoseconds, at least one, from `low` on: a word times their number, of which the upper half counts, and another word where
    /// its carry may: Canon's method, as `rand` 0.9 has it.
    #[inline(always)]
    pub(crate) fn among(&mut self, low: u64, number: u64) -> Time {
        let product = u128::from(self.0.next_u64()) * u128::from(number);
        let (upper, lower) = ((product >> 64) as u64, product as u64);
        let carry = lower > number.wrapping_neg() && self.carries(lower, number);
        Time::from_nanos(low + upper + u64::from(carry))
    }

    #[cold]
    fn carries(&mut self, lower: u64, number: u64) -> bool {
        let product = u128::from(self.0.next_u64()) * u128::from(number);
        lower.checked_add((product >> 64) as u64).is_none()
    }

    #[inline(never)]
    fn draw_other(&mut self, duration: Duration) -> Time {
        match duration {
            Duration::Fixed(time) => time,
            Duration::Uniform { low, high } => self.between(low, high),
            // Inverse of the distribution function 1 − e^(−x/mean).
            Duration::Exponential { mean } => nearest(-libm::log(self.positive()) * mean.as_nanos() as f64),
            // Box and Muller 1958, the cosine half.
            Duration::Normal { mean, deviation } => {
                let radius = libm::sqrt(-2.0 * libm::log(self.positive()));
                let angle = TAU * self.0.random::<f64>();
                nearest(mean.as_nanos() as f64 + deviation.as_nanos() as f64 * radius * libm::cos(angle))
            }
        }
    }

    /// Uniform in (0, 1], so that its logarithm is finite.
    fn positive(&mut self) -> f64 {
        1.0 - self.0.random::<f64>()
    }
}

/// Whole nanoseconds; what lies below zero becomes zero.
fn nearest(nanoseconds: f64) -> Time {
    Time::from_nanos(libm::round(nanoseconds) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(duration: Duration) -> Vec<f64> {
        let mut stream = Stream::new(7);
        (0..40_000).map(|_| stream.draw(duration).as_nanos() as f64).collect()
    }

    fn mean_and_deviation(sample: &[f64]) -> (f64, f64) {
        let mean = sample.iter().sum::<f64>() / sample.len() as f64;
        let variance = sample.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (sample.len() - 1) as f64;
        (mean, variance.sqrt())
    }

    #[test]
    fn samples_have_the_moments_of_their_distributions() {
        let micros = Time::from_micros;
        // Textbook moments: uniform on [a, b] has mean (a+b)/2 and deviation (b−a)/√12; exponential has both equal to its mean.
        // With n = 40,000 the mean's standard error is deviation/200, the deviation's below deviation/140 (exponential: √8/2/200).
        // Five standard errors are allowed.
        for (duration, mean, deviation) in [
            (Duration::Uniform { low: micros(10), high: micros(30) }, 20_000.0, 20_000.0 / 12f64.sqrt()),
            (Duration::Exponential { mean: micros(50) }, 50_000.0, 50_000.0),
            (Duration::Normal { mean: micros(100), deviation: micros(10) }, 100_000.0, 10_000.0),
        ] {
            let (found_mean, found_deviation) = mean_and_deviation(&sample(duration));
            assert!((found_mean - mean).abs() < 5.0 * deviation / 200.0, "{duration:?}: mean {found_mean}");
            assert!((found_deviation - deviation).abs() < 5.0 * deviation / 140.0, "{duration:?}: {found_deviation}");
        }
    }

    #[test]
    fn a_normal_time_is_cut_at_zero() {
        // Mean 0: half of all draws lie below zero, five standard errors of a proportion are 5·√(0.25/40,000) = 0.0125.
        let sample = sample(Duration::Normal { mean: Time::ZERO, deviation: Time::from_micros(1) });
        let zeros = sample.iter().filter(|&&x| x == 0.0).count() as f64 / sample.len() as f64;
        assert!((zeros - 0.5).abs() < 0.0125, "{zeros}");
    }

    #[test]
    fn the_extremes_of_a_uniform_time_occur() {
        let (low, high) = (Time::from_nanos(3), Time::from_nanos(5));
        let mut sample = sample(Duration::Uniform { low, high });
        sample.sort_by(f64::total_cmp);
        sample.dedup();
        assert_eq!(sample, [3.0, 4.0, 5.0]);
    }

    /// The same streams as `rand`'s own uniform distribution, which earlier results were drawn from: ranges so wide that the second word is
    /// needed among them, and all 64 bits.
    #[test]
    fn uniform_times_are_those_of_rand() {
        let mut bounds = Xoshiro256PlusPlus::seed_from_u64(11);
        let (mut ours, mut theirs) = (Stream::new(7), Stream::new(7));
        for round in 0..20_000 {
            let (one, other) = (bounds.next_u64() >> (round % 64), bounds.next_u64() >> (round % 61));
            let (low, high) = if round == 0 { (0, u64::MAX) } else { (one.min(other), one.max(other)) };
            let time = ours.draw(Duration::Uniform { low: Time::from_nanos(low), high: Time::from_nanos(high) });
            assert_eq!(time.as_nanos(), theirs.0.random_range(low..=high), "{low}..={high}");
        }
        assert_eq!(ours.0, theirs.0, "as many words were drawn");
    }

    #[test]
    fn fnv_is_the_published_function() {
        // Vectors of Fowler, Noll and Vo: the empty text gives the offset basis, "a" af63dc4c8601ec8c.
        assert_eq!(name_key(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(name_key("a"), 0xaf63_dc4c_8601_ec8c);
    }

    #[test]
    fn paths_differ_in_every_part() {
        let key = path_key(1, name_key("a"), 0);
        for other in [path_key(2, name_key("a"), 0), path_key(1, name_key("b"), 0), path_key(1, name_key("a"), 1)] {
            assert_ne!(key, other);
        }
    }
}
