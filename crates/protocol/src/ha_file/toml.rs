//! Reads `ha.toml`.

use toml_edit::{Document, Item, Value as TomlValue};

use super::items::{self, Items, NounRefusal, NounValue};

pub(super) fn read(text: &str) -> Result<Items, NounRefusal> {
    let line = |span: Option<std::ops::Range<usize>>| {
        let before = span.and_then(|span| text.get(..span.start));
        before.map_or(0, |before| before.matches('\n').count() + 1)
    };
    let document = Document::parse(text).map_err(|error| {
        let what = error.message().trim().replace('\n', "; ");
        NounRefusal::new(line(error.span()), "the file", what)
    })?;
    let table = document.as_table();
    let mut items = Items::new();
    for (noun, item) in table {
        let at = line(table.key(noun).and_then(toml_edit::Key::span));
        let no_value = "it is a text, a list of texts, true or false";
        let value = match item {
            Item::Value(TomlValue::String(text)) => NounValue::Word(text.value().clone()),
            Item::Value(TomlValue::Boolean(flag)) => NounValue::Flag(*flag.value()),
            Item::Value(TomlValue::Array(array)) => {
                let word = |value: &TomlValue| {
                    let text = value.as_str().map(Into::into);
                    let at = line(value.span());
                    let refused = || NounRefusal::new(at, noun, "the list is of texts, in quotes");
                    Ok((at, text.ok_or_else(refused)?))
                };
                NounValue::List(array.iter().map(word).collect::<Result<_, _>>()?)
            }
            _ => return Err(NounRefusal::new(at, noun, no_value)),
        };
        items::add(&mut items, noun, at, value)?;
    }
    Ok(items)
}
