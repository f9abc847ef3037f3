//! `pam_strongroom.so`: opens encrypted homes at login, closes them after the last logout, and changes their passphrase
//! with `passwd`.
//!
//! The module is loaded into `sshd`, `su` and `login`. So it contains no cryptography and reads no file of a user. It
//! gets the passphrase from PAM and gives it over a pipe to the program `strongroom login`, which does the work.
//!
//! Layers, lowest first:
//! - `options`: the arguments of the module; `trust`: whether a program may be started as root;
//! - `handle`: the functions of libpam;
//! - `child`, `program`: start `strongroom login`, wait for it for a limited time;
//! - `hooks`: the work for each call of PAM; `entry`: the entry points of the module.

#[cfg(not(test))]
mod child;
#[cfg(not(test))]
mod entry;
#[cfg(not(test))]
mod handle;
#[cfg(not(test))]
mod hooks;
#[cfg_attr(test, allow(dead_code))]
mod options;
#[cfg(not(test))]
mod program;
#[cfg_attr(test, allow(dead_code))]
mod trust;
