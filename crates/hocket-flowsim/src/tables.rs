//! The tables of a run without rows, from the code that builds them with rows.

use hocket_des::{Duration, Rate};
use hocket_scenario::{Fabric, Table, TableGroup, Tables};

use crate::sampling::Sampler;

/// The tables of `group` with their columns and no rows, in the order in which they are written. Groups that only the packet
/// engine has are empty.
pub fn tables_without_rows(group: TableGroup) -> Vec<Table> {
    let tables = Tables::without_rows();
    match group {
        TableGroup::Jobs => tables.all().map(Table::clone).to_vec(),
        TableGroup::Training => tables.of_training().map(Table::clone).to_vec(),
        TableGroup::Utilisation => {
            let fabric = Fabric::one_link(Rate::from_gbps(1), Duration::ZERO);
            let fabric = fabric.expect("1 Gbps is in range");
            vec![Sampler::new(Duration::ZERO).take_table(&fabric, &[])]
        }
        TableGroup::Events | TableGroup::Queues | TableGroup::Rates | TableGroup::Repeats => {
            Vec::new()
        }
    }
}
