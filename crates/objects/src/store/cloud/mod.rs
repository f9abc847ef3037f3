//! Stores that are reached by HTTP.
//!
//! - `answer`: the reasons why a request has no success;
//! - `tls`: who vouches for a server;
//! - `transport`: HTTP requests;
//! - `verdict`: the meaning of a failure for a caller, and the advice for a user;
//! - `bucket`: the requests of the line;
//! - `profile`: credentials in the files of the AWS command line;
//! - `variables`: settings of the environment;
//! - `providers`: the buckets of Amazon, Google and Microsoft, and those of others with their interfaces.

mod answer;
mod bucket;
mod profile;
mod providers;
mod tls;
mod transport;
mod variables;
mod verdict;

pub(crate) use providers::{azure, gcs, s3};
pub use variables::Variables;
