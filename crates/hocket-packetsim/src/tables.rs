//! The schemas of the tables of a run. They come from the code that makes tables with rows, applied to a network at rest, so
//! that a schema cannot differ from its table.

use hocket_des::{Duration, Rate, Time};
use hocket_scenario::{Fabric, Table, TableGroup, Tables};

use crate::build;
use crate::model::Model;
use crate::network::Network;
use crate::options::Record;
use crate::outcome::Repeat;
use crate::owners::Owners;
use crate::reference::Reference;
use crate::sampling::Sampler;
use crate::setup::Setup;

/// The tables of `group` with their columns and no rows.
pub fn tables_without_rows(group: TableGroup) -> Vec<Table> {
    let tables = Tables::without_rows();
    match group {
        TableGroup::Events => of_network(|network, fabric| {
            let Network { medium, switches, .. } = network;
            let (ports, now) = (&medium.wires.ports, Time::ZERO);
            let rows = medium.recorder.take_tables(fabric, &[], &nobody());
            let ports = medium.recorder.port_table(ports, now, fabric);
            let paused = medium.recorder.paused_table(now, fabric);
            rows.into_iter().chain([ports, paused, switches.table(fabric)]).collect()
        }),
        TableGroup::Jobs => {
            let Tables { iterations, phases, adjustments, links, jobs, .. } = tables;
            vec![iterations, phases, adjustments, links, jobs]
        }
        TableGroup::Training => tables.of_training().map(Table::clone).to_vec(),
        TableGroup::Queues => {
            let [queues, switch_queues, ..] = sampled();
            vec![queues, switch_queues]
        }
        TableGroup::Rates => {
            let [_, _, rates, _] = sampled();
            vec![rates]
        }
        TableGroup::Utilisation => {
            let [.., utilisation] = sampled();
            vec![utilisation]
        }
        TableGroup::Repeats => vec![nothing_repeated().table(None)],
    }
}

fn sampled() -> [Table; 4] {
    of_network(|network, fabric| {
        Sampler::new(network, Record::default()).take_tables(fabric, &nobody())
    })
}

/// The result of `tables` for the smallest network: two hosts, no switch, no flows.
fn of_network<Made>(tables: impl FnOnce(&mut Network<'_>, &Fabric) -> Made) -> Made {
    let fabric = Fabric::one_link(Rate::from_gbps(1), Duration::ZERO);
    let fabric = fabric.expect("1 Gbps is in range");
    let setup = Setup {
        fabric: &fabric,
        model: &Model::default(),
        policies: &[],
        flows: &[],
        patterns: &[],
        seed: 0,
        reference: Reference::default(),
    };
    let mut engine = build::engine(&setup, &[]).expect("no flow asks for a route");
    tables(&mut engine.network, &fabric)
}

fn nobody() -> Owners {
    Owners::new(Vec::new(), [])
}

fn nothing_repeated() -> Repeat {
    Repeat {
        start: Time::ZERO,
        end: Time::ZERO,
        cycles: 0,
        iterations: Vec::new(),
        is_exact: true,
        deviation: 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_table_has_a_row_and_none_is_in_two_groups() {
        let groups = [
            TableGroup::Events,
            TableGroup::Jobs,
            TableGroup::Training,
            TableGroup::Queues,
            TableGroup::Rates,
            TableGroup::Utilisation,
            TableGroup::Repeats,
        ];
        let tables: Vec<Table> = groups.into_iter().flat_map(tables_without_rows).collect();
        assert!(tables.iter().all(|table| table.rows() == 0), "{tables:?}");
        let mut names: Vec<&str> = tables.iter().map(|table| table.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), tables.len());
    }
}
