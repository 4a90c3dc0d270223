//! DCTCP (Alizadeh et al., SIGCOMM'10), controlling a rate instead of a window as in HPCC's simulator (SIGCOMM'19). Alpha is
//! a moving average of the fraction of marked acknowledgements, updated once per window of data.

use hocket_des::Rate;

use super::limits::{ParameterError, require_fraction, require_rate};
use super::rates::{recommended_min_rate, times};
use super::signals::{Ack, Path};

const POLICY: &str = "dctcp";

/// Parameters of DCTCP.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters {
    /// g: the weight of one window of data in alpha; 1/16 in SIGCOMM'10 section 3.4.
    pub gain: f64,
    /// Increase of the rate per window of data without a cut.
    pub additive_increase: Rate,
    /// The minimum rate after a cut.
    pub min_rate: Rate,
}

impl Parameters {
    /// The settings of HPCC's simulator in its scripts, for a NIC of this rate: g 1/16, increase 615 Mb/s, at least 1 Gb/s.
    ///
    /// The increase does not scale with the rate: it is one packet of 1,000 bytes per round trip of 13 µs, as in the
    /// scripts' network. It is limited to the line rate.
    pub fn recommended(line_rate: Rate) -> Self {
        Self {
            gain: 1.0 / 16.0,
            additive_increase: Rate::from_bps(615_000_000).min(line_rate),
            min_rate: recommended_min_rate(line_rate),
        }
    }

    /// Checks the parameters for a NIC of `line_rate`.
    ///
    /// # Errors
    /// The first parameter that is out of its range.
    pub fn validate(&self, line_rate: Rate) -> Result<(), ParameterError> {
        require_fraction(POLICY, "gain", self.gain)?;
        require_rate(POLICY, "additive_increase", self.additive_increase, line_rate)?;
        require_rate(POLICY, "min_rate", self.min_rate, line_rate)
    }
}

/// State of one flow.
#[derive(Clone, Debug, PartialEq)]
pub struct Dctcp {
    rate: u64,
    alpha: f64,
    // Where the window whose marks are being counted ends; 0 before the first acknowledgement.
    window_end: u64,
    // While `reduced`, there is no further cut until an acknowledgement exceeds this.
    reduced_until: u64,
    acks: u32,
    marks: u32,
    cuts: u32,
    reduced: bool,
}

impl Dctcp {
    pub(super) fn new(path: &Path) -> Self {
        Self {
            rate: path.line_rate.as_bps(),
            // RFC 8257 section 3.3 starts from alpha = 1, so that the first mark halves the rate.
            alpha: 1.0,
            window_end: 0,
            reduced_until: 0,
            acks: 0,
            marks: 0,
            cuts: 0,
            reduced: false,
        }
    }

    /// The current rate in bits per second.
    #[inline]
    pub fn rate_bps(&self) -> u64 {
        self.rate
    }

    /// The moving average of the marked fraction.
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    /// How often the rate was cut.
    pub fn cuts(&self) -> u64 {
        u64::from(self.cuts)
    }

    pub(super) fn on_ack(&mut self, parameters: &Parameters, path: &Path, ack: &Ack<'_>) {
        self.acks += 1;
        self.marks += u32::from(ack.marked);
        let window_over = ack.acknowledged > self.window_end;
        if window_over {
            self.end_window(parameters, ack);
        }
        if self.reduced && ack.acknowledged > self.reduced_until {
            self.reduced = false;
        }
        if ack.marked && !self.reduced {
            self.rate = times(self.rate, 1.0 - self.alpha / 2.0).max(parameters.min_rate.as_bps());
            self.cuts += 1;
            self.reduced = true;
            self.reduced_until = ack.sent;
        }
        if window_over && !self.reduced {
            self.rate = self
                .rate
                .saturating_add(parameters.additive_increase.as_bps())
                .min(path.line_rate.as_bps());
        }
    }

    // The first acknowledgement only begins a window and counts towards it.
    fn end_window(&mut self, parameters: &Parameters, ack: &Ack<'_>) {
        if self.window_end > 0 {
            let marked = f64::from(self.marks) / f64::from(self.acks);
            self.alpha = (1.0 - parameters.gain) * self.alpha + parameters.gain * marked;
            self.acks = 0;
            self.marks = 0;
        }
        self.window_end = ack.sent;
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{LINE, PATH, ack, format};
    use super::*;

    const PACKET: u64 = 1_000;

    /// The states of a flow with `window` packets in flight, acknowledged one by one, with the given marks.
    fn run(window: u64, marks: impl IntoIterator<Item = bool>) -> Vec<Dctcp> {
        let parameters = Parameters::recommended(LINE);
        let format = format();
        let mut state = Dctcp::new(&PATH);
        marks
            .into_iter()
            .zip(1..)
            .map(|(marked, packet)| {
                let sent = (packet + window - 1) * PACKET;
                let ack = Ack { marked, ..ack(&format, packet * PACKET, sent) };
                state.on_ack(&parameters, &PATH, &ack);
                state.clone()
            })
            .collect()
    }

    #[test]
    fn the_first_mark_halves_the_rate_and_further_marks_of_the_window_are_ignored() {
        let states = run(4, [true, true, true, true, true]);
        assert_eq!(states[0].rate_bps(), 100_000_000_000);
        assert_eq!(states[3].rate_bps(), 100_000_000_000);
        // Packet 5 was sent after the cut. All five packets of the window were marked: alpha stays 1 and the rate is halved
        // again.
        assert_eq!(states[4].rate_bps(), 50_000_000_000);
        assert_eq!(states[4].cuts(), 2);
    }

    #[test]
    fn alpha_follows_the_marked_fraction_of_each_window() {
        // The acknowledgements of the first window are those of packets 1 to 5: four in flight and the one after them.
        let states = run(4, [false, true, false, false, false]);
        let expected = 15.0 / 16.0 + 0.2 / 16.0;
        assert!((states[4].alpha() - expected).abs() < 1e-15);
    }

    #[test]
    fn alpha_converges_to_a_constant_fraction() {
        // Every tenth packet is marked, and windows have ten packets: alpha converges to 1/10 from any initial value.
        let states = run(10, (0..4_000).map(|packet| packet % 10 == 5));
        let alpha = states.last().expect("packets were sent").alpha();
        assert!((alpha - 0.1).abs() < 1e-9, "{alpha}");
    }

    #[test]
    fn without_marks_each_window_increases_the_rate_by_one_step_up_to_line_rate() {
        // One mark, then none. Windows end at packets 1, 5, 9, 13 …; the reduction after the cut ends at packet 6.
        let mut marks = vec![false, true];
        marks.resize(20, false);
        let states = run(4, marks);
        assert_eq!(states[1].rate_bps(), 100_000_000_000);
        assert_eq!(states[7].rate_bps(), 100_000_000_000);
        assert_eq!(states[9].rate_bps(), 100_615_000_000);
        let last = states.last().expect("packets were sent").rate_bps();
        assert_eq!(last, 100_000_000_000 + 3 * 615_000_000);
        assert!(run(4, vec![false; 5_000]).iter().all(|state| state.rate_bps() == LINE.as_bps()));
    }
}
