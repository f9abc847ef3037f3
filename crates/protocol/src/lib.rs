//! The protocol between commands and the daemon, and its client.
//!
//! A command connects to the daemon's unix socket, sends one [`api::Request`], and gets [`api::DaemonAnswer`]s until the
//! last one. Secrets and data have frames of their own.
//!
//! # What it guarantees
//!
//! - **It needs no engine.** Of this project it depends only on the crates `failure` and `secret`. So a program that
//!   speaks to the daemon does not depend on ciphers or pools (`scripts/boundaries`).
//! - **A secret stays in locked memory.** [`wire::receive_secret`] reads it straight into a [`secret::Secret`].
//! - **Received bytes are not trusted.** Each kind of frame has a limit. A malformed frame is an error. Memory is
//!   allocated for bytes that arrived, not for a length that was announced.
//! - **A client speaks to root's daemon or to its own user's.** [`client::DaemonConnection::connect`] refuses others.
//! - **Versions must match.** A request of another [`api::API_VERSION`] is refused with a message that says so.
//!
//! # Layers, the lowest first
//!
//! | layer | holds |
//! |---|---|
//! | `accounts`, `digits`, `property`, `sizes` | names of users and groups, properties of datasets, bytes and sizes as text |
//! | `characters` | characters that are not shown, such as control characters |
//! | `api` | commands and replies |
//! | `json` | replies as the command line and the HTTP API show them |
//! | `pages` | what the guide says about exit codes, states and alerts |
//! | `nbd_uri`, `object_uri`, `device_name` | addresses of exports and of object stores, and all names of devices |
//! | `ha_file` | the file `ha.toml`, which describes the targets of a pool |
//! | `wire` | frames |
//! | `client` | a connection, the start of a daemon, a device that the daemon lends |

pub mod accounts;
pub mod api;
pub mod characters;
pub mod client;
pub mod device_name;
pub mod ha_file;
pub mod json;
pub mod nbd_uri;
pub mod object_uri;
pub mod pages;
pub mod property;
pub mod sizes;
pub mod wire;
