//! Remapping: reads records whose group of devices was removed.
//!
//! A pointer says where its record lies, and is itself hashed and sealed in by what is above it and
//! listed in deadlists; so it is not changed when a group is removed. What lay there is copied to other
//! groups, and the *remap table* says where each run of units is now. While the copying goes on
//! all readers use the old places, which stay allocated, and the table only says where the copy is: so
//! it can be given up at any time. When all that is allocated in the group has a copy one commit makes
//! the table count, and the group is not there any more.
//!
//! An entry goes when what it stands for is freed; the place that it names is freed with it. With its
//! last entry a removed group is gone for good.

mod edit;
mod page;
mod table;

#[cfg(fuzzing)]
pub(crate) use page::Page;
pub(crate) use table::{Remap, TableReader};
