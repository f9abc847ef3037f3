//! Admission of connections: the same rules for all servers.
//!
//! # Rules
//!
//! - A client is a *stranger* until it is authenticated, and a *member* from then on.
//! - A new connection always gets a place. If the places of strangers are full, a stranger gives way: the oldest one
//!   of
//!   its own source, or the oldest one of the source that has the most.
//! - A member never gives way. If the places of members are full, a stranger does not become one.
//! - In a crowd, when half of the places of members are taken, each source may have only an eighth of its usual
//!   number.
//!   So a few users cannot take all places.
//! - Root and the user of the process have places of their own.
//! - A source is a user, a tenant, an IPv4 address, or a /64 of IPv6. A /48 of IPv6 has a limit too.
//!
//! # Layers, the lowest first
//!
//! | module | holds |
//! |---|---|
//! | `source` | where a client comes from |
//! | `log_limit` | how often the log may name a source |
//! | `places` | the table of connections |
//! | `accept` | the loop that accepts connections |
//! | `deadline` | the time of a client that is not authenticated |

mod accept;
mod deadline;
mod log_limit;
mod places;
mod source;

pub use accept::{AcceptThread, Listen, StopSignal, attend, is_gone};
pub use deadline::{Deadline, await_first_bytes};
pub use log_limit::LogLimit;
pub use places::{ConnectionPlaces, NoPlace, Permit, PlaceLimit, PlaceLimits};
pub use source::ClientSource;
