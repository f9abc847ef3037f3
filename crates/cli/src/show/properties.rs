//! Properties by short names, and their columns.

use protocol::property::{PROPERTIES, Property, Settable};

use super::table::Column;

/// The whole name of a property that may be given by a short one.
pub(crate) fn canonical(name: &str) -> &str {
    Property::find(name).map_or(name, |property| property.name)
}

/// The column of a property. One that a user made up has its name in capitals above it.
pub(crate) fn column(name: &str) -> Column {
    match Property::find(name) {
        Some(property) if property.is_number => Column::right(property.title()),
        Some(property) => Column::left(property.title()),
        None => Column::left(name.to_uppercase()),
    }
}

/// The lines of a help page that say what each property is.
pub(crate) fn explained() -> String {
    rows(
        PROPERTIES
            .iter()
            .map(|property| (property, property.help.into())),
    )
}

/// The lines of a help page that say what each property can be set to.
pub(crate) fn values() -> String {
    let settable = PROPERTIES
        .iter()
        .filter(|property| property.settable == Settable::Always);
    rows(settable.map(|property| (property, property.values.describe())))
}

fn rows<'a>(rows: impl Iterator<Item = (&'a Property, String)>) -> String {
    let lines = rows.map(|(property, text)| format!("  {:<21} {text}", property.name));
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_columns() {
        assert_eq!(canonical("refer"), "referenced");
        assert_eq!(canonical("used"), "used");
        assert_eq!(canonical("org:note"), "org:note");
        assert_eq!(canonical(""), "");
        assert_eq!(column("referenced"), Column::right("REFER"));
        assert_eq!(column("mountpoint"), Column::left("MOUNTPOINT"));
    }
}
