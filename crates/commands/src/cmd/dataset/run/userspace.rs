//! The space that users and groups use.

use std::cmp::Ordering;

use console::outcome::{Outcome, Result};
use console::session::{Session, answer};
use console::show::table::{self, Column};
use console::show::{json, size};
use protocol::api::{AccountRow, OwnerKind, command};

use crate::cmd::dataset::args::{AccountField, Accounts};

pub(crate) fn run(args: &Accounts, kind: OwnerKind, session: &mut Session) -> Result {
    let command = command::Userspace {
        name: args.name.clone(),
        kind,
        check: args.check,
    };
    let mut rows = answer!(session.call(command)?, Accounts)?;
    let ascending = args.ascending.iter().map(|field| (*field, false));
    let descending = args.descending.iter().map(|field| (*field, true));
    let order: Vec<(AccountField, bool)> = ascending.chain(descending).collect();
    rows.sort_by(|a, b| compare(a, b, &order, args.numeric));
    if session.json {
        return Ok(Outcome::text(json::show(&rows)));
    }
    let heads: Vec<Column> = args.columns.iter().map(|field| head(*field)).collect();
    let cells = |row: &AccountRow| -> Vec<String> {
        let columns = args.columns.iter();
        columns.map(|field| cell(row, *field, args)).collect()
    };
    let rows: Vec<Vec<String>> = rows.iter().map(cells).collect();
    Ok(Outcome::text(table::show(&heads, &rows, args.table.script)))
}

fn head(field: AccountField) -> Column {
    match field {
        AccountField::Type => Column::left("TYPE"),
        AccountField::Name => Column::left("NAME"),
        AccountField::Used => Column::right("USED"),
        AccountField::Quota => Column::right("QUOTA"),
        AccountField::Objused => Column::right("OBJUSED"),
        AccountField::Objquota => Column::right("OBJQUOTA"),
    }
}

fn cell(row: &AccountRow, field: AccountField, args: &Accounts) -> String {
    let count = |number: u64| number.to_string();
    let limit = |limit: Option<u64>, show: &dyn Fn(u64) -> String| match limit {
        None => "none".into(),
        Some(limit) => show(limit),
    };
    match field {
        AccountField::Type => match row.kind {
            OwnerKind::User => "POSIX User".into(),
            OwnerKind::Group => "POSIX Group".into(),
        },
        AccountField::Name => name(row, args.numeric),
        AccountField::Used => size::show(row.used, args.table.parsable),
        AccountField::Quota => limit(row.quota, &|bytes| size::show(bytes, args.table.parsable)),
        AccountField::Objused => count(row.objects_used),
        AccountField::Objquota => limit(row.object_quota, &count),
    }
}

fn name(row: &AccountRow, numeric: bool) -> String {
    let by_name = row.name.clone().filter(|_| !numeric);
    by_name.unwrap_or_else(|| row.id.to_string())
}

/// By the columns in `order`, each with whether the largest comes first, then by name. No quota is more than any.
fn compare(
    a: &AccountRow,
    b: &AccountRow,
    order: &[(AccountField, bool)],
    numeric: bool,
) -> Ordering {
    let by_name = || match numeric {
        true => a.id.cmp(&b.id),
        false => name(a, false).cmp(&name(b, false)),
    };
    let limit = |limit: Option<u64>| limit.unwrap_or(u64::MAX);
    for (field, largest_first) in order {
        let ordering = match field {
            AccountField::Type => Ordering::Equal,
            AccountField::Name => by_name(),
            AccountField::Used => a.used.cmp(&b.used),
            AccountField::Quota => limit(a.quota).cmp(&limit(b.quota)),
            AccountField::Objused => a.objects_used.cmp(&b.objects_used),
            AccountField::Objquota => limit(a.object_quota).cmp(&limit(b.object_quota)),
        };
        let ordering = match largest_first {
            true => ordering.reverse(),
            false => ordering,
        };
        if ordering.is_ne() {
            return ordering;
        }
    }
    by_name()
}
