//! The server of the requests of a mapping: one encryption, or regions. It can be replaced, and taken away for a
//! while.

use std::io::IoSlice;
use std::sync::Arc;
use std::time::Duration;

use cipher::Provider;
use parking_lot::{Condvar, MappedRwLockReadGuard, Mutex, RwLock, RwLockReadGuard};

use super::regions::{Regions, RequestKind, RequestPermit};
use super::sectors::{Gather, PIECE, SectorCore, with_buffer};
use crate::{Error, Result};

/// The time that a suspension waits for requests to end.
const PATIENCE: Duration = Duration::from_secs(20);

/// The server of requests.
pub(super) enum Serving {
    /// All data is encrypted in one way.
    All(SectorCore),
    Regions(Box<Regions>),
}

impl Serving {
    /// Waits until a request may begin. Without a re-encryption none waits.
    pub(super) fn enter(
        &self,
        access: RequestKind,
        offset: u64,
        len: u64,
    ) -> block::Result<Option<RequestPermit<'_>>> {
        match self {
            Serving::All(_) => Ok(None),
            Serving::Regions(regions) => regions.enter(access, offset, len).map(Some),
        }
    }

    fn would_wait(&self, access: RequestKind, offset: u64, len: u64) -> bool {
        match self {
            Serving::All(_) => false,
            Serving::Regions(regions) => regions.would_wait(access, offset, len),
        }
    }

    fn encryption(&self) -> Encryption {
        match self {
            Serving::All(core) => Encryption {
                name: core.encryption.clone(),
                provider: core.provider(),
            },
            Serving::Regions(regions) => Encryption {
                name: regions.encryption.clone(),
                provider: None,
            },
        }
    }

    /// Reads and decrypts, in place.
    pub(super) fn read(&self, offset: u64, buf: &mut [u8]) -> block::Result<()> {
        let mut at = offset;
        for piece in buf.chunks_mut(PIECE) {
            self.read_piece(at, piece)?;
            at += piece.len() as u64;
        }
        Ok(())
    }

    pub(super) fn read_piece(&self, offset: u64, piece: &mut [u8]) -> block::Result<()> {
        match self {
            Serving::All(core) => core.read_piece(offset, piece),
            Serving::Regions(regions) => by_region(regions, offset, piece, SectorCore::read_piece),
        }
    }

    /// Encrypts where it lies, and writes.
    pub(super) fn write_in_place(&self, offset: u64, data: &mut [u8]) -> block::Result<()> {
        let mut at = offset;
        for piece in data.chunks_mut(PIECE) {
            self.write_piece(at, piece, false)?;
            at += piece.len() as u64;
        }
        Ok(())
    }

    /// Encrypts in a buffer of this thread, and writes.
    pub(super) fn write(
        &self,
        offset: u64,
        len: usize,
        pieces: &[IoSlice<'_>],
        durably: bool,
    ) -> block::Result<()> {
        let mut rest = Gather::new(pieces);
        let mut done = 0;
        with_buffer(|buffer| {
            while done < len {
                let n = PIECE.min(len - done);
                buffer.clear();
                rest.take(n, buffer);
                self.write_piece(offset + done as u64, buffer, durably)?;
                done += n;
            }
            Ok(())
        })
    }

    /// Encrypts a piece in place, and writes it.
    pub(super) fn write_piece(
        &self,
        offset: u64,
        piece: &mut [u8],
        durably: bool,
    ) -> block::Result<()> {
        match self {
            Serving::All(core) => core.write_piece(offset, piece, durably),
            Serving::Regions(regions) => by_region(regions, offset, piece, |core, at, part| {
                core.write_piece(at, part, durably)
            }),
        }
    }

    /// Encrypts a piece in place, to be written by [`Serving::store_piece`]. False, with the piece as it was, if its
    /// sectors are not written alone: they have tags, or are in re-encryption.
    pub(super) fn encrypt_piece(&self, offset: u64, piece: &mut [u8]) -> block::Result<bool> {
        match self {
            Serving::All(core) => core.encrypt_piece(offset, piece),
            Serving::Regions(_) => Ok(false),
        }
    }

    /// Writes a piece that is encrypted.
    pub(super) fn store_piece(&self, offset: u64, piece: &[u8]) -> block::Result<()> {
        match self {
            Serving::All(core) => core.store(offset, piece, false),
            Serving::Regions(regions) => Err(block::Error::ReadOnly {
                device: regions.device.name(),
            }),
        }
    }

    pub(super) fn discard(&self, offset: u64, len: u64) -> block::Result<()> {
        match self {
            Serving::All(core) => core.discard(offset, len),
            Serving::Regions(regions) => {
                let mut parts = regions.parts(offset, len);
                parts.try_for_each(|(core, at, len)| core.discard(at, len))
            }
        }
    }

    pub(super) fn flush(&self) -> block::Result<()> {
        match self {
            Serving::All(core) => core.flush(),
            Serving::Regions(regions) => regions.device.flush(),
        }
    }
}

/// Calls `act` with the part of a piece that lies in each region, from `offset` on.
fn by_region(
    regions: &Regions,
    offset: u64,
    mut piece: &mut [u8],
    mut act: impl FnMut(&SectorCore, u64, &mut [u8]) -> block::Result<()>,
) -> block::Result<()> {
    for (core, at, len) in regions.parts(offset, piece.len() as u64) {
        let (part, rest) = piece.split_at_mut(len as usize);
        act(core, at, part)?;
        piece = rest;
    }
    // A part that no region serves would be read encrypted, or not be written.
    assert!(piece.is_empty(), "each byte of a request lies in a region");
    Ok(())
}

/// The encryption, for people.
#[derive(Clone)]
pub(super) struct Encryption {
    /// The cipher, for example `aes-xts-plain64`.
    pub(super) name: String,
    /// The provider that computes it, if it can be chosen.
    pub(super) provider: Option<Provider>,
}

/// The cell with the server of now. The server is replaced when the requests that use it have ended.
pub(super) struct ServingCell {
    /// `None` while the mapping is suspended.
    serving: RwLock<Option<Arc<Serving>>>,
    /// The name of the encryption, with a lock of its own: asking for it does not wait for requests that hang.
    encryption: Mutex<Encryption>,
    suspension: Mutex<SuspensionState>,
    changed: Condvar,
}

#[derive(Default)]
struct SuspensionState {
    is_suspended: bool,
    /// The number of holders of a [`FailureGuard`]: while there is one, requests fail instead of waiting.
    failing: usize,
}

/// The server, held for one request.
pub(super) type ServingRef<'a> = MappedRwLockReadGuard<'a, Arc<Serving>>;

/// A guard: while it exists, requests for a suspended mapping fail.
#[must_use]
pub struct FailureGuard(Arc<ServingCell>);

impl Drop for FailureGuard {
    fn drop(&mut self) {
        self.0.suspension.lock().failing -= 1;
    }
}

impl FailureGuard {
    pub(super) fn begin(cell: &Arc<ServingCell>) -> FailureGuard {
        cell.give_up();
        FailureGuard(Arc::clone(cell))
    }
}

impl ServingCell {
    pub(super) fn new(serving: Serving) -> ServingCell {
        ServingCell {
            encryption: Mutex::new(serving.encryption()),
            serving: RwLock::new(Some(Arc::new(serving))),
            suspension: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Returns the server for one request. The call waits while the mapping is suspended, and nothing is replaced
    /// until the result is dropped. `None` if the request is to fail.
    pub(super) fn get(&self) -> Option<ServingRef<'_>> {
        loop {
            if let Some(held) = self.now() {
                return Some(held);
            }
            let mut suspension = self.suspension.lock();
            while suspension.is_suspended {
                if suspension.failing > 0 {
                    return None;
                }
                self.changed.wait(&mut suspension);
            }
        }
    }

    /// Makes requests fail while the mapping is suspended.
    pub(super) fn give_up(&self) {
        self.suspension.lock().failing += 1;
        self.changed.notify_all();
    }

    /// Returns the server; `None` while the mapping is suspended.
    pub(super) fn now(&self) -> Option<ServingRef<'_>> {
        RwLockReadGuard::try_map(self.serving.read(), Option::as_ref).ok()
    }

    /// Returns whether a request would wait now because of its range.
    pub(super) fn would_wait(&self, access: RequestKind, offset: u64, len: u64) -> bool {
        let serving = self.serving.try_read();
        let serving = serving.as_ref().and_then(|serving| serving.as_ref());
        serving.is_some_and(|serving| serving.would_wait(access, offset, len))
    }

    /// The encryption. This does not wait, whatever requests do.
    pub(super) fn encryption(&self) -> Encryption {
        self.encryption.lock().clone()
    }

    pub(super) fn is_suspended(&self) -> bool {
        self.suspension.lock().is_suspended
    }

    /// Replaces what serves, which ends a suspension.
    pub(super) fn replace(&self, serving: Serving) {
        let encryption = serving.encryption();
        *self.serving.write() = Some(Arc::new(serving));
        *self.encryption.lock() = encryption;
        self.suspension.lock().is_suspended = false;
        self.changed.notify_all();
    }

    /// Replaces what serves by what `make` makes of it, when the requests that use it are over. The mapping is not
    /// suspended meanwhile.
    ///
    /// # Errors
    /// That of `make`; [`Error::Busy`] if requests do not end, or it is suspended. Then nothing changes.
    pub(super) fn exchange(&self, make: impl FnOnce(&Serving) -> Result<Serving>) -> Result<()> {
        let Some(mut held) = self.serving.try_write_for(PATIENCE) else {
            return Err(Error::Busy(
                "requests for the mapping do not end, so its provider stays: look at its device"
                    .into(),
            ));
        };
        let next = make(held.as_ref().ok_or_else(Error::suspended)?)?;
        *self.encryption.lock() = next.encryption();
        *held = Some(Arc::new(next));
        Ok(())
    }

    /// Forgets what serves, if `may_go` says that it can go, when the requests that use it are over.
    ///
    /// # Errors
    /// That of `may_go`; [`Error::Busy`] if requests do not end.
    pub(super) fn suspend(&self, may_go: impl FnOnce(&Serving) -> Result<()>) -> Result<()> {
        let Some(mut held) = self.serving.try_write_for(PATIENCE) else {
            return Err(Error::Busy(
                "requests for the mapping do not end, so it is not suspended: look at its device"
                    .into(),
            ));
        };
        let Some(serving) = &*held else {
            return Err(Error::usage("the mapping is suspended already"));
        };
        may_go(serving)?;
        // Its key is gone before the mapping is called suspended.
        *held = None;
        self.suspension.lock().is_suspended = true;
        Ok(())
    }
}
