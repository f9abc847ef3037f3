//! Properties by short names, and their columns.

use protocol::property::{PROPERTIES, Property, PropertyFacts, Settable};

use super::table::Column;

/// The whole name of a property that may be given by a short one.
pub fn canonical(name: &str) -> &str {
    Property::find(name).map_or(name, |property| property.name)
}

/// The column of a property. One that a user made up has its name in capitals above it.
pub fn column(name: &str) -> Column {
    match Property::find(name) {
        Some(property) if property.is_number => Column::right(property.title()),
        Some(property) => Column::left(property.title()),
        None => Column::left(name.to_uppercase()),
    }
}

/// The lines of a help page that say what each property is.
pub fn explained() -> String {
    rows(
        PROPERTIES
            .iter()
            .map(|property| (property, property.help.into())),
    )
}

/// The lines of a help page that say what each property can be set to.
pub fn values() -> String {
    let settable = PROPERTIES
        .iter()
        .filter(|property| property.settable == Settable::Always);
    rows(settable.map(|property| (property, property.values.describe())))
}

fn rows<'a>(rows: impl Iterator<Item = (&'a Property, String)>) -> String {
    let lines = rows.map(|(property, text)| format!("  {:<21} {text}", property.name));
    lines.collect::<Vec<_>>().join("\n")
}

/// The reference of all properties, for a page.
pub fn reference() -> String {
    let pages = PROPERTIES.iter().map(page);
    pages.collect::<Vec<_>>().join("\n\n")
}

/// The reference of one property, in lines.
pub fn page(property: &Property) -> String {
    let known = PropertyFacts::of(property);
    let mut page = match known.short == known.name {
        true => format!("  {}", known.name),
        false => format!("  {} (short: {})", known.name, known.short),
    };
    let mut line = |title: &str, text: &str| page += &wrapped(title, text);
    line("", known.help);
    let snapshots = if known.of_snapshots {
        ", snapshots"
    } else {
        ""
    };
    line("Of: ", &format!("{}{snapshots}", known.has));
    match known.set {
        "never" => line("Set: ", "never; it is counted or fixed"),
        "volume" => line("Set: ", "by `create -V`, and as the first line says"),
        set => {
            line("Values: ", &known.values);
            line("Default: ", known.default);
            line("Inherited: ", if known.inherits { "yes" } else { "no" });
            let when = match set {
                "creation" => "when the dataset is created",
                "key" => "when the dataset is created, and by `key change`",
                _ => "at any time",
            };
            line("Set: ", when);
            line("By: ", &known.who);
        }
    }
    line("Since: ", known.since);
    page
}

/// A title and a text, in lines of a page.
fn wrapped(title: &str, text: &str) -> String {
    const WIDTH: usize = 96;
    let mut lines = format!("\n      {title}");
    let mut width = 6 + title.len();
    for (at, word) in text.split(' ').enumerate() {
        if at > 0 && width + 1 + word.len() > WIDTH {
            lines += "\n          ";
            width = 10;
        } else if at > 0 {
            lines.push(' ');
            width += 1;
        }
        lines += word;
        width += word.len();
    }
    lines
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
