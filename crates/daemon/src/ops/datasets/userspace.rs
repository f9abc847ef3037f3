//! The used space and quotas of users and groups: the properties `userused@`, `userquota@` and similar ones, and
//! the command `userspace`.
//!
//! They are part of the sealed data. They are not in the dataset's entry with the other properties, nor in the
//! history. So they can be read only while the dataset is mounted.

use std::sync::Arc;

use dataset::{Dataset, Miscount, Owner, OwnerAccount};
use pool::Entry;
use protocol::accounts;
use protocol::api::{AccountRow, FailureKind, OwnerKind, PropertyValue, Props, Reply, ValueSource};
use protocol::sizes;

use crate::failure::{Failure, Result};
use crate::state::callers::context::CallerContext;
use crate::state::callers::row_stream::RowStream;
use crate::state::daemon::Daemon;
use crate::state::datasets::account_property::{AccountProperty, AccountPropertyKind};
use crate::state::pools::active_pool::ActivePool;

impl AccountProperty<'_> {
    /// The number that a quota is set to; 0 for none.
    fn limit(&self, value: &str) -> Result<u64> {
        if !matches!(
            self.field,
            AccountPropertyKind::Quota | AccountPropertyKind::ObjectQuota
        ) {
            return Err(Failure::usage(format!(
                "the property '{}' cannot be set",
                self.name
            )));
        }
        match value {
            "none" => Ok(0),
            _ => sizes::positive(value).ok_or_else(|| {
                Failure::usage(format!(
                    "the property '{}' cannot be '{value}'; allowed: none | a size, such as 512M, 1.5G or 2T",
                    self.name
                ))
            }),
        }
    }

    /// Returns the value and its source. The value is unknown while the dataset is not mounted, or if it was never
    /// counted.
    pub(crate) fn value(
        &self,
        active: &ActivePool,
        entry: &Entry,
    ) -> Result<(PropertyValue, ValueSource)> {
        let owner = self.owner()?;
        let Some(dataset) = files_of(active, entry) else {
            return Ok((PropertyValue::None, ValueSource::None));
        };
        let Some(account) = dataset.account(owner)? else {
            return Ok((PropertyValue::None, ValueSource::None));
        };
        let limit = |limit, show: fn(u64) -> PropertyValue| match limit {
            0 => (PropertyValue::Text("none".into()), ValueSource::Default),
            limit => (show(limit), ValueSource::Local),
        };
        Ok(match self.field {
            AccountPropertyKind::Used => {
                (PropertyValue::Bytes(account.used.bytes), ValueSource::None)
            }
            AccountPropertyKind::ObjectsUsed => (
                PropertyValue::Number(account.used.objects),
                ValueSource::None,
            ),
            AccountPropertyKind::Quota => limit(account.quota, PropertyValue::Bytes),
            AccountPropertyKind::ObjectQuota => limit(account.object_quota, PropertyValue::Number),
        })
    }
}

impl Daemon {
    /// Sets quotas of users and groups. False if the properties are others.
    pub(crate) fn set_account_quotas(
        &self,
        names: &[String],
        props: &Props,
        context: &mut CallerContext<'_>,
    ) -> Result<bool> {
        let of_accounts: Vec<_> = props
            .iter()
            .filter_map(|(key, value)| Some((AccountProperty::parse(key)?, value)))
            .collect();
        if of_accounts.is_empty() {
            return Ok(false);
        }
        if of_accounts.len() < props.len() {
            return Err(Failure::usage(
                "quotas of users and groups are stored inside the data; set the other properties with another \
                 command",
            ));
        }
        let mut limits = Vec::new();
        for (property, value) in of_accounts {
            limits.push((property.owner()?, property.field, property.limit(value)?));
        }
        let mut all = Vec::new();
        for name in names {
            let (active, entry) = self.find(name)?;
            let entry = active.again(&entry, name, context.decision)?;
            all.push((mounted_files(&active, &entry, name)?, active, entry));
        }
        for (dataset, active, entry) in all {
            let name = dataset.name();
            if !dataset.counts_owners() {
                context
                    .channel
                    .notice(format!("counting what users and groups have in '{name}'"));
                // This may take long.
                dataset.count_owners()?;
            }
            let _admin = active.lock(context.decision)?;
            active.again(&entry, name, context.decision)?;
            for (owner, field, limit) in &limits {
                dataset.set_account_limits(*owner, |account| match field {
                    AccountPropertyKind::ObjectQuota => account.object_quota = *limit,
                    _ => account.quota = *limit,
                })?;
            }
        }
        Ok(true)
    }

    /// The usage and the quotas of the users or groups of a dataset. With `check` the usage is counted again first, and
    /// a difference is a failure.
    pub(crate) fn userspace(
        &self,
        name: &str,
        kind: OwnerKind,
        check: bool,
        context: &mut CallerContext<'_>,
    ) -> Result<Vec<AccountRow>> {
        let (active, entry) = self.find(name)?;
        let entry = active.again(&entry, name, context.decision)?;
        let dataset = mounted_files(&active, &entry, name)?;
        if !dataset.counts_owners() {
            context
                .channel
                .notice(format!("counting what users and groups have in '{name}'"));
            dataset.count_owners()?;
        } else if check {
            let wrong = dataset.check_owners()?;
            if !wrong.is_empty() {
                return Err(miscounted(name, &wrong));
            }
        }
        let payer = context.payer();
        let send = |rows| context.channel.rows(Reply::Accounts(rows));
        let mut rows = RowStream::new(payer, send);
        for (owner, account) in dataset.accounts()? {
            if let Some(row) = row(kind, owner, &account) {
                rows.push(row)?;
            }
        }
        Ok(rows.into_rest())
    }
}

fn row(kind: OwnerKind, owner: Owner, account: &OwnerAccount) -> Option<AccountRow> {
    let (id, name) = match (kind, owner) {
        (OwnerKind::User, Owner::User(uid)) => (uid, accounts::user_name(uid)),
        (OwnerKind::Group, Owner::Group(gid)) => (gid, accounts::group_name(gid)),
        _ => return None,
    };
    let limit = |limit| (limit > 0).then_some(limit);
    Some(AccountRow {
        kind,
        id,
        name,
        used: account.used.bytes,
        quota: limit(account.quota),
        objects_used: account.used.objects,
        object_quota: limit(account.object_quota),
    })
}

fn miscounted(name: &str, wrong: &[Miscount]) -> Failure {
    let one = |m: &Miscount| {
        let who = match m.owner {
            Owner::User(uid) => format!("uid {uid}"),
            Owner::Group(gid) => format!("gid {gid}"),
        };
        format!(
            "{who} is accounted with {} bytes in {} inodes, and has {} in {}",
            m.said.bytes, m.said.objects, m.found.bytes, m.found.objects
        )
    };
    let all: Vec<String> = wrong.iter().map(one).collect();
    Failure::new(
        FailureKind::Damaged,
        format!("'{name}': {}", all.join("; ")),
    )
}

fn files_of(active: &ActivePool, entry: &Entry) -> Option<Arc<Dataset>> {
    let mounts = active.mounts.lock();
    mounts
        .get(&entry.id)
        .map(|state| Arc::clone(&state.dataset))
}

fn mounted_files(active: &ActivePool, entry: &Entry, name: &str) -> Result<Arc<Dataset>> {
    if entry.is_snapshot() {
        return Err(Failure::usage(format!(
            "'{name}' is a snapshot; name a dataset"
        )));
    }
    if entry.volume().is_some() {
        return Err(Failure::usage(format!(
            "'{name}' is a volume: it has no files, and so no users"
        )));
    }
    files_of(active, entry).ok_or_else(|| {
        Failure::new(
            FailureKind::NotFound,
            format!(
                "'{name}' is not mounted, and the space of its users is counted inside its data; mount it \
                 first: strongroom mount {name}"
            ),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_properties_are_told_from_others() {
        let prefixes = [
            "groupobjquota",
            "groupobjused",
            "groupquota",
            "groupused",
            "userobjquota",
            "userobjused",
            "userquota",
            "userused",
        ];
        for prefix in prefixes {
            let name = format!("{prefix}@0");
            let property = AccountProperty::parse(&name).unwrap();
            assert_eq!(property.kind == OwnerKind::User, prefix.starts_with("user"));
            property.owner().unwrap();
        }
        for other in [
            "quota",
            "userquota",
            "quota@0",
            "userbytes@0",
            "org:user@0",
            "@hold x",
        ] {
            assert!(AccountProperty::parse(other).is_none(), "{other}");
        }
        let quota = AccountProperty::parse("userquota@0").unwrap();
        assert_eq!(quota.limit("1K").unwrap(), 1024);
        assert_eq!(quota.limit("none").unwrap(), 0);
        assert!(quota.limit("0").is_err());
        assert!(
            AccountProperty::parse("userused@0")
                .unwrap()
                .limit("1")
                .is_err()
        );
        assert!(
            AccountProperty::parse("userquota@no-such-user")
                .unwrap()
                .owner()
                .is_err()
        );
    }
}
