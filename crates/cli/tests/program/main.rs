//! The program itself: help, documents, input and output, units of systemd.

#[path = "../common/mod.rs"]
mod common;

mod articles;
mod awkward;
mod bench;
mod completion;
mod doctor;
mod edge;
mod golden;
mod idle;
mod pages;
mod readme;
mod service;
mod units;
