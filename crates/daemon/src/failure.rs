//! The failures of requests.

pub(crate) use protocol::api::{Failure, Result};
