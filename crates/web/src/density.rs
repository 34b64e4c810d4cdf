//! Shares of time by powers of two, so that a lane of any number of slices is drawn with one look a pixel.
//!
//! Level 0 of a lane divides the run into bins of about four spans each; each further level halves the bins. A bin holds, for each
//! channel, the part of its time in 255ths: of a CPU's lane a channel is a kind of task that ran, of a task's lane a state.

use crate::message::Message;

/// The most bins of a lane.
const MOST_BINS: usize = 1 << 18;

/// Spans in a bin of level 0, on average.
const SPANS_A_BIN: usize = 4;

/// The densities of some lanes.
#[derive(Debug)]
pub(crate) struct Density {
    channels: usize,
    /// Of each lane, how many bins its level 0 has.
    bins: Vec<u32>,
    /// Of each lane, where its level 0 begins.
    offsets: Vec<u32>,
    /// Bin after bin, level after level, lane after lane.
    shares: Vec<u8>,
}

impl Density {
    pub(crate) const fn new(channels: usize) -> Self {
        Self { channels, bins: Vec::new(), offsets: Vec::new(), shares: Vec::new() }
    }

    /// Adds a lane of spans `(start, end, channel)` in their order, of a run of `length` nanoseconds.
    pub(crate) fn add(&mut self, spans: impl ExactSizeIterator<Item = (u64, u64, usize)>, length: u64) {
        self.offsets.push(self.shares.len() as u32);
        let few = spans.len() < 64 || length < 64;
        let bins = if few { 0 } else { (spans.len() / SPANS_A_BIN).next_power_of_two().min(MOST_BINS) };
        self.bins.push(bins as u32);
        if bins == 0 {
            return;
        }
        let width = length as f64 / bins as f64;
        let mut level = vec![0_f64; bins * self.channels];
        for (start, end, channel) in spans {
            let (start, end) = (start as f64 / width, end as f64 / width);
            let mut at = start;
            while at < end {
                let bin = (at as usize).min(bins - 1);
                let stop = end.min(bin as f64 + 1.0);
                level[bin * self.channels + channel] += stop - at;
                if stop <= at {
                    break;
                }
                at = stop;
            }
        }
        loop {
            self.shares.extend(level.iter().map(|share| (share * 255.0 + 0.5) as u8));
            let bins = level.len() / self.channels;
            if bins == 1 {
                return;
            }
            let halved = (0..bins / 2).flat_map(|bin| (0..self.channels).map(move |channel| (bin, channel)));
            let at = |bin: usize, channel: usize| level[bin * self.channels + channel];
            level = halved.map(|(bin, channel)| (at(2 * bin, channel) + at(2 * bin + 1, channel)) / 2.0).collect();
        }
    }

    /// Adds the arrays to a message.
    pub(crate) fn write(&self, message: &mut Message, name: &str) {
        message.u32s(&format!("{name}_bins"), &self.bins);
        message.u32s(&format!("{name}_at"), &self.offsets);
        message.u8s(&format!("{name}_share"), &self.shares);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_on_every_level() {
        // 256 spans, every other one of 10 of 10 ns of channel 0, then channel 1: 64 bins of 4 spans, each half and half.
        let spans: Vec<_> = (0..256_u64).map(|number| (number * 10, number * 10 + 10, number as usize % 2)).collect();
        let mut density = Density::new(2);
        density.add(spans.into_iter(), 2560);
        assert_eq!(density.bins, [64]);
        assert_eq!(density.shares.len(), (64 + 32 + 16 + 8 + 4 + 2 + 1) * 2);
        assert!(density.shares.iter().all(|share| *share == 128), "half of 255, rounded");
    }

    #[test]
    fn few_spans_have_no_density() {
        let mut density = Density::new(1);
        density.add([(0, 5, 0)].into_iter(), 1000);
        assert_eq!((density.bins, density.shares.len()), (vec![0], 0));
    }
}
