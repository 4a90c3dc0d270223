//! Hosts: they acknowledge data, react to acknowledgements, and send what their queue pairs may send.

use std::num::NonZeroU32;
use std::ops::Range;

use hocket_des::{Bytes, Rate, Time};
use hocket_scenario::{PathChoice, WindowRule};
use hocket_transport::congestion::receiver_driven::Parameters;
use hocket_transport::telemetry::MAX_HOPS;
use hocket_transport::{Answer, Control, PhaseProgress, Policy, Receiver, Sender, Window};
use prefetch_index::prefetch_index;

use crate::error::PacketRunError;
use crate::model::Notification;
use crate::network::credits::{Credits, Grant, Inlet};
use crate::network::medium::Medium;
use crate::network::paths::FlowPaths;
use crate::network::wires::Wires;
use crate::parts::event::Event;
use crate::parts::flow::{
    CongestionState, Flow, REPORTS_ARRIVALS, REPORTS_MARKS, ReceiverState, SenderState,
};
use crate::parts::messages::{Message, Messages, Poster};
use crate::parts::nic::Nic;
use crate::parts::packet::{self, Header, Kind, Packet};
use crate::parts::ring::prefetch;
use crate::parts::spray::Spray;
use crate::records::{CompletionRow, FlowCounts, Recorder};
use crate::setup::{FlowSpec, INSIDE_SERVERS, Setup};

/// All hosts: their NICs, and both ends of every flow.
pub(crate) struct Hosts {
    /// The policies of the setup, then that of flows inside servers.
    policies: Vec<Policy>,
    /// By port; empty for ports of switches.
    nics: Vec<Nic>,
    // The state of a flow is split into four arrays, so that a packet touches only the cache lines that it needs.
    pub(crate) flows: Vec<Flow>,
    pub(crate) congestion: Vec<CongestionState>,
    sender_states: Vec<SenderState>,
    pub(crate) receiver_states: Vec<ReceiverState>,
    /// By flow: the number of CNPs that its receiver sent.
    cnps: Vec<u32>,
    sprays: Vec<Spray>,
    pub(crate) messages: Messages,
    /// Flows that may have a complete message, or with the bit [`ARRIVED`] a message that has arrived.
    due: Vec<u32>,
    /// The grants of receivers, if some flow is receiver-driven.
    credits: Option<Box<Credits>>,
}

/// A flow whose messages must be checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// The last byte of a message may have arrived.
    Arrival(u32),
    /// The last byte of a message may be acknowledged.
    Completion(u32),
}

// In `due`, marks an arrival as opposed to a completion.
const ARRIVED: u32 = 1 << 31;

impl Hosts {
    /// The hosts of a fabric, still without flows.
    pub(crate) fn new(setup: &Setup<'_>, wires: &Wires) -> Self {
        let (flows, arithmetic) = (setup.flows.len(), setup.model.arithmetic);
        let nics = wires.ports.iter();
        let nics =
            nics.map(|port| Nic::new(arithmetic.queue_pair_list().filter(|_| port.from_host)));
        Self {
            policies: setup.policies.iter().cloned().chain([INSIDE_SERVERS]).collect(),
            nics: nics.collect(),
            flows: Vec::with_capacity(flows),
            congestion: Vec::with_capacity(flows),
            sender_states: Vec::with_capacity(flows),
            receiver_states: Vec::with_capacity(flows),
            cnps: vec![0; flows],
            sprays: Vec::new(),
            messages: Messages::new(flows),
            due: Vec::new(),
            credits: None,
        }
    }

    /// Adds the next flow, which takes these paths.
    ///
    /// # Errors
    /// If the parameters of its policy do not suit the path, or its telemetry does not work on these paths.
    pub(crate) fn add_flow(
        &mut self,
        setup: &Setup<'_>,
        wires: &Wires,
        spec: &FlowSpec,
        paths: FlowPaths,
    ) -> Result<(), PacketRunError> {
        let FlowPaths { forward, reverse, switches, path, window } = paths;
        let index = self.flows.len();
        let (frames, policy) = (setup.frames_of(spec), setup.policy_of(spec));
        let governed_by = if setup.is_inside(spec) { setup.policies.len() } else { spec.policy };
        policy.validate(path.line_rate).map_err(|error| {
            let from = setup.fabric.nodes()[spec.from.index()].name.clone();
            PacketRunError::Parameter { flow: index, from, error }
        })?;
        let (header, extra) = match policy {
            Policy::Timely(_) => (Header::Stamp, frames.stamp),
            Policy::Hpcc(_) => (Header::Hops, frames.hops),
            Policy::Pint(_) => (Header::Load, frames.load),
            // No control reads the stamp of other flows, which therefore has no bytes on the wire.
            _ => (Header::Stamp, 0),
        };
        let is_sprayed = spec.path == PathChoice::Spray;
        if is_sprayed && header != Header::Stamp {
            let name = if header == Header::Hops { "hpcc" } else { "hpcc-pint" };
            return Err(PacketRunError::SprayedTelemetry { flow: index, policy: name });
        }
        if header == Header::Hops && switches > MAX_HOPS {
            let (flow, hops, limit) = (index, switches, MAX_HOPS);
            return Err(PacketRunError::TooManyHops { flow, hops, limit });
        }
        let window = match window {
            WindowRule::Unlimited => None,
            WindowRule::PathFull { scaled } => Some(Window { bytes: path.window, scaled }),
            WindowRule::Bytes(bytes) => Some(Window { bytes, scaled: false }),
        };
        // A link and the port that feeds it have the same number: the first link of a route is the sender's port.
        let nic = wires.routes[forward[0] as usize];
        let slot = self.nics[nic as usize].add(index as u32, spec.priority);
        let rounding = setup.model.arithmetic.rounding();
        self.flows.push(Flow {
            sender: Sender::new(path.line_rate, window, rounding),
            milestone: u64::MAX,
            route: forward[0],
            nic,
            slot,
            policy: governed_by as u16,
            mtu: frames.mtu,
            overhead: frames.data_header + extra,
            last_wire: 0,
            priority: spec.priority,
            header,
            moves_next_send: Control::moves_next_send(policy),
            uses_acks: matches!(
                policy,
                Policy::Dctcp(_) | Policy::Timely(_) | Policy::Hpcc(_) | Policy::Pint(_)
            ),
            is_adaptive: matches!(policy, Policy::Dcqcn(parameters) if parameters.adaptive),
        });
        if is_sprayed {
            self.sprays.push(Spray::new(forward, setup.seed, index));
        }
        let place = NonZeroU32::new(self.sprays.len() as u32);
        let spray = place.filter(|_| is_sprayed);
        self.sender_states.push(SenderState { phase: PhaseProgress::default(), spray });
        self.congestion.push(CongestionState { control: Control::new(policy, &path), path });
        self.receiver_states.push(ReceiverState {
            receiver: if is_sprayed { Receiver::in_any_order() } else { Receiver::new() },
            route: reverse,
            nic: wires.routes[reverse as usize],
            marks: 0,
            wire: (frames.ack + extra).max(frames.minimum),
            priority: spec.priority,
            reports: if matches!(policy, Policy::Dcqcn(_)) { REPORTS_MARKS } else { 0 },
        });
        if let Policy::ReceiverDriven(parameters) = policy {
            // The reverse route follows the forward routes in the table.
            let last = wires.routes[reverse as usize - 1];
            self.put_on_credit(setup, wires, index as u32, *parameters, last);
        }
        Ok(())
    }

    // `last` is the last link of the flow's path.
    fn put_on_credit(
        &mut self,
        setup: &Setup<'_>,
        wires: &Wires,
        id: u32,
        parameters: Parameters,
        last: u32,
    ) {
        let flow = &mut self.flows[id as usize];
        flow.sender.set_on_credit();
        let mtu = setup.model.frames.mtu;
        let wire = Bytes::new(u64::from(mtu) + u64::from(flow.overhead));
        let inlet = Inlet { link: last, rate: wires.rate(&wires.ports[last as usize]), mtu, wire };
        self.credits.get_or_insert_default().add(id, parameters, inlet);
    }

    // --- messages and phases ---

    /// Queues a message of `bytes` on a flow; `poster` is notified when it is complete.
    pub(crate) fn post(&mut self, medium: &mut Medium<'_>, id: u32, bytes: u64, poster: Poster) {
        let flow = &mut self.flows[id as usize];
        let end = flow.sender.post(bytes);
        self.messages.push(id, Message { end, bytes, posted: medium.clock.now, poster });
        flow.milestone = self.messages.milestone(id);
        // With nothing before it left to send, the message begins at once; otherwise, when its turn comes.
        if flow.sender.sent() == end - bytes {
            self.begin_on_credit(medium, id);
        }
        let flow = &self.flows[id as usize];
        let (nic, slot) = (flow.nic, flow.slot);
        self.nics[nic as usize].activate(slot);
        self.update_turn(medium, id);
        self.try_send(medium, nic);
    }

    /// Begins a phase of a flow's job, in which the flow sends `bytes` bytes of data at most at `rate`.
    pub(crate) fn begin_phase(&mut self, id: usize, bytes: u64, rate: Rate) {
        let flow = &mut self.flows[id];
        flow.set_data_rate(rate);
        self.sender_states[id].phase = PhaseProgress { sent: flow.sender.posted(), total: bytes };
    }

    /// Adds `bytes` to the current phase of a flow, or begins a new phase if everything sent before is acknowledged.
    pub(crate) fn extend_phase(&mut self, id: u32, bytes: u64) {
        let sender = &self.flows[id as usize].sender;
        let phase = &mut self.sender_states[id as usize].phase;
        if sender.is_done() {
            *phase = PhaseProgress { sent: sender.posted(), total: bytes };
        } else {
            phase.total += bytes;
        }
    }

    /// Turns on reports of arrivals for these flows: posters are notified when a message arrives, before it is acknowledged.
    pub(crate) fn report_arrivals(&mut self, flows: Range<usize>) {
        for state in &mut self.receiver_states[flows] {
            state.reports |= REPORTS_ARRIVALS;
        }
    }

    /// Whether some flow's messages must be checked.
    #[inline(always)]
    pub(crate) fn has_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Takes out a flow whose messages must be checked.
    pub(crate) fn take_due(&mut self) -> Option<Due> {
        let entry = self.due.pop()?;
        let flow = entry & !ARRIVED;
        Some(if entry == flow { Due::Completion(flow) } else { Due::Arrival(flow) })
    }

    /// Records the complete messages of a flow and notifies their posters.
    pub(crate) fn complete(
        &mut self,
        now: Time,
        recorder: &mut Recorder,
        id: u32,
        mut notify: impl FnMut(Poster),
    ) {
        let acknowledged = self.flows[id as usize].sender.acknowledged();
        while let Some(message) = self.messages.take_complete(id, acknowledged) {
            let Message { bytes, posted, poster, .. } = message;
            let row = CompletionRow { flow: id, bytes, start: posted, end: now };
            recorder.complete(row, self.flow_counts(recorder, id));
            notify(poster);
        }
        self.flows[id as usize].milestone = self.messages.milestone(id);
    }

    /// Notifies the posters of a flow's messages that have arrived.
    pub(crate) fn arrived(&mut self, id: u32, mut notify: impl FnMut(Poster)) {
        let received = self.receiver_states[id as usize].receiver.received();
        while let Some(message) = self.messages.note_arrival(id, received) {
            notify(message.poster);
        }
    }

    // --- state of flows ---

    /// The counts of a flow so far.
    pub(crate) fn flow_counts(&self, recorder: &Recorder, id: u32) -> FlowCounts {
        let (marks, cnps) = (self.receiver_states[id as usize].marks, self.cnps[id as usize]);
        let rate_cuts = self.rate_cuts(id);
        FlowCounts { marks, cnps, rate_cuts, retransmissions: recorder.retransmissions(id) }
    }

    /// How often congestion control cut the rate of a flow.
    pub(crate) fn rate_cuts(&self, id: u32) -> u64 {
        self.congestion[id as usize].control.cuts()
    }

    /// By flow: the rate that congestion control last allowed.
    pub(crate) fn rates_bps(&self) -> Vec<u64> {
        self.congestion.iter().map(|state| state.control.rate_bps()).collect()
    }

    /// The rate that congestion control allows a flow at `now`; 0 if nothing is left to send or to be acknowledged.
    ///
    /// A control evaluates its timers lazily. This evaluates them on a copy, because the adaptive form of DCQCN reads the
    /// progress of its phase whenever it evaluates them: sampling the original would change the run.
    pub(crate) fn allowed_bps(&self, now: Time, id: u32) -> u64 {
        let flow = &self.flows[id as usize];
        if flow.sender.is_done() {
            return 0;
        }
        let sender_state = &self.sender_states[id as usize];
        let policy = &self.policies[usize::from(flow.policy)];
        let sent = flow.sender.sent().saturating_sub(sender_state.phase.sent);
        let CongestionState { mut control, path } = self.congestion[id as usize].clone();
        let progress = PhaseProgress { sent, total: sender_state.phase.total };
        control.catch_up(policy, &path, now, progress);
        control.rate_bps()
    }

    /// The end of what the receiver of a flow has granted, whether or not the grant has reached the sender; 0 without grants.
    pub(crate) fn granted(&self, id: u32) -> u64 {
        self.credits.as_ref().map_or(0, |credits| credits.granted(id))
    }

    /// The routes of a flow's data: several if it is sprayed.
    pub(crate) fn forward_routes(&self, id: u32) -> Vec<u32> {
        match self.sender_states[id as usize].spray {
            Some(spray) => self.sprays[spray.get() as usize - 1].routes.clone(),
            None => vec![self.flows[id as usize].route],
        }
    }

    // --- failures ---

    /// Stops a flow that has no path, until [`Self::release`].
    pub(crate) fn hold(&mut self, medium: &Medium<'_>, id: u32) {
        self.flows[id as usize].sender.hold();
        self.update_turn(medium, id);
    }

    /// Lets a flow that was held send again.
    pub(crate) fn release(&mut self, id: u32) {
        let allowed = self.congestion[id as usize].control.rate_bps();
        self.flows[id as usize].sender.release(allowed);
    }

    /// Moves a flow to the routes `forward`, and its acknowledgements to the route `reverse`.
    pub(crate) fn reroute(&mut self, wires: &Wires, id: u32, forward: Vec<u32>, reverse: u32) {
        let nic = wires.routes[forward[0] as usize];
        let flow = &mut self.flows[id as usize];
        flow.route = forward[0];
        // The new path may leave the host by another NIC, which then takes over the queue pair. Slots are never reused.
        if flow.nic != nic {
            self.nics[flow.nic as usize].finish(flow.slot);
            flow.slot = self.nics[nic as usize].add(id, flow.priority);
            flow.nic = nic;
            self.nics[nic as usize].activate(flow.slot);
        }
        if let Some(spray) = self.sender_states[id as usize].spray {
            self.sprays[spray.get() as usize - 1].replace(forward);
        }
        self.receiver_states[id as usize].route = reverse;
    }

    /// Removes the next acknowledgement that waits at a port, whose link has failed.
    pub(crate) fn discard_answer(&mut self, port: u32) -> Option<Packet> {
        let answers = &mut self.nics[port as usize].answers;
        if answers.is_empty() { None } else { Some(answers.pop_front()) }
    }

    /// Makes a flow retransmit from `sequence` on, up to which everything has arrived.
    pub(crate) fn go_back(&mut self, medium: &mut Medium<'_>, id: u32, sequence: u64) {
        let flow = &mut self.flows[id as usize];
        // Everything before the missing byte has arrived, so a NACK also acknowledges it.
        flow.sender.on_ack(sequence);
        let boundary = self.messages.boundary_after(id, sequence);
        flow.sender.go_back(sequence, boundary);
        let nic = flow.nic;
        medium.recorder.went_back(id);
        self.update_turn(medium, id);
        self.try_send(medium, nic);
    }

    /// Repeats the last grant to the sender of a flow, in case it was lost.
    pub(crate) fn repeat_grant(&mut self, medium: &mut Medium<'_>, id: u32) {
        let granted = self.granted(id);
        if granted > self.flows[id as usize].sender.acknowledged() {
            self.send_grant(medium, Grant { flow: id, end: granted });
        }
    }

    // --- arriving packets ---

    /// Handles a packet that has arrived at its destination.
    pub(crate) fn take_in(&mut self, medium: &mut Medium<'_>, packet: &Packet) {
        match packet.kind {
            Kind::Data => {
                self.take_data(medium, packet);
                if let Some(credits) = &mut self.credits {
                    let received = self.receiver_states[packet.flow as usize].receiver.received();
                    let (clock, mtu) = (&mut medium.clock, medium.model.frames.mtu);
                    credits.on_data(clock, &self.messages, packet.flow, received, mtu);
                }
            }
            Kind::Ack => self.take_ack(medium, packet),
            Kind::Nack => self.take_nack(medium, packet),
            Kind::Cnp => self.take_cnp(medium, packet),
            Kind::Grant => self.take_grant(medium, packet),
            Kind::Pause | Kind::Resume => unreachable!("the network handles PAUSE frames"),
            Kind::Lost => unreachable!("a lost packet never arrives"),
        }
    }

    #[inline(always)]
    fn take_data(&mut self, medium: &mut Medium<'_>, packet: &Packet) {
        let (model, now) = (medium.model, medium.clock.now);
        let state = &mut self.receiver_states[packet.flow as usize];
        state.marks += u32::from(packet.is_marked());
        let nic = state.nic;
        if state.reports & REPORTS_MARKS != 0
            && packet.is_marked()
            && let Notification::Packets { interval, priority } = model.notification
            && state.receiver.may_notify(now, interval)
        {
            self.cnps[packet.flow as usize] += 1;
            let wire = model.frames.ack;
            // The packet is at the first link of its route already, so its next one is the second.
            let cnp = Packet::new(Kind::Cnp, packet.flow, state.route + 1, wire, priority);
            self.nics[nic as usize].answers.push_back(cnp);
        }
        let answer = state.receiver.on_data(
            now,
            packet.sequence(state.receiver.received()),
            packet.payload,
            packet.ends_message(),
            &model.answering,
        );
        // In any order, the last packet to arrive need not be the last of its message.
        let may_end = packet.ends_message() || state.receiver.takes_any_order();
        if may_end && state.reports & REPORTS_ARRIVALS != 0 {
            self.due.push(packet.flow | ARRIVED);
        }
        let (kind, sequence) = match answer {
            Answer::None => {
                medium.telemetry.free_place(packet);
                return self.try_send(medium, nic);
            }
            Answer::Ack(sequence) => (Kind::Ack, sequence),
            Answer::Nack(sequence) => (Kind::Nack, sequence),
        };
        let mut reply = Packet::new(kind, packet.flow, state.route + 1, state.wire, state.priority);
        reply.set_sequence(sequence);
        reply.meta = packet.meta;
        reply.set_header(packet.header());
        reply.set_echo(packet.is_marked());
        self.nics[nic as usize].answers.push_back(reply);
        self.try_send(medium, nic);
    }

    fn take_ack(&mut self, medium: &mut Medium<'_>, packet: &Packet) {
        let now = medium.clock.now;
        let flow = &mut self.flows[packet.flow as usize];
        let CongestionState { control, path } = &mut self.congestion[packet.flow as usize];
        let policy = &self.policies[usize::from(flow.policy)];
        let before = control.rate_bps();
        let marked = packet.echoes_mark();
        let sender_state = &self.sender_states[packet.flow as usize];
        let progress = flow.progress(sender_state);
        // Timers that have expired take effect before the acknowledgement.
        control.catch_up(policy, path, now, progress);
        let was_open = flow.sender.is_open();
        let skips = flow.sender.on_ack(packet.sequence(flow.sender.acknowledged()));
        if marked && medium.model.notification == Notification::InAcks {
            control.on_cnp(policy, path, now);
        }
        if flow.uses_acks {
            let ack = medium.telemetry.read(packet, now, &flow.sender);
            control.on_ack(policy, path, &ack);
        }
        let after = control.rate_bps();
        let mut may_turn = false;
        if after != before {
            flow.sender.on_rate(after);
            if flow.moves_next_send {
                may_turn = true;
                flow.sender.move_next_send(u32::from(flow.last_wire), before, after);
                let next_send = flow.sender.next_send();
                let nic = flow.nic;
                self.wake_earlier(medium, nic, next_send);
            }
        }
        if skips {
            self.begin_message(medium, packet.flow);
        }
        let flow = &self.flows[packet.flow as usize];
        let nic = flow.nic;
        if flow.sender.acknowledged() >= flow.milestone {
            self.due.push(packet.flow);
        }
        // Most acknowledgements do not change when the flow may send, so the NIC need not be updated.
        let is_done = flow.sender.is_done();
        may_turn |= skips || is_done || flow.sender.is_open() != was_open;
        medium.telemetry.free_place(packet);
        if may_turn {
            self.update_turn(medium, packet.flow);
        }
        if self.nics[nic as usize].needs_attention(now) {
            self.try_send(medium, nic);
        }
    }

    fn take_cnp(&mut self, medium: &Medium<'_>, packet: &Packet) {
        let now = medium.clock.now;
        let flow = &mut self.flows[packet.flow as usize];
        let CongestionState { control, path } = &mut self.congestion[packet.flow as usize];
        let policy = &self.policies[usize::from(flow.policy)];
        let sender_state = &self.sender_states[packet.flow as usize];
        let progress = flow.progress(sender_state);
        control.catch_up(policy, path, now, progress);
        control.on_cnp(policy, path, now);
        flow.sender.on_rate(control.rate_bps());
    }

    fn take_nack(&mut self, medium: &mut Medium<'_>, packet: &Packet) {
        medium.telemetry.free_place(packet);
        let acknowledged = self.flows[packet.flow as usize].sender.acknowledged();
        self.go_back(medium, packet.flow, packet.sequence(acknowledged));
    }

    #[cold]
    fn take_grant(&mut self, medium: &mut Medium<'_>, packet: &Packet) {
        let flow = &mut self.flows[packet.flow as usize];
        let nic = flow.nic;
        flow.sender.allow_to(packet.sequence(flow.sender.sent()));
        self.update_turn(medium, packet.flow);
        if self.nics[nic as usize].needs_attention(medium.clock.now) {
            self.try_send(medium, nic);
        }
    }

    /// Lets granter `which` grant a packet.
    pub(crate) fn grant(&mut self, medium: &mut Medium<'_>, which: u32) {
        let credits = self.credits.as_mut().expect("only credits schedule grant events");
        if let Some(grant) = credits.grant(&medium.clock, which) {
            self.send_grant(medium, grant);
        }
        let credits = self.credits.as_mut().expect("sending a grant removes no credits");
        credits.schedule(&mut medium.clock, which);
    }

    fn send_grant(&mut self, medium: &mut Medium<'_>, grant: Grant) {
        let state = &self.receiver_states[grant.flow as usize];
        let (nic, wire) = (state.nic, medium.model.frames.ack);
        let (route, priority) = (state.route + 1, state.priority);
        let mut packet = Packet::new(Kind::Grant, grant.flow, route, wire, priority);
        packet.set_sequence(grant.end);
        self.nics[nic as usize].answers.push_back(packet);
        self.try_send(medium, nic);
    }

    // --- leaving packets ---

    /// Handles the pacing timer of a NIC, unless it has been set anew since.
    #[inline]
    pub(crate) fn wake(&mut self, medium: &mut Medium<'_>, port: u32) {
        let nic = &mut self.nics[port as usize];
        // The calendar cannot remove events. One that is out of date differs from the timer in time or order.
        if nic.wake == Some((medium.clock.now, medium.clock.order)) {
            nic.wake = None;
            self.try_send(medium, port);
        }
    }

    /// Sends the next packet of a host's port if it may send now; if it is busy, schedules an event for when it becomes
    /// free.
    #[inline(always)]
    pub(crate) fn try_send(&mut self, medium: &mut Medium<'_>, port: u32) {
        if medium.may_send(port) {
            self.send(medium, port);
        }
    }

    /// Sends the next packet of a port that is not busy: acknowledgements go before data.
    fn send(&mut self, medium: &mut Medium<'_>, port: u32) {
        let holds_acks = medium.model.pause_holds_acks;
        let nic = &mut self.nics[port as usize];
        let paused = medium.wires.ports[port as usize].paused;
        let may_go = |answer: &&Packet| !holds_acks || paused & 1 << answer.priority() == 0;
        if let Some(&answer) = nic.answers.front().filter(may_go) {
            nic.answers.pop_front();
            medium.transmit(port, answer);
        } else {
            match nic.pick(medium.clock.now, paused) {
                Some(slot) => {
                    let flow = nic.flow(slot);
                    self.send_data(medium, port, flow);
                }
                None => return self.set_wake(medium, port),
            }
        }
        self.schedule_next(medium, port);
    }

    /// Schedules the next transmission after a packet has begun to leave a host.
    #[inline]
    fn schedule_next(&mut self, medium: &mut Medium<'_>, port: u32) {
        let nic = &self.nics[port as usize];
        if !nic.answers.is_empty() || nic.has_eligible() || nic.sets_timer_when_free() {
            medium.schedule_free(port);
        } else {
            self.set_wake(medium, port);
        }
    }

    fn set_wake(&mut self, medium: &mut Medium<'_>, port: u32) {
        let nic = &mut self.nics[port as usize];
        let Some(at) = nic.next_pace() else { return };
        if nic.may_wake() && nic.lacks_timer_for(at) {
            nic.wake = Some((at, medium.clock.schedule(at, Event::Wake(port))));
        }
    }

    /// Moves the pacing timer of a NIC forward to `at`, if it is set for later.
    fn wake_earlier(&mut self, medium: &mut Medium<'_>, port: u32, at: Time) {
        let nic = &mut self.nics[port as usize];
        if nic.wake.is_some_and(|(set, _)| at < set) {
            let at = at.max(medium.clock.now);
            nic.wake = Some((at, medium.clock.schedule(at, Event::Wake(port))));
        }
    }

    /// Updates at the NIC whether a flow may send, and when.
    #[inline]
    pub(crate) fn update_turn(&mut self, medium: &Medium<'_>, id: u32) {
        let flow = &self.flows[id as usize];
        let nic = &mut self.nics[flow.nic as usize];
        let soon = medium.wires.ports[flow.nic as usize].busy_until.max(medium.clock.now);
        let at = flow.sender.next_send();
        if flow.sender.is_open() {
            nic.allow(flow.slot, at, soon);
        } else if flow.sender.is_done() {
            nic.finish(flow.slot);
        } else {
            nic.forbid(flow.slot, at, soon);
        }
    }

    #[inline(always)]
    fn send_data(&mut self, medium: &mut Medium<'_>, port: u32, id: u32) {
        let now = medium.clock.now;
        let flow = &mut self.flows[id as usize];
        let CongestionState { control, path } = &mut self.congestion[id as usize];
        let policy = &self.policies[usize::from(flow.policy)];
        let sender_state = &self.sender_states[id as usize];
        let progress = flow.progress(sender_state);
        let before = control.rate_bps();
        // Timers are evaluated when a packet leaves instead of by events of their own: between packets, a rate has no effect.
        control.catch_up(policy, path, now, progress);
        if control.rate_bps() != before {
            flow.sender.on_rate(control.rate_bps());
        }
        let payload = flow.sender.next_payload(flow.mtu);
        let wire = payload + flow.overhead;
        let route = match sender_state.spray {
            None => flow.route,
            Some(spray) => self.sprays[spray.get() as usize - 1].next(),
        };
        let mut packet = Packet::new(Kind::Data, id, route + 1, wire, flow.priority);
        packet.set_sequence(flow.sender.sent());
        packet.payload = payload;
        packet.set_header(flow.header);
        packet.meta = match flow.header {
            Header::Stamp => packet::stamp(now),
            Header::Hops => medium.telemetry.take_place(),
            Header::Load => 0,
        };
        flow.last_wire = wire;
        let more = flow.sender.on_sent(now, payload, u32::from(wire), control.rate_bps());
        packet.set_ends_message(flow.sender.is_at_boundary());
        control.on_sent(policy, path, u64::from(wire), progress);
        if more {
            self.begin_message(medium, id);
        }
        medium.transmit(port, packet);
        self.update_turn(medium, id);
    }

    /// Begins the message of a flow to which its next packet belongs.
    fn begin_message(&mut self, medium: &Medium<'_>, id: u32) {
        let sent = self.flows[id as usize].sender.sent();
        let boundary = self.messages.boundary_after(id, sent);
        self.flows[id as usize].sender.begin_message(boundary);
        self.begin_on_credit(medium, id);
    }

    /// If a flow is receiver-driven, allows the unscheduled first bytes of its next message.
    #[cold]
    fn begin_on_credit(&mut self, medium: &Medium<'_>, id: u32) {
        let flow = &mut self.flows[id as usize];
        let Policy::ReceiverDriven(parameters) = &self.policies[usize::from(flow.policy)] else {
            return;
        };
        if let Some(message) = self.messages.holding(id, flow.sender.sent()) {
            let unsolicited = parameters.unsolicited_bytes(message.bytes, medium.model.frames.mtu);
            flow.sender.allow_to(message.end - message.bytes + unsolicited);
        }
    }

    // --- prefetching ---

    /// Prefetches the flow that a NIC will send next.
    #[inline]
    pub(crate) fn prefetch_next(&self, port: u32) {
        if let Some(flow) = self.nics[port as usize].upcoming() {
            self.prefetch_flow(flow);
        }
    }

    /// Prefetches what handling an arriving packet needs.
    #[inline]
    pub(crate) fn prefetch_for(&self, packet: &Packet) {
        if packet.kind == Kind::Data {
            prefetch_index(&self.receiver_states, packet.flow as usize);
        } else {
            self.prefetch_flow(packet.flow);
        }
    }

    #[inline]
    fn prefetch_flow(&self, id: u32) {
        let flow = &self.flows[id as usize];
        prefetch(&flow.sender);
        prefetch(&flow.route);
        let congestion = &self.congestion[id as usize];
        prefetch(&congestion.control);
        prefetch(&congestion.path);
    }
}
