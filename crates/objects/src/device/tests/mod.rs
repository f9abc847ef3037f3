//! Tests of the device on a simulated store.

mod store;
mod world;
