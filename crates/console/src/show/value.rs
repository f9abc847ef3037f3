//! Values of properties, for people and for scripts.

use protocol::api::{PropertyValue, ValueSource};

use super::{size, time};

/// A value, readable or exact. What does not apply is `-`.
pub fn show(value: &PropertyValue, exact: bool) -> String {
    match value {
        PropertyValue::None => "-".into(),
        PropertyValue::Text(text) => text.clone(),
        PropertyValue::Bytes(bytes) => size::show(*bytes, exact),
        PropertyValue::Number(number) => number.to_string(),
        PropertyValue::Ratio(hundredths) => match exact {
            true => ratio(*hundredths),
            false => ratio(*hundredths) + "x",
        },
        PropertyValue::Percent(hundredths) => match exact {
            true => hundredths.to_string(),
            false => format!("{hundredths}%"),
        },
        PropertyValue::Time(seconds) => match exact {
            true => seconds.to_string(),
            false => time::minute(*seconds),
        },
    }
}

/// `1.53`, from hundredths.
fn ratio(hundredths: u64) -> String {
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

/// The source of a value, as the last column of `get`.
pub fn source(source: &ValueSource) -> String {
    match source {
        ValueSource::None => "-".into(),
        ValueSource::Default => "default".into(),
        ValueSource::Local => "local".into(),
        ValueSource::Inherited(from) => format!("inherited from {from}"),
        ValueSource::Temporary => "temporary".into(),
        ValueSource::Proposed => "proposed".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        for (value, human, exact) in [
            (PropertyValue::None, "-", "-"),
            (PropertyValue::Text("zstd-3".into()), "zstd-3", "zstd-3"),
            (PropertyValue::Bytes(1536), "1.50K", "1536"),
            (PropertyValue::Number(1_000_000), "1000000", "1000000"),
            (PropertyValue::Ratio(153), "1.53x", "1.53"),
            (PropertyValue::Ratio(100), "1.00x", "1.00"),
            (PropertyValue::Percent(12), "12%", "12"),
        ] {
            assert_eq!(show(&value, false), human);
            assert_eq!(show(&value, true), exact);
        }
        assert_eq!(
            show(&PropertyValue::Time(1_795_206_665), true),
            "1795206665"
        );
    }

    #[test]
    fn sources() {
        assert_eq!(source(&ValueSource::None), "-");
        let inherited = ValueSource::Inherited("tank".into());
        assert_eq!(source(&inherited), "inherited from tank");
    }
}
