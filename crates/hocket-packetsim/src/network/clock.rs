//! The time of a run, and the events that are still to come.

use hocket_des::{Calendar, Time};

use crate::parts::event::{Event, PackedEvent, Task};

/// Time, which only moves forward, and what will happen.
pub(crate) struct Clock {
    pub(crate) now: Time,
    /// The place of the present event among those of the same time.
    pub(crate) order: u64,
    /// Events so far.
    pub(crate) events: u64,
    calendar: Calendar<PackedEvent>,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self { now: Time::ZERO, order: 0, events: 0, calendar: Calendar::new() }
    }

    /// Moves to the next event, if there is one.
    #[inline(always)]
    pub(crate) fn advance(&mut self) -> Option<Event> {
        let (now, order, event) = self.calendar.pop()?;
        self.now = now;
        self.order = order;
        self.events += 1;
        Some(event.event())
    }

    /// The place of one more event among those of the same time: they come out in this order.
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

    /// Schedules an event whose order was taken before.
    #[inline(always)]
    pub(crate) fn schedule_as(&mut self, at: Time, order: u64, event: Event) {
        self.calendar.schedule(at, order, event.packed());
    }

    pub(crate) fn schedule_task(&mut self, at: Time, task: Task) {
        self.schedule(at, Event::Task(task));
    }

    /// An event that is about `ahead` events away.
    #[inline(always)]
    pub(crate) fn upcoming(&self, ahead: usize) -> Option<PackedEvent> {
        self.calendar.upcoming(ahead)
    }

    /// Whether nothing is left to happen.
    pub(crate) fn is_idle(&self) -> bool {
        self.calendar.is_empty()
    }
}
