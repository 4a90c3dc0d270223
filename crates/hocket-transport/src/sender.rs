//! The sending side of a queue pair: which bytes may be sent next, and when. A congestion control sets the rate; the NIC
//! decides when a packet actually leaves.

use hocket_des::{Duration, Rate, Time};

/// How computed times are rounded to simulated times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rounding {
    /// Up to the next picosecond, so that no link ever carries more than its rate.
    #[default]
    Picoseconds,
    /// To the nearest nanosecond, half up, as HPCC-style simulators built on ns-3.3x do. Effective rates differ by up to a
    /// few percent: 1,036 bytes at 200 Gbps take 41 ns instead of 41.44.
    Nanoseconds,
}

/// The limit on a queue pair's bytes in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Payload bytes.
    pub bytes: u64,
    /// Whether the window shrinks with the rate: bytes × rate ÷ line rate.
    pub scaled: bool,
}

/// The sending side of a queue pair: a stream of bytes in which messages follow one another.
#[derive(Clone, Debug)]
pub struct Sender {
    next_send: Time,
    sent: u64,
    acknowledged: u64,
    posted: u64,
    /// Bytes before this may be sent: all that is posted or, on credit, all that is granted.
    limit: u64,
    /// Where the message that is being sent ends. No packet extends beyond it.
    boundary: u64,
    /// The current limit on bytes in flight.
    window: u64,
    line_bps: u64,
    cap_bps: u64,
    full_window: u64,
    window_is_scaled: bool,
    is_held: bool,
    is_on_credit: bool,
    rounding: Rounding,
}

impl Rounding {
    /// Transmission time of `wire_bytes` at `bps`, which must be above zero.
    #[inline]
    pub fn time(self, wire_bytes: u32, bps: u64) -> Duration {
        // A frame has fewer than 2^20 bytes: 2^20 × 8 × 10^12 fits in 63 bits.
        let bits = u64::from(wire_bytes) * 8;
        Duration::from_ps(match self {
            Self::Picoseconds => (bits * 1_000_000_000_000).div_ceil(bps),
            Self::Nanoseconds => (bits * 1_000_000_000 + bps / 2) / bps * 1_000,
        })
    }
}

impl Sender {
    /// A queue pair on a NIC of `line_rate` with nothing to send.
    pub fn new(line_rate: Rate, window: Option<Window>, rounding: Rounding) -> Self {
        Self {
            next_send: Time::ZERO,
            sent: 0,
            acknowledged: 0,
            posted: 0,
            limit: 0,
            boundary: 0,
            // At least one byte, so that one packet at a time can always be sent.
            window: window.map_or(u64::MAX, |window| window.bytes.max(1)),
            line_bps: line_rate.as_bps(),
            cap_bps: line_rate.as_bps(),
            full_window: window.map_or(u64::MAX, |window| window.bytes),
            is_held: false,
            is_on_credit: false,
            window_is_scaled: window.is_some_and(|window| window.scaled),
            rounding,
        }
    }

    /// Adds a message of `bytes` at the end of the stream; returns the new end.
    pub fn post(&mut self, bytes: u64) -> u64 {
        if self.sent == self.posted {
            self.boundary = self.posted + bytes;
        }
        self.posted += bytes;
        if !self.is_on_credit {
            self.limit = self.posted;
        }
        self.posted
    }

    /// Switches to credit: what is posted from now on may be sent only as far as [`Self::allow_to`] allows.
    pub fn set_on_credit(&mut self) {
        self.is_on_credit = true;
    }

    /// Gives credit for all bytes before `limit`, which must be the end of a packet. Credit is never withdrawn.
    pub fn allow_to(&mut self, limit: u64) {
        self.limit = self.limit.max(limit);
    }

    /// Limits the rate to `cap`, the demand of the job, whatever rate the congestion control allows.
    pub fn set_cap(&mut self, cap: Rate) {
        // Pacing divides by the rate, so it must not be 0.
        self.cap_bps = cap.as_bps().clamp(1, self.line_bps);
    }

    /// Whether bytes are left to send, and window and credit allow it.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.sent < self.limit && self.sent - self.acknowledged < self.window
    }

    /// Whether all that was posted has been sent.
    #[inline]
    pub fn is_drained(&self) -> bool {
        self.sent == self.posted
    }

    /// Whether all that was posted has been acknowledged.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.acknowledged == self.posted
    }

    /// When pacing allows the next packet.
    #[inline]
    pub fn next_send(&self) -> Time {
        self.next_send
    }

    /// The first byte of the next packet.
    #[inline]
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// The number of bytes acknowledged.
    #[inline]
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// The number of bytes posted.
    pub fn posted(&self) -> u64 {
        self.posted
    }

    /// Payload of the next packet.
    #[inline]
    pub fn next_payload(&self, mtu: u16) -> u16 {
        // At most the MTU, so the cast loses nothing.
        u64::from(mtu).min(self.boundary - self.sent) as u16
    }

    /// Updates the state for a packet of `payload` bytes, `wire` bytes with headers, whose transmission begins at `now`; the
    /// next one is paced at `control_bps`. Returns whether a message ends here and another follows: then the caller must
    /// call [`Self::begin_message`].
    #[inline]
    pub fn on_sent(&mut self, now: Time, payload: u16, wire: u32, control_bps: u64) -> bool {
        self.sent += u64::from(payload);
        self.next_send = now + self.rounding.time(wire, self.limited(control_bps));
        self.sent == self.boundary && self.sent < self.posted
    }

    /// Whether the last packet ended a message.
    #[inline]
    pub fn is_at_boundary(&self) -> bool {
        self.sent == self.boundary
    }

    /// Begins the next message, which ends at `end` in the stream.
    pub fn begin_message(&mut self, end: u64) {
        self.boundary = end;
    }

    /// Handles an acknowledgement of all bytes before `acknowledged`. Returns whether that is more than was sent since the
    /// sender went back: these bytes need not be sent again, and the caller must call [`Self::begin_message`].
    #[inline]
    pub fn on_ack(&mut self, acknowledged: u64) -> bool {
        // After a change of path, an older acknowledgement may arrive later than a newer one.
        self.acknowledged = self.acknowledged.max(acknowledged);
        let skips = self.acknowledged > self.sent;
        self.sent = self.sent.max(self.acknowledged);
        skips
    }

    /// Handles a new rate of the congestion control, `control_bps`.
    #[inline]
    pub fn on_rate(&mut self, control_bps: u64) {
        if self.window_is_scaled && !self.is_held {
            // The product stays below 2^64: windows of a few megabytes times rates of terabits per second.
            self.window = (self.full_window * control_bps / self.line_bps).max(1);
        }
    }

    /// Stops sending until [`Self::release`], because there is no path to the receiver.
    pub fn hold(&mut self) {
        self.is_held = true;
        // A window of 0 is never open, which spares a check for every packet.
        self.window = 0;
    }

    /// Allows sending again within the window, at the congestion control's rate of `control_bps`.
    pub fn release(&mut self, control_bps: u64) {
        self.is_held = false;
        self.window = self.full_window;
        self.on_rate(control_bps);
    }

    /// Adapts the time of the next packet to a change of the control's rate from `before` to `after`: the gap after the last
    /// packet, of `wire` bytes, is that of the new rate. HPCC's pacing follows the rate immediately.
    pub fn move_next_send(&mut self, wire: u32, before: u64, after: u64) {
        let then = self.rounding.time(wire, self.limited(after)).as_ps();
        let until_now = self.rounding.time(wire, self.limited(before)).as_ps();
        let moved = self.next_send.as_ps() + then;
        self.next_send = Time::from_ps(moved.saturating_sub(until_now));
    }

    /// Goes back to `sequence`, the first byte that did not arrive, whose message ends at `boundary`.
    pub fn go_back(&mut self, sequence: u64, boundary: u64) {
        self.sent = sequence;
        self.boundary = boundary;
    }

    #[inline]
    fn limited(&self, control_bps: u64) -> u64 {
        control_bps.min(self.cap_bps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: Rate = Rate::from_gbps(100);

    fn send(sender: &mut Sender) -> (u16, bool) {
        let payload = sender.next_payload(1_000);
        (payload, sender.on_sent(Time::ZERO, payload, 1_082, LINE.as_bps()))
    }

    #[test]
    fn acknowledged_bytes_are_not_sent_again_even_if_they_end_in_the_next_message() {
        let mut sender = Sender::new(LINE, None, Rounding::default());
        sender.post(1_500);
        sender.post(2_500);
        assert_eq!([send(&mut sender), send(&mut sender)], [(1_000, false), (500, true)]);
        sender.begin_message(4_000);
        assert_eq!(send(&mut sender), (1_000, false));
        sender.go_back(0, 1_500);
        assert!(sender.on_ack(2_500), "2,500 bytes had arrived after all");
        sender.begin_message(4_000);
        assert_eq!([send(&mut sender), send(&mut sender)], [(1_000, false), (500, false)]);
        assert!(!sender.on_ack(4_000));
        assert!(sender.is_done());
    }

    #[test]
    fn nothing_is_sent_without_credit_and_credit_is_never_withdrawn() {
        let mut sender = Sender::new(LINE, None, Rounding::default());
        sender.set_on_credit();
        sender.post(3_000);
        assert!(!sender.is_open());
        sender.allow_to(1_000);
        sender.allow_to(500);
        assert!(sender.is_open());
        send(&mut sender);
        assert!(!sender.is_open() && !sender.is_drained());
        sender.go_back(0, 3_000);
        assert!(sender.is_open(), "retransmission needs no further credit");
    }
}
