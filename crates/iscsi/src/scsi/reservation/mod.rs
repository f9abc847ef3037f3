//! Reservations of a unit (SPC-4, section 5.13): who has registered a key, and who may use the unit.
//!
//! Nothing here reads or writes anything but its arguments. `state` is what is reserved and what that allows, `change`
//! what PERSISTENT RESERVE OUT and RESERVE (6) do, `wire` the bytes of the commands, `stored_text` the text that is stored.

mod change;
mod state;
mod stored_text;
#[cfg(test)]
mod tests;
mod wire;

pub(crate) use change::{Action, ReserveOutCommand};
pub(crate) use state::{Need, Nexus, Reservations};
pub(crate) use stored_text::KEPT_MAX;
pub(crate) use wire::{LIST_LEN, capabilities, full_status, keys, order, reservation};
