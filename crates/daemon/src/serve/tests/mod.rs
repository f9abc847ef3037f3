//! Tests of the server of commands; all of them are about the rights of callers.

mod rights;
