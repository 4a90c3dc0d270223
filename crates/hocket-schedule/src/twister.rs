//! Random numbers of the Mersenne Twister, drawn as CPython's `random` draws them: a caller whose draws are recorded with
//! that library gets the same ones here, from the state that it hands over.

const WORDS: usize = 624;
const MIDDLE: usize = 397;

/// MT19937 of Matsumoto and Nishimura (ACM TOMACS 1998).
#[derive(Clone, Debug)]
pub struct Twister {
    words: Vec<u32>,
    /// The number of words that were drawn since all were made.
    drawn: usize,
}

impl Twister {
    /// A generator in a state: 624 words, and the number of them that were drawn.
    ///
    /// # Panics
    ///
    /// If these are not 625 numbers, or the last is above 624.
    pub fn new(mut state: Vec<u32>) -> Self {
        assert_eq!(state.len(), WORDS + 1, "a state is 624 words and a number");
        let drawn = state.pop().map_or(0, |drawn| drawn as usize);
        assert!(drawn <= WORDS, "there are only 624 words");
        Self { words: state, drawn }
    }

    /// Its state, as [`Self::new`] takes it.
    pub fn into_state(mut self) -> Vec<u32> {
        self.words.push(self.drawn as u32);
        self.words
    }

    /// A number below `limit`, which is at least 1.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        let bits = usize::BITS - limit.leading_zeros();
        loop {
            let number = (self.word() >> (u32::BITS - bits)) as usize;
            if number < limit {
                return number;
            }
        }
    }

    /// A number from 0 to below 1, in steps of 2^−53.
    pub(crate) fn unit(&mut self) -> f64 {
        let (high, low) = (self.word() >> 5, self.word() >> 6);
        (f64::from(high) * 67_108_864.0 + f64::from(low)) * (1.0 / 9_007_199_254_740_992.0)
    }

    /// `count` different places of `total`, in random order.
    pub(crate) fn sample(&mut self, total: usize, count: usize) -> Vec<usize> {
        // A list of all places is made only where it is smaller than a set of those chosen.
        let mut set_size = 21;
        if count > 5 {
            set_size +=
                (0..).map(|power| 4usize.pow(power)).find(|size| *size >= 3 * count).unwrap_or(0);
        }
        if total <= set_size {
            let mut pool: Vec<usize> = (0..total).collect();
            return (0..count).map(|_| pool.swap_remove(self.below(pool.len()))).collect();
        }
        let mut chosen = Vec::with_capacity(count);
        while chosen.len() < count {
            let place = self.below(total);
            if !chosen.contains(&place) {
                chosen.push(place);
            }
        }
        chosen
    }

    /// Puts `items` in random order.
    pub(crate) fn shuffle(&mut self, items: &mut [usize]) {
        for last in (1..items.len()).rev() {
            let place = self.below(last + 1);
            items.swap(last, place);
        }
    }

    fn word(&mut self) -> u32 {
        if self.drawn == WORDS {
            self.twist();
        }
        let mut word = self.words[self.drawn];
        self.drawn += 1;
        word ^= word >> 11;
        word ^= (word << 7) & 0x9d2c_5680;
        word ^= (word << 15) & 0xefc6_0000;
        word ^ (word >> 18)
    }

    fn twist(&mut self) {
        for index in 0..WORDS {
            let next = self.words[(index + 1) % WORDS];
            let mixed = (self.words[index] & 0x8000_0000) | (next & 0x7fff_ffff);
            let odd = if mixed & 1 == 0 { 0 } else { 0x9908_b0df };
            self.words[index] = self.words[(index + MIDDLE) % WORDS] ^ (mixed >> 1) ^ odd;
        }
        self.drawn = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `init_genrand(5489)` of the reference implementation.
    fn reference() -> Twister {
        let mut state = vec![5_489u32];
        for index in 1..WORDS as u32 {
            let last = state[index as usize - 1];
            state.push((last ^ (last >> 30)).wrapping_mul(1_812_433_253).wrapping_add(index));
        }
        state.push(WORDS as u32);
        Twister::new(state)
    }

    #[test]
    fn the_ten_thousandth_number_is_that_of_the_cpp_standard() {
        let mut twister = reference();
        for _ in 1..10_000 {
            twister.word();
        }
        // ISO C++ [rand.predef], of mt19937.
        assert_eq!(twister.word(), 4_123_659_995);
    }

    #[test]
    fn a_sample_has_no_place_twice() {
        let mut twister = reference();
        for (total, count) in [(5, 5), (22, 3), (1_000, 30), (30, 30)] {
            let mut places = twister.sample(total, count);
            places.sort_unstable();
            places.dedup();
            assert!(places.len() == count && places.iter().all(|place| *place < total));
        }
    }
}
