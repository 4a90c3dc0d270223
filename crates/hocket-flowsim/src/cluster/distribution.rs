//! The distribution of a quantity over any number of iterations, in bounded memory.

/// Bits of the mantissa that name a bin: each power of two has 1,024 bins of equal width.
const BIN_BITS: u32 = 10;
const BINS: usize = 1 << BIN_BITS;
/// Bits of an `f64` below those that name a bin.
const BELOW: u32 = f64::MANTISSA_DIGITS - 1 - BIN_BITS;

/// How often each value occurred: exactly for a limited number of values, and in bins beyond it.
///
/// A bin is at most 1/1,024 as wide as its smallest value. Its middle therefore differs from each value in it by at most
/// [`Distribution::ERROR`] of the value. Counts are exact, so a percentile by nearest rank is in the bin that is found.
// A library of such histograms starts its bins at one unit, so that durations in picoseconds would take 40 powers of two for
// each job. Here only powers of two that occur have bins.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    /// The number of values that are kept exactly.
    most_exact: usize,
    counts: Counts,
}

#[derive(Clone, Debug, PartialEq)]
enum Counts {
    /// Each value, and how often in a row it occurred.
    Exact(Vec<(f64, u64)>),
    /// By power of two, ascending.
    Binned(Vec<Octave>),
}

/// The values from a power of two to the next.
#[derive(Clone, Debug, PartialEq)]
struct Octave {
    /// Sign and exponent of its values, as in their bits.
    exponent: u64,
    counts: Box<[u64; BINS]>,
}

impl Distribution {
    /// The largest relative error of a percentile, if there are more values than are kept exactly.
    pub const ERROR: f64 = 0.5 / BINS as f64;

    /// No values so far. Up to `most_exact` values, which is at least 1, are kept exactly.
    pub fn new(most_exact: usize) -> Self {
        assert!(most_exact > 0, "a distribution has room for a value");
        Self { most_exact, counts: Counts::Exact(Vec::new()) }
    }

    /// Adds a value, which is not negative, `count` times.
    pub fn add(&mut self, value: f64, count: u64) {
        debug_assert!(value >= 0.0, "{value} is a duration or a slowdown");
        match &mut self.counts {
            Counts::Exact(values) => match values.last_mut() {
                Some((last, known)) if last.total_cmp(&value).is_eq() => *known += count,
                _ => {
                    if values.len() == self.most_exact {
                        self.make_room();
                        return self.add(value, count);
                    }
                    values.push((value, count));
                }
            },
            Counts::Binned(octaves) => add_to(octaves, value, count),
        }
    }

    /// Adds all values of `other`.
    pub fn add_all(&mut self, other: &Self) {
        match &other.counts {
            Counts::Exact(values) => {
                values.iter().for_each(|&(value, count)| self.add(value, count));
            }
            Counts::Binned(octaves) => {
                self.bin();
                for octave in octaves {
                    let counts = octave.counts.iter().enumerate().filter(|(_, count)| **count > 0);
                    for (bin, count) in counts {
                        self.add(middle(octave.exponent, bin), *count);
                    }
                }
            }
        }
    }

    /// Whether all values are kept exactly.
    pub fn is_exact(&self) -> bool {
        matches!(self.counts, Counts::Exact(_))
    }

    /// The percentile by nearest rank: the smallest value that at least `percent` of all values do not exceed, or the middle of
    /// its bin. `None` without values.
    pub fn percentile(&self, percent: u8) -> Option<f64> {
        let ordered: Vec<(f64, u64)> = match &self.counts {
            Counts::Exact(values) => {
                let mut values = values.clone();
                values.sort_unstable_by(|(a, _), (b, _)| a.total_cmp(b));
                values
            }
            Counts::Binned(octaves) => octaves
                .iter()
                .flat_map(|octave| {
                    let counts = octave.counts.iter().enumerate();
                    counts.map(|(bin, count)| (middle(octave.exponent, bin), *count))
                })
                .filter(|(_, count)| *count > 0)
                .collect(),
        };
        let total: u128 = ordered.iter().map(|(_, count)| u128::from(*count)).sum();
        let mut reached = 0;
        // In whole numbers, so that no rounding decides about the rank.
        let is_reached = |(_, count): &&(f64, u64)| {
            reached += u128::from(*count);
            100 * reached >= u128::from(percent) * total
        };
        ordered.iter().find(is_reached).map(|(value, _)| *value)
    }

    // Counts equal values once or, if that leaves less than half of the room, puts all into bins.
    fn make_room(&mut self) {
        if let Counts::Exact(values) = &mut self.counts {
            values.sort_unstable_by(|(a, _), (b, _)| a.total_cmp(b));
            values.dedup_by(|(value, count), (known, all)| {
                let is_known = value.total_cmp(known).is_eq();
                *all += if is_known { *count } else { 0 };
                is_known
            });
            if values.len() > self.most_exact / 2 {
                self.bin();
            }
        }
    }

    fn bin(&mut self) {
        if let Counts::Exact(values) = &self.counts {
            let mut octaves = Vec::new();
            values.iter().for_each(|&(value, count)| add_to(&mut octaves, value, count));
            self.counts = Counts::Binned(octaves);
        }
    }
}

fn add_to(octaves: &mut Vec<Octave>, value: f64, count: u64) {
    let bin = value.to_bits() >> BELOW;
    let (exponent, bin) = (bin >> BIN_BITS, bin as usize % BINS);
    // Nearly all values of a job are in one or two octaves.
    let place =
        octaves.iter().position(|octave| octave.exponent >= exponent).unwrap_or(octaves.len());
    if octaves.get(place).is_none_or(|octave| octave.exponent != exponent) {
        octaves.insert(place, Octave { exponent, counts: Box::new([0; BINS]) });
    }
    octaves[place].counts[bin] += count;
}

fn middle(exponent: u64, bin: usize) -> f64 {
    let least = (exponent << BIN_BITS | bin as u64) << BELOW;
    f64::from_bits(least | 1 << (BELOW - 1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(most_exact: usize, values: &[(f64, u64)]) -> Distribution {
        let mut all = Distribution::new(most_exact);
        values.iter().for_each(|&(value, count)| all.add(value, count));
        all
    }

    #[test]
    fn percentiles_are_taken_by_nearest_rank() {
        let hundred: Vec<_> = (1..=100).rev().map(|value| (f64::from(value), 1)).collect();
        let all = of(100, &hundred);
        assert_eq!((all.percentile(50), all.percentile(99)), (Some(50.0), Some(99.0)));
        assert_eq!(of(1, &[]).percentile(50), None);
    }

    #[test]
    fn equal_values_take_no_room() {
        let all = of(4, &[(1.0, 1), (2.0, 1), (1.0, 1), (2.0, 5), (1.0, 1), (2.0, 1)]);
        assert!(all.is_exact());
        assert_eq!(all.percentile(50), Some(2.0));
    }

    #[test]
    fn values_beyond_the_room_are_binned() {
        let all = of(4, &[(1.0, 1), (2.0, 1), (3.0, 1), (4.0, 1), (5.0, 1)]);
        assert!(!all.is_exact());
        // The bin of 5 is 4/1,024 wide.
        assert_eq!(all.percentile(99), Some(5.0 + 2.0 / 1_024.0));
    }

    proptest! {
        #[test]
        fn binned_percentiles_are_within_the_stated_error(
            values in prop::collection::vec((0.0..1e18_f64, 1..1_000_u64), 1..200),
            percent in 1..=100_u8,
        ) {
            let (exact, binned) = (of(1_000, &values), of(1, &values));
            let [exact, binned] = [exact, binned].map(|all| all.percentile(percent).unwrap());
            prop_assert!((binned - exact).abs() <= Distribution::ERROR * exact, "{binned}, {exact}");
        }

        #[test]
        fn parts_add_up_to_the_whole(
            values in prop::collection::vec((1e-3..1e18_f64, 1..1_000_u64), 2..200),
            cut in 1..200_usize,
            most_exact in 1..400_usize,
        ) {
            let (first, rest) = values.split_at(cut.min(values.len() - 1));
            let whole = of(most_exact, &values);
            let mut parts = of(most_exact, first);
            parts.add_all(&of(most_exact, rest));
            // Parts may have been binned in another order, or one of them earlier.
            for percent in [1, 50, 99, 100] {
                let [whole, parts] = [&whole, &parts].map(|all| all.percentile(percent).unwrap());
                prop_assert!((parts - whole).abs() <= 2.0 * Distribution::ERROR * whole);
            }
        }
    }
}
