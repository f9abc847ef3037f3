//! The results.

use serde::{Deserialize, Serialize};

use super::measure::RunSpeed;
use super::tables::Memory;
use crate::crypto::args::BenchTable;

/// All that was measured.
#[derive(Serialize, Deserialize)]
pub(super) struct CipherReport {
    pub(super) hardware: String,
    /// The clock while this ran.
    pub(super) ghz: f64,
    pub(super) openssl: Option<String>,
    pub(super) rows: Vec<CipherRow>,
    pub(super) memory: Option<Memory>,
}

/// A line of a table, in MB/s.
#[derive(Serialize, Deserialize)]
pub(super) struct CipherRow {
    pub(super) table: BenchTable,
    pub(super) name: String,
    pub(super) size: usize,
    pub(super) generic: Option<RunSpeed>,
    pub(super) portable: Option<RunSpeed>,
    pub(super) fast: Option<RunSpeed>,
    pub(super) openssl: Option<RunSpeed>,
    /// The bound of one AES instruction a cycle.
    pub(super) limit: Option<f64>,
}
