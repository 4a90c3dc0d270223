//! Arriving, moving and departing jobs in one run: they behave as in a scenario of the same jobs, wherever the run pauses.

use std::collections::BTreeMap;

use hocket_des::{Bytes, Duration, Rate, Time};
use hocket_flowsim::cluster::{
    ClusterRun, Encounter, Ended, Rest, Settings, SimilarIterations, Start,
};
use hocket_flowsim::{FlowOptions, FlowOutcome, Goodput, MarkModel};
use hocket_scenario::closed_loop::Slots;
use hocket_scenario::{
    Cable, Crossing, Fabric, Job, JobId, LinkId, Node, NodeId, NodeKind, Periodic, Profile, Share,
    Work,
};
use proptest::prelude::*;

use crate::common::{column_ps, column_str, column_u64, job_of, run_all, run_on_one_link, up};
use crate::properties::{ITERATIONS, any_jobs, fabric, scenario};

fn at(ms: u64) -> Time {
    Time::ZERO + Duration::from_ms(ms)
}

/// A start of `iterations` iterations, each with compute followed by `gbps` on link 0.
fn start(compute_ms: u64, up_ms: u64, gbps: u64, iterations: u64) -> Start {
    let period = Duration::from_ms(compute_ms + up_ms);
    let profile = Profile::new(period, vec![up(compute_ms, up_ms, gbps)]).expect("Up ends with it");
    Start { iterations, ..Start::new(profile, vec![Crossing { link: LinkId::new(0), flows: 1 }]) }
}

fn one_link() -> Fabric {
    Fabric::one_link(Rate::from_gbps(50), Duration::ZERO).expect("one link is a fabric")
}

fn one_by_one(rows: &[SimilarIterations], job: JobId) -> Vec<(u64, u64)> {
    let of_job = rows.iter().filter(|row| row.job == job);
    let each = of_job.flat_map(|row| {
        let length = row.duration.as_ps() / row.count;
        (0..row.count).map(move |place| {
            let start = row.start.as_ps() + place * length;
            (start, start + length)
        })
    });
    each.collect()
}

fn of_scenario(outcome: &FlowOutcome) -> BTreeMap<String, Vec<(u64, u64)>> {
    let table = &outcome.tables.iterations;
    let (starts, ends) = (column_ps(table, "start_s"), column_ps(table, "end_s"));
    let mut rows: BTreeMap<String, Vec<(u64, u64)>> = BTreeMap::new();
    for (job, row) in column_str(table, "job").into_iter().zip(starts.iter().zip(ends)) {
        rows.entry(job.to_owned()).or_default().push((*row.0, row.1));
    }
    rows
}

// Each job starts at its arrival, and the run pauses at each of `cuts` before it reaches `end`. Returns the number of jobs that
// have not ended by then.
fn run_until(jobs: &[Job], goodput: &Goodput, cuts: &[u64], end: Time) -> (ClusterRun, usize) {
    let goodput = goodput.clone();
    let settings = Settings { seed: 7, priority_queues: 2, goodput, ..Settings::default() };
    let mut run = ClusterRun::new(&fabric(), settings);
    let ids: Vec<JobId> = jobs.iter().map(|job| run.add(job.name.clone())).collect();
    let mut steps: Vec<(Time, Option<usize>)> =
        jobs.iter().enumerate().map(|(number, job)| (job.arrival, Some(number))).collect();
    steps.extend(cuts.iter().map(|&ms| (at(ms), None)));
    steps.push((end, None));
    steps.sort();
    let mut left = jobs.len();
    for (time, number) in steps {
        while run.now() < time {
            left -= run.advance(time).expect("its checks hold").len();
        }
        if let Some(number) = number {
            let job = &jobs[number];
            let periodic = job.periodic().expect("all jobs are periodic").clone();
            let start = Start {
                at: time,
                iterations: ITERATIONS,
                share: job.share,
                priority: job.priority,
                jitter: job.jitter,
                ..Start::new(periodic.profile, periodic.crossings)
            };
            run.start(ids[number], start).expect("it ends in time");
        }
    }
    (run, left)
}

// Runs all jobs to their end.
fn in_a_cluster(
    jobs: &[Job],
    goodput: &Goodput,
    cuts: &[u64],
) -> (BTreeMap<String, Vec<(u64, u64)>>, ClusterRun) {
    let (mut run, left) = run_until(jobs, goodput, cuts, at(1_000_000));
    assert_eq!(left, 0, "all jobs end");
    let rows = run.take_iterations();
    let by_job = jobs
        .iter()
        .enumerate()
        .map(|(number, job)| (job.name.clone(), one_by_one(&rows, JobId::from_index(number))));
    (by_job.collect(), run)
}

proptest! {
    #[test]
    fn arriving_jobs_behave_as_in_a_scenario(
        mut jobs in any_jobs(),
        jitter in prop::sample::select(vec![0.0, 0.05]),
        shares in prop::sample::select(vec![vec![], vec![0.88, 0.65]]),
        cuts in prop::collection::vec(0_u64..3_000, 0..6),
    ) {
        for job in &mut jobs {
            job.jitter = jitter;
        }
        let goodput = Goodput::new(&shares).expect("these are shares");
        let options = FlowOptions { goodput: goodput.clone(), ..FlowOptions::default() };
        let outcome = run_all(&scenario(jobs.clone()), &options);
        let (rows, mut run) = in_a_cluster(&jobs, &goodput, &cuts);
        prop_assert_eq!(rows, of_scenario(&outcome));
        let sent: u64 = run.traffic().values().map(|traffic| traffic.bytes.get()).sum();
        prop_assert_eq!(sent, column_u64(&outcome.tables.links, "bytes").iter().sum::<u64>());
    }
}

#[test]
fn a_job_alone_is_one_row_however_long_it_runs() {
    let mut run = ClusterRun::new(&one_link(), Settings::default());
    let job = run.add("job");
    run.start(job, start(60, 40, 30, 100_000)).unwrap();
    assert_eq!(run.advance(at(5_000_000)).unwrap(), []);
    assert_eq!(run.done(job), 50_000);
    assert_eq!(run.advance(at(50_000_000)).unwrap(), [(job, Ended::Done)]);
    assert_eq!(run.now(), at(10_000_000));
    let rows = run.take_iterations();
    assert_eq!((rows.len(), rows[0].count), (1, 100_000));
    let sent = run.traffic();
    assert_eq!(sent.keys().collect::<Vec<_>>(), [&(LinkId::new(0), job)]);
    let traffic = sent[&(LinkId::new(0), job)];
    assert_eq!(traffic.bytes.get(), 100_000 * 150_000_000);
    assert_eq!(traffic.busy, Duration::from_ms(40) * 100_000);
}

#[test]
fn a_stopped_job_leaves_at_the_end_of_its_iteration_and_resumes_with_the_next_one() {
    let mut run = ClusterRun::new(&one_link(), Settings::default());
    let job = run.add("job");
    run.start(job, start(60, 40, 30, 10)).unwrap();
    run.advance(at(250)).unwrap();
    assert_eq!(run.iteration_start(job), Some(at(200)));
    assert!(!run.stop(job).unwrap());
    assert_eq!(run.advance(at(1_000)).unwrap(), [(job, Ended::Stopped)]);
    assert_eq!((run.now(), run.done(job)), (at(300), 3));
    run.start(job, Start { at: at(500), ..start(60, 40, 30, 7) }).unwrap();
    assert_eq!(run.advance(at(2_000)).unwrap(), [(job, Ended::Done)]);
    assert_eq!((run.now(), run.done(job)), (at(1_200), 10));
    let firsts: Vec<_> = run.take_iterations().iter().map(|row| row.iteration).collect();
    assert_eq!(firsts, [0, 3]);
}

#[test]
fn a_job_that_has_not_begun_stops_at_once() {
    let mut run = ClusterRun::new(&one_link(), Settings::default());
    let job = run.add("job");
    run.start(job, Start { at: at(100), ..start(60, 40, 30, 10) }).unwrap();
    run.advance(at(50)).unwrap();
    assert!(run.stop(job).unwrap());
    assert_eq!(run.advance(at(1_000)).unwrap(), []);
    assert_eq!(run.done(job), 0);
}

#[test]
fn slots_let_two_jobs_take_turns() {
    let mut run = ClusterRun::new(&one_link(), Settings::default());
    let jobs = [run.add("a"), run.add("b")];
    for job in jobs {
        run.start(job, start(60, 40, 50, 100)).unwrap();
    }
    // Both send from 60 ms on: at half the rate until 140 ms.
    run.advance(at(280)).unwrap();
    assert_eq!(run.done(jobs[0]), 2);
    let slots = |origin| Slots {
        origin: at(origin),
        period: Duration::from_ms(100),
        waits: true,
        readjusts: true,
    };
    run.align(jobs[0], Some(slots(280))).unwrap();
    run.align(jobs[1], Some(slots(330))).unwrap();
    run.take_iterations();
    run.advance(at(5_000)).unwrap();
    let rows = run.take_iterations();
    // The present iterations still contend; after them, each job has the link to itself.
    for job in jobs {
        let last = rows.iter().rfind(|row| row.job == job).unwrap();
        assert_eq!(last.duration, Duration::from_ms(100) * last.count, "{last:?}");
        assert!(last.count > 40, "{last:?}");
        assert_eq!(last.delayed, Duration::ZERO);
    }
    assert!(run.take_adjustments().is_empty());
}

#[test]
fn a_job_that_waits_for_its_first_slot_can_be_moved_to_another_future_slot() {
    let mut run = ClusterRun::new(&one_link(), Settings::default());
    let job = run.add("job");
    run.start(job, start(60, 40, 30, 1)).unwrap();
    let slots = |origin, period| {
        let period = Duration::from_ms(period);
        Some(Slots { origin: at(origin), period, waits: true, readjusts: true })
    };
    run.align(job, slots(500, 1_000)).unwrap();
    run.advance(at(300)).unwrap();
    // One of these slots has passed, although it was after the job's arrival.
    run.align(job, slots(200, 120)).unwrap();
    assert_eq!(run.advance(at(2_000)).unwrap(), [(job, Ended::Done)]);
    let [row] = &run.take_iterations()[..] else { panic!("it has one iteration") };
    assert_eq!((row.start, row.delayed), (at(320), Duration::from_ms(320)));
}

#[test]
fn a_late_job_catches_up_with_its_slots() {
    let mut run = ClusterRun::new(&one_link(), Settings::default());
    let (job, other) = (run.add("job"), run.add("other"));
    run.start(job, start(60, 40, 50, 100)).unwrap();
    let period = Duration::from_ms(105);
    run.align(job, Some(Slots { origin: at(0), period, waits: true, readjusts: true })).unwrap();
    // Once, another job takes half of the link for 20 ms.
    run.start(other, Start { at: at(60), ..start(0, 10, 50, 1) }).unwrap();
    assert_eq!(run.advance(at(1_100)).unwrap(), [(other, Ended::Done)]);
    run.advance(at(1_100)).unwrap();
    let rows = run.take_iterations();
    let of_job: Vec<_> = rows.iter().filter(|row| row.job == job).collect();
    // 5 ms late for its slot, then on time without a wait, then early: each slot has 5 ms of slack.
    let starts: Vec<_> = of_job.iter().map(|row| (row.start, row.count)).collect();
    assert_eq!(starts, [(at(0), 1), (at(110), 2), (at(315), 7)]);
    assert_eq!(of_job[2].delayed, Duration::from_ms(5) * 7);
    assert!(run.take_adjustments().is_empty());
}

#[test]
fn iterations_that_differ_little_become_one_row_on_request() {
    let rows = |merge| {
        let mut run = ClusterRun::new(&one_link(), Settings { merge, ..Settings::default() });
        let job = run.add("job");
        run.start(job, Start { jitter: 0.01, ..start(60, 40, 30, 1_000) }).unwrap();
        run.advance(at(1_000_000)).unwrap();
        let rows = run.take_iterations();
        assert_eq!(rows.iter().map(|row| row.count).sum::<u64>(), 1_000);
        let length: Duration = rows.iter().map(|row| row.duration).sum();
        (rows.len(), length)
    };
    let (all, length) = rows(0.0);
    let (few, same_length) = rows(0.05);
    assert!(all > 990 && few < 10, "{all} and {few} rows");
    assert_eq!(length, same_length);
}

#[test]
fn jobs_that_share_a_link_delay_each_other() {
    let mut run = ClusterRun::new(&one_link(), Settings::default());
    let (job, other) = (run.add("job"), run.add("other"));
    // From 60 ms on, both get half of the link; the other job has half as much to send.
    run.start(job, start(60, 40, 50, 1)).unwrap();
    run.start(other, start(60, 20, 50, 1)).unwrap();
    run.advance(at(1_000)).unwrap();
    run.advance(at(1_000)).unwrap();
    let link = LinkId::new(0);
    let encounter = |job, other| Encounter { link, job, other };
    let expected = [(encounter(job, other), 0.020), (encounter(other, job), 0.020)];
    let delays = run.take_delays();
    assert_eq!(delays.len(), expected.len());
    for ((pair, delay_s), (expected_pair, expected_s)) in delays.into_iter().zip(expected) {
        assert_eq!(pair, expected_pair);
        assert!((delay_s - expected_s).abs() < 1e-12, "{delay_s}");
    }
    assert!(run.take_delays().is_empty(), "they were taken");
    let contended: Vec<_> = run.traffic().values().map(|traffic| traffic.contended).collect();
    assert_eq!(contended, [Duration::from_ms(40); 2]);
}

#[test]
fn a_link_to_which_more_arrives_than_it_carries_marks_packets_of_both_jobs() {
    let model = MarkModel::new(
        vec![1_000.0, 2_000.0],
        vec![0.0, 0.0],
        Duration::from_ms(5),
        Duration::from_ms(20),
    );
    let marks = Some(model.unwrap());
    let mut run = ClusterRun::new(&fabric(), Settings { marks, ..Settings::default() });
    let jobs = [run.add("a"), run.add("b")];
    for (job, before) in jobs.into_iter().zip([1, 2]) {
        let inputs = vec![(LinkId::new(0), LinkId::new(before))];
        run.start(job, Start { inputs, ..start(60, 40, 50, 2) }).unwrap();
    }
    run.advance(at(1_000)).unwrap();
    // They contend for 80 ms in each iteration.
    let rows = run.take_iterations();
    assert_eq!(rows.iter().map(|row| row.count).collect::<Vec<_>>(), [2, 2]);
    assert!(rows.iter().all(|row| (row.marks - 80.0).abs() < 1e-6), "{rows:?}");
    let by_link: f64 = run.traffic().values().map(|traffic| traffic.marks).sum();
    assert!((by_link - 160.0).abs() < 1e-6, "{by_link}");
}

proptest! {
    #[test]
    fn the_remaining_work_at_any_time_continues_as_the_run_does(
        mut jobs in any_jobs(),
        cut_ms in 300_u64..1_500,
    ) {
        for job in &mut jobs {
            job.share = Share::Fair;
            // Remainders are rounded up: two picoseconds of one would wait for a whole phase of a job with higher priority.
            job.priority = 0;
        }
        let (rows, _) = in_a_cluster(&jobs, &Goodput::default(), &[]);
        let rests = run_until(&jobs, &Goodput::default(), &[], at(cut_ms)).0.rests();
        let rest_of = |rest: &Rest| {
            let job = &jobs[rest.job.index()];
            let Work::Periodic(work) = job.work.clone() else { panic!("all jobs are periodic") };
            let iterations = Some(rest.iterations + u64::from(rest.waits));
            let work = Work::Periodic(Periodic { first: rest.rest.clone(), ..work });
            Job { work, iterations, arrival: Time::ZERO, ..job.clone() }
        };
        prop_assume!(!rests.is_empty());
        let outcome = run_all(&scenario(rests.iter().map(rest_of).collect()), &FlowOptions::default());
        let later = of_scenario(&outcome);
        for rest in &rests {
            let name = &jobs[rest.job.index()].name;
            let (whole, resumed) = (&rows[name], &later[name]);
            // All iterations after the cut end at the same times, except for the rounding of remainders.
            let expected = whole.iter().map(|row| row.1).filter(|&end| end > at(cut_ms).as_ps());
            let skipped = usize::from(rest.waits);
            prop_assert_eq!(resumed.len() - skipped, expected.clone().count());
            for (end, &(_, resumed_end)) in expected.zip(&resumed[skipped..]) {
                let off = end.abs_diff(resumed_end + at(cut_ms).as_ps());
                prop_assert!(off < 1_000, "{} of {name} is {off} ps off", end);
            }
        }
    }
}

#[test]
fn after_the_rest_of_an_iteration_the_next_one_waits_for_the_next_slot() {
    let first = job_of("job", 30, &[up(0, 30, 50)]).periodic().map(|work| work.profile.clone());
    let whole = job_of("job", 100, &[up(60, 40, 50)]);
    let Work::Periodic(work) = whole.work.clone() else { panic!("it is periodic") };
    // It arrives 70 ms after its slot, and slots are 105 ms apart.
    let job = Job {
        work: Work::Periodic(Periodic { first, ..work }),
        time_shift: Some(Duration::from_ms(35)),
        pad_to: Some(Duration::from_ms(105)),
        readjust: true,
        ..whole
    };
    let outcome = run_on_one_link(vec![job], 1, 3);
    let starts = column_ps(&outcome.tables.iterations, "start_s");
    assert_eq!(starts, [at(0), at(35), at(140)].map(Time::as_ps));
}

/// Two cables of 50 Gbps between two switches; links 0 and 2 lead in one direction.
fn two_cables() -> Fabric {
    let node = |name: &str| Node { name: name.into(), kind: NodeKind::Switch };
    let (a, b) = (NodeId::new(0), NodeId::new(1));
    let cable = Cable { a, b, rate: Rate::from_gbps(50), delay: Duration::ZERO };
    Fabric::new(vec![node("left"), node("right")], &[cable; 2]).expect("a fabric")
}

fn on_link(link: u32, flows: u32) -> Vec<Crossing> {
    vec![Crossing { link: LinkId::new(link), flows }]
}

/// Two jobs that each send for 100 ms at the rate of link 0, and have shared it for 40 ms.
fn two_senders(fabric: &Fabric) -> (ClusterRun, [JobId; 2]) {
    let settings = Settings { priority_queues: 2, ..Settings::default() };
    let mut run = ClusterRun::new(fabric, settings);
    let ids = ["a", "b"].map(|name| run.add(name));
    for id in ids {
        run.start(id, start(0, 100, 50, 1)).expect("it starts");
    }
    assert_eq!(run.advance(at(40)).expect("its checks hold"), []);
    (run, ids)
}

fn ends(run: &mut ClusterRun) -> Vec<(JobId, Time)> {
    let mut ends = Vec::new();
    while ends.len() < 2 {
        let ended = run.advance(at(1_000)).expect("its checks hold");
        ends.extend(ended.into_iter().map(|(id, _)| (id, run.now())));
    }
    ends
}

#[test]
fn a_job_moved_behind_another_lets_it_pass_at_once() {
    let (mut run, [a, b]) = two_senders(&one_link());
    run.reroute(b, 1, &on_link(0, 1)).expect("its checks hold");
    // Each has sent 20 ms' worth: a sends the other 80 ms at full rate, and b after it.
    assert_eq!(ends(&mut run), [(a, at(120)), (b, at(200))]);
    // Held back from 40 to 120 ms, it was not sending.
    let of_b = run.traffic()[&(LinkId::new(0), b)];
    assert_eq!([of_b.contended, of_b.busy], [40, 120].map(Duration::from_ms));
}

#[test]
fn a_job_moved_to_a_free_link_is_no_longer_delayed_and_its_bytes_count_where_they_went() {
    let (mut run, [a, b]) = two_senders(&two_cables());
    run.reroute(b, 0, &on_link(2, 1)).expect("its checks hold");
    assert_eq!(ends(&mut run), [(a, at(120)), (b, at(120))]);
    let traffic = run.traffic();
    let of_b = [0, 2].map(|link| &traffic[&(LinkId::new(link), b)]);
    assert_eq!(of_b.map(|on| on.bytes), [125_000_000, 500_000_000].map(Bytes::new));
    assert_eq!(of_b.map(|on| on.busy), [40, 80].map(Duration::from_ms));
    assert_eq!(of_b.map(|on| on.contended), [40, 0].map(Duration::from_ms));
}

#[test]
fn a_job_that_ran_alone_contends_on_the_link_that_it_is_moved_to() {
    let mut run = ClusterRun::new(&two_cables(), Settings::default());
    let ids @ [a, b] = ["a", "b"].map(|name| run.add(name));
    for (id, link) in ids.into_iter().zip([0, 2]) {
        let start = Start { crossings: on_link(link, 1), ..start(0, 100, 50, 1) };
        run.start(id, start).unwrap();
    }
    run.advance(at(50)).unwrap();
    run.reroute(b, 0, &on_link(0, 1)).expect("its checks hold");
    // 50 ms' worth each at half the rate.
    assert_eq!(ends(&mut run), [(a, at(150)), (b, at(150))]);
    assert_eq!(run.traffic()[&(LinkId::new(0), b)].bytes, Bytes::new(312_500_000));
}

#[test]
fn jobs_that_all_leave_a_link_are_alone_at_once() {
    let (mut run, [a, b]) = two_senders(&two_cables());
    // Each leaves the link while the other is on it or has just been.
    run.reroute(a, 0, &[]).expect("its checks hold");
    run.reroute(b, 0, &on_link(2, 1)).expect("its checks hold");
    assert_eq!(ends(&mut run), [(a, at(120)), (b, at(120))]);
}

proptest! {
    #[test]
    fn a_job_sends_all_its_bytes_wherever_and_however_often_it_is_moved(
        jobs in prop::collection::vec((0_u64..40, 1_u64..60, 1_u64..60), 1..5),
        moves in prop::collection::vec((0_u64..500, 0_usize..4, 0_u32..4, 0_u8..2), 0..12),
    ) {
        const ITERATIONS: u64 = 5;
        let settings = Settings { priority_queues: 2, ..Settings::default() };
        let mut run = ClusterRun::new(&two_cables(), settings);
        let mut left = Vec::new();
        for &(compute_ms, up_ms, gbps) in &jobs {
            let id = run.add("job");
            run.start(id, start(compute_ms, up_ms, gbps, ITERATIONS)).expect("it starts");
            left.push(id);
        }
        let mut moves = moves;
        moves.sort_unstable();
        for &(ms, job, link, priority) in &moves {
            while run.now() < at(ms) {
                let ended = run.advance(at(ms)).expect("its checks hold");
                left.retain(|id| ended.iter().all(|(other, _)| other != id));
            }
            if let Some(&id) = left.get(job) {
                // Of the fourth link there is none: the job then runs on one host.
                run.reroute(id, priority, &on_link(link, 1)[..usize::from(link < 3)]).expect("its checks hold");
            }
        }
        while !left.is_empty() {
            let ended = run.advance(at(1_000_000)).expect("its checks hold");
            left.retain(|id| ended.iter().all(|(other, _)| other != id));
        }
        let mut sent = vec![0; jobs.len()];
        for ((_, job), traffic) in run.traffic() {
            sent[job.index()] += traffic.bytes.get();
        }
        let stays = moves.iter().all(|&(_, _, link, _)| link < 3);
        for (&(_, up_ms, gbps), sent) in jobs.iter().zip(sent) {
            let due = ITERATIONS * up_ms * gbps * 125_000;
            // Every move rounds to a byte.
            prop_assert!(sent <= due + 12 && (!stays || sent + 12 >= due), "{sent} of {due}");
        }
    }
}

#[test]
fn halves_of_two_flows_fill_a_link_and_halves_of_four_share_it() {
    for (jobs, duration_ms) in [(2, 100), (4, 200)] {
        let settings = Settings { flow_parts: 6, ..Settings::default() };
        let mut run = ClusterRun::new(&one_link(), settings);
        let ids: Vec<_> = (0..jobs).map(|job| run.add(format!("job {job}"))).collect();
        for &id in &ids {
            let start = Start { crossings: on_link(0, 3), ..start(0, 100, 50, 1) };
            run.start(id, start).unwrap();
        }
        let ended = run.advance(at(1_000)).unwrap();
        assert_eq!((ended.len(), run.now()), (jobs, at(duration_ms)));
        for on_link in run.traffic().into_values() {
            assert_eq!(on_link.bytes, Bytes::new(312_500_000), "half of 625 MB");
            assert_eq!(on_link.contended.is_zero(), jobs == 2);
        }
    }
}
