//! Formats output: sizes, times, tables, JSON.

pub mod json;
pub mod page;
pub mod properties;
pub mod size;
pub mod table;
pub mod text;
pub mod time;
pub mod value;
