//! Logins that open homes.

#[path = "../common/mod.rs"]
mod common;

mod pam;
mod pam_fscrypt;
mod pam_homes;
mod pam_pefs;
