//! What was measured.

use serde::{Deserialize, Serialize};

use super::measure::Speed;
use super::tables::Memory;
use crate::crypto::args::BenchTable;

/// All that was measured.
#[derive(Serialize, Deserialize)]
pub(super) struct Report {
    pub(super) hardware: String,
    /// The clock while this ran.
    pub(super) ghz: f64,
    pub(super) openssl: Option<String>,
    pub(super) rows: Vec<Row>,
    pub(super) memory: Option<Memory>,
}

/// One line, in MB/s.
#[derive(Serialize, Deserialize)]
pub(super) struct Row {
    pub(super) table: BenchTable,
    pub(super) name: String,
    pub(super) size: usize,
    pub(super) generic: Option<Speed>,
    pub(super) portable: Option<Speed>,
    pub(super) fast: Option<Speed>,
    pub(super) openssl: Option<Speed>,
    /// What one AES instruction a cycle would do.
    pub(super) limit: Option<f64>,
}
