//! Columns of tables that name links and nodes.

use hocket_scenario::{Column, Fabric};

/// A column with the names of `links`.
pub(crate) fn link_column(links: Vec<u32>, fabric: &Fabric) -> Column {
    name_column(links, |link| &fabric.links()[link as usize].name)
}

/// A column with the names of `nodes`.
pub(crate) fn node_column(nodes: Vec<u32>, fabric: &Fabric) -> Column {
    name_column(nodes, |node| &fabric.nodes()[node as usize].name)
}

// The dictionary contains only names that occur: a large fabric has many more. It is sorted by number, so that it does not
// depend on the order of rows.
fn name_column<'a>(mut ids: Vec<u32>, name: impl Fn(u32) -> &'a String) -> Column {
    let mut used = ids.clone();
    used.sort_unstable();
    used.dedup();
    for id in &mut ids {
        *id = used.binary_search(id).expect("every id was collected") as u32;
    }
    Column::Str { codes: ids, dictionary: used.into_iter().map(|id| name(id).clone()).collect() }
}
