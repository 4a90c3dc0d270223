//! The ranks of a job, driven by hand: their commands, and the accounting of their time.

use hocket_des::{Bytes, Duration, Rate, Time};
use hocket_scenario::execution::{Command, Execution};
use hocket_scenario::workload::{Exchange, Operation, OperationKind, Rank, Workload};
use hocket_scenario::{
    Algorithm, Cable, CollectiveKind, Fabric, Job, JobId, Node, NodeId, NodeKind, OperationRow,
    RankRow, Records, Scenario, Stop, Training, TrainingSpec, Work,
};

use crate::common::training_spec;

const KIND: CollectiveKind = CollectiveKind::AllReduce;

fn operation(kind: OperationKind, after: &[u32]) -> Operation {
    Operation { name: format!("{} after {after:?}", kind.name()), kind, after: after.to_vec() }
}

fn compute(us: u64, after: &[u32]) -> Operation {
    operation(OperationKind::Compute(Duration::from_us(us)), after)
}

fn sum(communicator: u32, after: &[u32]) -> Operation {
    let bytes = Bytes::new(1_000);
    operation(OperationKind::Collective { communicator, kind: KIND, bytes }, after)
}

fn exchange(peer: u32, tag: u64) -> Exchange {
    Exchange { communicator: 0, peer, bytes: Bytes::new(100), tag }
}

fn send(peer: u32, tag: u64, after: &[u32]) -> Operation {
    operation(OperationKind::Send(exchange(peer, tag)), after)
}

fn recv(peer: u32, tag: u64, after: &[u32]) -> Operation {
    operation(OperationKind::Recv(exchange(peer, tag)), after)
}

/// Each rank with its own program.
fn separate(programs: Vec<Vec<Operation>>, groups: &[Vec<u32>]) -> Workload {
    let rank = |rank: u32| {
        let own_groups = (0_u32..).zip(groups).filter(|(_, members)| members.contains(&rank));
        Rank { program: rank, communicators: own_groups.map(|(group, _)| group).collect() }
    };
    let ranks = (0..programs.len() as u32).map(rank).collect();
    Workload::new(programs, groups.to_vec(), ranks).expect("the ranks find each other")
}

fn alone(program: Vec<Operation>) -> Workload {
    separate(vec![program], &[vec![0]])
}

/// Hosts at one switch, one for each rank, with NICs of 8 Gbps: a byte takes a nanosecond.
fn scenario(workload: Workload, change: impl Fn(&mut TrainingSpec, &mut Job)) -> Scenario {
    let ranks = workload.ranks().len() as u32;
    let mut spec = training_spec(workload, &[Algorithm::Ring]);
    let kind = |i| if i == ranks { NodeKind::Switch } else { NodeKind::Host };
    let nodes = (0..=ranks).map(|i| Node { name: format!("n{i}"), kind: kind(i) });
    let cable = |host| Cable {
        a: NodeId::new(host),
        b: NodeId::new(ranks),
        rate: Rate::from_gbps(8),
        delay: Duration::ZERO,
    };
    let cables: Vec<_> = (0..ranks).map(cable).collect();
    let fabric = Fabric::new(nodes.collect(), &cables).expect("a star is a fabric");
    let training = |spec| Training::new(spec).expect("the ranks have places");
    let work = |spec| Work::Training(Box::new(training(spec)));
    let mut job = Job::with_work("job", work(spec.clone()));
    change(&mut spec, &mut job);
    job.work = work(spec);
    let stop = Stop { iterations: Some(2), until: None };
    Scenario::new(fabric, vec![job], 1, 1, stop).expect("the job is valid")
}

fn plain(workload: Workload) -> Scenario {
    scenario(workload, |_, _| {})
}

/// An engine driven by hand, which collects the commands of the ranks.
struct Hand<'a> {
    execution: Execution<'a>,
    records: Records,
    commands: Vec<Command>,
}

impl<'a> Hand<'a> {
    fn new(scenario: &'a Scenario) -> Self {
        let (mut records, mut commands) = (Records::new(scenario), Vec::new());
        let id = JobId::new(0);
        let execution = Execution::new(scenario, id, None, 1, &mut records, &mut commands);
        Self { execution: execution.expect("it starts in time"), records, commands }
    }

    /// The commands since the last call.
    fn take_commands(&mut self) -> Vec<Command> {
        std::mem::take(&mut self.commands)
    }

    fn wake(&mut self, rank: u32, us: u64) -> Vec<Command> {
        self.execution.wake(rank, at(us), &mut self.commands);
        self.settle(us)
    }

    fn collective_done(&mut self, group: u32, member: u32, us: u64) -> Vec<Command> {
        let (records, commands) = (&mut self.records, &mut self.commands);
        self.execution.collective_done(group, member, at(us), records, commands);
        self.settle(us)
    }

    fn delivered(&mut self, message: u32, us: u64) -> Vec<Command> {
        self.execution.delivered(message, at(us));
        self.settle(us)
    }

    fn acknowledged(&mut self, message: u32, us: u64) -> Vec<Command> {
        self.execution.acknowledged(message, at(us));
        self.settle(us)
    }

    /// The commands of everything that waited for the events so far.
    fn settle(&mut self, us: u64) -> Vec<Command> {
        let (records, commands) = (&mut self.records, &mut self.commands);
        self.execution.settle(at(us), records, commands).expect("in time");
        self.take_commands()
    }

    /// Start and end of an operation in the first iteration, in microseconds.
    fn span(&self, rank: u32, operation: u32) -> (u64, u64) {
        let is_it = |row: &&OperationRow| row.rank == rank && row.operation == operation;
        let row = self.records.operations.iter().find(is_it).expect("it is done");
        (row.start.as_ps() / 1_000_000, row.end.as_ps() / 1_000_000)
    }
}

fn at(us: u64) -> Time {
    Time::ZERO + Duration::from_us(us)
}

fn wake(rank: u32, us: u64) -> Command {
    Command::Wake { rank, at: at(us) }
}

fn join(group: u32, member: u32, sequence: u64) -> Command {
    Command::Join { group, member, collective: 0, sequence }
}

fn spent(row: &RankRow) -> (Duration, Duration) {
    (row.compute, row.exposed)
}

#[test]
fn of_computes_that_may_start_the_first_of_the_program_does() {
    let scenario =
        plain(alone(vec![compute(5, &[]), compute(3, &[0]), compute(4, &[]), compute(1, &[])]));
    let mut hand = Hand::new(&scenario);
    assert_eq!(hand.take_commands(), [wake(0, 0)]);
    assert_eq!(hand.wake(0, 0), [wake(0, 5)]);
    // The second was ready last, but is first in the program.
    assert_eq!(hand.wake(0, 5), [wake(0, 8)]);
    assert_eq!(hand.wake(0, 8), [wake(0, 12)]);
    assert_eq!(hand.wake(0, 12), [wake(0, 13)]);
    // The next iteration.
    assert_eq!(hand.wake(0, 13), [wake(0, 13)]);
    assert_eq!(
        (0..4).map(|each| hand.span(0, each)).collect::<Vec<_>>(),
        [(0, 5), (5, 8), (8, 12), (12, 13)]
    );
    assert_eq!(spent(&hand.records.ranks[0]), (Duration::from_us(13), Duration::ZERO));
}

#[test]
fn what_takes_no_time_needs_no_wait() {
    let scenario =
        plain(alone(vec![compute(0, &[]), compute(0, &[0]), compute(2, &[1]), compute(0, &[2])]));
    let mut hand = Hand::new(&scenario);
    hand.take_commands();
    assert_eq!(hand.wake(0, 0), [wake(0, 2)]);
    assert_eq!(hand.wake(0, 2), [wake(0, 2)]);
    assert_eq!((hand.span(0, 1), hand.span(0, 3)), ((0, 0), (2, 2)));
}

#[test]
fn communication_is_exposed_only_while_nothing_is_computed() {
    let program = vec![compute(4, &[]), sum(0, &[0]), compute(3, &[0]), compute(2, &[1])];
    let scenario = plain(separate(vec![program.clone(), program], &[vec![0, 1]]));
    let mut hand = Hand::new(&scenario);
    hand.take_commands();
    for rank in 0..2 {
        assert_eq!(hand.wake(rank, 0), [wake(rank, 4)]);
    }
    // Rank 0 joins and computes; rank 1 comes a microsecond later.
    assert_eq!(hand.wake(0, 4), [join(0, 0, 0), wake(0, 7)]);
    assert_eq!(hand.wake(1, 5), [join(0, 1, 0), wake(1, 8)]);
    assert_eq!(hand.wake(0, 7), []);
    assert_eq!(hand.collective_done(0, 0, 9), [wake(0, 11)]);
    // Rank 1 is done with the collective before its compute ends.
    assert_eq!(hand.collective_done(0, 1, 6), []);
    assert_eq!(hand.wake(1, 8), [wake(1, 10)]);
    hand.wake(1, 10);
    hand.wake(0, 11);
    let rows: Vec<_> = hand.records.ranks.iter().map(|row| (row.rank, spent(row))).collect();
    let us = Duration::from_us;
    // Rank 1 was woken late, and the delay counts as computing.
    assert_eq!(rows, [(1, (us(10), us(0))), (0, (us(9), us(2)))]);
}

#[test]
fn collectives_of_one_group_take_turns_and_those_of_two_groups_do_not() {
    let program = vec![compute(1, &[]), sum(0, &[0]), sum(0, &[]), sum(1, &[])];
    let scenario = plain(separate(vec![program.clone(), program], &[vec![0, 1], vec![0, 1]]));
    let mut hand = Hand::new(&scenario);
    hand.take_commands();
    // The second sum of group 0 is ready, but must wait for the first.
    for rank in 0..2 {
        assert_eq!(hand.wake(rank, 0), [join(1, rank, 0), wake(rank, 1)]);
    }
    for rank in 0..2 {
        assert_eq!(hand.wake(rank, 1), [join(0, rank, 0)]);
    }
    assert_eq!(hand.collective_done(0, 0, 3), [join(0, 0, 1)]);
    assert_eq!(hand.collective_done(0, 1, 4), [join(0, 1, 1)]);
    let row = hand.records.collectives[0];
    assert_eq!((row.group, row.operation, row.start, row.end), (0, 1, at(1), at(4)));
    assert_eq!(row.mean, Duration::from_ns(2_500));
}

#[test]
fn collectives_of_one_rank_are_not_recorded() {
    let scenario = plain(alone(vec![sum(0, &[]), compute(1, &[0])]));
    let mut hand = Hand::new(&scenario);
    hand.take_commands();
    assert_eq!(hand.wake(0, 0), [join(0, 0, 0)]);
    assert_eq!(hand.collective_done(0, 0, 0), [wake(0, 1)]);
    assert!(hand.records.collectives.is_empty());
}

#[test]
fn a_message_goes_to_the_receive_of_its_tag_and_turn() {
    let first = vec![send(1, 7, &[]), send(1, 8, &[]), send(1, 7, &[])];
    let second = vec![compute(5, &[]), recv(0, 7, &[0]), recv(0, 7, &[]), recv(0, 8, &[])];
    let scenario = plain(separate(vec![first, second], &[vec![0, 1]]));
    let mut hand = Hand::new(&scenario);
    hand.take_commands();
    let sends = hand.wake(0, 0);
    let message = |command: &Command| match *command {
        Command::Send { from: 0, to: 1, message, .. } => message,
        other => panic!("{other:?} is no send to rank 1"),
    };
    let [one, other_tag, two] = [0, 1, 2].map(|place| message(&sends[place]));
    assert_eq!(hand.wake(1, 0), [wake(1, 5)]);
    // The first message of tag 7 is for the receive that is not ready yet.
    hand.delivered(one, 1);
    hand.delivered(other_tag, 2);
    hand.delivered(two, 3);
    hand.wake(1, 5);
    assert_eq!([1, 2, 3].map(|each| hand.span(1, each)), [(5, 5), (0, 3), (0, 2)]);
    // A send is done when it is acknowledged.
    hand.acknowledged(two, 4);
    assert_eq!(hand.span(0, 2), (0, 4));
}

#[test]
fn a_sender_may_be_an_iteration_ahead() {
    let scenario = plain(separate(
        vec![vec![send(1, 0, &[])], vec![compute(9, &[]), recv(0, 0, &[0])]],
        &[vec![0, 1]],
    ));
    let mut hand = Hand::new(&scenario);
    hand.take_commands();
    hand.wake(1, 0);
    for iteration in 0..2 {
        assert_eq!(hand.wake(0, iteration).len(), 1);
        hand.delivered(0, iteration + 1);
        hand.acknowledged(0, iteration + 1);
    }
    assert_eq!(hand.wake(1, 9), [wake(1, 9)]);
    assert_eq!(hand.wake(1, 9), [wake(1, 18)]);
    hand.wake(1, 18);
    assert!(hand.execution.is_gone());
    assert_eq!(hand.execution.check_nobody_waits(at(18)), Ok(()));
}

#[test]
fn an_iteration_waits_for_its_time_shift_and_its_slot() {
    let scenario = scenario(alone(vec![compute(2, &[])]), |_, job| {
        job.time_shift = Some(Duration::from_us(100));
        job.pad_to = Some(Duration::from_us(10));
    });
    let mut hand = Hand::new(&scenario);
    assert_eq!(hand.take_commands(), [wake(0, 100)]);
    assert_eq!(hand.wake(0, 100), [wake(0, 102)]);
    assert_eq!(hand.wake(0, 102), [wake(0, 110)]);
    assert_eq!(hand.wake(0, 110), [wake(0, 112)]);
    assert_eq!(hand.wake(0, 112), []);
    let delayed: Vec<_> = hand.records.iterations.iter().map(|row| row.delayed).collect();
    assert_eq!(delayed, [Duration::from_us(100), Duration::from_us(8)]);
    assert!(hand.execution.is_gone());
}

#[test]
fn a_straggler_computes_longer() {
    let program = vec![compute(10, &[])];
    let scenario = scenario(separate(vec![program.clone(), program], &[vec![0, 1]]), |spec, _| {
        spec.stragglers = vec![(1, 1.5)];
    });
    let mut hand = Hand::new(&scenario);
    hand.take_commands();
    assert_eq!((hand.wake(0, 0), hand.wake(1, 0)), (vec![wake(0, 10)], vec![wake(1, 15)]));
}

#[test]
fn communication_of_an_iteration_is_what_its_ranks_do_not_compute_on_average() {
    let scenario = plain(separate(
        vec![vec![compute(4, &[]), sum(0, &[0])], vec![compute(8, &[]), sum(0, &[0])]],
        &[vec![0, 1]],
    ));
    let mut hand = Hand::new(&scenario);
    hand.take_commands();
    for (rank, us) in [(0, 4), (1, 8)] {
        hand.wake(rank, 0);
        hand.wake(rank, us);
    }
    hand.collective_done(0, 0, 11);
    hand.collective_done(0, 1, 12);
    let row = hand.records.iterations[0];
    assert_eq!((row.start, row.end, row.communication), (at(0), at(12), Duration::from_us(6)));
}

#[test]
fn a_rank_that_waits_for_ever_is_named_with_its_operation() {
    let program = vec![compute(1, &[]), sum(0, &[0])];
    let scenario = plain(separate(vec![program.clone(), program], &[vec![0, 1]]));
    let mut hand = Hand::new(&scenario);
    hand.wake(0, 0);
    hand.wake(1, 0);
    hand.wake(0, 1);
    let failed = hand.execution.check_nobody_waits(at(3)).expect_err("it waits");
    assert_eq!(
        failed.to_string(),
        "job \"job\": at 3 us nothing is in progress any more, but rank 0 waits in operation \"all-reduce after [0]\" of iteration 0"
    );
}

#[test]
fn a_collective_faster_than_the_links_of_its_ranks_is_named() {
    // Each of two ranks sends 1,000 bytes, which take 1 us at 8 Gbps.
    let check = |ns| {
        let scenario = plain(separate(vec![vec![sum(0, &[])], vec![sum(0, &[])]], &[vec![0, 1]]));
        let mut hand = Hand::new(&scenario);
        for rank in 0..2 {
            hand.wake(rank, 0);
        }
        for member in 0..2 {
            let (records, commands) = (&mut hand.records, &mut hand.commands);
            let end = Time::ZERO + Duration::from_ns(ns);
            hand.execution.collective_done(0, member, end, records, commands);
        }
        hand.execution.check_speeds()
    };
    assert_eq!(check(1_000), Ok(()));
    assert_eq!(
        check(800).expect_err("it is too fast").to_string(),
        "job \"job\": all-reduce \"all-reduce after []\" of iteration 0 in the group of rank 0 ended at 800 ns with a busbw of 10 Gbps; the links of a rank carry at most 8 Gbps"
    );
}
