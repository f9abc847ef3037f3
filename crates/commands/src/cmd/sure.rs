//! Asks for confirmation before a command destroys data.

use console::outcome::Result;
use console::session::{other, usage};
use console::terminal::{confirm, is_interactive};

use crate::cmd::dataset::args::DestroyArgs;

/// Asks whether what a command names may go, unless it says so itself.
pub(crate) fn may_destroy(
    args: &DestroyArgs,
    names: impl FnOnce() -> Result<Vec<String>>,
) -> Result<()> {
    if args.force {
        return Ok(());
    }
    if !is_interactive() {
        return Err(usage(format!(
            "'{}' is not destroyed: there is no terminal to ask for confirmation; use -f",
            args.name
        )));
    }
    for name in names()? {
        eprintln!("will destroy {}", console::show::text::in_a_cell(&name));
    }
    match confirm("Destroy this for ever?") {
        true => Ok(()),
        false => Err(other("nothing was destroyed")),
    }
}
