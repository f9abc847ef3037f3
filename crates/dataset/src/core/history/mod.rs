//! The history of a dataset's seals, in its sealed metadata. So a holder of the key can prove that a state grew from an
//! earlier one.
//!
//! Each commit adds the seal of the state before it. The newest page of the history is written in each commit until it
//! is full; full pages do not change any more.
//!
//! Layers, lowest first: `page` (bytes), `pages` (where they are), `end` (what commits add), `ancestry`.

pub(crate) mod ancestry;
pub(crate) mod end;
pub(crate) mod page;
pub(crate) mod pages;
