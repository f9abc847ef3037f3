//! What is known here about properties: short names, and how their columns look.
//!
//! Which properties there are, the daemon decides; one that is not in this table has its name in
//! capitals above its column.

use super::table::Column;

/// Name, short name, header of the column, whether that is one of numbers.
type Row = (&'static str, &'static str, &'static str, bool);

const TABLE: &[Row] = &[
    ("available", "avail", "AVAIL", true),
    ("checksum", "", "CHECKSUM", false),
    ("compression", "compress", "COMPRESS", false),
    ("compressratio", "ratio", "RATIO", true),
    ("copies", "", "COPIES", true),
    ("createtxg", "", "CREATETXG", true),
    ("dedupratio", "", "DEDUP", true),
    ("encryption", "enc", "ENCRYPTION", false),
    ("guid", "", "GUID", true),
    ("logicalreferenced", "lrefer", "LREFER", true),
    ("logicalused", "lused", "LUSED", true),
    ("quota", "", "QUOTA", true),
    ("readonly", "rdonly", "RDONLY", false),
    ("recordsize", "recsize", "RECSIZE", true),
    ("refcompressratio", "", "REFRATIO", true),
    ("referenced", "refer", "REFER", true),
    ("refquota", "", "REFQUOTA", true),
    ("refreservation", "refreserv", "REFRESERV", true),
    ("reservation", "reserv", "RESERV", true),
    ("used", "", "USED", true),
    ("usedbychildren", "usedchild", "USEDCHILD", true),
    ("usedbydataset", "usedds", "USEDDS", true),
    (
        "usedbyrefreservation",
        "usedrefreserv",
        "USEDREFRESERV",
        true,
    ),
    ("usedbysnapshots", "usedsnap", "USEDSNAP", true),
    ("volblocksize", "volblock", "VOLBLOCK", true),
    ("volsize", "", "VOLSIZE", true),
    ("written", "", "WRITTEN", true),
];

/// The whole name of a property that may be given by a short one.
pub(crate) fn canonical(name: &str) -> &str {
    let row = TABLE.iter().find(|(_, short, ..)| *short == name);
    match row {
        Some((long, ..)) if !name.is_empty() => long,
        _ => name,
    }
}

/// The column of a property.
pub(crate) fn column(name: &str) -> Column {
    match TABLE.iter().find(|(long, ..)| *long == name) {
        Some((_, _, header, true)) => Column::right(*header),
        Some((_, _, header, false)) => Column::left(*header),
        None => Column::left(name.to_uppercase()),
    }
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

    #[test]
    fn table_is_sorted() {
        assert!(TABLE.is_sorted_by_key(|row| row.0));
    }
}
