//! Jobs that copy datasets: the commands that add, change and list them.

pub(crate) mod commands;
pub(crate) mod lag;
pub(crate) mod list;
