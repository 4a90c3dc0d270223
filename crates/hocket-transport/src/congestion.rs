//! Congestion controls: each computes the rate of one flow from the feedback of the network.
//!
//! Controls schedule no timers. [`Control::catch_up`] evaluates them lazily: it does what they would have done by now, so
//! that an idle or paused flow costs nothing. Rates are whole bits per second: every product and quotient is rounded down
//! before it is used again.

use hocket_des::{Rate, Time};

pub mod dcqcn;
pub mod dctcp;
pub mod hpcc;
mod limits;
pub mod pint;
mod rates;
pub mod receiver_driven;
mod signals;
pub mod static_window;
pub mod timely;

pub use limits::ParameterError;
pub use signals::{Ack, Path, PhaseProgress};

/// A congestion control and its parameters, shared by all flows of a job.
#[derive(Clone, Debug, PartialEq)]
pub enum Policy {
    /// Line rate; only PAUSE frames stop a flow.
    PfcOnly,
    /// DCQCN (SIGCOMM'15), adaptively unfair if its parameters say so (HotNets'22 section 4(i)).
    Dcqcn(dcqcn::Parameters),
    /// DCTCP (SIGCOMM'10), as a rate (HPCC's simulator).
    Dctcp(dctcp::Parameters),
    /// TIMELY (SIGCOMM'15).
    Timely(timely::Parameters),
    /// HPCC (SIGCOMM'19).
    Hpcc(hpcc::Parameters),
    /// HPCC over PINT (SIGCOMM'20).
    Pint(pint::Parameters),
    /// Line rate within a window that is set once from the known traffic pattern (HOTI'22 section VI).
    StaticWindow(static_window::Parameters),
    /// Line rate, limited by credit that the receiver grants.
    ReceiverDriven(receiver_driven::Parameters),
}

impl Policy {
    /// Checks the parameters for a flow on a NIC of `line_rate`.
    ///
    /// # Errors
    /// The first parameter that is out of its range.
    pub fn validate(&self, line_rate: Rate) -> Result<(), ParameterError> {
        match self {
            Self::PfcOnly => Ok(()),
            Self::Dcqcn(parameters) => parameters.validate(line_rate),
            Self::Dctcp(parameters) => parameters.validate(line_rate),
            Self::Timely(parameters) => parameters.validate(line_rate),
            Self::Hpcc(parameters) => parameters.validate(line_rate),
            Self::Pint(parameters) => parameters.validate(line_rate),
            Self::StaticWindow(parameters) => parameters.validate(),
            Self::ReceiverDriven(parameters) => parameters.validate(),
        }
    }
}

/// The congestion state of one flow under its [`Policy`].
///
/// Every method must be given the policy and path with which the control was created.
#[derive(Clone, Debug)]
pub enum Control {
    /// Line rate, in bits per second.
    PfcOnly(u64),
    /// DCQCN.
    Dcqcn(dcqcn::Dcqcn),
    /// DCTCP.
    Dctcp(dctcp::Dctcp),
    /// TIMELY.
    Timely(timely::Timely),
    /// HPCC.
    Hpcc(hpcc::Hpcc),
    /// HPCC over PINT.
    Pint(pint::Pint),
    /// Line rate, in bits per second.
    StaticWindow(u64),
    /// Line rate, in bits per second; the [`Sender`](crate::Sender) keeps the credit.
    ReceiverDriven(u64),
}

impl Control {
    /// The state of a flow that has sent nothing yet. Every control starts at line rate.
    pub fn new(policy: &Policy, path: &Path) -> Self {
        let line = path.line_rate.as_bps();
        match policy {
            Policy::PfcOnly => Self::PfcOnly(line),
            Policy::Dcqcn(_) => Self::Dcqcn(dcqcn::Dcqcn::new(path)),
            Policy::Dctcp(_) => Self::Dctcp(dctcp::Dctcp::new(path)),
            Policy::Timely(_) => Self::Timely(timely::Timely::new(path)),
            Policy::Hpcc(_) => Self::Hpcc(hpcc::Hpcc::new(path)),
            Policy::Pint(_) => Self::Pint(pint::Pint::new(path)),
            Policy::StaticWindow(_) => Self::StaticWindow(line),
            Policy::ReceiverDriven(_) => Self::ReceiverDriven(line),
        }
    }

    /// The rate that paces the flow, in bits per second.
    #[inline]
    pub fn rate_bps(&self) -> u64 {
        match self {
            Self::PfcOnly(line) | Self::StaticWindow(line) | Self::ReceiverDriven(line) => *line,
            Self::Dcqcn(state) => state.rate_bps(),
            Self::Dctcp(state) => state.rate_bps(),
            Self::Timely(state) => state.rate_bps(),
            Self::Hpcc(state) => state.rate_bps(),
            Self::Pint(state) => state.rate_bps(),
        }
    }

    /// Advances the state to `now`: does what the control's timers would have done since the last call, up to and including
    /// `now`. Only DCQCN has timers; it requires this call before every other one at the same `now`. Its adaptive form reads
    /// `progress`; all others ignore it.
    #[inline]
    pub fn catch_up(&mut self, policy: &Policy, path: &Path, now: Time, progress: PhaseProgress) {
        if let (Self::Dcqcn(state), Policy::Dcqcn(parameters)) = (self, policy) {
            state.catch_up(parameters, path, now, progress);
        }
    }

    /// Handles an acknowledgement. Of its marks only DCTCP takes notice; for DCQCN, call [`Control::on_cnp`].
    #[inline]
    pub fn on_ack(&mut self, policy: &Policy, path: &Path, ack: &Ack<'_>) {
        match (self, policy) {
            (Self::Dctcp(state), Policy::Dctcp(parameters)) => state.on_ack(parameters, path, ack),
            (Self::Timely(state), Policy::Timely(parameters)) => {
                state.on_ack(parameters, path, ack);
            }
            (Self::Hpcc(state), Policy::Hpcc(parameters)) => state.on_ack(parameters, path, ack),
            (Self::Pint(state), Policy::Pint(parameters)) => state.on_ack(parameters, path, ack),
            _ => {}
        }
    }

    /// Handles a congestion notification: a CNP, or a marked acknowledgement where acknowledgements echo marks. Only DCQCN
    /// reacts.
    #[inline]
    pub fn on_cnp(&mut self, policy: &Policy, path: &Path, now: Time) {
        if let (Self::Dcqcn(state), Policy::Dcqcn(parameters)) = (self, policy) {
            state.on_cnp(parameters, path, now);
        }
    }

    /// Handles the transmission of a packet of `wire_bytes`, which only DCQCN's byte counter uses.
    #[inline]
    pub fn on_sent(
        &mut self,
        policy: &Policy,
        path: &Path,
        wire_bytes: u64,
        progress: PhaseProgress,
    ) {
        if let (Self::Dcqcn(state), Policy::Dcqcn(parameters)) = (self, policy) {
            state.on_sent(parameters, path, wire_bytes, progress);
        }
    }

    /// Whether a change of rate also moves the time of the next packet: true for HPCC with or without PINT. With the others,
    /// it affects only the gap after the next packet.
    #[inline]
    pub fn moves_next_send(policy: &Policy) -> bool {
        matches!(policy, Policy::Hpcc(_) | Policy::Pint(_))
    }

    /// How often the control cut its rate.
    pub fn cuts(&self) -> u64 {
        match self {
            Self::PfcOnly(_) | Self::StaticWindow(_) | Self::ReceiverDriven(_) => 0,
            Self::Dcqcn(state) => state.cuts(),
            Self::Dctcp(state) => state.cuts(),
            Self::Timely(state) => state.cuts(),
            Self::Hpcc(state) => state.cuts(),
            Self::Pint(state) => state.cuts(),
        }
    }
}

#[cfg(test)]
mod tests {
    use hocket_des::Duration;

    use super::*;
    use crate::telemetry::Format;

    pub(super) const LINE: Rate = Rate::from_gbps(200);

    /// One switch of 200 Gb/s links with 500 ns each: 2,080 ns, 52,000 bytes.
    pub(super) const PATH: Path =
        Path { line_rate: LINE, base_rtt: Duration::from_ns(2080), window: 52_000 };

    pub(super) fn at_ns(ns: u64) -> Time {
        Time::from_ps(ns * 1_000)
    }

    pub(super) fn format() -> Format {
        Format::new([LINE, Rate::from_gbps(100)], 1).expect("two rates fit")
    }

    pub(super) fn ack(format: &Format, acknowledged: u64, sent: u64) -> Ack<'_> {
        Ack {
            now: Time::ZERO,
            acknowledged,
            sent,
            marked: false,
            stamp: Time::ZERO,
            telemetry: &[],
            format,
            load: 0,
        }
    }

    fn all_recommended() -> Vec<Policy> {
        vec![
            Policy::PfcOnly,
            Policy::Dcqcn(dcqcn::Parameters::recommended(LINE)),
            Policy::Dctcp(dctcp::Parameters::recommended(LINE)),
            Policy::Timely(timely::Parameters::recommended(LINE)),
            Policy::Hpcc(hpcc::Parameters::recommended(LINE)),
            Policy::Pint(pint::Parameters::recommended(LINE)),
            Policy::StaticWindow(static_window::Parameters::default()),
            Policy::ReceiverDriven(receiver_driven::Parameters::recommended(52_000)),
        ]
    }

    #[test]
    fn every_flow_starts_at_line_rate_and_recommended_parameters_are_valid() {
        for policy in all_recommended() {
            assert_eq!(policy.validate(LINE), Ok(()));
            let control = Control::new(&policy, &PATH);
            assert_eq!((control.rate_bps(), control.cuts()), (LINE.as_bps(), 0));
        }
    }

    #[test]
    fn recommended_parameters_are_valid_for_slow_and_fast_nics() {
        for line in [Rate::from_bps(100_000_000), Rate::from_gbps(1), Rate::from_gbps(1600)] {
            for policy in [
                Policy::Dcqcn(dcqcn::Parameters::recommended(line)),
                Policy::Dctcp(dctcp::Parameters::recommended(line)),
                Policy::Timely(timely::Parameters::recommended(line)),
                Policy::Hpcc(hpcc::Parameters::recommended(line)),
                Policy::Pint(pint::Parameters::recommended(line)),
            ] {
                assert_eq!(policy.validate(line), Ok(()), "{policy:?} at {line}");
            }
        }
    }

    #[test]
    fn recommended_parameters_scale_with_the_rate_as_in_hpccs_scripts() {
        let slow = Rate::from_gbps(50);
        let mbps = |rate: Rate| rate.as_bps() / 1_000_000;
        for (line, dcqcn, timely, hpcc) in
            [(slow, (10, 100), (50, 250), 20), (LINE, (40, 400), (200, 1000), 80)]
        {
            let set = dcqcn::Parameters::recommended(line);
            assert_eq!((mbps(set.additive_increase), mbps(set.hyper_increase)), dcqcn);
            let set = timely::Parameters::recommended(line);
            assert_eq!((mbps(set.additive_increase), mbps(set.hyper_increase)), timely);
            assert_eq!(mbps(hpcc::Parameters::recommended(line).additive_increase), hpcc);
            assert_eq!(mbps(dctcp::Parameters::recommended(line).additive_increase), 615);
        }
    }

    #[test]
    fn a_parameter_out_of_range_is_rejected_with_name_value_and_limit() {
        let refusal = |policy: Policy| policy.validate(LINE).expect_err("out of range").to_string();
        let mut set = dcqcn::Parameters::recommended(LINE);
        set.gain = 1.5;
        assert_eq!(
            refusal(Policy::Dcqcn(set)),
            "dcqcn: gain is 1.5; it must be above 0 and at most 1"
        );
        let mut set = dctcp::Parameters::recommended(LINE);
        set.min_rate = Rate::from_gbps(400);
        assert_eq!(
            refusal(Policy::Dctcp(set)),
            "dctcp: min_rate is 400 Gbps; it must be above 0 bps and at most the NIC's rate, 200 Gbps"
        );
        let mut set = timely::Parameters::recommended(LINE);
        set.low = set.high;
        assert_eq!(
            refusal(Policy::Timely(set)),
            "timely: low is 500 us; it must be below high, 500 us"
        );
        let mut set = dcqcn::Parameters::recommended(LINE);
        set.increase_timer = Duration::ZERO;
        assert_eq!(
            refusal(Policy::Dcqcn(set)),
            "dcqcn: increase_timer is 0 ps; it must be above 0 ps"
        );
        let mut set = pint::Parameters::recommended(LINE);
        set.hpcc.target_utilisation = f64::NAN;
        assert_eq!(
            refusal(Policy::Pint(set)),
            "hpcc-pint: target_utilisation is NaN; it must be above 0 and at most 1"
        );
    }

    #[test]
    fn a_flows_state_stays_within_two_cache_lines() {
        assert!(size_of::<Control>() <= 96, "{} bytes", size_of::<Control>());
        assert!(size_of::<dcqcn::Dcqcn>() <= 64, "{} bytes", size_of::<dcqcn::Dcqcn>());
    }
}
