//! Properties of all runs, whatever the traffic, the fabric and the controls.

use hocket_des::{Bytes, Duration};
use hocket_packetsim::model::{Headroom, Marking, Scheduling};
use hocket_packetsim::{FlowSpec, MessageSpec, PacketStatus, PathChoice};
use hocket_transport::Policy;
use hocket_transport::congestion::{
    dcqcn, dctcp, hpcc, pint, receiver_driven, static_window, timely,
};
use proptest::prelude::*;

use crate::common::{ACK_PS, DELAY, LINE, Trial, at_ps, clos, flow, message, star};

fn any_policy() -> impl Strategy<Value = Policy> {
    let credits = (0_u64..60_000, 1_u32..4, 1_u64..60_000);
    prop_oneof![
        Just(Policy::PfcOnly),
        any::<bool>().prop_map(|adaptive| {
            Policy::Dcqcn(dcqcn::Parameters { adaptive, ..dcqcn::Parameters::recommended(LINE) })
        }),
        Just(Policy::Dctcp(dctcp::Parameters::recommended(LINE))),
        Just(Policy::Timely(timely::Parameters::recommended(LINE))),
        Just(Policy::Hpcc(hpcc::Parameters::recommended(LINE))),
        Just(Policy::Pint(pint::Parameters::recommended(LINE))),
        Just(Policy::StaticWindow(static_window::Parameters::default())),
        credits.prop_map(|(unsolicited, overcommitment, outstanding)| {
            let parameters =
                receiver_driven::Parameters { unsolicited, overcommitment, outstanding };
            Policy::ReceiverDriven(parameters)
        }),
    ]
}

fn any_scheduling() -> impl Strategy<Value = Scheduling> {
    prop_oneof![
        Just(Scheduling::Strict),
        Just(Scheduling::RoundRobin),
        prop::array::uniform8(1_u16..5).prop_map(Scheduling::Weighted),
    ]
}

prop_compose! {
    /// Messages of two jobs among the four hosts of a star or of a Clos of two racks. The buffers are so small that PFC
    /// is needed.
    fn any_trial()(
        is_clos in any::<bool>(),
        cut_through in any::<bool>(),
        policies in prop::collection::vec(any_policy(), 2),
        scheduling in any_scheduling(),
        ends in prop::collection::vec((0_u32..4, 1_u32..4, 0_u8..8, 0_usize..2, any::<bool>()), 1..8),
        members in prop::collection::vec(prop::sample::subsequence(vec![0, 1, 2], 0..=2), 8),
        sizes in prop::collection::vec((0_usize..8, 1_u64..200_000, 0_u64..50), 1..12),
        seed in any::<u64>(),
    ) -> Trial {
        let fabric = if is_clos { clos(2, 2, 2) } else { star(4) };
        let flows: Vec<FlowSpec> = ends
            .into_iter()
            .map(|(from, on, priority, policy, spreads)| {
                let telemetry = matches!(policies[policy], Policy::Hpcc(_) | Policy::Pint(_));
                let path = if spreads && !telemetry { PathChoice::Spray } else { PathChoice::Ecmp };
                FlowSpec { priority, policy, path, ..flow(from, (from + on) % 4) }
            })
            .collect();
        let mut trial = Trial::new(fabric, Vec::new(), 0);
        trial.messages = sizes
            .into_iter()
            .map(|(of, bytes, start_us)| {
                let start = at_ps(start_us * 1_000_000);
                MessageSpec { start, ..message(of % flows.len(), bytes) }
            })
            .collect();
        // Some queue pairs belong to one pattern, some to two, some to none.
        let of = |pattern| (0..flows.len()).filter(|&flow| members[flow].contains(&pattern)).collect();
        trial.patterns = [0, 1, 2].map(of).to_vec();
        trial.flows = flows;
        trial.policies = policies;
        trial.seed = seed;
        let switching = &mut trial.model.switching;
        switching.buffer = Bytes::new(1_200_000);
        switching.scheduling = scheduling;
        switching.cut_through = cut_through;
        let (minimum, maximum) = (Bytes::new(20_000), Bytes::new(80_000));
        switching.marking = vec![Marking { rate: LINE, minimum, maximum, probability: 0.2 }];
        trial
    }
}

/// The shortest possible completion time of a message of `bytes` at 100 Gbps over `switches` switches: its bytes leave the
/// sender, then the last packet or its headers cross the other links, and then its acknowledgement.
fn least_ps(bytes: u64, switches: u64, cut_through: bool) -> u64 {
    let packets = bytes.div_ceil(1_000);
    let last = bytes - (packets - 1) * 1_000 + 82;
    let passed = |wire: u64| 80 * if cut_through { wire.min(82) } else { wire };
    let forward = (bytes + packets * 82) * 80 + switches * passed(last);
    let reverse = ACK_PS + switches * passed(86);
    forward + reverse + 2 * (switches + 1) * DELAY.as_ps()
}

proptest! {
    // The run's self-checks verify that bytes and buffers add up, that nothing is lost, and that no link exceeds its rate.
    #[test]
    fn every_message_arrives_once_not_too_soon_and_reproducibly(trial in any_trial()) {
        let ran = trial.run();
        let outcome = ran.outcome();
        prop_assert_eq!(outcome.status, PacketStatus::Complete);
        prop_assert_eq!(outcome.counters.losses, 0);
        let posted: u64 = trial.messages.iter().map(|each| each.bytes).sum();
        let bytes = ran.integers("flows", "bytes");
        prop_assert_eq!(bytes.iter().sum::<u64>(), posted);
        let cut_through = trial.model.switching.cut_through;
        let is_clos = trial.fabric.nodes().len() > 5;
        let (starts, ends) = (ran.integers("flows", "start_s"), ran.integers("flows", "end_s"));
        for (row, &of) in ran.integers("flows", "flow").iter().enumerate() {
            let FlowSpec { from, to, .. } = &trial.flows[of as usize];
            let far = is_clos && from.index() / 2 != to.index() / 2;
            let least = least_ps(bytes[row], if far { 3 } else { 1 }, cut_through);
            prop_assert!(ends[row] - starts[row] >= least, "{} bytes of {of}", bytes[row]);
        }
        let again = trial.run();
        prop_assert_eq!(&again.tables, &ran.tables);
        prop_assert_eq!(again.outcome(), outcome);
    }

    #[test]
    fn static_windows_never_cause_a_pause(trial in any_trial(), spare in 0_u64..200_000) {
        let mut trial = trial;
        trial.policies = vec![Policy::StaticWindow(static_window::Parameters::default()); 2];
        // From slightly more than headroom and reserves need.
        trial.model.switching.buffer = Bytes::new(900_000 + spare);
        if let Ok(outcome) = trial.run().result {
            prop_assert_eq!(outcome.counters.pauses, 0);
        }
    }

    #[test]
    fn every_message_completes_even_if_buffers_are_too_small_and_packets_are_lost(
        trial in any_trial(),
        on_credit in any::<bool>(),
        buffer in 0_u64..60_000,
    ) {
        let mut trial = trial;
        if on_credit {
            let parameters = receiver_driven::Parameters::recommended(27_500);
            trial.policies = vec![Policy::ReceiverDriven(parameters); 2];
        } else {
            // No window is small enough for such buffers.
            let unsafe_window = |policy: &Policy| matches!(policy, Policy::StaticWindow(_));
            trial.policies.iter_mut().filter(|each| unsafe_window(each)).for_each(|each| {
                *each = Policy::PfcOnly;
            });
        }
        trial.model.switching.pfc = false;
        trial.model.switching.headroom = Headroom::Fixed(Bytes::ZERO);
        trial.model.switching.reserve = Bytes::ZERO;
        trial.model.switching.buffer = Bytes::new(20_000 + buffer);
        trial.model.retransmit_timeout = Duration::from_us(200);
        let ran = trial.run();
        prop_assert_eq!(ran.outcome().counters.messages, trial.messages.len() as u64);
    }
}
