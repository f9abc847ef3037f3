//! The command that `pam_strongroom.so` starts: encrypted homes at login and logout.

pub mod args;
pub mod run;
