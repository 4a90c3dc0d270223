//! TIMELY (Mittal et al., SIGCOMM'15): the rate follows the gradient of round-trip times between two thresholds. There is one
//! update per round trip, as in HPCC's simulator (SIGCOMM'19).

use hocket_des::{Duration, Rate};

use super::limits::{ParameterError, require, require_fraction, require_positive, require_rate};
use super::rates::{recommended_min_rate, step, times};
use super::signals::{Ack, Path};

const POLICY: &str = "timely";

// TIMELY section 4.3: after five increases in a row the flow is far below its share, and its rate rises in larger steps.
const GAINS_BEFORE_HYPER: u8 = 5;

/// Parameters of TIMELY.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters {
    /// α: the weight of the newest difference between round-trip times in their moving average.
    pub gain: f64,
    /// β: the strength of cuts, relative to the gradient or the excess over `high`.
    pub decrease: f64,
    /// T_low: round trips shorter than this always increase the rate.
    pub low: Duration,
    /// T_high: round trips longer than this always cut the rate.
    pub high: Duration,
    /// D_minRTT: the unit in which differences between round-trip times are measured.
    pub min_rtt: Duration,
    /// δ: increase of the rate per round trip.
    pub additive_increase: Rate,
    /// Increase of the rate after five increases in a row.
    pub hyper_increase: Rate,
    /// The minimum rate after a cut.
    pub min_rate: Rate,
}

impl Parameters {
    /// The settings of HPCC's simulator in its scripts, for a NIC of this rate: α 0.875, β 0.8, T_low 50 µs, T_high 500 µs,
    /// D_minRTT 20 µs; increases of 100 and 500 Mb/s per 100 Gb/s; at least 1 Gb/s.
    pub fn recommended(line_rate: Rate) -> Self {
        Self {
            gain: 0.875,
            decrease: 0.8,
            low: Duration::from_us(50),
            high: Duration::from_us(500),
            min_rtt: Duration::from_us(20),
            additive_increase: step(line_rate, 1_000_000),
            hyper_increase: step(line_rate, 5_000_000),
            min_rate: recommended_min_rate(line_rate),
        }
    }

    /// Checks the parameters for a NIC of `line_rate`.
    ///
    /// # Errors
    /// The first parameter that is out of its range.
    pub fn validate(&self, line_rate: Rate) -> Result<(), ParameterError> {
        require_fraction(POLICY, "gain", self.gain)?;
        require_fraction(POLICY, "decrease", self.decrease)?;
        require(
            self.low < self.high,
            POLICY,
            "low",
            &self.low,
            &format_args!("below high, {}", self.high),
        )?;
        require_positive(POLICY, "min_rtt", self.min_rtt)?;
        require_rate(POLICY, "additive_increase", self.additive_increase, line_rate)?;
        require_rate(POLICY, "hyper_increase", self.hyper_increase, line_rate)?;
        require_rate(POLICY, "min_rate", self.min_rate, line_rate)
    }
}

/// State of one flow.
#[derive(Clone, Debug, PartialEq)]
pub struct Timely {
    rate: u64,
    // The first acknowledgement beyond this makes the next update; 0 before the first.
    mark: u64,
    last_rtt: Duration,
    // Moving average of the differences between successive round-trip times.
    difference_ns: f64,
    cuts: u32,
    gains: u8,
}

impl Timely {
    pub(super) fn new(path: &Path) -> Self {
        Self {
            rate: path.line_rate.as_bps(),
            mark: 0,
            last_rtt: Duration::ZERO,
            difference_ns: 0.0,
            cuts: 0,
            gains: 0,
        }
    }

    /// The current rate in bits per second.
    #[inline]
    pub fn rate_bps(&self) -> u64 {
        self.rate
    }

    /// How often the rate was cut.
    pub fn cuts(&self) -> u64 {
        u64::from(self.cuts)
    }

    #[inline]
    pub(super) fn on_ack(&mut self, parameters: &Parameters, path: &Path, ack: &Ack<'_>) {
        if ack.acknowledged <= self.mark {
            return;
        }
        let rtt = ack.now.since(ack.stamp);
        if self.mark > 0 {
            self.update(parameters, path, rtt);
        }
        self.mark = ack.sent;
        self.last_rtt = rtt;
    }

    fn update(&mut self, parameters: &Parameters, path: &Path, rtt: Duration) {
        let difference = ns(rtt) - ns(self.last_rtt);
        self.difference_ns =
            (1.0 - parameters.gain) * self.difference_ns + parameters.gain * difference;
        let gradient = self.difference_ns / ns(parameters.min_rtt);
        if rtt < parameters.low {
            self.gain(parameters, path);
        } else if rtt > parameters.high {
            let excess = 1.0 - ns(parameters.high) / ns(rtt);
            self.cut(parameters, 1.0 - parameters.decrease * excess);
        } else if gradient <= 0.0 {
            self.gain(parameters, path);
        } else {
            self.cut(parameters, (1.0 - parameters.decrease * gradient).max(0.0));
        }
    }

    fn gain(&mut self, parameters: &Parameters, path: &Path) {
        let gain = if self.gains < GAINS_BEFORE_HYPER {
            parameters.additive_increase
        } else {
            parameters.hyper_increase
        };
        self.rate = self.rate.saturating_add(gain.as_bps()).min(path.line_rate.as_bps());
        self.gains = self.gains.saturating_add(1);
    }

    fn cut(&mut self, parameters: &Parameters, kept: f64) {
        self.rate = times(self.rate, kept).max(parameters.min_rate.as_bps());
        self.gains = 0;
        self.cuts += 1;
    }
}

// Whole nanoseconds are represented exactly, so the results equal those of simulators with nanosecond clocks.
fn ns(span: Duration) -> f64 {
    span.as_ps() as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::super::tests::{LINE, PATH, ack, at_ns, format};
    use super::*;

    const GBPS: u64 = 1_000_000_000;

    /// A flow after round trips of these durations in microseconds, with a window of one packet.
    fn after(rtts_us: &[u64]) -> Timely {
        let parameters = Parameters::recommended(LINE);
        let format = format();
        let mut state = Timely::new(&PATH);
        let (mut now, mut acknowledged) = (0, 0);
        for rtt in rtts_us {
            let stamp = at_ns(now * 1_000);
            now += rtt;
            acknowledged += 1_000;
            let ack = ack(&format, acknowledged, acknowledged);
            state.on_ack(&parameters, &PATH, &Ack { now: at_ns(now * 1_000), stamp, ..ack });
        }
        state
    }

    #[test]
    fn the_first_round_trip_is_only_recorded() {
        assert_eq!(after(&[5_000]).rate_bps(), LINE.as_bps());
    }

    #[test]
    fn above_the_high_threshold_the_excess_determines_the_cut() {
        // 1 − 0.8 (1 − 500/1000) = 0.6.
        let state = after(&[1_000, 1_000]);
        assert_eq!((state.rate_bps(), state.cuts()), (120 * GBPS, 1));
    }

    #[test]
    fn between_the_thresholds_the_gradient_determines_the_cut() {
        // 0.875 × 10 µs ÷ 20 µs = 0.4375; in binary, 1 − 0.8 × 0.4375 is slightly less than 0.65.
        let cut = 130 * GBPS - 1;
        assert_eq!(after(&[100, 110]).rate_bps(), cut);
        // The average falls to 0.125 × 8.75 µs − 0.875 × 10 µs < 0: one increase of 200 Mb/s.
        assert_eq!(after(&[100, 110, 100]).rate_bps(), cut + GBPS / 5);
    }

    #[test]
    fn a_gradient_above_one_cuts_to_the_minimum_rate() {
        assert_eq!(after(&[100, 200]).rate_bps(), GBPS);
    }

    #[test]
    fn after_five_increases_in_a_row_increases_are_larger() {
        let mut rtts = vec![100, 200];
        rtts.extend([10; 5]);
        assert_eq!(after(&rtts).rate_bps(), 2 * GBPS);
        rtts.extend([10; 3]);
        assert_eq!(after(&rtts).rate_bps(), 5 * GBPS);
        // A cut resets the count: the next increase is 0.2 Gb/s again.
        rtts.extend([900, 10]);
        let expected = (5e9 * (1.0 - 0.8 * (1.0 - 500.0 / 900.0))) as u64 + GBPS / 5;
        assert_eq!(after(&rtts).rate_bps(), expected);
    }

    #[test]
    fn an_acknowledgement_within_a_round_trip_changes_nothing() {
        let parameters = Parameters::recommended(LINE);
        let format = format();
        let mut state = Timely::new(&PATH);
        let late =
            |acknowledged, sent| Ack { now: at_ns(900_000), ..ack(&format, acknowledged, sent) };
        state.on_ack(&parameters, &PATH, &late(1_000, 5_000));
        state.on_ack(&parameters, &PATH, &late(5_000, 9_000));
        assert_eq!(state.rate_bps(), LINE.as_bps());
        state.on_ack(&parameters, &PATH, &late(6_000, 10_000));
        assert_eq!(state.cuts(), 1);
    }
}
