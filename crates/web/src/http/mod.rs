//! HTTP/1.1 on a connection: requests with limits, and responses.

mod problem;
mod query;
mod request;
mod response;
mod stream;
mod streamed_body;

pub(crate) use problem::Problem;
pub(crate) use query::UrlQuery;
pub(crate) use request::{Method, Request, RequestReader, is_late};
pub(crate) use response::{ANSWER_TIME, Response};
pub(crate) use stream::{ClientStream, TimedSocket};
pub(crate) use streamed_body::{StreamedBody, linger};
