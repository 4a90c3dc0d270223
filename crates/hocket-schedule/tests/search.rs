//! The guarantees of a round of the search, and its results against the best of all allocations.

use hocket_schedule::{
    Cell, Fitness, PolluxJob, PolluxProblem, PolluxSearch, Round, ScheduleError, SearchOptions,
    Worth,
};
use proptest::prelude::*;

const OPTIONS: SearchOptions = SearchOptions { population: 100, generations: 100 };
const FAIR: Fitness = Fitness::PowerMean { exponent: -1.0 };

/// A job that is worth `worths[n - 1]` on n workers, and a fifth more on one node.
fn job(key: u64, worths: &[f64]) -> PolluxJob {
    let size = |(more, worth): (usize, &f64)| Worth {
        workers: more as u32 + 1,
        on_one_node: 1.2 * worth,
        across_nodes: *worth,
    };
    PolluxJob {
        key,
        sizes: worths.iter().enumerate().map(size).collect(),
        cells: Vec::new(),
        restart_factor: 1.0,
        pinned: false,
    }
}

fn running(job: PolluxJob, cells: &[Cell]) -> PolluxJob {
    PolluxJob { cells: cells.to_vec(), ..job }
}

fn problem(gpus: &[u32], jobs: &[PolluxJob], fitness: Fitness) -> PolluxProblem {
    PolluxProblem::new(gpus, jobs.to_vec(), fitness).expect("jobs fit where they run")
}

fn first_round(gpus: &[u32], jobs: &[PolluxJob], fitness: Fitness) -> Round {
    PolluxSearch::new(OPTIONS, 1).round(&problem(gpus, jobs, fitness))
}

fn workers(row: &[Cell]) -> u32 {
    row.iter().map(|(_, workers)| workers).sum()
}

/// What a row is worth, calculated independently of the search.
fn worth(job: &PolluxJob, row: &[Cell]) -> f64 {
    let size = job.sizes.iter().find(|size| size.workers == workers(row));
    let worth =
        size.map_or(0.0, |size| if row.len() > 1 { size.across_nodes } else { size.on_one_node });
    if row == job.cells { worth } else { worth * job.restart_factor }
}

fn fitness(jobs: &[PolluxJob], rows: &[Vec<Cell>], kind: Fitness) -> f64 {
    let worths = jobs.iter().zip(rows).map(|(job, row)| worth(job, row));
    match kind {
        Fitness::Sum => worths.sum(),
        Fitness::PowerMean { exponent } => {
            let mean = worths.map(|worth| (worth + 1e-3).powf(exponent)).sum::<f64>();
            (mean / jobs.len() as f64).powf(1.0 / exponent)
        }
    }
}

/// Why an allocation is not allowed, if it is not.
fn violation(gpus: &[u32], jobs: &[PolluxJob], rows: &[Vec<Cell>]) -> Option<String> {
    for (node, capacity) in gpus.iter().enumerate() {
        let here = |row: &&Vec<Cell>| row.iter().any(|(at, _)| *at == node);
        let used: u32 =
            rows.iter().flatten().filter(|(at, _)| *at == node).map(|cell| cell.1).sum();
        let distributed = rows.iter().filter(here).filter(|row| row.len() > 1).count();
        if used > *capacity || distributed > 1 {
            return Some(format!("node {node}: {used} workers, {distributed} distributed jobs"));
        }
    }
    let odd = |(job, row): (&PolluxJob, &Vec<Cell>)| {
        let runs = row.is_empty() || job.sizes.iter().any(|size| size.workers == workers(row));
        (!runs).then(|| format!("job {}: {} workers", job.key, workers(row)))
    };
    jobs.iter().zip(rows).find_map(odd)
}

/// The best fitness of all allowed allocations.
fn best_of_all(gpus: &[u32], jobs: &[PolluxJob], kind: Fitness) -> f64 {
    let cells = jobs.len() * gpus.len();
    let mut counts = vec![0; cells];
    let mut best = f64::NEG_INFINITY;
    loop {
        let row = |job: usize| {
            let row = counts[job * gpus.len()..(job + 1) * gpus.len()].iter().copied().enumerate();
            row.filter(|(_, workers)| *workers > 0).collect::<Vec<Cell>>()
        };
        let rows: Vec<Vec<Cell>> = (0..jobs.len()).map(row).collect();
        if violation(gpus, jobs, &rows).is_none() {
            best = best.max(fitness(jobs, &rows, kind));
        }
        // The next allocation: counts up like a number whose digits go up to the GPUs of their nodes.
        let Some(cell) = (0..cells).find(|cell| counts[*cell] < gpus[cell % gpus.len()]) else {
            return best;
        };
        counts[..cell].fill(0);
        counts[cell] += 1;
    }
}

#[test]
fn two_jobs_alike_share_four_gpus_equally() {
    let jobs = [job(0, &[1.0, 1.9, 2.7, 3.4]), job(1, &[1.0, 1.9, 2.7, 3.4])];
    let round = first_round(&[1; 4], &jobs, FAIR);
    assert_eq!(round.rows.iter().map(|row| workers(row)).collect::<Vec<_>>(), [2, 2]);
    assert!((round.fitness - 1.901).abs() < 1e-12, "both are worth 1.9: {}", round.fitness);
}

#[test]
fn the_sum_favours_the_job_that_scales_and_the_power_mean_the_other() {
    let jobs = [job(0, &[1.0, 2.0, 3.0]), job(1, &[0.1, 0.2, 0.3])];
    let by = |fitness| {
        first_round(&[1; 3], &jobs, fitness).rows.iter().map(|row| workers(row)).collect()
    };
    let (sum, fair): (Vec<u32>, Vec<u32>) = (by(Fitness::Sum), by(FAIR));
    assert_eq!((sum, fair), (vec![3, 0], vec![1, 2]));
}

#[test]
fn a_job_takes_one_node_where_that_is_worth_more() {
    let round = first_round(&[2, 2], &[job(0, &[1.0, 1.9]), job(1, &[1.0, 1.9])], FAIR);
    assert!(round.rows.iter().all(|row| row.len() == 1 && workers(row) == 2), "{:?}", round.rows);
}

#[test]
fn a_job_that_gains_less_than_a_restart_costs_stays() {
    let grows = |restart_factor| {
        let base = running(job(0, &[1.0, 1.5]), &[(1, 1)]);
        first_round(&[1, 1], &[PolluxJob { restart_factor, ..base }], FAIR).rows[0].len() == 2
    };
    assert!(
        grows(0.9) && !grows(0.7),
        "1.5 × 0.9 is more than the 1.2 of now, and 1.5 × 0.7 is less"
    );
}

#[test]
fn a_round_ends_when_no_allocation_can_be_better() {
    let small = job(0, &[1.0, 1.1]);
    let generations = |job: PolluxJob| first_round(&[1, 1], &[job], FAIR).generations;
    assert_eq!(
        generations(PolluxJob { restart_factor: 0.5, ..running(small.clone(), &[(0, 1)]) }),
        0
    );
    assert_eq!(generations(PolluxJob { pinned: true, ..running(small.clone(), &[(0, 1)]) }), 0);
    // One worker on one node is worth 1.2, which two nodes are not.
    assert!((1..100).contains(&generations(small)));
}

#[test]
fn pinned_jobs_stay_and_others_take_what_is_left() {
    let pinned = PolluxJob { pinned: true, ..running(job(0, &[1.0, 1.9]), &[(0, 1)]) };
    let round = first_round(&[2, 1], &[pinned, job(1, &[1.0, 1.9])], FAIR);
    assert_eq!(round.rows[0], [(0, 1)]);
    assert_eq!(round.rows[1], [(0, 1), (1, 1)]);
}

#[test]
fn a_job_that_needs_many_workers_at_once_gets_them() {
    let mut large = job(0, &[1.0; 8]);
    large.sizes.retain(|size| size.workers == 8);
    let jobs = [large, running(job(1, &[1.0, 1.5, 1.8, 2.0]), &[(0, 1), (1, 1), (2, 1), (3, 1)])];
    let round = first_round(&[1; 10], &jobs, FAIR);
    assert_eq!(round.rows.iter().map(|row| workers(row)).collect::<Vec<_>>(), [8, 2]);
}

#[test]
fn a_later_round_is_no_worse_than_what_is_in_force() {
    let mut jobs: Vec<PolluxJob> =
        (0..6).map(|key| job(key, &[1.0, 1.6, 2.1, 2.5, 2.8 + key as f64 / 10.0])).collect();
    let mut search = PolluxSearch::new(SearchOptions { population: 20, generations: 5 }, 3);
    for _ in 0..10 {
        let round = search.round(&problem(&[2; 8], &jobs, FAIR));
        assert!(round.fitness >= round.fitness_before);
        jobs.iter_mut().zip(round.rows).for_each(|(job, row)| job.cells = row);
    }
}

#[test]
fn what_does_not_fit_is_refused_with_its_node() {
    let error = |gpus: &[u32], job: PolluxJob| {
        PolluxProblem::new(gpus, vec![job], FAIR).expect_err("is refused")
    };
    let two = || job(7, &[1.0, 1.9]);
    assert_eq!(error(&[256], two()), ScheduleError::LargeNode { node: 0, workers: 256 });
    assert_eq!(
        error(&[1], running(two(), &[(0, 2)])),
        ScheduleError::Overfull { node: 0, capacity: 1, workers: 2 }
    );
    assert_eq!(
        error(&[1], running(two(), &[(1, 1)])),
        ScheduleError::UnknownNode { node: 1, nodes: 1 }
    );
    let mut backwards = two();
    backwards.sizes.reverse();
    assert_eq!(error(&[1], backwards), ScheduleError::Sizes { key: 7, sizes: vec![2, 1] });
}

fn any_job(key: u64, largest: usize) -> impl Strategy<Value = PolluxJob> {
    // More workers may be worth less.
    let gains = prop::collection::vec(-0.4..1.0_f64, 1..=largest);
    (gains, prop::bool::weighted(0.3)).prop_map(move |(gains, only_even)| {
        let sums = gains.iter().scan(0.0, |sum, gain| {
            *sum = (*sum + gain).max(0.05);
            Some(*sum)
        });
        let mut job = job(key, &sums.collect::<Vec<f64>>());
        if only_even && job.sizes.len() > 1 {
            job.sizes.retain(|size| size.workers % 2 == 0);
        }
        job
    })
}

fn jobs(
    count: std::ops::RangeInclusive<usize>,
    largest: usize,
) -> impl Strategy<Value = Vec<PolluxJob>> {
    count.prop_flat_map(move |count| {
        (0..count).map(|key| any_job(key as u64, largest).boxed()).collect::<Vec<_>>()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn no_allocation_of_a_tiny_cluster_is_better(
        gpus in prop::sample::select(vec![vec![1; 4], vec![2, 2], vec![2, 1, 1]]),
        jobs in jobs(2..=3, 4),
        fair in any::<bool>(),
    ) {
        let kind = if fair { FAIR } else { Fitness::Sum };
        let round = first_round(&gpus, &jobs, kind);
        let best = best_of_all(&gpus, &jobs, kind);
        prop_assert!((round.fitness - best).abs() < 1e-9, "found {}, best {best}", round.fitness);
    }

    #[test]
    fn every_answer_is_allowed_and_worth_what_it_says(
        gpus in prop::collection::vec(1..5_u32, 1..8),
        jobs in jobs(1..=7, 6),
        changes in prop::collection::vec((0.0..1.0_f64, any::<bool>()), 7),
        seed in any::<u64>(),
    ) {
        let mut search = PolluxSearch::new(SearchOptions { population: 12, generations: 6 }, seed);
        let mut jobs = jobs;
        for _ in 0..3 {
            let round = search.round(&problem(&gpus, &jobs, FAIR));
            prop_assert_eq!(violation(&gpus, &jobs, &round.rows), None);
            prop_assert!((fitness(&jobs, &round.rows, FAIR) - round.fitness).abs() < 1e-9);
            for ((job, row), (restart_factor, pinned)) in
                jobs.iter_mut().zip(&round.rows).zip(&changes)
            {
                prop_assert!(!job.pinned || *row == job.cells, "a pinned job moved");
                job.cells.clone_from(row);
                job.restart_factor = *restart_factor;
                job.pinned = *pinned && !row.is_empty();
            }
            // One job leaves and another of its kind arrives.
            jobs.rotate_left(1);
            if let Some(last) = jobs.last_mut() {
                *last = PolluxJob { key: last.key + 10, cells: Vec::new(), pinned: false, ..last.clone() };
            }
        }
    }

    #[test]
    fn the_same_seed_and_rounds_give_the_same_answers(jobs in jobs(1..=5, 5), seed in any::<u64>()) {
        let rounds = || {
            let mut search = PolluxSearch::new(SearchOptions { population: 10, generations: 5 }, seed);
            let problem = problem(&[2; 4], &jobs, FAIR);
            [search.round(&problem), search.round(&problem)]
        };
        prop_assert_eq!(rounds(), rounds());
    }
}
