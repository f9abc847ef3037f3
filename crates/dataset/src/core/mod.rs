//! An open dataset: its records, and how they change.
//!
//! Layers, lowest first: `settings`, `reencryption`; `admission`'s accounts, `io`'s records, `log`'s journal and writer
//! (data); `engine`; `dataset`; and what it does, in `admission`, `io` and `log`.

pub(crate) mod admission;
pub(crate) mod dataset;
pub(crate) mod engine;
pub(crate) mod history;
pub(crate) mod io;
pub(crate) mod log;
pub(crate) mod reencryption;
pub(crate) mod settings;

pub use dataset::{Dataset, verify_seal};
pub(crate) use dataset::{PAGE_SPACE, attr_of, check_seal, read_header, read_record};
pub use engine::{Clock, Engine, EngineOptions};
pub use history::ancestry::{Ancestry, SealedState, ancestry};
pub use io::stored::WrongBlocks;
pub use log::SyncMode;
pub use reencryption::Reencrypted;
pub use settings::{Atime, PrimaryCache, Settings, WriteCache};
