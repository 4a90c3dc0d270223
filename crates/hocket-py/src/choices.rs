//! Strings that stand for one of a few things. Every such string crosses the boundary through [`chosen`].

use hocket_scenario::PathChoice;
use pyo3::PyResult;

use crate::error::value_error;

/// What `name` stands for among `choices`; `what` says whose name it is.
///
/// # Errors
/// `ValueError` with `what`, the name and all choices, if it is none of them.
pub(crate) fn chosen<T>(
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

/// How flows whose links are not given find their path.
pub(crate) fn path(name: &str) -> PyResult<PathChoice> {
    chosen("path", name, [("ecmp", PathChoice::Ecmp), ("spray", PathChoice::Spray)])
}
