//! The memory of network servers, and their notices of lost changes.

pub(crate) mod loss_notice;
pub(crate) mod transfer;
