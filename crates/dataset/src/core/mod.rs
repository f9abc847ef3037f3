//! An open dataset: its records, and how they change.
//!
//! Layers, lowest first: `settings`, `reencryption`, `sealed_state`, `history`; `admission`'s accounts, `io`'s records, `log`'s journal and writer
//! (data); `engine`; `dataset`; and what it does, in `admission`, `io` and `log`.

pub(crate) mod admission;
pub(crate) mod dataset;
pub(crate) mod engine;
pub(crate) mod history;
pub(crate) mod io;
pub(crate) mod log;
pub(crate) mod reencryption;
pub(crate) mod sealed_state;
pub(crate) mod settings;

pub use dataset::Dataset;
pub(crate) use dataset::{PAGE_SPACE, attr_of};
pub use engine::{Clock, Engine, EngineOptions};
pub use history::ancestry::{Ancestry, SealedState, ancestry};
pub use io::slots::block_counts::WrongBlocks;
pub use log::SyncMode;
pub use reencryption::ReencryptionReport;
pub use sealed_state::{SealChecker, verify_seal};
pub(crate) use sealed_state::{check_seal, read_header, read_record};
pub use settings::{Atime, PrimaryCache, Settings, WriteCache};
