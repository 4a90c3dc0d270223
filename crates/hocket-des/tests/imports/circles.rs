//! Circular imports between files, and the paths that form the circle.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::paths::{Imports, Sources, imports};

/// The circular imports of a crate, each as its files and the paths by which each file names the next. For each file on a
/// circle it has a shortest circle through that file, unless an earlier one contains the file.
pub(crate) fn circles(sources: &Sources) -> Vec<String> {
    let imports = imports(sources);
    let mut reported = BTreeSet::new();
    let mut circles = Vec::new();
    for file in imports.keys() {
        if reported.contains(file) {
            continue;
        }
        if let Some(around) = shortest_circle(&imports, file) {
            let step = |pair: &[&String]| {
                let path = &imports[pair[0]][pair[1]];
                format!("{} imports {path} from {}", pair[0], pair[1])
            };
            circles.push(around.windows(2).map(step).collect::<Vec<_>>().join(", "));
            reported.extend(around.into_iter().cloned());
        }
    }
    circles
}

// A shortest circle from `start` back to `start`, by breadth-first search.
fn shortest_circle<'a>(imports: &'a Imports, start: &'a String) -> Option<Vec<&'a String>> {
    let mut came_from: BTreeMap<&String, &String> = BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(file) = queue.pop_front() {
        for named in imports.get(file).into_iter().flat_map(BTreeMap::keys) {
            if named == start {
                let back = std::iter::successors(Some(file), |file| came_from.get(file).copied());
                let mut around: Vec<&String> = [start].into_iter().chain(back).collect();
                around.reverse();
                return Some(around);
            }
            if !came_from.contains_key(named) {
                came_from.insert(named, file);
                queue.push_back(named);
            }
        }
    }
    None
}

fn crate_of(files: &[(&str, &str)]) -> Sources {
    files.iter().map(|(file, text)| ((*file).to_owned(), (*text).to_owned())).collect()
}

#[test]
fn a_circle_is_named_by_its_files_and_the_path_from_each_to_the_next() {
    let sources = crate_of(&[
        ("lib.rs", "mod queue; mod timer; mod engine;"),
        ("engine.rs", "use crate::queue::{Queue, Entry};"),
        ("queue.rs", "struct Queue; struct Entry { timer: crate::timer::Timer }"),
        ("timer.rs", "use super::engine::Counters; struct Timer;"),
    ]);
    assert_eq!(
        circles(&sources),
        ["engine.rs imports crate::queue::Queue from queue.rs, \
          queue.rs imports crate::timer::Timer from timer.rs, \
          timer.rs imports super::engine::Counters from engine.rs"]
    );
}

#[test]
fn files_that_import_in_one_direction_make_no_circle() {
    let sources = crate_of(&[
        ("lib.rs", "mod engine; mod queue; pub use engine::Engine; pub use queue::Queue;"),
        ("engine.rs", "use crate::Queue; use crate::queue::Entry; struct Engine;"),
        ("queue.rs", "pub(crate) struct Queue; pub(super) struct Entry;"),
    ]);
    assert_eq!(circles(&sources), [""; 0]);
}

#[test]
fn a_parent_that_uses_its_child_makes_a_circle_with_a_child_that_uses_its_parent() {
    let sources = crate_of(&[
        ("lib.rs", "mod tables;"),
        ("tables.rs", "mod rows; struct Table; fn all() { rows::first() }"),
        ("tables/rows.rs", "use super::Table; pub(super) fn first() {}"),
    ]);
    assert_eq!(
        circles(&sources),
        ["tables.rs imports rows::first from tables/rows.rs, \
          tables/rows.rs imports super::Table from tables.rs"]
    );
}

#[test]
fn a_re_export_counts_as_the_file_that_it_stands_for() {
    let sources = crate_of(&[
        ("lib.rs", "mod error; mod link; pub use error::Error; pub use link::Link as Edge;"),
        ("error.rs", "struct Error { link: crate::Edge }"),
        ("link.rs", "use crate::Error; struct Link;"),
    ]);
    assert_eq!(
        circles(&sources),
        ["error.rs imports crate::Edge from link.rs, link.rs imports crate::Error from error.rs"]
    );
}

#[test]
fn paths_inside_macros_count() {
    let sources = crate_of(&[
        ("lib.rs", "mod one; mod two;"),
        ("one.rs", "fn name() { println!(\"{}\", [crate::two::NAME]) }"),
        ("two.rs", "use crate::one; const NAME: &str = \"two\";"),
    ]);
    assert_eq!(
        circles(&sources),
        ["one.rs imports crate::two::NAME from two.rs, two.rs imports crate::one from one.rs"]
    );
}

#[test]
fn tests_and_documentation_do_not_count() {
    let sources = crate_of(&[
        ("lib.rs", "mod one; mod two;"),
        ("one.rs", "use crate::two::Two;"),
        (
            "two.rs",
            "/// As [`crate::one`].\nstruct Two; #[cfg(test)] mod tests { use crate::one; } \
             #[cfg(test)] fn check() { crate::one::run() }",
        ),
    ]);
    assert_eq!(circles(&sources), [""; 0]);
}
