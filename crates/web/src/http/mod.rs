//! HTTP/1.1 on a connection: requests with limits, and responses.

mod body;
mod problem;
mod query;
mod request;
mod response;
mod stream;

pub(crate) use body::{Body, linger};
pub(crate) use problem::Problem;
pub(crate) use query::Query;
pub(crate) use request::{Method, Reader, Request, is_late};
pub(crate) use response::{ANSWER_TIME, Response};
pub(crate) use stream::{Stream, Timed};
