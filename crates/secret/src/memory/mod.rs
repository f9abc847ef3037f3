//! Memory for secrets: never swapped, never dumped, never inherited, wiped when it is given back.
//!
//! This module and its children hold all the `unsafe` of the crate. The layers:
//!
//! - the arena (`arena`) maps pages, locks them, and cuts them into slots;
//! - a [`Region`] is one slot, seen as bytes;
//! - a [`LockedBox`] is one slot with a value in it.
//!
//! What the pages have: `mlock` (they stay out of swap; hibernation still writes them), `MADV_DONTDUMP` (they stay
//! out of core files) and `MADV_DONTFORK` (a child process does not have them). The last is chosen over
//! `MADV_WIPEONFORK` on purpose. A child that used a wiped key would seal data with zeros for a key. One that uses a
//! missing page is stopped at once. A child may drop what it inherited, and make secrets of its own.

#![allow(unsafe_code)]

mod arena;
mod locked_box;
mod region;

pub use locked_box::LockedBox;
pub(crate) use region::Region;
