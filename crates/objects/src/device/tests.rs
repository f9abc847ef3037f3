//! Tests of the device on a simulated store.
