//! Medians of many batches: what a measurement came to, and how far it scattered.

use std::collections::BTreeMap;

use schedlab_model::Time;
use serde::Serialize;

/// Batches by what they measured, over all passes.
#[derive(Debug, Default)]
pub(crate) struct Samples(BTreeMap<String, Vec<f64>>);

impl Samples {
    /// Adds batches, in nanoseconds.
    pub(crate) fn add(&mut self, name: &str, batches: Vec<f64>) {
        self.0.entry(name.to_owned()).or_default().extend(batches);
    }

    /// The quartiles of each measurement that has any batch.
    pub(crate) fn spreads(self) -> BTreeMap<String, Spread> {
        self.0.into_iter().filter_map(|(name, batches)| Some((name, Spread::of(batches)?))).collect()
    }
}

/// Quartiles of a measurement's batches, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// Half of the batches were faster.
    pub median_ns: f64,
    /// A quarter of the batches were faster.
    pub p25_ns: f64,
    /// Three quarters of the batches were faster.
    pub p75_ns: f64,
    /// How many batches there were.
    pub samples: usize,
}

impl Spread {
    /// The quartiles of these batches; nothing of none. Quantiles are interpolated linearly (Hyndman and Fan's type 7).
    pub(crate) fn of(mut samples: Vec<f64>) -> Option<Self> {
        samples.retain(|sample| sample.is_finite());
        samples.sort_by(f64::total_cmp);
        let last = samples.len().checked_sub(1)?;
        let quantile = |part: f64| {
            let position = part * last as f64;
            let below = position as usize;
            let above = (below + 1).min(last);
            samples[below] + (samples[above] - samples[below]) * (position - below as f64)
        };
        let (median_ns, p25_ns, p75_ns) = (quantile(0.5), quantile(0.25), quantile(0.75));
        Some(Self { median_ns, p25_ns, p75_ns, samples: samples.len() })
    }

    /// This measurement without a part that was measured apart, and divided.
    pub(crate) fn less(self, part: f64) -> Self {
        let Self { median_ns, p25_ns, p75_ns, samples } = self;
        Self { median_ns: median_ns - part, p25_ns: p25_ns - part, p75_ns: p75_ns - part, samples }
    }

    /// Every batch times a factor.
    pub(crate) fn times(self, factor: f64) -> Self {
        let Self { median_ns, p25_ns, p75_ns, samples } = self;
        Self { median_ns: median_ns * factor, p25_ns: p25_ns * factor, p75_ns: p75_ns * factor, samples }
    }

    /// The weighted mean of several measurements, quartile by quartile; nothing of none.
    pub(crate) fn mean(weighted: &[(Self, f64)]) -> Option<Self> {
        let weights: f64 = weighted.iter().map(|(_, weight)| weight).sum();
        let mean = |value: fn(&Self) -> f64| {
            weighted.iter().map(|(spread, weight)| value(spread) * weight).sum::<f64>() / weights
        };
        (weights > 0.0).then(|| Self {
            median_ns: mean(|spread| spread.median_ns),
            p25_ns: mean(|spread| spread.p25_ns),
            p75_ns: mean(|spread| spread.p75_ns),
            samples: weighted.iter().map(|(spread, _)| spread.samples).sum(),
        })
    }

    /// The median as a time, not below zero.
    pub(crate) fn time(self) -> Time {
        Time::from_nanos(self.median_ns.round().max(0.0) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_interpolated() {
        // Type 7 of 1, 2, 3, 4: positions 0.75, 1.5 and 2.25 of 0..3.
        let spread = Spread::of(vec![4.0, 1.0, f64::NAN, 3.0, 2.0]).unwrap();
        assert_eq!(spread, Spread { median_ns: 2.5, p25_ns: 1.75, p75_ns: 3.25, samples: 4 });
        assert!(Spread::of(vec![]).is_none());
    }

    #[test]
    fn parts_and_factors_act_on_every_quartile() {
        let spread = Spread { median_ns: 10.0, p25_ns: 8.0, p75_ns: 14.0, samples: 3 };
        let half = Spread { median_ns: 4.0, p25_ns: 3.0, p75_ns: 6.0, samples: 3 };
        assert_eq!(spread.less(2.0).times(0.5), half);
        assert_eq!(spread.less(20.0).time(), Time::ZERO);
        // (1·10 + 3·4)/4 = 5.5, (8 + 9)/4 = 4.25, (14 + 18)/4 = 8.
        let mean = Spread { median_ns: 5.5, p25_ns: 4.25, p75_ns: 8.0, samples: 6 };
        assert_eq!(Spread::mean(&[(spread, 1.0), (half, 3.0)]), Some(mean));
        assert_eq!(Spread::mean(&[]), None);
    }
}
