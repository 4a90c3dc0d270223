//! The messages of each flow: where in its stream of bytes each ends, and for whom it was sent.

use std::collections::VecDeque;

use hocket_des::Time;

/// Bytes that are sent as one: the last packet is as short as need be, and its acknowledgement completes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    /// Where it ends in the flow's stream.
    pub(crate) end: u64,
    pub(crate) bytes: u64,
    pub(crate) posted: Time,
    pub(crate) poster: Poster,
}

/// Who is told that a message is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Poster {
    /// Nobody: the message stands for itself.
    Nobody,
    /// This job.
    Job(u32),
    /// The training job that has this message, also when all has arrived.
    Parcel(u32),
}

/// Messages that are not complete, by flow.
#[derive(Clone, Debug, Default)]
pub(crate) struct Messages {
    by_flow: Vec<VecDeque<Message>>,
    /// By flow: how many of them have arrived, the oldest first.
    arrived: Vec<u32>,
}

impl Messages {
    pub(crate) fn new(flows: usize) -> Self {
        Self { by_flow: vec![VecDeque::new(); flows], arrived: vec![0; flows] }
    }

    pub(crate) fn push(&mut self, flow: u32, message: Message) {
        self.by_flow[flow as usize].push_back(message);
    }

    /// The message that holds the byte at `sequence`, if it is not complete.
    pub(crate) fn holding(&self, flow: u32, sequence: u64) -> Option<&Message> {
        self.by_flow[flow as usize].iter().find(|message| message.end > sequence)
    }

    /// Where the message that holds the byte at `sequence` ends.
    pub(crate) fn boundary_after(&self, flow: u32, sequence: u64) -> u64 {
        self.holding(flow, sequence).map_or(sequence, |message| message.end)
    }

    /// The oldest message of the flow that has not arrived, if all its bytes are received: from now on it has.
    pub(crate) fn note_arrival(&mut self, flow: u32, received: u64) -> Option<Message> {
        let arrived = &mut self.arrived[flow as usize];
        let message = self.by_flow[flow as usize].get(*arrived as usize);
        let message = *message.filter(|message| message.end <= received)?;
        *arrived += 1;
        Some(message)
    }

    /// Takes the oldest message of the flow out if all its bytes are acknowledged.
    pub(crate) fn take_complete(&mut self, flow: u32, acknowledged: u64) -> Option<Message> {
        let queue = &mut self.by_flow[flow as usize];
        queue.front().filter(|message| message.end <= acknowledged)?;
        let arrived = &mut self.arrived[flow as usize];
        *arrived = arrived.saturating_sub(1);
        queue.pop_front()
    }

    /// Where the flow's oldest message ends.
    pub(crate) fn milestone(&self, flow: u32) -> u64 {
        self.by_flow[flow as usize].front().map_or(u64::MAX, |message| message.end)
    }

    /// Flows with a message that is not complete.
    pub(crate) fn unfinished(&self) -> impl Iterator<Item = (usize, &Message)> {
        self.by_flow
            .iter()
            .enumerate()
            .filter_map(|(flow, queue)| queue.front().map(|each| (flow, each)))
    }
}
