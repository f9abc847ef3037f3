//! Space of states other than the current one: checkpoints, and states that are being copied.

mod checkpoint;
mod pin;
