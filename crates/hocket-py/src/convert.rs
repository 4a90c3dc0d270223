//! Conversions between Python's plain values and the types of the crates; errors become `ValueError`.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use hocket_des::{Duration, Rate};
use hocket_scenario::{
    Cable, Column, Crossing, Fabric, JobFlow, LinkId, Node, NodeId, NodeKind, Phase, Profile,
    Routing, Table, ring_crossings, ring_flows,
};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::choices::one_of;
use crate::error::value_error;

#[derive(FromPyObject, IntoPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct PlainProfile {
    period_ps: u64,
    phases: Vec<PlainPhase>,
}

#[derive(FromPyObject, IntoPyObject)]
#[pyo3(from_item_all)]
struct PlainPhase {
    start_ps: u64,
    duration_ps: u64,
    rate_bps: u64,
}

/// A cable between two nodes.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct PlainCable {
    a: u32,
    b: u32,
    rate_bps: u64,
    delay_ps: u64,
}

/// A flow between two nodes, with the label that ECMP hashes to choose its path.
#[derive(FromPyObject, IntoPyObject)]
#[pyo3(from_item_all)]
struct PlainFlow {
    from_node: u32,
    to_node: u32,
    label: u64,
}

/// A column as a NumPy type and a buffer, which needs no Python object for each value; for text, the buffer has codes
/// into the dictionary.
#[derive(IntoPyObject)]
struct PlainColumn<'a, 'py> {
    dtype: &'static str,
    buffer: Bound<'py, PyBytes>,
    dictionary: Option<&'a [String]>,
}

/// By job: [(link, flows), …]
pub(crate) type PlainCrossings = Vec<(u32, u32)>;

/// `value` in a type of less than 64 bits; `ValueError` with `what` and the limit if it does not fit. PyO3's own
/// overflow error names neither.
pub(crate) fn narrow<T: TryFrom<u64>>(what: &str, value: u64) -> PyResult<T> {
    let limit = (1_u64 << (8 * size_of::<T>())) - 1;
    T::try_from(value)
        .map_err(|_| value_error(format!("{what} is {value}; at most {limit} is possible")))
}

pub(crate) fn profile(plain: PlainProfile) -> PyResult<Profile> {
    let phases = plain.phases.into_iter().map(|phase| Phase {
        start: Duration::from_ps(phase.start_ps),
        duration: Duration::from_ps(phase.duration_ps),
        rate: Rate::from_bps(phase.rate_bps),
    });
    Profile::new(Duration::from_ps(plain.period_ps), phases.collect()).map_err(value_error)
}

pub(crate) fn profiles(plain: Vec<PlainProfile>) -> PyResult<Vec<Profile>> {
    plain.into_iter().map(profile).collect()
}

pub(crate) fn plain_profile(profile: &Profile) -> PlainProfile {
    let phases = profile.phases().iter().map(|phase| PlainPhase {
        start_ps: phase.start.as_ps(),
        duration_ps: phase.duration.as_ps(),
        rate_bps: phase.rate.as_bps(),
    });
    PlainProfile { period_ps: profile.period().as_ps(), phases: phases.collect() }
}

pub(crate) fn in_ps(durations: &[Duration]) -> Vec<u64> {
    durations.iter().map(|duration| duration.as_ps()).collect()
}

pub(crate) fn crossings(plain: PlainCrossings) -> Vec<Crossing> {
    plain.into_iter().map(|(link, flows)| Crossing { link: LinkId::new(link), flows }).collect()
}

/// Nodes and directed links.
#[pyclass(name = "Fabric", frozen, module = "hocket._hocket")]
pub(crate) struct PyFabric {
    pub(crate) fabric: Fabric,
    /// Remembers distances from call to call.
    routing: Mutex<Routing<'static>>,
}

impl PyFabric {
    fn of(fabric: Fabric) -> Self {
        Self { routing: Mutex::new(Routing::owned(fabric.clone())), fabric }
    }

    fn routing(&self) -> MutexGuard<'_, Routing<'static>> {
        self.routing.lock().expect("no search for a route panics")
    }
}

#[pymethods]
impl PyFabric {
    /// Nodes as (name, kind).
    #[new]
    fn new(nodes: Vec<(String, String)>, cables: Vec<PlainCable>) -> PyResult<Self> {
        let nodes: Vec<Node> = nodes.into_iter().map(node).collect::<PyResult<_>>()?;
        let cables = cables.into_iter().map(|cable| Cable {
            a: NodeId::new(cable.a),
            b: NodeId::new(cable.b),
            rate: Rate::from_bps(cable.rate_bps),
            delay: Duration::from_ps(cable.delay_ps),
        });
        let cables: Vec<Cable> = cables.collect();
        Fabric::new(nodes, &cables).map(Self::of).map_err(value_error)
    }

    /// One directed link, number 0.
    #[staticmethod]
    fn one_link(rate_bps: u64) -> PyResult<Self> {
        let rate = Rate::from_bps(rate_bps);
        Fabric::one_link(rate, Duration::ZERO).map(Self::of).map_err(value_error)
    }

    /// (name, rate in bits/s) of every directed link; cable i is links 2i and 2i + 1.
    fn links(&self) -> Vec<(String, u64)> {
        self.fabric.links().iter().map(|link| (link.name.clone(), link.rate.as_bps())).collect()
    }

    /// The links that a ring over `workers` (nodes) crosses, as (link, flows); its flows have labels from `first_label`
    /// on.
    fn ring(&self, workers: Vec<u32>, first_label: u64) -> PyResult<PlainCrossings> {
        let workers: Vec<NodeId> = workers.into_iter().map(NodeId::new).collect();
        let ring =
            ring_crossings(&workers, &mut self.routing(), first_label).map_err(value_error)?;
        Ok(ring.into_iter().map(|crossing| (crossing.link.code(), crossing.flows)).collect())
    }

    /// As [`Self::ring`], with flows in `parts` that are spread evenly over all shortest paths.
    fn spread_ring(&self, workers: Vec<u32>, parts: u32) -> PyResult<PlainCrossings> {
        let workers: Vec<NodeId> = workers.into_iter().map(NodeId::new).collect();
        let mut routing = self.routing();
        let mut by_link = BTreeMap::new();
        for flow in ring_flows(&workers, 0) {
            for (link, parts) in routing.spread(flow.from, flow.to, parts).map_err(value_error)? {
                *by_link.entry(link.code()).or_insert(0) += parts;
            }
        }
        Ok(by_link.into_iter().collect())
    }

    /// The shortest paths of each flow: all that begin with the first link of its route, at most
    /// [`MAX_PATHS`](hocket_scenario::routing::MAX_PATHS).
    fn paths(&self, flows: Vec<PlainFlow>) -> PyResult<Vec<Vec<Vec<u32>>>> {
        let mut routing = self.routing();
        let paths = |flow: PlainFlow| {
            let (from, to) = (NodeId::new(flow.from_node), NodeId::new(flow.to_node));
            let paths = routing.paths(from, to, flow.label).map_err(value_error)?;
            let codes = |path: &Vec<LinkId>| path.iter().map(|link| link.code()).collect();
            Ok(paths.iter().map(codes).collect())
        };
        flows.into_iter().map(paths).collect()
    }

    /// The links from one node to another, as switches choose them for this label.
    fn route(&self, from_node: u32, to_node: u32, label: u64) -> PyResult<Vec<u32>> {
        let route = self
            .routing()
            .route(NodeId::new(from_node), NodeId::new(to_node), label)
            .map_err(value_error)?;
        Ok(route.iter().map(|link| link.code()).collect())
    }

    /// [`Self::route`] of each flow.
    fn routes(&self, flows: Vec<PlainFlow>) -> PyResult<Vec<Vec<u32>>> {
        let mut routing = self.routing();
        let route = |flow: PlainFlow| {
            let (from, to) = (NodeId::new(flow.from_node), NodeId::new(flow.to_node));
            let route = routing.route(from, to, flow.label);
            let route = route.map_err(value_error)?;
            Ok(route.iter().map(|link| link.code()).collect())
        };
        flows.into_iter().map(route).collect()
    }

    /// The flows of a ring over `workers` (nodes), with labels from `first_label` on.
    #[staticmethod]
    fn ring_flows(workers: Vec<u32>, first_label: u64) -> Vec<PlainFlow> {
        let workers: Vec<NodeId> = workers.into_iter().map(NodeId::new).collect();
        let flows = ring_flows(&workers, first_label);
        let plain = |flow: &JobFlow| PlainFlow {
            from_node: flow.from.code(),
            to_node: flow.to.code(),
            label: flow.label,
        };
        flows.iter().map(plain).collect()
    }
}

fn node((name, kind): (String, String)) -> PyResult<Node> {
    let kinds = [
        ("host", NodeKind::Host),
        ("switch", NodeKind::Switch),
        // A switch inside a server.
        ("scale-up", NodeKind::ScaleUp),
    ];
    let kind = one_of(&format!("node {name:?}: kind"), &kind, kinds)?;
    Ok(Node { name, kind })
}

/// The columns of `table` by name.
pub(crate) fn columns<'py>(py: Python<'py>, table: &Table) -> PyResult<Bound<'py, PyDict>> {
    let columns = PyDict::new(py);
    for (name, column) in &table.columns {
        columns.set_item(*name, plain_column(py, column))?;
    }
    Ok(columns)
}

fn plain_column<'a, 'py>(py: Python<'py>, column: &'a Column) -> PlainColumn<'a, 'py> {
    fn bytes<'py, T: Copy, const N: usize>(
        py: Python<'py>,
        values: &[T],
        to_bytes: impl Fn(T) -> [u8; N],
    ) -> Bound<'py, PyBytes> {
        let flat: Vec<u8> = values.iter().flat_map(|value| to_bytes(*value)).collect();
        PyBytes::new(py, &flat)
    }
    // Little-endian on every machine, as the type says, since the buffers may be stored.
    let (dtype, buffer) = match column {
        Column::U64(values) => ("<u8", bytes(py, values, u64::to_le_bytes)),
        Column::I64(values) => ("<i8", bytes(py, values, i64::to_le_bytes)),
        Column::U32(values) => ("<u4", bytes(py, values, u32::to_le_bytes)),
        Column::F64(values) => ("<f8", bytes(py, values, f64::to_le_bytes)),
        Column::Bool(values) => ("|b1", bytes(py, values, |value| [value.into()])),
        Column::MaybeF64(values) => {
            ("<f8", bytes(py, values, |value| value.unwrap_or(f64::NAN).to_le_bytes()))
        }
        Column::Time(values) => ("<f8", bytes(py, values, |at| at.as_secs_f64().to_le_bytes())),
        Column::Str { codes, .. } => ("<u4", bytes(py, codes, u32::to_le_bytes)),
    };
    let dictionary = match column {
        Column::Str { dictionary, .. } => Some(dictionary.as_slice()),
        _ => None,
    };
    PlainColumn { dtype, buffer, dictionary }
}
