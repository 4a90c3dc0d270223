//! The observer of a run on either engine, which receives rows and progress while the run continues.

use std::ops::ControlFlow;

use hocket_des::Time;

use crate::Table;

/// The number of rows at which an engine passes them to the observer: some megabytes.
pub const BATCH: usize = 1 << 16;

/// Receives the rows and the progress of a run.
pub trait Observer {
    /// Receives at least one row of a table. The rows of one table may arrive in several calls.
    fn on_table(&mut self, rows: Table);

    /// Progress callback; `Break` stops the run.
    fn on_progress(&mut self, _at: &Progress) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// Keeps all tables, in order of arrival.
impl Observer for Vec<Table> {
    fn on_table(&mut self, rows: Table) {
        self.push(rows);
    }
}

/// The progress of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Simulated time.
    pub time: Time,
    /// Finished messages and iterations.
    pub done: u64,
    /// All messages and iterations of the run, if their number is known.
    pub total: Option<u64>,
    /// Events handled so far.
    pub events: u64,
}

/// Passes the tables that have rows to `observer`.
pub fn hand_on(tables: impl IntoIterator<Item = Table>, observer: &mut dyn Observer) {
    for table in tables.into_iter().filter(|table| table.rows() > 0) {
        observer.on_table(table);
    }
}
