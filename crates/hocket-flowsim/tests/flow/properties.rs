//! Properties of every run: bytes are conserved, runs are deterministic, and the order of jobs has no effect.

use std::collections::BTreeMap;

use hocket_des::{Duration, Rate, Time};
use hocket_flowsim::{FlowError, FlowOptions, FlowOutcome, run};
use hocket_scenario::{
    Adaptive, Cable, Crossing, Fabric, Job, LinkId, MAX_RATE, Node, NodeId, NodeKind, Phase,
    Profile, Scenario, Share, Span, Stop, Weight,
};
use proptest::prelude::*;

use crate::common::{column_ps, column_str, column_u64, job_of, run_all, up};

pub(crate) const ITERATIONS: u64 = 5;

/// Three switches in a chain: links 0 and 1 of 50 Gbps, links 2 and 3 of 70 Gbps.
pub(crate) fn fabric() -> Fabric {
    let node = |name: &str| Node { name: name.to_owned(), kind: NodeKind::Switch };
    let cable = |a, b, gbps| Cable {
        a: NodeId::new(a),
        b: NodeId::new(b),
        rate: Rate::from_gbps(gbps),
        delay: Duration::ZERO,
    };
    Fabric::new(vec![node("a"), node("b"), node("c")], &[cable(0, 1, 50), cable(1, 2, 70)])
        .expect("a chain is a fabric")
}

pub(crate) fn scenario(jobs: Vec<Job>) -> Scenario {
    let stop = Stop { iterations: Some(ITERATIONS), until: None };
    Scenario::new(fabric(), jobs, 2, 7, stop).expect("the jobs are valid")
}

fn simulate(jobs: Vec<Job>) -> FlowOutcome {
    run_all(&scenario(jobs), &FlowOptions::default())
}

fn share() -> impl Strategy<Value = Share> {
    let weight = (1_u32..5)
        .prop_map(|weight| Weight::new(f64::from(weight)).expect("1 to 4 are valid weights"));
    (0..4, weight).prop_map(|(kind, weight)| match kind {
        0 => Share::Fair,
        1 => Share::Weighted(weight),
        2 => Share::adaptive(weight),
        _ => {
            let span = Span::Iteration;
            Share::Adaptive(Adaptive { intercept: Weight::ONE, slope: weight, span })
        }
    })
}

fn any_job() -> impl Strategy<Value = Job> {
    // Times are whole milliseconds and rates whole Gbps, so that every phase sends a whole number of bytes.
    let phases = prop::collection::vec((0_u64..40, 1_u64..60, 1_u64..60), 1..4);
    let crossings = prop::collection::btree_map(0_u32..4, 1_u32..3, 0..4);
    (phases, 0_u64..50, crossings, share(), 0_u8..3, 0_u64..300).prop_map(
        |(phases, tail_ms, crossings, share, priority, arrival_ms)| {
            let mut end_ms = 0;
            let mut placed = Vec::new();
            for (gap_ms, duration_ms, gbps) in phases {
                placed.push(up(end_ms + gap_ms, duration_ms, gbps));
                end_ms += gap_ms + duration_ms;
            }
            let crossing = |(link, flows)| Crossing { link: LinkId::new(link), flows };
            Job {
                share,
                priority,
                arrival: Time::ZERO + Duration::from_ms(arrival_ms),
                ..job_of("", end_ms + tail_ms, &placed)
                    .crossing(crossings.into_iter().map(crossing).collect())
            }
        },
    )
}

pub(crate) fn any_jobs() -> impl Strategy<Value = Vec<Job>> {
    prop::collection::vec(any_job(), 1..5).prop_map(named)
}

/// `jobs` with distinct names.
fn named(jobs: Vec<Job>) -> Vec<Job> {
    jobs.into_iter()
        .enumerate()
        .map(|(index, job)| Job { name: format!("job{index}"), ..job })
        .collect()
}

/// A job of one phase, whose times, rate and weight may be close to their limits.
fn extreme_job() -> impl Strategy<Value = Job> {
    // Small and large numbers are equally likely.
    let any_ps = || (0_u32..64, any::<u64>()).prop_map(|(shift, bits)| bits >> shift);
    let phase = (any_ps(), any_ps(), any_ps(), 1_u64..=MAX_RATE.as_bps());
    let share = (0.02..1_000.0_f64).prop_map(|weight| {
        Share::adaptive(Weight::new(weight).expect("the range lies within the limits of a weight"))
    });
    let others = (0.0..=1.0_f64, any_ps(), any_ps(), any_ps(), 1_u32..=1 << 16);
    (phase, share, others).prop_filter_map("the profile is valid", |(phase, share, others)| {
        let (start, duration, tail, bps) = phase;
        let (jitter, arrival, time_shift, clock_error, flows) = others;
        let start = Duration::from_ps(start);
        let duration = Duration::from_ps(duration);
        let period = start.checked_add(duration)?.checked_add(Duration::from_ps(tail))?;
        let phase = Phase { start, duration, rate: Rate::from_bps(bps) };
        let profile = Profile::new(period, vec![phase]).ok()?;
        let crossings = vec![Crossing { link: LinkId::new(0), flows }];
        Some(Job {
            share,
            jitter,
            arrival: Time::from_ps(arrival),
            time_shift: Some(Duration::from_ps(time_shift)),
            clock_error: Duration::from_ps(clock_error),
            readjust: true,
            ..Job::new("", profile, crossings)
        })
    })
}

/// By job: the start and end of each iteration, in picoseconds.
fn spans(outcome: &FlowOutcome) -> BTreeMap<String, Vec<(u64, u64)>> {
    let iterations = &outcome.tables.iterations;
    let mut spans: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for ((job, start_ps), end_ps) in column_str(iterations, "job")
        .into_iter()
        .zip(column_ps(iterations, "start_s"))
        .zip(column_ps(iterations, "end_s"))
    {
        spans.entry(job.to_owned()).or_default().push((start_ps, end_ps));
    }
    spans
}

fn profiles<'a>(jobs: impl IntoIterator<Item = &'a Job>) -> impl Iterator<Item = &'a Profile> {
    jobs.into_iter().filter_map(Job::periodic).map(|periodic| &periodic.profile)
}

proptest! {
    #[test]
    fn every_link_carries_the_bytes_of_all_phases(jobs in any_jobs()) {
        let outcome = simulate(jobs.clone());
        let mut expected = Vec::new();
        for link in 0..4 {
            for job in &jobs {
                let periodic = job.periodic().expect("all jobs are periodic");
                let crossing = periodic.crossings.iter().find(|each| each.link == LinkId::new(link));
                let bytes_per_flow = periodic.profile.bytes_per_iteration().get() * ITERATIONS;
                expected.extend(crossing.map(|each| bytes_per_flow * u64::from(each.flows)));
            }
        }
        prop_assert_eq!(column_u64(&outcome.tables.links, "bytes"), expected);
        let phases: u64 = profiles(&jobs).map(|profile| profile.phases().len() as u64).sum();
        prop_assert_eq!(outcome.tables.phases.rows() as u64, phases * ITERATIONS);
    }

    #[test]
    fn a_run_ends_with_its_last_iteration(jobs in any_jobs()) {
        let outcome = simulate(jobs);
        let last_ps = column_ps(&outcome.tables.iterations, "end_s").last().copied();
        prop_assert_eq!(Some(outcome.end.ended.as_ps()), last_ps);
    }

    #[test]
    fn the_order_of_jobs_changes_nothing(jobs in any_jobs(), places in 0_usize..4) {
        let mut rotated = jobs.clone();
        rotated.rotate_left(places % jobs.len());
        prop_assert_eq!(spans(&simulate(jobs)), spans(&simulate(rotated)));
    }

    #[test]
    fn iterations_last_at_least_the_period_and_exactly_that_without_links(jobs in any_jobs()) {
        let together = spans(&simulate(jobs.clone()));
        for job in jobs {
            let period_ps = profiles([&job]).next().expect("one job").period().as_ps();
            prop_assert!(together[&job.name].iter().all(|(start, end)| end - start >= period_ps));
            let local = spans(&simulate(vec![job.clone().crossing(Vec::new())]));
            prop_assert!(local[&job.name].iter().all(|(start, end)| end - start == period_ps));
        }
    }

    #[test]
    fn the_same_scenario_gives_the_same_outcome(jobs in any_jobs()) {
        let noisy: Vec<_> = jobs
            .into_iter()
            .map(|job| Job {
                jitter: 0.05,
                time_shift: Some(Duration::from_ms(20)),
                clock_error: Duration::from_ms(1),
                readjust: true,
                ..job
            })
            .collect();
        prop_assert_eq!(simulate(noisy.clone()), simulate(noisy));
    }

    #[test]
    fn an_extreme_scenario_runs_to_its_end_or_stalls_or_takes_too_long(
        jobs in prop::collection::vec(extreme_job(), 1..4),
        bps in 1_u64..=MAX_RATE.as_bps(),
        bits_fewer in 0_u32..50,
    ) {
        let rate = Rate::from_bps((bps >> bits_fewer).max(1));
        let fabric = Fabric::one_link(rate, Duration::ZERO).expect("the rate is above zero");
        let stop = Stop { iterations: Some(3), until: None };
        if let Ok(scenario) = Scenario::new(fabric, named(jobs), 1, 3, stop) {
            match run(&scenario, &FlowOptions::default()) {
                Ok(outcome) => prop_assert!(outcome.tables.iterations.rows() >= 3),
                Err(error) => prop_assert!(matches!(
                    error,
                    FlowError::Stalled { .. } | FlowError::TooLong { .. }
                ), "{error}"),
            }
        }
    }
}
