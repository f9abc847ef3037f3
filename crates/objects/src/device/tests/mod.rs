//! Tests of the device on a simulated store.

mod actors;
mod ledger;
mod rules;
mod schedules;
mod simulation;
mod store;
mod world;
