//! Views as file systems.

use std::sync::Arc;

use vfs::FileSystem;

use super::directory::Stacked;
use super::reverse::view::ReverseView;
use crate::formats::fscrypt::Fscrypt;
use crate::formats::gocryptfs::Gocryptfs;
use crate::formats::pefs::Pefs;

/// A view of a lower directory.
pub trait View: FileSystem + 'static {
    /// The view as a file system. Its code is generated in this crate, and so with the optimization of this crate: a
    /// program that uses it may be optimized for size.
    fn served(self: Arc<Self>) -> Arc<dyn FileSystem>;
}

macro_rules! views {
    ($($view:ty),*) => {
        $(impl View for $view {
            fn served(self: Arc<Self>) -> Arc<dyn FileSystem> {
                self
            }
        })*
    };
}

views!(
    Stacked<Fscrypt>,
    Stacked<Gocryptfs>,
    Stacked<Pefs>,
    ReverseView
);
