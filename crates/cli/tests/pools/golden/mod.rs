//! Pools of earlier versions, and with each feature.

mod features;
mod versions;
