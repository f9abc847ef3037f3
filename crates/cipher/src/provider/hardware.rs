//! The features of the processor that the ciphers use, for the log and `strongroom crypto`.
//!
//! AWS-LC reads the processor's features once at start, and lets the environment variable
//! `OPENSSL_ia32cap` change what it believes. A stray setting costs a factor of 25 in speed, without
//! any other sign; so the daemon logs what [`hardware()`] returns.

use std::fmt;
use std::sync::LazyLock;

/// The features of the processor for cryptography, as AWS-LC finds them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hardware {
    /// The features in use, by their usual names: `aes`, `pclmulqdq`, `vaes`, `avx512f`, ...
    pub features: Vec<&'static str>,
    /// Features that the processor has and that the environment turned off.
    pub disabled: Vec<&'static str>,
    /// True if AES and the multiplication of GCM have instructions of their own.
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

/// Returns whether the processor has vector instructions for AES.
pub(crate) fn has_vaes() -> bool {
    static HAS: LazyLock<bool> = LazyLock::new(|| {
        ["avx2", "vaes"]
            .iter()
            .all(|name| hardware().features.contains(name))
    });
    *HAS
}

/// Returns whether the processor has vector instructions for AES, but not those with AVX-512. AWS-LC uses them only
/// with AVX-512.
pub(crate) fn has_vaes_alone() -> bool {
    static HAS: LazyLock<bool> = LazyLock::new(|| {
        let features = hardware().features;
        let has = |name: &&str| features.contains(name);
        ["avx2", "vaes", "vpclmulqdq"].iter().all(has)
            && !["avx512f", "avx512bw", "avx512vl"].iter().all(has)
    });
    *HAS
}

/// The value of `OPENSSL_ia32cap` that switches off what `setting` names: `-aes,-pclmul,-avx512`, as
/// in `STRONGROOM_HWCAP`. What builds on a feature goes with it: without `avx2` there is no `avx512`.
///
/// AWS-LC reads the variable before `main` begins, so it must be there when the program starts.
///
/// # Errors
/// The error in the setting, in words.
pub fn hwcap_setting(setting: &str) -> Result<String, String> {
    platform::hwcap_setting(setting)
}

#[cfg(target_arch = "x86_64")]
mod platform {
    use super::Hardware;

    /// A feature that can be switched off: its name, its bits of CPUID, and the features that need it. The bits are
    /// leaf 1 ECX and EDX as one number, and leaf 7 EBX and ECX as another.
    struct Switch {
        name: &'static str,
        low: u64,
        high: u64,
        takes: &'static [&'static str],
    }

    const SWITCHES: [Switch; 8] = [
        switch("aes", 1 << 57, 0, &["vaes"]),
        switch("pclmul", 1 << 33, 0, &["vpclmul"]),
        switch("ssse3", 1 << 41, 0, &["avx"]),
        switch("avx", 1 << 60, 0, &["avx2"]),
        switch("avx2", 0, 1 << 5, &["avx512", "vaes", "vpclmul"]),
        // F, DQ, IFMA, BW and VL; VBMI and VBMI2.
        switch(
            "avx512",
            0,
            1 << 16 | 1 << 17 | 1 << 21 | 1 << 30 | 1 << 31 | 1 << 33 | 1 << 38,
            &[],
        ),
        switch("vaes", 0, 1 << 41, &[]),
        switch("vpclmul", 0, 1 << 42, &[]),
    ];

    /// The SHA instructions, which nothing builds on.
    const SHA: Switch = switch("sha", 0, 1 << 29, &[]);

    const fn switch(
        name: &'static str,
        low: u64,
        high: u64,
        takes: &'static [&'static str],
    ) -> Switch {
        Switch {
            name,
            low,
            high,
            takes,
        }
    }

    pub(crate) fn hwcap_setting(setting: &str) -> Result<String, String> {
        let (mut low, mut high) = (0, 0);
        let words = setting.split([',', ' ']).filter(|word| !word.is_empty());
        let mut names: Vec<&str> = Vec::new();
        for word in words {
            let name = word.strip_prefix('-');
            names.push(name.ok_or_else(|| format!("'{word}' does not begin with -"))?);
        }
        while let Some(name) = names.pop() {
            let mut known = SWITCHES.iter().chain([&SHA]);
            let switch = known.find(|switch| switch.name == name).ok_or_else(|| {
                let known = SWITCHES.iter().chain([&SHA]).map(|switch| switch.name);
                let known = known.collect::<Vec<_>>().join(", ");
                format!("'{name}' is not one of {known}")
            })?;
            low |= switch.low;
            high |= switch.high;
            names.extend(switch.takes);
        }
        Ok(format!("~{low:#x}:~{high:#x}"))
    }

    /// A feature: its name, whether this processor has it, and its word and bit in AWS-LC. Words 0 and 1 are CPUID
    /// leaf 1 EDX and ECX; 2 and 3 are leaf 7 EBX and ECX.
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

    pub(crate) fn hardware(setting: Option<&str>) -> Hardware {
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

    /// Returns the four words as `OPENSSL_ia32cap` changes them. The setting is `A:B`: A is for the first two words as
    /// one 64-bit number, B for the others. `~` before a number clears its bits, `|` sets them.
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
        fn what_builds_on_a_feature_goes_with_it() {
            let off = |setting: &str| hardware(Some(&hwcap_setting(setting).expect(setting)));
            let all = hardware(None).features;
            for (setting, expected) in [
                ("", &[][..]),
                ("-sha", &["sha"]),
                ("-aes", &["aes", "vaes"]),
                ("-pclmul", &["pclmulqdq", "vpclmulqdq"]),
                (
                    "-avx2, -sha",
                    &[
                        "avx2",
                        "avx512f",
                        "avx512bw",
                        "avx512vl",
                        "sha",
                        "vaes",
                        "vpclmulqdq",
                    ],
                ),
            ] {
                let expected = expected.iter().filter(|name| all.contains(name));
                assert_eq!(off(setting).disabled, expected.copied().collect::<Vec<_>>());
            }
            assert!(!off("-aes,-pclmul,-avx512").aes);
            for wrong in ["aes", "-mmx", "-aes,+avx", "--aes"] {
                assert!(hwcap_setting(wrong).is_err(), "{wrong}");
            }
        }

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

    pub(crate) fn hwcap_setting(_setting: &str) -> Result<String, String> {
        Err("features of the processor can be switched off on x86-64 only".into())
    }

    pub(crate) fn hardware(_setting: Option<&str>) -> Hardware {
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

    pub(crate) fn hwcap_setting(_setting: &str) -> Result<String, String> {
        Err("features of the processor can be switched off on x86-64 only".into())
    }

    pub(crate) fn hardware(_setting: Option<&str>) -> Hardware {
        Hardware {
            features: Vec::new(),
            disabled: Vec::new(),
            aes: false,
        }
    }
}
