//! HPCC (Li et al., SIGCOMM'19, Algorithm 1): switches write their load into every packet, and the sender keeps the bytes in
//! flight on the most utilised link just below what fills it.
//!
//! The window is `Path::window` × rate ÷ line rate; the [`Sender`](crate::Sender) enforces it.

use hocket_des::Rate;

use super::limits::{ParameterError, require_fraction, require_rate};
use super::rates::{recommended_min_rate, step};
use super::signals::{Ack, Path};
use crate::telemetry::{Hop, MAX_HOPS};

const POLICY: &str = "hpcc";

/// Parameters of HPCC.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters {
    /// η: the target utilisation, as a fraction of the bottleneck's rate.
    pub target_utilisation: f64,
    /// maxStage: the number of additive increases below the target before a multiplicative one; 0 for multiplicative
    /// updates only.
    pub max_additive_steps: u8,
    /// W_AI, as a rate: added in every update.
    pub additive_increase: Rate,
    /// The minimum rate.
    pub min_rate: Rate,
    /// Whether every acknowledgement updates the rate, relative to the reference rate of the current round trip as in the
    /// paper, or only one acknowledgement per round trip. In the latter case the telemetry of the others is ignored.
    pub fast_react: bool,
}

impl Parameters {
    /// The settings of HPCC's simulator in its scripts, for a NIC of this rate: η 0.95, multiplicative updates only, W_AI of
    /// 10 Mb/s per 25 Gb/s, at least 1 Gb/s, an update for every acknowledgement. The paper has maxStage 5.
    pub fn recommended(line_rate: Rate) -> Self {
        Self {
            target_utilisation: 0.95,
            max_additive_steps: 0,
            additive_increase: step(line_rate, 400_000),
            min_rate: recommended_min_rate(line_rate),
            fast_react: true,
        }
    }

    /// Checks the parameters for a NIC of `line_rate`.
    ///
    /// # Errors
    /// The first parameter that is out of its range.
    pub fn validate(&self, line_rate: Rate) -> Result<(), ParameterError> {
        self.validate_for(POLICY, line_rate)
    }

    pub(super) fn validate_for(
        &self,
        policy: &'static str,
        line_rate: Rate,
    ) -> Result<(), ParameterError> {
        require_fraction(policy, "target_utilisation", self.target_utilisation)?;
        require_rate(policy, "additive_increase", self.additive_increase, line_rate)?;
        require_rate(policy, "min_rate", self.min_rate, line_rate)
    }
}

/// HPCC's rate and reference rate: the part of the algorithm that is independent of how utilisation is measured.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RateState {
    rate: u64,
    reference: u64,
    // The acknowledgement that passes this replaces the reference; 0 before the first.
    mark: u64,
    cuts: u32,
    additive_steps: u8,
}

impl RateState {
    pub(super) fn new(path: &Path) -> Self {
        let line = path.line_rate.as_bps();
        Self { rate: line, reference: line, mark: 0, cuts: 0, additive_steps: 0 }
    }

    #[inline]
    pub(super) fn rate_bps(&self) -> u64 {
        self.rate
    }

    pub(super) fn cuts(&self) -> u64 {
        u64::from(self.cuts)
    }

    /// Begins the first round trip; true only for the first acknowledgement, which changes no rate.
    #[inline]
    pub(super) fn begin(&mut self, ack: &Ack<'_>) -> bool {
        let first = self.mark == 0;
        if first {
            self.mark = ack.sent;
        }
        first
    }

    /// Whether an acknowledgement updates the rate.
    #[inline]
    pub(super) fn uses(&self, parameters: &Parameters, ack: &Ack<'_>) -> bool {
        parameters.fast_react || ack.acknowledged > self.mark
    }

    /// Updates the rate for a bottleneck of this `utilisation`; 1 is exactly full without a queue.
    #[inline]
    pub(super) fn update(
        &mut self,
        parameters: &Parameters,
        path: &Path,
        ack: &Ack<'_>,
        utilisation: f64,
    ) {
        let excess = utilisation / parameters.target_utilisation;
        let multiplies = excess >= 1.0 || self.additive_steps >= parameters.max_additive_steps;
        let base =
            if multiplies { (self.reference as f64 / excess) as u64 } else { self.reference };
        let rate = base
            .saturating_add(parameters.additive_increase.as_bps())
            .clamp(parameters.min_rate.as_bps(), path.line_rate.as_bps());
        self.cuts += u32::from(rate < self.rate);
        self.rate = rate;
        if ack.acknowledged > self.mark {
            self.reference = rate;
            self.additive_steps = if multiplies { 0 } else { self.additive_steps + 1 };
            self.mark = ack.sent;
        }
    }
}

/// State of one flow.
#[derive(Clone, Debug, PartialEq)]
pub struct Hpcc {
    rate_state: RateState,
    // Moving average of the most utilised hop's utilisation over a base round trip.
    utilisation: f64,
    // The telemetry of the last acknowledgement.
    hops: [Hop; MAX_HOPS],
    hop_count: u8,
}

impl Hpcc {
    pub(super) fn new(path: &Path) -> Self {
        Self {
            rate_state: RateState::new(path),
            utilisation: 1.0,
            hops: [Hop::default(); MAX_HOPS],
            hop_count: 0,
        }
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

    /// The moving average of the most utilised hop's utilisation; 1 is exactly full without a queue.
    pub fn utilisation(&self) -> f64 {
        self.utilisation
    }

    /// # Panics
    /// If more than [`MAX_HOPS`] switches wrote telemetry: the caller must check the length of the path.
    pub(super) fn on_ack(&mut self, parameters: &Parameters, path: &Path, ack: &Ack<'_>) {
        assert!(ack.telemetry.len() <= MAX_HOPS, "a path has at most {MAX_HOPS} switches");
        if self.rate_state.begin(ack) {
            self.remember(ack.telemetry);
            return;
        }
        if !self.rate_state.uses(parameters, ack) {
            return;
        }
        // After a change of route, the counters of the new hops cannot be compared with those of the old ones.
        let same_route = usize::from(self.hop_count) == ack.telemetry.len();
        if same_route && self.measure(path, ack) {
            self.rate_state.update(parameters, path, ack, self.utilisation);
        }
        self.remember(ack.telemetry);
    }

    fn remember(&mut self, hops: &[Hop]) {
        self.hops[..hops.len()].copy_from_slice(hops);
        self.hop_count = u8::try_from(hops.len()).expect("a path has at most 5 switches");
    }

    // Algorithm 1, MeasureInflight: the most utilised hop since the last acknowledgement, averaged over T. False if no hop
    // has new telemetry.
    #[inline]
    fn measure(&mut self, path: &Path, ack: &Ack<'_>) -> bool {
        let nic = path.line_rate.as_bps() as f64;
        let window = path.window as f64;
        let mut highest = 0.0;
        let mut highest_ns = 0;
        for (&before, &now) in self.hops.iter().zip(ack.telemetry) {
            let ns = now.ns_since(before);
            if ns == 0 {
                continue;
            }
            let rate = ack.format.rate_bps(now) as f64;
            let sent_bps = ack.format.bytes_between(before, now) as f64 * 8.0 / (ns as f64 * 1e-9);
            let queue = ack.format.queue_bytes(now).min(ack.format.queue_bytes(before)) as f64;
            let utilisation = sent_bps / rate + queue * nic / rate / window;
            if utilisation > highest {
                highest = utilisation;
                highest_ns = ns;
            }
        }
        if highest_ns == 0 {
            return false;
        }
        let rtt_ns = path.base_rtt.as_ps() as f64 / 1e3;
        let elapsed_ns = (highest_ns as f64).min(rtt_ns);
        self.utilisation =
            (self.utilisation * (rtt_ns - elapsed_ns) + highest * elapsed_ns) / rtt_ns;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{LINE, PATH, ack, at_ns, format};
    use super::*;
    use crate::telemetry::Format;

    const GBPS: u64 = 1_000_000_000;

    fn hop(format: &Format, ns: u64, sent_bytes: u64, queue_bytes: u64) -> Hop {
        let code = format.code(LINE).expect("a rate of the fabric");
        format.hop(at_ns(ns), sent_bytes, queue_bytes, code)
    }

    /// A flow after one acknowledgement at 1,040 ns (half of T), if a link has sent `sent_bytes` by then and has
    /// `queue_bytes` queued.
    fn one_step(parameters: &Parameters, sent_bytes: u64, queue_bytes: u64) -> Hpcc {
        let format = format();
        let mut state = Hpcc::new(&PATH);
        let first = [hop(&format, 0, 0, queue_bytes)];
        let second = [hop(&format, 1_040, sent_bytes, queue_bytes)];
        let before = Ack { telemetry: &first, ..ack(&format, 1_000, 52_000) };
        state.on_ack(parameters, &PATH, &before);
        assert_eq!(state.rate_bps(), LINE.as_bps());
        let after = Ack { telemetry: &second, ..ack(&format, 2_000, 53_000) };
        state.on_ack(parameters, &PATH, &after);
        state
    }

    #[test]
    fn a_full_link_without_a_queue_is_brought_to_its_target() {
        // 25,984 bytes in 1,040 ns: 203 units of 128 bytes, 0.99938 of 200 Gb/s.
        let state = one_step(&Parameters::recommended(LINE), 25_984, 0);
        let link = 25_984.0 * 8.0 / 1_040e-9 / 200e9;
        let expected = (1.0 + link) / 2.0;
        assert!((state.utilisation() - expected).abs() < 1e-12);
        assert_eq!(state.rate_bps(), (200e9 / (expected / 0.95)) as u64 + 80_000_000);
    }

    #[test]
    fn a_queue_of_one_window_counts_as_a_full_link() {
        // An idle link with 52,000 bytes queued: U = 1, and so is its average with 1.
        let state = one_step(&Parameters::recommended(LINE), 0, 52_000);
        assert!((state.utilisation() - 1.0).abs() < 1e-12);
        assert_eq!(state.rate_bps(), 190 * GBPS + 80_000_000);
    }

    #[test]
    fn within_a_round_trip_the_rate_is_recomputed_from_the_same_reference() {
        let parameters = Parameters::recommended(LINE);
        let format = format();
        let mut state = Hpcc::new(&PATH);
        let full = |step: u64| [hop(&format, step * 2_080, 0, 52_000)];
        let mut rates = Vec::new();
        // 52,000 bytes are sent when the first acknowledgement arrives, so the next 52 belong to that round trip.
        for packet in 1..=54 {
            let telemetry = full(packet);
            let ack = Ack {
                telemetry: &telemetry,
                ..ack(&format, packet * 1_000, packet * 1_000 + 51_000)
            };
            state.on_ack(&parameters, &PATH, &ack);
            rates.push(state.rate_bps());
        }
        // Packet 53 replaces the reference rate, so packet 54 cuts further.
        let once = 190 * GBPS + 80_000_000;
        assert_eq!(rates[0], 200 * GBPS);
        assert!(rates[1..53].iter().all(|&rate| rate == once), "{rates:?}");
        assert_eq!(rates[53], (once as f64 / (1.0 / 0.95)) as u64 + 80_000_000);
    }

    #[test]
    fn without_fast_reaction_one_acknowledgement_per_round_trip_counts() {
        let parameters = Parameters { fast_react: false, ..Parameters::recommended(LINE) };
        let state = one_step(&parameters, 0, 52_000);
        assert_eq!(state.rate_bps(), LINE.as_bps());
    }

    #[test]
    fn below_the_target_the_rate_first_rises_additively() {
        let parameters =
            Parameters { max_additive_steps: 2, ..Parameters::recommended(Rate::from_gbps(100)) };
        let path = Path { line_rate: Rate::from_gbps(100), ..PATH };
        let format = format();
        let mut rate_state = RateState::new(&path);
        let mut rates = Vec::new();
        for (round, utilisation) in [(1, 1.9), (2, 0.5), (3, 0.5), (4, 0.5), (5, 0.5)] {
            let ack = ack(&format, round * 1_000, round * 1_000);
            rate_state.update(&parameters, &path, &ack, utilisation);
            rates.push(rate_state.rate_bps());
        }
        // With steps of 40 Mb/s: a cut to half, two additive steps, then a multiplication by 0.95/0.5.
        assert_eq!(
            rates,
            [50_040_000_000, 50_080_000_000, 50_120_000_000, 95_268_000_000, 95_308_000_000]
        );
    }

    #[test]
    fn the_most_utilised_hop_decides_whatever_its_rate() {
        let format = format();
        let slow = format.code(Rate::from_gbps(100)).expect("a rate of the fabric");
        let mut state = Hpcc::new(&PATH);
        // Both links send 25,600 bytes in 2,080 ns; the slower one has twice the utilisation.
        let telemetry =
            |ns, bytes| [hop(&format, ns, bytes, 0), format.hop(at_ns(ns), bytes, 0, slow)];
        let (first, second) = (telemetry(0, 0), telemetry(2_080, 25_600));
        let parameters = Parameters::recommended(LINE);
        state.on_ack(&parameters, &PATH, &Ack { telemetry: &first, ..ack(&format, 1, 9) });
        state.on_ack(&parameters, &PATH, &Ack { telemetry: &second, ..ack(&format, 2, 9) });
        let expected = 25_600.0 * 8.0 / 2_080e-9 / 100e9;
        assert!((state.utilisation() - expected).abs() < 1e-12);
    }

    #[test]
    fn a_path_without_switches_stays_at_line_rate() {
        let format = format();
        let mut state = Hpcc::new(&PATH);
        for packet in 1..100 {
            let ack = ack(&format, packet * 1_000, packet * 1_000);
            state.on_ack(&Parameters::recommended(LINE), &PATH, &ack);
        }
        assert_eq!(state.rate_bps(), LINE.as_bps());
    }
}
