//! A set of small numbers as bits, for CPUs and priorities.

/// A set of numbers below a bound fixed at creation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bitmap {
    words: Vec<u64>,
}

impl Bitmap {
    /// The empty set of numbers below `bound`.
    pub fn new(bound: usize) -> Self {
        Self { words: vec![0; bound.div_ceil(64)] }
    }

    /// Every number below `bound`.
    pub fn full(bound: usize) -> Self {
        let mut all = Self::new(bound);
        (0..bound).for_each(|number| all.insert(number));
        all
    }

    /// Adds `number`.
    #[inline]
    pub fn insert(&mut self, number: usize) {
        self.words[number / 64] |= 1 << (number % 64);
    }

    /// Takes `number` away.
    #[inline]
    pub fn remove(&mut self, number: usize) {
        self.words[number / 64] &= !(1 << (number % 64));
    }

    /// Whether `number` is in the set.
    #[inline]
    pub fn contains(&self, number: usize) -> bool {
        self.words.get(number / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// The least number, if any.
    #[inline]
    pub fn first(&self) -> Option<usize> {
        let word = self.words.iter().position(|word| *word != 0)?;
        Some(word * 64 + self.words[word].trailing_zeros() as usize)
    }

    /// The least number of both sets, if any.
    #[inline]
    pub fn first_common(&self, other: &Self) -> Option<usize> {
        let word = self.words.iter().zip(&other.words).position(|(left, right)| left & right != 0)?;
        Some(word * 64 + (self.words[word] & other.words[word]).trailing_zeros() as usize)
    }
}
