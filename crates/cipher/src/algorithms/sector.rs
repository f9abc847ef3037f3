//! The names of sector ciphers, as dm-crypt and cryptsetup write them.

use std::fmt;

use super::Digest;

/// A block cipher of 128-bit blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockCipher {
    /// FIPS 197; keys of 128, 192 and 256 bits.
    Aes,
    /// RFC 3713; keys of 128, 192 and 256 bits.
    Camellia,
    /// The AES candidate of Anderson, Biham and Knudsen; keys of 128, 192 and 256 bits.
    Serpent,
    /// The AES candidate of Schneier and others; keys of 128, 192 and 256 bits.
    Twofish,
}

/// The mode that joins the blocks of a sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SectorMode {
    /// IEEE 1619; two keys.
    Xts,
    /// NIST SP 800-38A, 6.2.
    Cbc,
    /// NIST SP 800-38A, 6.1. Equal blocks stay equal.
    Ecb,
    /// NIST SP 800-38A, 6.5, with a 128-bit counter that starts at the IV. A sector that is written
    /// twice gives both plaintexts away.
    Ctr,
    /// Liskov, Rivest and Wagner, "Tweakable Block Ciphers", 2002, as in drafts of IEEE 1619 before XTS. The tweak is
    /// the number of a block, which is the IV for the first one, times a second key of 128 bits. Equal blocks in the
    /// same place stay equal, and a block that holds the second key gives it away.
    Lrw,
    /// Adiantum with XChaCha12 and AES-256. The cipher is always [`BlockCipher::Aes`].
    Adiantum12,
    /// Adiantum with XChaCha20 and AES-256.
    Adiantum20,
}

/// The way in which the IV of a sector comes from its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IvMode {
    /// All zeros.
    Null,
    /// The low 32 bits of the number, little-endian.
    Plain,
    /// The number as 64 bits, little-endian.
    Plain64,
    /// The number as 64 bits, big-endian, at the end.
    Plain64Be,
    /// The number of the sector's first 128-bit block, from 1, big-endian, at the end.
    Benbi,
    /// `Plain64`, encrypted with the same cipher under the hash of the key.
    Essiv(Digest),
}

/// Cipher, mode and IV of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SectorSpec {
    cipher: BlockCipher,
    mode: SectorMode,
    iv: IvMode,
}

impl BlockCipher {
    /// Every cipher.
    pub const ALL: [BlockCipher; 4] = [
        BlockCipher::Aes,
        BlockCipher::Camellia,
        BlockCipher::Serpent,
        BlockCipher::Twofish,
    ];

    /// The kernel's name for it.
    pub const fn name(self) -> &'static str {
        match self {
            BlockCipher::Aes => "aes",
            BlockCipher::Camellia => "camellia",
            BlockCipher::Serpent => "serpent",
            BlockCipher::Twofish => "twofish",
        }
    }
}

impl SectorMode {
    /// Every mode of any block cipher.
    pub const ALL: [SectorMode; 5] = [
        SectorMode::Xts,
        SectorMode::Cbc,
        SectorMode::Ecb,
        SectorMode::Ctr,
        SectorMode::Lrw,
    ];

    /// The kernel's name for it.
    pub const fn name(self) -> &'static str {
        match self {
            SectorMode::Xts => "xts",
            SectorMode::Cbc => "cbc",
            SectorMode::Ecb => "ecb",
            SectorMode::Ctr => "ctr",
            SectorMode::Lrw => "lrw",
            SectorMode::Adiantum12 | SectorMode::Adiantum20 => "adiantum",
        }
    }

    /// The lengths of the keys that it takes, in bytes: both keys of XTS together.
    pub const fn key_lens(self) -> &'static [usize] {
        match self {
            SectorMode::Xts => &[32, 48, 64],
            // With the second key.
            SectorMode::Lrw => &[32, 40, 48],
            SectorMode::Adiantum12 | SectorMode::Adiantum20 => &[32],
            SectorMode::Cbc | SectorMode::Ecb | SectorMode::Ctr => &BLOCK_KEY_LENS,
        }
    }

    /// The stream cipher of Adiantum.
    const fn stream(self) -> Option<&'static str> {
        match self {
            SectorMode::Adiantum12 => Some("xchacha12"),
            SectorMode::Adiantum20 => Some("xchacha20"),
            _ => None,
        }
    }

    fn adiantum(stream: &str) -> Option<SectorMode> {
        let modes = [SectorMode::Adiantum12, SectorMode::Adiantum20];
        modes.into_iter().find(|mode| mode.stream() == Some(stream))
    }
}

impl SectorSpec {
    /// The variant of [`SectorSpec::parse`] with a short error.
    pub(crate) fn read(name: &str) -> Result<SectorSpec, &'static str> {
        match name.strip_prefix("capi:") {
            Some(name) => SectorSpec::read_usual(&usual_name(name)?),
            None => SectorSpec::read_usual(name),
        }
    }

    fn read_usual(name: &str) -> Result<SectorSpec, &'static str> {
        let mut parts = name.splitn(3, '-');
        let cipher = parts.next().unwrap_or_default();
        let stream = cipher.strip_suffix(",aes");
        if let Some(mode) = stream.and_then(SectorMode::adiantum) {
            return SectorSpec::adiantum(mode, parts.next(), parts.next());
        }
        let cipher = BlockCipher::ALL
            .into_iter()
            .find(|known| known.name() == cipher)
            .ok_or("the cipher has to be aes, camellia, serpent, twofish, or xchacha12,aes or xchacha20,aes for adiantum")?;
        let (mode, iv) = match (parts.next(), parts.next()) {
            (None | Some("plain"), None) => ("cbc", Some("plain")),
            (mode, iv) => (mode.unwrap_or_default(), iv),
        };
        let mode = SectorMode::ALL
            .into_iter()
            .find(|known| known.name() == mode)
            .ok_or("the mode has to be xts, cbc, ctr, ecb or lrw")?;
        let iv = match (mode, iv) {
            (SectorMode::Ecb, None) => IvMode::Null,
            (_, None) => return Err("the mode needs an IV, as -plain64"),
            (_, Some(iv)) => IvMode::read(iv)?,
        };
        Ok(SectorSpec { cipher, mode, iv })
    }

    /// The IV has 32 bytes: only those IVs are known that fill its beginning.
    fn adiantum(
        mode: SectorMode,
        name: Option<&str>,
        iv: Option<&str>,
    ) -> Result<SectorSpec, &'static str> {
        let iv = IvMode::read(iv.ok_or("the mode needs an IV, as -plain64")?)?;
        match (name, iv) {
            (Some("adiantum"), IvMode::Null | IvMode::Plain | IvMode::Plain64) => Ok(SectorSpec {
                cipher: BlockCipher::Aes,
                mode,
                iv,
            }),
            (Some("adiantum"), _) => Err("adiantum takes the IVs null, plain and plain64"),
            _ => Err("xchacha12,aes and xchacha20,aes are for the mode adiantum"),
        }
    }

    /// Returns the block cipher.
    pub fn cipher(self) -> BlockCipher {
        self.cipher
    }

    /// Returns the mode.
    pub fn mode(self) -> SectorMode {
        self.mode
    }

    /// Returns the way in which IVs are made.
    pub fn iv(self) -> IvMode {
        self.iv
    }

    /// The lengths of the keys that it takes, in bytes: both keys of XTS together.
    pub fn key_lens(self) -> &'static [usize] {
        self.mode.key_lens()
    }
}

/// The usual name for what dm-crypt calls `capi:` and the name that the kernel's ciphers have among each other:
/// `xts(aes)-plain64`, `cbc(aes)-essiv:sha256` or `essiv(cbc(aes),sha256)-plain64`.
fn usual_name(name: &str) -> Result<String, &'static str> {
    const WRONG: &str = "behind capi: comes MODE(CIPHER)-IV or essiv(MODE(CIPHER),HASH)-plain64, and no driver of the \
                         kernel and no cipher with tags; luks open and luks refresh choose the implementation with \
                         --provider";
    // The name of a hash may contain a hyphen.
    let (before, hash) = match name.rsplit_once(':') {
        Some((before, hash)) => (before, Some(hash)),
        None => (name, None),
    };
    let (ciphers, iv) = match before.rsplit_once(')') {
        Some((ciphers, "")) => (ciphers, None),
        Some((ciphers, iv)) => (ciphers, Some(iv.strip_prefix('-').ok_or(WRONG)?)),
        None => return Err(WRONG),
    };
    let wrapped = ciphers.strip_prefix("essiv(");
    let (inner, iv) = match (wrapped, iv, hash) {
        (Some(wrapped), Some("plain64"), None) => {
            let (inner, hash) = wrapped.rsplit_once("),").ok_or(WRONG)?;
            (inner, Some(format!("essiv:{hash}")))
        }
        (Some(_), ..) => return Err(WRONG),
        (None, Some(iv), Some(hash)) => (ciphers, Some(format!("{iv}:{hash}"))),
        (None, iv, None) => (ciphers, iv.map(String::from)),
        (None, None, Some(_)) => return Err(WRONG),
    };
    let (mode, cipher) = inner.split_once('(').ok_or(WRONG)?;
    if [mode, cipher].iter().any(|part| part.contains(['-', '('])) {
        return Err(WRONG);
    }
    Ok(match iv {
        None if mode == "ecb" => format!("{cipher}-ecb"),
        None => return Err("the mode needs an IV, as -plain64"),
        Some(iv) => format!("{cipher}-{mode}-{iv}"),
    })
}

/// The lengths of the keys of a block cipher, in bytes: the same for all of them.
const BLOCK_KEY_LENS: [usize; 3] = [16, 24, 32];

impl IvMode {
    fn read(name: &str) -> Result<IvMode, &'static str> {
        match name {
            "null" => Ok(IvMode::Null),
            "plain" => Ok(IvMode::Plain),
            "plain64" => Ok(IvMode::Plain64),
            "plain64be" => Ok(IvMode::Plain64Be),
            "benbi" => Ok(IvMode::Benbi),
            _ => {
                let hash = name.strip_prefix("essiv:").ok_or(
                    "the IV has to be null, plain, plain64, plain64be, benbi or essiv:HASH",
                )?;
                Digest::from_name(hash)
                    .filter(|digest| BLOCK_KEY_LENS.contains(&digest.output_len()))
                    .map(IvMode::Essiv)
                    .ok_or("essiv needs a hash whose output is a key, as essiv:sha256")
            }
        }
    }
}

impl fmt::Display for IvMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IvMode::Null => f.write_str("null"),
            IvMode::Plain => f.write_str("plain"),
            IvMode::Plain64 => f.write_str("plain64"),
            IvMode::Plain64Be => f.write_str("plain64be"),
            IvMode::Benbi => f.write_str("benbi"),
            IvMode::Essiv(digest) => write!(f, "essiv:{digest}"),
        }
    }
}

impl fmt::Display for SectorSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stream = self.mode.stream().map(|stream| format!("{stream},"));
        let stream = stream.unwrap_or_default();
        write!(f, "{stream}{}-{}", self.cipher.name(), self.mode.name())?;
        match (self.mode, self.iv) {
            (SectorMode::Ecb, IvMode::Null) => Ok(()),
            (_, iv) => write!(f, "-{iv}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        for name in [
            "aes-xts-plain64",
            "aes-cbc-essiv:sha256",
            "serpent-xts-plain64be",
            "twofish-cbc-plain",
            "camellia-ctr-plain64",
            "aes-cbc-null",
            "aes-xts-benbi",
            "aes-ecb",
            "camellia-cbc-essiv:blake2s-256",
            "aes-lrw-benbi",
            "twofish-lrw-plain64",
            "xchacha12,aes-adiantum-plain64",
            "xchacha20,aes-adiantum-plain64",
        ] {
            assert_eq!(SectorSpec::read(name).expect(name).to_string(), name);
        }
        #[rustfmt::skip]
        let rows = [
            ("capi:xts(aes)-plain64", "aes-xts-plain64"),
            ("capi:cbc(serpent)-plain", "serpent-cbc-plain"),
            ("capi:cbc(aes)-essiv:blake2s-256", "aes-cbc-essiv:blake2s-256"),
            ("capi:essiv(cbc(aes),sha256)-plain64", "aes-cbc-essiv:sha256"),
            ("capi:essiv(cbc(aes),blake2s-256)-plain64", "aes-cbc-essiv:blake2s-256"),
            ("capi:ecb(aes)", "aes-ecb"),
            ("capi:lrw(serpent)-benbi", "serpent-lrw-benbi"),
            ("capi:adiantum(xchacha12,aes)-plain64", "xchacha12,aes-adiantum-plain64"),
            ("capi:adiantum(xchacha20,aes)-plain64", "xchacha20,aes-adiantum-plain64"),
        ];
        for (api, name) in rows {
            assert_eq!(SectorSpec::read(api).expect(api).to_string(), name);
        }
        for short in ["aes", "aes-plain"] {
            let spec = SectorSpec::read(short).expect(short);
            assert_eq!(spec.to_string(), "aes-cbc-plain");
        }
        assert_eq!(
            SectorSpec::read("aes-ecb-null").expect("ecb").to_string(),
            "aes-ecb"
        );
    }

    #[test]
    fn what_does_not_exist_is_refused() {
        for name in [
            "",
            "-",
            "aes-",
            "aes-xts",
            "aes-cbc",
            "aes-xts-",
            "aes-xts-plain65",
            "AES-xts-plain64",
            "aes-lrw",
            "aes-adiantum-plain64",
            "xchacha12,aes-xts-plain64",
            "xchacha20,aes-adiantum",
            "xchacha20,aes-adiantum-benbi",
            "xchacha20,aes-adiantum-essiv:sha256",
            "xchacha20,twofish-adiantum-plain64",
            "chacha20,aes-adiantum-plain64",
            "aes:64-cbc-lmk",
            "des-cbc-plain",
            "aes-cbc-essiv",
            "aes-cbc-essiv:",
            "aes-cbc-essiv:sha1",
            "aes-cbc-essiv:sha512",
            "aes-xts-plain64-more",
            "aes-plain-plain",
            "capi:",
            "capi:aes-xts-plain64",
            "capi:xts(aes)",
            "capi:plain(aes)",
            "capi:xts(aes)plain64",
            "capi:xts(ecb(aes))-plain64",
            "capi:xts-aes-aesni-plain64",
            "capi:cbc(aes)-essiv",
            "capi:essiv(cbc(aes),sha256)-plain",
            "capi:essiv(cbc(aes))-plain64",
            "capi:authenc(hmac(sha256),xts(aes))-random",
            "capi:adiantum(xchacha12,aes,nhpoly1305)-plain64",
            "capi:capi:xts(aes)-plain64",
        ] {
            assert!(SectorSpec::read(name).is_err(), "{name}");
        }
    }
}
