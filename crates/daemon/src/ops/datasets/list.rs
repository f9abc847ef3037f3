//! Lists: properties, pools, keys, history.

use std::collections::HashSet;
use std::sync::Arc;

use cipher::Suite;
use pool::DatasetListing;
use protocol::accounts::user_name;
use protocol::api::{
    DatasetRow, FeatureReport, HistoryRow, KeyRow, MountRow, PoolReport, PropertyRow,
    PropertyValue, ValueSource, command,
};
use protocol::property::{PROPERTIES, Property};

use crate::failure::{Failure, Result};
use crate::ops::datasets::volumes;
use crate::ops::pools::features::{self, FORMAT_VERSION};
use crate::ops::pools::report::{ratio, report_in_time};
use crate::ops::snapshots::bookmarks;
use crate::state::callers::row_stream::RowStream;
use crate::state::daemon::Daemon;
use crate::state::datasets::account_property::AccountProperty;
use crate::state::datasets::properties::{self, Mountpoint};
use crate::state::datasets::written_property::WrittenSince;
use crate::state::pools::active_pool::ActivePool;

/// The largest number of properties in one command.
const PROPS_MAX: usize = 1000;

/// The rows that are found, each once.
struct Rows<'a, 's> {
    all: &'a mut RowStream<'s, DatasetRow>,
    /// The names of the rows.
    seen: HashSet<String>,
    /// Decides whether the caller may see a dataset.
    may_see: &'a dyn Fn(&str) -> bool,
}

impl Rows<'_, '_> {
    /// Returns whether a row is new, and of a dataset that the caller may see.
    fn is_wanted(&mut self, name: &str) -> bool {
        self.seen.insert(name.to_owned()) && (self.may_see)(name)
    }
}

impl Daemon {
    /// Finds the rows of a listing. Leaves out names for which `may_see` is false.
    pub(crate) fn get(
        &self,
        get: &command::Get,
        may_see: &dyn Fn(&str) -> bool,
        rows: &mut RowStream<'_, DatasetRow>,
    ) -> Result<()> {
        if get.props.len() > PROPS_MAX {
            return Err(Failure::usage(format!(
                "name at most {PROPS_MAX} properties; without one, all are shown"
            )));
        }
        let props: Vec<String> = get
            .props
            .iter()
            .map(|name| properties::whole_name(name))
            .collect::<Result<_>>()?;
        let mut rows = Rows {
            all: rows,
            seen: HashSet::new(),
            may_see,
        };
        if get.names.is_empty() {
            for active in self.pools() {
                let top = active.pool.top()?;
                self.get_below(&active, top.id, get, &props, &mut rows)?;
            }
            return Ok(());
        }
        for name in &get.names {
            if let Some((active, partial)) = self.interrupted_as(name) {
                rows.all.push(row_of_partial(&active, &partial, &props)?)?;
            } else if name.contains('#') {
                let row = self.row_of_bookmark(name, &props)?;
                if rows.is_wanted(name) {
                    rows.all.push(row)?;
                }
            } else {
                let (active, entry) = self.find(name)?;
                self.get_below(&active, entry.id, get, &props, &mut rows)?;
            }
        }
        Ok(())
    }

    /// The dataset that an interrupted receive would make.
    fn interrupted_as(&self, name: &str) -> Option<(Arc<ActivePool>, DatasetListing)> {
        let active = self.pool_of(name).ok()?;
        let partial = active.pool.interrupted_as(name).ok()??;
        Some((active, partial))
    }

    fn get_below(
        &self,
        active: &Arc<ActivePool>,
        id: u64,
        get: &command::Get,
        props: &[String],
        rows: &mut Rows<'_, '_>,
    ) -> Result<()> {
        let is_counted = props.is_empty() || props.iter().any(|name| needs_counts(name));
        let all = match is_counted {
            true => active.pool.list(id)?,
            false => active.pool.list_uncounted(id)?,
        };
        let base = all.first().map_or(0, |first| depth_of(&first.name));
        for (at, listed) in all.iter().enumerate() {
            // The bookmarks of a dataset come after its snapshots.
            let before = all[..at].iter().rev();
            if let Some(head) = before.clone().find(|before| !before.entry.is_snapshot())
                && !listed.entry.is_snapshot()
            {
                bookmarks_of(active, head, (get, base), props, rows)?;
            }
            let named = listed.entry.id == id;
            let too_deep = get
                .depth
                .is_some_and(|depth| depth_of(&listed.name) - base > depth);
            let unwanted = listed.entry.is_snapshot() && !get.snapshots;
            if !named && (too_deep || unwanted) || !rows.is_wanted(&listed.name) {
                continue;
            }
            rows.all.push(self.row(active, listed, props)?)?;
        }
        self.partials_below(active, id, (get, base), props, rows)?;
        match all.iter().rev().find(|last| !last.entry.is_snapshot()) {
            Some(head) => bookmarks_of(active, head, (get, base), props, rows),
            None => Ok(()),
        }
    }

    /// Lists the datasets that interrupted receives would make below a dataset. Who may see the dataset above may see
    /// them.
    fn partials_below(
        &self,
        active: &ActivePool,
        id: u64,
        (get, base): (&command::Get, u32),
        props: &[String],
        rows: &mut Rows<'_, '_>,
    ) -> Result<()> {
        if get.depth == Some(0) {
            return Ok(());
        }
        for partial in active.pool.interrupted(id)? {
            let depth = depth_of(&partial.name) - base;
            let (above, _) = partial.name.rsplit_once('/').unwrap_or_default();
            let may_see = (rows.may_see)(above);
            if get.depth.is_some_and(|most| depth > most) || !may_see {
                continue;
            }
            if rows.seen.insert(partial.name.clone()) {
                rows.all.push(row_of_partial(active, &partial, props)?)?;
            }
        }
        Ok(())
    }

    fn row(
        &self,
        active: &ActivePool,
        listed: &DatasetListing,
        props: &[String],
    ) -> Result<DatasetRow> {
        let mut names: Vec<String> = props.to_vec();
        if names.is_empty() {
            let user = listed
                .entry
                .props
                .keys()
                .filter(|key| properties::is_user_property(key));
            let all = PROPERTIES.iter().map(|property| property.name);
            let all = all.filter(|name| volumes::applies(&listed.entry, name));
            names = all.map(str::to_owned).chain(user.cloned()).collect();
        }
        let props = names
            .into_iter()
            .map(|name| property_row(active, listed, name))
            .collect::<Result<_>>()?;
        Ok(DatasetRow {
            name: listed.name.clone(),
            kind: kind(listed).into(),
            props,
        })
    }

    pub(crate) fn status(
        self: &Arc<Self>,
        names: &[String],
        names_files: bool,
    ) -> Result<Vec<PoolReport>> {
        let mut reports = self.absent_reports(names);
        let is_here = |name: &&String| !reports.iter().any(|absent| absent.name == **name);
        let here: Vec<String> = names.iter().filter(is_here).cloned().collect();
        let pools = match here.is_empty() && !names.is_empty() {
            true => Vec::new(),
            false => self.pools_named(&here)?,
        };
        for active in &pools {
            let (daemon, pool) = (Arc::clone(self), Arc::clone(active));
            reports.push(report_in_time(active, names_files, move |report| {
                report.waiting = daemon.waiting_for_keys(&pool)?;
                Ok(())
            })?);
        }
        Ok(reports)
    }

    /// Returns the named pools; all if none is named.
    pub(crate) fn pools_named(&self, names: &[String]) -> Result<Vec<Arc<ActivePool>>> {
        match names {
            [] => Ok(self.pools()),
            names => names.iter().map(|name| self.pool(name)).collect(),
        }
    }

    pub(crate) fn features(&self, names: &[String]) -> Result<Vec<FeatureReport>> {
        let of_one = |active: &Arc<ActivePool>| {
            let known = active.pool.features().into_iter();
            FeatureReport {
                name: active.pool.name(),
                // The same for every pool: there has been only one format.
                format: FORMAT_VERSION,
                features: known
                    .map(|(feature, active)| features::row(feature, active))
                    .collect(),
            }
        };
        Ok(self.pools_named(names)?.iter().map(of_one).collect())
    }

    pub(crate) fn history(&self, name: &str, internal: bool) -> Result<Vec<HistoryRow>> {
        let lines = self.pool(name)?.pool.history()?;
        let wanted = lines.into_iter().filter(|line| internal || !line.internal);
        Ok(wanted
            .map(|line| HistoryRow {
                time: line.time,
                txg: line.txg,
                internal: line.internal,
                who: line.who,
                text: line.text,
            })
            .collect())
    }

    pub(crate) fn mount_list(&self) -> Result<Vec<MountRow>> {
        let mut rows = Vec::new();
        for active in self.pools() {
            rows.extend(active.mount_rows()?);
        }
        rows.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(rows)
    }

    pub(crate) fn key_status(&self, names: &[String]) -> Result<Vec<KeyRow>> {
        let mut rows = Vec::new();
        if names.is_empty() {
            for active in self.pools() {
                for entry in active.all_heads()? {
                    rows.extend(key_row(&active, &entry)?);
                }
            }
        }
        for name in names {
            let (active, entry) = self.find(name)?;
            let row = key_row(&active, &entry)?;
            rows.push(row.ok_or_else(|| Failure::other(format!("'{name}' is not encrypted")))?);
        }
        Ok(rows)
    }
}

/// The properties of a dataset that was received in part.
const OF_PARTIALS: [&str; 9] = [
    "type",
    "creation",
    "used",
    "available",
    "referenced",
    "usedbydataset",
    "written",
    "createtxg",
    "receive_resume_token",
];

/// The row for a dataset that was received in part.
fn row_of_partial(
    active: &ActivePool,
    partial: &DatasetListing,
    props: &[String],
) -> Result<DatasetRow> {
    let names = match props {
        [] => OF_PARTIALS.map(str::to_owned).to_vec(),
        props => props.to_vec(),
    };
    let row = |property: String| {
        let value = match property.as_str() {
            "name" => PropertyValue::Text(partial.name.clone()),
            known if OF_PARTIALS.contains(&known) => computed(active, partial, known)?,
            _ => PropertyValue::None,
        };
        Ok(PropertyRow {
            property,
            value,
            source: ValueSource::None,
        })
    };
    Ok(DatasetRow {
        name: partial.name.clone(),
        kind: kind(partial).into(),
        props: names.into_iter().map(row).collect::<Result<_>>()?,
    })
}

/// Returns whether the value of a property is counted for each listing. For some snapshots this reads devices.
fn needs_counts(property: &str) -> bool {
    property.starts_with("used") || property == "written"
}

/// Lists the bookmarks of a dataset, if the command wants bookmarks.
fn bookmarks_of(
    active: &ActivePool,
    head: &DatasetListing,
    (get, base): (&command::Get, u32),
    props: &[String],
    rows: &mut Rows<'_, '_>,
) -> Result<()> {
    let depth = depth_of(&head.name) + 1 - base;
    if !get.bookmarks || get.depth.is_some_and(|most| depth > most) {
        return Ok(());
    }
    for marked in active.pool.bookmarks(head.entry.id)? {
        if rows.is_wanted(&marked.name) {
            rows.all.push(bookmarks::row(&marked, props))?;
        }
    }
    Ok(())
}

fn depth_of(name: &str) -> u32 {
    name.matches(['/', '@']).count() as u32
}

fn kind(listed: &DatasetListing) -> &'static str {
    match listed.entry.kind {
        pool::DatasetKind::FileSystem => "filesystem",
        pool::DatasetKind::Volume => "volume",
        pool::DatasetKind::Snapshot => "snapshot",
    }
}

fn property_row(
    active: &ActivePool,
    listed: &DatasetListing,
    property: String,
) -> Result<PropertyRow> {
    let (value, source) = match property.as_str() {
        "name" => (PropertyValue::Text(listed.name.clone()), ValueSource::None),
        "encryption" => encryption(active, listed)?,
        "keysource" if listed.entry.suite == 0 => {
            (PropertyValue::Text("none".into()), ValueSource::Default)
        }
        name if !volumes::applies(&listed.entry, name) => (PropertyValue::None, ValueSource::None),
        "mountpoint" => mountpoint(active, listed)?,
        name if let Some(property) = AccountProperty::parse(name) => {
            property.value(active, &listed.entry)?
        }
        name if let Some(since) = WrittenSince::parse(name) => {
            (since.value(&active.pool, &listed.entry)?, ValueSource::None)
        }
        name if Property::is_computed(name) => (computed(active, listed, name)?, ValueSource::None),
        name if listed.entry.is_snapshot() && !applies_to_snapshots(name) => {
            (PropertyValue::None, ValueSource::None)
        }
        name => settable(active, listed, name)?,
    };
    Ok(PropertyRow {
        property,
        value,
        source,
    })
}

fn applies_to_snapshots(name: &str) -> bool {
    Property::find(name).is_none_or(|property| property.of_snapshots)
}

fn settable(
    active: &ActivePool,
    listed: &DatasetListing,
    name: &str,
) -> Result<(PropertyValue, ValueSource)> {
    let mounted_ro = name == "readonly"
        && active
            .mounts
            .lock()
            .get(&listed.entry.id)
            .is_some_and(|state| state.read_only);
    if mounted_ro {
        return Ok((PropertyValue::Text("on".into()), ValueSource::Temporary));
    }
    let (value, mut source) = properties::effective(&active.pool, &listed.entry, name)?;
    if name == "keysource" && listed.entry.key_root == listed.entry.id {
        let keysource = value.parse();
        if keysource.is_ok_and(|keysource| active.is_proposed(&listed.entry, &keysource)) {
            source = ValueSource::Proposed;
        }
    }
    if properties::is_user_property(name) && source == ValueSource::Default {
        return Ok((PropertyValue::None, ValueSource::None));
    }
    if name == properties::OWNER {
        let user = value.parse().ok().and_then(user_name);
        return Ok((PropertyValue::Text(user.unwrap_or(value)), source));
    }
    let value = match value.parse() {
        Ok(bytes) if properties::is_size(name) => PropertyValue::Bytes(bytes),
        Ok(count) if properties::is_count(name) => PropertyValue::Number(count),
        _ => PropertyValue::Text(value),
    };
    Ok((value, source))
}

/// `on` for the usual suite, as the words of ZFS have it, or the name of another. Its source is the nearest dataset above
/// that was made with `encryption`.
fn encryption(
    active: &ActivePool,
    listed: &DatasetListing,
) -> Result<(PropertyValue, ValueSource)> {
    let (_, source) = properties::effective(&active.pool, &listed.entry, "encryption")?;
    let word = match suite_name(listed) {
        Some(name) if name == Suite::DEFAULT.name() => "on",
        Some(name) => name,
        None => "off",
    };
    Ok((PropertyValue::Text(word.into()), source))
}

fn suite_name(listed: &DatasetListing) -> Option<&'static str> {
    Suite::from_id(listed.entry.suite).map(Suite::name)
}

fn mountpoint(
    active: &ActivePool,
    listed: &DatasetListing,
) -> Result<(PropertyValue, ValueSource)> {
    if listed.entry.is_snapshot() {
        return Ok((PropertyValue::None, ValueSource::None));
    }
    if let Some(state) = active.mounts.lock().get(&listed.entry.id)
        && !state.by_property
    {
        return Ok((
            PropertyValue::Text(state.dir().display().to_string()),
            ValueSource::Temporary,
        ));
    }
    let (value, source) = properties::mountpoint(active, &listed.entry)?;
    let text = match value {
        Mountpoint::Path(place) => place.path().display().to_string(),
        Mountpoint::Legacy => "legacy".into(),
        Mountpoint::None => "none".into(),
    };
    Ok((PropertyValue::Text(text), source))
}

fn computed(active: &ActivePool, listed: &DatasetListing, name: &str) -> Result<PropertyValue> {
    let entry = &listed.entry;
    let is_snapshot = entry.is_snapshot();
    let heads = |value| {
        if is_snapshot {
            PropertyValue::None
        } else {
            PropertyValue::Bytes(value)
        }
    };
    let yes_no = |yes| PropertyValue::Text(if yes { "yes" } else { "no" }.into());
    Ok(match name {
        "type" => PropertyValue::Text(kind(listed).into()),
        "creation" => PropertyValue::Time(entry.created),
        "used" => PropertyValue::Bytes(listed.used),
        "available" => heads(active.pool.available_to(entry.id)?),
        "referenced" => PropertyValue::Bytes(entry.referenced),
        "compressratio" | "refcompressratio" => {
            PropertyValue::Ratio(ratio(entry.logical, entry.referenced))
        }
        "mounted" if is_snapshot => PropertyValue::None,
        "mounted" => yes_no(active.mounts.lock().contains_key(&entry.id)),
        "suite" => {
            suite_name(listed).map_or(PropertyValue::None, |name| PropertyValue::Text(name.into()))
        }
        "keystatus" if entry.suite == 0 => PropertyValue::None,
        "keystatus" => PropertyValue::Text(key_state(active, active.key_root(entry)?).into()),
        "locks-at" if entry.suite == 0 => PropertyValue::None,
        "locks-at" => { active.locks_at(entry)? }.map_or(PropertyValue::None, PropertyValue::Time),
        "rekeydate" if entry.suite == 0 => PropertyValue::None,
        "rekeydate" => match active.opened_keyring(entry) {
            Ok((keyring, _)) => PropertyValue::Time(keyring.newest().created()),
            Err(_) => PropertyValue::None,
        },
        "reencryption" => active
            .reencryption(entry)
            .map_or(PropertyValue::None, PropertyValue::Text),
        "origin" if entry.origin == 0 => PropertyValue::None,
        "origin" => PropertyValue::Text(active.pool.name_of(entry.origin)?),
        "clones" if !is_snapshot => PropertyValue::None,
        "clones" => match active.pool.clones(entry.id) {
            none if none.is_empty() => PropertyValue::None,
            some => PropertyValue::Text(some.join(",")),
        },
        "usedbydataset" => heads(listed.used_by_dataset),
        "usedbysnapshots" => heads(listed.used_by_snapshots),
        "usedbychildren" => heads(listed.used_by_children),
        "usedbyrefreservation" => heads(listed.used_by_refreservation),
        "volsize" => entry.volume().map_or(PropertyValue::None, |shape| {
            PropertyValue::Bytes(shape.size())
        }),
        "volblocksize" => match entry.volume() {
            Some(shape) => PropertyValue::Bytes(shape.block_size().into()),
            None => PropertyValue::None,
        },
        "filesystem_count" | "snapshot_count" if is_snapshot => PropertyValue::None,
        "filesystem_count" => PropertyValue::Number(active.pool.counts(entry.id)?.datasets),
        "snapshot_count" => PropertyValue::Number(active.pool.counts(entry.id)?.snapshots),
        "logicalused" => match active.pool.logical_used(entry.id)? {
            Some(bytes) => PropertyValue::Bytes(bytes),
            None => PropertyValue::None,
        },
        "logicalreferenced" => PropertyValue::Bytes(entry.logical),
        "written" => PropertyValue::Bytes(listed.written),
        "defer_destroy" if !is_snapshot => PropertyValue::None,
        "defer_destroy" => {
            PropertyValue::Text(if entry.is_deferred() { "on" } else { "off" }.into())
        }
        "userrefs" if !is_snapshot => PropertyValue::None,
        "userrefs" => {
            let holds = active
                .pool
                .holds(std::slice::from_ref(&listed.name), false)?;
            PropertyValue::Number(holds.len() as u64)
        }
        "retained-until" => match entry.retained_until() {
            0 => PropertyValue::None,
            until => PropertyValue::Time(until),
        },
        "guid" => PropertyValue::Number(entry.guid),
        "createtxg" => PropertyValue::Number(entry.created_txg),
        "receive_resume_token" if is_snapshot => PropertyValue::None,
        "receive_resume_token" => match active.pool.resume_token(&listed.name)? {
            Some(token) => PropertyValue::Text(token.to_string()),
            None => PropertyValue::None,
        },
        _ => PropertyValue::None,
    })
}

fn key_state(active: &ActivePool, key_root: u64) -> &'static str {
    match active.keys.has(key_root) {
        true => "available",
        false => "unavailable",
    }
}

fn key_row(active: &ActivePool, entry: &pool::Entry) -> Result<Option<KeyRow>> {
    if entry.suite == 0 {
        return Ok(None);
    }
    let root = active.pool.entry(active.key_root(entry)?)?;
    Ok(Some(KeyRow {
        name: active.pool.name_of(entry.id)?,
        key_root: active.pool.name_of(root.id)?,
        status: key_state(active, root.id).into(),
        keysource: active.keysource(&root)?.to_string(),
    }))
}
