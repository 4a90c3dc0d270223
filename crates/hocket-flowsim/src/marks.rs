//! How many packets a switch marks on a full link: a fit to the packet engine, since constant rates between events build
//! no queue. Which links are full, and which flows share them, is left to the engine.

use hocket_des::{Duration, Rate, Time};
use thiserror::Error;

/// The smallest number of flows that builds a queue: a switch forwards a single flow as it arrives.
const FEWEST: u64 = 2;

/// The marks of a congestion control on a link of one rate, by the number of flows that the link holds back.
///
/// While it holds back n flows, `per_second` of n packets are marked each second: the control has settled, and any
/// increase of a rate soon causes marks. A joining flow finds the others at rates that leave it no room:
/// `per_join` of n further packets are marked when the n-th flow joins, spread over time as e^(−t ÷ `settling`). A link
/// that held flows back until a time t ago has only 1 − e^(−t ÷ `recovery`) of these, as rates have not fully recovered.
#[derive(Clone, Debug, PartialEq)]
pub struct MarkModel {
    per_second: Vec<f64>,
    per_join: Vec<f64>,
    settling: Duration,
    recovery: Duration,
}

/// Why numbers do not form a model.
#[derive(Clone, Debug, PartialEq, Error)]
#[expect(missing_docs, reason = "each variant's message says what it is")]
pub enum MarkModelError {
    #[error(
        "{per_second} rates and {per_join} bursts; their numbers must be equal, and at least 2"
    )]
    Lengths { per_second: usize, per_join: usize },
    #[error("{value} marks for {flows} flows; the number must be finite and at least 0")]
    Value { flows: u64, value: f64 },
    #[error("the time to settle or to recover is 0; it must be longer")]
    NoTime,
}

/// The state of the model on one link, which holds back no flow at first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkMarks {
    /// The number of flows that it holds back.
    flows: u64,
    /// The marks still to come from flows that have joined.
    burst: f64,
    /// The time of the last call.
    updated: Time,
    /// When it last held a flow back, if it ever did.
    held: Option<Time>,
}

impl MarkModel {
    /// A model in which element i of `per_second` and of `per_join` is for i + 2 flows. Beyond the last element, rates are
    /// extrapolated linearly from the last two, and bursts are constant.
    ///
    /// # Errors
    /// If the lists have fewer than two elements or different lengths, if an element is negative, infinite or not a number, or
    /// if a time is zero.
    pub fn new(
        per_second: Vec<f64>,
        per_join: Vec<f64>,
        settling: Duration,
        recovery: Duration,
    ) -> Result<Self, MarkModelError> {
        if per_second.len() != per_join.len() || per_second.len() < 2 {
            let (per_second, per_join) = (per_second.len(), per_join.len());
            return Err(MarkModelError::Lengths { per_second, per_join });
        }
        for values in [&per_second, &per_join] {
            let invalid = |(_, value): &(u64, &f64)| !(value.is_finite() && **value >= 0.0);
            if let Some((flows, &value)) = (FEWEST..).zip(values).find(invalid) {
                return Err(MarkModelError::Value { flows, value });
            }
        }
        if settling.is_zero() || recovery.is_zero() {
            return Err(MarkModelError::NoTime);
        }
        Ok(Self { per_second, per_join, settling, recovery })
    }

    /// Marks per second once the rates of `flows` flows have settled.
    fn per_second(&self, flows: u64) -> f64 {
        let Some(place) = flows.checked_sub(FEWEST) else { return 0.0 };
        let last = self.per_second.len() - 1;
        let beyond = place.saturating_sub(last as u64);
        let slope = self.per_second[last] - self.per_second[last - 1];
        let within = self.per_second[usize::try_from(place).map_or(last, |place| place.min(last))];
        // A falling line must not become negative.
        (within + slope * beyond as f64).max(0.0)
    }

    /// Further marks when the last one of `flows` flows joins.
    fn per_join(&self, flows: u64) -> f64 {
        let Some(place) = flows.checked_sub(FEWEST) else { return 0.0 };
        let last = self.per_join.len() - 1;
        self.per_join[usize::try_from(place).map_or(last, |place| place.min(last))]
    }

    /// Further marks when the number of flows rises from `before` to `flows`; 0 if it does not rise.
    fn per_joins(&self, before: u64, flows: u64) -> f64 {
        (before..flows).map(|others| self.per_join(others + 1)).sum()
    }
}

/// The fraction left after `elapsed` of a quantity that decays with the time constant `decay`.
fn left_after(elapsed: Duration, decay: Duration) -> f64 {
    (-elapsed.as_secs_f64() / decay.as_secs_f64()).exp()
}

impl LinkMarks {
    /// Returns the marks since the last call. From `now` on, the link holds back `flows` flows; 0 if it is not full.
    ///
    /// ```
    /// use hocket_des::{Duration, Time};
    /// use hocket_flowsim::{LinkMarks, MarkModel};
    ///
    /// let (settling, recovery) = (Duration::from_ms(5), Duration::from_ms(20));
    /// let model = MarkModel::new(vec![6_000.0, 8_000.0], vec![600.0, 1_400.0], settling, recovery)?;
    /// let mut link = LinkMarks::default();
    /// let at = |ms| Time::ZERO + Duration::from_ms(ms);
    /// assert_eq!(link.hold(&model, at(1_000), 2), 0.0);
    /// // Two flows share the link for a second: 6,000 marks, and 600 at the beginning.
    /// assert_eq!(link.hold(&model, at(2_000), 0).round(), 6_600.0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// If `now` lies before the last call.
    pub fn hold(&mut self, model: &MarkModel, now: Time, flows: u64) -> f64 {
        let elapsed = now.since(self.updated);
        let left = self.burst * left_after(elapsed, model.settling);
        let settled = model.per_second(self.flows) * elapsed.as_secs_f64();
        let marks = settled + self.burst - left;
        if self.flows > 0 {
            self.held = Some(now);
        }
        // Without contention, the queue from which the burst comes has drained.
        self.burst = if flows == 0 { 0.0 } else { left + self.joining(model, now, flows) };
        self.flows = flows;
        self.updated = now;
        marks
    }

    /// The number of flows that it holds back.
    pub(crate) fn flows(&self) -> u64 {
        self.flows
    }

    /// Moves its clock on by `by`, in which nothing changes.
    pub(crate) fn postpone(&mut self, by: Duration) {
        self.updated += by;
        self.held = self.held.map(|held| held + by);
    }

    /// Further marks because the link holds back `flows` flows from `now` on.
    fn joining(&self, model: &MarkModel, now: Time, flows: u64) -> f64 {
        let still_down = self.held.map_or(0.0, |held| left_after(now.since(held), model.recovery));
        // `per_join` is for flows that join settled ones. Only after a pause can their rates be lower.
        let recovered = if self.flows == 0 { 1.0 - still_down } else { 1.0 };
        recovered * model.per_joins(self.flows, flows)
    }
}

/// The number of flows that count as held back on a full link of rate `link`, on which `held` of `flows` flows send less than
/// they demand. `inputs` is the total rate of the links over which they arrive.
///
/// It is 0 if no more can arrive than the link carries: the links before it hold the flows back. A flow that gets all that it
/// demands has its share of the marks but adds none, except that it counts as the second flow beside a single one that is
/// held back.
pub(crate) fn contenders(held: u64, flows: u64, inputs: Rate, link: Rate) -> u64 {
    if inputs <= link || flows < FEWEST { 0 } else { held.max(FEWEST) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn model() -> MarkModel {
        marks(vec![6_000.0, 8_000.0, 11_000.0], vec![600.0, 1_400.0, 1_300.0]).unwrap()
    }

    fn marks(per_second: Vec<f64>, per_join: Vec<f64>) -> Result<MarkModel, MarkModelError> {
        MarkModel::new(per_second, per_join, Duration::from_ms(5), Duration::from_ms(20))
    }

    fn whole(marks: f64) -> i64 {
        marks.round() as i64
    }

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_ms(ms)
    }

    #[test]
    fn one_flow_is_never_marked() {
        let mut link = LinkMarks::default();
        link.hold(&model(), at(0), 1);
        assert_eq!(whole(link.hold(&model(), at(1_000), 0)), 0);
    }

    #[test]
    fn a_third_flow_brings_its_own_burst_and_the_rate_of_three() {
        let mut link = LinkMarks::default();
        link.hold(&model(), at(0), 2);
        let of_two = link.hold(&model(), at(1_000), 3);
        assert_eq!(whole(of_two), 6_000 + 600);
        assert_eq!(whole(link.hold(&model(), at(2_000), 0)), 8_000 + 1_400);
    }

    #[test]
    fn flows_that_come_together_bring_the_bursts_of_all() {
        let mut link = LinkMarks::default();
        link.hold(&model(), at(0), 3);
        assert_eq!(whole(link.hold(&model(), at(1_000), 2)), 8_000 + 600 + 1_400);
        // The flows that stay were there before: no burst.
        assert_eq!(whole(link.hold(&model(), at(2_000), 0)), 6_000);
    }

    #[test]
    fn a_burst_ends_with_the_contention() {
        let mut link = LinkMarks::default();
        link.hold(&model(), at(0), 2);
        let short = link.hold(&model(), at(1), 0);
        assert!(short < 6.0 + 600.0 / 5.0, "{short} marks in 1 ms of the 5 that a burst takes");
        assert_eq!(whole(link.hold(&model(), at(1_000), 0)), 0);
    }

    #[test]
    fn flows_that_contended_shortly_before_have_not_recovered() {
        let burst_after = |gap_ms: u64| {
            let mut link = LinkMarks::default();
            link.hold(&model(), at(0), 2);
            link.hold(&model(), at(1_000), 0);
            link.hold(&model(), at(1_000 + gap_ms), 2);
            whole(link.hold(&model(), at(2_000 + gap_ms), 0)) - 6_000
        };
        assert_eq!(burst_after(1_000), 600);
        assert_eq!(burst_after(20), 379, "600 × (1 − 1/e)");
        assert_eq!(burst_after(0), 0);
    }

    #[test]
    fn beyond_the_last_number_of_flows_rates_are_extrapolated() {
        assert_eq!(whole(model().per_second(6)), 11_000 + 2 * 3_000);
        assert_eq!(whole(model().per_join(6)), 1_300);
    }

    #[test]
    fn traffic_held_back_by_one_link_does_not_queue_at_the_next() {
        let (link, twice) = (Rate::from_gbps(50), Rate::from_gbps(100));
        assert_eq!(contenders(3, 3, link, link), 0);
        assert_eq!(contenders(3, 3, twice, link), 3);
    }

    #[test]
    fn a_small_flow_beside_a_large_one_makes_two() {
        let (link, four_times) = (Rate::from_gbps(50), Rate::from_gbps(200));
        assert_eq!(contenders(1, 2, four_times, link), 2);
        assert_eq!(contenders(2, 4, four_times, link), 2);
    }

    #[test]
    fn an_invalid_number_of_marks_is_refused_with_its_number_of_flows() {
        let error = marks(vec![1.0, -2.0], vec![1.0, 1.0]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "-2 marks for 3 flows; the number must be finite and at least 0"
        );
        let error = marks(vec![1.0], vec![1.0, 1.0]).unwrap_err();
        assert_eq!(error, MarkModelError::Lengths { per_second: 1, per_join: 2 });
    }

    proptest! {
        #[test]
        fn more_frequent_calls_change_no_sum(
            changes in prop::collection::vec((1_u64..50, 0_u64..6), 1..20),
            looks in 2_u64..10,
        ) {
            let (mut once, mut often) = (LinkMarks::default(), LinkMarks::default());
            let (mut of_once, mut of_often, mut now) = (0.0, 0.0, Time::ZERO);
            let mut held = 0;
            for (ms, flows) in changes {
                let span = Duration::from_ms(ms);
                for look in 1..looks {
                    let at = now + Duration::from_ps(span.as_ps() / looks * look);
                    of_often += often.hold(&model(), at, held);
                }
                now += span;
                of_once += once.hold(&model(), now, flows);
                of_often += often.hold(&model(), now, flows);
                held = flows;
            }
            prop_assert!((of_once - of_often).abs() < 1e-6, "{of_once} and {of_often}");
        }
    }
}
