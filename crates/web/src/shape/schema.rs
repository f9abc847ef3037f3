//! A shape as JSON Schema.

use serde_json::{Map, Value as Json, json};

use super::model::{JsonShape, ShapeContent, ShapeField, Variant};

/// The schema of a request, or of a reply: there guids are text.
pub(crate) fn schema(shape: &JsonShape, is_reply: bool) -> Json {
    let inner = |shape: &JsonShape| schema(shape, is_reply);
    match shape {
        JsonShape::Unknown | JsonShape::Any => json!({}),
        JsonShape::Null => json!({"type": "null"}),
        JsonShape::Bool => json!({"type": "boolean"}),
        JsonShape::Integer => json!({"type": "integer"}),
        JsonShape::Number => json!({"type": "number"}),
        JsonShape::Text => json!({"type": "string"}),
        JsonShape::Optional(one) => json!({"anyOf": [inner(one), {"type": "null"}]}),
        JsonShape::List(one) => json!({"type": "array", "items": inner(one)}),
        JsonShape::Map(one) => json!({"type": "object", "additionalProperties": inner(one)}),
        JsonShape::Tuple(all) => {
            let items: Vec<Json> = all.iter().map(inner).collect();
            json!({"type": "array", "prefixItems": items, "minItems": all.len(), "maxItems": all.len()})
        }
        JsonShape::Object(fields) => object(fields, is_reply),
        JsonShape::Choice(variants) => choice(variants, is_reply),
    }
}

fn object(fields: &[ShapeField], is_reply: bool) -> Json {
    let member = |field: &ShapeField| {
        let is_text = is_reply && field.name.ends_with("guid") && field.shape == JsonShape::Integer;
        let schema = match is_text {
            true => json!({"type": "string"}),
            false => schema(&field.shape, is_reply),
        };
        (field.name.to_owned(), schema)
    };
    let members: Map<String, Json> = fields.iter().map(member).collect();
    // A reply has all that it can have.
    let needed = fields
        .iter()
        .filter(|field| field.is_optional != Some(true))
        .filter(|field| is_reply || field.shape != JsonShape::Bool);
    let required: Vec<&str> = needed.map(|field| field.name).collect();
    let mut schema = json!({"type": "object", "properties": members});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    if !is_reply {
        schema["additionalProperties"] = false.into();
    }
    schema
}

fn choice(variants: &[Variant], is_reply: bool) -> Json {
    let is_word = |variant: &&Variant| !matches!(variant.content, ShapeContent::Some(_));
    let words: Vec<&str> = variants
        .iter()
        .filter(is_word)
        .map(|variant| variant.name)
        .collect();
    let mut all: Vec<Json> = Vec::new();
    if !words.is_empty() {
        all.push(json!({"enum": words}));
    }
    all.extend(
        variants
            .iter()
            .filter_map(|variant| match &variant.content {
                ShapeContent::Some(shape) => Some(json!({
                    "type": "object",
                    "properties": {variant.name: schema(shape, is_reply)},
                    "required": [variant.name],
                    "additionalProperties": false,
                })),
                ShapeContent::Unknown | ShapeContent::None => None,
            }),
    );
    match all.len() {
        1 => all.remove(0),
        _ => json!({"oneOf": all}),
    }
}

#[cfg(test)]
mod tests {
    use protocol::api::{Command, Reply};

    use super::super::trace::shape_of;
    use super::*;

    fn has_unknown(shape: &JsonShape) -> bool {
        format!("{shape:?}").contains("Unknown")
    }

    #[test]
    fn every_request_and_reply_is_known() {
        let (commands, replies) = (shape_of::<Command>(), shape_of::<Reply>());
        assert!(!has_unknown(&commands) && !has_unknown(&replies));
        let of = |name: &str| match &commands.variant(name).unwrap().content {
            ShapeContent::Some(shape) => schema(shape, false),
            other => panic!("{other:?}"),
        };
        let rotate = of("key-rotate");
        assert_eq!(rotate["required"], json!(["name", "how"]));
        assert_eq!(
            rotate["properties"]["how"]["enum"],
            json!(["new", "reencrypt", "pause", "resume"])
        );
        let create = of("create");
        assert_eq!(create["required"], json!(["name", "props"]));
        assert_eq!(create["properties"]["props"]["items"]["maxItems"], 2);
        let Some(ShapeContent::Some(pools)) = replies.variant("pools").map(|v| v.content.clone())
        else {
            panic!()
        };
        let pool = &schema(&pools, true)["items"]["properties"];
        assert_eq!(pool["guid"]["type"], "string");
        assert_eq!(pool["size"]["type"], "integer");
    }
}
