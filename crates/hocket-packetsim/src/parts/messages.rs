//! The messages of each flow: where each ends in the flow's stream of bytes, and who posted it.

use std::collections::VecDeque;

use hocket_des::Time;

/// A message of a flow. Its last packet carries only what is left, and the acknowledgement of that packet completes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    /// Where it ends in the flow's stream.
    pub(crate) end: u64,
    pub(crate) bytes: u64,
    pub(crate) posted: Time,
    pub(crate) poster: Poster,
}

/// Who is notified that a message is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Poster {
    /// Nobody: the message is part of the workload itself.
    Nobody,
    /// This job.
    Job(u32),
    /// The training job that sent this message. It is also notified when all of the message has arrived.
    Parcel(u32),
}

/// The messages of each flow that are not complete.
#[derive(Clone, Debug, Default)]
pub(crate) struct Messages {
    by_flow: Vec<VecDeque<Message>>,
    /// By flow: how many of these have arrived; they are always the oldest.
    arrived: Vec<u32>,
}

impl Messages {
    pub(crate) fn new(flows: usize) -> Self {
        Self { by_flow: vec![VecDeque::new(); flows], arrived: vec![0; flows] }
    }

    pub(crate) fn push(&mut self, flow: u32, message: Message) {
        self.by_flow[flow as usize].push_back(message);
    }

    /// The message that contains the byte at `sequence`, if it is not complete.
    pub(crate) fn holding(&self, flow: u32, sequence: u64) -> Option<&Message> {
        self.by_flow[flow as usize].iter().find(|message| message.end > sequence)
    }

    /// Where the message that contains the byte at `sequence` ends; `sequence` if there is none.
    pub(crate) fn boundary_after(&self, flow: u32, sequence: u64) -> u64 {
        self.holding(flow, sequence).map_or(sequence, |message| message.end)
    }

    /// The oldest message of the flow that has not counted as arrived, if all its bytes are received; it counts from now on.
    pub(crate) fn note_arrival(&mut self, flow: u32, received: u64) -> Option<Message> {
        let arrived = &mut self.arrived[flow as usize];
        let message = self.by_flow[flow as usize].get(*arrived as usize);
        let message = *message.filter(|message| message.end <= received)?;
        *arrived += 1;
        Some(message)
    }

    /// Removes the oldest message of the flow if all its bytes are acknowledged.
    pub(crate) fn take_complete(&mut self, flow: u32, acknowledged: u64) -> Option<Message> {
        let queue = &mut self.by_flow[flow as usize];
        queue.front().filter(|message| message.end <= acknowledged)?;
        // Arrivals are counted only for training jobs; other flows keep a count of 0.
        let arrived = &mut self.arrived[flow as usize];
        *arrived = arrived.saturating_sub(1);
        queue.pop_front()
    }

    /// Where the flow's oldest message ends; `u64::MAX` if there is none.
    pub(crate) fn milestone(&self, flow: u32) -> u64 {
        self.by_flow[flow as usize].front().map_or(u64::MAX, |message| message.end)
    }

    /// Flows with a message that is not complete, each with its oldest.
    pub(crate) fn unfinished(&self) -> impl Iterator<Item = (usize, &Message)> {
        self.by_flow
            .iter()
            .enumerate()
            .filter_map(|(flow, queue)| queue.front().map(|each| (flow, each)))
    }
}
