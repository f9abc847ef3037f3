//! Tests of the rights of callers.

mod rights;
