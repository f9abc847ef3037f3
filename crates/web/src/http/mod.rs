//! HTTP/1.1 on a connection: requests with limits, and responses.

mod problem;
mod query;
mod request;
mod response;
mod stream;

pub(crate) use problem::Problem;
pub(crate) use query::Query;
pub(crate) use request::{Method, Reader, Request};
pub(crate) use response::Response;
pub(crate) use stream::{Stream, Timed};
