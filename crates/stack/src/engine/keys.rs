//! Inodes when keys come and go.
//!
//! What is found again under other keys becomes another inode of the same number. A program that has the old
//! one open gets errors: it would read ciphertext, or write clear text.

use std::sync::Arc;

use vfs::{Error, Ino, ROOT, Result};

use super::stacked_directory::StackedDirectory;
use super::state::inode::LowerInode;
use crate::formats::DirectoryFormat;
use crate::lower::{Entry, rename_free};

impl<F: DirectoryFormat> StackedDirectory<F> {
    /// The format, with its keys.
    pub fn format(&self) -> &F {
        &self.format
    }

    /// The root of the lower directory, for what the format keeps there.
    ///
    /// # Errors
    /// Those of `see`.
    pub fn with_lower<T>(&self, see: impl FnOnce(&Entry) -> Result<T>) -> Result<T> {
        let root = self.inodes.get(ROOT)?;
        see(&root.entry)
    }

    /// Calls `see` with the format's node of an inode that the front end knows.
    ///
    /// # Errors
    /// `Stale`.
    pub fn with_node<T>(&self, ino: Ino, see: impl FnOnce(&F::Node) -> T) -> Result<T> {
        self.inodes.get(ino).map(|inode| see(&inode.node))
    }

    /// The known files and links of these nodes: if they lose their keys, the front end has to forget their
    /// contents.
    pub fn with_contents(&self, is_one: impl Fn(&F::Node) -> bool) -> Vec<Ino> {
        self.inodes.with_contents(is_one)
    }

    /// Calls `idle` for the nodes of known inodes that no program has open. Returns how many files programs have
    /// open of those that `is_one` says.
    pub fn sweep(&self, is_one: impl Fn(&F::Node) -> bool, idle: impl Fn(&F::Node)) -> usize {
        let all = self.inodes.all();
        let ones = all.iter().filter(|inode| is_one(&inode.node));
        ones.filter(|inode| inode.is_open_or(|| idle(&inode.node)))
            .count()
    }

    /// Calls `change` for a directory, which no name enters meanwhile by this mount.
    ///
    /// # Errors
    /// Those of `change`; `Stale`, `NotDirectory`.
    pub fn change_directory(
        &self,
        ino: Ino,
        change: impl FnOnce(&Entry, &F::Node) -> Result<()>,
    ) -> Result<()> {
        self.format.check_change()?;
        let inode = self.inodes.get(ino)?;
        let _names = inode.io.write();
        change(inode.directory()?, &inode.node)
    }

    /// Makes something else of a directory, which keeps its name in the view and what is in it. `make` says, for
    /// what it is, what it becomes and its lower name.
    ///
    /// # Errors
    /// Those of `make` and of finding the name; `NotDirectory`.
    pub fn remake_directory(
        &self,
        parent: Ino,
        name: &[u8],
        make: impl FnOnce(&F::Node) -> Result<(F::Node, Vec<u8>)>,
    ) -> Result<()> {
        self.format.check_change()?;
        let dir = self.inodes.get(parent)?;
        let _names = dir.io.write();
        let _claim = self.claim(&dir)?;
        let found = self.find(&dir, name)?;
        let attr = self.enter(&dir, &found.lower.name, found.entry)?;
        let inode = self.inodes.get(attr.ino);
        self.inodes.forget(attr.ino, 1);
        let inode = inode?;
        inode.directory()?;
        let _its_names = inode.io.write();
        let (node, lower) = make(&inode.node)?;
        let entry = dir.entry.entry(&found.lower.name)?;
        dir.names.make((name, &lower), || {
            rename_free(&dir.entry, &found.lower.name, &lower, || Ok(()))
        })?;
        // To the front end it is the same directory.
        let made = inode.remade(entry, node, inode.generation);
        match self.inodes.replace(&inode, made) {
            // Forgotten meanwhile: it will be found as it is now.
            Ok(_) | Err(Error::Stale) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The inode that was found again as an entry of a directory, as it is under the keys that there are now.
    pub(super) fn renew(
        &self,
        inode: Arc<LowerInode<F::Node>>,
        dir: &LowerInode<F::Node>,
        lower: &[u8],
    ) -> Result<Arc<LowerInode<F::Node>>> {
        let Some(node) = self.format.renewed(&inode.node, &dir.node, lower) else {
            return Ok(inode);
        };
        let entry = dir.entry.entry(lower)?;
        let made = inode.remade(entry, node, inode.generation + 1);
        self.inodes.replace(&inode, made)
    }
}
