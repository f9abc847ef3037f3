//! Names: the tweak of the file and its name, encrypted with AES-CBC, with a checksum, in base64.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::alphabet::Alphabet;
use base64::engine::{GeneralPurpose, general_purpose::NO_PAD};
use cipher::{SectorCipher, SectorSpec, Vmac};
use secret::Secret;
use vfs::{Error, Result};

/// The longest name, in bytes: its ciphertext has 247.
pub(super) const NAME_MAX: usize = 168;

/// The random tweak of each file, which is stored in its name only.
pub(super) type FileTweak = [u8; 8];

const CHECKSUM_LEN: usize = 8;

/// `A-Z a-z 0-9 + _`, without padding. What has bits set that say nothing is refused: it was never written.
static BASE64: LazyLock<GeneralPurpose> = LazyLock::new(|| {
    let alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+_";
    GeneralPurpose::new(&Alphabet::new(alphabet).expect("64 characters"), NO_PAD)
});

/// The keys of names and of their checksums.
pub(super) struct PefsNameKey {
    cipher: SectorCipher,
    checksum: Vmac,
}

impl PefsNameKey {
    /// Makes the keys of keys of 16 bytes or more, which are cut.
    pub(super) fn new(name: &Secret, checksum: &Secret) -> cipher::Result<PefsNameKey> {
        let spec = SectorSpec::parse("aes-cbc-null")?;
        let checksum = checksum.expose().first_chunk().expect("64 bytes");
        Ok(PefsNameKey {
            cipher: SectorCipher::new(spec, &name.expose()[..16])?,
            checksum: Vmac::new(checksum)?,
        })
    }

    /// The stored name.
    pub(super) fn seal(&self, tweak: &FileTweak, plain: &[u8]) -> Result<Vec<u8>> {
        if plain.len() > NAME_MAX {
            return Err(Error::NameTooLong);
        }
        let mut sealed = [&tweak[..], plain].concat();
        sealed.resize(sealed.len().next_multiple_of(16), 0);
        self.cipher
            .encrypt_with(&[0; 16], &mut sealed)
            .map_err(|_| Error::Io)?;
        let checksum = self.checksum(&sealed).ok_or(Error::Io)?.to_le_bytes();
        let mut name = b".".to_vec();
        name.extend(encode(&[&checksum[..], &sealed].concat()));
        Ok(name)
    }

    /// The tweak and the name of a stored name; nothing if it is not one of this key's.
    pub(super) fn open(&self, stored: &[u8]) -> Option<(FileTweak, Vec<u8>)> {
        let bytes = decode(stored.strip_prefix(b".")?)?;
        let (checksum, sealed) = bytes.split_first_chunk::<CHECKSUM_LEN>()?;
        let is_whole = sealed.len() >= 16 && sealed.len().is_multiple_of(16);
        if !is_whole || self.checksum(sealed)? != u64::from_le_bytes(*checksum) {
            return None;
        }
        let mut plain = sealed.to_vec();
        self.cipher.decrypt_with(&[0; 16], &mut plain).ok()?;
        let (tweak, name) = plain.split_first_chunk()?;
        let end = name.iter().rposition(|byte| *byte != 0)? + 1;
        let (tweak, name) = (*tweak, name[..end].to_vec());
        let is_name = name.len() <= NAME_MAX && !name.contains(&b'/') && !name.contains(&0);
        (is_name && name != b"." && name != b"..").then_some((tweak, name))
    }

    fn checksum(&self, sealed: &[u8]) -> Option<u64> {
        let mut nonce = *sealed.first_chunk()?;
        nonce[15] &= !1;
        Some(self.checksum.mac(&nonce, sealed))
    }
}

/// Bytes as names and targets of links are stored.
pub(super) fn encode(bytes: &[u8]) -> Vec<u8> {
    BASE64.encode(bytes).into_bytes()
}

/// The reverse of [`encode`].
pub(super) fn decode(stored: &[u8]) -> Option<Vec<u8>> {
    BASE64.decode(stored).ok()
}
