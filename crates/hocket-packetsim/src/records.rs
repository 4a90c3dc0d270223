//! What a run leaves behind: rows in the order of events, and the tables that they become, with units in the
//! names of columns. Rows are taken out while the run goes on.

use hocket_des::{Duration, Time};
use hocket_scenario::{Column, Fabric, Table};

use crate::build::{FlowSpec, Setup};
use crate::engine::Engine;
use crate::model::PRIORITIES;
use crate::port::Port;

/// A message arrived as a whole, and its sender knows.
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

/// What happened to a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
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
struct Held {
    frames: u64,
    since: Option<Time>,
    span: Duration,
}

/// What a port sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sent {
    packets: u64,
    bytes: u64,
    marked: u64,
}

/// What is counted of ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PortCounts {
    /// By port.
    sent: Vec<Sent>,
    /// By port and priority, then by port: PAUSE frames and paused time.
    held: Vec<(u64, Duration)>,
}

/// The rows of a run that were not taken out yet, and what is counted over the whole of it.
#[derive(Clone, Debug)]
pub(crate) struct Records {
    pub(crate) keeps_messages: bool,
    pub(crate) keeps_pauses: bool,
    messages: Vec<(CompletionRow, Seen)>,
    pauses: Vec<PauseRow>,
    /// By flow: what the rows of its messages have said.
    told: Vec<Seen>,
    /// By flow.
    retransmissions: Vec<u32>,
    /// By port and priority.
    held: Vec<Held>,
    /// By port: while some priority is paused.
    held_at_all: Vec<Held>,
    /// By port, if anything was repeated: what was sent in that, which the port itself knows nothing of.
    repeated: Vec<Sent>,
    pub(crate) pauses_sent: u64,
    /// Packets that a full buffer refused.
    pub(crate) losses: u64,
}

/// Which flow belongs to which job, for the tables.
#[derive(Clone, Debug)]
pub(crate) struct Owners {
    names: Vec<String>,
    /// By flow; of one without a job, the number of jobs.
    job_of: Vec<u32>,
}

impl Records {
    pub(crate) fn new(setup: &Setup<'_>) -> Self {
        let (flows, links) = (setup.flows.len(), setup.fabric.links().len());
        Self {
            keeps_messages: true,
            keeps_pauses: true,
            messages: Vec::new(),
            pauses: Vec::new(),
            told: vec![Seen::default(); flows],
            retransmissions: vec![0; flows],
            held: vec![Held::default(); links * PRIORITIES],
            held_at_all: vec![Held::default(); links],
            repeated: Vec::new(),
            pauses_sent: 0,
            losses: 0,
        }
    }

    /// A frame told the port that feeds `link` to stop sending a priority, or to go on.
    pub(crate) fn pause(&mut self, time: Time, link: u32, priority: u8, is_pause: bool) {
        if self.keeps_pauses {
            self.pauses.push(PauseRow { time, link, priority, is_pause });
        }
        let first = link as usize * PRIORITIES;
        self.held[first + usize::from(priority)].turn(time, is_pause, is_pause);
        let some = self.held[first..first + PRIORITIES].iter().any(|held| held.since.is_some());
        self.held_at_all[link as usize].turn(time, some, is_pause);
    }

    /// A message is complete, after its flow has `seen` this much in all.
    pub(crate) fn complete(&mut self, row: CompletionRow, seen: Seen) {
        if self.keeps_messages {
            let told = std::mem::replace(&mut self.told[row.flow as usize], seen);
            self.messages.push((row, seen.since(told)));
        }
    }

    /// The sender of a flow went back to what did not arrive.
    pub(crate) fn went_back(&mut self, flow: u32) {
        self.retransmissions[flow as usize] += 1;
    }

    /// How often a flow went back.
    pub(crate) fn retransmissions(&self, flow: u32) -> u32 {
        self.retransmissions[flow as usize]
    }

    /// PAUSE frames that arrived, at all ports.
    pub(crate) fn pauses_received(&self) -> u64 {
        self.held_at_all.iter().map(|held| held.frames).sum()
    }

    /// Since when some port has sent nothing of some priority without a break: the earliest such time.
    pub(crate) fn longest_paused_since(&self) -> Option<Time> {
        // A port that is paused as a whole for shorter has no priority that is paused for longer.
        self.held_at_all.iter().filter_map(|held| held.since).min()
    }

    /// What was counted up to `now`.
    pub(crate) fn port_counts(&self, ports: &[Port], now: Time) -> PortCounts {
        let sent = |port: &Port| Sent {
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

    /// What was counted in some time happened so many `times` more.
    pub(crate) fn repeat(&mut self, each: &PortCounts, times: u64) {
        self.repeated.resize(each.sent.len(), Sent::default());
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

    fn sent(&self, link: u32, port: &Port) -> Sent {
        let more = self.repeated.get(link as usize).copied().unwrap_or_default();
        Sent {
            packets: port.sent_packets + more.packets,
            bytes: port.sent_bytes + more.bytes,
            marked: port.marked_packets + more.marked,
        }
    }

    /// Rows that were not taken out yet.
    pub(crate) fn rows(&self) -> usize {
        self.messages.len() + self.pauses.len()
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
    /// What was counted since `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let sent = |(now, before): (&Sent, &Sent)| Sent {
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

    /// How many counts these are.
    pub(crate) fn size(&self) -> usize {
        self.sent.len() + self.held.len()
    }
}

impl Owners {
    /// Jobs of these names; `job_of` says by flow which of them it counts for.
    pub(crate) fn new(names: Vec<String>, job_of: impl IntoIterator<Item = Option<u32>>) -> Self {
        let nobody = names.len() as u32;
        Self { names, job_of: job_of.into_iter().map(|job| job.unwrap_or(nobody)).collect() }
    }

    /// Jobs, and one more for the flows that belong to none.
    pub(crate) fn count(&self) -> usize {
        self.names.len() + 1
    }

    /// The job of a flow; the number of jobs if it has none.
    #[inline]
    pub(crate) fn job_of(&self, flow: u32) -> u32 {
        self.job_of[flow as usize]
    }

    /// Names of jobs by these numbers; empty for no job.
    pub(crate) fn column(&self, codes: Vec<u32>) -> Column {
        let mut dictionary = self.names.clone();
        dictionary.push(String::new());
        Column::Str { codes, dictionary }
    }
}

impl Seen {
    fn since(self, before: Self) -> Self {
        Self {
            marks: self.marks - before.marks,
            cnps: self.cnps - before.cnps,
            rate_cuts: self.rate_cuts - before.rate_cuts,
            retransmissions: self.retransmissions - before.retransmissions,
        }
    }
}

impl Held {
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

/// The tables that come last: `ports`, `paused` and `switches`. A port that is paused at the end counts until then.
pub(crate) fn last_tables(engine: &Engine<'_>, fabric: &Fabric) -> [Table; 3] {
    [port_table(engine, fabric), held_table(engine, fabric), switch_table(engine, fabric)]
}

/// A column of the names of links.
pub(crate) fn link_column(links: Vec<u32>, fabric: &Fabric) -> Column {
    name_column(links, |link| &fabric.links()[link as usize].name)
}

/// A column of the names of nodes.
pub(crate) fn node_column(nodes: Vec<u32>, fabric: &Fabric) -> Column {
    name_column(nodes, |node| &fabric.nodes()[node as usize].name)
}

/// A column of whole numbers.
pub(crate) fn u64_column<Row>(rows: &[Row], value: impl Fn(&Row) -> u64) -> Column {
    Column::U64(rows.iter().map(value).collect())
}

// The dictionary holds only the names that occur: a large fabric has many more.
fn name_column<'a>(mut ids: Vec<u32>, name: impl Fn(u32) -> &'a String) -> Column {
    let mut used = ids.clone();
    used.sort_unstable();
    used.dedup();
    for id in &mut ids {
        *id = used.binary_search(id).expect("every id was collected") as u32;
    }
    Column::Str { codes: ids, dictionary: used.into_iter().map(|id| name(id).clone()).collect() }
}

fn message_table(
    rows: &[(CompletionRow, Seen)],
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
        ("bytes", u64_column(rows, |(row, _)| row.bytes)),
        ("start_ps", u64_column(rows, |(row, _)| row.start.as_ps())),
        ("end_ps", u64_column(rows, |(row, _)| row.end.as_ps())),
        ("fct_s", seconds_column(rows, |(row, _)| row.end.since(row.start))),
        ("marks", u64_column(rows, |(_, seen)| seen.marks.into())),
        ("cnps", u64_column(rows, |(_, seen)| seen.cnps.into())),
        ("rate_cuts", u64_column(rows, |(_, seen)| seen.rate_cuts)),
        ("retransmissions", u64_column(rows, |(_, seen)| seen.retransmissions.into())),
    ];
    Table { name: "flows", columns }
}

fn pause_table(rows: &[PauseRow], fabric: &Fabric) -> Table {
    let columns = vec![
        ("time_ps", u64_column(rows, |row| row.time.as_ps())),
        ("link", link_column(rows.iter().map(|row| row.link).collect(), fabric)),
        ("priority", Column::U32(rows.iter().map(|row| row.priority.into()).collect())),
        ("pause", Column::U32(rows.iter().map(|row| row.is_pause.into()).collect())),
    ];
    Table { name: "pauses", columns }
}

fn port_table(engine: &Engine<'_>, fabric: &Fabric) -> Table {
    let is_used = |link: &u32| engine.ports[*link as usize].sent_packets > 0;
    let links: Vec<u32> = (0..engine.ports.len() as u32).filter(is_used).collect();
    let port = |link: &u32| &engine.ports[*link as usize];
    let sent = |link: &u32| engine.records.sent(*link, port(link));
    let held = |link: &u32| &engine.records.held_at_all[*link as usize];
    let columns = vec![
        ("packets", u64_column(&links, |link| sent(link).packets)),
        ("bytes", u64_column(&links, |link| sent(link).bytes)),
        ("marked", u64_column(&links, |link| sent(link).marked)),
        ("peak_bytes", u64_column(&links, |link| port(link).peak_bytes)),
        ("pauses", u64_column(&links, |link| held(link).frames)),
        ("paused_s", seconds_column(&links, |link| held(link).until(engine.now))),
    ];
    let name = ("link", link_column(links, fabric));
    Table { name: "ports", columns: std::iter::once(name).chain(columns).collect() }
}

fn held_table(engine: &Engine<'_>, fabric: &Fabric) -> Table {
    let held = |place: &usize| &engine.records.held[*place];
    let all = 0..engine.records.held.len();
    let places: Vec<usize> = all.filter(|place| held(place).frames > 0).collect();
    let link = |place: &usize| (place / PRIORITIES) as u32;
    let priority = |place: &usize| (place % PRIORITIES) as u32;
    let columns = vec![
        ("link", link_column(places.iter().map(link).collect(), fabric)),
        ("priority", Column::U32(places.iter().map(priority).collect())),
        ("pauses", u64_column(&places, |place| held(place).frames)),
        ("paused_s", seconds_column(&places, |place| held(place).until(engine.now))),
    ];
    Table { name: "paused", columns }
}

fn switch_table(engine: &Engine<'_>, fabric: &Fabric) -> Table {
    let is_switch = |node: &u32| fabric.nodes()[*node as usize].kind.is_switch();
    let switches: Vec<u32> = (0..fabric.nodes().len() as u32).filter(is_switch).collect();
    let peaks = u64_column(&switches, |node| engine.switches[*node as usize].peak_bytes);
    let columns = vec![("switch", node_column(switches, fabric)), ("peak_bytes", peaks)];
    Table { name: "switches", columns }
}

fn seconds_column<Row>(rows: &[Row], value: impl Fn(&Row) -> Duration) -> Column {
    Column::F64(rows.iter().map(|row| value(row).as_secs_f64()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ps: u64) -> Time {
        Time::from_ps(ps)
    }

    #[test]
    fn paused_time_runs_from_the_first_pause_to_the_resume_and_to_the_end() {
        let mut held = Held::default();
        held.turn(at(10), true, true);
        // A second PAUSE changes nothing but the count, as a resume without a PAUSE does.
        held.turn(at(15), true, true);
        held.turn(at(30), false, false);
        held.turn(at(40), false, false);
        held.turn(at(50), true, true);
        assert_eq!((held.frames, held.span.as_ps(), held.until(at(55)).as_ps()), (3, 20, 25));
    }

    #[test]
    fn a_flow_without_a_job_has_an_empty_name() {
        let names = vec!["a".to_owned(), "b".to_owned()];
        let owners = Owners::new(names, [Some(1), Some(0), None, Some(1)]);
        assert_eq!([0, 1, 2, 3].map(|flow| owners.job_of(flow)), [1, 0, 2, 1]);
        let Column::Str { dictionary, .. } = owners.column(vec![2]) else { unreachable!() };
        assert_eq!(dictionary, ["a", "b", ""]);
    }
}
