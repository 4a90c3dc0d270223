//! The simulated time and the events to come.

use hocket_des::{Calendar, Time};

use crate::parts::event::{Event, PackedEvent, Task};

/// The simulated time, which only moves forward, and the calendar of events.
pub(crate) struct Clock {
    pub(crate) now: Time,
    /// The order of the current event among events of the same time.
    pub(crate) order: u64,
    /// The number of events so far.
    pub(crate) events: u64,
    calendar: Calendar<PackedEvent>,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self { now: Time::ZERO, order: 0, events: 0, calendar: Calendar::new() }
    }

    /// Advances to the next event, if there is one.
    #[inline(always)]
    pub(crate) fn advance(&mut self) -> Option<Event> {
        let (now, order, event) = self.calendar.pop()?;
        self.now = now;
        self.order = order;
        self.events += 1;
        Some(event.event())
    }

    /// Takes the order of one more event, which may be scheduled later or never. Events of the same time come out in ascending
    /// order.
    #[inline(always)]
    pub(crate) fn next_order(&mut self) -> u64 {
        self.calendar.next_order()
    }

    /// Schedules an event; returns its order.
    #[inline]
    pub(crate) fn schedule(&mut self, at: Time, event: Event) -> u64 {
        let order = self.calendar.next_order();
        self.calendar.schedule(at, order, event.packed());
        order
    }

    /// Schedules an event with an order from [`Self::next_order`].
    #[inline(always)]
    pub(crate) fn schedule_as(&mut self, at: Time, order: u64, event: Event) {
        self.calendar.schedule(at, order, event.packed());
    }

    pub(crate) fn schedule_task(&mut self, at: Time, task: Task) {
        self.schedule(at, Event::Task(task));
    }

    /// An event about `ahead` events in the future, for prefetching.
    #[inline(always)]
    pub(crate) fn upcoming(&self, ahead: usize) -> Option<PackedEvent> {
        self.calendar.upcoming(ahead)
    }

    /// Whether no event is left.
    pub(crate) fn is_idle(&self) -> bool {
        self.calendar.is_empty()
    }
}
