//! Bounds that hold for every control, whatever the feedback of the network.

use hocket_des::{Duration, Rate, Time};
use hocket_transport::congestion::{dcqcn, dctcp, hpcc, pint, timely};
use hocket_transport::telemetry::{Format, Hop};
use hocket_transport::{Ack, Control, Path, PhaseProgress, Policy};
use proptest::prelude::*;

const LINE: Rate = Rate::from_gbps(50);
const PATH: Path = Path { line_rate: LINE, base_rtt: Duration::from_ns(4320), window: 27_000 };

/// One acknowledgement of the network.
#[derive(Clone, Debug)]
struct Answer {
    gap_ns: u64,
    delay_ns: u64,
    packets: u64,
    in_flight: u64,
    marked: bool,
    load: u16,
    /// For each hop, bytes sent since the last acknowledgement and bytes queued.
    hops: Vec<(u64, u64)>,
}

prop_compose! {
    fn answer()(
        gap_ns in 0_u64..100_000,
        delay_ns in 0_u64..3_000_000,
        packets in 0_u64..50,
        in_flight in 0_u64..100,
        marked: bool,
        load in 0_u16..400,
        hops in prop::collection::vec((0_u64..400_000_000, 0_u64..40_000_000), 0..=5),
    ) -> Answer {
        Answer { gap_ns, delay_ns, packets, in_flight, marked, load, hops }
    }
}

fn policies() -> Vec<(Policy, Rate)> {
    let dcqcn = dcqcn::Parameters::recommended(LINE);
    let paper = dcqcn::Parameters::sigcomm15();
    let nic = dcqcn::Parameters::mlx5();
    let dctcp = dctcp::Parameters::recommended(LINE);
    let timely = timely::Parameters::recommended(LINE);
    let hpcc = hpcc::Parameters::recommended(LINE);
    let careful = hpcc::Parameters { max_additive_steps: 5, fast_react: false, ..hpcc.clone() };
    let pint = pint::Parameters::recommended(LINE);
    let gbps = Rate::from_gbps(1);
    let mbps = Rate::from_bps(1_000_000);
    vec![
        (Policy::PfcOnly, LINE),
        (Policy::Dcqcn(dcqcn), gbps),
        (Policy::Dcqcn(paper), mbps),
        (Policy::Dcqcn(nic), mbps),
        (Policy::Dctcp(dctcp), gbps),
        (Policy::Timely(timely), gbps),
        (Policy::Hpcc(hpcc), gbps),
        (Policy::Hpcc(careful), gbps),
        (Policy::Pint(pint), gbps),
    ]
}

proptest! {
    #[test]
    fn no_control_leaves_the_range_from_its_minimum_rate_to_the_line_rate(
        answers in prop::collection::vec(answer(), 1..200),
    ) {
        let format = Format::new([LINE], 1).expect("one rate fits");
        let code = format.code(LINE).expect("a rate of the fabric");
        for (policy, least) in policies() {
            let mut control = Control::new(&policy, &PATH);
            let (mut now, mut acknowledged) = (Time::from_ps(4_000_000_000), 0);
            let mut sent_bytes = [0; 5];
            for answer in &answers {
                now += Duration::from_ns(answer.gap_ns);
                acknowledged += answer.packets * 1_000;
                let telemetry: Vec<Hop> = answer
                    .hops
                    .iter()
                    .zip(&mut sent_bytes)
                    .map(|(&(bytes, queue), sent)| {
                        *sent += bytes;
                        format.hop(now, *sent, queue, code)
                    })
                    .collect();
                let ack = Ack {
                    now,
                    acknowledged,
                    sent: acknowledged + answer.in_flight * 1_000,
                    marked: answer.marked,
                    stamp: Time::from_ps(now.as_ps() - answer.delay_ns * 1_000),
                    telemetry: &telemetry,
                    format: &format,
                    load: answer.load,
                };
                control.catch_up(&policy, &PATH, now, PhaseProgress { sent: 1, total: 3 });
                if answer.marked {
                    control.on_cnp(&policy, &PATH, now);
                }
                control.on_ack(&policy, &PATH, &ack);
                control.on_sent(&policy, &PATH, answer.packets * 1_036, PhaseProgress::default());
                let rate = control.rate_bps();
                prop_assert!(
                    (least.as_bps()..=LINE.as_bps()).contains(&rate),
                    "{rate} bps under {policy:?}"
                );
            }
        }
    }
}
