//! The progress of a sender, kept exactly: data is counted in picobits (bits per second × picoseconds), so that
//! any whole rate moves a whole number of them in any whole time.

use hocket_des::{Bytes, Duration, Rate, Time};
use hocket_scenario::{Phase, Share, Span};

/// Picobits in a byte.
pub(crate) const PICOBITS_PER_BYTE: u128 = 8_000_000_000_000;

/// The sending side of a stream.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    /// Whether it is in a phase.
    pub(crate) active: bool,
    /// The demand of the phase: its rate on an idle network.
    pub(crate) cap: Rate,
    /// The present rate; zero outside phases.
    pub(crate) rate: Rate,
    /// Picobits of the phase, and those that are left.
    total: u128,
    remaining: u128,
    /// Picobits over which steps are counted, and those of them that were sent before the phase.
    whole: u128,
    before: u128,
    /// The time up to which `remaining` is valid.
    updated: Time,
    /// Picobits sent since the start of the run.
    sent: u128,
    /// Picobits of all phases so far. Counted separately from `sent`, to check it.
    due: u128,
    busy: Duration,
}

impl Sender {
    /// A sender that has not begun.
    pub(crate) fn new() -> Self {
        Self {
            active: false,
            cap: Rate::ZERO,
            rate: Rate::ZERO,
            total: 0,
            remaining: 0,
            whole: 0,
            before: 0,
            updated: Time::ZERO,
            sent: 0,
            due: 0,
            busy: Duration::ZERO,
        }
    }

    /// Starts a phase of `total` picobits at `cap` or less.
    pub(crate) fn start(&mut self, now: Time, cap: Rate, total: u128) {
        assert!(!self.active, "a sender has one phase at a time");
        self.active = true;
        self.cap = cap;
        self.total = total;
        self.remaining = self.total;
        (self.whole, self.before) = (total, 0);
        self.due += self.total;
        self.updated = now;
    }

    /// Starts number `place` of `phases`, the Up phases of an iteration, for a job with this share.
    pub(crate) fn start_phase(
        &mut self,
        now: Time,
        share: Share,
        (phases, place): (&[Phase], usize),
    ) {
        let sum = |phases: &[Phase]| -> u128 {
            phases.iter().map(|phase| picobits(phase.rate, phase.duration)).sum()
        };
        self.start(now, phases[place].rate, sum(&phases[place..=place]));
        if matches!(share, Share::Adaptive(adaptive) if adaptive.span == Span::Iteration) {
            (self.whole, self.before) = (sum(phases), sum(&phases[..place]));
        }
    }

    /// Advances the phase to `now` at the rate that it has had since the last call.
    pub(crate) fn advance(&mut self, now: Time) {
        let span = now.since(self.updated);
        // The end of a phase is rounded up, so that its last picosecond may have less to send.
        let moved = picobits(self.rate, span).min(self.remaining);
        self.remaining -= moved;
        self.sent += moved;
        self.updated = now;
        // Held at zero by a higher queue, a job does not occupy the link.
        if !self.rate.is_zero() {
            self.busy += span;
        }
    }

    /// Whether the phase has nothing left to send.
    pub(crate) fn is_finished(&self) -> bool {
        self.remaining == 0
    }

    /// Ends a finished phase.
    pub(crate) fn stop(&mut self) {
        assert!(self.is_finished(), "a phase ends when all is sent");
        self.active = false;
        self.rate = Rate::ZERO;
    }

    /// The number of finished steps, of `steps` equal steps of the phase or of the iteration.
    pub(crate) fn steps_done(&self, steps: u64) -> u64 {
        let done = (self.before + self.total - self.remaining) / self.step(steps);
        u64::try_from(done).expect("there are at most `steps` steps")
    }

    /// Time until the phase ends at the present rate, rounded up; `None` if it never does.
    pub(crate) fn time_to_end(&self) -> Option<Duration> {
        self.time_to_move(self.remaining)
    }

    /// Time until the present one of `steps` equal steps ends, or the phase if that is earlier, rounded up; `None` if neither
    /// does.
    pub(crate) fn time_to_step(&self, steps: u64) -> Option<Duration> {
        let step = self.step(steps);
        let into_step = (self.before + self.total - self.remaining) % step;
        self.time_to_move(self.remaining.min(step - into_step))
    }

    /// Time that the remainder of the phase takes at its cap, rounded up.
    pub(crate) fn time_at_cap(&self) -> Duration {
        let ps = self.remaining.div_ceil(u128::from(self.cap.as_bps()));
        Duration::from_ps(u64::try_from(ps).expect("no phase is longer than a run"))
    }

    /// Counts `phases` as sent `times` times, in `busy`. A present phase continues after it.
    pub(crate) fn repeat(&mut self, phases: &[Phase], times: u64, busy: Duration) {
        for phase in phases {
            let picobits = picobits(phase.rate, phase.duration) * u128::from(times);
            self.sent += picobits;
            self.due += picobits;
        }
        self.busy += busy;
    }

    /// Moves its clock on by `by`, in which it does nothing.
    pub(crate) fn postpone(&mut self, by: Duration) {
        self.updated += by;
    }

    /// Picobits that are left of the phase.
    pub(crate) fn remaining(&self) -> u128 {
        self.remaining
    }

    /// Picobits sent since the start of the run.
    pub(crate) fn sent(&self) -> u128 {
        self.sent
    }

    /// Picobits that the phases so far had to send by now, which must equal [`sent`](Self::sent).
    pub(crate) fn due(&self) -> u128 {
        self.due - if self.active { self.remaining } else { 0 }
    }

    /// The time in which it has been sending since the start of the run.
    pub(crate) fn busy(&self) -> Duration {
        self.busy
    }

    // Rounded up: with steps rounded down, there could be more of them than `steps`.
    fn step(&self, steps: u64) -> u128 {
        self.whole.div_ceil(u128::from(steps))
    }

    fn time_to_move(&self, picobits: u128) -> Option<Duration> {
        if self.rate.is_zero() {
            return None;
        }
        let ps = picobits.div_ceil(u128::from(self.rate.as_bps()));
        u64::try_from(ps).ok().map(Duration::from_ps)
    }
}

/// The bytes of `flows` flows that each sent `sent` picobits, rounded to the nearest byte per flow. Totals beyond 64 bits,
/// which take more than a day at 1 Pbps, saturate.
pub(crate) fn bytes_of(sent: u128, flows: u64) -> Bytes {
    let bytes = (sent + PICOBITS_PER_BYTE / 2) / PICOBITS_PER_BYTE * u128::from(flows);
    Bytes::new(u64::try_from(bytes).unwrap_or(u64::MAX))
}

pub(crate) fn picobits(rate: Rate, span: Duration) -> u128 {
    u128::from(rate.as_bps()) * u128::from(span.as_ps())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(sender: &mut Sender) {
        let (cap, duration) = (Rate::from_gbps(10), Duration::from_ns(1));
        sender.start(Time::ZERO, cap, picobits(cap, duration));
    }

    #[test]
    fn a_phase_at_an_odd_rate_sends_all_of_its_bits_and_no_more() {
        let mut sender = Sender::new();
        start(&mut sender);
        sender.rate = Rate::from_gbps(3);
        let end = Time::ZERO + sender.time_to_end().unwrap();
        assert_eq!(end, Time::from_ps(3_334));
        sender.advance(Time::from_ps(1_000));
        sender.advance(end);
        sender.stop();
        assert_eq!(sender.sent(), 10_000_000_000 * 1_000);
        assert_eq!(sender.sent(), sender.due());
    }

    #[test]
    fn a_phase_that_gets_nothing_never_ends() {
        let mut sender = Sender::new();
        start(&mut sender);
        assert_eq!(sender.time_to_end(), None);
    }
}
