//! Who watches a run, whichever engine does it: rows as they fill tables, and how far the run is.

use std::ops::ControlFlow;

use hocket_des::Time;

use crate::Table;

/// The number of rows from which on an engine hands them on: some megabytes.
pub const BATCH: usize = 1 << 16;

/// Receives the rows and the progress of a run.
pub trait Observer {
    /// Takes rows of one table, never none; a table of the same name can come again and again.
    fn on_table(&mut self, rows: Table);

    /// Progress callback; `Break` stops the run.
    fn on_progress(&mut self, _at: &Progress) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// Keeps all tables, in the order in which they came.
impl Observer for Vec<Table> {
    fn on_table(&mut self, rows: Table) {
        self.push(rows);
    }
}

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Simulated time.
    pub time: Time,
    /// Messages and iterations that are done.
    pub done: u64,
    /// Messages and iterations in all, if they have a number.
    pub total: Option<u64>,
    /// Events so far.
    pub events: u64,
}

/// Hands `tables` to `observer`, empty ones left out.
pub fn hand_on(tables: impl IntoIterator<Item = Table>, observer: &mut dyn Observer) {
    for table in tables.into_iter().filter(|table| table.rows() > 0) {
        observer.on_table(table);
    }
}
