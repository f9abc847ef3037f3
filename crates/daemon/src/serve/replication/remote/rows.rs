//! The rows that `strongroom --json list` printed on another host.
//!
//! The host may be hostile. So a listing has a limit, and nothing is kept of it except the values that a job needs. A
//! general tree of JSON would need many times the memory of the text.

use std::fmt;

use protocol::api::{DatasetRow, PropertyRow, PropertyValue, ValueSource};
use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

/// The longest listing of the other host, in bytes.
pub(super) const LISTING_MAX: u64 = 16 << 20;

/// A row, as it is printed. Other members are left out.
#[derive(Deserialize)]
struct RemoteRow {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    properties: RemoteProps,
}

#[derive(Deserialize)]
struct RemoteProps {
    guid: Option<RemoteProp>,
    createtxg: Option<RemoteProp>,
    receive_resume_token: Option<RemoteProp>,
    origin: Option<RemoteProp>,
}

#[derive(Deserialize)]
struct RemoteProp {
    #[serde(default = "no_value")]
    value: RemoteValue,
}

/// The value of a property: a text, a number or nothing.
struct RemoteValue(PropertyValue);

fn no_value() -> RemoteValue {
    RemoteValue(PropertyValue::None)
}

struct ValueVisitor;

impl Visitor<'_> for ValueVisitor {
    type Value = RemoteValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, a number or nothing")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<RemoteValue, E> {
        Ok(RemoteValue(PropertyValue::Text(text.to_owned())))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<RemoteValue, E> {
        Ok(RemoteValue(PropertyValue::Number(number)))
    }

    fn visit_unit<E: Error>(self) -> Result<RemoteValue, E> {
        Ok(no_value())
    }
}

impl<'de> Deserialize<'de> for RemoteValue {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<RemoteValue, D::Error> {
        from.deserialize_any(ValueVisitor)
    }
}

impl From<RemoteRow> for DatasetRow {
    fn from(row: RemoteRow) -> DatasetRow {
        let props = row.properties;
        let all = [
            ("guid", props.guid),
            ("createtxg", props.createtxg),
            ("receive_resume_token", props.receive_resume_token),
            ("origin", props.origin),
        ];
        let prop = |(name, prop): (&str, Option<RemoteProp>)| {
            Some(PropertyRow {
                property: name.to_owned(),
                value: prop?.value.0,
                source: ValueSource::None,
            })
        };
        DatasetRow {
            name: row.name,
            kind: row.kind,
            props: all.into_iter().filter_map(prop).collect(),
        }
    }
}

/// The rows of a listing. `None` if it is not understood.
pub(super) fn rows_of(text: &str) -> Option<Vec<DatasetRow>> {
    if text.trim().is_empty() {
        return Some(Vec::new());
    }
    let rows: Vec<RemoteRow> = serde_json::from_str(text).ok()?;
    Some(rows.into_iter().map(DatasetRow::from).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_is_read() {
        let text = r#"[{"name": "b/a@1", "type": "snapshot", "more": [{}], "properties": {
            "guid": {"value": "18446744073709551615", "source": "none"},
            "other": {"value": {"a": [1.5]}},
            "createtxg": {"value": 7, "source": "none"},
            "origin": {"value": null, "source": "none"}}}]"#;
        let rows = rows_of(text).unwrap();
        let values: Vec<(&str, &PropertyValue)> = rows[0]
            .props
            .iter()
            .map(|prop| (prop.property.as_str(), &prop.value))
            .collect();
        let guid = PropertyValue::Text(u64::MAX.to_string());
        assert_eq!(
            values,
            [
                ("guid", &guid),
                ("createtxg", &PropertyValue::Number(7)),
                ("origin", &PropertyValue::None),
            ]
        );
        assert!(rows_of("").unwrap().is_empty());
        for wrong in [
            "{}",
            "[1]",
            "[{}]",
            "Welcome to host",
            // A tree where a value has to be.
            r#"[{"name": "a", "type": "s", "properties": {"guid": {"value": [[], []]}}}]"#,
        ] {
            assert!(rows_of(wrong).is_none(), "{wrong}");
        }
    }
}
