//! Runs of the packet engine on given messages. Flows and messages come as columns, since there can be millions.

use hocket_des::{Bytes, Duration, Rate, Time};
use hocket_packetsim::model::{Frames, Headroom, Marking, Notification, Scheduling, Switching};
use hocket_packetsim::reference::Arithmetic;
use hocket_packetsim::{
    Change, FlowSpec, LinkChange, MessageSpec, Model, PacketCounters, PacketOptions, PacketOutcome,
    PacketRunError, PacketStatus, PacketWorkload, PathChoice, Record, Reference, Setup, WindowRule,
};
use hocket_scenario::{EcmpHash, LinkId, NodeId};
use hocket_transport::{Answering, Policy};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{IntoPyDict, PyDict};

use crate::choices::one_of;
use crate::convert::{PyFabric, narrow};
use crate::error::value_error;
use crate::observed::{Observed, observed};
use crate::policies::{policy, window_rule};

pyo3::create_exception!(
    _hocket,
    SelfCheckError,
    PyRuntimeError,
    "A self-check of the run failed, which ended it; the sink has received what was recorded by then."
);

/// How hosts and switches work; names as in `hocket_packetsim::Model`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct ModelSpec {
    mtu_bytes: u64,
    /// For flows inside a server; `None` for the default.
    #[pyo3(default)]
    scale_up_mtu_bytes: Option<u64>,
    data_header_bytes: u64,
    ack_bytes: u64,
    least_ack_bytes: u64,
    pause_bytes: u64,
    stamp_bytes: u64,
    hops_bytes: u64,
    load_bytes: u64,
    ack_every: u64,
    nack_interval_ps: u64,
    /// Interval in ps and priority of CNPs; `None` if acknowledgements carry the marks.
    cnp: Option<(u64, u64)>,
    pause_holds_acks: bool,
    retransmit_timeout_ps: u64,
    buffer_bytes: u64,
    reserve_bytes: u64,
    headroom: HeadroomSpec,
    dynamic_threshold: i8,
    resume_offset_bytes: u64,
    pfc: bool,
    marking: Vec<MarkingSpec>,
    scheduling: SchedulingSpec,
    cut_through: bool,
    telemetry_unit: u64,
    pint_base: f64,
    /// "exact" or "reference".
    arithmetic: String,
}

/// As [`Marking`], which documents the fields; a named tuple, which manifests store as a list.
#[derive(FromPyObject)]
struct MarkingSpec {
    rate_bps: u64,
    minimum_bytes: u64,
    maximum_bytes: u64,
    probability: f64,
}

#[derive(FromPyObject)]
enum HeadroomSpec {
    Bytes(u64),
    /// "computed" or "three-delays".
    Rule(String),
}

#[derive(FromPyObject)]
enum SchedulingSpec {
    Weights([u16; 8]),
    /// "round-robin" or "strict".
    Rule(String),
}

/// Columns as little-endian buffers of 64 bits per flow; rows of equal length.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct FlowColumns {
    from_node: PyBackedBytes,
    to_node: PyBackedBytes,
    forward_label: PyBackedBytes,
    reverse_label: PyBackedBytes,
    priority: PyBackedBytes,
    policy: PyBackedBytes,
    window: PyBackedBytes,
}

/// Columns as little-endian buffers of 64 bits per message.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct MessageColumns {
    flow: PyBackedBytes,
    bytes: PyBackedBytes,
    start_ps: PyBackedBytes,
}

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct OptionsSpec {
    seed: u64,
    until_ps: Option<u64>,
    sample_every_ps: Option<u64>,
    /// "murmur3" or "mixed".
    hash: String,
    longest_rtt_for_all: bool,
    record_rates: bool,
    record_utilisation: bool,
}

#[derive(IntoPyObject)]
pub(crate) struct PacketRunResult<'py> {
    counters: Bound<'py, PyDict>,
    /// "complete", "stopped" at the given end, or "interrupted".
    status: &'static str,
    ended_ps: u64,
    /// Seconds that the run took, without those in which it waited for `sink` and `progress`.
    run_s: f64,
    skipping: Option<SkippingResult>,
}

/// The result of skipping ahead, if that was allowed; the table `repeated` lists what was repeated.
#[derive(IntoPyObject)]
struct SkippingResult {
    /// The run's packet-hops that were repeated instead of simulated.
    packet_hops: u64,
    /// Why nothing was repeated; `None` if something was.
    obstacle: Option<String>,
}

/// `sink` and `progress` as for [`observed`]; progress counts messages.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "each is a thing of its own, and is passed by name")]
pub(crate) fn simulate_packets<'py>(
    py: Python<'py>,
    fabric: &Bound<'py, PyFabric>,
    model: ModelSpec,
    policies: Vec<Bound<'py, PyDict>>,
    windows: Vec<(String, u64)>,
    flows: FlowColumns,
    messages: MessageColumns,
    failures: Vec<(u64, u32)>,
    options: OptionsSpec,
    sink: Bound<'py, PyAny>,
    progress: Bound<'py, PyAny>,
) -> PyResult<PacketRunResult<'py>> {
    let model = model.model()?;
    let policies = policies.iter().map(policy).collect::<PyResult<Vec<Policy>>>()?;
    let windows = windows.iter().map(window_rule).collect::<PyResult<Vec<WindowRule>>>()?;
    let hashes = [("murmur3", EcmpHash::Murmur3), ("mixed", EcmpHash::Mixed)];
    let flows = flows.specs(&windows)?;
    let messages = messages.specs();
    let setup = Setup {
        fabric: &fabric.get().fabric,
        model: &model,
        policies: &policies,
        flows: &flows,
        // Messages on their own belong to no collective.
        patterns: &[],
        seed: options.seed,
        reference: Reference {
            hash: one_of("hash", &options.hash, hashes)?,
            longest_rtt_for_all: options.longest_rtt_for_all,
        },
    };
    let changes: Vec<LinkChange> = failures.into_iter().map(failure).collect();
    let work =
        PacketWorkload { messages: &messages, changes: &changes, ..PacketWorkload::default() };
    let [rates, utilisation] = [options.record_rates, options.record_utilisation];
    let options = PacketOptions {
        until: options.until_ps.map(Time::from_ps),
        sample_every: options.sample_every_ps.map(Duration::from_ps),
        record: Record { rates, utilisation, ..Record::default() },
        ..PacketOptions::default()
    };
    let ran = observed(py, sink, progress, |observer| {
        hocket_packetsim::run(&setup, &work, &options, observer).map_err(run_error)
    })?;
    packet_result(py, ran)
}

/// The outcome of a run as a dictionary.
pub(crate) fn packet_result<'py>(
    py: Python<'py>,
    ran: Observed<PacketOutcome>,
) -> PyResult<PacketRunResult<'py>> {
    let Observed { outcome, was_interrupted, run_s } = ran;
    Ok(PacketRunResult {
        counters: counters(py, &outcome.counters)?,
        status: match outcome.status {
            // Ctrl-C may have come after the engine had ended, while the sink took the last rows.
            _ if was_interrupted => "interrupted",
            PacketStatus::Complete => "complete",
            PacketStatus::Stopped => "stopped",
            PacketStatus::Interrupted => "interrupted",
        },
        ended_ps: outcome.ended.as_ps(),
        run_s,
        skipping: outcome.skipping.map(|skipping| SkippingResult {
            packet_hops: skipping.counters.packet_hops,
            obstacle: skipping.obstacle.map(|obstacle| obstacle.to_string()),
        }),
    })
}

/// Sizes of RoCEv2's headers and frames, by the names of fields of a model.
#[pyfunction]
pub(crate) fn rocev2_frames(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let frames = Frames::ROCE_V2;
    let named = [
        ("data_header_bytes", frames.data_header),
        ("ack_bytes", frames.ack),
        ("least_ack_bytes", frames.minimum),
        ("pause_bytes", frames.pause),
        ("stamp_bytes", frames.stamp),
        ("hops_bytes", frames.hops),
        ("load_bytes", frames.load),
    ];
    named.into_py_dict(py)
}

fn counters<'py>(py: Python<'py>, counters: &PacketCounters) -> PyResult<Bound<'py, PyDict>> {
    let named = [
        ("packet_hops", counters.packet_hops),
        ("events", counters.events),
        ("messages", counters.messages),
        ("pauses", counters.pauses),
        ("marks", counters.marks),
        ("cnps", counters.cnps),
        ("retransmissions", counters.retransmissions),
        ("losses", counters.losses),
        ("lost_to_failures", counters.lost_to_failures),
    ];
    let dict = named.into_py_dict(py)?;
    dict.set_item("rate_cuts", &counters.rate_cuts)?;
    Ok(dict)
}

pub(crate) fn run_error(error: PacketRunError) -> PyErr {
    if error.is_failed_check() {
        return SelfCheckError::new_err(error.to_string());
    }
    value_error(error)
}

/// The failure of a link at a time; in this kind of run, links do not recover.
fn failure((at_ps, link): (u64, u32)) -> LinkChange {
    let (at, link) = (Time::from_ps(at_ps), LinkId::new(link));
    LinkChange { at, link, change: Change::Down }
}

impl ModelSpec {
    pub(crate) fn model(self) -> PyResult<Model> {
        let arithmetics = [("exact", Arithmetic::Exact), ("reference", Arithmetic::Reference)];
        let model = Model {
            frames: Frames {
                mtu: narrow("a packet's data", self.mtu_bytes)?,
                data_header: narrow("a packet's headers", self.data_header_bytes)?,
                ack: narrow("an acknowledgement", self.ack_bytes)?,
                minimum: narrow("the shortest acknowledgement", self.least_ack_bytes)?,
                pause: narrow("a PAUSE frame", self.pause_bytes)?,
                stamp: narrow("a time stamp", self.stamp_bytes)?,
                hops: narrow("telemetry of all hops", self.hops_bytes)?,
                load: narrow("PINT's telemetry", self.load_bytes)?,
            },
            answering: Answering {
                ack_every: narrow("packets per acknowledgement", self.ack_every)?,
                nack_interval: Duration::from_ps(self.nack_interval_ps),
            },
            scale_up_mtu: self
                .scale_up_mtu_bytes
                .map_or(Ok(Model::default().scale_up_mtu), |bytes| {
                    narrow("a packet's data inside a server", bytes)
                })?,
            notification: match self.cnp {
                None => Notification::InAcks,
                Some((interval_ps, priority)) => Notification::Packets {
                    interval: Duration::from_ps(interval_ps),
                    priority: narrow("the class of CNPs", priority)?,
                },
            },
            pause_holds_acks: self.pause_holds_acks,
            retransmit_timeout: Duration::from_ps(self.retransmit_timeout_ps),
            switching: Switching {
                buffer: Bytes::new(self.buffer_bytes),
                reserve: Bytes::new(self.reserve_bytes),
                headroom: self.headroom.headroom()?,
                dynamic_threshold: self.dynamic_threshold,
                resume_offset: Bytes::new(self.resume_offset_bytes),
                pfc: self.pfc,
                marking: self.marking.into_iter().map(Marking::from).collect(),
                scheduling: self.scheduling.scheduling()?,
                cut_through: self.cut_through,
                telemetry_unit: narrow("the telemetry unit", self.telemetry_unit)?,
                pint_base: self.pint_base,
            },
            arithmetic: one_of("arithmetic", &self.arithmetic, arithmetics)?,
        };
        model.checked().map_err(value_error)
    }
}

impl From<MarkingSpec> for Marking {
    fn from(spec: MarkingSpec) -> Self {
        Self {
            rate: Rate::from_bps(spec.rate_bps),
            minimum: Bytes::new(spec.minimum_bytes),
            maximum: Bytes::new(spec.maximum_bytes),
            probability: spec.probability,
        }
    }
}

impl HeadroomSpec {
    fn headroom(self) -> PyResult<Headroom> {
        let rules = [("computed", Headroom::Computed), ("three-delays", Headroom::ThreeDelays)];
        match self {
            Self::Bytes(bytes) => Ok(Headroom::Fixed(Bytes::new(bytes))),
            Self::Rule(rule) => one_of("headroom", &rule, rules),
        }
    }
}

impl SchedulingSpec {
    fn scheduling(self) -> PyResult<Scheduling> {
        let rules = [("round-robin", Scheduling::RoundRobin), ("strict", Scheduling::Strict)];
        match self {
            Self::Weights(weights) => Ok(Scheduling::Weighted(weights)),
            Self::Rule(rule) => one_of("scheduling", &rule, rules),
        }
    }
}

impl FlowColumns {
    fn specs(&self, windows: &[WindowRule]) -> PyResult<Vec<FlowSpec>> {
        let mut from_node = integers(&self.from_node);
        let mut to_node = integers(&self.to_node);
        let mut forward_label = integers(&self.forward_label);
        let mut reverse_label = integers(&self.reverse_label);
        let mut priority = integers(&self.priority);
        let mut policy = integers(&self.policy);
        let mut window = integers(&self.window);
        let row = || {
            Some(FlowRow {
                from_node: from_node.next()?,
                to_node: to_node.next()?,
                forward_label: forward_label.next()?,
                reverse_label: reverse_label.next()?,
                priority: priority.next()?,
                policy: policy.next()?,
                window: window.next()?,
            })
        };
        std::iter::from_fn(row).map(|row| row.spec(windows)).collect()
    }
}

/// One row of [`FlowColumns`].
struct FlowRow {
    from_node: u64,
    to_node: u64,
    forward_label: u64,
    reverse_label: u64,
    priority: u64,
    policy: u64,
    window: u64,
}

impl FlowRow {
    fn spec(&self, windows: &[WindowRule]) -> PyResult<FlowSpec> {
        Ok(FlowSpec {
            from: NodeId::new(narrow("a node", self.from_node)?),
            to: NodeId::new(narrow("a node", self.to_node)?),
            labels: (self.forward_label, self.reverse_label),
            priority: narrow("a priority", self.priority)?,
            policy: self.policy as usize,
            window: windows[self.window as usize],
            path: PathChoice::Ecmp,
        })
    }
}

impl MessageColumns {
    fn specs(&self) -> Vec<MessageSpec> {
        let rows = integers(&self.flow).zip(integers(&self.bytes)).zip(integers(&self.start_ps));
        let spec = |((flow, bytes), start_ps): ((u64, u64), u64)| MessageSpec {
            flow: flow as usize,
            bytes,
            start: Time::from_ps(start_ps),
        };
        rows.map(spec).collect()
    }
}

fn integers(buffer: &[u8]) -> impl Iterator<Item = u64> {
    let (words, _) = buffer.as_chunks();
    words.iter().map(|&word| u64::from_le_bytes(word))
}
