//! Values of properties, for people and for scripts.

use protocol::api::{Source, Value};

use super::{size, time};

/// A value, readable or exact. What does not apply is `-`.
pub fn show(value: &Value, exact: bool) -> String {
    match value {
        Value::None => "-".into(),
        Value::Text(text) => text.clone(),
        Value::Bytes(bytes) => size::show(*bytes, exact),
        Value::Number(number) => number.to_string(),
        Value::Ratio(hundredths) => match exact {
            true => ratio(*hundredths),
            false => ratio(*hundredths) + "x",
        },
        Value::Percent(hundredths) => match exact {
            true => hundredths.to_string(),
            false => format!("{hundredths}%"),
        },
        Value::Time(seconds) => match exact {
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
pub fn source(source: &Source) -> String {
    match source {
        Source::None => "-".into(),
        Source::Default => "default".into(),
        Source::Local => "local".into(),
        Source::Inherited(from) => format!("inherited from {from}"),
        Source::Temporary => "temporary".into(),
        Source::Proposed => "proposed".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        for (value, human, exact) in [
            (Value::None, "-", "-"),
            (Value::Text("zstd-3".into()), "zstd-3", "zstd-3"),
            (Value::Bytes(1536), "1.50K", "1536"),
            (Value::Number(1_000_000), "1000000", "1000000"),
            (Value::Ratio(153), "1.53x", "1.53"),
            (Value::Ratio(100), "1.00x", "1.00"),
            (Value::Percent(12), "12%", "12"),
        ] {
            assert_eq!(show(&value, false), human);
            assert_eq!(show(&value, true), exact);
        }
        assert_eq!(show(&Value::Time(1_795_206_665), true), "1795206665");
    }

    #[test]
    fn sources() {
        assert_eq!(source(&Source::None), "-");
        let inherited = Source::Inherited("tank".into());
        assert_eq!(source(&inherited), "inherited from tank");
    }
}
