//! Stores that are reached by HTTP.
//!
//! - `answer`: the reasons why a request has no success;
//! - `tls`: who vouches for a server;
//! - `transport`: HTTP requests;
//! - `verdict`: the meaning of a failure for a caller, and the advice for a user;
//! - `bucket`: the requests of the line;

mod answer;
mod bucket;
mod tls;
mod transport;
mod verdict;

