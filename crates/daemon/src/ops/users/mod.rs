//! Users: delegated permissions, tokens, homes, and the roots of zones.

pub(crate) mod delegation;
pub(crate) mod homes;
pub(crate) mod tokens;
pub(crate) mod zones;
