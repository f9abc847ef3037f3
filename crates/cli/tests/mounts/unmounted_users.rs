//! The mountpoint of a dataset of an ordinary user: its own user makes nothing there while the dataset is not mounted.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::common::user::User;
use crate::common::{has, needs};

/// A pool `tank` with an encrypted dataset `tank/p` at `~/private`, which the daemon made.
fn user() -> Option<User> {
    let user = User::new()?;
    user.ok("$P keygen k; $P pool create -s 64M -m none tank ~/tank.pool");
    user.ok(
        "$P create -o encryption=on -o keysource=raw,file://$HOME/k -o mountpoint=$HOME/private tank/p",
    );
    user.ok("echo own > private/file");
    Some(user)
}

fn mode(user: &User, dir: &str) -> u32 {
    fs::metadata(user.path(dir)).unwrap().permissions().mode() & 0o7777
}

#[track_caller]
fn is_closed(user: &User, dir: &str) {
    for script in ["touch", "mkdir"] {
        has(
            &user.fails(&format!("{script} {dir}/clear")),
            "Permission denied",
        );
    }
    assert_eq!(mode(user, dir), 0o111);
}

#[test]
fn the_mountpoint_of_a_user_is_closed() {
    let user = needs!(user());
    user.ok("$P unmount tank/p");
    is_closed(&user, "private");
    user.ok("$P mount tank/p; grep own private/file; touch private/more");
    user.ok("$P daemon stop");
    is_closed(&user, "private");
    // The next command starts the daemon, which mounts it.
    user.ok("$P key load tank/p || :; $P mount tank/p || :; grep own private/file");
    // A crash leaves a mount without its server.
    user.kill_daemon();
    user.ok("fusermount3 -uz private");
    is_closed(&user, "private");
    user.ok("$P list; $P key load tank/p || :; $P mount tank/p || :; grep own private/file");
    // It was killed while it mounted.
    user.ok("$P key unload -f tank/p; mv k away");
    user.kill_daemon();
    user.ok("chmod 1700 private; $P list");
    is_closed(&user, "private");
    user.ok("mv away k; $P key load tank/p; $P mount tank/p; grep own private/file");
    user.ok("$P destroy -f tank/p; test ! -e private");
}

/// `fusermount3` mounts nothing inside a mount, so this is all that there is of mounts in each other.
#[test]
fn a_dataset_mounts_in_a_closed_directory() {
    let user = needs!(user());
    user.ok("$P unmount tank/p");
    user.ok("$P create tank/p/a; echo own > private/a/file");
    has(&user.fails("touch private/clear"), "Permission denied");
    user.ok("$P unmount tank/p/a");
    is_closed(&user, "private");
    is_closed(&user, "private/a");
    user.ok("$P mount tank/p; grep own private/file; $P unmount tank/p");
    user.ok("$P mount tank/p/a; grep own private/a/file");
    user.ok("$P pool export tank; test ! -e private");
}

#[test]
fn a_directory_that_the_user_made_keeps_its_mode() {
    let user = needs!(user());
    user.ok("mkdir made; chmod 750 made; $P create -o mountpoint=$HOME/made tank/made");
    user.ok("$P unmount tank/made");
    assert_eq!(mode(&user, "made"), 0o750);
    user.ok("$P mount tank/made; $P daemon stop");
    assert_eq!(mode(&user, "made"), 0o750);
}
