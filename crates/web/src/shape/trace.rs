//! Traces what a type asks of its deserializer.
//!
//! One run sees one variant of each enum, and leaves out one field at most, to see whether that is an error. So a type is
//! read again and again until nothing is unknown.

use std::fmt;

use serde::Deserialize;
use serde::de::value::BorrowedStrDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, MapAccess, SeqAccess, VariantAccess, Visitor,
};

use super::model::{JsonShape, ShapeContent, ShapeField, Variant};

/// More runs than any type needs.
const RUNS_MAX: usize = 100_000;

/// The shape of a type.
pub(crate) fn shape_of<'de, T: Deserialize<'de>>() -> JsonShape {
    let mut shape = JsonShape::Unknown;
    for _ in 0..RUNS_MAX {
        if shape.is_known() {
            break;
        }
        let mut probe = Probe::default();
        let result = T::deserialize(Tracer {
            shape: &mut shape,
            probe: &mut probe,
        });
        if probe.is_used {
            shape.settle(result.is_ok());
        }
    }
    shape
}

/// A run that leaves out at most one field.
#[derive(Default)]
struct Probe {
    is_used: bool,
}

impl JsonShape {
    fn is_known(&self) -> bool {
        match self {
            JsonShape::Unknown => false,
            JsonShape::Any | JsonShape::Null | JsonShape::Bool => true,
            JsonShape::Integer | JsonShape::Number | JsonShape::Text => true,
            JsonShape::Optional(inner) | JsonShape::List(inner) | JsonShape::Map(inner) => {
                inner.is_known()
            }
            JsonShape::Tuple(all) => all.iter().all(JsonShape::is_known),
            JsonShape::Object(fields) => {
                let known =
                    |field: &ShapeField| field.is_optional.is_some() && field.shape.is_known();
                fields.iter().all(known)
            }
            JsonShape::Choice(variants) => variants.iter().all(Variant::is_known),
        }
    }

    /// Notes whether the field that was left out may be.
    fn settle(&mut self, is_optional: bool) {
        match self {
            JsonShape::Optional(inner) | JsonShape::List(inner) | JsonShape::Map(inner) => {
                inner.settle(is_optional);
            }
            JsonShape::Tuple(all) => all.iter_mut().for_each(|one| one.settle(is_optional)),
            JsonShape::Object(fields) => {
                for field in fields {
                    if std::mem::take(&mut field.is_left_out) {
                        field.is_optional = Some(is_optional);
                    }
                    field.shape.settle(is_optional);
                }
            }
            JsonShape::Choice(variants) => {
                for variant in variants {
                    if let ShapeContent::Some(shape) = &mut variant.content {
                        shape.settle(is_optional);
                    }
                }
            }
            _ => {}
        }
    }
}

impl Variant {
    fn is_known(&self) -> bool {
        match &self.content {
            ShapeContent::Unknown => false,
            ShapeContent::None => true,
            ShapeContent::Some(shape) => shape.is_known(),
        }
    }
}

/// The error of a type that cannot be traced. Only that there is an error matters.
#[derive(Debug)]
struct Untraceable;

impl fmt::Display for Untraceable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the type cannot be traced")
    }
}

impl std::error::Error for Untraceable {}

impl serde::de::Error for Untraceable {
    fn custom<T: fmt::Display>(_: T) -> Untraceable {
        Untraceable
    }
}

type TraceResult<T> = Result<T, Untraceable>;

/// A deserializer that notes in `shape` what it is asked for.
struct Tracer<'a> {
    shape: &'a mut JsonShape,
    probe: &'a mut Probe,
}

impl Tracer<'_> {
    /// Notes a shape without parts.
    fn is(&mut self, shape: JsonShape) {
        *self.shape = shape;
    }
}

macro_rules! simple {
    ($($method:ident => $shape:ident, $visit:ident($($value:expr)?);)*) => {
        $(fn $method<V: Visitor<'de>>(mut self, visitor: V) -> TraceResult<V::Value> {
            self.is(JsonShape::$shape);
            visitor.$visit($($value)?)
        })*
    };
}

impl<'de> Deserializer<'de> for Tracer<'_> {
    type Error = Untraceable;

    simple! {
        deserialize_any => Any, visit_unit();
        deserialize_ignored_any => Any, visit_unit();
        deserialize_bool => Bool, visit_bool(false);
        deserialize_i8 => Integer, visit_u64(0);
        deserialize_i16 => Integer, visit_u64(0);
        deserialize_i32 => Integer, visit_u64(0);
        deserialize_i64 => Integer, visit_u64(0);
        deserialize_u8 => Integer, visit_u64(0);
        deserialize_u16 => Integer, visit_u64(0);
        deserialize_u32 => Integer, visit_u64(0);
        deserialize_u64 => Integer, visit_u64(0);
        deserialize_f32 => Number, visit_f64(0.0);
        deserialize_f64 => Number, visit_f64(0.0);
        deserialize_char => Text, visit_char(' ');
        deserialize_str => Text, visit_borrowed_str("");
        deserialize_string => Text, visit_borrowed_str("");
        deserialize_bytes => Text, visit_borrowed_str("");
        deserialize_byte_buf => Text, visit_borrowed_str("");
        deserialize_identifier => Text, visit_borrowed_str("");
        deserialize_unit => Null, visit_unit();
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> TraceResult<V::Value> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> TraceResult<V::Value> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> TraceResult<V::Value> {
        if !matches!(self.shape, JsonShape::Optional(_)) {
            *self.shape = JsonShape::Optional(Box::default());
        }
        match self.shape {
            JsonShape::Optional(shape) => visitor.visit_some(Tracer { shape, ..self }),
            _ => Err(Untraceable),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> TraceResult<V::Value> {
        if !matches!(self.shape, JsonShape::List(_)) {
            *self.shape = JsonShape::List(Box::default());
        }
        match self.shape {
            JsonShape::List(shape) => visitor.visit_seq(ShapeSequence {
                shapes: std::slice::from_mut(&mut **shape),
                probe: self.probe,
            }),
            _ => Err(Untraceable),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, len: usize, visitor: V) -> TraceResult<V::Value> {
        if !matches!(self.shape, JsonShape::Tuple(_)) {
            *self.shape = JsonShape::Tuple(vec![JsonShape::Unknown; len]);
        }
        match self.shape {
            JsonShape::Tuple(shapes) => visitor.visit_seq(ShapeSequence {
                shapes,
                probe: self.probe,
            }),
            _ => Err(Untraceable),
        }
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        len: usize,
        visitor: V,
    ) -> TraceResult<V::Value> {
        self.deserialize_tuple(len, visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> TraceResult<V::Value> {
        if !matches!(self.shape, JsonShape::Map(_)) {
            *self.shape = JsonShape::Map(Box::default());
        }
        match self.shape {
            JsonShape::Map(shape) => visitor.visit_map(ShapeMembers {
                left: vec![("", &mut **shape)],
                next: None,
                probe: self.probe,
            }),
            _ => Err(Untraceable),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> TraceResult<V::Value> {
        if !matches!(self.shape, JsonShape::Object(_)) {
            let field = |name: &&'static str| ShapeField {
                name,
                shape: JsonShape::Unknown,
                is_optional: None,
                is_left_out: false,
            };
            *self.shape = JsonShape::Object(names.iter().map(field).collect());
        }
        let JsonShape::Object(fields) = self.shape else {
            return Err(Untraceable);
        };
        if !self.probe.is_used && fields.iter().all(|field| field.shape.is_known()) {
            let mut open = fields
                .iter_mut()
                .filter(|field| field.is_optional.is_none());
            if let Some(field) = open.next() {
                field.is_left_out = true;
                self.probe.is_used = true;
            }
        }
        let there = fields.iter_mut().filter(|field| !field.is_left_out);
        let mut left: Vec<_> = there.map(|field| (field.name, &mut field.shape)).collect();
        left.reverse();
        visitor.visit_map(ShapeMembers {
            left,
            next: None,
            probe: self.probe,
        })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> TraceResult<V::Value> {
        if !matches!(self.shape, JsonShape::Choice(_)) {
            let variant = |name: &&'static str| Variant {
                name,
                content: ShapeContent::Unknown,
            };
            *self.shape = JsonShape::Choice(names.iter().map(variant).collect());
        }
        let JsonShape::Choice(variants) = self.shape else {
            return Err(Untraceable);
        };
        let at = variants.iter().position(|variant| !variant.is_known());
        let variant = variants.get_mut(at.unwrap_or(0)).ok_or(Untraceable)?;
        visitor.visit_enum(One {
            variant,
            probe: self.probe,
        })
    }
}

/// A sequence with one element for each shape.
struct ShapeSequence<'a> {
    shapes: &'a mut [JsonShape],
    probe: &'a mut Probe,
}

impl<'de> SeqAccess<'de> for ShapeSequence<'_> {
    type Error = Untraceable;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> TraceResult<Option<T::Value>> {
        let Some((shape, rest)) = std::mem::take(&mut self.shapes).split_first_mut() else {
            return Ok(None);
        };
        self.shapes = rest;
        let probe = &mut *self.probe;
        seed.deserialize(Tracer { shape, probe }).map(Some)
    }
}

/// The members of an object, the first last.
struct ShapeMembers<'a> {
    left: Vec<(&'static str, &'a mut JsonShape)>,
    next: Option<&'a mut JsonShape>,
    probe: &'a mut Probe,
}

impl<'de> MapAccess<'de> for ShapeMembers<'_> {
    type Error = Untraceable;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> TraceResult<Option<K::Value>> {
        let Some((name, shape)) = self.left.pop() else {
            return Ok(None);
        };
        self.next = Some(shape);
        seed.deserialize(BorrowedStrDeserializer::new(name))
            .map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> TraceResult<V::Value> {
        let shape = self.next.take().ok_or(Untraceable)?;
        let probe = &mut *self.probe;
        seed.deserialize(Tracer { shape, probe })
    }
}

/// A variant of an enum.
struct One<'a> {
    variant: &'a mut Variant,
    probe: &'a mut Probe,
}

impl<'a> One<'a> {
    fn content(self) -> TraceResult<Tracer<'a>> {
        if !matches!(self.variant.content, ShapeContent::Some(_)) {
            self.variant.content = ShapeContent::Some(JsonShape::Unknown);
        }
        match &mut self.variant.content {
            ShapeContent::Some(shape) => Ok(Tracer {
                shape,
                probe: self.probe,
            }),
            ShapeContent::Unknown | ShapeContent::None => Err(Untraceable),
        }
    }
}

impl<'de, 'a> EnumAccess<'de> for One<'a> {
    type Error = Untraceable;
    type Variant = One<'a>;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> TraceResult<(V::Value, One<'a>)> {
        let name = BorrowedStrDeserializer::<Untraceable>::new(self.variant.name);
        Ok((seed.deserialize(name)?, self))
    }
}

impl<'de> VariantAccess<'de> for One<'_> {
    type Error = Untraceable;

    fn unit_variant(self) -> TraceResult<()> {
        self.variant.content = ShapeContent::None;
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> TraceResult<T::Value> {
        seed.deserialize(self.content()?)
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> TraceResult<V::Value> {
        self.content()?.deserialize_tuple(len, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        names: &'static [&'static str],
        visitor: V,
    ) -> TraceResult<V::Value> {
        self.content()?.deserialize_struct("", names, visitor)
    }
}
