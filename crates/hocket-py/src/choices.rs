//! Enum values that Python passes by name. All of them are read by [`one_of`], so that their errors are alike.

use hocket_scenario::PathChoice;
use pyo3::PyResult;

use crate::error::value_error;

/// The value of the choice called `name`; `what` describes the choice in the error.
///
/// # Errors
/// `ValueError` with `what`, the name and all choices, if there is no such choice.
pub(crate) fn one_of<T>(
    what: &str,
    name: &str,
    choices: impl IntoIterator<Item = (&'static str, T)>,
) -> PyResult<T> {
    let mut names = Vec::new();
    for (each, value) in choices {
        if each == name {
            return Ok(value);
        }
        names.push(format!("{each:?}"));
    }
    let last = names.pop().expect("every choice has at least one name");
    let others = if names.is_empty() { String::new() } else { format!("{} or ", names.join(", ")) };
    Err(value_error(format!("{what} {name:?}: must be {others}{last}")))
}

/// The path choice of a flow whose links are not given.
pub(crate) fn path(name: &str) -> PyResult<PathChoice> {
    one_of("path", name, [("ecmp", PathChoice::Ecmp), ("spray", PathChoice::Spray)])
}
