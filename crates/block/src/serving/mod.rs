//! The memory and the threads of network servers, and their notices of lost changes.

pub(crate) mod helper_budget;
pub(crate) mod loss_notice;
pub(crate) mod transfer;
