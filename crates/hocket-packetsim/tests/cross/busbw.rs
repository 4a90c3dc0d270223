//! On both engines, a single collective on an idle fabric has the bus bandwidth of its closed form, and one that first
//! reduces inside servers of eight sends an eighth of the bytes between them.

use std::collections::BTreeMap;

use hocket_packetsim::Model;
use hocket_scenario::{Algorithm, Collective, CollectiveKind, Level};

use crate::common::values;
use crate::training::{both, framing, job, one_collective, one_tor, one_tor_with, spec};

const NIC_BPS: f64 = 200e9;
const DELAY_S: f64 = 500e-9;

/// Transmission time of bytes at a NIC, in seconds.
fn at_nic_s(bytes: f64) -> f64 {
    bytes * 8.0 / NIC_BPS
}

/// The duration of a step in which each rank sends and receives `messages` messages concurrently: all data with headers and
/// the acknowledgements of incoming data leave the NIC, then the last packet crosses the switch and two cables.
fn step_s(messages: f64, bytes: f64) -> f64 {
    let its = framing(Model::default().frames.mtu);
    let packets = (bytes / f64::from(its.payload)).ceil();
    let wire = bytes + packets * f64::from(its.header + its.ack);
    let last = bytes.min(f64::from(its.payload)) + f64::from(its.header);
    at_nic_s(messages * wire) + 2.0 * DELAY_S + at_nic_s(last)
}

/// The time that the acknowledgement of the last packet takes.
fn back_s() -> f64 {
    2.0 * (DELAY_S + at_nic_s(f64::from(framing(1_000).ack)))
}

/// `busbw_bps` on the packet engine, on the flow engine, and of an operation that takes `expected_s`.
fn busbw(
    ranks: u32,
    kind: CollectiveKind,
    algorithm: Algorithm,
    bytes: u64,
    expected_s: f64,
) -> [f64; 3] {
    let its = job("job", spec(one_collective(ranks, kind, bytes), 1, &[algorithm], 1));
    let (packets, flows) = both(one_tor(ranks, 1), vec![its], 1);
    let expected = bytes as f64 * 8.0 * kind.factor(ranks) / expected_s;
    let column = "busbw_bps";
    [packets.values("collectives", column)[0], values(&flows.collectives, column)[0], expected]
}

fn assert_within_2_percent(ranks: u32, [packets, flows, expected]: [f64; 3]) {
    for (engine, found) in [("packets", packets), ("flows", flows)] {
        let off = found / expected - 1.0;
        assert!(
            off.abs() < 0.02,
            "{ranks} ranks on {engine}: {found} instead of {expected}, {off}"
        );
    }
}

#[test]
fn a_ring_all_reduce_has_the_busbw_of_its_steps() {
    for ranks in [2, 3, 4, 8, 16, 32, 64, 128] {
        // Blocks of 64 packets.
        let block = 64 * u64::from(Model::default().frames.mtu);
        let steps = f64::from(2 * (ranks - 1));
        let expected_s = steps * step_s(1.0, block as f64) + back_s();
        let (kind, bytes) = (CollectiveKind::AllReduce, block * u64::from(ranks));
        assert_within_2_percent(ranks, busbw(ranks, kind, Algorithm::Ring, bytes, expected_s));
    }
}

#[test]
fn a_direct_all_to_all_has_the_busbw_of_its_one_step() {
    for ranks in [2, 3, 4, 8, 16, 32, 64] {
        let block = 64 * u64::from(Model::default().frames.mtu);
        let expected_s = step_s(f64::from(ranks - 1), block as f64) + back_s();
        let (kind, bytes) = (CollectiveKind::AllToAll, block * u64::from(ranks));
        assert_within_2_percent(ranks, busbw(ranks, kind, Algorithm::Direct, bytes, expected_s));
    }
}

#[test]
fn in_two_levels_an_eighth_of_the_bytes_leaves_a_server_of_eight_and_the_nics_are_busy_for_an_eighth()
 {
    let (servers, gpus) = (4, 8);
    let ranks = servers * gpus;
    // The bytes divide into whole packets at every level.
    let bytes = u64::from(ranks * gpus) * 4 * u64::from(Model::default().frames.mtu);
    let run = |algorithms: &[Algorithm]| {
        let workload = one_collective(ranks, CollectiveKind::AllReduce, bytes);
        let its = job("job", spec(workload, gpus, algorithms, 1));
        // Operations inside a server take almost no time.
        let (packets, flows) = both(one_tor_with(servers, gpus, 100_000), vec![its], 1);
        let nics = |links: &[String], bytes: &[f64]| {
            let rows = links.iter().zip(bytes).filter(|(link, _)| link.ends_with("->tor"));
            rows.map(|(_, &bytes)| bytes).collect::<Vec<_>>()
        };
        let of_packets = nics(&packets.names("links", "link"), &packets.values("links", "bytes"));
        let of_flows =
            nics(&crate::common::names(&flows.links, "link"), &values(&flows.links, "bytes"));
        let times =
            [packets.values("collectives", "time_s")[0], values(&flows.collectives, "time_s")[0]];
        (of_packets, of_flows, times)
    };
    let direct = Algorithm::Direct;
    let (one, two) = (run(&[direct]), run(&[direct, direct]));
    let leaves = f64::from(2 * (servers - 1)) / f64::from(servers) * bytes as f64;
    for bytes in [&one.0, &one.1] {
        assert_eq!(*bytes, vec![leaves; ranks as usize]);
    }
    for bytes in [&two.0, &two.1] {
        assert_eq!(*bytes, vec![leaves / 8.0; ranks as usize]);
    }
    // Two steps of each are done within about 3 us of the time that the NICs need.
    for (one_s, two_s) in one.2.into_iter().zip(two.2) {
        let ratio = (two_s - 4e-6) / (one_s - 4e-6);
        assert!((ratio - 1.0 / 8.0).abs() < 0.02, "{one_s} {two_s} {ratio}");
    }
}

#[test]
fn every_link_carries_exactly_what_the_members_of_a_hierarchy_send() {
    use Algorithm::{Direct, HalvingDoubling, Ring};
    let (servers, gpus) = (4, 4);
    let ranks = servers * gpus;
    let bytes = 16 * 16 * 4 * 3;
    for algorithms in [[Ring, Ring], [Direct, Ring], [HalvingDoubling, Direct]] {
        let kind = CollectiveKind::AllReduce;
        let its = job("job", spec(one_collective(ranks, kind, bytes), gpus, &algorithms, 4));
        let (packets, flows) = both(one_tor(servers, gpus), vec![its], 1);
        let level = |algorithm, ranks| Level { ranks, algorithm };
        let levels = [level(algorithms[0], gpus), level(algorithms[1], servers)];
        let expected = sent_by_gpus(
            &Collective::new(kind, hocket_des::Bytes::new(bytes), &levels, 4).expect("it is one"),
            gpus,
        );
        let sum = |links: Vec<String>, bytes: Vec<f64>| {
            let mut sums = BTreeMap::new();
            for (link, bytes) in links.into_iter().zip(bytes) {
                if let Some((from, to)) =
                    link.split_once("->").filter(|(from, _)| from.starts_with("gpu"))
                {
                    *sums.entry((from.to_owned(), to == "tor")).or_insert(0) += bytes as u64;
                }
            }
            sums
        };
        assert_eq!(sum(packets.names("links", "link"), packets.values("links", "bytes")), expected);
        assert_eq!(
            sum(crate::common::names(&flows.links, "link"), values(&flows.links, "bytes")),
            expected
        );
    }
}

/// By GPU, and whether it leaves the server.
fn sent_by_gpus(collective: &Collective, gpus: u32) -> BTreeMap<(String, bool), u64> {
    let mut sums = BTreeMap::new();
    for rank in 0..collective.ranks() {
        for step in 0..collective.steps() {
            for send in collective.sends(step, rank) {
                let leaves = send.to / gpus != rank / gpus;
                let chunks = 0..collective.chunks();
                let bytes: u64 = chunks
                    .map(|chunk| collective.message_bytes(chunk, step, rank, &send).get())
                    .sum();
                *sums.entry((format!("gpu{rank}"), leaves)).or_insert(0) += bytes;
            }
        }
    }
    sums
}
