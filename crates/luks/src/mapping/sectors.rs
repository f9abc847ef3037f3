//! Reads and writes sectors of a mapping on the thread of the caller.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::sync::Arc;

use block::BlockDevice;
use cipher::{Mechanism, Policy, Provider, SectorCipher, SectorSpec};
use secret::Secret;

use crate::integrity::{SealedSectors, TagMode};
use crate::model::{SECTOR, Segment};
use crate::{Error, Result, crypto};

/// Requests are cut into pieces of this many bytes. A piece stays in the cache of the processor between encryption
/// and write.
pub(super) const PIECE: usize = 128 << 10;

/// The cipher and the device of a mapping, which the pool of threads also uses.
pub(super) struct SectorCore {
    pub(super) device: Arc<dyn BlockDevice>,
    pub(super) form: SectorForm,
    /// The cipher, for example `aes-xts-plain64`.
    pub(super) encryption: String,
    pub(super) start: u64,
    pub(super) sector: usize,
}

/// The form of sectors on the device.
pub(super) enum SectorForm {
    /// Encrypted sectors, as long as the plain ones, one behind the other.
    Encrypted {
        cipher: SectorCipher,
        /// The key, for a change of the provider.
        key: Secret,
        iv_offset: u64,
    },
    /// Plain sectors.
    Plain,
    /// Sectors with tags.
    Sealed(Box<SealedSectors>),
}

thread_local! {
    /// Buffers of this thread that are not in use. There is more than one only where one mapping lies
    /// on another. They hold ciphertext.
    static BUFFERS: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Calls `act` with a buffer of this thread.
pub(super) fn with_buffer<T>(act: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    let taken = BUFFERS.with_borrow_mut(Vec::pop);
    let mut buffer = taken.unwrap_or_else(|| Vec::with_capacity(PIECE));
    let done = act(&mut buffer);
    buffer.clear();
    BUFFERS.with_borrow_mut(|buffers| buffers.push(buffer));
    done
}

impl SectorCore {
    /// A part of a device that is encrypted.
    pub(super) fn new(
        segment: &Segment,
        device: Arc<dyn BlockDevice>,
        key: &Secret,
        mode: TagMode,
    ) -> Result<SectorCore> {
        let (form, encryption) = match &segment.integrity {
            None => {
                let spec: SectorSpec = crypto::spec(&segment.cipher, &device.name())?;
                let form = SectorForm::Encrypted {
                    cipher: SectorCipher::new(spec, key.expose())?,
                    key: Secret::from_slice(key.expose())?,
                    iv_offset: segment.iv_offset,
                };
                (form, spec.to_string())
            }
            Some(integrity) => {
                let device = Arc::clone(&device);
                let sealed = SealedSectors::open(segment, integrity, device, key, mode)?;
                let form = SectorForm::Sealed(Box::new(sealed));
                (form, format!("{} with {}", segment.cipher, integrity.kind))
            }
        };
        Ok(SectorCore {
            device,
            form,
            encryption,
            start: segment.offset,
            sector: segment.sector_size as usize,
        })
    }

    /// A part of a device in re-encryption, which may not be encrypted.
    pub(super) fn part(
        segment: &Segment,
        device: Arc<dyn BlockDevice>,
        key: Option<&Secret>,
    ) -> Result<SectorCore> {
        if !segment.is_linear() {
            let missing = || Error::usage("both keys of the container are needed");
            return SectorCore::new(segment, device, key.ok_or_else(missing)?, TagMode::ReadOnly);
        }
        Ok(SectorCore {
            device,
            form: SectorForm::Plain,
            encryption: String::new(),
            start: segment.offset,
            sector: segment.sector_size as usize,
        })
    }

    /// The same, with this provider of its cipher.
    ///
    /// # Errors
    /// [`Error::Usage`], which names the providers that there are.
    pub(super) fn by(&self, provider: Provider) -> Result<SectorCore> {
        let SectorForm::Encrypted {
            cipher,
            key,
            iv_offset,
        } = &self.form
        else {
            return Err(Error::usage(
                "the provider is chosen for sectors that are encrypted without tags only",
            ));
        };
        let spec = cipher.spec();
        let choices = Policy::current().choices(Mechanism::of_sectors(spec), key.len())?;
        if !choices.contains(&provider) {
            let names: Vec<&str> = choices.iter().map(|choice| choice.name()).collect();
            return Err(Error::Usage(format!(
                "{provider} does not serve {spec} with a key of {} bits here: choose {}",
                8 * key.len(),
                names.join(" or ")
            )));
        }
        Ok(SectorCore {
            device: Arc::clone(&self.device),
            form: SectorForm::Encrypted {
                cipher: SectorCipher::with_provider(provider, spec, key.expose())?,
                key: Secret::from_slice(key.expose())?,
                iv_offset: *iv_offset,
            },
            encryption: self.encryption.clone(),
            start: self.start,
            sector: self.sector,
        })
    }

    /// Returns the provider of the cipher, if it can be chosen.
    pub(super) fn provider(&self) -> Option<Provider> {
        match &self.form {
            SectorForm::Encrypted { cipher, .. } => Some(cipher.provider()),
            SectorForm::Plain | SectorForm::Sealed(_) => None,
        }
    }

    /// Returns whether both map the same bytes to the same addresses of the device.
    pub(super) fn is_like(&self, other: &SectorCore) -> Result<bool> {
        let (own, others) = match (&self.form, &other.form) {
            (SectorForm::Plain, SectorForm::Plain) => return Ok(self.start == other.start),
            (
                SectorForm::Encrypted {
                    cipher, iv_offset, ..
                },
                SectorForm::Encrypted {
                    cipher: of_other,
                    iv_offset: iv_of_other,
                    ..
                },
            ) if iv_offset == iv_of_other => (cipher, of_other),
            _ => return Ok(false),
        };
        let sample = |cipher: &SectorCipher| -> Result<Vec<u8>> {
            let mut sample = vec![0; self.sector];
            cipher.encrypt(0, 1, self.sector, &mut sample)?;
            Ok(sample)
        };
        let is_same_range = (self.start, self.sector) == (other.start, other.sector);
        Ok(is_same_range && sample(own)? == sample(others)?)
    }

    /// Returns the largest possible length of the data, in bytes.
    pub(super) fn space(&self) -> u64 {
        match &self.form {
            SectorForm::Encrypted { .. } | SectorForm::Plain => {
                self.device.size().saturating_sub(self.start)
            }
            SectorForm::Sealed(sealed) => sealed.data_len(),
        }
    }

    pub(super) fn read_piece(&self, offset: u64, piece: &mut [u8]) -> block::Result<()> {
        debug_assert!(self.is_whole(offset, piece.len()));
        let (cipher, iv) = match &self.form {
            SectorForm::Encrypted {
                cipher, iv_offset, ..
            } => (cipher, iv(offset, *iv_offset)),
            SectorForm::Plain => return self.device.read_at(self.start + offset, piece),
            SectorForm::Sealed(sealed) => return sealed.read(offset, piece),
        };
        self.device.read_at(self.start + offset, piece)?;
        let done = cipher.decrypt(iv, self.iv_step(), self.sector, piece);
        done.map_err(|error| self.failed("decryption", offset, piece.len(), error))
    }

    /// Encrypts a piece in place, and writes it.
    pub(super) fn write_piece(
        &self,
        offset: u64,
        piece: &mut [u8],
        durably: bool,
    ) -> block::Result<()> {
        debug_assert!(self.is_whole(offset, piece.len()));
        if let SectorForm::Sealed(sealed) = &self.form {
            sealed.write(offset, piece)?;
            return if durably { sealed.flush() } else { Ok(()) };
        }
        self.encrypt_piece(offset, piece)?;
        self.store(offset, piece, durably)
    }

    /// Encrypts a piece in place. False, with the piece as it was, if sectors are not encrypted, or not alone.
    pub(super) fn encrypt_piece(&self, offset: u64, piece: &mut [u8]) -> block::Result<bool> {
        let SectorForm::Encrypted {
            cipher, iv_offset, ..
        } = &self.form
        else {
            return Ok(false);
        };
        let iv = iv(offset, *iv_offset);
        let done = cipher.encrypt(iv, self.iv_step(), self.sector, piece);
        if let Err(error) = done {
            piece.fill(0);
            return Err(self.failed("encryption", offset, piece.len(), error));
        }
        Ok(true)
    }

    /// Writes bytes as they are on the device.
    pub(super) fn store(&self, offset: u64, piece: &[u8], durably: bool) -> block::Result<()> {
        let (at, piece) = (self.start + offset, [IoSlice::new(piece)]);
        match durably {
            true => self.device.write_durably_at(at, &piece),
            false => self.device.write_at(at, &piece),
        }
    }

    pub(super) fn discard(&self, offset: u64, len: u64) -> block::Result<()> {
        match &self.form {
            SectorForm::Encrypted { .. } | SectorForm::Plain => {
                self.device.discard(self.start + offset, len)
            }
            // Nothing would be authentic of what was discarded.
            SectorForm::Sealed(_) => Ok(()),
        }
    }

    pub(super) fn flush(&self) -> block::Result<()> {
        match &self.form {
            SectorForm::Encrypted { .. } | SectorForm::Plain => self.device.flush(),
            SectorForm::Sealed(sealed) => sealed.flush(),
        }
    }

    /// Returns whether this is a range of whole sectors. The mapping refuses others before.
    fn is_whole(&self, offset: u64, len: usize) -> bool {
        offset.is_multiple_of(self.sector as u64) && len.is_multiple_of(self.sector)
    }

    fn iv_step(&self) -> u64 {
        self.sector as u64 / SECTOR
    }

    fn failed(
        &self,
        operation: &'static str,
        offset: u64,
        len: usize,
        error: cipher::Error,
    ) -> block::Error {
        block::Error::Io {
            device: self.device.name(),
            operation,
            offset: self.start + offset,
            len: len as u64,
            source: io::Error::other(error),
        }
    }
}

/// dm-crypt counts in 512 bytes, however large sectors are.
fn iv(offset: u64, iv_offset: u64) -> u64 {
    iv_offset.wrapping_add(offset / SECTOR)
}

/// Takes bytes from pieces, one after the other.
pub(super) struct Gather<'a> {
    pieces: &'a [IoSlice<'a>],
    /// The offset in the first of them.
    at: usize,
}

impl<'a> Gather<'a> {
    pub(super) fn new(pieces: &'a [IoSlice<'a>]) -> Gather<'a> {
        Gather { pieces, at: 0 }
    }

    /// Adds `len` bytes to a buffer; there are as many.
    pub(super) fn take(&mut self, mut len: usize, buffer: &mut Vec<u8>) {
        while let [first, rest @ ..] = self.pieces {
            let n = len.min(first.len() - self.at);
            buffer.extend_from_slice(&first[self.at..self.at + n]);
            len -= n;
            self.at += n;
            if self.at == first.len() {
                (self.pieces, self.at) = (rest, 0);
            }
            if len == 0 {
                return;
            }
        }
    }
}
