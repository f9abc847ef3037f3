//! Encryption and authentication of a sector together, as dm-crypt does it.
//!
//! The authenticated data is the sector's number, the IV, and the encrypted sector. The number is counted in 512
//! bytes from the beginning of the data, with 64 bits, little-endian. So a sector cannot be moved to another address.
//! It can be put back as it was at another time, with its tag. What is stored for a sector is the tag, and behind it
//! the IV if that is random.
//!
//! - `hmac(HASH)` with a sector cipher: encrypt, then HMAC. The volume key is the key of the cipher and, behind it,
//!   that of the HMAC. The latter is as long as the hash.
//! - `aead` with AES-GCM or AES-CCM (RFC 4309: three more bytes of key begin each nonce, and the IV is
//!   not authenticated for itself), and `poly1305` with ChaCha20 (RFC 8439).

use cipher::{AeadAlgorithm, AeadCipher, Digest, IvMode, SectorCipher, SectorMode, SectorSpec};
use secret::Secret;

use crate::model::Integrity;
use crate::{Error, Result, crypto};

/// The length of the tag of an AEAD, in bytes.
const AEAD_TAG_LEN: usize = 16;
/// The length of the IV of a sector cipher, in bytes.
const CIPHER_IV_LEN: usize = 16;
/// The length of the sector number in the authenticated data, in bytes.
const NUMBER_LEN: usize = 8;
/// The part of the key that begins the nonces of RFC 4309, in bytes.
const SALT_LEN: usize = 3;

/// The algorithms that the encryption and the integrity of a header name together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SealSpec {
    kind: Kind,
    iv: SealIv,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Mac(SectorSpec, Digest),
    Gcm,
    Ccm,
    ChaCha20Poly1305,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SealIv {
    /// A new IV for each write, stored behind the tag.
    Random,
    /// The IV follows from the number of the sector.
    Computed(IvMode),
}

impl SealSpec {
    /// Reads what a header says: `aes-xts-plain64` and `hmac(sha256)`.
    ///
    /// # Errors
    /// [`Error::Unsupported`], by name.
    pub(crate) fn parse(encryption: &str, integrity: &Integrity, device: &str) -> Result<SealSpec> {
        if let Some(journal) = &integrity.journal {
            let what = format!("its integrity journal is protected with {journal}");
            return Err(Error::unsupported(device, what));
        }
        let spec = SealSpec::of_kind(encryption, &integrity.kind, device)?;
        match integrity.key_len {
            Some(len) if len != spec.mac_key_len() => {
                let kind = &integrity.kind;
                let what = format!("it has a key of {} bits for {kind}", 8 * len);
                Err(Error::unsupported(device, what))
            }
            _ => Ok(spec),
        }
    }

    fn of_kind(encryption: &str, integrity: &str, device: &str) -> Result<SealSpec> {
        let unknown = |why: &str| {
            let what = format!(
                "its sectors are encrypted with {encryption} and authenticated with {integrity}: {why}"
            );
            Error::unsupported(device, what)
        };
        if let Some(hash) = hash_of(integrity) {
            let digest = ["sha1", "sha256", "sha512"]
                .contains(&hash)
                .then(|| Digest::from_name(hash));
            let digest = digest.flatten();
            let digest =
                digest.ok_or_else(|| unknown("the hash is none of sha1, sha256, sha512"))?;
            let (name, is_random) = match encryption.strip_suffix("-random") {
                Some(cipher) => (format!("{cipher}-plain64"), true),
                None => (encryption.to_owned(), false),
            };
            let spec = crypto::spec(&name, device)?;
            if matches!(spec.mode(), SectorMode::Adiantum12 | SectorMode::Adiantum20) {
                return Err(unknown("its IV has 32 bytes"));
            }
            let iv = match (is_random, spec.iv()) {
                (true, _) => SealIv::Random,
                (_, IvMode::Benbi) => return Err(unknown("there is no benbi with integrity")),
                (_, mode) => SealIv::Computed(mode),
            };
            return Ok(SealSpec {
                kind: Kind::Mac(spec, digest),
                iv,
            });
        }
        let (cipher, iv) = encryption.rsplit_once('-').unwrap_or((encryption, ""));
        let kind = match (integrity, cipher) {
            ("aead", "aes-gcm") => Kind::Gcm,
            ("aead", "aes-ccm") => Kind::Ccm,
            ("poly1305", "chacha20") => Kind::ChaCha20Poly1305,
            ("aead", "aegis128") => return Err(unknown("there is no AEGIS here")),
            _ => return Err(unknown("this version does not know the two together")),
        };
        let iv = match iv {
            "random" => SealIv::Random,
            "plain64" => SealIv::Computed(IvMode::Plain64),
            _ => return Err(unknown("the IV is neither random nor plain64")),
        };
        Ok(SealSpec { kind, iv })
    }

    /// Returns the lengths that the encrypting part of the volume key may have, in bytes.
    pub(crate) fn key_lens(&self) -> &'static [usize] {
        match self.kind {
            Kind::Mac(spec, _) => spec.key_lens(),
            Kind::Gcm => &[16, 24, 32],
            Kind::Ccm => &[16 + SALT_LEN, 24 + SALT_LEN, 32 + SALT_LEN],
            Kind::ChaCha20Poly1305 => &[32],
        }
    }

    /// Returns the length of the part of the volume key that only authenticates, in bytes.
    pub(crate) fn mac_key_len(&self) -> usize {
        match self.kind {
            Kind::Mac(_, digest) => digest.output_len(),
            _ => 0,
        }
    }

    /// Returns whether the IV must be random. A computed IV comes again when a sector is written again, and gives away
    /// what it protects.
    pub(crate) fn needs_random(&self) -> bool {
        !matches!(self.kind, Kind::Mac(..)) && self.iv != SealIv::Random
    }

    /// Returns the number of bytes that are stored for each sector.
    pub(super) fn tag_len(&self) -> usize {
        match self.iv {
            SealIv::Random => self.mac_len() + self.iv_len(),
            SealIv::Computed(_) => self.mac_len(),
        }
    }

    fn mac_len(&self) -> usize {
        match self.kind {
            Kind::Mac(_, digest) => digest.output_len(),
            _ => AEAD_TAG_LEN,
        }
    }

    fn iv_len(&self) -> usize {
        match self.kind {
            Kind::Mac(..) => CIPHER_IV_LEN,
            Kind::Gcm | Kind::ChaCha20Poly1305 => 12,
            Kind::Ccm => 8,
        }
    }
}

/// The hash of `hmac(HASH)`.
fn hash_of(integrity: &str) -> Option<&str> {
    integrity.strip_prefix("hmac(")?.strip_suffix(')')
}

/// Seals and opens sectors with a volume key.
pub(super) struct Seal {
    spec: SealSpec,
    engine: SealEngine,
    /// Encrypts the numbers of sectors to IVs, for ESSIV.
    essiv: Option<SectorCipher>,
    /// The number that is added to the number of a sector for its IV.
    iv_offset: u64,
}

enum SealEngine {
    Mac {
        cipher: SectorCipher,
        digest: Digest,
        key: Secret,
    },
    Aead {
        cipher: AeadCipher,
        salt: Vec<u8>,
    },
}

impl Seal {
    /// # Errors
    /// [`Error::Unsupported`] if the key has another length.
    pub(super) fn new(spec: SealSpec, key: &Secret, iv_offset: u64, device: &str) -> Result<Seal> {
        let encrypts = key.len().checked_sub(spec.mac_key_len());
        let encrypts = encrypts.filter(|len| spec.key_lens().contains(len));
        let Some(encrypts) = encrypts else {
            let what = format!("a key of {} bits is none for its encryption", key.len() * 8);
            return Err(Error::unsupported(device, what));
        };
        let (cipher_key, rest) = key.expose().split_at(encrypts);
        let engine = match spec.kind {
            Kind::Mac(cipher, digest) => {
                digest.check()?;
                SealEngine::Mac {
                    cipher: SectorCipher::new(cipher, cipher_key)?,
                    digest,
                    key: Secret::from_slice(rest)?,
                }
            }
            Kind::Gcm | Kind::ChaCha20Poly1305 => SealEngine::Aead {
                cipher: AeadCipher::new(aead(spec.kind, encrypts), cipher_key)?,
                salt: Vec::new(),
            },
            Kind::Ccm => {
                let (cipher_key, salt) = cipher_key.split_at(encrypts - SALT_LEN);
                SealEngine::Aead {
                    cipher: AeadCipher::new(aead(spec.kind, cipher_key.len()), cipher_key)?,
                    salt: salt.to_vec(),
                }
            }
        };
        Ok(Seal {
            essiv: essiv(spec, key)?,
            spec,
            engine,
            iv_offset,
        })
    }

    pub(super) fn spec(&self) -> SealSpec {
        self.spec
    }

    /// Returns the number of random bytes in the seal of a sector.
    pub(super) fn random_len(&self) -> usize {
        self.spec.tag_len() - self.spec.mac_len()
    }

    /// Encrypts a sector where it is, and writes what is stored for it to `tag`; `random` is new.
    pub(super) fn seal(
        &self,
        sector: u64,
        data: &mut [u8],
        tag: &mut [u8],
        random: &[u8],
    ) -> cipher::Result<()> {
        let aad = self.aad(sector, random)?;
        let (mac, stored) = tag.split_at_mut(self.spec.mac_len());
        stored.copy_from_slice(random);
        match &self.engine {
            SealEngine::Mac {
                cipher,
                digest,
                key,
            } => {
                cipher.encrypt_with(&aad.cipher_iv(), data)?;
                mac.copy_from_slice(&digest.hmac(key.expose(), &[aad.bytes(), data]));
            }
            SealEngine::Aead { cipher, salt } => {
                let sealed = cipher.seal(&aad.nonce(salt), aad.of_aead(salt), data)?;
                mac.copy_from_slice(&sealed);
            }
        }
        Ok(())
    }

    /// Decrypts a sector where it is; it is zeroed on failure.
    ///
    /// # Errors
    /// [`cipher::Error::Unauthentic`].
    pub(super) fn open(&self, sector: u64, data: &mut [u8], tag: &[u8]) -> cipher::Result<()> {
        let (mac, stored) = tag.split_at(self.spec.mac_len());
        let aad = self.aad(sector, stored)?;
        match &self.engine {
            SealEngine::Mac {
                cipher,
                digest,
                key,
            } => {
                let expected = digest.hmac(key.expose(), &[aad.bytes(), data]);
                if !cipher::eq(&expected, mac) {
                    data.fill(0);
                    return Err(cipher::Error::Unauthentic);
                }
                let opened = cipher.decrypt_with(&aad.cipher_iv(), data);
                opened.inspect_err(|_| data.fill(0))
            }
            SealEngine::Aead { cipher, salt } => {
                let mac = mac.try_into().map_err(|_| cipher::Error::Unauthentic)?;
                cipher.open(&aad.nonce(salt), aad.of_aead(salt), data, mac)
            }
        }
    }

    /// Returns the authenticated data of a sector, apart from its contents.
    fn aad(&self, sector: u64, stored: &[u8]) -> cipher::Result<Aad> {
        let mut aad = Aad {
            bytes: [0; NUMBER_LEN + CIPHER_IV_LEN],
            len: NUMBER_LEN + self.spec.iv_len(),
        };
        aad.bytes[..NUMBER_LEN].copy_from_slice(&sector.to_le_bytes());
        let number = sector.wrapping_add(self.iv_offset);
        let iv = &mut aad.bytes[NUMBER_LEN..aad.len];
        match self.spec.iv {
            SealIv::Random => iv.copy_from_slice(stored),
            SealIv::Computed(IvMode::Null | IvMode::Benbi) => {}
            SealIv::Computed(IvMode::Plain) => {
                iv[..4].copy_from_slice(&(number as u32).to_le_bytes());
            }
            SealIv::Computed(IvMode::Plain64Be) => {
                let at = iv.len() - 8;
                iv[at..].copy_from_slice(&number.to_be_bytes());
            }
            SealIv::Computed(IvMode::Plain64 | IvMode::Essiv(_)) => {
                iv[..8].copy_from_slice(&number.to_le_bytes());
            }
        }
        if let Some(essiv) = &self.essiv {
            essiv.encrypt_with(&[0; 16], iv)?;
        }
        Ok(aad)
    }
}

/// The number of a sector, and its IV.
struct Aad {
    bytes: [u8; NUMBER_LEN + CIPHER_IV_LEN],
    len: usize,
}

impl Aad {
    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn cipher_iv(&self) -> [u8; CIPHER_IV_LEN] {
        let iv = &self.bytes[NUMBER_LEN..];
        iv.try_into().expect("the array is as long")
    }

    fn nonce(&self, salt: &[u8]) -> Vec<u8> {
        [salt, &self.bytes[NUMBER_LEN..self.len]].concat()
    }

    /// RFC 4309, which has a salt, authenticates the IV as part of the nonce only.
    fn of_aead(&self, salt: &[u8]) -> &[u8] {
        match salt {
            [] => self.bytes(),
            _ => &self.bytes[..NUMBER_LEN],
        }
    }
}

fn aead(kind: Kind, key_len: usize) -> AeadAlgorithm {
    match (kind, key_len) {
        (Kind::Gcm, 16) => AeadAlgorithm::Aes128Gcm,
        (Kind::Gcm, 24) => AeadAlgorithm::Aes192Gcm,
        (Kind::Gcm, _) => AeadAlgorithm::Aes256Gcm,
        (Kind::Ccm, 16) => AeadAlgorithm::Aes128Ccm,
        (Kind::Ccm, 24) => AeadAlgorithm::Aes192Ccm,
        (Kind::Ccm, _) => AeadAlgorithm::Aes256Ccm,
        _ => AeadAlgorithm::ChaCha20Poly1305,
    }
}

/// The key for ESSIV is the hash of the whole volume key, unlike without integrity.
fn essiv(spec: SealSpec, key: &Secret) -> Result<Option<SectorCipher>> {
    let (Kind::Mac(cipher, _), SealIv::Computed(IvMode::Essiv(digest))) = (spec.kind, spec.iv)
    else {
        return Ok(None);
    };
    let blocks = SectorSpec::parse(&format!("{}-ecb", cipher.cipher().name()))?;
    let hash = digest.hash(&[key.expose()]);
    Ok(Some(SectorCipher::new(blocks, &hash)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [(&str, &str, usize, usize); 8] = [
        ("aes-xts-plain64", "hmac(sha256)", 64 + 32, 32),
        ("aes-xts-random", "hmac(sha256)", 64 + 32, 32 + 16),
        ("aes-xts-plain64", "hmac(sha512)", 64 + 64, 64),
        ("aes-cbc-essiv:sha256", "hmac(sha256)", 32 + 32, 32),
        ("aes-gcm-random", "aead", 32, 16 + 12),
        ("aes-gcm-plain64", "aead", 16, 16),
        ("aes-ccm-random", "aead", 35, 16 + 8),
        ("chacha20-random", "poly1305", 32, 16 + 12),
    ];

    fn seal(name: &str, integrity: &str, key_len: usize) -> Seal {
        let spec = SealSpec::parse(name, &Integrity::new(integrity), "a device").unwrap();
        let key: Vec<u8> = (0..key_len as u8).collect();
        let key = Secret::from_slice(&key).unwrap();
        Seal::new(spec, &key, 0, "a device").unwrap()
    }

    #[test]
    fn whatever_is_changed_is_noticed() {
        for (name, integrity, key_len, tag_len) in NAMES {
            let seal = seal(name, integrity, key_len);
            assert_eq!(seal.spec().tag_len(), tag_len, "{name}");
            let random = vec![7; seal.random_len()];
            let (mut data, mut tag) = (vec![9; 512], vec![0; tag_len]);
            seal.seal(5, &mut data, &mut tag, &random).unwrap();
            let mut opened = data.clone();
            seal.open(5, &mut opened, &tag).unwrap();
            assert_eq!(opened, [9; 512], "{name}");
            let fails = |sector, data: &[u8], tag: &[u8]| {
                let mut data = data.to_vec();
                let opened = seal.open(sector, &mut data, tag);
                assert!(matches!(opened, Err(cipher::Error::Unauthentic)), "{name}");
                assert_eq!(data, [0; 512], "{name}");
            };
            fails(6, &data, &tag);
            for at in 0..tag_len {
                tag[at] ^= 1;
                fails(5, &data, &tag);
                tag[at] ^= 1;
            }
            data[511] ^= 0x80;
            fails(5, &data, &tag);
        }
    }

    #[test]
    fn what_is_not_known_is_refused_by_its_name() {
        for (name, integrity, says) in [
            ("aegis128-random", "aead", "AEGIS"),
            ("aes-xts-plain64", "cmac(aes)", "cmac(aes)"),
            ("aes-xts-plain64", "hmac(md5)", "hash"),
            ("aes-gcm-plain", "aead", "IV"),
            ("aes-xts-benbi", "hmac(sha256)", "benbi"),
            ("xchacha20,aes-adiantum-plain64", "hmac(sha256)", "32 bytes"),
            ("aes-gcm-random", "none", "aes-gcm-random"),
            ("", "", "together"),
        ] {
            let refused = SealSpec::parse(name, &Integrity::new(integrity), "a device");
            let refused = refused.unwrap_err();
            assert!(refused.to_string().contains(says), "{refused}");
        }
        let hmac = Integrity::new("hmac(sha256)");
        let parse = |integrity| SealSpec::parse("aes-xts-plain64", &integrity, "a device");
        let refused = parse(Integrity {
            key_len: Some(20),
            ..hmac.clone()
        });
        assert!(refused.unwrap_err().to_string().contains("160 bits"));
        let refused = parse(Integrity {
            journal: Some("ctr(aes)".into()),
            ..hmac.clone()
        });
        assert!(refused.unwrap_err().to_string().contains("ctr(aes)"));
        let spec = parse(hmac).unwrap();
        let short = Secret::from_slice(&[1; 60]).unwrap();
        assert!(Seal::new(spec, &short, 0, "a device").is_err());
    }
}
