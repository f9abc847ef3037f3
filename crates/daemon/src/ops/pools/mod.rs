//! Pools: making, importing and exporting them; their reports, and their background work.

pub(crate) mod background;
pub(crate) mod checkpoints;
pub(crate) mod commands;
pub(crate) mod damage;
pub(crate) mod features;
pub(crate) mod health;
pub(crate) mod inspect;
pub(crate) mod reguid;
pub(crate) mod report;
pub(crate) mod scrubs;
pub(crate) mod splits;
pub(crate) mod sweeps;
