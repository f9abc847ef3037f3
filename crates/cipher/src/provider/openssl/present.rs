//! Ciphers and hashes of OpenSSL 3. Fetching a cipher by its name takes long. So an engine does it once, and keeps a
//! context for each thread and direction.

use openssl::cipher::Cipher;
use openssl::cipher_ctx::CipherCtx;
use openssl::error::ErrorStack;
use openssl::hash::{Hasher, MessageDigest};
use openssl::pkey::PKey;
use openssl::sign::Signer;
use zeroize::Zeroizing;

use crate::block::per_thread::PerThread;
use crate::ffi::Direction;
use crate::sector::{SectorEngine, Sectors};
use crate::{
    AeadAlgorithm, BlockCipher, Digest, DigestOutput, Error, Provider, Result, SectorMode,
    SectorSpec, TAG_LEN, eq,
};

/// A result of the crate `openssl`.
type OpenSslResult<T> = std::result::Result<T, ErrorStack>;

const UNSUPPORTED: Error = Error::Unsupported {
    provider: Provider::OpenSsl,
};

pub(crate) fn version() -> String {
    openssl::version::version().into()
}

fn library(_: ErrorStack) -> Error {
    Error::Library
}

/// The sectors of `spec`, as far as OpenSSL has it.
pub(crate) fn sectors(spec: SectorSpec, key: &[u8]) -> Result<Box<dyn SectorEngine>> {
    let family = match spec.cipher() {
        BlockCipher::Aes => "AES",
        BlockCipher::Camellia => "CAMELLIA",
        BlockCipher::Serpent | BlockCipher::Twofish => return Err(UNSUPPORTED),
    };
    let (one, two) = key.split_at(key.len() / 2);
    let bits = match spec.mode() {
        // OpenSSL refuses equal halves too.
        SectorMode::Xts if eq(one, two) => return Err(UNSUPPORTED),
        SectorMode::Xts => 4 * key.len(),
        _ => 8 * key.len(),
    };
    let name = format!("{family}-{bits}-{}", spec.mode().name().to_uppercase());
    let cipher = Cipher::fetch(None, &name, None).map_err(|_| UNSUPPORTED)?;
    Ok(Box::new(SectorKey {
        cipher,
        mode: spec.mode(),
        key: Zeroizing::new(key.to_vec()),
        contexts: PerThread::new(),
    }))
}

struct SectorKey {
    cipher: Cipher,
    mode: SectorMode,
    key: Zeroizing<Vec<u8>>,
    contexts: PerThread<CipherCtx>,
}

impl SectorKey {
    fn context(&self, direction: Direction) -> OpenSslResult<CipherCtx> {
        let mut context = CipherCtx::new()?;
        let (cipher, key) = (Some(&*self.cipher), Some(&self.key[..]));
        let zeros = [0; 16];
        let iv = (self.mode != SectorMode::Ecb).then_some(&zeros[..]);
        match direction {
            Direction::Encrypt => context.encrypt_init(cipher, key, iv)?,
            Direction::Decrypt => context.decrypt_init(cipher, key, iv)?,
        }
        context.set_padding(false);
        Ok(context)
    }

    /// Returns how much was done.
    fn sector(
        &self,
        context: &mut CipherCtx,
        direction: Direction,
        iv: Option<&[u8]>,
        sector: &mut [u8],
        scratch: &mut Vec<u8>,
    ) -> OpenSslResult<usize> {
        match direction {
            Direction::Encrypt => context.encrypt_init(None, None, iv)?,
            Direction::Decrypt => context.decrypt_init(None, None, iv)?,
        }
        let len = sector.len();
        match self.mode {
            // The crate requires one spare block of output beyond what these modes write.
            SectorMode::Cbc | SectorMode::Ecb => {
                scratch.resize(len + 16, 0);
                let done = context.cipher_update(sector, Some(scratch))?;
                sector.copy_from_slice(&scratch[..len]);
                Ok(done)
            }
            _ => context.cipher_update_inplace(sector, len),
        }
    }
}

impl SectorEngine for SectorKey {
    fn run(&self, direction: Direction, sectors: Sectors<'_>) -> Result<()> {
        let new = || self.context(direction).map_err(library);
        let mut context = self.contexts.get(direction, new)?;
        let mut scratch = Zeroizing::new(Vec::new());
        sectors.each(|iv, sector| {
            let iv = (self.mode != SectorMode::Ecb).then_some(&iv[..]);
            let done = self.sector(&mut context, direction, iv, sector, &mut scratch);
            match done.map_err(library)? == sector.len() {
                true => Ok(()),
                false => Err(Error::Library),
            }
        })
    }
}

/// Seals in place. The lengths of key and nonce are right.
pub(crate) fn seal(
    algorithm: AeadAlgorithm,
    key: &[u8],
    nonce: &[u8],
    aad: &[u8],
    data: &mut [u8],
) -> Result<[u8; TAG_LEN]> {
    let mut run = || -> OpenSslResult<[u8; TAG_LEN]> {
        let mut context = CipherCtx::new()?;
        let cipher = with_name(algorithm)?;
        context.encrypt_init(Some(&cipher), None, None)?;
        context.set_iv_length(nonce.len())?;
        context.encrypt_init(None, Some(key), Some(nonce))?;
        context.cipher_update(aad, None)?;
        let len = data.len();
        context.cipher_update_inplace(data, len)?;
        context.cipher_final(&mut [])?;
        let mut tag = [0; TAG_LEN];
        context.tag(&mut tag)?;
        Ok(tag)
    };
    run().map_err(library)
}

/// Opens in place.
pub(crate) fn open(
    algorithm: AeadAlgorithm,
    key: &[u8],
    nonce: &[u8],
    aad: &[u8],
    data: &mut [u8],
    tag: &[u8; TAG_LEN],
) -> Result<()> {
    let mut run = || -> OpenSslResult<CipherCtx> {
        let mut context = CipherCtx::new()?;
        let cipher = with_name(algorithm)?;
        context.decrypt_init(Some(&cipher), None, None)?;
        context.set_iv_length(nonce.len())?;
        context.decrypt_init(None, Some(key), Some(nonce))?;
        context.cipher_update(aad, None)?;
        let len = data.len();
        context.cipher_update_inplace(data, len)?;
        context.set_tag(tag)?;
        Ok(context)
    };
    let ended = run().map_err(library)?.cipher_final(&mut []);
    ended.map(drop).map_err(|_| Error::Unauthentic)
}

fn with_name(algorithm: AeadAlgorithm) -> OpenSslResult<Cipher> {
    let name = algorithm.name().to_uppercase();
    Cipher::fetch(None, &name, None)
}

pub(crate) fn hash(digest: Digest, parts: &[&[u8]]) -> Result<DigestOutput> {
    let mut hasher = Hasher::new(message_digest(digest)?).map_err(library)?;
    for part in parts {
        hasher.update(part).map_err(library)?;
    }
    hasher
        .finish()
        .map(|hash| DigestOutput::new(&hash))
        .map_err(library)
}

pub(crate) fn hmac(digest: Digest, key: &[u8], parts: &[&[u8]]) -> Result<DigestOutput> {
    let message_digest = message_digest(digest)?;
    let run = || -> OpenSslResult<DigestOutput> {
        // It takes no empty key, which is the same as zeros.
        let key = PKey::hmac(if key.is_empty() { &[0] } else { key })?;
        let mut signer = Signer::new(message_digest, &key)?;
        for part in parts {
            signer.update(part)?;
        }
        signer.sign_to_vec().map(|mac| DigestOutput::new(&mac))
    };
    run().map_err(library)
}

fn message_digest(digest: Digest) -> Result<MessageDigest> {
    let name = match digest {
        // The old ones are in a part of OpenSSL that is not loaded.
        Digest::Ripemd160 | Digest::Whirlpool => return Err(UNSUPPORTED),
        Digest::Blake2b512 => "blake2b512",
        Digest::Blake2s256 => "blake2s256",
        other => other.name(),
    };
    MessageDigest::from_name(name).ok_or(UNSUPPORTED)
}
