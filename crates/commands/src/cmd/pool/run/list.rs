//! `pool list`: pools in a table, in the manner of `zpool list`.

use console::outcome::Result;
use console::session::{Session, answer};
use console::show::table::{self, Column};
use console::show::{json, size};
use protocol::api::{PoolReport, command};

use super::layouts::tree::{self, TreeLine};
use super::repeat;
use crate::cmd::pool::args::{PoolColumn, PoolList};

pub(super) fn run(args: PoolList, session: &mut Session) -> Result {
    let (pools, again) = repeat::split(args.words.clone())?;
    repeat::run(again, args.stamp.checked(session)?, |_| {
        let pools = pools.clone();
        let pools = answer!(
            session.call(command::PoolStatus {
                pools,
                names_files: false
            })?,
            Pools
        )?;
        Ok(match session.json {
            true => json::show(&pools),
            false => listed(&pools, &args),
        })
    })
}

fn listed(pools: &[PoolReport], args: &PoolList) -> String {
    if pools.is_empty() && !args.table.script {
        return "no pools available\n".into();
    }
    let heads: Vec<Column> = args.columns.iter().map(|column| head(*column)).collect();
    let exact = args.table.parsable;
    let mut rows = Vec::new();
    for pool in pools {
        let columns = args.columns.iter();
        rows.push(columns.map(|column| cell(pool, *column, exact)).collect());
        if args.verbose {
            let devices = tree::lines(pool).into_iter().skip(1);
            let spares = tree::spares(pool).map(tree::spare);
            let lines = devices.chain(spares);
            rows.extend(lines.map(|line| part(&line, &args.columns, exact)));
        }
    }
    table::show(&heads, &rows, args.table.script)
}

/// A group or a device, in the columns of pools: what it has of them.
fn part(line: &TreeLine<'_>, columns: &[PoolColumn], exact: bool) -> Vec<String> {
    let cell = |column: &PoolColumn| match column {
        PoolColumn::Name => line.indented(),
        PoolColumn::Health => line.state.to_owned(),
        PoolColumn::Size => line
            .size
            .map_or("-".into(), |bytes| size::show(bytes, exact)),
        PoolColumn::Guid => match line.devices.as_slice() {
            [device] => device.guid.to_string(),
            _ => "-".into(),
        },
        _ => "-".into(),
    };
    columns.iter().map(cell).collect()
}

fn head(column: PoolColumn) -> Column {
    match column {
        PoolColumn::Name => Column::left("NAME"),
        PoolColumn::Size => Column::right("SIZE"),
        PoolColumn::Allocated => Column::right("ALLOC"),
        PoolColumn::Free => Column::right("FREE"),
        PoolColumn::Capacity => Column::right("CAP"),
        PoolColumn::Checkpoint => Column::right("CKPOINT"),
        PoolColumn::Expandable => Column::right("EXPANDSZ"),
        PoolColumn::Dedup => Column::right("DEDUP"),
        PoolColumn::Health => Column::left("HEALTH"),
        PoolColumn::Guid => Column::right("GUID"),
        PoolColumn::ReadOnly => Column::left("RDONLY"),
        PoolColumn::Altroot => Column::left("ALTROOT"),
        PoolColumn::Txg => Column::right("TXG"),
    }
}

fn cell(pool: &PoolReport, column: PoolColumn, exact: bool) -> String {
    use PoolColumn::{Guid, Health, Name, ReadOnly};
    let is_known = matches!(column, Guid | Health | Name | ReadOnly);
    if pool.health == "UNAVAIL" && !is_known {
        return "-".into();
    }
    match column {
        PoolColumn::Name => pool.name.clone(),
        PoolColumn::Size => size::show(pool.size, exact),
        PoolColumn::Allocated => size::show(pool.allocated, exact),
        PoolColumn::Free => size::show(pool.free, exact),
        PoolColumn::Capacity => {
            let percent = u128::from(pool.allocated) * 100 / u128::from(pool.size.max(1));
            match exact {
                true => percent.to_string(),
                false => format!("{percent}%"),
            }
        }
        PoolColumn::Checkpoint => match &pool.checkpoint {
            Some(checkpoint) => size::show(checkpoint.bytes, exact),
            None => "-".into(),
        },
        PoolColumn::Expandable if pool.expandable == 0 && !exact => "-".into(),
        PoolColumn::Expandable => size::show(pool.expandable, exact),
        PoolColumn::Dedup => format!("{:.2}x", pool.dedupratio),
        PoolColumn::Health => pool.health.clone(),
        PoolColumn::Guid => pool.guid.to_string(),
        PoolColumn::ReadOnly => if pool.read_only { "on" } else { "off" }.into(),
        PoolColumn::Altroot => pool.altroot.clone().unwrap_or_else(|| "-".into()),
        PoolColumn::Txg => pool.txg.to_string(),
    }
}
