use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

/// A random stream, to be used through the traits of the `rand` crate.
pub type Stream = Xoshiro256PlusPlus;

/// The random stream for one purpose in a run: `name` is the purpose, such as marking, and `index` the object it is for,
/// such as a port.
///
/// The stream depends on the three arguments alone, so that adding a job or a draw elsewhere does not change any other
/// stream.
pub fn stream(seed: u64, name: &str, index: u64) -> Stream {
    let mut state = splitmix64(seed);
    for byte in name.bytes() {
        state = splitmix64(state ^ u64::from(byte));
    }
    Stream::seed_from_u64(splitmix64(state ^ index))
}

// Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014: the mixing
// function is a bijection that spreads neighbouring inputs over all 64 bits.
fn splitmix64(input: u64) -> u64 {
    let mut z = input.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use rand::Rng;

    use super::*;

    #[test]
    fn a_stream_depends_on_seed_name_and_index_alone() {
        let draw = |seed, name, index| stream(seed, name, index).next_u64();
        assert_eq!(draw(1, "jitter", 0), draw(1, "jitter", 0));
        let all =
            [draw(1, "jitter", 0), draw(2, "jitter", 0), draw(1, "clock", 0), draw(1, "jitter", 1)];
        for (i, a) in all.iter().enumerate() {
            assert!(all[i + 1..].iter().all(|b| b != a), "streams {all:?} repeat");
        }
    }
}
