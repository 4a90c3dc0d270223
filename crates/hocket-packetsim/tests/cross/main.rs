//! Runs the same scenarios on both engines, and tests what only the packet engine has: packets, paths, transfers and links
//! that fail.

mod busbw;
mod common;
mod links;
#[path = "../../../hocket-scenario/tests/training/programs.rs"]
mod programs;
mod random;
mod training;

use hocket_des::{Bytes, Duration, Rate};
use hocket_packetsim::{Change, LinkChange, PacketStatus};
use hocket_scenario::{
    Column, Crossing, Job, JobFlow, JobId, LinkId, PathChoice, Periodic, Scenario, Stop, Transfer,
    Transport, ring_flows,
};
use hocket_transport::Policy;
use hocket_transport::congestion::dcqcn;
use proptest::prelude::*;

use common::{
    LINE, assert_close, at_us, flows, host, job, model, packets, packets_with, profile, racks,
    scenario, values,
};

/// The tables of the packet engine and of the flow engine.
fn run_both(
    jobs: &[Job],
    queues: u8,
    iterations: u64,
) -> (common::Collected, hocket_scenario::Tables) {
    let packets = packets(&scenario(racks(1, LINE), jobs.to_vec(), queues, iterations));
    (packets, flows(jobs.to_vec(), queues, iterations))
}

#[test]
fn a_job_alone_takes_its_period() {
    for gbps in [1, 25, 46] {
        let (packets, flows) = run_both(&[job("a", profile(300, 1_000, gbps), 0, 2)], 1, 4);
        let found = packets.values("iterations", "iteration_s");
        assert_close(&found, &values(&flows.iterations, "iteration_s"), 0.01);
        assert_close(&found, &[0.002; 4], 0.005);
    }
}

#[test]
fn headers_delay_a_job_that_sends_at_the_rate_of_its_nic() {
    let (packets, flows) = run_both(&[job("a", profile(0, 1_000, 50), 0, 2)], 1, 3);
    let found = packets.values("iterations", "communication_s");
    assert_close(&found, &values(&flows.iterations, "communication_s"), 0.005);
    assert_close(&found, &[0.001_082; 3], 0.005);
}

#[test]
fn an_idle_network_adds_only_the_last_round_trip() {
    // The phase sends 50 bytes and ends when its only packet is acknowledged. On each of the four links of 50 Gbps and
    // 500 ns, the packet of 132 bytes takes 21,120 ps, and the acknowledgement of 86 bytes takes 13,760 ps.
    let up = hocket_scenario::Phase {
        start: Duration::ZERO,
        duration: Duration::from_us(1),
        rate: Rate::from_bps(400_000_000),
    };
    let profile = hocket_scenario::Profile::new(Duration::from_us(10), vec![up]).unwrap();
    let packets = packets(&scenario(racks(1, LINE), vec![job("a", profile, 0, 2)], 1, 1));
    let end = packets.values("phases", "end_s");
    assert_close(&end, &[f64::from(4 * (21_120 + 500_000) + 4 * (13_760 + 500_000))], 0.0);
}

#[test]
fn two_synchronised_jobs_share_a_link_equally() {
    let jobs = ["a", "b"].map(|name| job(name, profile(0, 800, 40), u32::from(name == "b"), 2));
    let (packets, flows) = run_both(&jobs, 1, 6);
    let expected = values(&flows.jobs, "mean_iteration_s");
    assert!(expected[0] > 0.002_5, "{expected:?}");
    assert_close(&packets.values("jobs", "mean_iteration_s"), &expected, 0.02);
}

// HotNets'22 section 2: if one of two synchronised jobs gains a lead by chance, it keeps the lead, and the jobs drift apart.
// The flow engine models DCQCN as fair sharing, which keeps them synchronised.
#[test]
fn two_jobs_under_dcqcn_share_equally_at_first_and_then_drift_apart() {
    let mut jobs = ["a", "b"].map(|name| job(name, profile(0, 800, 40), u32::from(name == "b"), 2));
    for job in &mut jobs {
        job.transport.policy = Policy::Dcqcn(dcqcn::Parameters::recommended(LINE));
    }
    let (packets, flows) = run_both(&jobs, 1, 6);
    let rates = packets.values("phases", "mean_rate_bps");
    let fair = values(&flows.phases, "mean_rate_bps");
    assert_close(&rates[..2], &fair[..2], 0.2);
    let last_two = &rates[rates.len() - 2..];
    assert!(last_two.iter().all(|&rate| rate > 1.1 * fair[0]), "{rates:?}");
    assert!(packets.values("jobs", "policy_acted").iter().all(|&cuts| cuts > 0.0));
}

#[test]
fn a_job_of_higher_priority_runs_as_if_alone() {
    let with_priority =
        |name, from, priority| Job { priority, ..job(name, profile(0, 800, 40), from, 2) };
    let jobs = [with_priority("low", 0, 1), with_priority("high", 1, 0)];
    let (packets, flows) = run_both(&jobs, 2, 6);
    let found = packets.values("jobs", "mean_iteration_s");
    assert_close(&found, &values(&flows.jobs, "mean_iteration_s"), 0.02);
    assert_close(&found[1..], &[0.002], 0.01);
}

#[test]
fn time_shifted_jobs_never_send_together() {
    let first = job("a", profile(0, 900, 46), 0, 2);
    let time_shift = Some(Duration::from_us(1_000));
    let second = Job { time_shift, ..job("b", profile(0, 900, 46), 1, 2) };
    let (packets, flows) = run_both(&[first, second], 1, 5);
    let found = packets.values("jobs", "p99_iteration_s");
    assert_close(&found, &values(&flows.jobs, "p99_iteration_s"), 0.005);
    assert_close(&found, &[0.002; 2], 0.005);
    assert_close(&packets.values("jobs", "time_shift_s")[1..], &[0.001], 0.0);
}

#[test]
fn jitter_gives_the_same_compute_times_in_both_engines() {
    let jobs: Vec<Job> = ["a", "b"]
        .map(|name| Job { jitter: 0.2, ..job(name, profile(500, 500, 20), 0, 2) })
        .to_vec();
    let (packets, flows) = run_both(&jobs, 1, 8);
    let by_iteration = |iterations: &[f64], compute_s: &[f64]| {
        let mut rows: Vec<_> = iterations.iter().copied().zip(compute_s.iter().copied()).collect();
        rows.sort_by(|a, b| a.partial_cmp(b).expect("no compute time is NaN"));
        rows
    };
    let iterations = values(&flows.iterations, "iteration");
    let expected = by_iteration(&iterations, &values(&flows.iterations, "compute_s"));
    let iterations = packets.values("iterations", "iteration");
    assert_eq!(by_iteration(&iterations, &packets.values("iterations", "compute_s")), expected);
}

#[test]
fn both_engines_send_the_same_bytes_over_each_link() {
    let workers: Vec<_> = [0, 2, 1, 3].map(host).to_vec();
    let ring = ring_flows(&workers, 0);
    let fabric = racks(1, LINE);
    let mut routing = hocket_scenario::Routing::new(&fabric);
    let crossings = hocket_scenario::flow_crossings(&ring, &mut routing).unwrap();
    let job = job("ring", profile(0, 900, 10), 0, 2).crossing(crossings).sending(ring);
    let (packets, flows) = run_both(&[job], 1, 3);
    assert_close(&packets.values("links", "bytes"), &values(&flows.links, "bytes"), 1e-6);
    assert_close(&packets.values("links", "busy_s"), &values(&flows.links, "busy_s"), 0.01);
}

#[test]
fn a_job_on_one_host_only_computes() {
    let local = job("a", profile(100, 900, 50), 0, 2).crossing(Vec::new()).sending(Vec::new());
    let (packets, flows) = run_both(&[local], 1, 3);
    let found = packets.values("iterations", "end_s");
    assert_close(&found, &values(&flows.iterations, "end_s"), 0.0);
}

#[test]
fn the_bytes_of_a_sprayed_or_rerouted_flow_count_on_each_link_that_they_crossed() {
    let by_link = |packets: &common::Collected| -> Vec<(String, f64)> {
        let links = &packets.0["links"][0];
        let Some(Column::Str { codes, dictionary }) = links.column("link") else {
            panic!("links have names");
        };
        let names = codes.iter().map(|&code| dictionary[code as usize].clone());
        names.zip(packets.values("links", "bytes")).collect()
    };
    let bytes_on = |links: &[(String, f64)], name: &str| -> f64 {
        links.iter().find(|(link, _)| link == name).map_or(0.0, |(_, bytes)| *bytes)
    };
    // The job sends 2.5 MB in 500 us, once.
    let with_path = |path| {
        let mut job = job("a", profile(0, 500, 40), 0, 2);
        job.periodic_mut().expect("the job is periodic").flows[0].path = path;
        scenario(racks(2, LINE), vec![job], 1, 1)
    };
    let sprayed = by_link(&packets(&with_path(PathChoice::Spray)));
    let links = ["host0->rack0", "rack0->spine0", "rack0->spine1", "rack1->host2"];
    let bytes = links.map(|name| bytes_on(&sprayed, name));
    assert_close(&bytes, &[2_500_000.0, 1_250_000.0, 1_250_000.0, 2_500_000.0], 0.0);

    let over_spine_0 = PathChoice::Pinned([0, 8, 11, 5].map(LinkId::new).to_vec());
    let failure = LinkChange { at: at_us(250), link: LinkId::new(8), change: Change::Down };
    let (tables, _) = packets_with(&with_path(over_spine_0), &model(), &[failure]);
    let rerouted = by_link(&tables);
    let spines = ["rack0->spine0", "rack0->spine1"].map(|name| bytes_on(&rerouted, name));
    assert_close(&[spines.iter().sum()], &[2_500_000.0], 0.0);
    assert_close(&spines, &[1_250_000.0; 2], 0.02);
}

#[test]
fn a_transfer_counts_for_the_job_to_which_it_is_attributed() {
    let jobs = vec![job("a", profile(0, 500, 8), 0, 2)];
    let transfer = Transfer {
        flow: JobFlow::new(host(0), host(2), 1),
        bytes: Bytes::new(77_000),
        start: at_us(100),
        priority: 0,
        job: Some(JobId::new(0)),
        transport: Transport::default(),
    };
    let stop = Stop { iterations: Some(1), until: None };
    let with_transfer =
        Scenario::with_transfers(racks(1, LINE), jobs, vec![transfer], 1, 1, stop).unwrap();
    let packets = packets(&with_transfer);
    // The 500,000 bytes of the phase, and the 77,000 bytes of the transfer.
    assert_close(&packets.values("links", "bytes"), &[577_000.0; 4], 0.0);
    assert_close(&packets.values("phases", "bytes"), &[500_000.0], 0.0);
    let error = hocket_flowsim::run(&with_transfer, &hocket_flowsim::FlowOptions::default());
    assert_eq!(
        error.unwrap_err().to_string(),
        "the number of transfers is 1, and the flow engine supports none; use the packet engine"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_job_sends_the_bytes_of_its_phases_and_no_faster_than_its_profile(
        jobs in prop::collection::vec(((0_u32..4, 1_u32..4), 0_u64..500, 1_u64..500, 1_u64..50), 1..6),
        jitter in 0.0..0.5,
    ) {
        let jobs: Vec<Job> = jobs
            .into_iter()
            .enumerate()
            .map(|(index, ((from, step), start_us, duration_us, gbps))| {
                let profile = profile(start_us, duration_us, gbps);
                Job { jitter, ..job(&format!("job{index}"), profile, from, (from + step) % 4) }
            })
            .collect();
        let packets = packets(&scenario(racks(1, LINE), jobs.clone(), 1, 3));
        let sent: f64 = jobs
            .iter()
            .map(|job| {
                let Periodic { profile, crossings, .. } =
                    job.periodic().expect("all jobs are periodic");
                3.0 * profile.bytes_per_iteration().get() as f64 * crossings.len() as f64
            })
            .sum();
        prop_assert!((packets.values("links", "bytes").iter().sum::<f64>() - sent).abs() < 0.5);
        let rates = packets.values("phases", "mean_rate_bps");
        prop_assert!(rates.iter().all(|&rate| rate <= 50e9));
        for (mean, job) in packets.values("jobs", "mean_communication_s").iter().zip(&jobs) {
            // The last packet leaves at line rate, whereas the profile spreads its bytes over time.
            let profile = &job.periodic().expect("all jobs are periodic").profile;
            let least = profile.up_time().as_secs_f64();
            let packet_s = 8_000.0 / profile.phases()[0].rate.as_bps() as f64;
            prop_assert!(*mean >= least - packet_s, "{mean} s instead of at least {least} s");
        }
    }
}

// HotNets'22 section 4(i): a flow increases its rate faster the more of its phase it has sent.
#[test]
fn adaptively_unfair_dcqcn_favours_the_job_that_is_ahead() {
    let first_phase_s = |adaptive| {
        let policy = Policy::Dcqcn(dcqcn::Parameters {
            adaptive,
            additive_increase: Rate::from_gbps(1),
            increase_timer: Duration::from_us(20),
            ..dcqcn::Parameters::recommended(LINE)
        });
        let mut jobs = ["ahead", "behind"].map(|name| Job {
            transport: Transport::new(policy.clone()),
            ..job(name, profile(0, 1_800, 46), u32::from(name == "behind"), 2)
        });
        jobs[1].time_shift = Some(Duration::from_us(900));
        let packets = packets(&scenario(racks(1, LINE), jobs.to_vec(), 1, 1));
        packets.values("phases", "end_s")[0]
    };
    let (fair, adaptive) = (first_phase_s(false), first_phase_s(true));
    assert!(adaptive < 0.99 * fair, "adaptive {adaptive} s, fair {fair} s");
}

#[test]
fn jobs_in_queues_beyond_the_eighth_finish_too() {
    let jobs: Vec<Job> = (0..12)
        .map(|index| Job {
            priority: index,
            ..job(&format!("job{index}"), profile(0, 100, 2), u32::from(index % 2), 2)
        })
        .collect();
    let packets = packets(&scenario(racks(1, LINE), jobs, 12, 2));
    assert_eq!(packets.values("jobs", "iterations"), [2.0; 12]);
}

#[test]
fn a_run_that_is_cut_off_keeps_its_finished_iterations() {
    let stop = Stop { iterations: None, until: Some(at_us(5_000)) };
    let jobs = vec![job("a", profile(0, 900, 40), 0, 2)];
    let scenario = Scenario::new(racks(1, LINE), jobs, 1, 1, stop).unwrap();
    let (packets, outcome) = packets_with(&scenario, &model(), &[]);
    assert_eq!((outcome.status, outcome.ended), (PacketStatus::Stopped, at_us(5_000)));
    assert_eq!(packets.values("iterations", "iteration"), [0.0, 1.0]);
    // The phases of the two finished iterations, and that of the third, which is unfinished.
    assert_close(&packets.values("links", "bytes"), &[13_500_000.0; 4], 0.001);
    assert_close(&packets.values("links", "busy_s"), &[0.002_7; 4], 0.01);
}

#[test]
fn the_same_seed_gives_the_same_tables() {
    let jobs = || {
        let mut jobs =
            ["a", "b"].map(|name| Job { jitter: 0.1, ..job(name, profile(0, 600, 40), 0, 2) });
        jobs[1] = jobs[1].clone().sending(vec![JobFlow::new(host(1), host(3), 7)]);
        jobs[1] = jobs[1].clone().crossing(vec![Crossing { link: LinkId::new(2), flows: 1 }]);
        jobs[0].transport.policy = Policy::Dcqcn(dcqcn::Parameters::recommended(LINE));
        jobs.to_vec()
    };
    let run = || packets(&scenario(racks(1, LINE), jobs(), 1, 4));
    assert_eq!(run(), run());
}
