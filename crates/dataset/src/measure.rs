//! The seal pipeline for benchmarks, without files.

use std::sync::Arc;

use crate::buffer::RecordBuffer;
use crate::core::Dataset;
use crate::error::Result;

/// Seals one record again and again, and drops the result.
pub struct SealPipeline {
    dataset: Arc<Dataset>,
    record: RecordBuffer,
}

impl SealPipeline {
    /// A pipeline for records with these contents.
    pub fn new(dataset: &Arc<Dataset>, plain: &[u8]) -> SealPipeline {
        let mut record = RecordBuffer::zeroed(plain.len());
        record.copy_from_slice(plain);
        SealPipeline {
            dataset: Arc::clone(dataset),
            record,
        }
    }

    /// Compresses, seals, checksums, allocates and writes to the device, as a commit does; then frees.
    ///
    /// # Errors
    /// The record cannot be sealed, too little space is free, or a device fails.
    pub fn run(&self) -> Result<()> {
        self.dataset.seal_record(&self.record, 1).map(drop)
    }
}
