//! Mounting and unmounting.

use console::outcome::{Outcome, Result};

use super::codes;
use crate::pefs::args::{PefsMount, PefsUnmount};
use crate::stack::args::{CacheMode, StackKey, StackList, StackMount};
use crate::stack::run::{list, start, unmount as end};

pub(super) fn mount(args: &PefsMount) -> Result {
    let (Some(dir), Some(mountpoint)) = (args.from.clone(), args.mountpoint.clone()) else {
        return Ok(list(&StackList { script: false }, false));
    };
    let done = start(&StackMount {
        key: StackKey {
            key_file: Vec::new(),
            passfile: None,
        },
        locked: false,
        reverse: false,
        pefs: true,
        read_only: false,
        allow_other: false,
        private: false,
        writeback: false,
        // As mount_pefs(8).
        overlay: true,
        cache: CacheMode::Auto,
        options: args.options.clone(),
        foreground: false,
        detached: false,
        until_eof: false,
        dir,
        mountpoint,
    })?;
    Ok(match done.exit_code {
        Some(code) => done.with_exit_code(codes::instead_of(code)),
        None => Outcome::done(),
    })
}

pub(super) fn unmount(args: &PefsUnmount) -> Result {
    let mount = end(&args.mountpoint, args.force)?;
    Ok(Outcome::text(match args.verbose {
        true => format!("{}: unmount from {}\n", mount.source, mount.path.display()),
        false => String::new(),
    }))
}
