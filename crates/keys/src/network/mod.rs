//! TLS and HTTP, for key servers and Tang servers.

pub(crate) mod http;
pub(crate) mod tls;
