//! The plaintext side of a pool: files and directories on two arrays of sealed records, and volumes on one.

mod diff;
mod engine;
mod error;
mod files;
mod fs;
#[cfg(fuzzing)]
pub mod fuzzing;
mod header;
mod io;
mod layout;
mod log;
mod measure;
mod mounted;
mod owners;
mod quota;
mod reencrypt;
mod room;
mod seal;
mod transfer;
mod tree;
mod volume;

pub use diff::{Change, Difference, diff};
pub use engine::{Clock, Engine, EngineOptions};
pub use error::{Error, Result};
pub use files::{Atime, Files, PrimaryCache, Settings, verify_seal};
pub use fs::Miscount;
pub use log::SyncMode;
#[doc(hidden)]
pub use measure::SealPipeline;
pub use mounted::{Mounted, OpenSnapshot, SNAPSHOT_DIR};
pub use owners::{Account, Owner, Usage};
pub use reencrypt::Reencrypted;
pub use seal::{Compression, NewGeneration, Resealer};
pub use transfer::{RecordOpener, RecordSealer};
pub use volume::Volume;
