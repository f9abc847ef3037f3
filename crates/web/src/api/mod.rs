//! Requests to the daemon, and its answers as JSON.

mod answer;
mod body;
mod commands;
mod daemon;
mod events;
mod health;
mod jobs;
mod metrics;
mod openapi;
mod resources;
mod secrets;
mod streams;

pub(crate) use answer::{ApiAnswer, answer};
pub(crate) use daemon::{ApiCaller, own_name};
pub(crate) use secrets::{LockedText, parse};
pub(crate) use streams::STREAM_COST;
