//! The JSON that commands print with `--json`, and that the HTTP API returns.
//!
//! It is what the daemon answers, but for two things: guids are strings, and datasets have their properties by name.

use serde::Serialize;
use serde_json::{Map, Value as Json, json};

use crate::api::{DatasetRow, PropertyRow, PropertyValue, Reply, ValueSource};

/// Returns an answer of the daemon as JSON, with guids as text.
pub fn value<T: Serialize>(what: &T) -> Json {
    // None of the types of the API can fail: their keys are strings.
    let mut json = serde_json::to_value(what).unwrap_or_default();
    guids_as_strings(&mut json);
    json
}

/// Returns the kind of a reply, and its value; null if it has none.
pub fn reply(reply: &Reply) -> (String, Json) {
    if let Reply::Datasets(rows) = reply {
        return ("datasets".into(), datasets(rows));
    }
    match value(reply) {
        Json::String(kind) => (kind, Json::Null),
        Json::Object(one) => one.into_iter().next().unwrap_or_default(),
        _ => Default::default(),
    }
}

/// A guid has 64 bits, and many readers of JSON keep 53 of a number.
fn guids_as_strings(json: &mut Json) {
    match json {
        Json::Array(items) => items.iter_mut().for_each(guids_as_strings),
        Json::Object(members) => {
            for (name, member) in members {
                match member {
                    Json::Number(number) if name.ends_with("guid") => {
                        *member = number.to_string().into()
                    }
                    _ => guids_as_strings(member),
                }
            }
        }
        _ => {}
    }
}

/// Datasets with their properties, as `list --json` prints them.
pub fn datasets<'a>(rows: impl IntoIterator<Item = &'a DatasetRow>) -> Json {
    let dataset = |row: &DatasetRow| {
        let members = row.props.iter().map(|p| (p.property.clone(), property(p)));
        json!({
            "name": row.name,
            "type": row.kind,
            "properties": members.collect::<Map<_, _>>(),
        })
    };
    rows.into_iter().map(dataset).collect()
}

fn property(row: &PropertyRow) -> Json {
    let value = match &row.value {
        PropertyValue::None => Json::Null,
        PropertyValue::Text(text) => text.as_str().into(),
        PropertyValue::Number(number) if row.property == "guid" => number.to_string().into(),
        PropertyValue::Bytes(number) | PropertyValue::Number(number) => (*number).into(),
        PropertyValue::Percent(number) | PropertyValue::Time(number) => (*number).into(),
        PropertyValue::Ratio(hundredths) => (*hundredths as f64 / 100.0).into(),
    };
    match &row.source {
        ValueSource::None => json!({"value": value, "source": "none"}),
        ValueSource::Default => json!({"value": value, "source": "default"}),
        ValueSource::Local => json!({"value": value, "source": "local"}),
        ValueSource::Temporary => json!({"value": value, "source": "temporary"}),
        ValueSource::Proposed => json!({"value": value, "source": "proposed"}),
        ValueSource::Inherited(from) => {
            json!({"value": value, "source": "inherited", "from": from})
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datasets_with_exact_values_and_sources() {
        let prop = |property: &str, value, source| PropertyRow {
            property: property.into(),
            value,
            source,
        };
        let row = DatasetRow {
            name: "tank/home".into(),
            kind: "filesystem".into(),
            props: vec![
                prop("used", PropertyValue::Bytes(1536), ValueSource::None),
                prop(
                    "compressratio",
                    PropertyValue::Ratio(153),
                    ValueSource::None,
                ),
                prop("guid", PropertyValue::Number(u64::MAX), ValueSource::None),
                prop("quota", PropertyValue::None, ValueSource::Default),
                prop(
                    "atime",
                    PropertyValue::Text("on".into()),
                    ValueSource::Inherited("tank".into()),
                ),
            ],
        };
        assert_eq!(
            datasets([&row]),
            json!([{
                "name": "tank/home",
                "type": "filesystem",
                "properties": {
                    "used": {"value": 1536, "source": "none"},
                    "compressratio": {"value": 1.53, "source": "none"},
                    "guid": {"value": "18446744073709551615", "source": "none"},
                    "quota": {"value": null, "source": "default"},
                    "atime": {"value": "on", "source": "inherited", "from": "tank"},
                },
            }])
        );
    }

    #[test]
    fn guids_are_strings_at_any_depth() {
        let mut json = json!([{"guid": 1u64 << 63, "devices": [{"guid": 7, "size": 8}]}]);
        guids_as_strings(&mut json);
        let expected =
            json!([{"guid": "9223372036854775808", "devices": [{"guid": "7", "size": 8}]}]);
        assert_eq!(json, expected);
    }

    #[test]
    fn a_reply_has_a_kind_and_a_value() {
        assert_eq!(reply(&Reply::Nothing), ("nothing".into(), Json::Null));
        let names = Reply::Names(vec!["tank/a".into()]);
        assert_eq!(reply(&names), ("names".into(), json!(["tank/a"])));
        assert_eq!(
            reply(&Reply::Datasets(Vec::new())),
            ("datasets".into(), json!([]))
        );
    }
}
