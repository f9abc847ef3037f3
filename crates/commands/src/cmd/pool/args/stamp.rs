//! The time before each report.

use clap::{Args, ValueEnum};

/// The time before each report of a command that makes several.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Stamp {
    /// Print the time before each report: `u` in seconds since 1970, `d` as a date
    #[arg(short = 'T', value_name = "u|d", hide_possible_values = true)]
    pub(crate) stamp: Option<StampForm>,
}

/// The form of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StampForm {
    /// Seconds since 1970.
    #[value(name = "u")]
    Seconds,
    /// A date with the time of day.
    #[value(name = "d")]
    Date,
}
