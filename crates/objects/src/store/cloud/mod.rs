//! Stores that are reached by HTTP.
//!
//! - `answer`: the reasons why a request has no success;
//! - `tls`: who vouches for a server;
//! - `transport`: HTTP requests;

mod answer;
mod tls;
mod transport;

