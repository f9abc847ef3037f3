//! The users that call: their ids and groups, and the scopes of their tokens.

pub(crate) mod scope;
pub(crate) mod users;
