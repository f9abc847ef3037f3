//! gRPC at a unix socket: calls with one request and one answer, over HTTP/2
//! (<https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>).
//!
//! The crate `h2` speaks HTTP/2, and needs Tokio for it. The calls themselves block, on threads of their own.

mod frame;
mod server;

pub(crate) use server::serve;
