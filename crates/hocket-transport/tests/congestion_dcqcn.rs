//! A test oracle for DCQCN's lazily evaluated timers: a sender that keeps its timers in an event queue and fires each at its
//! time, even if that has no effect.

use hocket_des::{Duration, EventQueue, Rate, Time};
use hocket_transport::congestion::dcqcn::{Cut, Parameters};
use hocket_transport::{Control, Path, PhaseProgress, Policy};
use proptest::prelude::*;

const LINE: Rate = Rate::from_gbps(200);
const PATH: Path = Path { line_rate: LINE, base_rtt: Duration::from_ns(2080), window: 52_000 };

#[derive(Clone, Copy)]
enum Timer {
    Alpha,
    Check,
    /// Contains the number of cuts when the timer was armed: a later cut disarms it.
    Increase(u64),
}

struct Eager {
    parameters: Parameters,
    timers: EventQueue<Timer>,
    rate: u64,
    target: u64,
    alpha: f64,
    notified: bool,
    alpha_marked: bool,
    check_marked: bool,
    timer_steps: u64,
    byte_steps: u64,
    bytes: u64,
    cuts: u64,
}

impl Eager {
    fn new(parameters: Parameters) -> Self {
        Self {
            parameters,
            timers: EventQueue::default(),
            rate: LINE.as_bps(),
            target: LINE.as_bps(),
            alpha: 0.0,
            notified: false,
            alpha_marked: false,
            check_marked: false,
            timer_steps: 0,
            byte_steps: 0,
            bytes: 0,
            cuts: 0,
        }
    }

    fn check_period(&self) -> Duration {
        match self.parameters.cut {
            Cut::AtCheck(period) => period,
            Cut::AtCnp => unreachable!("this oracle is for checks"),
        }
    }

    fn run_to(&mut self, now: Time) {
        while self.timers.peek_time().is_some_and(|due| due <= now) {
            let (at, timer) = self.timers.pop().expect("a timer is due");
            self.fire(at, timer);
        }
    }

    fn fire(&mut self, at: Time, timer: Timer) {
        match timer {
            Timer::Alpha => {
                self.timers.schedule(at + self.parameters.alpha_timer, Timer::Alpha);
                self.alpha *= 1.0 - self.parameters.gain;
                if self.alpha_marked {
                    self.alpha += self.parameters.gain;
                }
                self.alpha_marked = false;
            }
            Timer::Check => {
                self.timers.schedule(at + self.check_period(), Timer::Check);
                if self.check_marked {
                    self.check_marked = false;
                    self.cut(at);
                }
            }
            Timer::Increase(armed) if armed == self.cuts => {
                let next = at + self.parameters.increase_timer;
                self.timers.schedule(next, Timer::Increase(armed));
                self.increase();
                self.timer_steps += 1;
            }
            Timer::Increase(_) => {}
        }
    }

    fn cut(&mut self, at: Time) {
        if self.parameters.clamp_target_rate || self.timer_steps + self.byte_steps > 0 {
            self.target = self.rate;
        }
        let cut = (self.rate as f64 * (1.0 - self.alpha / 2.0)) as u64;
        self.rate = cut.max(self.parameters.min_rate.as_bps());
        self.cuts += 1;
        (self.timer_steps, self.byte_steps, self.bytes) = (0, 0, 0);
        self.timers.schedule(at + self.parameters.increase_timer, Timer::Increase(self.cuts));
    }

    fn increase(&mut self) {
        let steps = if self.parameters.byte_counter.is_some() {
            [self.timer_steps, self.byte_steps]
        } else {
            [self.timer_steps; 2]
        };
        let threshold = u64::from(self.parameters.fast_recovery_steps);
        if steps.iter().all(|&steps| steps > threshold) {
            self.target += self.parameters.hyper_increase.as_bps();
        } else if steps.iter().any(|&steps| steps >= threshold) {
            self.target += self.parameters.additive_increase.as_bps();
        }
        self.target = self.target.min(LINE.as_bps());
        self.rate = self.rate / 2 + self.target / 2;
    }

    fn notify(&mut self, now: Time) {
        self.check_marked = true;
        if self.notified {
            self.alpha_marked = true;
            return;
        }
        self.notified = true;
        self.alpha = self.parameters.initial_alpha;
        self.timers.schedule(now + self.parameters.alpha_timer, Timer::Alpha);
        let first_check = now + self.check_period() + Duration::from_ns(1);
        self.timers.schedule(first_check, Timer::Check);
    }

    fn send(&mut self, bytes: u64) {
        let Some(reset) = self.parameters.byte_counter else { return };
        if self.cuts == 0 {
            return;
        }
        self.bytes += bytes;
        while self.bytes >= reset {
            self.bytes -= reset;
            self.increase();
            self.byte_steps += 1;
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Look,
    Notify,
    Send(u64),
}

fn steps(longest_gap_ns: u64) -> impl Strategy<Value = Vec<(u64, Step)>> {
    let step =
        prop_oneof![Just(Step::Look), Just(Step::Notify), (1_u64..300_000).prop_map(Step::Send)];
    // Some gaps are whole microseconds, so that evaluations coincide with timers.
    let gap =
        prop_oneof![0..longest_gap_ns, (0..=longest_gap_ns / 1_000).prop_map(|us| us * 1_000)];
    prop::collection::vec((gap, step), 1..120)
}

prop_compose! {
    fn parameters()(
        increase_us in 1_u64..60,
        check_us in 1_u64..12,
        alpha_us in 1_u64..5,
        bytes in prop::option::of(1_000_u64..2_000_000),
        fast_recovery_steps in 0_u8..6,
        clamp_target_rate: bool,
        gain in 0.001_f64..0.2,
        additive in 1_u64..20_000_000_000,
    ) -> Parameters {
        Parameters {
            increase_timer: Duration::from_us(increase_us),
            byte_counter: bytes,
            fast_recovery_steps,
            additive_increase: Rate::from_bps(additive),
            hyper_increase: Rate::from_bps(additive.saturating_mul(3).min(LINE.as_bps())),
            gain,
            alpha_timer: Duration::from_us(alpha_us),
            cut: Cut::AtCheck(Duration::from_us(check_us)),
            clamp_target_rate,
            ..Parameters::recommended(LINE)
        }
    }
}

/// The largest difference in rate or target between both senders after any step, in bits per second.
fn largest_difference(
    parameters: &Parameters,
    steps: &[(u64, Step)],
) -> Result<u64, TestCaseError> {
    let policy = Policy::Dcqcn(parameters.clone());
    let mut lazy = Control::new(&policy, &PATH);
    let mut eager = Eager::new(parameters.clone());
    let mut now = Time::from_ps(5_000);
    let mut largest = 0;
    for &(gap_ns, step) in steps {
        now += Duration::from_ns(gap_ns);
        lazy.catch_up(&policy, &PATH, now, PhaseProgress::default());
        eager.run_to(now);
        match step {
            Step::Look => {}
            Step::Notify => {
                lazy.on_cnp(&policy, &PATH, now);
                eager.notify(now);
            }
            Step::Send(bytes) => {
                lazy.on_sent(&policy, &PATH, bytes, PhaseProgress::default());
                eager.send(bytes);
            }
        }
        let Control::Dcqcn(state) = &lazy else { unreachable!("the policy is DCQCN") };
        prop_assert_eq!(state.cuts(), eager.cuts);
        prop_assert!((state.alpha(parameters, now) - eager.alpha).abs() < 1e-9);
        let within = parameters.min_rate.as_bps()..=LINE.as_bps();
        prop_assert!(within.contains(&state.rate_bps()));
        prop_assert!(within.contains(&state.target_bps()));
        largest = largest
            .max(state.rate_bps().abs_diff(eager.rate))
            .max(state.target_bps().abs_diff(eager.target));
    }
    Ok(largest)
}

proptest! {
    #[test]
    fn lazily_evaluated_timers_equal_timers_in_a_queue(parameters in parameters(), steps in steps(40_000)) {
        // At most 40 updates of alpha are evaluated at once, so the results are equal to the last bit.
        prop_assert_eq!(largest_difference(&parameters, &steps)?, 0);
    }

    #[test]
    fn after_long_idle_times_only_rounding_differs(parameters in parameters(), steps in steps(4_000_000)) {
        let difference = largest_difference(&parameters, &steps)?;
        prop_assert!(difference <= 2, "{difference} bps");
    }
}
