//! The properties that a tenant may set, and the refusals.

use protocol::api::FailureKind;
use protocol::property::{Property, Tenant};

use crate::failure::Failure;
use crate::state::datasets::account_property::AccountProperty;
use crate::state::datasets::properties;

/// Returns whether a tenant may set a property.
pub(crate) fn may_set(property: &str, on_root: bool) -> bool {
    if AccountProperty::parse(property).is_some() {
        return !on_root;
    }
    match Property::settable(property).map(|property| property.tenant) {
        Some(Tenant::Yes) => true,
        Some(Tenant::BelowRoot) => !on_root,
        Some(Tenant::No) => false,
        None => properties::is_user_property(property),
    }
}

pub(crate) fn refused() -> Failure {
    denied("this is for the global zone to do, not for a tenant")
}

pub(crate) fn denied(why: &str) -> Failure {
    Failure::new(FailureKind::Permission, why)
}
