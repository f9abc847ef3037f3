//! The JSON of a type: its fields, its variants, and the fields that may be left out.
//!
//! It is found out by having the type read from a tracer, which notes what the type asks for. So there is one
//! definition of a request, its Rust type: the OpenAPI document follows from it.

mod model;
mod schema;
mod trace;

pub(crate) use model::{JsonShape, ShapeContent, ShapeField, Variant};
pub(crate) use schema::schema;
pub(crate) use trace::shape_of;
