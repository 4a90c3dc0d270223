//! Who sends when: messages at given times.

use hocket_des::Time;

use crate::RunError;
use crate::build::Setup;
use crate::engine::{Engine, Owner, Step, Work};
use crate::records::Records;

/// Bytes that a flow has to send once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageSpec {
    /// Which flow.
    pub flow: usize,
    /// How much.
    pub bytes: u64,
    /// From when on.
    pub start: Time,
}

pub struct Outcome {
    pub records: Records,
    pub packet_hops: u64,
    pub events: u64,
    pub end: Time,
    pub peaks: Vec<u64>,
    pub switch_peaks: Vec<u64>,
    pub marked: Vec<u64>,
    pub flow_marks: Vec<u32>,
}

pub fn run(setup: &Setup<'_>, messages: &[MessageSpec]) -> Result<Outcome, RunError> {
    let mut engine = Engine::new(setup, &[])?;
    for (index, message) in messages.iter().enumerate() {
        engine.schedule_work(message.start, Work::Message(index as u32));
    }
    while let Some(step) = engine.step() {
        if let Step::Work(Work::Message(index)) = step {
            let spec = &messages[index as usize];
            engine.post(spec.flow as u32, spec.bytes, Owner::Nobody);
        }
        while let Some(flow) = engine.completed.pop() {
            engine.complete(flow, |_| {});
        }
    }
    Ok(Outcome {
        packet_hops: engine.packet_hops,
        events: engine.events,
        end: engine.now,
        peaks: engine.ports.iter().map(|port| port.peak_bytes).collect(),
        flow_marks: engine.returns.iter().map(|each| each.marks).collect(),
        marked: engine.ports.iter().map(|port| port.marked_packets).collect(),
        switch_peaks: engine.switches.iter().map(|switch| switch.peak_bytes).collect(),
        records: engine.records,
    })
}
