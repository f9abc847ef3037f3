//! Formats output: sizes, times, tables, JSON.

pub(crate) mod json;
pub(crate) mod page;
pub(crate) mod properties;
pub(crate) mod size;
pub(crate) mod table;
pub(crate) mod text;
pub(crate) mod time;
pub(crate) mod value;
