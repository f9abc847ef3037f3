//! Object stores: devices in them, their outages, and what their requests cost.

pub(crate) mod object_stores;
pub(crate) mod store_outages;
pub(crate) mod store_prices;
