//! A key that several sources hold together (Shamir's sharing, as the pin `sss` of clevis). A threshold of them
//! opens its slot; fewer say nothing of it. Each source protects a share in its own way. All sources are asked for
//! their shares at the same time. So an absent server does not keep the others from helping.

use std::sync::Arc;
use std::sync::mpsc::channel;

use cipher::{PRIME_256, Random};
use secret::{Key, Secret};
use zerocopy::{FromBytes, IntoBytes};

use crate::key::{derived_key, random_key};
use crate::layout::{self, KeyShareParams, PARAMS_MAX, ShareHead, SharesHead};
use crate::tpm::SealedByTpm;
use crate::{Error, Result, TangKey, TpmKey, is_for_server, is_for_tpm, wrap};

/// Authenticated with a share that a key wraps.
const DOMAIN: &[u8] = b"strongroom key share v1";
/// The context in which the key that wraps a share is derived from a key.
const SHARE_KEY: &str = "strongroom 2026-11 share key from a key v1";
/// Two numbers as long as the prime.
const SHARE_LEN: usize = 64;

/// A source that opens one share.
#[derive(Debug)]
pub(crate) enum ShareHolder {
    Key(Key),
    Tang(TangKey),
    Tpm(TpmKey),
}

/// Sources of which so many open a slot together.
#[derive(Debug)]
pub struct SharedKey {
    threshold: usize,
    holders: Vec<Arc<ShareHolder>>,
    /// The reasons why sources are missing.
    failures: Vec<String>,
    /// The new key and its shares, if a slot is to be made.
    made: Option<(Key, Shares)>,
}

/// The key of a slot in shares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shares {
    threshold: u8,
    shares: Vec<KeyShare>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum KeyShare {
    /// A key wraps it.
    Key(Vec<u8>),
    /// A Tang server helps to open it.
    Tang(String),
    /// A TPM sealed it.
    Tpm(SealedByTpm),
    /// A share of a kind that only later versions of the program know. It is kept unchanged.
    Other { kind: u16, params: Vec<u8> },
}

impl SharedKey {
    /// `failures` say why sources are missing.
    pub(crate) fn new(
        threshold: usize,
        holders: Vec<ShareHolder>,
        failures: Vec<String>,
    ) -> SharedKey {
        SharedKey {
            threshold,
            holders: holders.into_iter().map(Arc::new).collect(),
            failures,
            made: None,
        }
    }

    /// Has all sources protect their shares now, so that nothing waits for them when a slot is made.
    ///
    /// # Errors
    /// Those of the sources; [`Error::KeySource`] if one is missing; [`Error::Shares`] if the shares do not fit into
    /// a slot.
    pub fn seal(mut self, random: &dyn Random) -> Result<SharedKey> {
        self.made = Some(self.make(random)?);
        Ok(self)
    }

    fn make(&self, random: &dyn Random) -> Result<(Key, Shares)> {
        if let Some(reason) = self.failures.first() {
            return Err(Error::KeySource(reason.clone()));
        }
        let mut key = random_key(random)?;
        // Shares are numbers below the prime.
        while *key.expose() >= PRIME_256 {
            key = random_key(random)?;
        }
        let counts = (self.threshold, self.holders.len());
        let parts = cipher::split_secret(key.expose(), counts, random)?;
        let mut shares = Vec::with_capacity(parts.len());
        for (holder, part) in self.holders.iter().zip(&parts) {
            shares.push(holder.protect(part, random)?);
        }
        let threshold = u8::try_from(self.threshold).map_err(|_| too_long())?;
        let shares = Shares { threshold, shares };
        match shares.encode().len() <= PARAMS_MAX {
            true => Ok((key, shares)),
            false => Err(too_long()),
        }
    }

    /// The key of a new slot, and what the slot keeps.
    pub(crate) fn wrap(&self, random: &dyn Random) -> Result<(Key, Shares)> {
        match &self.made {
            Some((key, shares)) => Ok((key.try_clone()?, shares.clone())),
            None => self.make(random),
        }
    }

    /// The key of a slot, as soon as enough shares are open.
    ///
    /// # Errors
    /// [`Error::Shares`] if there are not enough.
    pub(crate) fn unwrap(&self, shares: &Shares) -> Result<Key> {
        let (sender, opened) = channel();
        let mut failures = self.failures.clone();
        for share in &shares.shares {
            let fit = self.holders.iter().filter(|holder| holder.fits(share));
            let fit: Vec<Arc<ShareHolder>> = fit.map(Arc::clone).collect();
            let (share, sender) = (share.clone(), sender.clone());
            let open = move || {
                // Nobody may wait any more.
                let _ = sender.send(open_by(&share, &fit));
            };
            threads::start("key part", open).map_err(|error| Error::Shares(error.to_string()))?;
        }
        drop(sender);
        let wanted = usize::from(shares.threshold);
        let mut parts = Vec::with_capacity(wanted);
        for part in opened {
            match part {
                Ok(None) => {}
                Ok(Some(part)) => parts.push(part),
                Err(error) => failures.push(error.to_string()),
            }
            if parts.len() == wanted {
                return join(&parts);
            }
        }
        let why = if failures.is_empty() { "" } else { ": " };
        Err(Error::Shares(format!(
            "{} of the {wanted} parts that it takes can be opened{why}{}",
            parts.len(),
            failures.join("; ")
        )))
    }
}

fn join(parts: &[Secret]) -> Result<Key> {
    let damaged = || Error::Damaged("the parameters of a key slot");
    let parts: Vec<&[u8]> = parts.iter().map(Secret::expose).collect();
    let joined = cipher::join_shares(&PRIME_256, &parts).map_err(|_| damaged())?;
    let joined = joined[..].try_into().map_err(|_| damaged())?;
    Ok(Key::from_bytes(joined)?)
}

/// Opens a share by the first of these that can; `None` if there is none.
fn open_by(share: &KeyShare, holders: &[Arc<ShareHolder>]) -> Result<Option<Secret>> {
    let mut failure = None;
    for holder in holders {
        match holder.open(share) {
            Ok(None) => {}
            Err(error) => failure = Some(error),
            found => return found,
        }
    }
    failure.map_or(Ok(None), Err)
}

impl ShareHolder {
    fn fits(&self, share: &KeyShare) -> bool {
        match (self, share) {
            (ShareHolder::Key(_), KeyShare::Key(_)) => true,
            (ShareHolder::Tang(tang), KeyShare::Tang(sealed)) => is_for_server(sealed, tang.url()),
            (ShareHolder::Tpm(tpm), KeyShare::Tpm(sealed)) => is_for_tpm(sealed, tpm.source()),
            _ => false,
        }
    }

    fn protect(&self, share: &[u8], random: &dyn Random) -> Result<KeyShare> {
        Ok(match self {
            ShareHolder::Key(key) => {
                let mut salt = [0; 32];
                random.fill(&mut salt)?;
                let share_key = derived_key(SHARE_KEY, &[key.expose(), &salt])?;
                let share = share.try_into().map_err(|_| cipher::Error::Shares)?;
                let wrapped = wrap::wrap::<SHARE_LEN>(&share_key, DOMAIN, share, random)?;
                KeyShare::Key(KeyShareParams { salt, wrapped }.as_bytes().to_vec())
            }
            ShareHolder::Tang(tang) => {
                KeyShare::Tang(tang.seal_share(&Secret::from_slice(share)?, random)?)
            }
            ShareHolder::Tpm(tpm) => KeyShare::Tpm(tpm.seal_bytes(share, random)?),
        })
    }

    fn open(&self, share: &KeyShare) -> Result<Option<Secret>> {
        match (self, share) {
            (ShareHolder::Key(key), KeyShare::Key(params)) => {
                let damaged = |_| Error::Damaged("the parameters of a key slot");
                let params = KeyShareParams::read_from_bytes(params).map_err(damaged)?;
                let share_key = derived_key(SHARE_KEY, &[key.expose(), &params.salt])?;
                let mut opened = Secret::zeroed(SHARE_LEN)?;
                let place = opened.expose_mut().try_into().expect("as long");
                wrap::unwrap::<SHARE_LEN>(&params.wrapped, &share_key, DOMAIN, place)?;
                Ok(Some(opened))
            }
            (ShareHolder::Tang(tang), KeyShare::Tang(sealed)) => tang.open_text(sealed),
            (ShareHolder::Tpm(tpm), KeyShare::Tpm(sealed)) => tpm.open_bytes(sealed).map(Some),
            _ => Ok(None),
        }
    }
}

impl Shares {
    /// Reads the parameters of a slot.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Shares> {
        let damaged = || Error::Damaged("the parameters of a key slot");
        let mut rest = bytes;
        let head: SharesHead = layout::take(&mut rest).ok_or_else(damaged)?;
        let mut shares = Vec::with_capacity(usize::from(head.shares));
        for _ in 0..head.shares {
            let share: ShareHead = layout::take(&mut rest).ok_or_else(damaged)?;
            let len = usize::from(share.len.get());
            let (params, after) = rest.split_at_checked(len).ok_or_else(damaged)?;
            rest = after;
            shares.push(KeyShare::decode(share.kind.get(), params)?);
        }
        let reaches = (1..=head.shares).contains(&head.threshold);
        if !reaches || head.reserved != [0; 2] || !rest.is_empty() {
            return Err(damaged());
        }
        Ok(Shares {
            threshold: head.threshold,
            shares,
        })
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let head = SharesHead {
            threshold: self.threshold,
            shares: u8::try_from(self.shares.len()).expect("as many were read or given"),
            reserved: [0; 2],
        };
        let mut out = head.as_bytes().to_vec();
        for share in &self.shares {
            let (kind, params) = share.params();
            let len = u16::try_from(params.len()).expect("less than a slot");
            let head = ShareHead {
                kind: kind.into(),
                len: len.into(),
            };
            out.extend_from_slice(head.as_bytes());
            out.extend_from_slice(&params);
        }
        out
    }
}

impl KeyShare {
    fn decode(kind: u16, params: &[u8]) -> Result<KeyShare> {
        let damaged = || Error::Damaged("the parameters of a key slot");
        let other = || KeyShare::Other {
            kind,
            params: params.to_vec(),
        };
        Ok(match kind {
            layout::KIND_KEY if params.len() == size_of::<KeyShareParams>() => {
                KeyShare::Key(params.to_vec())
            }
            layout::KIND_KEY => return Err(damaged()),
            layout::KIND_TANG => {
                let sealed = String::from_utf8(params.to_vec());
                KeyShare::Tang(sealed.map_err(|_| damaged())?)
            }
            layout::KIND_TPM => SealedByTpm::decode(params)?.map_or_else(other, KeyShare::Tpm),
            _ => other(),
        })
    }

    fn params(&self) -> (u16, Vec<u8>) {
        match self {
            KeyShare::Key(params) => (layout::KIND_KEY, params.clone()),
            KeyShare::Tang(sealed) => (layout::KIND_TANG, sealed.clone().into_bytes()),
            KeyShare::Tpm(sealed) => (layout::KIND_TPM, sealed.encode()),
            KeyShare::Other { kind, params } => (*kind, params.clone()),
        }
    }
}

fn too_long() -> Error {
    Error::Shares(
        "its parts do not fit into a key slot, which takes about three Tang servers; name fewer"
            .into(),
    )
}
