//! Runs that Python observes: rows go to one callable, progress to another. Rows are converted and taken on a thread
//! of their own, so that writing them does not hold the run up.

use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, ScopedJoinHandle};
use std::time::Instant;

use hocket_scenario::{Observer, Progress, Table};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;

use crate::convert::columns;

// So many tables of a batch of rows each may wait for the sink; then the run waits.
const WAITING: usize = 4;

/// What came of a run.
pub(crate) struct Observed<Outcome> {
    pub(crate) outcome: Outcome,
    /// Ctrl-C came before all rows were taken.
    pub(crate) was_interrupted: bool,
    /// Seconds that the run took, without those in which it waited for `sink` and `progress`.
    pub(crate) run_s: f64,
}

/// Does `run`. `sink` is called on another thread with the name and the columns of rows as they fill a table, again and again;
/// `progress` on this one with (simulated ps, done, in total or None). Ctrl-C, or an error in either, ends the run early; after
/// Ctrl-C, what was recorded by then is still handed over.
pub(crate) fn observed<Outcome: Send>(
    py: Python<'_>,
    sink: Bound<'_, PyAny>,
    progress: Bound<'_, PyAny>,
    run: impl FnOnce(&mut dyn Observer) -> PyResult<Outcome> + Send,
) -> PyResult<Observed<Outcome>> {
    let (sink, progress) = (sink.unbind(), progress.unbind());
    let (ran, failure) = py.detach(|| {
        thread::scope(|scope| {
            let (tables, waiting) = sync_channel(WAITING);
            let taker = scope.spawn(move || take(&sink, waiting));
            let mut reporter = Reporter {
                tables,
                taker: &taker,
                progress: &progress,
                failure: None,
                outside: std::time::Duration::ZERO,
            };
            let started = Instant::now();
            let result = run(&mut reporter);
            let run_s = (started.elapsed() - reporter.outside).as_secs_f64();
            let Reporter { tables, failure, .. } = reporter;
            // With no more to come, the thread ends.
            drop(tables);
            let taken = taker.join().expect("what Python raises is a value here");
            (taken.and(result).map(|outcome| (outcome, run_s)), failure)
        })
    });
    // Ctrl-C while the last rows were taken counts, too; a second one ends the run without them.
    let interruption = match (failure, py.check_signals()) {
        (Some(_), Err(second)) => return Err(second),
        (first, Ok(())) => first,
        (None, Err(late)) => Some(late),
    };
    let was_interrupted = match interruption {
        Some(error) if !error.is_instance_of::<PyKeyboardInterrupt>(py) => return Err(error),
        other => other.is_some(),
    };
    let (outcome, run_s) = ran?;
    Ok(Observed { outcome, was_interrupted, run_s })
}

// Passes rows to Python until there are no more, or it raises.
fn take(sink: &Py<PyAny>, waiting: Receiver<Table>) -> PyResult<()> {
    for rows in waiting {
        Python::attach(|py| sink.call1(py, (rows.name, columns(py, &rows)?)).map(drop))?;
    }
    Ok(())
}

/// Hands rows and progress to Python, and keeps the exception of progress.
struct Reporter<'scope, 'run> {
    tables: SyncSender<Table>,
    taker: &'run ScopedJoinHandle<'scope, PyResult<()>>,
    progress: &'run Py<PyAny>,
    failure: Option<PyErr>,
    /// Time in which Python had the run wait.
    outside: std::time::Duration,
}

impl Observer for Reporter<'_, '_> {
    fn on_table(&mut self, rows: Table) {
        let started = Instant::now();
        // Rows that nobody takes any more are those of a run that is about to fail with the sink's exception.
        let _ = self.tables.send(rows);
        self.outside += started.elapsed();
    }

    fn on_progress(&mut self, at: &Progress) -> ControlFlow<()> {
        let started = Instant::now();
        let told = Python::attach(|py| {
            py.check_signals()?;
            self.progress.call1(py, (at.time.as_ps(), at.done, at.total))?;
            Ok(())
        });
        self.outside += started.elapsed();
        if let Err(error) = told {
            self.failure.get_or_insert(error);
        }
        if self.failure.is_some() || self.taker.is_finished() {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}
