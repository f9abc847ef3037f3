//! What `pam_strongroom.so` starts: encrypted homes at login and logout.

pub(super) mod args;
pub(super) mod run;
