//! Asks for confirmation before a command destroys data.

use crate::cmd::dataset::args::Destroy;
use crate::outcome::Result;
use crate::session::{other, usage};
use crate::terminal::{confirm, is_interactive};

/// Asks whether what a command names may go, unless it says so itself.
pub(crate) fn may_destroy(
    args: &Destroy,
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
        eprintln!("will destroy {}", crate::show::text::in_a_cell(&name));
    }
    match confirm("Destroy this for ever?") {
        true => Ok(()),
        false => Err(other("nothing was destroyed")),
    }
}

/// Asks whether something that destroys is meant.
pub(crate) fn be_sure(sure: bool, what: &str) -> Result<()> {
    match sure {
        true => Ok(()),
        false if !is_interactive() => Err(usage(format!("{what}; to do it anyway, use -q"))),
        false if confirm(&format!("{what}. Go on?")) => Ok(()),
        false => Err(other("nothing was changed")),
    }
}
