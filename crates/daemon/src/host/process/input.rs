//! The standard input as a tie to another process: it ends with the process that holds its other end.

use std::fs::File;
use std::io::{copy, sink, stdin};
use std::os::fd::AsFd;

use crate::failure::{Failure, Result};

/// Does something when the standard input ends, on a thread of its own. What this process puts in its place later does not
/// count.
///
/// # Errors
/// If there is no standard input, or no thread.
pub fn at_end_of_input(act: impl FnOnce() + Send + 'static) -> Result<()> {
    let failed = |error| Failure::other(format!("the standard input cannot be watched: {error}"));
    let mut input = File::from(stdin().as_fd().try_clone_to_owned().map_err(failed)?);
    let watch = move || {
        // What cannot be read has ended too.
        let _ = copy(&mut input, &mut sink());
        act();
    };
    threads::start("input", watch).map_err(failed)?;
    Ok(())
}
