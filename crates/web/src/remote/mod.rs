//! The client of a site on another host: the jobs of this machine that copy to it use it.

mod exchange;
mod site;

pub use site::RemoteSite;
