//! Views as file systems.

use std::sync::Arc;

use vfs::FileSystem;

use super::reverse::view::ReverseView;
use super::stacked_directory::StackedDirectory;
use crate::formats::fscrypt::FscryptFormat;
use crate::formats::gocryptfs::GocryptfsFormat;
use crate::formats::pefs::PefsFormat;

/// A view of a lower directory.
pub trait StackedView: FileSystem + 'static {
    /// The view as a file system. Its code is generated in this crate, and so with the optimization of this crate: a
    /// program that uses it may be optimized for size.
    fn served(self: Arc<Self>) -> Arc<dyn FileSystem>;
}

macro_rules! views {
    ($($view:ty),*) => {
        $(impl StackedView for $view {
            fn served(self: Arc<Self>) -> Arc<dyn FileSystem> {
                self
            }
        })*
    };
}

views!(
    StackedDirectory<FscryptFormat>,
    StackedDirectory<GocryptfsFormat>,
    StackedDirectory<PefsFormat>,
    ReverseView
);
