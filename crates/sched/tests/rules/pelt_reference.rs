//! A reference for the kernel's load averages, computed step by step from each task's states: in the kernel's integers, and in real numbers.

use proptest::prelude::*;
use schedlab_sched::pelt::SchedAvg;

/// 1024 · Σ y^n in the kernel's integers, and in real numbers 1024 / (1 − y): a period less is what may be missing at its start.
const MOST: u64 = 47_742;

fn y() -> f64 {
    0.5f64.powf(1.0 / 32.0)
}

/// `value` · y^`periods` as a kernel has it: halved every 32 periods, and for the rest times ⌊(2³² − 1) · y^n⌋ over 2³².
fn decayed(value: u128, periods: u64) -> u128 {
    if periods > 32 * 63 {
        return 0;
    }
    let factor = (4_294_967_295.0 * y().powi((periods % 32) as i32)) as u128;
    ((value >> (periods / 32)) * factor) >> 32
}

/// What an entity or queue was doing for a while: weight (1 for an entity that is queued), runnable tasks, running.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Doing {
    pub load: u64,
    pub runnable: u64,
    pub running: bool,
}

/// An entity's or a queue's sums, in the kernel's integers and in real numbers, both in units of 1 and without the factor 1024.
#[derive(Debug, Clone, Copy)]
pub struct Reference {
    pub at: u64,
    pub place: u64,
    pub sums: [u128; 3],
    pub real: [f64; 3],
    pub averages: [u64; 3],
    /// What the load counts times: the weight of an entity, 1 for a queue.
    pub weight: u64,
    /// What the load changed by as weights did, in real numbers, and how far the integers' changes were from that, both in all.
    pub reweighted: f64,
    rounded: f64,
    /// The greatest factors that it was told, of load, runnable and running.
    told: [f64; 3],
}

impl Reference {
    /// Goes on from what is there.
    pub fn from(average: SchedAvg, weight: u64) -> Self {
        let sums = [average.load_sum, average.runnable_sum, u64::from(average.util_sum)].map(u128::from);
        let place = u64::from(average.period_contrib);
        // The real sums begin at the same part of the greatest one.
        let scale = greatest(place) / (MOST - 1024 + place) as f64;
        let real = [sums[0] as f64 * scale, sums[1] as f64 / 1024.0 * scale, sums[2] as f64 / 1024.0 * scale];
        let averages = [average.load_avg, average.runnable_avg, average.util_avg];
        Self {
            at: average.last_update_time,
            place,
            sums,
            real,
            averages,
            weight,
            reweighted: 0.0,
            rounded: 0.0,
            told: [0.0; 3],
        }
    }

    /// Time up to `now` was spent `doing` this.
    pub fn update(&mut self, now: u64, doing: Doing) {
        let length = (now - self.at) / 1024;
        if length == 0 {
            return;
        }
        self.at += length * 1024;
        let Doing { load, runnable, running } = doing;
        let factors = if load == 0 { [0, 0, 0] } else { [load, runnable, u64::from(running)] };
        let end = self.place + length;
        let periods = end / 1024;
        let (first, last) = (1024 - self.place, end % 1024);
        let (mut counted, mut real) = (u128::from(length), length as f64);
        if periods > 0 {
            let decay = y().powi(periods as i32);
            for number in 0..3 {
                self.sums[number] = decayed(self.sums[number], periods);
                self.real[number] *= decay;
            }
            self.rounded *= decay;
            let whole = u128::from(MOST) - decayed(u128::from(MOST), periods) - 1024;
            counted = decayed(u128::from(first), periods) + whole + u128::from(last);
            real = first as f64 * decay + 1024.0 * (y() - decay) / (1.0 - y()) + last as f64;
        }
        self.place = last;
        for (number, factor) in factors.into_iter().enumerate() {
            let unit = if number == 0 { 1 } else { 1024 };
            self.told[number] = self.told[number].max(factor as f64);
            self.sums[number] += u128::from(factor) * counted * unit;
            self.real[number] += factor as f64 * real;
        }
        if periods > 0 {
            let divider = u128::from(MOST - 1024 + self.place);
            let weights = [u128::from(self.weight), 1, 1];
            self.averages = std::array::from_fn(|number| (weights[number] * self.sums[number] / divider) as u64);
        }
    }

    /// If the averages moved, one of these things was done until `now`: the one that they show.
    pub fn follow(&mut self, now: u64, average: SchedAvg, doings: &[Doing]) {
        if average.last_update_time == self.at {
            return;
        }
        let mut tried = doings.iter().map(|doing| {
            let mut tried = *self;
            tried.update(now, *doing);
            tried
        });
        let shown = tried.clone().find(|tried| tried.sums[1] == u128::from(average.runnable_sum));
        *self = shown.or_else(|| tried.next_back()).expect("something was done");
    }

    /// Takes over the load as it is. CFS kernels give a group's entity its weight anew each time anything comes or goes below it,
    /// even if it is the same (`update_cfs_group`): that computes the averages anew, and lifts the queue's sum to what its average
    /// allows.
    pub fn reweighted(&mut self, average: SchedAvg) {
        let change = average.load_sum as f64 - self.sums[0] as f64;
        // What integers lose on the way (averages are whole units of weight) is allowed for, as long as it lasts.
        self.rounded += (change - self.reweighted).abs();
        self.reweighted = 0.0;
        (self.sums[0], self.averages[0]) = (u128::from(average.load_sum), average.load_avg);
    }

    /// Sums and averages are equal to the last bit, and, as parts of what they can be at most, within 0.1 % of the real ones.
    pub fn check(&self, who: &str, average: SchedAvg, greatest_factors: [f64; 3]) -> Result<(), TestCaseError> {
        let sums = [average.load_sum, average.runnable_sum, u64::from(average.util_sum)].map(u128::from);
        prop_assert_eq!(sums, self.sums, "{}", who);
        prop_assert_eq!(u64::from(average.period_contrib), self.place, "{}", who);
        prop_assert_eq!([average.load_avg, average.runnable_avg, average.util_avg], self.averages, "{}", who);
        let divider = (MOST - 1024 + self.place) as f64;
        for (number, most) in greatest_factors.into_iter().enumerate() {
            let unit = if number == 0 { 1.0 } else { 1024.0 };
            let ours = self.sums[number] as f64 / unit / divider;
            let real = self.real[number] / greatest(self.place);
            let rounded = if number == 0 { self.rounded / divider } else { 0.0 };
            // A factor of -1 as an unsigned int (see `Followed::step`) is more than there can be.
            let most = most.max(self.told[number]);
            prop_assert!(
                (ours - real).abs() <= 0.001 * most + rounded,
                "{who}, sum {number}: {ours} against {real} of {most}"
            );
        }
        Ok(())
    }
}

/// The real sum of an entity that was always there, `place` µs into a period.
fn greatest(place: u64) -> f64 {
    1024.0 * y() / (1.0 - y()) + place as f64
}
