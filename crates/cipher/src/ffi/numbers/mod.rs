//! Long numbers of AWS-LC: points of elliptic curves, RSA keys, and the polynomials of shared secrets.

mod number;
mod points;
mod rsa;
mod shamir;

pub(crate) use points::{add_multiple, multiples, subtract_multiple};
pub(crate) use rsa::rsa_numbers;
pub(crate) use shamir::{value_at, value_at_zero};
