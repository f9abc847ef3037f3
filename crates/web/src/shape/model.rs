//! What a shape is made of.

/// What JSON a type takes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Shape {
    /// It was not traced yet.
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
    Optional(Box<Shape>),
    /// As many as there are.
    List(Box<Shape>),
    /// Members with any names.
    Map(Box<Shape>),
    /// One of each.
    Tuple(Vec<Shape>),
    /// Members with these names.
    Object(Vec<Field>),
    /// One of these.
    Choice(Vec<Variant>),
}

/// A member of an object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
    /// Whether it can be left out, once that is known.
    pub(crate) is_optional: Option<bool>,
    /// Whether it is left out of what is read now, to find that out.
    pub(super) is_left_out: bool,
}

/// A variant of an enum: the text of its name, or if it has contents an object with the name as its only member.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Variant {
    pub(crate) name: &'static str,
    pub(crate) content: Content,
}

/// The contents of a variant.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Content {
    /// They were not traced yet.
    Unknown,
    None,
    Some(Shape),
}

impl Shape {
    /// The variant of a choice.
    pub(crate) fn variant(&self, name: &str) -> Option<&Variant> {
        match self {
            Shape::Choice(variants) => variants.iter().find(|variant| variant.name == name),
            _ => None,
        }
    }
}
