//! HTTP/1.1 on a connection: requests with limits, and responses.

mod body;
mod problem;
mod query;
mod request;
mod response;
mod stream;

pub(crate) use body::{RequestBody, linger};
pub(crate) use problem::Problem;
pub(crate) use query::UrlQuery;
pub(crate) use request::{Method, Request, RequestReader, is_late};
pub(crate) use response::{ANSWER_TIME, Response};
pub(crate) use stream::{ClientStream, TimedSocket};
