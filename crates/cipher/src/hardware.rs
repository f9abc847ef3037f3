//! Which features of the processor the ciphers use, for the log and for a person who wonders.
//!
//! AWS-LC reads the processor's features once at start, and lets the environment variable
//! `OPENSSL_ia32cap` change what it believes. A stray setting costs a factor of 25 in speed, without
//! any other sign; so the daemon logs what [`hardware()`] returns.

use std::fmt;

/// What the processor offers for cryptography, as AWS-LC sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hardware {
    /// The features in use, by their usual names: `aes`, `pclmulqdq`, `vaes`, `avx512f`, ...
    pub features: Vec<&'static str>,
    /// Features that the processor has and that the environment turned off.
    pub disabled: Vec<&'static str>,
    /// Whether AES and the multiplication of GCM run on instructions of their own.
    pub aes: bool,
}

impl fmt::Display for Hardware {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let speed = if self.aes {
            "AES in hardware"
        } else {
            "AES in software, slow"
        };
        write!(f, "{speed} ({})", self.features.join(" "))?;
        if !self.disabled.is_empty() {
            let disabled = self.disabled.join(" ");
            write!(f, "; turned off by OPENSSL_ia32cap: {disabled}")?;
        }
        Ok(())
    }
}

/// The features of this processor that AWS-LC uses.
pub fn hardware() -> Hardware {
    let setting = std::env::var("OPENSSL_ia32cap").ok();
    platform::hardware(setting.as_deref())
}

#[cfg(target_arch = "x86_64")]
mod platform {
    use super::Hardware;

    /// A feature: its name, whether this processor has it, and where AWS-LC keeps it: the word (0
    /// and 1: CPUID leaf 1 EDX, ECX; 2 and 3: leaf 7 EBX, ECX) and the bit.
    struct Feature {
        name: &'static str,
        present: bool,
        word: usize,
        bit: u32,
    }

    macro_rules! feature {
        ($name:tt, $word:literal, $bit:literal) => {
            Feature {
                name: $name,
                present: std::arch::is_x86_feature_detected!($name),
                word: $word,
                bit: $bit,
            }
        };
    }

    pub(super) fn hardware(setting: Option<&str>) -> Hardware {
        let known = [
            feature!("aes", 1, 25),
            feature!("pclmulqdq", 1, 1),
            feature!("ssse3", 1, 9),
            feature!("avx", 1, 28),
            feature!("avx2", 2, 5),
            feature!("avx512f", 2, 16),
            feature!("avx512bw", 2, 30),
            feature!("avx512vl", 2, 31),
            feature!("sha", 2, 29),
            feature!("vaes", 3, 9),
            feature!("vpclmulqdq", 3, 10),
        ];
        let mut words = [0u32; 4];
        for feature in known.iter().filter(|feature| feature.present) {
            words[feature.word] |= 1 << feature.bit;
        }
        let words = apply(words, setting);
        let enabled = |feature: &&Feature| words[feature.word] >> feature.bit & 1 == 1;
        let present = || known.iter().filter(|feature| feature.present);
        let features: Vec<_> = present().filter(enabled).map(|f| f.name).collect();
        Hardware {
            disabled: present().filter(|f| !enabled(f)).map(|f| f.name).collect(),
            aes: features.contains(&"aes") && features.contains(&"pclmulqdq"),
            features,
        }
    }

    /// What `OPENSSL_ia32cap` does to the four words: `A:B`, where A is for the first two as one
    /// 64-bit number and B for the others; `~` before a number clears its bits, `|` sets them.
    fn apply(words: [u32; 4], setting: Option<&str>) -> [u32; 4] {
        let Some(setting) = setting else { return words };
        let (low, high) = match setting.split_once(':') {
            Some((low, high)) => (low, Some(high)),
            None => (setting, None),
        };
        let pair = |i: usize| u64::from(words[i]) | u64::from(words[i + 1]) << 32;
        let low = change(pair(0), low);
        let high = high.map_or(pair(2), |high| change(pair(2), high));
        let halves = |word: u64| [word as u32, (word >> 32) as u32];
        let ([a, b], [c, d]) = (halves(low), halves(high));
        [a, b, c, d]
    }

    fn change(word: u64, setting: &str) -> u64 {
        let number = setting.trim_start_matches(['~', '|']);
        let parsed = match number.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16),
            None => number.parse(),
        };
        match (parsed, setting.as_bytes().first()) {
            (Err(_), _) => word,
            (Ok(value), Some(b'~')) => word & !value,
            (Ok(value), Some(b'|')) => word | value,
            (Ok(value), _) => value,
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn environment_turns_features_off() {
            let all = [u32::MAX; 4];
            assert_eq!(apply(all, None), all);
            assert_eq!(apply(all, Some("nonsense")), all);
            // AES-NI and PCLMULQDQ, as the documentation of OpenSSL has it.
            let expected = [u32::MAX, !(1 << 25 | 1 << 1), u32::MAX, u32::MAX];
            assert_eq!(apply(all, Some("~0x200000200000000")), expected);
            assert_eq!(
                apply(all, Some("~0x0:~0x20")),
                [u32::MAX, u32::MAX, !(1 << 5), u32::MAX]
            );
            assert_eq!(apply([0; 4], Some("1:|2")), [1, 0, 2, 0]);

            let off = hardware(Some("~0x200000200000000"));
            assert!(!off.aes && !off.features.contains(&"aes"));
            let on = hardware(None);
            if on.aes {
                assert_eq!(off.disabled, ["aes", "pclmulqdq"]);
                assert!(
                    off.to_string()
                        .contains("turned off by OPENSSL_ia32cap: aes")
                );
            }
            assert!(on.disabled.is_empty());
        }
    }
}

#[cfg(target_arch = "aarch64")]
mod platform {
    use super::Hardware;

    pub(super) fn hardware(_setting: Option<&str>) -> Hardware {
        use std::arch::is_aarch64_feature_detected as detected;
        let known = [
            ("neon", detected!("neon")),
            ("aes", detected!("aes")),
            ("pmull", detected!("pmull")),
            ("sha2", detected!("sha2")),
            ("sha3", detected!("sha3")),
        ];
        let features: Vec<_> = known.into_iter().filter(|f| f.1).map(|f| f.0).collect();
        Hardware {
            aes: features.contains(&"aes") && features.contains(&"pmull"),
            features,
            disabled: Vec::new(),
        }
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod platform {
    use super::Hardware;

    pub(super) fn hardware(_setting: Option<&str>) -> Hardware {
        Hardware {
            features: Vec::new(),
            disabled: Vec::new(),
            aes: false,
        }
    }
}
