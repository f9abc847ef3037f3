//! The pins of clevis: who helps to open what is sealed. The pin `sss` has parts, each with a pin of its own
//! (Shamir's sharing). It opens when enough of them do. Its parts are asked at the same time. So an absent server
//! does not keep the others from helping.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Instant;

use cipher::{Policy, SystemRandom};
use secret::Secret;
use serde_json::Value;
use zeroize::Zeroizing;

use super::jose::{self, Jwe, unusable};
use super::server::TangServer;
use super::tang::Tang;
use super::tpm2;
use crate::Result;
use crate::tpm::SealedByTpm;

/// The greatest depth of parts inside of each other.
const DEPTH_MAX: u32 = 4;
/// The most parts in all: each may be a server that is asked.
const PARTS_MAX: usize = 64;
/// The prime of a sharing has as many bytes as the key.
const PRIME_LEN: usize = 32;

/// A sealed secret, and the pin that opens it.
pub(super) struct ClevisSecret {
    sealed: Jwe,
    pin: Pin,
}

enum Pin {
    Tang(Tang),
    Sss(Sss),
    Tpm2(SealedByTpm),
    /// A pin that is not known here.
    Other(String),
}

/// A secret in shares, with the number of parts that open it.
struct Sss {
    threshold: usize,
    prime: Vec<u8>,
    /// The parts. A part that cannot be read does not keep the others from opening.
    parts: Vec<Result<ClevisSecret>>,
}

impl ClevisSecret {
    /// Reads what anybody may have written.
    pub(super) fn read(jwe: &Value) -> Result<ClevisSecret> {
        ClevisSecret::read_part(jwe, DEPTH_MAX, &mut PARTS_MAX.clone())
    }

    fn read_part(jwe: &Value, depth: u32, parts_left: &mut usize) -> Result<ClevisSecret> {
        let sealed = Jwe::read(jwe)?;
        let header = &sealed.header;
        let pin = match header["clevis"]["pin"].as_str() {
            Some("tang") => Pin::Tang(Tang::read(header)?),
            Some("tpm2") => Pin::Tpm2(tpm2::read(header)?),
            Some("sss") => Pin::Sss(Sss::read(header, depth, parts_left)?),
            Some(other) => Pin::Other(other.chars().filter(char::is_ascii_alphanumeric).collect()),
            None => return Err(unusable("it does not say how it was sealed")),
        };
        Ok(ClevisSecret { sealed, pin })
    }

    /// Opens it, by asking who helps.
    pub(super) fn open(self, until: Instant) -> Result<Secret> {
        let ClevisSecret { sealed, pin } = self;
        match pin {
            Pin::Tang(_) if Policy::current().is_fips() => {
                Err(unusable("its key exchange is not approved in FIPS mode"))
            }
            Pin::Tang(tang) => {
                let url = &tang.url;
                let server = TangServer { url, until };
                let shared = tang.recover(&server, &SystemRandom)?;
                let gone = || server.failed("it does not have the key any more");
                let key = jose::derive(&shared.ok_or_else(gone)?, &sealed.header)?;
                let opened = sealed.open(&key)?;
                opened.ok_or_else(|| unusable("what the server answered does not open it"))
            }
            Pin::Sss(sss) => {
                let opened = sealed.open(&sss.join(until)?)?;
                opened.ok_or_else(|| unusable("its parts open, and their shares do not open it"))
            }
            Pin::Tpm2(key) => {
                let opened = sealed.open(&tpm2::key(&key)?)?;
                opened.ok_or_else(|| unusable("the key that the TPM sealed does not open it"))
            }
            Pin::Other(pin) => Err(unusable(format!(
                "it is of the kind '{pin}', and only 'tang', 'tpm2' and 'sss' are known here"
            ))),
        }
    }
}

impl Sss {
    fn read(header: &Value, depth: u32, parts_left: &mut usize) -> Result<Sss> {
        let algorithms = (header["alg"].as_str(), header["enc"].as_str());
        if algorithms != (Some("dir"), Some("A256GCM")) {
            return Err(unusable("its parts are not shares of a key for A256GCM"));
        }
        let sss = &header["clevis"]["sss"];
        let missing = |what: &str| unusable(format!("its parts have no {what}"));
        let prime = jose::decode(sss["p"].as_str().ok_or_else(|| missing("prime"))?)?;
        let listed = sss["jwe"].as_array().map_or(&[][..], Vec::as_slice);
        let threshold = sss["t"].as_u64().and_then(|t| usize::try_from(t).ok());
        let threshold = threshold.filter(|t| (1..=listed.len()).contains(t));
        let threshold = threshold.ok_or_else(|| missing("threshold that they reach"))?;
        if prime.len() != PRIME_LEN {
            return Err(missing("prime of 256 bits"));
        }
        let depth = depth.checked_sub(1);
        let depth = depth.ok_or_else(|| unusable("it has parts of parts too many times"))?;
        let left = parts_left.checked_sub(listed.len());
        *parts_left = left.ok_or_else(|| unusable("it has too many parts"))?;
        let mut parts = Vec::with_capacity(listed.len());
        for part in listed {
            parts.push(ClevisSecret::read_part(part, depth, parts_left));
        }
        Ok(Sss {
            threshold,
            prime,
            parts,
        })
    }

    /// The key, as soon as enough parts are open. Those that still wait for a server end when their time does.
    fn join(self, until: Instant) -> Result<Zeroizing<Vec<u8>>> {
        let (sender, opened) = channel();
        let mut failure = None;
        for part in self.parts {
            let sender = sender.clone();
            let spawned = threads::start("key part", move || {
                // Nobody may wait any more.
                let _ = sender.send(part.and_then(|part| part.open(until)));
            });
            if let Err(error) = spawned {
                failure = Some(unusable(error.to_string()));
            }
        }
        drop(sender);
        let mut shares = Vec::with_capacity(self.threshold);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let part = match opened.recv_timeout(left) {
                Ok(part) => part,
                Err(RecvTimeoutError::Timeout) => {
                    failure = Some(unusable("who could help does not answer"));
                    break;
                }
                // All have answered.
                Err(RecvTimeoutError::Disconnected) => break,
            };
            match part {
                Ok(share) => shares.push(share),
                Err(error) => failure = Some(error),
            }
            if shares.len() == self.threshold {
                let shares: Vec<&[u8]> = shares.iter().map(Secret::expose).collect();
                let joined = cipher::join_shares(&self.prime, &shares);
                return joined.map_err(|error| unusable(error.to_string()));
            }
        }
        let (got, wanted) = (shares.len(), self.threshold);
        let last = failure.map_or(String::new(), |error| format!("; the last: {error}"));
        Err(unusable(format!(
            "{got} of the {wanted} parts that it takes can be opened{last}"
        )))
    }
}
