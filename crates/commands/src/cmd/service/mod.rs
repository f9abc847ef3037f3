//! The daemon and its state, and commands about the program itself: manual pages, completion, explanations, anchors.

pub(super) mod args;
pub(super) mod run;
