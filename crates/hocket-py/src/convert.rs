//! Python's plain values to Hocket's nouns and back; errors to `ValueError`.

use hocket_des::{Duration, Rate};
use hocket_scenario::{
    Cable, Column, Crossing, Fabric, LinkId, Node, NodeId, NodeKind, Phase, Profile, Routing,
    Table, ring_crossings, ring_flows,
};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

/// (period_ps, [(start_ps, duration_ps, rate_bps), …])
pub(crate) type PlainProfile = (u64, Vec<(u64, u64, u64)>);

/// By job: [(link, flows), …]
pub(crate) type PlainCrossings = Vec<(u32, u32)>;

pub(crate) fn value_error(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// `value` in a smaller type; `ValueError` if it does not fit.
pub(crate) fn narrow<T: TryFrom<u64>>(what: &str, value: u64) -> PyResult<T> {
    let limit = (1_u64 << (8 * size_of::<T>())) - 1;
    T::try_from(value)
        .map_err(|_| value_error(format!("{what} is {value}; at most {limit} is possible")))
}

pub(crate) fn profile(plain: PlainProfile) -> PyResult<Profile> {
    let phases = plain.1.into_iter().map(|(start_ps, duration_ps, rate_bps)| Phase {
        start: Duration::from_ps(start_ps),
        duration: Duration::from_ps(duration_ps),
        rate: Rate::from_bps(rate_bps),
    });
    Profile::new(Duration::from_ps(plain.0), phases.collect()).map_err(value_error)
}

pub(crate) fn profiles(plain: Vec<PlainProfile>) -> PyResult<Vec<Profile>> {
    plain.into_iter().map(profile).collect()
}

pub(crate) fn plain_profile(profile: &Profile) -> PlainProfile {
    let phases = profile.phases().iter();
    let plain = phases.map(|p| (p.start.as_ps(), p.duration.as_ps(), p.rate.as_bps()));
    (profile.period().as_ps(), plain.collect())
}

pub(crate) fn in_ps(durations: &[Duration]) -> Vec<u64> {
    durations.iter().map(|duration| duration.as_ps()).collect()
}

pub(crate) fn crossings(plain: PlainCrossings) -> Vec<Crossing> {
    plain.into_iter().map(|(link, flows)| Crossing { link: LinkId::new(link), flows }).collect()
}

/// Nodes and directed links.
#[pyclass(name = "Fabric", frozen, module = "hocket._hocket")]
pub(crate) struct PyFabric(pub(crate) Fabric);

#[pymethods]
impl PyFabric {
    /// Nodes as (name, kind), the kind "host", "switch" or "scale-up" (a switch inside a server); cables as (node, node,
    /// rate in bits/s, delay in ps).
    #[new]
    fn new(nodes: Vec<(String, String)>, cables: Vec<(u32, u32, u64, u64)>) -> PyResult<Self> {
        let node = |(name, kind): (String, String)| {
            let kind = match kind.as_str() {
                "host" => NodeKind::Host,
                "switch" => NodeKind::Switch,
                "scale-up" => NodeKind::ScaleUp,
                other => {
                    return Err(value_error(format!(
                        "node {name:?} is a {other:?}; it must be a \"host\", \"switch\" or \"scale-up\""
                    )));
                }
            };
            Ok(Node { name, kind })
        };
        let nodes: Vec<Node> = nodes.into_iter().map(node).collect::<PyResult<_>>()?;
        let cables = cables.into_iter().map(|(a, b, rate_bps, delay_ps)| Cable {
            a: NodeId::new(a),
            b: NodeId::new(b),
            rate: Rate::from_bps(rate_bps),
            delay: Duration::from_ps(delay_ps),
        });
        let cables: Vec<Cable> = cables.collect();
        Fabric::new(nodes, &cables).map(Self).map_err(value_error)
    }

    /// One directed link, number 0.
    #[staticmethod]
    fn one_link(rate_bps: u64) -> PyResult<Self> {
        let rate = Rate::from_bps(rate_bps);
        Fabric::one_link(rate, Duration::ZERO).map(Self).map_err(value_error)
    }

    /// (name, rate in bits/s) of every directed link; cable i is links 2i and 2i + 1.
    fn links(&self) -> Vec<(String, u64)> {
        self.0.links().iter().map(|link| (link.name.clone(), link.rate.as_bps())).collect()
    }

    /// The links that a ring over `workers` (nodes) crosses, as (link, flows).
    fn ring(&self, workers: Vec<u32>, first_label: u64) -> PyResult<PlainCrossings> {
        let workers: Vec<NodeId> = workers.into_iter().map(NodeId::new).collect();
        let mut routing = Routing::new(&self.0);
        let ring = ring_crossings(&workers, &mut routing, first_label).map_err(value_error)?;
        Ok(ring.into_iter().map(|crossing| (crossing.link.code(), crossing.flows)).collect())
    }

    /// The links from one node to another, as switches choose them for this label.
    fn route(&self, from_node: u32, to_node: u32, label: u64) -> PyResult<Vec<u32>> {
        let mut routing = Routing::new(&self.0);
        let route = routing
            .route(NodeId::new(from_node), NodeId::new(to_node), label)
            .map_err(value_error)?;
        Ok(route.iter().map(|link| link.code()).collect())
    }

    /// [`Self::route`] of each (from, to, label).
    fn routes(&self, flows: Vec<(u32, u32, u64)>) -> PyResult<Vec<Vec<u32>>> {
        let mut routing = Routing::new(&self.0);
        let route = |(from, to, label): (u32, u32, u64)| {
            let route = routing.route(NodeId::new(from), NodeId::new(to), label);
            let route = route.map_err(value_error)?;
            Ok(route.iter().map(|link| link.code()).collect())
        };
        flows.into_iter().map(route).collect()
    }

    /// The flows of a ring over `workers` (nodes) as (from, to, label).
    #[staticmethod]
    fn ring_flows(workers: Vec<u32>, first_label: u64) -> Vec<(u32, u32, u64)> {
        let workers: Vec<NodeId> = workers.into_iter().map(NodeId::new).collect();
        let flows = ring_flows(&workers, first_label);
        flows.iter().map(|flow| (flow.from.code(), flow.to.code(), flow.label)).collect()
    }
}

/// By name: (NumPy type, buffer), or for text (codes as `u4`, buffer, dictionary).
pub(crate) fn columns<'py>(py: Python<'py>, table: &Table) -> PyResult<Bound<'py, PyDict>> {
    let columns = PyDict::new(py);
    for (name, column) in &table.columns {
        columns.set_item(*name, buffer(py, column)?)?;
    }
    Ok(columns)
}

fn buffer<'py>(py: Python<'py>, column: &Column) -> PyResult<Bound<'py, PyAny>> {
    fn bytes<'py, T: Copy, const N: usize>(
        py: Python<'py>,
        values: &[T],
        to_bytes: impl Fn(T) -> [u8; N],
    ) -> Bound<'py, PyBytes> {
        let flat: Vec<u8> = values.iter().flat_map(|value| to_bytes(*value)).collect();
        PyBytes::new(py, &flat)
    }
    match column {
        Column::U64(values) => ("<u8", bytes(py, values, u64::to_le_bytes)).into_bound_py_any(py),
        Column::I64(values) => ("<i8", bytes(py, values, i64::to_le_bytes)).into_bound_py_any(py),
        Column::U32(values) => ("<u4", bytes(py, values, u32::to_le_bytes)).into_bound_py_any(py),
        Column::F64(values) => ("<f8", bytes(py, values, f64::to_le_bytes)).into_bound_py_any(py),
        Column::Str { codes, dictionary } => {
            ("<u4", bytes(py, codes, u32::to_le_bytes), dictionary).into_bound_py_any(py)
        }
    }
}
