//! Collectives: their data movement is executed symbolically, with messages that overtake each other in any manner that
//! a network permits, and their bytes are compared with the published numbers of each algorithm.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use hocket_des::{Bytes, Stream, stream};
use hocket_scenario::collective::{MAX_CHUNKS, MAX_RANKS, Send};
use hocket_scenario::{Algorithm, Collective, CollectiveKind, Level};
use proptest::prelude::*;
use rand::RngExt;

const KINDS: [CollectiveKind; 5] = [
    CollectiveKind::AllReduce,
    CollectiveKind::ReduceScatter,
    CollectiveKind::AllGather,
    CollectiveKind::AllToAll,
    CollectiveKind::Broadcast,
];

fn levels(levels: &[(u32, Algorithm)]) -> Vec<Level> {
    levels.iter().map(|&(ranks, algorithm)| Level { ranks, algorithm }).collect()
}

fn collective(
    kind: CollectiveKind,
    bytes: u64,
    of: &[(u32, Algorithm)],
    chunks: u32,
) -> Collective {
    Collective::new(kind, Bytes::new(bytes), &levels(of), chunks)
        .expect("the algorithm supports it")
}

fn refusal(kind: CollectiveKind, of: &[(u32, Algorithm)], chunks: u32) -> String {
    Collective::new(kind, Bytes::new(1), &levels(of), chunks)
        .expect_err("no such collective")
        .to_string()
}

/// The bytes that `rank` sends, in all chunks and steps, to the ranks for which `counts` is true.
fn sent(collective: &Collective, rank: u32, counts: impl Fn(u32) -> bool) -> u64 {
    (0..collective.steps())
        .flat_map(|step| collective.sends(step, rank).map(move |send| (step, send)))
        .filter(|(_, send)| counts(send.to))
        .flat_map(|(step, send)| {
            let bytes = move |chunk| collective.message_bytes(chunk, step, rank, &send).get();
            (0..collective.chunks()).map(bytes)
        })
        .sum()
}

/// The contents of one block at a rank: by contributing rank, how often it is contained.
type Contributions = BTreeMap<u32, u32>;

struct Rank {
    started: bool,
    step: u32,
    /// Messages by step.
    arrived: Vec<u32>,
    /// By block; in an all-to-all, by destination: the ranks whose blocks for it are here.
    blocks: Vec<Contributions>,
}

struct Message {
    step: u32,
    send: Send,
    /// The blocks as they were when the message was posted.
    posted: Vec<(u32, Contributions)>,
}

#[derive(Clone, Copy)]
enum Next {
    Starts(u32),
    Arrives { from: u32, to: u32 },
}

/// The movement of one chunk. Ranks start in any order. Messages between two ranks keep their order, as on a queue pair,
/// and may overtake all others.
struct Movement<'a> {
    collective: &'a Collective,
    ranks: Vec<Rank>,
    in_flight: BTreeMap<(u32, u32), VecDeque<Message>>,
}

impl<'a> Movement<'a> {
    /// Ranks with the blocks with which the kind of collective starts.
    fn new(collective: &'a Collective) -> Self {
        let ranks = 0..collective.ranks();
        let rank = |rank| {
            let own = |block| match collective.kind() {
                CollectiveKind::AllGather if block != rank => Contributions::new(),
                _ => Contributions::from([(rank, 1)]),
            };
            Rank {
                started: false,
                step: 0,
                arrived: vec![0; collective.steps() as usize],
                blocks: (0..collective.blocks()).map(own).collect(),
            }
        };
        Self { collective, ranks: ranks.map(rank).collect(), in_flight: BTreeMap::new() }
    }

    fn run(mut self, random: &mut Stream) -> Vec<Vec<Contributions>> {
        while let Some(next) = self.next(random) {
            match next {
                Next::Starts(rank) => {
                    self.ranks[rank as usize].started = true;
                    self.post(rank);
                    self.advance(rank);
                }
                Next::Arrives { from, to } => self.deliver(from, to),
            }
        }
        for (index, rank) in (0..).zip(&self.ranks) {
            assert_eq!(rank.step, self.collective.steps(), "rank {index} waits for ever");
            for (step, &arrived) in (0..).zip(&rank.arrived) {
                assert_eq!(arrived, self.collective.due(step, index));
            }
        }
        self.ranks.into_iter().map(|rank| rank.blocks).collect()
    }

    /// A random one of the possible events. Half of the time it is the last one, so that some ranks and messages lag far
    /// behind.
    fn next(&self, random: &mut Stream) -> Option<Next> {
        let starts = (0..).zip(&self.ranks).filter(|(_, rank)| !rank.started);
        let starts = starts.map(|(rank, _)| Next::Starts(rank));
        let arrives = self.in_flight.keys().map(|&(from, to)| Next::Arrives { from, to });
        let all: Vec<Next> = starts.chain(arrives).collect();
        let last = all.len().checked_sub(1)?;
        Some(all[if random.random() { last } else { random.random_range(0..=last) }])
    }

    fn post(&mut self, rank: u32) {
        let step = self.ranks[rank as usize].step;
        if step == self.collective.steps() {
            return;
        }
        for send in self.collective.sends(step, rank) {
            assert_ne!(send.to, rank, "a message to itself");
            let posted = self.read(step, rank, &send);
            let pair = self.in_flight.entry((rank, send.to)).or_default();
            pair.push_back(Message { step, send, posted });
        }
    }

    fn read(&self, step: u32, rank: u32, send: &Send) -> Vec<(u32, Contributions)> {
        let blocks = &self.ranks[rank as usize].blocks;
        let carried = self.collective.blocks_of(step, rank, send);
        carried.map(|block| (block, blocks[block as usize].clone())).collect()
    }

    fn deliver(&mut self, from: u32, to: u32) {
        let pair = self.in_flight.get_mut(&(from, to)).expect("a pair with messages in flight");
        let Message { step, send, posted } = pair.pop_front().expect("no pair is empty");
        if pair.is_empty() {
            self.in_flight.remove(&(from, to));
        }
        // A NIC reads data when it sends it, which may be as late as now.
        assert_eq!(self.read(step, from, &send), posted, "changed while in flight");
        let all_to_all = self.collective.kind() == CollectiveKind::AllToAll;
        let sources = |held: &Contributions| if all_to_all { held.len() as u64 } else { 1 };
        let sizes = posted.iter().map(|(block, held)| sources(held) * self.block_bytes(*block));
        let bytes = self.collective.message_bytes(0, step, from, &send);
        assert_eq!(bytes.get(), sizes.sum::<u64>());
        let receiver = &mut self.ranks[to as usize];
        for (block, contributions) in posted {
            let here = &mut receiver.blocks[block as usize];
            if self.collective.reduces(step) || all_to_all {
                for (rank, times) in contributions {
                    *here.entry(rank).or_default() += times;
                }
            } else {
                *here = contributions;
            }
        }
        receiver.arrived[step as usize] += 1;
        self.advance(to);
    }

    /// The bytes of a block in the first chunk: of `0..n`, those that are `block` modulo the number of blocks.
    fn block_bytes(&self, block: u32) -> u64 {
        let chunk = self.collective.bytes().get().div_ceil(u64::from(self.collective.chunks()));
        chunk.saturating_sub(u64::from(block)).div_ceil(u64::from(self.collective.blocks()))
    }

    fn advance(&mut self, rank: u32) {
        let here = &self.ranks[rank as usize];
        let due = |step| self.collective.due(step, rank);
        if here.started
            && here.arrived.get(here.step as usize).is_some_and(|&n| n == due(here.step))
        {
            self.ranks[rank as usize].step += 1;
            self.post(rank);
            self.advance(rank);
        }
    }
}

/// Executes `collective` and checks what each rank has at the end.
fn check_movement(collective: &Collective, seed: u64) {
    let results = Movement::new(collective).run(&mut stream(seed, "deliveries", 0));
    let of_all: Contributions = (0..collective.ranks()).map(|rank| (rank, 1)).collect();
    for (rank, blocks) in (0..).zip(&results) {
        for (block, contributions) in (0..).zip(blocks) {
            let expected = match collective.kind() {
                CollectiveKind::AllReduce => &of_all,
                CollectiveKind::ReduceScatter | CollectiveKind::AllToAll if block == rank => {
                    &of_all
                }
                CollectiveKind::ReduceScatter | CollectiveKind::AllToAll => continue,
                CollectiveKind::AllGather => &Contributions::from([(block, 1)]),
                CollectiveKind::Broadcast => &Contributions::from([(0, 1)]),
            };
            assert_eq!(contributions, expected, "block {block} at rank {rank}");
        }
    }
}

fn algorithms(kind: CollectiveKind, ranks: u32, outermost: bool) -> Vec<Algorithm> {
    let supports = |&algorithm: &Algorithm| match algorithm {
        Algorithm::HalvingDoubling => ranks.is_power_of_two(),
        Algorithm::Tree => outermost || kind == CollectiveKind::Broadcast,
        Algorithm::Ring | Algorithm::Direct => true,
    };
    kind.algorithms().iter().copied().filter(supports).collect()
}

/// One to three levels of up to 9, 5 and 4 ranks, with any algorithms that support them.
fn any_collective() -> impl Strategy<Value = Collective> {
    let sizes = prop_oneof![
        (1u32..=9).prop_map(|first| vec![first]),
        (1u32..=9, 1u32..=5).prop_map(|(first, second)| vec![first, second]),
        (1u32..=4, 1u32..=4, 1u32..=4).prop_map(|(a, b, c)| vec![a, b, c]),
    ];
    let choices = prop::collection::vec(any::<prop::sample::Index>(), 3);
    (prop::sample::select(&KINDS[..]), sizes, choices, 0u64..5_000, 1u32..=7).prop_map(
        |(kind, sizes, choices, bytes, chunks)| {
            let level = |(index, (&ranks, choice)): (usize, (&u32, &prop::sample::Index))| {
                let outermost = index + 1 == sizes.len();
                (ranks, *choice.get(&algorithms(kind, ranks, outermost)))
            };
            let of: Vec<_> = sizes.iter().zip(&choices).enumerate().map(level).collect();
            collective(kind, bytes, &of, chunks)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn every_rank_ends_with_every_contribution_once(any in any_collective(), seed in any::<u64>()) {
        check_movement(&any, seed);
    }

    #[test]
    fn as_many_messages_are_due_as_are_sent(any in any_collective()) {
        let mut pairs = BTreeSet::new();
        for step in 0..any.steps() {
            let mut due = vec![0; any.ranks() as usize];
            for rank in 0..any.ranks() {
                let sends = any.sends(step, rank);
                prop_assert_eq!(sends.len(), sends.clone().count());
                for send in sends {
                    due[send.to as usize] += 1;
                    pairs.insert((rank, send.to));
                }
            }
            for (rank, due) in (0..).zip(due) {
                prop_assert_eq!(any.due(step, rank), due);
            }
        }
        for rank in 0..any.ranks() {
            let mut active = any.steps();
            for step in (0..any.steps()).rev() {
                if any.due(step, rank) > 0 || any.sends(step, rank).len() > 0 {
                    active = step;
                }
                prop_assert_eq!(any.active_from(step, rank), active);
            }
        }
        prop_assert_eq!(any.pairs(), pairs.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn steps_that_repeat_have_the_same_pairs_and_sizes_up_to_rounding(any in any_collective()) {
        let messages = |step| {
            let of_rank = |rank| any.sends(step, rank).map(move |send| (rank, send));
            (0..any.ranks()).flat_map(of_rank).collect::<Vec<_>>()
        };
        let mut step = 0;
        while step < any.steps() {
            let repeats = any.repeats(step);
            prop_assert!(repeats >= 1 && step + repeats <= any.steps());
            for later in step..step + repeats {
                prop_assert_eq!(any.repeats(later), step + repeats - later);
                prop_assert_eq!(any.reduces(later), any.reduces(step));
                let both = [messages(step), messages(later)];
                prop_assert_eq!(both[0].len(), both[1].len());
                for (&(rank, send), &(other_rank, other)) in both[0].iter().zip(&both[1]) {
                    prop_assert_eq!((rank, send.to), (other_rank, other.to));
                    let blocks = any.blocks_of(step, rank, &send).count() as u64;
                    let bytes = any.message_bytes(0, step, rank, &send).get();
                    let later_bytes = any.message_bytes(0, later, rank, &other).get();
                    prop_assert!(bytes.abs_diff(later_bytes) <= blocks);
                }
            }
            step += repeats;
        }
    }

    #[test]
    fn the_sizes_of_a_block_are_even_and_sum_to_the_buffer(
        ranks in 2u32..=40, chunks in 1u32..=9, bytes in 0u64..100_000,
    ) {
        let any = collective(CollectiveKind::AllGather, bytes, &[(ranks, Algorithm::Direct)], chunks);
        let size = |chunk, rank| {
            let send = any.sends(0, rank).next().unwrap();
            any.message_bytes(chunk, 0, rank, &send).get()
        };
        let even = |sizes: Vec<u64>| sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1;
        for chunk in 0..chunks {
            prop_assert!(even((0..ranks).map(|rank| size(chunk, rank)).collect()));
        }
        let of_chunk = |chunk| (0..ranks).map(|rank| size(chunk, rank)).sum();
        prop_assert!(even((0..chunks).map(of_chunk).collect()));
        let of_rank = |rank| (0..chunks).map(|chunk| size(chunk, rank)).sum();
        let of_ranks: Vec<u64> = (0..ranks).map(of_rank).collect();
        prop_assert_eq!(of_ranks.iter().sum::<u64>(), bytes);
        prop_assert!(even(of_ranks));
    }

    #[test]
    fn all_ranks_together_receive_no_more_than_they_lack(any in any_collective()) {
        // All algorithms move the same bytes in total; they only divide them differently among ranks. The exception is an
        // all-to-all over several levels, which forwards blocks.
        let (n, bytes) = (u64::from(any.ranks()), any.bytes().get());
        let total: u64 = (0..any.ranks()).map(|rank| sent(&any, rank, |_| true)).sum();
        match any.kind() {
            CollectiveKind::AllReduce => prop_assert_eq!(total, 2 * (n - 1) * bytes),
            CollectiveKind::AllToAll => prop_assert!(total >= (n - 1) * bytes),
            _ => prop_assert_eq!(total, (n - 1) * bytes),
        }
    }
}

#[test]
fn every_algorithm_works_for_every_number_of_ranks_that_it_supports() {
    for (kind, ranks) in KINDS.into_iter().flat_map(|kind| (1..=33).map(move |n| (kind, n))) {
        for algorithm in algorithms(kind, ranks, true) {
            check_movement(&collective(kind, 1_000, &[(ranks, algorithm)], 1), 1);
        }
    }
}

#[test]
fn a_ring_all_reduce_has_2_n_minus_1_steps_of_a_block() {
    let ring = collective(CollectiveKind::AllReduce, 8_000, &[(8, Algorithm::Ring)], 4);
    assert_eq!(ring.steps(), 14);
    assert_eq!((ring.repeats(0), ring.repeats(3), ring.repeats(7)), (7, 4, 7));
    assert!(ring.reduces(6) && !ring.reduces(7));
    for rank in 0..8 {
        assert_eq!(sent(&ring, rank, |to| to == (rank + 1) % 8), 14_000);
        assert_eq!(sent(&ring, rank, |_| true), 14_000);
    }
    let send = ring.sends(0, 5).next().unwrap();
    assert_eq!(ring.message_bytes(0, 0, 5, &send), Bytes::new(250));
}

#[test]
fn direct_and_halving_move_the_bytes_of_a_ring_in_fewer_steps() {
    for (algorithm, steps) in [(Algorithm::Direct, 2), (Algorithm::HalvingDoubling, 6)] {
        let any = collective(CollectiveKind::AllReduce, 8_000, &[(8, algorithm)], 1);
        assert_eq!(any.steps(), steps);
        assert!((0..8).all(|rank| sent(&any, rank, |_| true) == 14_000));
    }
}

#[test]
fn recursive_halving_sends_half_of_the_buffer_first_and_recursive_doubling_last() {
    let any = collective(CollectiveKind::AllReduce, 8_000, &[(8, Algorithm::HalvingDoubling)], 1);
    let sizes: Vec<_> = (0..any.steps())
        .map(|step| {
            let send = any.sends(step, 3).next().unwrap();
            (send.to, any.message_bytes(0, step, 3, &send).get())
        })
        .collect();
    assert_eq!(sizes, [(7, 4_000), (1, 2_000), (2, 1_000), (2, 1_000), (1, 2_000), (7, 4_000)]);
}

#[test]
fn a_double_binary_tree_is_as_deep_as_a_logarithm_and_loads_no_rank_with_more_than_two_buffers() {
    for (ranks, depth) in [(2, 1), (8, 3), (9, 4), (64, 6), (1_024, 10)] {
        let of = [(ranks, Algorithm::Tree)];
        let tree = collective(CollectiveKind::AllReduce, 1_000, &of, 1);
        assert_eq!(tree.steps(), 2 * depth);
        // Half a buffer up in each tree, and half a buffer to each of two children in one of them. With an odd number of
        // ranks, rank 0 forwards data in both trees, in one of them to a single child.
        let most = if ranks % 2 == 0 { 2_000 } else { 2_500 };
        assert!((0..ranks).all(|rank| sent(&tree, rank, |_| true) <= most));
        let broadcast = collective(CollectiveKind::Broadcast, 1_000, &of, 1);
        assert_eq!(broadcast.steps(), depth);
        assert!((0..ranks).all(|rank| sent(&broadcast, rank, |_| true) <= 1_000));
    }
}

#[test]
fn in_a_direct_exchange_no_two_ranks_send_to_the_same_rank_at_once() {
    let any = collective(CollectiveKind::AllToAll, 7_000, &[(7, Algorithm::Direct)], 1);
    let sends: Vec<Vec<Send>> = (0..7).map(|rank| any.sends(0, rank).collect()).collect();
    for turn in 0..6 {
        let receivers: BTreeSet<u32> = sends.iter().map(|of_rank| of_rank[turn].to).collect();
        assert_eq!(receivers.len(), 7);
    }
    assert_eq!(sends[5].iter().map(|send| send.to).collect::<Vec<_>>(), [6, 0, 1, 2, 3, 4]);
    assert!((0..7).all(|rank| sent(&any, rank, |_| true) == 6_000));
}

#[test]
fn a_2d_all_reduce_takes_four_steps_and_sends_an_eighth_as_much_as_1d_out_of_servers_of_8_gpus() {
    // HOTI'22 section II-B, on 4 servers of 8 GPUs.
    let bytes = 32_000;
    let one = collective(CollectiveKind::AllReduce, bytes, &[(32, Algorithm::Direct)], 1);
    let of = [(8, Algorithm::Direct), (4, Algorithm::Direct)];
    let two = collective(CollectiveKind::AllReduce, bytes, &of, 1);
    assert_eq!((one.steps(), two.steps()), (2, 4));
    for rank in 0..32 {
        let elsewhere = |to: u32| to / 8 != rank / 8;
        // 24 of 32 blocks to each of 24 ranks in other servers, twice; 3 of 4 parts of an eighth, twice.
        assert_eq!(sent(&one, rank, elsewhere), 48_000);
        assert_eq!(sent(&two, rank, elsewhere), 6_000);
        assert!(two.sends(1, rank).all(|send| send.to % 8 == rank % 8));
    }
    assert_eq!((one.pairs().len(), two.pairs().len()), (32 * 31, 32 * (7 + 3)));
}

#[test]
fn a_hierarchical_all_to_all_leaves_the_server_in_one_message_for_all_gpus_of_another() {
    // 2 servers of 4 GPUs, 8 blocks of 1,000 bytes: 2 blocks to each GPU of the server, then 4 blocks across.
    let of = [(4, Algorithm::Direct), (2, Algorithm::Direct)];
    let any = collective(CollectiveKind::AllToAll, 8_000, &of, 1);
    let inside: Vec<Send> = any.sends(0, 1).collect();
    assert_eq!(inside.iter().map(|send| send.to).collect::<Vec<_>>(), [2, 3, 0]);
    assert!(inside.iter().all(|send| any.message_bytes(0, 0, 1, send) == Bytes::new(2_000)));
    let across: Vec<Send> = any.sends(1, 1).collect();
    assert_eq!(across.iter().map(|send| send.to).collect::<Vec<_>>(), [5]);
    assert_eq!(any.message_bytes(0, 1, 1, &across[0]), Bytes::new(4_000));
}

#[test]
fn a_hierarchical_broadcast_crosses_between_servers_once_for_each_server() {
    for across in [Algorithm::Ring, Algorithm::Tree, Algorithm::Direct] {
        let of = [(8, Algorithm::Ring), (4, across)];
        let any = collective(CollectiveKind::Broadcast, 1_000, &of, 1);
        let out = |rank: u32| sent(&any, rank, |to| to / 8 != rank / 8);
        assert_eq!((0..32).map(out).sum::<u64>(), 3_000);
    }
}

#[test]
fn levels_of_one_rank_have_no_effect() {
    let of = [(1, Algorithm::Tree), (6, Algorithm::Ring), (1, Algorithm::Direct)];
    for kind in KINDS {
        let with = collective(kind, 1_000, &of, 2);
        assert_eq!(with, collective(kind, 1_000, &[(6, Algorithm::Ring)], 2));
        let alone = collective(kind, 1_000, &[(1, Algorithm::HalvingDoubling)], 2);
        assert_eq!((alone.ranks(), alone.steps(), alone.pairs().len()), (1, 0, 0));
    }
}

#[test]
fn a_buffer_smaller_than_its_blocks_has_empty_messages_that_are_still_due() {
    let any = collective(CollectiveKind::AllGather, 3, &[(4, Algorithm::Direct)], 2);
    let sizes: Vec<Vec<u64>> = (0..2)
        .map(|chunk| {
            let size = |rank| {
                let send = any.sends(0, rank).next().unwrap();
                any.message_bytes(chunk, 0, rank, &send).get()
            };
            (0..4).map(size).collect()
        })
        .collect();
    assert_eq!(sizes, [[1, 1, 0, 0], [0, 0, 1, 0]]);
    assert!((0..4).all(|rank| any.due(0, rank) == 3));
}

#[test]
fn the_largest_collective_is_counted_exactly() {
    let of = [(1 << 10, Algorithm::Ring), (1 << 10, Algorithm::HalvingDoubling)];
    let any =
        collective(CollectiveKind::AllToAll, u64::MAX, &[of[0], (1 << 10, Algorithm::Ring)], 1);
    let last = any.steps() - 1;
    let send = any.sends(last, MAX_RANKS - 1).next().unwrap();
    let bytes = any.message_bytes(0, last, MAX_RANKS - 1, &send).get();
    // 2⁶⁴ − 1 bytes in 2²⁰ blocks: all but the last have 2⁴⁴ bytes. This message has the blocks of 1,024 sources for the last
    // GPU of the last server but one.
    assert_eq!((send.to, bytes), (1_022 * 1_024 + 1_023, 1 << 54));
    let reduce = collective(CollectiveKind::AllReduce, u64::MAX, &of, MAX_CHUNKS);
    assert_eq!(reduce.steps(), 2 * (1_023 + 10));
    assert_eq!(reduce.ranks(), MAX_RANKS);
}

#[test]
fn busbw_is_algbw_times_the_factor_of_nccl_tests() {
    for (kind, of_eight) in KINDS.into_iter().zip([1.75, 0.875, 0.875, 0.875, 1.0]) {
        assert!((kind.factor(8) - of_eight).abs() < 1e-12, "{kind}");
        let of_one = if kind == CollectiveKind::Broadcast { 1.0 } else { 0.0 };
        assert!((kind.factor(1) - of_one).abs() < 1e-12, "{kind}");
    }
}

#[test]
fn an_unsupported_algorithm_is_refused_with_the_supported_ones() {
    use Algorithm::{Direct, HalvingDoubling, Ring, Tree};
    use CollectiveKind::{AllReduce, AllToAll, Broadcast, ReduceScatter};
    assert_eq!(
        refusal(AllReduce, &[(6, HalvingDoubling)], 1),
        "halving-doubling all-reduce over 6 ranks: it needs a power of two; ring and direct support any number"
    );
    assert_eq!(
        refusal(ReduceScatter, &[(4, Direct), (8, Tree)], 1),
        "tree reduce-scatter over 8 ranks: not possible; the algorithms of reduce-scatter are ring, halving-doubling, direct"
    );
    assert_eq!(
        refusal(Broadcast, &[(8, HalvingDoubling)], 1),
        "halving-doubling broadcast over 8 ranks: not possible; the algorithms of broadcast are ring, tree, direct"
    );
    assert_eq!(
        refusal(AllToAll, &[(8, Tree)], 1),
        "tree all-to-all over 8 ranks: not possible; the algorithms of all-to-all are ring, direct"
    );
    assert_eq!(
        refusal(AllReduce, &[(8, Tree), (4, Ring)], 1),
        "tree all-reduce over 8 ranks on level 1 of 2: only the outermost level can use tree; inner levels can use ring, halving-doubling or direct"
    );
    let none = "all-reduce over 0 ranks; a collective has at least 1 rank on each of its levels";
    assert_eq!(refusal(AllReduce, &[], 1), none);
    assert_eq!(refusal(AllReduce, &[(4, Ring), (0, Ring)], 1), none);
    assert_eq!(
        refusal(AllReduce, &[(1 << 20, Ring), (3, Ring)], 1),
        "all-reduce over 3145728 ranks; at most 1048576 are possible"
    );
    assert_eq!(
        refusal(AllReduce, &[(4, Ring)], 0),
        "all-reduce in 0 chunks; 1 to 65536 are possible"
    );
    assert!(refusal(AllReduce, &[(4, Ring)], MAX_CHUNKS + 1).contains("65537 chunks"));
}
