//! Tests of the device on a simulated store.

mod actors;
mod damage;
mod ledger;
mod purges;
mod readers;
mod requests;
mod rules;
mod schedules;
mod simulation;
mod store;
mod world;
