//! Touching memory as `mem` and `memrun` do.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use schedlab_model::Access;
use schedlab_program::Memory;

/// Memory that is touched in 8-byte words; tasks that share it touch it without order.
pub(crate) enum Words {
    Own(Vec<AtomicU64>),
    Shared(&'static [AtomicU64]),
}

/// A stretch of memory, prepared for its way of being touched.
pub(crate) struct Stretch {
    words: Words,
    /// Where following the pointers has come to.
    at: usize,
}

impl Stretch {
    /// Takes the memory and, where pointers are followed, writes them.
    pub(crate) fn prepare(memory: &Memory, shared: Option<&'static [AtomicU64]>) -> Self {
        let words = match shared {
            Some(words) => Words::Shared(words),
            None => Words::Own((0..memory.bytes.div_ceil(8)).map(|_| AtomicU64::new(0)).collect()),
        };
        let stretch = Self { words, at: 0 };
        if memory.access.chases() {
            stretch.link(memory);
        }
        stretch
    }

    fn words(&self) -> &[AtomicU64] {
        match &self.words {
            Words::Own(words) => words,
            Words::Shared(words) => words,
        }
    }

    /// A ring through a power of two of places a stride apart; at random, their order is that of their numbers' bits read backwards.
    fn link(&self, memory: &Memory) {
        let words = self.words();
        let stride = (memory.stride / 8) as usize;
        let bits = (memory.bytes / u64::from(memory.stride)).ilog2();
        let place = |number: usize| match memory.access {
            Access::ChaseRandom => (number.reverse_bits() >> (usize::BITS - bits)) * stride,
            _ => number * stride,
        };
        let places = 1usize << bits;
        for number in 0..places {
            words[place(number)].store(place((number + 1) % places) as u64, Relaxed);
        }
    }

    /// Touches so many bytes, or follows so many pointers.
    pub(crate) fn touch(&mut self, access: Access, count: u64) {
        if access.chases() {
            let mut at = self.at;
            let words = self.words();
            for _ in 0..count {
                at = words[at].load(Relaxed) as usize;
            }
            self.at = black_box(at);
            return;
        }
        let words = self.words();
        let mut left = count.div_ceil(8);
        while left > 0 {
            let part = &words[..words.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
            match access {
                Access::Write => part.iter().for_each(|word| word.store(left, Relaxed)),
                _ => {
                    black_box(part.iter().fold(0u64, |sum, word| sum.wrapping_add(word.load(Relaxed))));
                }
            }
            left -= part.len() as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_of_pointers_comes_back_after_all_its_places() {
        // 1000 bytes hold 15 strides of 64 bytes; the greatest power of two of them is 8.
        for access in [Access::ChaseRandom, Access::ChaseSequential] {
            let memory = Memory { access, bytes: 1000, stride: 64, shared: None };
            let mut stretch = Stretch::prepare(&memory, None);
            let mut seen = std::collections::BTreeSet::new();
            for _ in 0..8 {
                stretch.touch(access, 1);
                assert!(seen.insert(stretch.at), "{access:?} came to {} twice", stretch.at);
            }
            assert_eq!(stretch.at, 0);
            let places: Vec<usize> = (0..8).map(|place| place * 8).collect();
            assert_eq!(seen.into_iter().collect::<Vec<_>>(), places);
        }
    }
}
