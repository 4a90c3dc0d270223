//! The schemas of the tables that the engines write.

use hocket_scenario::{Table, TableGroup};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::choices::one_of;
use crate::convert::columns;

/// The tables that a run of `engine` has for these `groups`, by name: their columns, by name and without rows.
#[pyfunction]
pub(crate) fn table_schemas<'py>(
    py: Python<'py>,
    engine: &str,
    groups: Vec<String>,
) -> PyResult<Bound<'py, PyDict>> {
    type WithoutRows = fn(TableGroup) -> Vec<Table>;
    let engines: [(_, WithoutRows); 2] = [
        ("flow", hocket_flowsim::tables_without_rows),
        ("packet", hocket_packetsim::tables_without_rows),
    ];
    let without_rows = one_of("engine", engine, engines)?;
    let tables = PyDict::new(py);
    for name in groups {
        for table in without_rows(group(&name)?) {
            tables.set_item(table.name, columns(py, &table)?)?;
        }
    }
    Ok(tables)
}

fn group(name: &str) -> PyResult<TableGroup> {
    let groups = [
        ("events", TableGroup::Events),
        ("jobs", TableGroup::Jobs),
        ("training", TableGroup::Training),
        ("queues", TableGroup::Queues),
        ("rates", TableGroup::Rates),
        ("utilisation", TableGroup::Utilisation),
        ("repeats", TableGroup::Repeats),
    ];
    one_of("group of tables", name, groups)
}
