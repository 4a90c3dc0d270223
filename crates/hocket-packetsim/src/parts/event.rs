//! Events of a run, packed into four bytes each.

/// An event.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// The first packet on this link reaches its end.
    Arrive(u32),
    /// This port has finished sending a packet.
    Free(u32),
    /// The pacing timer of this NIC expires.
    Wake(u32),
    /// The retransmission timer of this flow, which may have lost a packet, expires.
    Retry(u32),
    /// This receiving NIC may grant a packet.
    Grant(u32),
    /// A task from outside the network is due.
    Task(Task),
}

/// An event from outside the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// This message of the workload is posted.
    Message(u32),
    /// A wait of this job is over.
    Job(u32),
    /// A wait of this rank is over; ranks are numbered over all training jobs.
    Rank(u32),
    /// The receiver of this message of a training job notices it, after its endpoint delay.
    Notice(u32),
    /// Queues and rates are sampled.
    Sample,
    /// This change of a link takes effect.
    Change(u32),
    /// The run has reached its given end.
    End,
}

/// An event in four bytes: three bits for its kind, the others for the number of the link, flow, job or other object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PackedEvent(u32);

const EVENT_SHIFT: u32 = 29;
/// The largest number of links and of messages; jobs, ranks and changes can have half as many, since two kinds share one
/// code.
pub(crate) const MAX_OF_A_KIND: usize = 1 << EVENT_SHIFT;

impl Event {
    #[inline(always)]
    pub(crate) fn packed(self) -> PackedEvent {
        let (kind, which) = match self {
            Self::Arrive(link) => (0, link),
            Self::Free(port) => (1, port),
            Self::Wake(port) => (2, port),
            Self::Task(Task::Message(message)) => (3, message),
            Self::Task(Task::Job(job)) => (4, job << 1),
            Self::Task(Task::Change(change)) => (4, change << 1 | 1),
            Self::Task(Task::Rank(rank)) => (5, rank << 1),
            Self::Task(Task::Notice(parcel)) => (5, parcel << 1 | 1),
            Self::Task(Task::Sample) => (6, 0),
            Self::Task(Task::End) => (6, 1),
            Self::Grant(granter) => (6, 2 + granter),
            Self::Retry(flow) => (7, flow),
        };
        PackedEvent(kind << EVENT_SHIFT | which)
    }
}

impl PackedEvent {
    #[inline(always)]
    pub(crate) fn is_arrival(self) -> bool {
        self.0 >> EVENT_SHIFT == 0
    }

    /// Whether a port becomes free or its pacing timer expires.
    #[inline(always)]
    pub(crate) fn is_of_a_port(self) -> bool {
        matches!(self.0 >> EVENT_SHIFT, 1 | 2)
    }

    #[inline(always)]
    pub(crate) fn which(self) -> u32 {
        self.0 & (MAX_OF_A_KIND as u32 - 1)
    }

    #[inline(always)]
    pub(crate) fn event(self) -> Event {
        let which = self.which();
        match self.0 >> EVENT_SHIFT {
            0 => Event::Arrive(which),
            1 => Event::Free(which),
            2 => Event::Wake(which),
            3 => Event::Task(Task::Message(which)),
            4 if which & 1 == 0 => Event::Task(Task::Job(which >> 1)),
            4 => Event::Task(Task::Change(which >> 1)),
            5 if which & 1 == 0 => Event::Task(Task::Rank(which >> 1)),
            5 => Event::Task(Task::Notice(which >> 1)),
            6 if which == 0 => Event::Task(Task::Sample),
            6 if which == 1 => Event::Task(Task::End),
            6 => Event::Grant(which - 2),
            _ => Event::Retry(which),
        }
    }
}
