//! The HTTP API, the dashboard, metrics, and messages to people.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/servers/web.rs"]
mod site;

mod admission;
mod api;
mod callers;
mod clients;
mod dashboard;
mod link;
mod metrics;
mod notify;
mod streams;
