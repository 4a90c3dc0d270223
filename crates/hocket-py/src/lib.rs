//! The private Python module `hocket._hocket`: convert, call, convert back. Quantities cross the
//! boundary as integers in the unit that their name says; what they mean is documented in
//! `hocket`, and every check is done on one of the two sides, not here.

#![expect(
    clippy::needless_pass_by_value,
    reason = "PyO3 hands extracted arguments to functions by value"
)]

mod auction;
mod choices;
mod cluster;
mod compat;
mod convert;
mod error;
mod observed;
mod packets;
mod policies;
mod schedule;
mod simulate;
mod summaries;
mod tables;
mod trainings;

use pyo3::prelude::*;

#[pymodule]
mod _hocket {
    #[pymodule_export]
    use crate::auction::PyRegions;
    #[pymodule_export]
    use crate::cluster::PyClusterRun;
    #[pymodule_export]
    use crate::compat::{
        PyPreparedRanking, commensurate, rank, score, solve_cluster, solve_link, stretched,
    };
    #[pymodule_export]
    use crate::convert::PyFabric;
    #[pymodule_export]
    use crate::packets::{SelfCheckError, rocev2_frames, simulate_packets};
    #[pymodule_export]
    use crate::policies::congestion_preset;
    #[pymodule_export]
    use crate::schedule::PySearch;
    #[pymodule_export]
    use crate::simulate::{simulate, simulate_jobs};
    #[pymodule_export]
    use crate::tables::table_schemas;

    /// The commit that a distribution was built from, where its build named it (`make dist`).
    #[pymodule_export]
    const COMMIT: Option<&str> = option_env!("HOCKET_COMMIT");
}
