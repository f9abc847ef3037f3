//! Finds rows of the table of properties.

use super::row::{Applies, Property, ReceiveTreatment, Settable};
use super::table::PROPERTIES;

/// Returns whether only the first dataset of a pool has a property.
pub fn is_of_pools(name: &str) -> bool {
    of_pools().any(|known| known == name)
}

/// The properties that only the first dataset of a pool has.
pub fn of_pools() -> impl Iterator<Item = &'static str> {
    let rows = PROPERTIES
        .iter()
        .filter(|row| row.applies == Applies::Pools);
    rows.map(|row| row.name)
}

impl Property {
    /// Returns whether a stream brings this setting to another machine.
    pub fn travels(&self) -> bool {
        self.settable != Settable::Never && self.received == ReceiveTreatment::Kept
    }

    /// The property with a name, whole or short.
    pub fn find(name: &str) -> Option<&'static Property> {
        let mut all = PROPERTIES.iter();
        all.find(|property| property.name == name || property.short == name)
    }

    /// Returns the error text for a name that no property has.
    pub fn unknown(name: &str) -> String {
        format!("there is no property '{name}'; 'strongroom properties' lists all properties")
    }

    /// The property with this name, if it can be set.
    pub fn settable(name: &str) -> Option<&'static Property> {
        let named = PROPERTIES.iter().find(|property| property.name == name)?;
        (named.settable != Settable::Never).then_some(named)
    }

    /// Returns whether it is counted or fixed.
    pub fn is_computed(name: &str) -> bool {
        let mut computed = PROPERTIES
            .iter()
            .filter(|property| property.settable == Settable::Never);
        computed.any(|property| property.name == name)
    }

    /// Returns the heading of the column.
    pub fn title(&self) -> String {
        match self.header {
            "" => self.short.to_uppercase(),
            header => header.into(),
        }
    }
}
