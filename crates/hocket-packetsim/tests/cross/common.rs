//! A fabric of two racks, jobs on it, and both engines' tables of one scenario.

use std::collections::BTreeMap;

use hocket_des::{Duration, Rate, Time};
use hocket_packetsim::{LinkChange, Model, PacketOptions, PacketOutcome, run_scenario};
use hocket_scenario::{
    Cable, Column, Fabric, Job, JobFlow, Node, NodeId, NodeKind, Observer, Phase, Profile, Routing,
    Scenario, Stop, Table, Tables, flow_crossings,
};

pub(crate) const LINE: Rate = Rate::from_gbps(50);

/// Hosts 0 to 3, two in each rack; rack switches 4 and 5; spines from 6 on. All cables are alike: a host's is
/// cable `host`, those of spine s are cables 4 + 2s (rack 4) and 5 + 2s (rack 5).
pub(crate) fn racks(spines: u32, rate: Rate) -> Fabric {
    let node = |kind, name: String| Node { name, kind };
    let hosts = (0..4).map(|host| node(NodeKind::Host, format!("host{host}")));
    let racks = (0..2).map(|rack| node(NodeKind::Switch, format!("rack{rack}")));
    let tops = (0..spines).map(|spine| node(NodeKind::Switch, format!("spine{spine}")));
    let cable =
        |a, b| Cable { a: NodeId::new(a), b: NodeId::new(b), rate, delay: Duration::from_ns(500) };
    let downs = (0..4).map(|host| cable(host, 4 + host / 2));
    let ups = (0..spines).flat_map(|spine| [cable(4, 6 + spine), cable(5, 6 + spine)]);
    let cables: Vec<_> = downs.chain(ups).collect();
    Fabric::new(hosts.chain(racks).chain(tops).collect(), &cables).expect("the fabric is valid")
}

pub(crate) fn host(index: u32) -> NodeId {
    NodeId::new(index)
}

/// The default, with less patience for what is lost.
pub(crate) fn model() -> Model {
    Model { retransmit_timeout: Duration::from_us(500), ..Model::default() }
}

/// An Up phase from `start` on for `duration`, in a period of 2 ms.
pub(crate) fn profile(start_us: u64, duration_us: u64, gbps: u64) -> Profile {
    let (start, duration) = (Duration::from_us(start_us), Duration::from_us(duration_us));
    let up = Phase { start, duration, rate: Rate::from_gbps(gbps) };
    Profile::new(Duration::from_ms(2), vec![up]).expect("the phase fits in 2 ms")
}

/// A job whose one flow goes from `from` to `to`, for both engines.
pub(crate) fn job(name: &str, profile: Profile, from: u32, to: u32) -> Job {
    let flows = vec![JobFlow::new(host(from), host(to), 0)];
    let fabric = racks(1, LINE);
    let crossings = flow_crossings(&flows, &mut Routing::new(&fabric)).expect("all hosts meet");
    Job::new(name, profile, crossings).sending(flows)
}

pub(crate) fn scenario(fabric: Fabric, jobs: Vec<Job>, queues: u8, iterations: u64) -> Scenario {
    let stop = Stop { iterations: Some(iterations), until: None };
    Scenario::new(fabric, jobs, queues, 1, stop).expect("the scenario is valid")
}

/// All tables of a packet-level run, by name.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Collected(pub(crate) BTreeMap<&'static str, Vec<Table>>);

impl Observer for Collected {
    fn on_table(&mut self, rows: Table) {
        self.0.entry(rows.name).or_default().push(rows);
    }
}

pub(crate) fn packets_with(
    scenario: &Scenario,
    model: &Model,
    changes: &[LinkChange],
) -> (Collected, PacketOutcome) {
    let mut tables = Collected::default();
    let outcome = run_scenario(scenario, model, changes, &PacketOptions::default(), &mut tables);
    (tables, outcome.expect("the run passes its checks"))
}

pub(crate) fn packets(scenario: &Scenario) -> Collected {
    packets_with(scenario, &model(), &[]).0
}

/// The flow engine's tables; its links carry data alone, 1,000 of the 1,082 bytes of a packet.
pub(crate) fn flows(jobs: Vec<Job>, queues: u8, iterations: u64) -> Tables {
    let goodput = Rate::from_bps(LINE.as_bps() * 1_000 / 1_082);
    let scenario = scenario(racks(1, goodput), jobs, queues, iterations);
    let options = hocket_flowsim::FlowOptions::default();
    let outcome = hocket_flowsim::run(&scenario, &options);
    outcome.expect("the run passes its checks").tables
}

/// The numbers of a column, times in picoseconds.
pub(crate) fn values(table: &Table, column: &str) -> Vec<f64> {
    match table.column(column) {
        Some(Column::F64(values)) => values.clone(),
        Some(Column::U64(values)) => values.iter().map(|&value| value as f64).collect(),
        Some(Column::U32(values)) => values.iter().map(|&value| f64::from(value)).collect(),
        Some(Column::MaybeF64(values)) => values.iter().flatten().copied().collect(),
        Some(Column::Time(times)) => times.iter().map(|time| time.as_ps() as f64).collect(),
        other => panic!("{column} holds {other:?}"),
    }
}

/// A column of names.
pub(crate) fn names(table: &Table, column: &str) -> Vec<String> {
    match table.column(column) {
        Some(Column::Str { codes, dictionary }) => {
            codes.iter().map(|&code| dictionary[code as usize].clone()).collect()
        }
        other => panic!("{column} holds {other:?}"),
    }
}

impl Collected {
    pub(crate) fn names(&self, table: &str, column: &str) -> Vec<String> {
        let tables = self.0.get(table).map_or(&[][..], Vec::as_slice);
        tables.iter().flat_map(|rows| names(rows, column)).collect()
    }

    pub(crate) fn values(&self, table: &str, column: &str) -> Vec<f64> {
        let tables = self.0.get(table).map_or(&[][..], Vec::as_slice);
        tables.iter().flat_map(|rows| values(rows, column)).collect()
    }
}

pub(crate) fn assert_close(found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        let off = (found / expected - 1.0).abs();
        assert!(off <= tolerance, "{found} instead of {expected}: {:.3}% off", off * 100.0);
    }
}

pub(crate) fn at_us(us: u64) -> Time {
    Time::ZERO + Duration::from_us(us)
}
