//! What a tenant may set, and the refusals.

use protocol::api::FailureKind;

use crate::failure::Failure;
use crate::state::account_property::AccountProperty;
use crate::state::properties;

/// Properties that a tenant can set, besides those that he makes up. Limits on what is below the root only.
const SETTABLE: &[&str] = &[
    "recordsize",
    "quota",
    "refquota",
    "compression",
    "atime",
    "relatime",
    "readonly",
    "canmount",
    "snapdir",
    "primarycache",
    "secondarycache",
    "sync",
    "dedup",
];

/// Whether a tenant may set a property.
pub(crate) fn may_set(property: &str, on_root: bool) -> bool {
    let of_account = AccountProperty::parse(property).is_some();
    let is_known =
        SETTABLE.contains(&property) || properties::is_user_property(property) || of_account;
    is_known && !(on_root && (of_account || ["quota", "refquota"].contains(&property)))
}

pub(crate) fn refused() -> Failure {
    denied("this is for the global zone to do, not for a tenant")
}

pub(crate) fn denied(why: &str) -> Failure {
    Failure::new(FailureKind::Permission, why)
}
