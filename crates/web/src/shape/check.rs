//! Compares the body of a request with the shape of its type.

use serde_json::{Map, Value as Json};

use super::model::{Content, Field, Shape};

/// Refuses members that the type does not know: a misspelled `dry_run` would be ignored. Booleans that are left out
/// become false. Everything else is checked as the type is read.
pub(crate) fn complete(shape: &Shape, value: &mut Json) -> Result<(), String> {
    match (shape, value) {
        (Shape::Object(fields), Json::Object(members)) => complete_object(fields, members),
        (Shape::Optional(inner), value) if !value.is_null() => complete(inner, value),
        (Shape::List(inner), Json::Array(all)) => {
            all.iter_mut().try_for_each(|one| complete(inner, one))
        }
        (Shape::Tuple(shapes), Json::Array(all)) => {
            let mut pairs = shapes.iter().zip(all);
            pairs.try_for_each(|(shape, one)| complete(shape, one))
        }
        (Shape::Map(inner), Json::Object(members)) => {
            let mut values = members.values_mut();
            values.try_for_each(|one| complete(inner, one))
        }
        (Shape::Choice(_), Json::Object(members)) => {
            let mut members = members.iter_mut();
            members.try_for_each(|(name, value)| {
                match shape.variant(name).map(|variant| &variant.content) {
                    Some(Content::Some(inner)) => complete(inner, value),
                    _ => Ok(()),
                }
            })
        }
        _ => Ok(()),
    }
}

fn complete_object(fields: &[Field], members: &mut Map<String, Json>) -> Result<(), String> {
    let is_known = |name: &&String| fields.iter().any(|field| field.name == **name);
    if let Some(unknown) = members.keys().find(|name| !is_known(name)) {
        let names: Vec<&str> = fields.iter().map(|field| field.name).collect();
        return Err(match names.is_empty() {
            true => format!("there is no field '{unknown}'"),
            false => format!(
                "there is no field '{unknown}'; there are: {}",
                names.join(", ")
            ),
        });
    }
    for field in fields {
        match members.get_mut(field.name) {
            Some(value) => complete(&field.shape, value)?,
            None if field.shape == Shape::Bool && field.is_optional != Some(true) => {
                members.insert(field.name.into(), false.into());
            }
            None => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use protocol::api::Command;
    use serde_json::json;

    use super::super::trace::shape_of;
    use super::*;

    fn completed(mut body: Json) -> Result<Command, String> {
        complete(&shape_of::<Command>(), &mut body)?;
        serde_json::from_value(body).map_err(|error| error.to_string())
    }

    #[test]
    fn booleans_can_be_left_out_and_nothing_can_be_misspelled() {
        let body = json!({"destroy": {"name": "tank/a", "dry_run": true}});
        let Ok(Command::Destroy(destroy)) = completed(body) else {
            panic!()
        };
        assert!(destroy.dry_run && !destroy.recursive);
        let wrong = completed(json!({"destroy": {"name": "tank/a", "dryrun": true}}));
        assert!(wrong.unwrap_err().contains("no field 'dryrun'"));
        let attach = json!({"attach": {"device": "a", "new": "b"}});
        let body = json!({"pool-devices": {"pool": "tank", "change": attach}});
        assert!(completed(body).is_ok());
        let attach = json!({"attach": {"device": "a", "new": "b", "forced": true}});
        let body = json!({"pool-devices": {"pool": "tank", "change": attach}});
        assert!(completed(body).unwrap_err().contains("'forced'"));
        let missing = completed(json!({"destroy": {}}));
        assert!(missing.unwrap_err().contains("`name`"));
    }
}
