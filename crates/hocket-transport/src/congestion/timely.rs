//! TIMELY (Mittal et al., SIGCOMM'15): the rate follows the gradient of round-trip times, between two
//! thresholds. One update per round trip, as HPCC's simulator (SIGCOMM'19) has it.

use hocket_des::{Duration, Rate};

use super::{Ack, ParameterError, Path};
use super::{
    recommended_min_rate, require, require_fraction, require_positive, require_rate, step, times,
};

const POLICY: &str = "timely";

// TIMELY section 4.3: after five gains in a row the flow is far from its share, and gains in larger steps.
const GAINS_BEFORE_HYPER: u8 = 5;

/// What governs a TIMELY sender.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters {
    /// Weight of the newest difference of round-trip times in their moving average. The paper calls it α.
    pub gain: f64,
    /// β: how strongly gradient and excess over `high` cut.
    pub decrease: f64,
    /// T_low: round trips shorter than this always gain rate.
    pub low: Duration,
    /// T_high: round trips longer than this always cut.
    pub high: Duration,
    /// What differences of round-trip times are measured against: D_minRTT.
    pub min_rtt: Duration,
    /// δ: what the rate gains per round trip.
    pub additive_increase: Rate,
    /// What it gains instead after five gains in a row.
    pub hyper_increase: Rate,
    /// No cut goes below.
    pub min_rate: Rate,
}

impl Parameters {
    /// HPCC's simulator as its scripts set it for a NIC of this rate: weight 0.875, β 0.8, T_low 50 µs, T_high 500 µs,
    /// D_minRTT 20 µs; gains of 100 and 500 Mb/s per 100 Gb/s; at least 1 Gb/s.
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

    /// Whether these make sense for a NIC of `line_rate`.
    ///
    /// # Errors
    /// The first parameter out of its range.
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
    // The next update is made by the acknowledgement that passes this; 0 before the first.
    mark: u64,
    last_rtt_ps: u64,
    // Moving average of the differences between successive round-trip times.
    difference_ps: f64,
    cuts: u32,
    gains: u8,
}

impl Timely {
    pub(super) fn new(path: &Path) -> Self {
        Self {
            rate: path.line_rate.as_bps(),
            mark: 0,
            last_rtt_ps: 0,
            difference_ps: 0.0,
            cuts: 0,
            gains: 0,
        }
    }

    /// The present rate in bits per second.
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
        let rtt_ps = ack.now.since(ack.stamp).as_ps();
        if self.mark > 0 {
            self.update(parameters, path, rtt_ps);
        }
        self.mark = ack.sent;
        self.last_rtt_ps = rtt_ps;
    }

    fn update(&mut self, parameters: &Parameters, path: &Path, rtt_ps: u64) {
        let difference = rtt_ps as f64 - self.last_rtt_ps as f64;
        self.difference_ps =
            (1.0 - parameters.gain) * self.difference_ps + parameters.gain * difference;
        let gradient = self.difference_ps / parameters.min_rtt.as_ps() as f64;
        let high = parameters.high.as_ps();
        if rtt_ps < parameters.low.as_ps() {
            self.gain(parameters, path);
        } else if rtt_ps > high {
            let excess = 1.0 - high as f64 / rtt_ps as f64;
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
