//! Twofish of the system's libgcrypt, if there is one. The crate of RustCrypto computes its tables for each block,
//! and is a hundred times slower.
//!
//! The library is loaded when Twofish is first needed, and used only if it agrees with the crate. Nothing fails
//! without it.

use std::sync::OnceLock;

use zeroize::Zeroizing;

use super::blocks::{BlockEngine, CipherBlock, portable};
use super::per_thread::PerThread;
use crate::ffi::{Direction, Libgcrypt, TwofishKey};
use crate::{BlockCipher, Error, Provider, Result};

/// The number is that of the interface.
const FILE: &str = "libgcrypt.so.20";

impl Provider {
    /// Returns whether the provider can be used. It is built in, or was found on this system and gives the right
    /// answers.
    pub fn is_available(self) -> bool {
        match self {
            Provider::Libgcrypt => library().is_ok(),
            Provider::Ring => crate::provider::hardware::has_vaes_alone(),
            _ => self.is_built(),
        }
    }
}

/// Returns a description of the library with its version, or the reason why it is not used.
pub(crate) fn description() -> String {
    match library() {
        Ok(library) => format!(
            "the system's libgcrypt {}: C and assembly; leaves Twofish keys of 192 bits to portable",
            library.version
        ),
        Err(why) => format!("the system's libgcrypt; {why}"),
    }
}

/// Twofish with a key of 16, 24 or 32 bytes. The library has none with 24: the crate serves those.
pub(crate) fn twofish(key: &[u8]) -> Result<Box<dyn BlockEngine>> {
    let provider = Provider::Libgcrypt;
    let library = library().map_err(|_| Error::Unsupported { provider })?;
    match key.len() {
        24 => portable(BlockCipher::Twofish, key),
        _ => Twofish::boxed(library, key),
    }
}

/// The library, or why it is not used. Loaded and tested once.
fn library() -> std::result::Result<&'static Libgcrypt, &'static str> {
    static LIBRARY: OnceLock<std::result::Result<&'static Libgcrypt, &'static str>> =
        OnceLock::new();
    *LIBRARY.get_or_init(|| {
        if cfg!(target_feature = "crt-static") {
            return Err("this program is a static one, which loads no libraries");
        }
        let library = Libgcrypt::load(FILE).ok_or("libgcrypt.so.20 cannot be loaded")?;
        match is_right(|key| Twofish::boxed(library, key)) {
            true => Ok(library),
            false => Err("its Twofish is not there or computes something else"),
        }
    })
}

struct Twofish {
    library: &'static Libgcrypt,
    key: Zeroizing<Vec<u8>>,
    contexts: PerThread<TwofishKey>,
}

impl Twofish {
    fn boxed(library: &'static Libgcrypt, key: &[u8]) -> Result<Box<dyn BlockEngine>> {
        Ok(Box::new(Twofish {
            library,
            key: Zeroizing::new(key.to_vec()),
            contexts: PerThread::new(),
        }))
    }

    fn run(&self, direction: Direction, blocks: &mut [CipherBlock]) -> Result<()> {
        let new = || TwofishKey::new(self.library, &self.key);
        self.contexts.get(direction, new)?.run(direction, blocks)
    }
}

impl BlockEngine for Twofish {
    fn encrypt(&self, blocks: &mut [CipherBlock]) -> Result<()> {
        self.run(Direction::Encrypt, blocks)
    }

    fn decrypt(&self, blocks: &mut [CipherBlock]) -> Result<()> {
        self.run(Direction::Decrypt, blocks)
    }
}

/// The known answers of the article on Twofish, appendix B: a key, and the encrypted block of zeros.
const KNOWN: [(&[u8], u128); 2] = [
    (&[0; 16], 0x9f589f5cf6122c32b6bfec2f2ae8c35a),
    (
        &[
            0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0xfe, 0xdc, 0xba, 0x98, 0x76, 0x54,
            0x32, 0x10, 0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb,
            0xcc, 0xdd, 0xee, 0xff,
        ],
        0x37527be0052334b89f0cfccae87cfa20,
    ),
];

/// The numbers of blocks that are compared in one call. They are one, and enough to reach the widest code and leave a
/// rest.
const COUNTS: [usize; 3] = [1, 35, 140];

/// Returns whether `expand` gives the known answers, and agrees with the crate for other blocks.
fn is_right(expand: impl Fn(&[u8]) -> Result<Box<dyn BlockEngine>>) -> bool {
    let knows = |(key, sealed): &(&[u8], u128)| -> Result<bool> {
        let mut block = [[0; 16]];
        expand(key)?.encrypt(&mut block)?;
        Ok(block[0] == sealed.to_be_bytes())
    };
    let agrees = |len: usize, count: usize| -> Result<bool> {
        let (mut key, mut blocks) = (vec![0; len], vec![[0; 16]; count]);
        // A stream without a pattern, and the same each time. (The generator of random numbers would be most of the cost.)
        let mut stream = blake3::Hasher::new().update(&key).finalize_xof();
        stream.fill(&mut key);
        stream.fill(blocks.as_flattened_mut());
        let (ours, judge) = (expand(&key)?, portable(BlockCipher::Twofish, &key)?);
        let (mut sealed, mut opened) = (blocks.clone(), blocks.clone());
        ours.encrypt(&mut sealed)?;
        ours.decrypt(&mut opened)?;
        judge.encrypt(&mut opened)?;
        judge.decrypt(&mut sealed)?;
        Ok(sealed == blocks && opened == blocks)
    };
    KNOWN.iter().all(|known| knows(known) == Ok(true))
        && [16, 32]
            .iter()
            .all(|len| COUNTS.iter().all(|count| agrees(*len, *count) == Ok(true)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::bytes;

    /// The crate, which makes one block of a batch wrong, in one direction.
    struct Broken {
        cipher: Box<dyn BlockEngine>,
        direction: Direction,
    }

    impl BlockEngine for Broken {
        fn encrypt(&self, blocks: &mut [CipherBlock]) -> Result<()> {
            self.cipher.encrypt(blocks)?;
            self.spoil(Direction::Encrypt, blocks);
            Ok(())
        }

        fn decrypt(&self, blocks: &mut [CipherBlock]) -> Result<()> {
            self.cipher.decrypt(blocks)?;
            self.spoil(Direction::Decrypt, blocks);
            Ok(())
        }
    }

    impl Broken {
        fn spoil(&self, direction: Direction, blocks: &mut [CipherBlock]) {
            if let Some(block) = blocks.get_mut(33)
                && direction == self.direction
            {
                block[5] ^= 1;
            }
        }
    }

    #[test]
    fn twofish_that_is_wrong_or_missing_is_not_used() {
        assert!(is_right(|key| portable(BlockCipher::Twofish, key)));
        assert!(!is_right(|key| portable(BlockCipher::Serpent, key)));
        assert!(!is_right(|_| Err(Error::Library)));
        for direction in [Direction::Encrypt, Direction::Decrypt] {
            let broken = |key: &[u8]| -> Result<Box<dyn BlockEngine>> {
                let cipher = portable(BlockCipher::Twofish, key)?;
                Ok(Box::new(Broken { cipher, direction }))
            };
            assert!(!is_right(broken), "{direction:?}");
        }
        assert!(Libgcrypt::load("libgcrypt.so.missing").is_none());
        // A library, but another one.
        assert!(Libgcrypt::load("libc.so.6").is_none());
    }

    #[test]
    fn twofish_of_both_providers_is_the_same() {
        let Some(library) = Libgcrypt::load(FILE) else {
            eprintln!("skipped: {FILE} cannot be loaded here");
            return;
        };
        assert!(Provider::Libgcrypt.is_available(), "{}", description());
        assert!(description().contains(&library.version));
        for (seed, len) in (0..30).zip([16, 24, 32].into_iter().cycle()) {
            let (key, data) = (
                bytes(seed, len),
                bytes(seed + 100, 16 + 112 * seed as usize),
            );
            let blocks = data.as_chunks().0.to_vec();
            let (ours, judge) = (twofish(&key), portable(BlockCipher::Twofish, &key));
            let (ours, judge) = (ours.expect("key"), judge.expect("key"));
            let (mut sealed, mut expected) = (blocks.clone(), blocks.clone());
            ours.encrypt(&mut sealed).expect("encrypt");
            judge.encrypt(&mut expected).expect("encrypt");
            assert_eq!(sealed, expected, "key {key:?}");
            // Another thread has a context of its own.
            let open = || ours.decrypt(&mut sealed).expect("decrypt");
            std::thread::scope(|scope| scope.spawn(open).join().expect("thread"));
            assert_eq!(sealed, blocks, "key {key:?}");
        }
        ours_takes_no_other_keys(library);
    }

    fn ours_takes_no_other_keys(library: &'static Libgcrypt) {
        for len in [0, 8, 24, 33] {
            let made = TwofishKey::new(library, &vec![0; len]);
            assert_eq!(made.map(drop), Err(Error::Library), "{len}");
        }
    }
}
