//! A row of the table of properties in words, for people and programs.

use serde::Serialize;

use super::row::{Applies, Property, Settable, Tenant};

/// The row of a property in the reference.
#[derive(Debug, Serialize)]
pub struct PropertyFacts {
    /// The name of the property.
    pub name: &'static str,
    /// A shorter name, or the same.
    pub short: &'static str,
    /// The effect of the property, in one sentence.
    pub help: &'static str,
    /// The kinds of datasets that have the property.
    pub has: &'static str,
    /// The values that the property can be set to.
    pub values: String,
    /// The value if the property was never set.
    pub default: &'static str,
    /// The time when it can be set: `never`, `volume`, `always`, `creation` or `key`.
    pub set: &'static str,
    /// The tenants that may set it: `no`, `below` or `yes`.
    pub tenant: &'static str,
    /// True if a dataset has it from the one above.
    pub inherits: bool,
    /// True if it means something for a snapshot.
    pub of_snapshots: bool,
    /// The callers that may set it.
    pub who: String,
    /// The first version that has it.
    pub since: &'static str,
}

impl PropertyFacts {
    /// The row of the table, in words.
    pub fn of(property: &Property) -> PropertyFacts {
        PropertyFacts {
            name: property.name,
            short: property.short,
            help: property.help,
            has: match property.applies {
                Applies::All => "every dataset",
                Applies::Files => "file systems",
                Applies::Volumes => "volumes",
                Applies::Pools => "the first dataset of a pool",
            },
            values: property.values.describe(),
            default: match property.default {
                "" => "-",
                default => default,
            },
            set: match (property.applies, property.settable) {
                (Applies::Volumes, Settable::Never) => "volume",
                (_, Settable::Never) => "never",
                (_, Settable::Always) => "always",
                (_, Settable::AtCreation) => "creation",
                (_, Settable::WithKey) => "key",
            },
            tenant: match property.tenant {
                Tenant::No => "no",
                Tenant::BelowRoot => "below",
                Tenant::Yes => "yes",
            },
            inherits: property.inherits,
            of_snapshots: property.of_snapshots,
            who: who(property),
            since: property.since,
        }
    }
}

/// Returns the callers that may set a property.
fn who(property: &Property) -> String {
    let name = property.name;
    match property.tenant {
        _ if property.settable == Settable::Never => "-".into(),
        Tenant::No => format!("root, delegates with '{name}'"),
        Tenant::BelowRoot => format!("root, delegates with '{name}', tenants below their root"),
        Tenant::Yes => format!("root, delegates with '{name}', tenants"),
    }
}
