//! The CSI driver: volumes for containers, made of datasets below one parent.
//!
//! The Container Storage Interface (<https://github.com/container-storage-interface/spec>) is how Kubernetes and other
//! orchestrators ask for storage: three gRPC services at a unix socket. This crate serves them. It is a client of the
//! daemon, and speaks to it through `protocol` only.
//!
//! - The *controller* makes, grows and destroys datasets and snapshots. A volume has the last part of its dataset's
//!   name as its id, and the property `csi:volume`. The driver leaves all other datasets alone.
//! - The *node* mounts them where containers see them. The daemon mounts a dataset in a directory of the driver, and
//!   the driver puts clones of this mount at the paths that it is told (`node::target`).
//!
//! The modules, the lowest first: `proto`, `status`, `names`, `busy`, `daemon`, `volumes`, `wanted`; `controller`,
//! `node`, `identity`; `grpc`, `serve`.

mod busy;
mod controller;
mod daemon;
mod driver;
mod grpc;
mod identity;
mod names;
mod node;
#[allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    clippy::all,
    rustdoc::all
)]
#[rustfmt::skip]
mod proto;
mod demands;
mod serve;
mod status;
mod volumes;

pub use driver::{DRIVER_NAME, DriverSettings, check_parent};
pub use serve::run;
