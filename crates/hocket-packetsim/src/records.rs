//! The recorder of a run: rows in the order of events, and their tables, with units in the names of columns. Rows are taken
//! out during the run, so that a long one does not fill the memory.

use hocket_des::{Duration, Time};
use hocket_scenario::{Column, Fabric, Table};

use crate::columns::{link_column, node_column};
use crate::model::PRIORITIES;
use crate::owners::Owners;
use crate::parts::port::Port;
use crate::setup::{FlowSpec, Setup};

/// A complete message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CompletionRow {
    pub(crate) flow: u32,
    /// Bytes of data.
    pub(crate) bytes: u64,
    /// When it was posted.
    pub(crate) start: Time,
    /// When the acknowledgement of its last byte arrived.
    pub(crate) end: Time,
}

/// Counts of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FlowCounts {
    /// Marked packets of data that arrived.
    pub(crate) marks: u32,
    pub(crate) cnps: u32,
    pub(crate) rate_cuts: u64,
    pub(crate) retransmissions: u32,
}

/// A PAUSE frame or a resume frame arrived.
#[derive(Clone, Copy, Debug)]
struct PauseRow {
    time: Time,
    link: u32,
    priority: u8,
    is_pause: bool,
}

/// How long a port, or one priority of it, was paused.
#[derive(Clone, Copy, Debug, Default)]
struct PauseTally {
    frames: u64,
    since: Option<Time>,
    span: Duration,
}

/// The packets that a port has sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PortTraffic {
    packets: u64,
    bytes: u64,
    marked: u64,
}

/// Counts of all ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PortCounts {
    /// By port.
    sent: Vec<PortTraffic>,
    /// By port and priority, then by port: PAUSE frames and paused time.
    held: Vec<(u64, Duration)>,
}

/// The rows of a run that were not taken out yet, and the counts over the whole run.
#[derive(Clone, Debug)]
pub(crate) struct Recorder {
    pub(crate) keeps_messages: bool,
    pub(crate) keeps_pauses: bool,
    messages: Vec<(CompletionRow, FlowCounts)>,
    pauses: Vec<PauseRow>,
    /// By flow: the counts already attributed to its messages.
    reported: Vec<FlowCounts>,
    /// By flow.
    retransmissions: Vec<u32>,
    /// By port and priority.
    held: Vec<PauseTally>,
    /// By port: paused while at least one priority is.
    held_at_all: Vec<PauseTally>,
    /// By port: packets of repeated cycles, which the port itself does not count. Empty if nothing was repeated.
    repeated: Vec<PortTraffic>,
    /// Packets that a full buffer refused.
    pub(crate) losses: u64,
}

impl Recorder {
    pub(crate) fn new(setup: &Setup<'_>) -> Self {
        let (flows, links) = (setup.flows.len(), setup.fabric.links().len());
        Self {
            keeps_messages: true,
            keeps_pauses: true,
            messages: Vec::new(),
            pauses: Vec::new(),
            reported: vec![FlowCounts::default(); flows],
            retransmissions: vec![0; flows],
            held: vec![PauseTally::default(); links * PRIORITIES],
            held_at_all: vec![PauseTally::default(); links],
            repeated: Vec::new(),
            losses: 0,
        }
    }

    /// Records a PAUSE or resume frame received by the port that feeds `link`.
    pub(crate) fn pause(&mut self, time: Time, link: u32, priority: u8, is_pause: bool) {
        if self.keeps_pauses {
            self.pauses.push(PauseRow { time, link, priority, is_pause });
        }
        let first = link as usize * PRIORITIES;
        // A PAUSE of a second class counts as a frame of the port but does not begin its paused time anew.
        self.held[first + usize::from(priority)].turn(time, is_pause, is_pause);
        let some = self.held[first..first + PRIORITIES].iter().any(|held| held.since.is_some());
        self.held_at_all[link as usize].turn(time, some, is_pause);
    }

    /// Records a complete message; `counts` are the total counts of its flow.
    pub(crate) fn complete(&mut self, row: CompletionRow, counts: FlowCounts) {
        if self.keeps_messages {
            let reported = std::mem::replace(&mut self.reported[row.flow as usize], counts);
            self.messages.push((row, counts.since(reported)));
        }
    }

    /// Counts a retransmission of a flow.
    pub(crate) fn went_back(&mut self, flow: u32) {
        self.retransmissions[flow as usize] += 1;
    }

    /// The number of retransmissions of a flow.
    pub(crate) fn retransmissions(&self, flow: u32) -> u32 {
        self.retransmissions[flow as usize]
    }

    /// The number of PAUSE frames received at all ports.
    pub(crate) fn pauses_received(&self) -> u64 {
        self.held_at_all.iter().map(|held| held.frames).sum()
    }

    /// The start of the longest PAUSE of any port that still lasts.
    pub(crate) fn longest_paused_since(&self) -> Option<Time> {
        // No priority of a port can have been paused for longer than the port.
        self.held_at_all.iter().filter_map(|held| held.since).min()
    }

    /// What was counted up to `now`.
    pub(crate) fn port_counts(&self, ports: &[Port], now: Time) -> PortCounts {
        let sent = |port: &Port| PortTraffic {
            packets: port.sent_packets,
            bytes: port.sent_bytes,
            marked: port.marked_packets,
        };
        let held = self.held.iter().chain(&self.held_at_all);
        PortCounts {
            sent: ports.iter().map(sent).collect(),
            held: held.map(|held| (held.frames, held.until(now))).collect(),
        }
    }

    /// Adds the counts of one cycle `times` times.
    pub(crate) fn repeat(&mut self, each: &PortCounts, times: u64) {
        // The port's own counters stay those of the simulation, against which its self-check compares the time.
        self.repeated.resize(each.sent.len(), PortTraffic::default());
        for (repeated, each) in self.repeated.iter_mut().zip(&each.sent) {
            repeated.packets += each.packets * times;
            repeated.bytes += each.bytes * times;
            repeated.marked += each.marked * times;
        }
        let all_held = self.held.iter_mut().chain(&mut self.held_at_all);
        for (held, (frames, span)) in all_held.zip(&each.held) {
            held.frames += frames * times;
            held.span += *span * times;
        }
    }

    fn sent(&self, link: u32, port: &Port) -> PortTraffic {
        let more = self.repeated.get(link as usize).copied().unwrap_or_default();
        PortTraffic {
            packets: port.sent_packets + more.packets,
            bytes: port.sent_bytes + more.bytes,
            marked: port.marked_packets + more.marked,
        }
    }

    /// Rows that were not taken out yet.
    pub(crate) fn rows(&self) -> usize {
        self.messages.len() + self.pauses.len()
    }

    /// The table `ports`, at the end. A port that is paused then counts until then.
    pub(crate) fn port_table(&self, ports: &[Port], now: Time, fabric: &Fabric) -> Table {
        let is_used = |link: &u32| ports[*link as usize].sent_packets > 0;
        let links: Vec<u32> = (0..ports.len() as u32).filter(is_used).collect();
        let port = |link: &u32| &ports[*link as usize];
        let sent = |link: &u32| self.sent(*link, port(link));
        let held = |link: &u32| &self.held_at_all[*link as usize];
        let columns = vec![
            ("packets", Column::of_u64(&links, |link| sent(link).packets)),
            ("bytes", Column::of_u64(&links, |link| sent(link).bytes)),
            ("marked", Column::of_u64(&links, |link| sent(link).marked)),
            ("peak_bytes", Column::of_u64(&links, |link| port(link).peak_bytes)),
            ("pauses", Column::of_u64(&links, |link| held(link).frames)),
            ("paused_s", Column::of_seconds(&links, |link| held(link).until(now))),
        ];
        let name = ("link", link_column(links, fabric));
        Table { name: "ports", columns: std::iter::once(name).chain(columns).collect() }
    }

    /// The table `paused`, at the end. A priority that is paused then counts until then.
    pub(crate) fn paused_table(&self, now: Time, fabric: &Fabric) -> Table {
        let held = |place: &usize| &self.held[*place];
        let places: Vec<usize> =
            (0..self.held.len()).filter(|place| held(place).frames > 0).collect();
        let link = |place: &usize| (place / PRIORITIES) as u32;
        let priority = |place: &usize| (place % PRIORITIES) as u32;
        let columns = vec![
            ("link", link_column(places.iter().map(link).collect(), fabric)),
            ("priority", Column::U32(places.iter().map(priority).collect())),
            ("pauses", Column::of_u64(&places, |place| held(place).frames)),
            ("paused_s", Column::of_seconds(&places, |place| held(place).until(now))),
        ];
        Table { name: "paused", columns }
    }

    /// Takes out the rows of `flows` and `pauses` so far.
    pub(crate) fn take_tables(
        &mut self,
        fabric: &Fabric,
        flows: &[FlowSpec],
        owners: &Owners,
    ) -> [Table; 2] {
        let messages = std::mem::take(&mut self.messages);
        let pauses = std::mem::take(&mut self.pauses);
        [message_table(&messages, fabric, flows, owners), pause_table(&pauses, fabric)]
    }
}

impl PortCounts {
    /// The counts since `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let sent = |(now, before): (&PortTraffic, &PortTraffic)| PortTraffic {
            packets: now.packets - before.packets,
            bytes: now.bytes - before.bytes,
            marked: now.marked - before.marked,
        };
        let held = self.held.iter().zip(&before.held);
        Self {
            sent: self.sent.iter().zip(&before.sent).map(sent).collect(),
            held: held.map(|(now, before)| (now.0 - before.0, now.1 - before.1)).collect(),
        }
    }

    /// The number of counts.
    pub(crate) fn size(&self) -> usize {
        self.sent.len() + self.held.len()
    }
}

impl FlowCounts {
    fn since(self, before: Self) -> Self {
        Self {
            marks: self.marks - before.marks,
            cnps: self.cnps - before.cnps,
            rate_cuts: self.rate_cuts - before.rate_cuts,
            retransmissions: self.retransmissions - before.retransmissions,
        }
    }
}

impl PauseTally {
    fn turn(&mut self, now: Time, is_held: bool, by_pause: bool) {
        self.frames += u64::from(by_pause);
        match self.since {
            None if is_held => self.since = Some(now),
            Some(since) if !is_held => {
                self.span += now.since(since);
                self.since = None;
            }
            _ => {}
        }
    }

    fn until(&self, end: Time) -> Duration {
        self.since.map_or(self.span, |since| self.span + end.since(since))
    }
}

fn message_table(
    rows: &[(CompletionRow, FlowCounts)],
    fabric: &Fabric,
    flows: &[FlowSpec],
    owners: &Owners,
) -> Table {
    let spec = |row: &CompletionRow| &flows[row.flow as usize];
    let ids = |id: &dyn Fn(&CompletionRow) -> u32| rows.iter().map(|(row, _)| id(row)).collect();
    let columns = vec![
        ("flow", Column::U32(ids(&|row| row.flow))),
        ("job", owners.column(ids(&|row| owners.job_of(row.flow)))),
        ("src", node_column(ids(&|row| spec(row).from.code()), fabric)),
        ("dst", node_column(ids(&|row| spec(row).to.code()), fabric)),
        ("bytes", Column::of_u64(rows, |(row, _)| row.bytes)),
        ("start_s", Column::of_times(rows, |(row, _)| row.start)),
        ("end_s", Column::of_times(rows, |(row, _)| row.end)),
        ("fct_s", Column::of_seconds(rows, |(row, _)| row.end.since(row.start))),
        ("marks", Column::of_u64(rows, |(_, counts)| counts.marks.into())),
        ("cnps", Column::of_u64(rows, |(_, counts)| counts.cnps.into())),
        ("rate_cuts", Column::of_u64(rows, |(_, counts)| counts.rate_cuts)),
        ("retransmissions", Column::of_u64(rows, |(_, counts)| counts.retransmissions.into())),
    ];
    Table { name: "flows", columns }
}

fn pause_table(rows: &[PauseRow], fabric: &Fabric) -> Table {
    let columns = vec![
        ("at_s", Column::of_times(rows, |row| row.time)),
        ("link", link_column(rows.iter().map(|row| row.link).collect(), fabric)),
        ("priority", Column::U32(rows.iter().map(|row| row.priority.into()).collect())),
        ("pause", Column::Bool(rows.iter().map(|row| row.is_pause).collect())),
    ];
    Table { name: "pauses", columns }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ps: u64) -> Time {
        Time::from_ps(ps)
    }

    #[test]
    fn paused_time_runs_from_the_first_pause_to_the_resume_and_to_the_end() {
        let mut held = PauseTally::default();
        held.turn(at(10), true, true);
        // A second PAUSE only adds to the count; a second resume changes nothing.
        held.turn(at(15), true, true);
        held.turn(at(30), false, false);
        held.turn(at(40), false, false);
        held.turn(at(50), true, true);
        assert_eq!((held.frames, held.span.as_ps(), held.until(at(55)).as_ps()), (3, 20, 25));
    }
}
