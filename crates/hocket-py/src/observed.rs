//! Runs that Python observes: rows go to one callable, progress to another. Rows are converted and passed on by a
//! separate thread, so that the run does not wait while they are written.

use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, ScopedJoinHandle};
use std::time::Instant;

use hocket_scenario::{Observer, Progress, Table};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;

use crate::convert::columns;

// The number of tables, each with a batch of rows, that may wait for the sink before the run waits: a slow sink must
// not make the queue fill the memory.
const WAITING: usize = 4;

/// The outcome of a run that was observed.
pub(crate) struct Observed<Outcome> {
    pub(crate) outcome: Outcome,
    /// Whether Ctrl-C came before the sink had taken all rows.
    pub(crate) was_interrupted: bool,
    /// Seconds that the run took, without those in which it waited for `sink` and `progress`.
    pub(crate) run_s: f64,
}

/// Executes `run`. During the run, `sink` is called on another thread with the name and the columns of each batch of
/// rows, and `progress` on this thread with (simulated ps, done, total or None). Ctrl-C, or an exception of either,
/// ends the run early; after Ctrl-C, `sink` still receives what was recorded by then.
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
                waited: std::time::Duration::ZERO,
            };
            let started = Instant::now();
            let result = run(&mut reporter);
            let run_s = (started.elapsed() - reporter.waited).as_secs_f64();
            let Reporter { tables, failure, .. } = reporter;
            // The thread ends when its channel has no sender left.
            drop(tables);
            let taken = taker.join().expect("what Python raises is a value here");
            // The sink's exception comes first: it is the cause if the run failed because of it.
            (taken.and(result).map(|outcome| (outcome, run_s)), failure)
        })
    });
    // Ctrl-C while the sink takes the last rows counts, too; a second one discards the outcome.
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

// Passes tables to Python until the run has ended, or until Python raises an exception.
fn take(sink: &Py<PyAny>, waiting: Receiver<Table>) -> PyResult<()> {
    for rows in waiting {
        Python::attach(|py| sink.call1(py, (rows.name, columns(py, &rows)?)).map(drop))?;
    }
    Ok(())
}

/// Passes rows and progress to Python, and keeps the first exception of `progress`.
struct Reporter<'scope, 'run> {
    tables: SyncSender<Table>,
    taker: &'run ScopedJoinHandle<'scope, PyResult<()>>,
    progress: &'run Py<PyAny>,
    failure: Option<PyErr>,
    /// Time for which the run waited for Python.
    waited: std::time::Duration,
}

impl Observer for Reporter<'_, '_> {
    fn on_table(&mut self, rows: Table) {
        let started = Instant::now();
        // Sending fails only after the sink has raised an exception, which the run is about to return.
        let _ = self.tables.send(rows);
        self.waited += started.elapsed();
    }

    fn on_progress(&mut self, at: &Progress) -> ControlFlow<()> {
        let started = Instant::now();
        let reported = Python::attach(|py| {
            // Here, because Python handles signals only in its main thread and never in that of the sink.
            py.check_signals()?;
            self.progress.call1(py, (at.time.as_ps(), at.done, at.total))?;
            Ok(())
        });
        self.waited += started.elapsed();
        if let Err(error) = reported {
            self.failure.get_or_insert(error);
        }
        if self.failure.is_some() || self.taker.is_finished() {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}
