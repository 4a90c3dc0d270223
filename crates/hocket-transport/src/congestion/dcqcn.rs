//! DCQCN (Zhu et al., SIGCOMM'15), with the parameters of NVIDIA's NICs, and its adaptively unfair form of HotNets'22
//! section 4(i).
//!
//! Its timers never enter an event queue: the state contains when each would fire next, and
//! [`Control::catch_up`](super::Control::catch_up) does what they would have done, in their order. It skips times in which
//! nothing can change: no notification is pending, and rate and target are at line rate.

use hocket_des::{Duration, Rate, Time};

use super::limits::{ParameterError, require, require_fraction, require_positive, require_rate};
use super::rates::{recommended_min_rate, step, times};
use super::signals::{Path, PhaseProgress};

const POLICY: &str = "dcqcn";
const NEVER: u64 = u64::MAX;

/// Parameters of DCQCN, with the names of the NIC's settings (`rp_…` in Linux debugfs, `cc_params/` of mlx5) in
/// parentheses.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters {
    /// T: time between two increase steps (`rp_time_reset`); restarts at each cut.
    pub increase_timer: Duration,
    /// B: bytes on the wire between two increase steps, counted independently of the timer and reset at each cut
    /// (`rp_byte_reset` × 64); `None` for no byte counter.
    pub byte_counter: Option<u64>,
    /// F: the number of fast recovery steps before additive increase (`rp_threshold`).
    pub fast_recovery_steps: u8,
    /// R_AI: increase of the target in a step of additive increase (`rp_ai_rate`).
    pub additive_increase: Rate,
    /// R_HAI: increase of the target in a step of hyper increase (`rp_hai_rate`).
    pub hyper_increase: Rate,
    /// g: the weight of an update in the moving average alpha (1 − `rp_dce_tcp_g` ÷ 1024).
    pub gain: f64,
    /// Time between two updates of alpha (`rp_dce_tcp_rtt`).
    pub alpha_timer: Duration,
    /// Alpha at the first notification (`rp_initial_alpha_value` ÷ 1023), 0 to 1.
    pub initial_alpha: f64,
    /// When a notification cuts the rate.
    pub cut: Cut,
    /// A cut lowers the rate by the fraction alpha ÷ `cut_divisor`: 2 in the paper (2 to the power of `rp_gd` − 10).
    pub cut_divisor: f64,
    /// The smallest fraction of the rate that a single cut leaves (`rp_min_dec_fac` ÷ 100); 0 for no such bound.
    pub least_kept: f64,
    /// Whether every cut lowers the target to the rate before the cut (`rp_clamp_tgt_rate`); otherwise only the first cut
    /// after an increase does.
    pub clamp_target_rate: bool,
    /// Whether increases by the timer count as such increases (`rp_clamp_tgt_rate_ati`), and not only those by bytes.
    pub clamp_target_after_timer: bool,
    /// The minimum rate after a cut (`rp_min_rate`).
    pub min_rate: Rate,
    /// Rate and target at the first notification (`rp_rate_to_set_on_first_cnp`); `None` leaves them unchanged.
    pub rate_on_first_cnp: Option<Rate>,
    /// Whether to use the adaptively unfair form of HotNets'22 section 4(i), which multiplies R_AI and R_HAI by 1 + sent ÷
    /// total of the current communication phase.
    pub adaptive: bool,
}

/// When a notification cuts the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Immediately, and alpha rises at the same time, as in the paper, whose receiver leaves 50 µs between notifications.
    AtCnp,
    /// At a periodic check, if any notification arrived since the last one, as in NVIDIA's NICs
    /// (`rp_rate_reduce_monitor_period`). The checks start with the flow's first notification; alpha rises at its own timer.
    AtCheck(Duration),
}

impl Parameters {
    /// The settings of HPCC's simulator (SIGCOMM'19 artefact) in its scripts, for a NIC of this rate: T 300 µs, no byte
    /// counter, F 1, R_AI 20 Mb/s and R_HAI 200 Mb/s per 100 Gb/s, g 1/256, an update of alpha every 1 µs, a check every
    /// 4 µs, at least 1 Gb/s.
    pub fn recommended(line_rate: Rate) -> Self {
        Self {
            increase_timer: Duration::from_us(300),
            byte_counter: None,
            fast_recovery_steps: 1,
            additive_increase: step(line_rate, 200_000),
            hyper_increase: step(line_rate, 2_000_000),
            gain: 1.0 / 256.0,
            alpha_timer: Duration::from_us(1),
            initial_alpha: 1.0,
            cut: Cut::AtCheck(Duration::from_us(4)),
            cut_divisor: 2.0,
            least_kept: 0.0,
            clamp_target_rate: false,
            clamp_target_after_timer: true,
            min_rate: recommended_min_rate(line_rate),
            rate_on_first_cnp: None,
            adaptive: false,
        }
    }

    /// The defaults of ConnectX NICs (NVIDIA, "DCQCN CC parameters", DOCA 3.4, read November 2026, and the `mlxconfig`
    /// listings that agree with it): T 300 µs, B 32767 × 64 bytes, F 1, R_AI 5 Mb/s, R_HAI 50 Mb/s, g 1 − 1019/1024, an
    /// update of alpha every 1 µs, starting from 1, a check every 4 µs, at least half of the rate kept by a cut, at least
    /// 1 Mb/s.
    pub fn mlx5() -> Self {
        Self {
            increase_timer: Duration::from_us(300),
            byte_counter: Some(32_767 * 64),
            fast_recovery_steps: 1,
            additive_increase: Rate::from_bps(5_000_000),
            hyper_increase: Rate::from_bps(50_000_000),
            gain: 5.0 / 1024.0,
            alpha_timer: Duration::from_us(1),
            initial_alpha: 1.0,
            cut: Cut::AtCheck(Duration::from_us(4)),
            cut_divisor: 2.0,
            least_kept: 0.5,
            clamp_target_rate: false,
            clamp_target_after_timer: true,
            min_rate: Rate::from_bps(1_000_000),
            rate_on_first_cnp: None,
            adaptive: false,
        }
    }

    /// The values of the paper (SIGCOMM'15 sections 5 and 6, for 40 Gb/s): T 55 µs, B 10 MB, F 5, R_AI 40 Mb/s, g 1/256,
    /// alpha falls after 55 µs without a notification, and a notification cuts immediately. The paper's receiver leaves
    /// 50 µs between notifications. It specifies neither R_HAI nor a minimum rate: here hyper increase equals additive
    /// increase, and the minimum rate is that of its NICs, 1 Mb/s.
    pub fn sigcomm15() -> Self {
        Self {
            increase_timer: Duration::from_us(55),
            byte_counter: Some(10_000_000),
            fast_recovery_steps: 5,
            additive_increase: Rate::from_bps(40_000_000),
            hyper_increase: Rate::from_bps(40_000_000),
            gain: 1.0 / 256.0,
            alpha_timer: Duration::from_us(55),
            initial_alpha: 1.0,
            cut: Cut::AtCnp,
            cut_divisor: 2.0,
            least_kept: 0.0,
            clamp_target_rate: true,
            clamp_target_after_timer: true,
            min_rate: Rate::from_bps(1_000_000),
            rate_on_first_cnp: None,
            adaptive: false,
        }
    }

    /// The testbed of HotNets'22 (section 2; ConnectX-5 at 50 Gb/s): the NIC's defaults except for T, which is 125 µs, and
    /// 100 µs for the aggressive job.
    pub fn hotnets22(increase_timer: Duration) -> Self {
        Self { increase_timer, ..Self::mlx5() }
    }

    /// Checks the parameters for a NIC of `line_rate`.
    ///
    /// # Errors
    /// The first parameter that is out of its range.
    pub fn validate(&self, line_rate: Rate) -> Result<(), ParameterError> {
        require_positive(POLICY, "increase_timer", self.increase_timer)?;
        if let Some(bytes) = self.byte_counter {
            require(bytes > 0, POLICY, "byte_counter", &bytes, &"above 0, or absent")?;
        }
        require(
            self.fast_recovery_steps < u8::MAX,
            POLICY,
            "fast_recovery_steps",
            &self.fast_recovery_steps,
            &"at most 254",
        )?;
        require_rate(POLICY, "additive_increase", self.additive_increase, line_rate)?;
        require_rate(POLICY, "hyper_increase", self.hyper_increase, line_rate)?;
        if let Some(rate) = self.rate_on_first_cnp {
            require_rate(POLICY, "rate_on_first_cnp", rate, line_rate)?;
        }
        require_fraction(POLICY, "gain", self.gain)?;
        require_positive(POLICY, "alpha_timer", self.alpha_timer)?;
        let alpha = self.initial_alpha;
        require((0.0..=1.0).contains(&alpha), POLICY, "initial_alpha", &alpha, &"from 0 to 1")?;
        if let Cut::AtCheck(period) = self.cut {
            require_positive(POLICY, "cut", period)?;
        }
        require(
            self.cut_divisor >= 1.0 && self.cut_divisor.is_finite(),
            POLICY,
            "cut_divisor",
            &self.cut_divisor,
            &"at least 1",
        )?;
        let kept = self.least_kept;
        require((0.0..=1.0).contains(&kept), POLICY, "least_kept", &kept, &"from 0 to 1")?;
        require_rate(POLICY, "min_rate", self.min_rate, line_rate)
    }
}

/// State of one flow.
#[derive(Clone, Debug, PartialEq)]
pub struct Dcqcn {
    rate: u64,
    target: u64,
    alpha: f64,
    // When timers fire, in ps; NEVER while a timer does not run.
    alpha_due: u64,
    // The next check while a notification is pending, otherwise any earlier check.
    check_due: u64,
    increase_due: u64,
    bytes: u64,
    cuts: u32,
    // Increase steps since the last cut, by timer and by bytes.
    timer_steps: u8,
    byte_steps: u8,
    // Whether a notification arrived since the last update of alpha, and since the last check.
    alpha_marked: bool,
    cut_pending: bool,
}

impl Dcqcn {
    pub(super) fn new(path: &Path) -> Self {
        let line = path.line_rate.as_bps();
        Self {
            rate: line,
            target: line,
            alpha: 0.0,
            alpha_due: NEVER,
            check_due: NEVER,
            increase_due: NEVER,
            bytes: 0,
            cuts: 0,
            timer_steps: 0,
            byte_steps: 0,
            alpha_marked: false,
            cut_pending: false,
        }
    }

    /// The current rate in bits per second.
    #[inline]
    pub fn rate_bps(&self) -> u64 {
        self.rate
    }

    /// The rate that increases approach, in bits per second.
    pub fn target_bps(&self) -> u64 {
        self.target
    }

    /// How often the rate was cut.
    pub fn cuts(&self) -> u64 {
        u64::from(self.cuts)
    }

    /// Alpha at `now`, which must not be before the last call.
    pub fn alpha(&self, parameters: &Parameters, now: Time) -> f64 {
        let mut then = self.clone();
        then.update_alpha(parameters, now.as_ps());
        then.alpha
    }

    #[inline]
    pub(super) fn catch_up(
        &mut self,
        parameters: &Parameters,
        path: &Path,
        now: Time,
        progress: PhaseProgress,
    ) {
        let now = now.as_ps();
        if now >= self.increase_due || (self.cut_pending && now >= self.check_due) {
            self.replay(parameters, path, now, progress);
        }
    }

    #[cold]
    fn replay(&mut self, parameters: &Parameters, path: &Path, now: u64, progress: PhaseProgress) {
        loop {
            let check = if self.cut_pending { self.check_due } else { NEVER };
            if check.min(self.increase_due) > now {
                return;
            }
            if self.increase_goes_first(parameters, check) {
                self.timer_increase(parameters, path, now, progress);
            } else {
                self.cut_pending = false;
                self.update_alpha(parameters, check);
                self.cut(parameters, check);
            }
        }
    }

    // Timers due at the same time fire in the order in which they were armed: the one with the longer period first, and a
    // check before the increase timer that it starts.
    fn increase_goes_first(&self, parameters: &Parameters, check: u64) -> bool {
        let longer = match parameters.cut {
            Cut::AtCheck(period) => parameters.increase_timer > period,
            Cut::AtCnp => true,
        };
        self.increase_due < check || (self.increase_due == check && longer)
    }

    pub(super) fn on_cnp(&mut self, parameters: &Parameters, path: &Path, now: Time) {
        let now = now.as_ps();
        let first = self.alpha_due == NEVER;
        if first {
            self.start(parameters, path, now);
        } else {
            self.update_alpha(parameters, now);
        }
        match parameters.cut {
            Cut::AtCnp => {
                self.cut(parameters, now);
                self.alpha = raised(self.alpha, parameters.gain);
                self.alpha_due = now + parameters.alpha_timer.as_ps();
            }
            Cut::AtCheck(period) => {
                // The first notification has set alpha already, so it does not count at alpha's next update.
                self.alpha_marked = !first;
                if !self.cut_pending {
                    self.cut_pending = true;
                    let period = period.as_ps();
                    if now >= self.check_due {
                        self.check_due += ((now - self.check_due) / period + 1) * period;
                    }
                }
            }
        }
    }

    fn start(&mut self, parameters: &Parameters, path: &Path, now: u64) {
        self.alpha = parameters.initial_alpha;
        self.alpha_due = now + parameters.alpha_timer.as_ps();
        if let Cut::AtCheck(period) = parameters.cut {
            // One nanosecond after an update of alpha, so that a check sees the updated alpha.
            self.check_due = now + period.as_ps() + 1000;
        }
        if let Some(rate) = parameters.rate_on_first_cnp {
            self.rate = rate.as_bps().clamp(parameters.min_rate.as_bps(), path.line_rate.as_bps());
        }
        self.target = self.rate;
    }

    /// Makes the updates of alpha that were due by `now`. Only the first can have a notification to count.
    #[inline]
    fn update_alpha(&mut self, parameters: &Parameters, now: u64) {
        if now < self.alpha_due {
            return;
        }
        let period = parameters.alpha_timer.as_ps();
        let updates = (now - self.alpha_due) / period + 1;
        self.alpha_due += updates * period;
        let mut falls = updates;
        if self.alpha_marked {
            self.alpha_marked = false;
            self.alpha = raised(self.alpha, parameters.gain);
            falls -= 1;
        }
        self.alpha = fallen(self.alpha, parameters.gain, falls);
    }

    fn cut(&mut self, parameters: &Parameters, now: u64) {
        let increased =
            self.byte_steps > 0 || (parameters.clamp_target_after_timer && self.timer_steps > 0);
        if parameters.clamp_target_rate || increased {
            self.target = self.rate;
        }
        let kept = (1.0 - self.alpha / parameters.cut_divisor).max(parameters.least_kept);
        self.rate = times(self.rate, kept).max(parameters.min_rate.as_bps());
        self.cuts += 1;
        self.timer_steps = 0;
        self.byte_steps = 0;
        self.bytes = 0;
        self.increase_due = now + parameters.increase_timer.as_ps();
    }

    fn timer_increase(
        &mut self,
        parameters: &Parameters,
        path: &Path,
        now: u64,
        progress: PhaseProgress,
    ) {
        let period = parameters.increase_timer.as_ps();
        let before = (self.rate, self.target);
        self.increase(parameters, path, progress);
        self.timer_steps = self.timer_steps.saturating_add(1);
        self.increase_due += period;
        let settled = before == (self.rate, self.target) && self.target == path.line_rate.as_bps();
        let until = if self.cut_pending { now.min(self.check_due) } else { now };
        if settled && until > self.increase_due {
            // No step before the next cut can change anything, so the steps up to `until` are skipped. They need not be
            // counted, since a cut depends only on whether there was any step.
            self.increase_due += (until - self.increase_due) / period * period;
        }
    }

    /// Makes one increase step, whose kind depends on the number of steps since the last cut.
    fn increase(&mut self, parameters: &Parameters, path: &Path, progress: PhaseProgress) {
        // Without a byte counter the timer alone decides.
        let (most, least) = match parameters.byte_counter {
            Some(_) => {
                (self.timer_steps.max(self.byte_steps), self.timer_steps.min(self.byte_steps))
            }
            None => (self.timer_steps, self.timer_steps),
        };
        let fast_recovery = most < parameters.fast_recovery_steps;
        if !fast_recovery {
            let hyper = least > parameters.fast_recovery_steps;
            let gain = if hyper { parameters.hyper_increase } else { parameters.additive_increase };
            let gain = if parameters.adaptive { adapted(gain, progress) } else { gain.as_bps() };
            self.target = self.target.saturating_add(gain).min(path.line_rate.as_bps());
        }
        self.rate = self.rate / 2 + self.target / 2;
    }

    #[inline]
    pub(super) fn on_sent(
        &mut self,
        parameters: &Parameters,
        path: &Path,
        wire_bytes: u64,
        progress: PhaseProgress,
    ) {
        let Some(reset) = parameters.byte_counter else { return };
        // The byte counter starts at the first cut.
        if self.increase_due == NEVER {
            return;
        }
        self.bytes += wire_bytes;
        while self.bytes >= reset {
            self.bytes -= reset;
            self.increase(parameters, path, progress);
            self.byte_steps = self.byte_steps.saturating_add(1);
        }
    }
}

/// R_AI (1 + sent ÷ total), in whole bits per second.
fn adapted(gain: Rate, progress: PhaseProgress) -> u64 {
    let gain = gain.as_bps();
    if progress.total == 0 {
        return gain;
    }
    let sent = u128::from(progress.sent.min(progress.total));
    let more = u128::from(gain) * sent / u128::from(progress.total);
    gain.saturating_add(u64::try_from(more).expect("at most the gain itself"))
}

fn raised(alpha: f64, gain: f64) -> f64 {
    (1.0 - gain) * alpha + gain
}

/// Alpha after `updates` updates without a notification. Few updates are multiplied one by one, which gives the timer's
/// result to the last bit. Many are computed as a power, by repeated squaring, which gives the same result on every
/// machine.
fn fallen(alpha: f64, gain: f64, updates: u64) -> f64 {
    const ONE_BY_ONE: u64 = 64;
    let mut factor = 1.0 - gain;
    if updates <= ONE_BY_ONE {
        return (0..updates).fold(alpha, |alpha, _| factor * alpha);
    }
    let mut result = alpha;
    let mut left = updates;
    while left > 0 && result > 0.0 {
        if left & 1 == 1 {
            result *= factor;
        }
        factor *= factor;
        left >>= 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::super::tests::{LINE, PATH, at_ns};
    use super::*;

    const GBPS: u64 = 1_000_000_000;

    struct Flow {
        parameters: Parameters,
        state: Dcqcn,
        progress: PhaseProgress,
    }

    impl Flow {
        fn new(parameters: Parameters) -> Self {
            Self { parameters, state: Dcqcn::new(&PATH), progress: PhaseProgress::default() }
        }

        fn at(&mut self, ns: u64) -> &mut Self {
            self.state.catch_up(&self.parameters, &PATH, at_ns(ns), self.progress);
            self
        }

        fn notify(&mut self, ns: u64) {
            self.at(ns);
            self.state.on_cnp(&self.parameters, &PATH, at_ns(ns));
        }

        fn send(&mut self, bytes: u64) {
            self.state.on_sent(&self.parameters, &PATH, bytes, self.progress);
        }

        fn rate(&self) -> u64 {
            self.state.rate_bps()
        }
    }

    #[test]
    fn the_first_cut_is_at_the_first_check_with_alpha_after_four_updates() {
        let mut flow = Flow::new(Parameters::recommended(LINE));
        flow.notify(10_000);
        assert_eq!(flow.at(14_000).rate(), 200 * GBPS);
        // Alpha starts at 1 and fell at 11, 12, 13 and 14 µs.
        let alpha = (255.0_f64 / 256.0).powi(4);
        let expected = (200e9 * (1.0 - alpha / 2.0)) as u64;
        assert_eq!(flow.at(14_001).rate(), expected);
        assert_eq!((flow.state.target_bps(), flow.state.cuts()), (200 * GBPS, 1));
        // Without another notification later checks cut nothing.
        assert_eq!(flow.at(200_000).rate(), expected);
    }

    #[test]
    fn a_notification_between_updates_raises_alpha_once() {
        let mut flow = Flow::new(Parameters::recommended(LINE));
        flow.notify(0);
        for ns in [1_200, 1_300, 1_999] {
            flow.notify(ns);
        }
        let g = 1.0 / 256.0;
        let first = 1.0 - g;
        let second = first * (1.0 - g) + g;
        assert!((flow.state.alpha(&flow.parameters, at_ns(1_999)) - first).abs() < 1e-15);
        assert!((flow.state.alpha(&flow.parameters, at_ns(2_000)) - second).abs() < 1e-15);
    }

    #[test]
    fn alpha_decays_as_a_power_of_one_minus_g() {
        let mut flow = Flow::new(Parameters::recommended(LINE));
        flow.notify(0);
        for (us, tolerance) in [(10, 1e-15), (64, 1e-14), (65, 1e-14), (1_000, 1e-12)] {
            let alpha = flow.state.alpha(&flow.parameters, at_ns(us * 1_000));
            let theory = (255.0_f64 / 256.0).powf(us as f64);
            assert!((alpha / theory - 1.0).abs() < tolerance, "{us} µs: {alpha}, not {theory}");
        }
        assert!(flow.state.alpha(&flow.parameters, at_ns(3_600_000_000_000)) < 1e-300);
    }

    #[test]
    fn fast_recovery_is_followed_by_additive_and_then_hyper_increase() {
        let mut flow = Flow::new(Parameters::recommended(LINE));
        // Alpha starts at 1 and does not fall before the check: the rate is halved exactly.
        flow.parameters.alpha_timer = Duration::from_ms(100);
        flow.notify(0);
        flow.at(4_001);
        assert_eq!(flow.rate(), 100 * GBPS);
        // Target 200 Gb/s throughout: additive and hyper increase stay capped at line rate.
        for (step, gbps) in [(1, 150), (2, 175)] {
            assert_eq!(flow.at(4_001 + step * 300_000).rate(), gbps * GBPS);
        }
        // The second cut lowers the target to the rate, since the rate has increased since the first cut.
        flow.notify(700_000);
        flow.at(704_001);
        assert_eq!((flow.rate(), flow.state.target_bps()), (175 * GBPS / 2, 175 * GBPS));
        // Fast recovery once, then 40 Mb/s, then 400 Mb/s more on the target.
        let cut_at = 704_001;
        assert_eq!(flow.at(cut_at + 300_000).rate(), 131_250_000_000);
        assert_eq!(flow.at(cut_at + 600_000).rate(), (131_250_000_000 + 175_040_000_000) / 2);
        assert_eq!(flow.state.target_bps(), 175_040_000_000);
        flow.at(cut_at + 900_000);
        assert_eq!(flow.state.target_bps(), 175_440_000_000);
    }

    #[test]
    fn two_cuts_without_an_increase_between_keep_the_target_unless_clamped() {
        for (clamp, target) in [(false, 200 * GBPS), (true, 100 * GBPS)] {
            let mut flow = Flow::new(Parameters::recommended(LINE));
            flow.parameters.alpha_timer = Duration::from_ms(100);
            flow.parameters.clamp_target_rate = clamp;
            flow.notify(0);
            flow.notify(5_000);
            flow.at(8_001);
            assert_eq!((flow.rate(), flow.state.target_bps()), (50 * GBPS, target));
        }
    }

    #[test]
    fn an_increase_and_a_check_due_at_the_same_time_fire_in_the_order_armed() {
        // The increase 300 µs after the cut coincides with a check. It was armed first, so the check cuts the higher rate.
        let mut flow = Flow::new(Parameters::recommended(LINE));
        flow.parameters.alpha_timer = Duration::from_ms(100);
        flow.notify(0);
        flow.notify(303_000);
        flow.at(304_001);
        assert_eq!((flow.rate(), flow.state.target_bps()), (75 * GBPS, 150 * GBPS));
    }

    #[test]
    fn in_the_paper_each_notification_cuts_at_once() {
        let mut flow = Flow::new(Parameters::sigcomm15());
        flow.notify(100);
        assert_eq!(flow.rate(), 100 * GBPS);
        // Alpha is not updated within 55 µs, so it is still 1.
        flow.notify(50_100);
        assert_eq!((flow.rate(), flow.state.target_bps()), (50 * GBPS, 100 * GBPS));
        // The timer restarts at each notification.
        let alpha = |flow: &Flow, ns| flow.state.alpha(&flow.parameters, at_ns(ns));
        assert!((alpha(&flow, 105_099) - 1.0).abs() < 1e-15);
        assert!((alpha(&flow, 105_100) - 255.0 / 256.0).abs() < 1e-15);
    }

    #[test]
    fn the_byte_counter_is_independent_of_the_timer_and_hyper_increase_needs_both() {
        let mut parameters = Parameters::recommended(LINE);
        parameters.byte_counter = Some(1_000_000);
        parameters.alpha_timer = Duration::from_ms(100);
        let mut flow = Flow::new(parameters);
        flow.send(5_000_000);
        flow.notify(0);
        // Two cuts: to 50 Gb/s, with a target of 100 Gb/s.
        flow.at(4_001);
        flow.send(1_000_000);
        assert_eq!(flow.rate(), 150 * GBPS);
        flow.notify(5_000);
        flow.at(8_001);
        assert_eq!((flow.rate(), flow.state.target_bps()), (75 * GBPS, 150 * GBPS));
        // One step of fast recovery, then additive increase as long as only the byte counter makes steps.
        flow.send(999_999);
        assert_eq!(flow.rate(), 75 * GBPS);
        flow.send(1);
        assert_eq!(flow.rate(), 112_500_000_000);
        for step in 1..=3 {
            flow.send(1_000_000);
            assert_eq!(flow.state.target_bps(), 150 * GBPS + step * 40_000_000);
        }
        // After the timer's first two steps its count is at most F; from then on, both counts are above F.
        flow.at(308_001).at(608_001);
        assert_eq!(flow.state.target_bps(), 150 * GBPS + 5 * 40_000_000);
        flow.at(908_001);
        assert_eq!(flow.state.target_bps(), 150 * GBPS + 5 * 40_000_000 + 400_000_000);
    }

    #[test]
    fn adaptive_unfairness_raises_the_gain_with_progress() {
        for (sent, target) in [(0, 40_000_000), (500, 60_000_000), (1_000, 80_000_000)] {
            let mut parameters = Parameters::recommended(LINE);
            parameters.adaptive = true;
            parameters.fast_recovery_steps = 0;
            parameters.clamp_target_rate = true;
            parameters.alpha_timer = Duration::from_ms(100);
            let mut flow = Flow::new(parameters);
            flow.progress = PhaseProgress { sent, total: 1_000 };
            flow.notify(0);
            flow.notify(5_000);
            flow.at(8_001);
            assert_eq!(flow.at(308_001).state.target_bps(), 100 * GBPS + target);
        }
    }

    #[test]
    fn a_cut_keeps_at_least_the_configured_fraction() {
        let mut parameters = Parameters::mlx5();
        parameters.cut_divisor = 1.0;
        let mut flow = Flow::new(parameters);
        flow.notify(0);
        assert_eq!(flow.at(4_001).rate(), 100 * GBPS);
    }

    #[test]
    fn the_first_notification_may_set_the_rate() {
        let mut parameters = Parameters::mlx5();
        parameters.rate_on_first_cnp = Some(Rate::from_gbps(40));
        let mut flow = Flow::new(parameters);
        flow.notify(0);
        assert_eq!((flow.rate(), flow.state.target_bps()), (40 * GBPS, 40 * GBPS));
    }

    #[test]
    fn a_long_idle_time_is_evaluated_in_one_step() {
        let mut flow = Flow::new(Parameters::recommended(LINE));
        flow.notify(0);
        // 200 days of 300 µs steps. Halving rounds down, so the average stops one bit per second below the target.
        flow.at(17_000_000_000_000_000);
        assert_eq!(flow.rate(), 200 * GBPS - 1);
        flow.notify(17_000_000_000_000_000);
        assert_eq!(flow.at(17_000_000_000_005_000).state.cuts(), 2);
    }

    #[test]
    fn presets_are_valid_for_the_nics_they_describe() {
        assert_eq!(Parameters::mlx5().validate(Rate::from_gbps(25)), Ok(()));
        assert_eq!(Parameters::sigcomm15().validate(Rate::from_gbps(40)), Ok(()));
        let testbed = Parameters::hotnets22(Duration::from_us(125));
        assert_eq!(testbed.validate(Rate::from_gbps(50)), Ok(()));
        assert_eq!(testbed.increase_timer, Duration::from_us(125));
    }
}
