//! The requests to a disk with persistent reservations (SPC-4, 5.13).
//!
//! The reservation is always of the type *write exclusive, registrants only*: all machines may read, and registered
//! ones may write. A machine with several paths to a disk registers the same key on all of them, so that each path can
//! write.

use std::io;

/// The result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegistrarAnswer {
    /// The request is done.
    Done,
    /// Another machine has the reservation, or the key is not the one that this machine has registered.
    Conflict,
}

/// The machines that are registered with a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registrations {
    /// The keys, one for each path.
    pub keys: Vec<u64>,
    /// The key that has the reservation; 0 if all registered keys have it.
    pub holder: Option<u64>,
}

/// A disk, as one machine sees it. Key 0 stands for no registration.
pub trait Registrar: Send + Sync {
    /// Registers a key in place of `old`; if that is `None`, in place of any key of this machine.
    ///
    /// # Errors
    /// The disk has no reservations, or does not answer. This holds for all methods.
    fn register(&self, old: Option<u64>, new: u64) -> io::Result<RegistrarAnswer>;

    /// Takes the reservation, if nobody has it. Nothing changes if this machine has it.
    ///
    /// # Errors
    /// See [`Registrar::register`].
    fn reserve(&self, own: u64) -> io::Result<RegistrarAnswer>;

    /// Ends the registrations with a key, aborts the commands of these machines, and takes their reservation.
    ///
    /// # Errors
    /// See [`Registrar::register`].
    fn preempt(&self, own: u64, other: u64) -> io::Result<RegistrarAnswer>;

    /// Returns the registered machines.
    ///
    /// # Errors
    /// See [`Registrar::register`].
    fn registered(&self) -> io::Result<Registrations>;
}
