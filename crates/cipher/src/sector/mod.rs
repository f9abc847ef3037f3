//! Ciphers of sectors: what dm-crypt and LUKS do to a block device.
//!
//! A sector is encrypted in place and keeps its length, so nothing is authenticated. An attacker who can write to the
//! device can garble sectors, or put old ones back. An IV is computed from the sector's number. The names are those
//! of dm-crypt (`aes-xts-plain64`), and what is made here is what the Linux kernel reads.
//!
//! AWS-LC serves AES, and libgcrypt Twofish, with one context for each thread that uses a cipher. The portable
//! implementations of RustCrypto serve the other ciphers. They also serve AES in XTS with short keys, on processors
//! with wide registers for AES. [`crate::Policy`] can say otherwise.

mod aes;
pub(crate) mod any_length_xts;
mod engine;
mod iv;
mod lrw;
mod modes;
mod wide;

use std::fmt;

use crate::block::{blocks, libgcrypt};
use crate::ffi::Direction;
use crate::provider::policy;
use crate::{BlockCipher, Error, Mechanism, Provider, Result, SectorSpec, pieces};
use engine::SectorIvs;
pub(crate) use engine::{SectorEngine, Sectors};
use iv::IvGenerator;

/// A key, ready to seal and open the sectors of a device.
///
/// Shared between threads without locks. Keys are overwritten on drop.
///
/// ```
/// use cipher::{SectorCipher, SectorSpec};
///
/// # fn main() -> cipher::Result<()> {
/// let spec = SectorSpec::parse("aes-xts-plain64")?;
/// let cipher = SectorCipher::new(spec, &std::array::from_fn::<u8, 64, _>(|i| i as u8))?;
/// let mut data = vec![0; 128 << 10];
/// // 32 sectors of 4096 bytes from number 800 on, counted in units of 512 bytes.
/// cipher.encrypt(800, 8, 4096, &mut data)?;
/// cipher.decrypt(800, 8, 4096, &mut data)?;
/// assert!(data.iter().all(|byte| *byte == 0));
/// # Ok(())
/// # }
/// ```
pub struct SectorCipher {
    spec: SectorSpec,
    provider: Provider,
    iv: IvGenerator,
    engine: Box<dyn SectorEngine>,
}

impl SectorSpec {
    /// Reads `CIPHER-MODE-IV`, or `CIPHER-ecb`: `aes-xts-plain64`, `serpent-cbc-essiv:sha256`.
    ///
    /// As in dm-crypt, `CIPHER` and `CIPHER-plain` are short for `CIPHER-cbc-plain`, and
    /// `capi:MODE(CIPHER)-IV` is another way to write it.
    ///
    /// # Errors
    /// [`Error::SectorName`], which says what is wrong.
    pub fn parse(name: &str) -> Result<SectorSpec> {
        SectorSpec::read(name).map_err(Error::SectorName)
    }
}

impl SectorCipher {
    /// Expands `key` for `spec`, with the provider that [`Policy`](crate::Policy) names.
    ///
    /// # Errors
    /// [`Error::NotApproved`] and [`Error::Disabled`] of the policy; [`Error::SectorKey`] unless the key has one
    /// of [`SectorSpec::key_lens`].
    pub fn new(spec: SectorSpec, key: &[u8]) -> Result<SectorCipher> {
        let provider = policy::provider_with(Mechanism::of_sectors(spec), key.len())?;
        match SectorCipher::with_provider(provider, spec, key) {
            // OpenSSL lacks keys of equal halves.
            Err(Error::Unsupported { .. }) => {
                SectorCipher::with_provider(Provider::Portable, spec, key)
            }
            made => made,
        }
    }

    /// The variant of [`SectorCipher::new`] with this provider.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the provider does not have the cipher.
    pub fn with_provider(provider: Provider, spec: SectorSpec, key: &[u8]) -> Result<SectorCipher> {
        if !spec.key_lens().contains(&key.len()) {
            return Err(Error::SectorKey {
                spec,
                got: key.len(),
            });
        }
        if let name @ Mechanism::Name(mode) = Mechanism::of_sectors(spec) {
            if !name.providers().contains(&provider) {
                return Err(Error::Unsupported { provider });
            }
            return Ok(SectorCipher {
                spec,
                provider,
                iv: IvGenerator::new(provider, spec, key)?,
                engine: Box::new(wide::Wide::new(provider, mode, key)?),
            });
        }
        let engine: Box<dyn SectorEngine> = match (provider, spec.cipher()) {
            (Provider::AwsLc, BlockCipher::Aes) => aes::engine(spec.mode(), key)?,
            (Provider::OpenSsl, _) => crate::provider::openssl::sectors(spec, key)?,
            (Provider::Libgcrypt, BlockCipher::Twofish) => {
                modes::engine(spec.mode(), key, libgcrypt::twofish)?
            }
            (Provider::Portable, cipher) => {
                modes::engine(spec.mode(), key, |key| blocks::portable(cipher, key))?
            }
            _ => return Err(Error::Unsupported { provider }),
        };
        Ok(SectorCipher {
            spec,
            provider,
            iv: IvGenerator::new(provider, spec, key)?,
            engine,
        })
    }

    /// Returns the mode and the cipher of this key.
    pub fn spec(&self) -> SectorSpec {
        self.spec
    }

    /// Returns the provider that computes.
    pub fn provider(&self) -> Provider {
        self.provider
    }

    /// Seals consecutive sectors of `sector_size` bytes where they are.
    ///
    /// The first has the number `first_iv`, each other `iv_step` more than the one before: dm-crypt
    /// counts in units of 512 bytes whatever the size of the sectors, so the step is
    /// `sector_size / 512`, or 1 with its option `iv_large_sectors`.
    ///
    /// # Errors
    /// [`Error::SectorSize`] if `sector_size` is not a multiple of 16 between 16 bytes and 16 MiB, or
    /// `data` is no whole number of sectors; [`Error::Library`] when there is no memory for the first
    /// use on a thread. After the former `data` is as it was.
    pub fn encrypt(
        &self,
        first_iv: u64,
        iv_step: u64,
        sector_size: usize,
        data: &mut [u8],
    ) -> Result<()> {
        self.run(Direction::Encrypt, first_iv, iv_step, sector_size, data)
    }

    /// Opens consecutive sectors where they are; the reverse of [`SectorCipher::encrypt`], with the
    /// same arguments.
    ///
    /// # Errors
    /// As for [`SectorCipher::encrypt`].
    pub fn decrypt(
        &self,
        first_iv: u64,
        iv_step: u64,
        sector_size: usize,
        data: &mut [u8],
    ) -> Result<()> {
        self.run(Direction::Decrypt, first_iv, iv_step, sector_size, data)
    }

    /// Seals `data` as one sector with an IV of the caller's, for formats that count in other ways.
    ///
    /// # Errors
    /// As for [`SectorCipher::encrypt`].
    pub fn encrypt_with(&self, iv: &[u8; 16], data: &mut [u8]) -> Result<()> {
        self.run_with(Direction::Encrypt, iv, data)
    }

    /// The variant of [`SectorCipher::encrypt_with`] for data in several slices.
    ///
    /// # Errors
    /// As for [`SectorCipher::encrypt`].
    pub fn encrypt_pieces_with(&self, iv: &[u8; 16], pieces: &mut [&mut [u8]]) -> Result<()> {
        pieces::whole(pieces, |data| self.run_with(Direction::Encrypt, iv, data))
    }

    /// The variant of [`SectorCipher::decrypt_with`] for data in several slices.
    ///
    /// # Errors
    /// As for [`SectorCipher::encrypt`].
    pub fn decrypt_pieces_with(&self, iv: &[u8; 16], pieces: &mut [&mut [u8]]) -> Result<()> {
        pieces::whole(pieces, |data| self.run_with(Direction::Decrypt, iv, data))
    }

    /// Opens what [`SectorCipher::encrypt_with`] sealed.
    ///
    /// # Errors
    /// As for [`SectorCipher::encrypt`].
    pub fn decrypt_with(&self, iv: &[u8; 16], data: &mut [u8]) -> Result<()> {
        self.run_with(Direction::Decrypt, iv, data)
    }

    /// The variant of [`SectorCipher::encrypt`] for data in several slices, of any length and alignment. A sector may
    /// lie in many of them. Sectors that lie in one slice are sealed in place, as many in one call as lie together.
    /// The others are copied together, and back.
    ///
    /// # Errors
    /// As for [`SectorCipher::encrypt`], by the length of all the pieces.
    pub fn encrypt_pieces(
        &self,
        first_iv: u64,
        iv_step: u64,
        sector_size: usize,
        pieces: &mut [&mut [u8]],
    ) -> Result<()> {
        self.run_pieces(Direction::Encrypt, first_iv, iv_step, sector_size, pieces)
    }

    /// Opens what lies in several places, as [`SectorCipher::encrypt_pieces`] seals it.
    ///
    /// # Errors
    /// As for [`SectorCipher::encrypt_pieces`].
    pub fn decrypt_pieces(
        &self,
        first_iv: u64,
        iv_step: u64,
        sector_size: usize,
        pieces: &mut [&mut [u8]],
    ) -> Result<()> {
        self.run_pieces(Direction::Decrypt, first_iv, iv_step, sector_size, pieces)
    }

    fn run(
        &self,
        direction: Direction,
        next: u64,
        step: u64,
        sector_size: usize,
        data: &mut [u8],
    ) -> Result<()> {
        self.run_by(&self.iv, (next, step), direction, sector_size, data)
    }

    fn run_pieces(
        &self,
        direction: Direction,
        first_iv: u64,
        step: u64,
        sector_size: usize,
        pieces: &mut [&mut [u8]],
    ) -> Result<()> {
        check_sizes(sector_size, pieces.iter().map(|piece| piece.len()).sum())?;
        pieces::sectors(pieces, sector_size, |number, data| {
            let next = first_iv.wrapping_add(step.wrapping_mul(number));
            self.run(direction, next, step, sector_size, data)
        })
    }

    fn run_with(&self, direction: Direction, iv: &[u8; 16], data: &mut [u8]) -> Result<()> {
        self.run_by(
            &IvGenerator::Given(*iv),
            (0, 0),
            direction,
            data.len(),
            data,
        )
    }

    fn run_by(
        &self,
        generator: &IvGenerator,
        (next, step): (u64, u64),
        direction: Direction,
        size: usize,
        data: &mut [u8],
    ) -> Result<()> {
        check_sizes(size, data.len())?;
        let ivs = SectorIvs {
            generator,
            next,
            step,
        };
        self.engine.run(direction, Sectors { ivs, size, data })
    }
}

fn check_sizes(sector: usize, data: usize) -> Result<()> {
    // 16 MiB is what XTS may protect under one tweak (IEEE 1619, 5.1).
    let sizes = 16..=16 << 20;
    if sizes.contains(&sector) && sector.is_multiple_of(16) && data.is_multiple_of(sector) {
        return Ok(());
    }
    Err(Error::SectorSize { sector, data })
}

impl fmt::Debug for SectorCipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SectorCipher({}, [redacted])", self.spec)
    }
}
