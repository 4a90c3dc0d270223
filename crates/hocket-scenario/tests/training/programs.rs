//! Random workloads that are valid by construction: events are drawn in one order for all ranks, and each operation only waits
//! for earlier ones.

use hocket_des::{Bytes, Duration};
use hocket_scenario::CollectiveKind;
use hocket_scenario::workload::{Exchange, Operation, OperationKind, Rank, Workload};
use proptest::prelude::*;

/// The bytes of all collectives are multiples of this, so that up to six ranks and two chunks divide them evenly.
pub(crate) const SHARE: u64 = 2 * 60;

/// One event, and a bit mask of the operations that it waits for among the four before it at each of its ranks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) what: What,
    pub(crate) after: u8,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    Compute { rank: u32, us: u64 },
    Collective { group: usize, kind: CollectiveKind, shares: u64 },
    Message { from: u32, to: u32, bytes: u64, tag: u64 },
}

/// Ranks in two groups: all of them, and some.
#[derive(Clone, Debug)]
pub(crate) struct Drawn {
    pub(crate) ranks: u32,
    pub(crate) groups: Vec<Vec<u32>>,
    pub(crate) events: Vec<Event>,
}

impl Drawn {
    /// The programs, one for each rank. Each rank lists its groups in order.
    pub(crate) fn programs(&self) -> Vec<Vec<Operation>> {
        let mut programs = vec![Vec::new(); self.ranks as usize];
        for (number, event) in self.events.iter().enumerate() {
            match event.what {
                What::Compute { rank, us } => {
                    let kind = OperationKind::Compute(Duration::from_us(us));
                    self.add(&mut programs, rank, number, kind);
                }
                What::Collective { group, kind, shares } => {
                    let bytes = Bytes::new(shares * SHARE);
                    for &rank in &self.groups[group] {
                        let communicator = self.place(rank, group);
                        let kind = OperationKind::Collective { communicator, kind, bytes };
                        self.add(&mut programs, rank, number, kind);
                    }
                }
                What::Message { from, to, bytes, tag } => {
                    let exchange =
                        |peer| Exchange { communicator: 0, peer, bytes: Bytes::new(bytes), tag };
                    self.add(&mut programs, from, number, OperationKind::Send(exchange(to)));
                    self.add(&mut programs, to, number, OperationKind::Recv(exchange(from)));
                }
            }
        }
        programs
    }

    /// The workload in which every rank has its own program.
    pub(crate) fn workload(&self) -> Workload {
        Workload::new(self.programs(), self.groups.clone(), self.rank_list())
            .expect("events in one order at all ranks are valid")
    }

    pub(crate) fn rank_list(&self) -> Vec<Rank> {
        let in_group = |rank: u32| {
            let groups = (0_u32..).zip(&self.groups);
            groups.filter(move |(_, members)| members.contains(&rank)).map(|(group, _)| group)
        };
        let rank = |rank| Rank { program: rank, communicators: in_group(rank).collect() };
        (0..self.ranks).map(rank).collect()
    }

    // The position of a group in the rank's list: the number of earlier groups that contain the rank.
    fn place(&self, rank: u32, group: usize) -> u32 {
        self.groups[..group].iter().filter(|members| members.contains(&rank)).count() as u32
    }

    fn add(&self, programs: &mut [Vec<Operation>], rank: u32, number: usize, kind: OperationKind) {
        let program = &mut programs[rank as usize];
        let here = program.len() as u32;
        let waits = |back: &u32| self.events[number].after >> (back - 1) & 1 == 1 && *back <= here;
        let after = (1..=4).filter(waits).map(|back| here - back).collect();
        program.push(Operation { name: format!("event {number}"), kind, after });
    }
}

/// Up to six ranks and a dozen events.
pub(crate) fn drawn() -> impl Strategy<Value = Drawn> {
    (2_u32..=6).prop_flat_map(|ranks| {
        let some =
            proptest::sample::subsequence((0..ranks).collect::<Vec<_>>(), 1..=ranks as usize);
        let kind = proptest::sample::select(CollectiveKind::ALL.to_vec());
        let what = prop_oneof![
            (0..ranks, 0_u64..40).prop_map(|(rank, us)| What::Compute { rank, us }),
            (0_usize..2, kind, 1_u64..400).prop_map(|(group, kind, shares)| What::Collective {
                group,
                kind,
                shares
            }),
            (0..ranks, 1..ranks, 1_u64..50_000, 0_u64..2).prop_map(
                move |(from, on, bytes, tag)| {
                    What::Message { from, to: (from + on) % ranks, bytes, tag }
                }
            ),
        ];
        let event = (what, 0_u8..16).prop_map(|(what, after)| Event { what, after });
        (some, prop::collection::vec(event, 1..12)).prop_map(move |(some, mut events)| {
            // A scenario refuses ranks whose iterations take no time.
            for rank in 0..ranks {
                events.push(Event { what: What::Compute { rank, us: 5 }, after: 0b1111 });
            }
            Drawn { ranks, groups: vec![(0..ranks).collect(), some], events }
        })
    })
}
