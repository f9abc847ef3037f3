//! The process: memory, input, threads that wait, the clock, the service manager.

pub(crate) mod huge_pages;
pub(crate) mod input;
pub(crate) mod memory;
pub(crate) mod notify;
pub(crate) mod system;
pub(crate) mod wakeup;
