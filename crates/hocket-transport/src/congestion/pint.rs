//! HPCC over PINT (Ben Basat et al., SIGCOMM'20): each switch averages its own load, and a packet carries one number of a
//! byte or two, the largest load on its path. The number is a logarithm, rounded up or down at random so that the mean is
//! unbiased.

use hocket_des::{Duration, Rate, Time};

use super::hpcc::{self, RateState};
use super::limits::{ParameterError, require};
use super::signals::{Ack, Path};

const POLICY: &str = "hpcc-pint";

/// Utilisations are encoded in steps of 1/512, which is also the smallest value.
const STEPS: f64 = 512.0;

/// Parameters of HPCC over PINT.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters {
    /// Parameters of HPCC's reaction to the utilisation.
    pub hpcc: hpcc::Parameters,
    /// Base of the logarithm in the header: successive codes differ by this factor.
    pub log_base: f64,
}

impl Parameters {
    /// The settings of HPCC's simulator in its scripts, for a NIC of this rate, with base 1.05.
    pub fn recommended(line_rate: Rate) -> Self {
        Self { hpcc: hpcc::Parameters::recommended(line_rate), log_base: 1.05 }
    }

    /// Checks the parameters for a NIC of `line_rate`.
    ///
    /// # Errors
    /// The first parameter that is out of its range.
    pub fn validate(&self, line_rate: Rate) -> Result<(), ParameterError> {
        self.hpcc.validate_for(POLICY, line_rate)?;
        require(
            self.log_base >= 1.001 && self.log_base <= 2.0,
            POLICY,
            "log_base",
            &self.log_base,
            &"from 1.001 to 2",
        )
    }
}

/// State of one flow.
#[derive(Clone, Debug, PartialEq)]
pub struct Pint {
    rate_state: RateState,
}

impl Pint {
    pub(super) fn new(path: &Path) -> Self {
        Self { rate_state: RateState::new(path) }
    }

    /// The current rate in bits per second.
    #[inline]
    pub fn rate_bps(&self) -> u64 {
        self.rate_state.rate_bps()
    }

    /// How often an acknowledgement lowered the rate.
    pub fn cuts(&self) -> u64 {
        self.rate_state.cuts()
    }

    pub(super) fn on_ack(&mut self, parameters: &Parameters, path: &Path, ack: &Ack<'_>) {
        if self.rate_state.begin(ack) || !self.rate_state.uses(&parameters.hpcc, ack) {
            return;
        }
        let utilisation = decode(ack.load, parameters.log_base);
        self.rate_state.update(&parameters.hpcc, path, ack, utilisation);
    }
}

/// The exponent that encodes `utilisation` in a packet. The utilisation is rounded up to a multiple of 1/512, at least 1/512.
/// Of the two powers of `log_base` around that number of 512ths, `draw`, uniform in [0, 1), picks one such that the mean of
/// the decoded value is right. A header keeps the largest exponent on its path.
pub fn encode(utilisation: f64, log_base: f64, draw: f64) -> u16 {
    let value = (utilisation * STEPS).ceil().max(1.0);
    let lower = value.log(log_base).floor();
    let low = log_base.powi(lower as i32);
    let above = (value - low) / (low * (log_base - 1.0));
    lower as u16 + u16::from(draw < above)
}

/// The utilisation that `exponent` encodes.
#[inline]
pub fn decode(exponent: u16, log_base: f64) -> f64 {
    log_base.powi(i32::from(exponent)) / STEPS
}

/// A switch port's moving average of its own load, as in PINT's switches.
///
/// Every packet updates time and size of the last packet, but only data packets update the average. As in HPCC's simulator,
/// a packet that is followed by an acknowledgement or a PFC frame is therefore not counted.
#[derive(Clone, Debug, PartialEq)]
pub struct PortLoad {
    utilisation: f64,
    last: Time,
    last_bytes: u64,
}

impl Default for PortLoad {
    fn default() -> Self {
        Self::new()
    }
}

impl PortLoad {
    /// A port that has sent nothing.
    pub fn new() -> Self {
        Self { utilisation: 0.0, last: Time::ZERO, last_bytes: 0 }
    }

    /// Handles a packet of `wire_bytes` that begins to leave the port at `now`, leaving `queue_bytes` behind. `rtt` is T, the
    /// largest base round-trip time of the network. Returns, for data packets, the port's utilisation averaged over T, which
    /// the switch encodes into the packet.
    #[inline]
    pub fn on_departure(
        &mut self,
        now: Time,
        wire_bytes: u64,
        queue_bytes: u64,
        is_data: bool,
        line_rate: Rate,
        rtt: Duration,
    ) -> Option<f64> {
        let average = is_data.then(|| {
            let rtt_ps = rtt.as_ps();
            let elapsed = now.since(self.last).as_ps().min(rtt_ps) as f64 / rtt_ps as f64;
            // Bytes that fill the link for T.
            let full = line_rate.as_bps() as f64 / 8.0 * rtt_ps as f64 * 1e-12;
            self.utilisation = self.utilisation * (1.0 - elapsed)
                + self.last_bytes as f64 / full
                + queue_bytes as f64 * elapsed / full;
            self.utilisation
        });
        self.last = now;
        self.last_bytes = wire_bytes;
        average
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::{LINE, PATH, ack, at_ns, format};
    use super::*;

    const RTT: Duration = Duration::from_ns(2080);

    #[test]
    fn the_mean_of_decoded_utilisations_is_unbiased() {
        let base = 1.05;
        for tenths in 1..30 {
            let utilisation = f64::from(tenths) / 10.0;
            let rounded = (utilisation * 512.0).ceil() / 512.0;
            let draws = 1_000;
            // Draws spread evenly over [0, 1) give the mean to a thousandth of the gap between successive codes.
            let sum: f64 = (0..draws)
                .map(|draw| decode(encode(utilisation, base, f64::from(draw) / 1e3), base))
                .sum();
            let mean = sum / f64::from(draws);
            assert!((mean / rounded - 1.0).abs() < 1e-4, "{utilisation} is decoded as {mean}");
        }
    }

    #[test]
    fn an_idle_link_is_encoded_as_the_smallest_value() {
        assert_eq!(encode(0.0, 1.05, 0.0), 0);
        assert!((decode(0, 1.05) - 1.0 / 512.0).abs() < 1e-15);
    }

    proptest! {
        #[test]
        fn a_decoded_utilisation_is_one_of_the_two_nearest_powers(
            utilisation in 0.002_f64..1_000.0,
            base in 1.01_f64..2.0,
            draw in 0.0_f64..1.0,
        ) {
            let decoded = decode(encode(utilisation, base, draw), base);
            let value = (utilisation * 512.0).ceil() / 512.0;
            prop_assert!(decoded < value * base * (1.0 + 1e-9));
            prop_assert!(decoded > value / base * (1.0 - 1e-9));
        }
    }

    #[test]
    fn the_load_of_a_busy_port_converges_to_one() {
        let mut load = PortLoad::new();
        let mut average = 0.0;
        // 1,000 bytes every 40 ns at 200 Gb/s.
        for packet in 1..1_000 {
            let now = at_ns(packet * 40);
            average = load.on_departure(now, 1_000, 0, true, LINE, RTT).expect("a data packet");
        }
        assert!((average - 1.0).abs() < 1e-6, "{average}");
    }

    #[test]
    fn a_queue_of_one_window_adds_one() {
        let mut load = PortLoad::new();
        let mut average = 0.0;
        for packet in 1..1_000 {
            let now = at_ns(packet * 40);
            average =
                load.on_departure(now, 1_000, 52_000, true, LINE, RTT).expect("a data packet");
        }
        assert!((average - 2.0).abs() < 1e-6, "{average}");
    }

    #[test]
    fn an_acknowledgement_updates_time_and_size_but_not_the_average() {
        let mut load = PortLoad::new();
        // After T or more, nothing of the old average is left: only the previous packet counts.
        assert_eq!(load.on_departure(at_ns(9_000), 1_000, 0, true, LINE, RTT), Some(0.0));
        assert_eq!(load.on_departure(at_ns(18_000), 48, 0, false, LINE, RTT), None);
        let average = load.on_departure(at_ns(27_000), 1_000, 0, true, LINE, RTT).expect("data");
        assert!((average - 48.0 / 52_000.0).abs() < 1e-15, "{average}");
    }

    #[test]
    fn the_sender_uses_the_decoded_utilisation_without_averaging() {
        let parameters = Parameters::recommended(LINE);
        let format = format();
        let mut state = Pint::new(&PATH);
        let load = encode(1.9, 1.05, 0.5);
        state.on_ack(&parameters, &PATH, &Ack { load, ..ack(&format, 1_000, 52_000) });
        assert_eq!(state.rate_bps(), LINE.as_bps());
        for acknowledged in [2_000, 3_000] {
            let ack = Ack { load, ..ack(&format, acknowledged, 53_000) };
            state.on_ack(&parameters, &PATH, &ack);
            let utilisation = decode(load, 1.05);
            assert_eq!(state.rate_bps(), (200e9 / (utilisation / 0.95)) as u64 + 80_000_000);
        }
    }
}
