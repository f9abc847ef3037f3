//! Authenticators (FIDO2), which compute a passphrase: tokens of the type `systemd-fido2`.
//!
//! The library that talks to them is in C. Its programs `fido2-token` and `fido2-assert` do that in processes of
//! their own, and this module starts them. What a token says goes to them over a pipe, and so does the PIN. What they
//! answer comes into locked memory.
//!
//! Each wrong PIN counts. So a PIN goes only to an authenticator that has the credential of the token. If
//! authenticators do not tell, it goes to the only one that can have it.

mod authenticator;
mod program;
mod session;
mod token;

pub use token::{FidoHolder, FidoToken};
