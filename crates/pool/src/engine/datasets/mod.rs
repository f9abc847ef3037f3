//! The datasets of a pool: the dataset table, open datasets with their records, and the keys.

pub(crate) mod facts;
pub(crate) mod keyarea;
pub(crate) mod open_dataset;
mod openings;
pub(crate) mod place;
pub(crate) mod placed_record;
pub(crate) mod reseal;
pub(crate) mod stored_space;
pub(crate) mod table;
