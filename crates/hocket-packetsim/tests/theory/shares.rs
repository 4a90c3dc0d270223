//! Shares of a link, and waiting times.

use hocket_des::{Bytes, Rate, stream};
use hocket_packetsim::model::{PRIORITIES, Scheduling};
use hocket_packetsim::{FlowSpec, MessageSpec};
use rand::RngExt;

use crate::common::{ACK_PS, DELAY, LINE, PACKET_PS, Trial, at_ps, flow, star, star_of};

/// The completion time of a message on an idle star.
fn alone_ps(packets: u64) -> u64 {
    (packets + 1) * PACKET_PS + 2 * ACK_PS + 4 * DELAY.as_ps()
}

#[test]
fn flows_of_one_nic_take_turns_packet_by_packet() {
    for n in 2..=8 {
        let flows = (1..=n).map(|to| flow(0, to)).collect();
        let ends = Trial::new(star(n + 1), flows, 100_000).run().ends(n as usize);
        // The last packet of the k-th flow has n − k packets after it.
        let nth = |k: u64| alone_ps(u64::from(n) * 100 - (u64::from(n) - k));
        assert_eq!(ends, (1..=u64::from(n)).map(nth).collect::<Vec<_>>());
    }
}

#[test]
fn n_flows_from_n_hosts_get_an_nth_of_a_link_within_a_packet() {
    for n in 2..=8 {
        let mut trial = Trial::incast(n, 500_000);
        // The buffer is large enough for everything that arrives, so that shares do not depend on PAUSE frames.
        trial.model.switching.buffer = Bytes::new(100_000_000);
        let ran = trial.run();
        assert_eq!(ran.outcome().counters.pauses, 0);
        let ends = ran.ends(n as usize);
        let all = alone_ps(u64::from(n) * 500);
        assert_eq!(ends.iter().max(), Some(&all));
        // The last packet of every flow is among the last n packets.
        let first = all - u64::from(n - 1) * PACKET_PS;
        assert!(ends.iter().all(|&end| end >= first), "{ends:?} from {first}");
    }
}

#[test]
fn n_flows_share_a_link_equally_while_pfc_pauses_them_in_turn() {
    for n in 2..=8 {
        let ran = Trial::incast(n, 2_000_000).run();
        assert!(ran.outcome().counters.pauses > 0);
        let all = alone_ps(u64::from(n) * 2_000);
        let ends = ran.ends(n as usize);
        assert_eq!(ends.iter().max(), Some(&all), "the link never stands still");
        assert!(ends.iter().all(|&end| end > all - all / 50), "{ends:?}");
    }
}

/// Hosts 1 and 2 send `bytes` to host 0 in classes 1 and 2, so that both have data to send until the first of them is done.
fn two_classes(scheduling: Scheduling, bytes: [u64; 2]) -> Trial {
    let class = |(host, priority)| FlowSpec { priority, ..flow(host, 0) };
    let mut trial = Trial::new(star(3), [(1, 1), (2, 2)].map(class).to_vec(), 1);
    trial.messages[0].bytes = bytes[0];
    trial.messages[1].bytes = bytes[1];
    trial.model.switching.scheduling = scheduling;
    trial.model.switching.buffer = Bytes::new(100_000_000);
    trial
}

#[test]
fn the_class_of_highest_priority_is_served_as_if_alone() {
    let ran = two_classes(Scheduling::Strict, [1_000_000, 1_000_000]).run();
    let ends = ran.ends(2);
    // The first packets of both arrive together, and the one that leaves first is not interrupted.
    assert!(ends[0] <= alone_ps(1_000) + PACKET_PS, "{ends:?}");
    assert_eq!(ends[1], alone_ps(2_000));
}

#[test]
fn weights_of_one_and_three_give_a_quarter_and_three_quarters() {
    let mut weights = [1; PRIORITIES];
    weights[2] = 3;
    // Within 4,000 packet times.
    let ran = two_classes(Scheduling::Weighted(weights), [1_000_000, 3_000_000]).run();
    let ends = ran.ends(2);
    assert_eq!(ends.iter().max(), Some(&alone_ps(4_000)));
    // The first class gets one packet for three of the second. A turn lasts only a few packets.
    assert!(ends[0].abs_diff(ends[1]) <= 16 * PACKET_PS, "{ends:?}");
    // With equal weights each gets half.
    let ran = two_classes(Scheduling::Weighted([5; PRIORITIES]), [1_000_000, 1_000_000]).run();
    let ends = ran.ends(2);
    assert!(ends[0].abs_diff(ends[1]) <= 16 * PACKET_PS, "{ends:?}");
}

#[test]
fn round_robin_serves_classes_equally_whatever_their_number_of_flows() {
    // Three hosts in class 1 and one in class 2: a class has half of the link, and the three a third of that.
    let class = |(host, priority)| FlowSpec { priority, ..flow(host, 0) };
    let flows = [(1, 1), (2, 1), (3, 1), (4, 2)].map(class).to_vec();
    let mut trial = Trial::new(star(5), flows, 500_000);
    trial.messages[3].bytes = 1_500_000;
    trial.model.switching.buffer = Bytes::new(100_000_000);
    let ends = trial.run().ends(4);
    assert_eq!(ends.iter().max(), Some(&alone_ps(3_000)));
    assert!(ends.iter().all(|&end| end >= alone_ps(3_000 - 8)), "{ends:?}");
}

/// Mean waiting time at one link for single packets that arrive at random from 64 hosts, in service times.
fn mean_wait(load: f64, packets: usize) -> f64 {
    const HOSTS: u32 = 64;
    // The other links are so fast that packets wait only at this one.
    let fast = Rate::from_gbps(100_000);
    let cables = [(LINE, DELAY)].into_iter().chain((0..HOSTS).map(|_| (fast, DELAY)));
    let flows: Vec<FlowSpec> = (1..=HOSTS).map(|host| flow(host, 0)).collect();
    let mut trial = Trial::new(star_of(cables), flows, 1_000);
    trial.model.switching.buffer = Bytes::new(4_000_000_000);
    let mut draws = stream(1, "arrivals", 0);
    let mut at = 0.0;
    trial.messages = (0..packets)
        .map(|_| {
            // A Poisson process: exponential gaps, and a host at random.
            at -= (1.0 - draws.random::<f64>()).ln() * PACKET_PS as f64 / load;
            let flow = draws.random_range(0..HOSTS as usize);
            MessageSpec { flow, bytes: 1_000, start: at_ps(at as u64) }
        })
        .collect();
    let ran = trial.run();
    let (starts, ends) = (ran.integers("flows", "start_s"), ran.integers("flows", "end_s"));
    let took: f64 = starts.iter().zip(&ends).map(|(start, end)| (end - start) as f64).sum();
    let fast_ps = |bytes: u64| (bytes * 8 * 1_000).div_ceil(100_000) as f64;
    let unloaded = (PACKET_PS + ACK_PS + 4 * DELAY.as_ps()) as f64 + fast_ps(1_082) + fast_ps(86);
    (took / packets as f64 - unloaded) / PACKET_PS as f64
}

#[test]
fn random_arrivals_wait_as_the_pollaczek_khinchine_formula_predicts() {
    // M/D/1: ρ ÷ 2(1 − ρ) service times. The number of packets makes the mean accurate to about 1%.
    for (load, packets) in [(0.5, 100_000), (0.7, 200_000), (0.9, 1_200_000)] {
        let expected = load / (2.0 * (1.0 - load));
        let found = mean_wait(load, packets);
        assert!((found / expected - 1.0).abs() < 0.03, "{found} against {expected} at load {load}");
    }
}

#[test]
fn regular_arrivals_below_capacity_do_not_wait() {
    // Two hosts each send a packet every two packet times, alternating.
    let mut trial = Trial::incast(2, 1_000);
    let message = |number: u64| MessageSpec {
        flow: (number % 2) as usize,
        bytes: 1_000,
        start: at_ps(number * PACKET_PS),
    };
    trial.messages = (0..200).map(message).collect();
    let ran = trial.run();
    let took = ran.integers("flows", "start_s").into_iter().zip(ran.integers("flows", "end_s"));
    assert!(took.into_iter().all(|(start, end)| end - start == alone_ps(1)));
    assert_eq!(ran.outcome().ended.as_ps(), 199 * PACKET_PS + alone_ps(1));
}
