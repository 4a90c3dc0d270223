//! Properties of every run: bytes are conserved, runs are deterministic, and names and order have no effect.

use std::collections::BTreeMap;

use hocket_des::{Duration, Rate, Time};
use hocket_flowsim::{FlowError, FlowOptions, FlowOutcome, run};
use hocket_scenario::{
    Cable, Crossing, Fabric, Job, LinkId, MAX_RATE, Node, NodeId, NodeKind, Phase, Profile,
    Scenario, Share, Stop, Weight,
};
use proptest::prelude::*;

use crate::common::{column_ps, column_str, column_u64, job_of, run_all, up};

pub(crate) const ITERATIONS: u64 = 5;

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
    Scenario::new(fabric(), jobs, 2, 7, stop).expect("the strategy gives valid jobs")
}

fn simulate(jobs: Vec<Job>) -> FlowOutcome {
    run_all(&scenario(jobs), &FlowOptions::default())
}

fn share() -> impl Strategy<Value = Share> {
    let weight =
        (1_u32..5).prop_map(|weight| Weight::new(f64::from(weight)).expect("1 to 4 are weights"));
    (0..3, weight).prop_map(|(kind, weight)| match kind {
        0 => Share::Fair,
        1 => Share::Weighted(weight),
        _ => Share::Adaptive(weight),
    })
}

fn any_job() -> impl Strategy<Value = Job> {
    // Whole milliseconds and gigabits per second: every phase is a whole number of bytes.
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

fn named(jobs: Vec<Job>) -> Vec<Job> {
    let numbered = jobs.into_iter().enumerate();
    numbered.map(|(index, job)| Job { name: format!("job{index}"), ..job }).collect()
}

fn extreme_job() -> impl Strategy<Value = Job> {
    let magnitude = || (0_u32..64, any::<u64>()).prop_map(|(shift, bits)| bits >> shift);
    let phase = (magnitude(), magnitude(), magnitude(), 1_u64..=MAX_RATE.as_bps());
    let share = (0.02..1_000.0_f64).prop_map(|weight| {
        Share::Adaptive(Weight::new(weight).expect("the range lies within the limits"))
    });
    let policy = (0.0..=1.0_f64, magnitude(), magnitude(), magnitude(), 1_u32..=1 << 16);
    (phase, share, policy).prop_filter_map("the phase fits", |(phase, share, policy)| {
        let (start, duration, tail, bps) = phase;
        let (jitter, arrival, time_shift, clock_error, flows) = policy;
        let start = Duration::from_ps(start);
        let duration = Duration::from_ps(duration);
        let end = start.checked_add(duration)?.checked_add(Duration::from_ps(tail))?;
        let phase = Phase { start, duration, rate: Rate::from_bps(bps) };
        let profile = Profile::new(end, vec![phase]).ok()?;
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

/// Start and end of each job's iterations.
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
                let per_flow = periodic.profile.bytes_per_iteration().get() * ITERATIONS;
                expected.extend(crossing.map(|each| per_flow * u64::from(each.flows)));
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
    fn the_order_of_jobs_changes_nothing(jobs in any_jobs(), turn in 0_usize..4) {
        let mut turned = jobs.clone();
        turned.rotate_left(turn % jobs.len());
        prop_assert_eq!(spans(&simulate(jobs)), spans(&simulate(turned)));
    }

    #[test]
    fn no_iteration_is_shorter_than_on_an_idle_network_and_alone_it_is_exact(jobs in any_jobs()) {
        let together = spans(&simulate(jobs.clone()));
        for job in jobs {
            let period_ps = profiles([&job]).next().expect("one job").period().as_ps();
            prop_assert!(together[&job.name].iter().all(|(start, end)| end - start >= period_ps));
            let alone = spans(&simulate(vec![job.clone().crossing(Vec::new())]));
            prop_assert!(alone[&job.name].iter().all(|(start, end)| end - start == period_ps));
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
    fn a_scenario_at_the_limits_runs_or_says_why_not(
        jobs in prop::collection::vec(extreme_job(), 1..4),
        bps in 1_u64..=MAX_RATE.as_bps(),
        shift in 0_u32..50,
    ) {
        let rate = Rate::from_bps((bps >> shift).max(1));
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
