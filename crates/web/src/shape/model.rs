//! The parts of a shape.

/// The JSON that a type is read from.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum JsonShape {
    /// A shape that was not traced yet.
    #[default]
    Unknown,
    /// Anything.
    Any,
    Null,
    Bool,
    Integer,
    Number,
    Text,
    /// Null, or this.
    Optional(Box<JsonShape>),
    /// A list of any length.
    List(Box<JsonShape>),
    /// Members with any names.
    Map(Box<JsonShape>),
    /// A list with one element of each shape.
    Tuple(Vec<JsonShape>),
    /// Members with these names.
    Object(Vec<ShapeField>),
    /// A value of one of these variants.
    Choice(Vec<Variant>),
}

/// A member of an object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ShapeField {
    pub(crate) name: &'static str,
    pub(crate) shape: JsonShape,
    /// True if the field may be left out; none before that is traced.
    pub(crate) is_optional: Option<bool>,
    /// True if the present run leaves the field out, to learn whether that is allowed.
    pub(super) is_left_out: bool,
}

/// A variant of an enum: the text of its name, or if it has contents an object with the name as its only member.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Variant {
    pub(crate) name: &'static str,
    pub(crate) content: ShapeContent,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ShapeContent {
    /// Contents that were not traced yet.
    Unknown,
    None,
    Some(JsonShape),
}

impl JsonShape {
    /// The variant of a choice.
    pub(crate) fn variant(&self, name: &str) -> Option<&Variant> {
        match self {
            JsonShape::Choice(variants) => variants.iter().find(|variant| variant.name == name),
            _ => None,
        }
    }
}
