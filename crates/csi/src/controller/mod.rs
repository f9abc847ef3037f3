//! The controller: makes, grows, lists and destroys volumes and snapshots.

mod about;
mod clone;
mod create;
mod delete;
mod expand;
mod pages;
mod snapshots;
