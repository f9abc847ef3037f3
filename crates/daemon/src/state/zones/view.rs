//! The names that a tenant sees in a zone: its root looks like a pool, and nothing else exists.
//!
//! A value from above the root is `inherited from $globalzone`. Answers contain only names inside the zone; everything
//! else is left out. If a failure is about something outside, the tenant gets only its kind.

use std::sync::Arc;

use pool::Entry;
use protocol::api::{
    Ask, DatasetRow, DeferredReport, DoomedReport, FailureKind, HoldRow, KeyRow, MountRow,
    PropertyRow, PropertyValue, Reply, ShredReport, SlotRow, StreamRow, Survivor, ValueSource,
    ZoneProfile,
};
use protocol::property::Property;

use crate::failure::{Failure, Result};
use crate::state::devices::leases::without_names;
use crate::state::pools::active_pool::ActivePool;

use crate::state::zones::rules;

/// The name for everything above the root.
pub(crate) const GLOBAL_ZONE: &str = "$globalzone";

/// A zone in the view of one command.
pub(crate) struct ZoneView {
    pub(crate) active: Arc<ActivePool>,
    pub(crate) root: Arc<Entry>,
    /// The name of the pool. `root` is the root in it.
    pub(crate) pool: String,
    pub(crate) name: String,
    /// The name of the root in the zone.
    pub(crate) alias: String,
    pub(crate) profile: ZoneProfile,
}

impl ZoneView {
    /// Translates a name of the tenant into the daemon's.
    pub(crate) fn inward(&self, name: &str) -> Result<String> {
        let rest = name.strip_prefix(self.alias.as_str());
        let is_name = |rest: &&str| rest.is_empty() || rest.starts_with(['/', '@', '#']);
        match rest.filter(is_name) {
            Some(rest) => Ok(format!("{}{rest}", self.name)),
            None => Err(self.absent(name)),
        }
    }

    /// The failure for a missing dataset. It is the same for a dataset outside of the zone.
    pub(crate) fn absent(&self, name: &str) -> Failure {
        Failure::new(
            FailureKind::NotFound,
            format!(
                "'{name}': no such dataset; in this zone all names begin with '{}'",
                self.alias
            ),
        )
    }

    /// Translates a name of the daemon into the tenant's; `None` if it is outside.
    pub(crate) fn outward(&self, name: &str) -> Option<String> {
        let rest = name.strip_prefix(self.name.as_str())?;
        let is_name = rest.is_empty() || rest.starts_with(['/', '@', '#']);
        is_name.then(|| format!("{}{rest}", self.alias))
    }

    /// Returns whether the tenant cannot change a dataset or snapshot, which has this name outside.
    pub(crate) fn is_fixed(&self, name: &str) -> bool {
        let dataset = name.split(['@', '#']).next().unwrap_or_default();
        let below = dataset.strip_prefix(self.name.as_str());
        below.is_some_and(|below| self.profile.fixes(below.trim_start_matches('/')))
    }

    /// The properties that a new dataset gets of the zone. A fixed dataset is read-only, and those that the tenant makes
    /// directly below must not inherit this.
    pub(crate) fn props_of_new(&self, name: &str) -> Option<(String, String)> {
        let (above, _) = name.rsplit_once('/')?;
        let begins = self.is_fixed(above) && !self.is_fixed(name);
        begins.then(|| ("readonly".into(), "off".into()))
    }

    fn outward_all(&self, names: Vec<String>) -> Vec<String> {
        let names = names.iter().filter_map(|name| self.outward(name));
        names.collect()
    }

    fn or_global(&self, name: &str) -> String {
        self.outward(name).unwrap_or_else(|| GLOBAL_ZONE.into())
    }

    /// Translates the names in a question.
    pub(crate) fn ask(&self, ask: Ask) -> Ask {
        let dataset = self.or_global(&ask.dataset);
        Ask { dataset, ..ask }
    }

    /// Translates the names in a text for the user.
    pub(crate) fn text(&self, text: &str) -> String {
        let hidden = || "a dataset outside this zone prevents it".into();
        self.translate(text).unwrap_or_else(hidden)
    }

    /// A failure with the tenant's names. It does not name devices.
    pub(crate) fn failure(&self, failure: Failure) -> Failure {
        let message = match failure.kind {
            FailureKind::Device => {
                "a device of the pool failed; the administrator of the machine can see more".into()
            }
            _ => self.text(&without_names(&failure.message)),
        };
        Failure::new(failure.kind, message)
    }

    /// Translates the names in a text; `None` if it names something outside. A name begins where no other name and no
    /// path continues.
    fn translate(&self, text: &str) -> Option<String> {
        let in_name = |c: char| c.is_ascii_alphanumeric() || "-_.:/@%".contains(c);
        let mut out = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(self.pool.as_str()) {
            let (before, from) = rest.split_at(at);
            out.push_str(before);
            let goes_on = out.chars().next_back().is_some_and(in_name);
            let after_pool = &from[self.pool.len()..];
            let after_root = from.strip_prefix(self.name.as_str());
            let is_quoted = out.ends_with('\'');
            let ends = |rest: &str| {
                let mut next = rest.chars();
                match next.next() {
                    Some('/' | '@' | '#' | '\'') | None => true,
                    // There are names with spaces.
                    _ if is_quoted => false,
                    Some('.' | ':') => !next.next().is_some_and(in_name),
                    Some(c) => !in_name(c),
                }
            };
            rest = match after_root.filter(|rest| ends(rest) && !goes_on) {
                Some(rest) => {
                    out.push_str(&self.alias);
                    rest
                }
                None if goes_on => {
                    out.push_str(&self.pool);
                    after_pool
                }
                None if after_pool.starts_with(['/', '@', '#']) || is_quoted => return None,
                None => {
                    out.push_str(&self.pool);
                    after_pool
                }
            };
        }
        out.push_str(rest);
        Some(out)
    }

    /// Translates a reply, and removes everything outside of the zone.
    pub(crate) fn reply(&self, reply: Reply) -> Result<Reply> {
        Ok(match reply {
            Reply::Nothing => Reply::Nothing,
            Reply::Names(names) => Reply::Names(self.outward_all(names)),
            Reply::Doomed(report) => Reply::Doomed(DoomedReport {
                destroyed: self.outward_all(report.destroyed),
                freed: report.freed,
            }),
            Reply::Deferred(report) => Reply::Deferred(DeferredReport {
                destroyed: self.outward_all(report.destroyed),
                later: self.outward_all(report.later),
            }),
            Reply::Shredded(report) => Reply::Shredded(self.shredded(report)),
            Reply::Datasets(rows) => Reply::Datasets(
                rows.into_iter()
                    .filter_map(|row| self.dataset(row))
                    .collect(),
            ),
            Reply::Mounts(rows) => {
                let rows = rows.into_iter().filter_map(|row| {
                    let name = self.outward(&row.name)?;
                    Some(MountRow { name, ..row })
                });
                Reply::Mounts(rows.collect())
            }
            Reply::Streams(rows) => {
                let rows = rows.into_iter().filter_map(|row| {
                    let name = self.outward(&row.name)?;
                    let from = row.from.map(|from| self.or_global(&from));
                    Some(StreamRow { name, from, ..row })
                });
                Reply::Streams(rows.collect())
            }
            Reply::Holds(rows) => {
                let rows = rows.into_iter().filter_map(|row| {
                    let name = self.outward(&row.name)?;
                    Some(HoldRow { name, ..row })
                });
                Reply::Holds(rows.collect())
            }
            Reply::Keys(rows) => {
                let rows = rows.into_iter().filter_map(|row| self.key(row));
                Reply::Keys(rows.collect())
            }
            Reply::Generations(mut rows) => {
                for row in &mut rows {
                    row.snapshots = self.outward_all(std::mem::take(&mut row.snapshots));
                }
                Reply::Generations(rows)
            }
            Reply::Slots(rows) => {
                let rows = rows.into_iter().map(|row| SlotRow {
                    key_root: self.or_global(&row.key_root),
                    ..row
                });
                Reply::Slots(rows.collect())
            }
            Reply::Slot(number) => Reply::Slot(number),
            Reply::Accounts(rows) => Reply::Accounts(rows),
            Reply::Diff(report) => Reply::Diff(report),
            Reply::Caller(report) => Reply::Caller(report),
            Reply::Pools(_)
            | Reply::Refreshed(_)
            | Reply::Io(_)
            | Reply::Importable(_)
            | Reply::Features(_)
            | Reply::History(_)
            | Reply::Audit(_)
            | Reply::AuditReport(_)
            | Reply::Events(_)
            | Reply::Backup(_)
            | Reply::Anchors(_)
            | Reply::AnchorRows(_)
            | Reply::Verified(_)
            | Reply::CopyReport(_)
            | Reply::Inspection(_)
            | Reply::StoreProbe(_)
            | Reply::ScrubEstimate(_)
            | Reply::Permissions(_)
            | Reply::WrongKeys(_)
            | Reply::Zones(_)
            | Reply::Tokens(_)
            | Reply::Token(_)
            | Reply::Metrics(_)
            | Reply::Replications(_)
            | Reply::Exports(_)
            | Reply::Sessions(_)
            | Reply::Ha(_)
            | Reply::Mappings(_)
            | Reply::Daemon(_)
            | Reply::Home(_) => return Err(rules::refused()),
        })
    }

    fn shredded(&self, report: ShredReport) -> ShredReport {
        let survivors = report.survivors.into_iter().filter_map(|survivor| {
            Some(Survivor {
                dataset: self.outward(&survivor.dataset)?,
                kept_by: self.or_global(&survivor.kept_by),
                ..survivor
            })
        });
        ShredReport {
            destroyed: self.outward_all(report.destroyed),
            not_rewrapped: self.outward_all(report.not_rewrapped),
            survivors: survivors.collect(),
            ..report
        }
    }

    fn key(&self, row: KeyRow) -> Option<KeyRow> {
        let is_global = row.key_root == self.name;
        Some(KeyRow {
            name: self.outward(&row.name)?,
            key_root: match is_global {
                true => GLOBAL_ZONE.into(),
                false => self.or_global(&row.key_root),
            },
            ..row
        })
    }

    fn dataset(&self, row: DatasetRow) -> Option<DatasetRow> {
        let name = self.outward(&row.name)?;
        let props = row.props.into_iter();
        let props = props.map(|prop| self.prop_row(&row.name, prop)).collect();
        Some(DatasetRow { name, props, ..row })
    }

    fn prop_row(&self, dataset: &str, prop: PropertyRow) -> PropertyRow {
        let value = match prop.value {
            PropertyValue::Text(text) if prop.property == "clones" => {
                let names = text.split(',').filter_map(|name| self.outward(name));
                match names.collect::<Vec<_>>() {
                    none if none.is_empty() => PropertyValue::None,
                    some => PropertyValue::Text(some.join(",")),
                }
            }
            PropertyValue::Text(text) if prop.property == "name" || prop.property == "origin" => {
                self.outward(&text)
                    .map_or(PropertyValue::None, PropertyValue::Text)
            }
            // It tells where a stream came from.
            _ if prop.property == "receive_resume_token" => PropertyValue::None,
            PropertyValue::Text(text) if Property::is_computed(&prop.property) => self
                .translate(&text)
                .map_or(PropertyValue::None, PropertyValue::Text),
            value => value,
        };
        // What is set on the root, and the tenant could not, was set by the global zone too.
        let is_the_tenants = |name: &str| {
            name != self.name || (!self.is_fixed(name) && rules::may_set(&prop.property, true))
        };
        let source = match prop.source {
            ValueSource::Local if !is_the_tenants(dataset) => {
                ValueSource::Inherited(GLOBAL_ZONE.into())
            }
            ValueSource::Inherited(from) => {
                let from = self.outward(&from).filter(|_| is_the_tenants(&from));
                ValueSource::Inherited(from.unwrap_or_else(|| GLOBAL_ZONE.into()))
            }
            source => source,
        };
        PropertyRow {
            property: prop.property,
            value,
            source,
        }
    }
}
