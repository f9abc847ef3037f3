//! `pool get` and `pool set`.

use clap::Args;
use console::values::{self, TableStyle};

use crate::cmd::dataset::args::GetField;

/// Show properties of pools
///
/// SOURCE is `local` for a value that was set, `default` if it was not, and `-` for values that are counted or
/// fixed. Properties of datasets are shown by `strongroom get`; they begin at the root dataset, which has the
/// name of the pool.
///
/// `allocated` and `capacity` are the used part of `size`, `free` is what can still be written, and
/// `expandsize` is the space that `pool online -e` would add. With `autoexpand=on` a pool grows when its
/// devices do.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  All properties of a pool:
    strongroom pool get all tank

  One value, for a script:
    strongroom pool get -H -p -o value free tank

JSON
  [{\"name\", \"type\": \"pool\", \"properties\": {\"free\": {\"value\": 98304, \"source\": \"none\"}, ...}}, ...]

EXIT CODES
  3 if there is no such pool or property.")]
pub(crate) struct PoolGet {
    #[command(flatten)]
    pub(crate) table: TableStyle,
    /// Columns to print
    #[arg(
        short = 'o',
        value_name = "COLUMN,...",
        value_delimiter = ',',
        default_value = "name,property,value,source"
    )]
    pub(crate) fields: Vec<GetField>,
    /// Properties with commas between them, or `all`
    #[arg(value_name = "all|PROPERTY,...")]
    pub(crate) props: String,
    /// Pools; default: all pools
    #[arg(value_name = "POOL")]
    pub(crate) pools: Vec<String>,
}

/// Set a property of a pool
///
/// With `autoexpand=on` the pool grows when its devices do. `scrub-schedule=weekly` or `monthly` starts a scrub 7
/// or 30 days after the last one began; a daemon that was off starts it soon after its start. With `autotrim=off` the
/// devices are not told of freed space; see `help pool trim`.
///
/// With `multihost=on` the machine that uses the pool shows it on the devices each second. An import on another machine
/// waits 22 s, and is refused if that machine lives; `-f` does not skip this. A machine that cannot show it for 10 s
/// suspends the pool until the next import.
///
/// With `reservations=on` the disks refuse the writes of other machines (SCSI persistent reservations). An import on
/// another machine with `-f` takes the disks over; the pool is suspended then where it was. All devices have to be whole
/// SCSI disks that support this; NVMe disks are not supported yet.
///
/// A device that does not answer a write for 10 s is faulted, if others have the data; `devicedeadline` sets another
/// time, and `off` waits for ever. It comes back with `pool online` or `pool clear` when it has answered.
///
/// The other properties are counted or fixed. Properties of datasets are set by `strongroom set`.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Use new space on the devices by itself:
    strongroom pool set autoexpand=on tank

  A scrub every month:
    strongroom pool set scrub-schedule=monthly tank

EXIT CODES
  2 for a wrong value; 3 if there is no such pool or property.")]
pub(crate) struct PoolSet {
    /// The property and its new value
    #[arg(value_name = "PROPERTY=VALUE", value_parser = values::property)]
    pub(crate) prop: (String, String),
    /// The pool
    #[arg(value_name = "POOL")]
    pub(crate) pool: String,
}
