//! Congestion controls as dictionaries of plain values: their parameters from Python to the engines, and presets from
//! the engines to Python.

use hocket_des::{Duration, Rate};
use hocket_packetsim::WindowRule;
use hocket_transport::Policy;
use hocket_transport::congestion::{
    dcqcn, dctcp, hpcc, pint, receiver_driven, static_window, timely,
};
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict};

use crate::choices::one_of;
use crate::convert::narrow;

#[derive(FromPyObject, IntoPyObject)]
#[pyo3(from_item_all)]
struct DcqcnSpec {
    increase_timer_ps: u64,
    byte_counter: Option<u64>,
    fast_recovery_steps: u64,
    additive_increase_bps: u64,
    hyper_increase_bps: u64,
    gain: f64,
    alpha_timer_ps: u64,
    initial_alpha: f64,
    /// Time between checks; `None` cuts at each notification.
    cut_check_ps: Option<u64>,
    cut_divisor: f64,
    least_kept: f64,
    clamp_target_rate: bool,
    clamp_target_after_timer: bool,
    min_rate_bps: u64,
    rate_on_first_cnp_bps: Option<u64>,
    adaptive: bool,
}

#[derive(FromPyObject, IntoPyObject)]
#[pyo3(from_item_all)]
struct DctcpSpec {
    gain: f64,
    additive_increase_bps: u64,
    min_rate_bps: u64,
}

#[derive(FromPyObject, IntoPyObject)]
#[pyo3(from_item_all)]
struct TimelySpec {
    gain: f64,
    decrease: f64,
    low_ps: u64,
    high_ps: u64,
    min_rtt_ps: u64,
    additive_increase_bps: u64,
    hyper_increase_bps: u64,
    min_rate_bps: u64,
}

#[derive(FromPyObject, IntoPyObject)]
#[pyo3(from_item_all)]
struct HpccSpec {
    target_utilisation: f64,
    max_additive_steps: u64,
    additive_increase_bps: u64,
    min_rate_bps: u64,
    fast_react: bool,
}

/// The congestion controls that a plan can name.
#[derive(Clone, Copy)]
enum Control {
    Dcqcn,
    Dctcp,
    Timely,
    Hpcc,
    HpccPint,
    StaticWindow,
    ReceiverDriven,
    PfcOnly,
}

impl Control {
    fn named(name: &str) -> PyResult<Self> {
        let controls = [
            ("dcqcn", Self::Dcqcn),
            ("dctcp", Self::Dctcp),
            ("timely", Self::Timely),
            ("hpcc", Self::Hpcc),
            ("hpcc-pint", Self::HpccPint),
            ("static-window", Self::StaticWindow),
            ("receiver-driven", Self::ReceiverDriven),
            ("pfc-only", Self::PfcOnly),
        ];
        one_of("policy", name, controls)
    }
}

/// A window rule by its name; the number of bytes matters only to "bytes".
pub(crate) fn window_rule((kind, bytes): &(String, u64)) -> PyResult<WindowRule> {
    let rules = [
        ("unlimited", WindowRule::Unlimited),
        ("path-full", WindowRule::PathFull { scaled: false }),
        ("path-full-scaled", WindowRule::PathFull { scaled: true }),
        ("bytes", WindowRule::Bytes(*bytes)),
    ];
    one_of("window", kind, rules)
}

/// A policy by its name, with all its parameters.
pub(crate) fn policy(plain: &Bound<'_, PyDict>) -> PyResult<Policy> {
    let name: String = plain.as_any().get_item("policy")?.extract()?;
    Ok(match Control::named(&name)? {
        Control::Dcqcn => Policy::Dcqcn(plain.extract::<DcqcnSpec>()?.parameters()?),
        Control::Dctcp => Policy::Dctcp(plain.extract::<DctcpSpec>()?.parameters()),
        Control::Timely => Policy::Timely(plain.extract::<TimelySpec>()?.parameters()),
        Control::Hpcc => Policy::Hpcc(plain.extract::<HpccSpec>()?.parameters()?),
        Control::HpccPint => Policy::Pint(pint::Parameters {
            hpcc: plain.extract::<HpccSpec>()?.parameters()?,
            log_base: plain.as_any().get_item("log_base")?.extract()?,
        }),
        Control::StaticWindow => Policy::StaticWindow(static_window::Parameters {
            window: plain.as_any().get_item("window_bytes")?.extract()?,
        }),
        Control::ReceiverDriven => {
            let number = |key| plain.as_any().get_item(key)?.extract();
            Policy::ReceiverDriven(receiver_driven::Parameters {
                unsolicited: number("unsolicited_bytes")?,
                overcommitment: narrow("overcommitment", number("overcommitment")?)?,
                outstanding: number("outstanding_bytes")?,
            })
        }
        Control::PfcOnly => Policy::PfcOnly,
    })
}

/// The default parameters of a policy for a NIC of `line_rate_bps`, in the form that [`policy`] takes. `path_bytes`,
/// the bytes that fill the path, matter only to receiver-driven credit. DCQCN has several presets, the others only
/// "recommended".
#[pyfunction]
#[pyo3(signature = (policy, preset, line_rate_bps, path_bytes = 0))]
pub(crate) fn congestion_preset<'py>(
    py: Python<'py>,
    policy: &str,
    preset: &str,
    line_rate_bps: u64,
    path_bytes: u64,
) -> PyResult<Bound<'py, PyDict>> {
    let line_rate = Rate::from_bps(line_rate_bps);
    let control = Control::named(policy)?;
    let what = format!("preset of {policy}");
    if !matches!(control, Control::Dcqcn) {
        one_of(&what, preset, [("recommended", ())])?;
    }
    match control {
        Control::Dcqcn => {
            let presets = [
                ("recommended", dcqcn::Parameters::recommended(line_rate)),
                ("mlx5", dcqcn::Parameters::mlx5()),
                ("sigcomm15", dcqcn::Parameters::sigcomm15()),
                // HotNets'22 section 2: 125 µs unless a job is made aggressive.
                ("hotnets22", dcqcn::Parameters::hotnets22(Duration::from_us(125))),
            ];
            DcqcnSpec::from(one_of(&what, preset, presets)?).into_pyobject(py)
        }
        Control::Dctcp => {
            DctcpSpec::from(dctcp::Parameters::recommended(line_rate)).into_pyobject(py)
        }
        Control::Timely => {
            TimelySpec::from(timely::Parameters::recommended(line_rate)).into_pyobject(py)
        }
        Control::Hpcc => HpccSpec::from(hpcc::Parameters::recommended(line_rate)).into_pyobject(py),
        Control::HpccPint => {
            let pint = pint::Parameters::recommended(line_rate);
            let plain = HpccSpec::from(pint.hpcc).into_pyobject(py)?;
            plain.set_item("log_base", pint.log_base)?;
            Ok(plain)
        }
        // Without a given window, the engine derives it from the pattern of flows.
        Control::StaticWindow => [("window_bytes", None::<u64>)].into_py_dict(py),
        Control::ReceiverDriven => {
            let parameters = receiver_driven::Parameters::recommended(path_bytes);
            let named = [
                ("unsolicited_bytes", parameters.unsolicited),
                ("overcommitment", parameters.overcommitment.into()),
                ("outstanding_bytes", parameters.outstanding),
            ];
            named.into_py_dict(py)
        }
        Control::PfcOnly => Ok(PyDict::new(py)),
    }
}

impl From<dcqcn::Parameters> for DcqcnSpec {
    fn from(parameters: dcqcn::Parameters) -> Self {
        Self {
            increase_timer_ps: parameters.increase_timer.as_ps(),
            byte_counter: parameters.byte_counter,
            fast_recovery_steps: parameters.fast_recovery_steps.into(),
            additive_increase_bps: parameters.additive_increase.as_bps(),
            hyper_increase_bps: parameters.hyper_increase.as_bps(),
            gain: parameters.gain,
            alpha_timer_ps: parameters.alpha_timer.as_ps(),
            initial_alpha: parameters.initial_alpha,
            cut_check_ps: match parameters.cut {
                dcqcn::Cut::AtCnp => None,
                dcqcn::Cut::AtCheck(period) => Some(period.as_ps()),
            },
            cut_divisor: parameters.cut_divisor,
            least_kept: parameters.least_kept,
            clamp_target_rate: parameters.clamp_target_rate,
            clamp_target_after_timer: parameters.clamp_target_after_timer,
            min_rate_bps: parameters.min_rate.as_bps(),
            rate_on_first_cnp_bps: parameters.rate_on_first_cnp.map(Rate::as_bps),
            adaptive: parameters.adaptive,
        }
    }
}

impl DcqcnSpec {
    fn parameters(self) -> PyResult<dcqcn::Parameters> {
        Ok(dcqcn::Parameters {
            increase_timer: Duration::from_ps(self.increase_timer_ps),
            byte_counter: self.byte_counter,
            fast_recovery_steps: narrow("fast_recovery_steps", self.fast_recovery_steps)?,
            additive_increase: Rate::from_bps(self.additive_increase_bps),
            hyper_increase: Rate::from_bps(self.hyper_increase_bps),
            gain: self.gain,
            alpha_timer: Duration::from_ps(self.alpha_timer_ps),
            initial_alpha: self.initial_alpha,
            cut: match self.cut_check_ps {
                None => dcqcn::Cut::AtCnp,
                Some(period_ps) => dcqcn::Cut::AtCheck(Duration::from_ps(period_ps)),
            },
            cut_divisor: self.cut_divisor,
            least_kept: self.least_kept,
            clamp_target_rate: self.clamp_target_rate,
            clamp_target_after_timer: self.clamp_target_after_timer,
            min_rate: Rate::from_bps(self.min_rate_bps),
            rate_on_first_cnp: self.rate_on_first_cnp_bps.map(Rate::from_bps),
            adaptive: self.adaptive,
        })
    }
}

impl From<dctcp::Parameters> for DctcpSpec {
    fn from(parameters: dctcp::Parameters) -> Self {
        Self {
            gain: parameters.gain,
            additive_increase_bps: parameters.additive_increase.as_bps(),
            min_rate_bps: parameters.min_rate.as_bps(),
        }
    }
}

impl DctcpSpec {
    fn parameters(self) -> dctcp::Parameters {
        dctcp::Parameters {
            gain: self.gain,
            additive_increase: Rate::from_bps(self.additive_increase_bps),
            min_rate: Rate::from_bps(self.min_rate_bps),
        }
    }
}

impl From<timely::Parameters> for TimelySpec {
    fn from(parameters: timely::Parameters) -> Self {
        Self {
            gain: parameters.gain,
            decrease: parameters.decrease,
            low_ps: parameters.low.as_ps(),
            high_ps: parameters.high.as_ps(),
            min_rtt_ps: parameters.min_rtt.as_ps(),
            additive_increase_bps: parameters.additive_increase.as_bps(),
            hyper_increase_bps: parameters.hyper_increase.as_bps(),
            min_rate_bps: parameters.min_rate.as_bps(),
        }
    }
}

impl TimelySpec {
    fn parameters(self) -> timely::Parameters {
        timely::Parameters {
            gain: self.gain,
            decrease: self.decrease,
            low: Duration::from_ps(self.low_ps),
            high: Duration::from_ps(self.high_ps),
            min_rtt: Duration::from_ps(self.min_rtt_ps),
            additive_increase: Rate::from_bps(self.additive_increase_bps),
            hyper_increase: Rate::from_bps(self.hyper_increase_bps),
            min_rate: Rate::from_bps(self.min_rate_bps),
        }
    }
}

impl From<hpcc::Parameters> for HpccSpec {
    fn from(parameters: hpcc::Parameters) -> Self {
        Self {
            target_utilisation: parameters.target_utilisation,
            max_additive_steps: parameters.max_additive_steps.into(),
            additive_increase_bps: parameters.additive_increase.as_bps(),
            min_rate_bps: parameters.min_rate.as_bps(),
            fast_react: parameters.fast_react,
        }
    }
}

impl HpccSpec {
    fn parameters(self) -> PyResult<hpcc::Parameters> {
        Ok(hpcc::Parameters {
            target_utilisation: self.target_utilisation,
            max_additive_steps: narrow("max_additive_steps", self.max_additive_steps)?,
            additive_increase: Rate::from_bps(self.additive_increase_bps),
            min_rate: Rate::from_bps(self.min_rate_bps),
            fast_react: self.fast_react,
        })
    }
}
