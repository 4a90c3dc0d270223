//! The cost of a packet-hop (a data packet or acknowledgement that crosses a link) in the packet engine, in a small incast
//! that fits into a core's cache and in an all-to-all of 128 hosts that does not, and of starting 16,256 flows. An ns-3 based
//! simulator was measured on the same runs, whose arithmetic and frames are used here.

use criterion::{Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use hocket_des::{Bytes, Duration, Rate, Time};
use hocket_packetsim::model::{Frames, Headroom, Marking, Notification, Scheduling, Switching};
use hocket_packetsim::reference::Arithmetic;
use hocket_packetsim::{
    FlowSpec, MessageSpec, Model, PacketOptions, PacketWorkload, PathChoice, Reference, Setup,
    WindowRule, run,
};
use hocket_scenario::{Cable, EcmpHash, Fabric, Node, NodeId, NodeKind, Observer, Table};
use hocket_transport::Policy;
use hocket_transport::congestion::{dcqcn, hpcc};

const RATE: Rate = Rate::from_gbps(200);

/// A fabric, and pairs of hosts of which the first sends `bytes` to the second at the start.
struct Case {
    fabric: Fabric,
    pairs: Vec<(u32, u32)>,
    bytes: u64,
}

struct Quiet;

impl Observer for Quiet {
    fn on_table(&mut self, _: Table) {}
}

fn fabric(hosts: u32, switches: u32, cables: impl Iterator<Item = (u32, u32)>) -> Fabric {
    let node = |index| {
        let kind = if index < hosts { NodeKind::Host } else { NodeKind::Switch };
        Node { name: format!("n{index}"), kind }
    };
    let cable = |(a, b)| {
        let (a, b, delay) = (NodeId::new(a), NodeId::new(b), Duration::from_ns(500));
        Cable { a, b, rate: RATE, delay }
    };
    let cables: Vec<Cable> = cables.map(cable).collect();
    Fabric::new((0..hosts + switches).map(node).collect(), &cables).expect("a fabric")
}

/// Seven hosts each send 10 MB to the same host, over one switch.
fn incast8() -> Case {
    let fabric = fabric(8, 1, (0..8).map(|host| (host, 8)));
    Case { fabric, pairs: (1..8).map(|host| (host, 0)).collect(), bytes: 10_000_000 }
}

/// 128 hosts under 8 ToRs and 8 spines; each sends 250 KB to each other host.
fn clos128() -> Case {
    let downs = (0..128).map(|host| (host, 128 + host / 16));
    let ups = (128..136).flat_map(|tor| (136..144).map(move |spine| (tor, spine)));
    let fabric = fabric(128, 16, downs.chain(ups));
    let others = |host| (1..128).map(move |step| (host, (host + step) % 128));
    Case { fabric, pairs: (0..128).flat_map(others).collect(), bytes: 250_000 }
}

fn model() -> Model {
    let marking = Marking {
        rate: RATE,
        minimum: Bytes::new(600_000),
        maximum: Bytes::new(2_400_000),
        probability: 0.2,
    };
    let frames =
        Frames { mtu: 1_000, data_header: 36, ack: 34, minimum: 48, pause: 31, ..Frames::ROCE_V2 };
    let switching = Switching {
        buffer: Bytes::new(32 << 20),
        headroom: Headroom::ThreeDelays,
        marking: vec![marking],
        scheduling: Scheduling::RoundRobin,
        telemetry_unit: 8,
        ..Model::default().switching
    };
    Model {
        frames,
        switching,
        notification: Notification::InAcks,
        pause_holds_acks: false,
        arithmetic: Arithmetic::Reference,
        ..Model::default()
    }
}

/// The number of packet-hops of a run that ends at `until` or when everything has arrived.
fn simulate(case: &Case, policy: &Policy, until: Option<Time>) -> u64 {
    let scaled = matches!(policy, Policy::Hpcc(_));
    let flows: Vec<FlowSpec> = case
        .pairs
        .iter()
        .map(|&(from, to)| FlowSpec {
            from: NodeId::new(from),
            to: NodeId::new(to),
            labels: (10_000 | 100 << 16, 100 | 10_000 << 16),
            priority: 3,
            policy: 0,
            window: if scaled { WindowRule::PathFull { scaled } } else { WindowRule::Unlimited },
            path: PathChoice::Ecmp,
        })
        .collect();
    let message = |flow| MessageSpec { flow, bytes: case.bytes, start: Time::ZERO };
    let messages: Vec<MessageSpec> = (0..flows.len()).map(message).collect();
    let model = model();
    let setup = Setup {
        fabric: &case.fabric,
        model: &model,
        policies: std::slice::from_ref(policy),
        flows: &flows,
        patterns: &[],
        seed: 1,
        reference: Reference { hash: EcmpHash::Murmur3, longest_rtt_for_all: true },
    };
    let work = PacketWorkload { messages: &messages, ..PacketWorkload::default() };
    let options = PacketOptions { until, ..PacketOptions::default() };
    run(&setup, &work, &options, &mut Quiet).expect("everything arrives").counters.packet_hops
}

fn packets(criterion: &mut Criterion) {
    let policies = [
        ("pfc-only", Policy::PfcOnly),
        ("dcqcn", Policy::Dcqcn(dcqcn::Parameters::recommended(RATE))),
        ("hpcc", Policy::Hpcc(hpcc::Parameters::recommended(RATE))),
    ];
    let mut group = criterion.benchmark_group("packet_hops");
    group.sample_size(10).sampling_mode(SamplingMode::Flat);
    for (name, policy) in &policies {
        for (case_name, case) in [("incast8", incast8()), ("clos128", clos128())] {
            group.throughput(Throughput::Elements(simulate(&case, policy, None)));
            group.bench_function(format!("{case_name}/{name}"), |bencher| {
                bencher.iter(|| simulate(&case, policy, None));
            });
        }
    }
    group.finish();
}

fn start(criterion: &mut Criterion) {
    let case = clos128();
    let policy = Policy::Dcqcn(dcqcn::Parameters::recommended(RATE));
    let mut group = criterion.benchmark_group("start");
    group.sample_size(10);
    group.bench_function("16256_flows", |bencher| {
        bencher.iter(|| simulate(&case, &policy, Some(Time::ZERO)));
    });
    group.finish();
}

criterion_group!(benches, packets, start);
criterion_main!(benches);
