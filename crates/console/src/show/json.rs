//! JSON for programs. What is printed here is an interface: it is described in the help texts and
//! held by tests.

use protocol::api::DatasetRow;
use serde::Serialize;

/// Shows an answer of the daemon as it is, but for guids.
pub fn show<T: Serialize>(what: &T) -> String {
    text(&protocol::json::value(what))
}

/// Datasets with their properties.
pub fn datasets<'a>(rows: impl IntoIterator<Item = &'a DatasetRow>) -> String {
    text(&protocol::json::datasets(rows))
}

fn text(json: &serde_json::Value) -> String {
    format!("{json:#}\n")
}
