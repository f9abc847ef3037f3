//! Properties of users and groups in a dataset, by name: `userused@ann`, `groupquota@staff`.

use dataset::Owner;
use protocol::accounts;
use protocol::api::{FailureKind, OwnerKind};

use crate::failure::{Failure, Result};

/// The field of an account in a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccountPropertyKind {
    Used,
    ObjectsUsed,
    Quota,
    ObjectQuota,
}

/// A property of an account: `userquota@ann`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AccountProperty<'a> {
    pub(crate) name: &'a str,
    pub(crate) kind: OwnerKind,
    pub(crate) field: AccountPropertyKind,
    who: &'a str,
}

impl<'a> AccountProperty<'a> {
    /// Parses the name of a property; `None` for another kind of property.
    pub(crate) fn parse(name: &'a str) -> Option<AccountProperty<'a>> {
        let (prefix, who) = name.split_once('@')?;
        let (kind, field) = match prefix.strip_prefix("user") {
            Some(field) => (OwnerKind::User, field),
            None => (OwnerKind::Group, prefix.strip_prefix("group")?),
        };
        let field = match field {
            "used" => AccountPropertyKind::Used,
            "objused" => AccountPropertyKind::ObjectsUsed,
            "quota" => AccountPropertyKind::Quota,
            "objquota" => AccountPropertyKind::ObjectQuota,
            _ => return None,
        };
        Some(AccountProperty {
            name,
            kind,
            field,
            who,
        })
    }

    pub(crate) fn owner(&self) -> Result<Owner> {
        let (owner, what) = match self.kind {
            OwnerKind::User => (accounts::uid_of(self.who).map(Owner::User), "user"),
            OwnerKind::Group => (accounts::gid_of(self.who).map(Owner::Group), "group"),
        };
        owner.ok_or_else(|| {
            let text = format!("there is no {what} '{}'; a number also works", self.who);
            Failure::new(FailureKind::NotFound, text)
        })
    }
}
