//! Stores of providers: what each of them promises, and what a user reads when one refuses or is away.

mod answers;
mod contract;
mod defects;
mod folder;
mod removal;
mod servers;
mod support;
