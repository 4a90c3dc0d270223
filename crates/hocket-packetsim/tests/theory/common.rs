//! Fabrics small enough to calculate by hand, and runs on them.

use std::collections::BTreeMap;

use hocket_des::{Bytes, Duration, Rate, Time};
use hocket_packetsim::model::{Frames, Headroom, Notification, Scheduling, Switching};
use hocket_packetsim::{
    FlowSpec, LinkChange, MessageSpec, Model, PacketOptions, PacketOutcome, PacketRunError,
    PacketWorkload, PathChoice, Reference, Setup, WindowRule, run,
};
use hocket_scenario::{Cable, Column, Fabric, Node, NodeId, NodeKind, Observer, Table};
use hocket_transport::Policy;

pub(crate) const LINE: Rate = Rate::from_gbps(100);
pub(crate) const DELAY: Duration = Duration::from_ns(500);
/// A full packet on the wire, and how long it takes at 100 Gbps.
pub(crate) const WIRE: u64 = 1_082;
pub(crate) const PACKET_PS: u64 = WIRE * 80;
/// An acknowledgement at 100 Gbps.
pub(crate) const ACK_PS: u64 = 86 * 80;

/// Switches with 1 MiB that mark nothing.
pub(crate) fn model() -> Model {
    let default = Model::default();
    Model {
        frames: Frames::ROCE_V2,
        notification: Notification::InAcks,
        switching: Switching {
            buffer: Bytes::new(1 << 20),
            headroom: Headroom::Computed,
            marking: Vec::new(),
            scheduling: Scheduling::RoundRobin,
            ..default.switching
        },
        ..default
    }
}

pub(crate) fn node(name: String, kind: NodeKind) -> Node {
    Node { name, kind }
}

pub(crate) fn cable(a: u32, b: u32) -> Cable {
    Cable { a: NodeId::new(a), b: NodeId::new(b), rate: LINE, delay: DELAY }
}

/// Hosts `h0`, `h1` and so on around switch `s`, each at the end of its cable.
pub(crate) fn star_of(cables: impl IntoIterator<Item = (Rate, Duration)>) -> Fabric {
    star_around(NodeKind::Switch, cables)
}

/// As [`star_of`], around a switch of this kind.
pub(crate) fn star_around(
    kind: NodeKind,
    cables: impl IntoIterator<Item = (Rate, Duration)>,
) -> Fabric {
    let ends: Vec<_> = cables.into_iter().collect();
    let hosts = ends.len() as u32;
    let mut nodes: Vec<Node> =
        (0..hosts).map(|host| node(format!("h{host}"), NodeKind::Host)).collect();
    nodes.push(node("s".to_owned(), kind));
    let cables = ends.into_iter().zip(0..).map(|((rate, delay), host)| Cable {
        rate,
        delay,
        ..cable(host, hosts)
    });
    Fabric::new(nodes, &cables.collect::<Vec<_>>()).expect("a star is a fabric")
}

pub(crate) fn star(hosts: u32) -> Fabric {
    star_of((0..hosts).map(|_| (LINE, DELAY)))
}

/// `leaves` switches with `hosts` hosts each, all joined to `spines` switches.
pub(crate) fn clos(leaves: u32, hosts: u32, spines: u32) -> Fabric {
    let total = leaves * hosts;
    let host = |index| node(format!("h{index}"), NodeKind::Host);
    let leaf = |index| node(format!("leaf{index}"), NodeKind::Switch);
    let spine = |index| node(format!("spine{index}"), NodeKind::Switch);
    let nodes = (0..total).map(host).chain((0..leaves).map(leaf)).chain((0..spines).map(spine));
    let downs = (0..total).map(|host| cable(host, total + host / hosts));
    let pairs = (0..leaves).flat_map(|leaf| (0..spines).map(move |spine| (leaf, spine)));
    let ups = pairs.map(|(leaf, spine)| cable(total + leaf, total + leaves + spine));
    Fabric::new(nodes.collect(), &downs.chain(ups).collect::<Vec<_>>()).expect("a Clos is a fabric")
}

pub(crate) fn flow(from: u32, to: u32) -> FlowSpec {
    FlowSpec {
        from: NodeId::new(from),
        to: NodeId::new(to),
        labels: (u64::from(from), u64::from(to)),
        priority: 3,
        policy: 0,
        window: WindowRule::Unlimited,
        path: PathChoice::Ecmp,
    }
}

pub(crate) fn at_ps(ps: u64) -> Time {
    Time::from_ps(ps)
}

pub(crate) fn message(flow: usize, bytes: u64) -> MessageSpec {
    MessageSpec { flow, bytes, start: Time::ZERO }
}

/// Everything that a test may change about a run.
#[derive(Clone, Debug)]
pub(crate) struct Trial {
    pub(crate) fabric: Fabric,
    pub(crate) model: Model,
    pub(crate) policies: Vec<Policy>,
    pub(crate) flows: Vec<FlowSpec>,
    pub(crate) patterns: Vec<Vec<usize>>,
    pub(crate) messages: Vec<MessageSpec>,
    pub(crate) changes: Vec<LinkChange>,
    pub(crate) options: PacketOptions,
    pub(crate) seed: u64,
}

/// The tables of a run, those of one name one after another, and how it ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) tables: BTreeMap<&'static str, Vec<Table>>,
    pub(crate) result: Result<PacketOutcome, PacketRunError>,
}

impl Trial {
    /// One message of `bytes` on each flow, at line rate.
    pub(crate) fn new(fabric: Fabric, flows: Vec<FlowSpec>, bytes: u64) -> Self {
        Self {
            fabric,
            model: model(),
            policies: vec![Policy::PfcOnly],
            messages: (0..flows.len()).map(|flow| message(flow, bytes)).collect(),
            flows,
            patterns: Vec::new(),
            changes: Vec::new(),
            options: PacketOptions::default(),
            seed: 1,
        }
    }

    /// Hosts 1 and up of a star send `bytes` each to host 0.
    pub(crate) fn incast(senders: u32, bytes: u64) -> Self {
        let flows = (1..=senders).map(|host| flow(host, 0)).collect();
        Self::new(star(senders + 1), flows, bytes)
    }

    pub(crate) fn under(mut self, policy: Policy) -> Self {
        self.policies = vec![policy];
        self
    }

    pub(crate) fn run(&self) -> Ran {
        let mut tables: Vec<Table> = Vec::new();
        let result = self.run_before(&mut tables);
        let mut by_name: BTreeMap<_, Vec<Table>> = BTreeMap::new();
        for table in tables {
            by_name.entry(table.name).or_default().push(table);
        }
        Ran { tables: by_name, result }
    }

    /// Runs while `observer` looks on.
    pub(crate) fn run_before(
        &self,
        observer: &mut dyn Observer,
    ) -> Result<PacketOutcome, PacketRunError> {
        let setup = Setup {
            fabric: &self.fabric,
            model: &self.model,
            policies: &self.policies,
            flows: &self.flows,
            patterns: &self.patterns,
            seed: self.seed,
            reference: Reference::default(),
        };
        let (messages, changes) = (&self.messages[..], &self.changes[..]);
        let work = PacketWorkload { messages, changes, ..PacketWorkload::default() };
        run(&setup, &work, &self.options, observer)
    }

    pub(crate) fn refusal(&self) -> String {
        let ran = self.run();
        assert!(ran.tables.is_empty(), "it is refused before it starts");
        ran.result.expect_err("the run is refused").to_string()
    }
}

impl Ran {
    pub(crate) fn outcome(&self) -> &PacketOutcome {
        self.result.as_ref().expect("the run holds its own checks")
    }

    pub(crate) fn error(&self) -> &PacketRunError {
        self.result.as_ref().expect_err("the run must fail")
    }

    pub(crate) fn seconds(&self, table: &str, column: &str) -> Vec<f64> {
        let parts = self.tables.get(table).into_iter().flatten();
        let values = |part: &Table| match part.column(column) {
            Some(Column::F64(values)) => values.clone(),
            other => panic!("{table}.{column} is {other:?}"),
        };
        parts.flat_map(values).collect()
    }

    /// The whole numbers of a column, times in picoseconds.
    pub(crate) fn integers(&self, table: &str, column: &str) -> Vec<u64> {
        let parts = self.tables.get(table).into_iter().flatten();
        let values = |part: &Table| match part.column(column) {
            Some(Column::U64(values)) => values.clone(),
            Some(Column::Bool(values)) => values.iter().map(|&value| value.into()).collect(),
            Some(Column::Time(times)) => times.iter().map(|time| time.as_ps()).collect(),
            Some(Column::U32(values)) => values.iter().map(|&value| value.into()).collect(),
            other => panic!("{table}.{column} is {other:?}"),
        };
        parts.flat_map(values).collect()
    }

    pub(crate) fn names(&self, table: &str, column: &str) -> Vec<String> {
        let parts = self.tables.get(table).into_iter().flatten();
        let values = |part: &Table| -> Vec<String> {
            let Some(Column::Str { codes, dictionary }) = part.column(column) else {
                panic!("{table}.{column} holds no names")
            };
            codes.iter().map(|&code| dictionary[code as usize].clone()).collect()
        };
        parts.flat_map(values).collect()
    }

    /// The value of `column` for `link` in the table of ports.
    pub(crate) fn port(&self, link: &str, column: &str) -> u64 {
        let links = self.names("ports", "link");
        let row = links.iter().position(|each| each == link);
        row.map_or(0, |row| self.integers("ports", column)[row])
    }

    /// When each flow's last message was complete, in picoseconds.
    pub(crate) fn ends(&self, flows: usize) -> Vec<u64> {
        let mut ends = vec![0; flows];
        for (flow, end) in
            self.integers("flows", "flow").iter().zip(self.integers("flows", "end_s"))
        {
            ends[*flow as usize] = end.max(ends[*flow as usize]);
        }
        ends
    }
}
