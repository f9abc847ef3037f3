//! The choice of the provider of each mechanism in this process, by `strongroom crypto enable` and `disable`.
//!
//! A policy is installed once, before the first use, and does not change any more. An expanded key stays with its
//! provider. Without one everything is enabled.

use std::fmt;
use std::sync::OnceLock;

use super::hardware;
use crate::{BlockCipher, Error, Mechanism, Provider, Result, SectorMode, Suite};

/// The disabled mechanisms, and the restriction to approved ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// A bit for each mechanism, for each provider.
    disabled: [u64; Provider::ALL.len()],
    fips: bool,
}

const _: () = assert!(Mechanism::COUNT <= 64);

/// A provider or a mechanism that can be enabled and disabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyTarget {
    /// FIPS mode: nothing but approved mechanisms.
    Fips,
    /// All mechanisms of a provider.
    Provider(Provider),
    /// A single mechanism of a provider.
    Mechanism(Provider, Mechanism),
}

impl PolicyTarget {
    /// Reads `fips-140`, `PROVIDER` or `PROVIDER/MECHANISM`; or what is wrong with it.
    ///
    /// # Errors
    /// The error in the text.
    pub fn parse(text: &str) -> std::result::Result<PolicyTarget, String> {
        if text == "fips-140" {
            return Ok(PolicyTarget::Fips);
        }
        let (provider, mechanism) = match text.split_once('/') {
            Some((provider, mechanism)) => (provider, Some(mechanism)),
            None => (text, None),
        };
        let known = Provider::read(provider)?;
        let Some(name) = mechanism else {
            return Ok(PolicyTarget::Provider(known));
        };
        match Mechanism::from_name(name) {
            Some(mechanism) if mechanism.providers().contains(&known) => {
                Ok(PolicyTarget::Mechanism(known, mechanism))
            }
            Some(_) => Err(format!("{provider} does not have {name}")),
            None => Err(format!(
                "there is no mechanism '{name}': strongroom crypto providers lists them"
            )),
        }
    }

    fn mechanisms(self) -> Vec<(Provider, Mechanism)> {
        match self {
            PolicyTarget::Fips => Vec::new(),
            PolicyTarget::Provider(provider) => Mechanism::all()
                .filter(|mechanism| mechanism.providers().contains(&provider))
                .map(|mechanism| (provider, mechanism))
                .collect(),
            PolicyTarget::Mechanism(provider, mechanism) => vec![(provider, mechanism)],
        }
    }
}

impl Mechanism {
    /// The providers that have it with keys of this length, in bytes, the first choice of this machine first.
    pub fn providers_with(self, key_len: usize) -> Vec<Provider> {
        let all = self.providers().iter().copied();
        let mut providers: Vec<Provider> =
            all.filter(|provider| provider.has(self, key_len)).collect();
        let is_short = key_len < 64 && self == Mechanism::Sector(BlockCipher::Aes, SectorMode::Xts);
        if is_short && hardware::has_vaes() {
            // AWS-LC has XTS with two keys of 256 bits only. With others it lends its AES, a quarter as wide.
            providers.sort_by_key(|provider| *provider != Provider::Portable);
        }
        providers
    }
}

impl Provider {
    fn has(self, mechanism: Mechanism, key_len: usize) -> bool {
        use SectorMode::{Lrw, Xts};
        match (self, mechanism) {
            // OpenSSL has no AES-192-XTS, and libgcrypt no Twofish with 192 bits.
            (Provider::OpenSsl, Mechanism::Sector(_, Xts)) => key_len != 48,
            (Provider::Libgcrypt, Mechanism::Sector(_, Xts)) => key_len != 48,
            (Provider::Libgcrypt, Mechanism::Sector(_, Lrw)) => key_len != 40,
            (Provider::Libgcrypt, Mechanism::Sector(..)) => key_len != 24,
            _ => true,
        }
    }
}

impl Policy {
    /// Enables something again. `fips-140` is switched on.
    pub fn enable(&mut self, target: PolicyTarget) {
        self.fips |= target == PolicyTarget::Fips;
        for (provider, mechanism) in target.mechanisms() {
            self.disabled[provider as usize] &= !(1 << mechanism.index());
        }
    }

    /// Disables something. `fips-140` is switched off.
    ///
    /// # Errors
    /// The mechanisms that would have no provider that is built in; nothing changes then. (A library of the system can
    /// go away, and must not take the policy with it.)
    pub fn disable(&mut self, target: PolicyTarget) -> std::result::Result<(), Vec<Mechanism>> {
        let mut changed = self.clone();
        changed.fips &= target != PolicyTarget::Fips;
        let mut orphans = Vec::new();
        for (provider, mechanism) in target.mechanisms() {
            changed.disabled[provider as usize] |= 1 << mechanism.index();
            let mut others = mechanism.providers().iter();
            if !others.any(|other| other.is_built() && !changed.is_disabled(*other, mechanism)) {
                orphans.push(mechanism);
            }
        }
        if !orphans.is_empty() {
            return Err(orphans);
        }
        *self = changed;
        Ok(())
    }

    /// Returns whether only approved mechanisms may be used.
    pub fn is_fips(&self) -> bool {
        self.fips
    }

    /// Returns whether this is disabled.
    pub fn is_disabled(&self, provider: Provider, mechanism: Mechanism) -> bool {
        self.disabled[provider as usize] >> mechanism.index() & 1 == 1
    }

    /// Returns the provider of a mechanism: the first that has it, is available, and is enabled.
    ///
    /// # Errors
    /// [`Error::NotApproved`] in FIPS mode; [`Error::Disabled`] if no provider is left.
    pub fn provider(&self, mechanism: Mechanism) -> Result<Provider> {
        self.first(mechanism, mechanism.providers())
    }

    /// The variant of [`Policy::provider`] for keys of this length, in bytes.
    ///
    /// # Errors
    /// As for [`Policy::provider`].
    pub fn provider_with(&self, mechanism: Mechanism, key_len: usize) -> Result<Provider> {
        self.first(mechanism, &mechanism.providers_with(key_len))
    }

    /// The providers that may serve a mechanism with keys of this length, in bytes, the first choice first.
    ///
    /// # Errors
    /// As for [`Policy::provider`].
    pub fn choices(&self, mechanism: Mechanism, key_len: usize) -> Result<Vec<Provider>> {
        self.provider_with(mechanism, key_len)?;
        let mut providers = mechanism.providers_with(key_len);
        providers.retain(|provider| self.may_serve(*provider, mechanism));
        Ok(providers)
    }

    fn first(&self, mechanism: Mechanism, providers: &[Provider]) -> Result<Provider> {
        if self.fips && !mechanism.is_approved() {
            return Err(Error::NotApproved {
                mechanism,
                algorithm: mechanism.full_name(),
            });
        }
        let mut providers = providers.iter().copied();
        providers
            .find(|provider| self.may_serve(*provider, mechanism))
            .ok_or(Error::Disabled { mechanism })
    }

    fn may_serve(&self, provider: Provider, mechanism: Mechanism) -> bool {
        !self.is_disabled(provider, mechanism) && provider.is_available()
    }

    /// Reads what [`Policy`] prints; or the line that is none of that.
    ///
    /// # Errors
    /// The line that is not understood, or that leaves a mechanism without a provider.
    pub fn parse(text: &str) -> std::result::Result<Policy, String> {
        let mut policy = Policy::default();
        let lines = text.lines().map(str::trim);
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let done = match line.split_once(' ') {
                Some(("enable", "fips-140")) => {
                    policy.enable(PolicyTarget::Fips);
                    true
                }
                Some(("disable", what)) => {
                    PolicyTarget::parse(what).is_ok_and(|target| policy.disable(target).is_ok())
                }
                _ => false,
            };
            if !done {
                return Err(line.to_owned());
            }
        }
        Ok(policy)
    }

    /// Makes this the policy of the process. Returns whether it is: there is none yet, and nothing
    /// was used that would have needed it.
    pub fn install(self) -> bool {
        INSTALLED.set(self).is_ok()
    }

    /// The policy of the process.
    pub fn current() -> &'static Policy {
        INSTALLED.get_or_init(Policy::default)
    }
}

static INSTALLED: OnceLock<Policy> = OnceLock::new();

/// Returns the provider of a mechanism in this process.
pub(crate) fn provider(mechanism: Mechanism) -> Result<Provider> {
    Policy::current().provider(mechanism)
}

/// Returns the provider of a mechanism in this process, for keys of this length, in bytes.
pub(crate) fn provider_with(mechanism: Mechanism, key_len: usize) -> Result<Provider> {
    Policy::current().provider_with(mechanism, key_len)
}

impl Suite {
    /// Checks that the policy of the process lets this suite seal records.
    ///
    /// # Errors
    /// [`Error::NotApproved`] in FIPS mode.
    pub fn check(self) -> Result<()> {
        provider(Mechanism::Record(self)).map(drop)
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.fips {
            writeln!(f, "enable fips-140")?;
        }
        for provider in Provider::ALL {
            for mechanism in Mechanism::all().filter(|m| self.is_disabled(provider, *m)) {
                writeln!(f, "disable {provider}/{mechanism}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BlockCipher, SectorMode};

    const XTS: Mechanism = Mechanism::Sector(BlockCipher::Aes, SectorMode::Xts);

    fn target(text: &str) -> PolicyTarget {
        PolicyTarget::parse(text).expect(text)
    }

    #[test]
    fn the_next_provider_takes_over() {
        let mut policy = Policy::default();
        assert_eq!(policy.provider(XTS), Ok(Provider::AwsLc));
        policy.disable(target("aws-lc/aes-xts")).expect("another");
        policy.disable(target("openssl")).expect("another");
        assert_eq!(policy.provider(XTS), Ok(Provider::Portable));
        let cbc = Mechanism::Sector(BlockCipher::Aes, SectorMode::Cbc);
        assert_eq!(policy.provider(cbc), Ok(Provider::AwsLc));

        let twofish = Mechanism::Sector(BlockCipher::Twofish, SectorMode::Xts);
        let first = [Provider::Portable, Provider::Libgcrypt];
        let first = first[usize::from(Provider::Libgcrypt.is_available())];
        assert_eq!(policy.provider(twofish), Ok(first));
        policy.disable(target("libgcrypt")).expect("another");
        assert_eq!(policy.provider(twofish), Ok(Provider::Portable));

        assert_eq!(policy.disable(target("portable/aes-xts")), Err(vec![XTS]));
        assert_eq!(policy.provider(XTS), Ok(Provider::Portable));
        let read = Policy::parse(&policy.to_string()).expect("as printed");
        assert_eq!(read, policy);
        policy.enable(target("aws-lc"));
        assert_eq!(policy.provider(XTS), Ok(Provider::AwsLc));
    }

    /// The choice is what a key of that length gets.
    #[test]
    fn each_length_of_keys_has_a_choice_of_its_own() {
        let policy = Policy::default();
        for mechanism in Mechanism::all() {
            let Mechanism::Sector(cipher, mode) = mechanism else {
                continue;
            };
            let iv = if mode == SectorMode::Ecb {
                ""
            } else {
                "-plain64"
            };
            let name = format!("{}-{}{iv}", cipher.name(), mode.name());
            let spec = crate::SectorSpec::parse(&name).expect("spec");
            for key_len in mechanism.key_lens() {
                let key: Vec<u8> = (0..*key_len as u8).collect();
                let made = crate::SectorCipher::new(spec, &key).expect("cipher");
                let choices = policy.choices(mechanism, *key_len).expect("choices");
                assert_eq!(made.provider(), choices[0], "{name} {key_len}");
                for provider in choices {
                    let made = crate::SectorCipher::with_provider(provider, spec, &key);
                    assert_eq!(
                        made.expect("cipher").provider(),
                        provider,
                        "{name} {key_len}"
                    );
                }
            }
        }
        let wide = [Provider::AwsLc, Provider::Portable][usize::from(hardware::has_vaes())];
        assert_eq!(policy.provider_with(XTS, 32), Ok(wide));
        assert_eq!(policy.provider_with(XTS, 64), Ok(Provider::AwsLc));
    }

    #[test]
    fn what_only_one_provider_has_stays() {
        for (text, orphan) in [
            ("aws-lc", "record-xaes-256-gcm"),
            ("portable", "argon2"),
            ("portable/serpent-xts", "serpent-xts"),
            // The other one is a library, which can go away.
            ("portable/twofish-xts", "twofish-xts"),
        ] {
            let mut policy = Policy::default();
            let orphans = policy.disable(target(text)).expect_err(text);
            assert!(orphans.contains(&Mechanism::from_name(orphan).expect(orphan)));
            assert_eq!(policy, Policy::default());
        }
    }

    #[test]
    fn fips_mode_refuses_what_is_not_approved() {
        let mut policy = Policy::default();
        policy.enable(PolicyTarget::Fips);
        assert_eq!(policy.provider(XTS), Ok(Provider::AwsLc));
        let mechanism = Mechanism::Argon2;
        assert_eq!(
            policy.provider(mechanism),
            Err(Error::NotApproved {
                mechanism,
                algorithm: "Argon2"
            })
        );
        assert_eq!(Policy::parse(&policy.to_string()), Ok(policy.clone()));
        policy.disable(PolicyTarget::Fips).expect("switched off");
        assert_eq!(policy, Policy::default());
    }

    #[test]
    fn refusals_name_the_algorithm_in_full() {
        let mut policy = Policy::default();
        policy.enable(PolicyTarget::Fips);
        let refused = Mechanism::all().filter_map(|m| Some((m, policy.provider(m).err()?)));
        let refused: Vec<_> = refused
            .map(|(m, e)| (m.to_string(), e.to_string()))
            .collect();
        let names = [
            ("record-xchacha20-poly1305", "XChaCha20-Poly1305"),
            ("aes-lrw", "AES in LRW mode"),
            ("camellia-xts", "Camellia in XTS mode"),
            ("camellia-cbc", "Camellia in CBC mode"),
            ("camellia-ecb", "Camellia in ECB mode"),
            ("camellia-ctr", "Camellia in CTR mode"),
            ("camellia-lrw", "Camellia in LRW mode"),
            ("serpent-xts", "Serpent in XTS mode"),
            ("serpent-cbc", "Serpent in CBC mode"),
            ("serpent-ecb", "Serpent in ECB mode"),
            ("serpent-ctr", "Serpent in CTR mode"),
            ("serpent-lrw", "Serpent in LRW mode"),
            ("twofish-xts", "Twofish in XTS mode"),
            ("twofish-cbc", "Twofish in CBC mode"),
            ("twofish-ecb", "Twofish in ECB mode"),
            ("twofish-ctr", "Twofish in CTR mode"),
            ("twofish-lrw", "Twofish in LRW mode"),
            ("aes-hctr2", "AES-HCTR2"),
            ("adiantum", "Adiantum (XChaCha12 and AES-256)"),
            ("adiantum-xchacha20", "Adiantum (XChaCha20 and AES-256)"),
            ("aes-eme", "AES in EME mode"),
            ("chacha20-poly1305", "ChaCha20-Poly1305"),
            ("xchacha20-poly1305", "XChaCha20-Poly1305"),
            ("aes-256-siv", "AES-SIV"),
            ("ripemd160", "RIPEMD-160"),
            ("whirlpool", "Whirlpool"),
            ("blake2b-512", "BLAKE2b-512"),
            ("blake2s-256", "BLAKE2s-256"),
            ("sm3", "SM3"),
            ("blake3", "BLAKE3"),
            ("argon2", "Argon2"),
            ("scrypt", "scrypt"),
            ("vmac-64", "VMAC-64"),
        ];
        for (mechanism, name) in names {
            let said = refused.iter().find(|(refused, _)| refused == mechanism);
            let (_, said) = said.expect(mechanism);
            let beginning = format!("{name} is not approved, and FIPS mode is on; ");
            assert!(said.starts_with(&beginning), "{said}");
        }
        assert_eq!(refused.len(), names.len(), "{refused:?}");
    }

    #[test]
    fn what_is_not_understood_is_not_ignored() {
        for line in [
            "disable",
            "disable aws-lc/rot13",
            "disable nobody",
            "enable",
            "enable aws-lc",
            "disable aws-lc",
            "disable portable/argon2",
            "disable aws-lc/serpent-xts",
            "fips-140",
        ] {
            let text = format!("# a comment\n\ndisable aws-lc/aes-xts\n{line}\n");
            assert_eq!(Policy::parse(&text), Err(line.to_owned()));
        }
        assert_eq!(Policy::parse(""), Ok(Policy::default()));
    }
}
