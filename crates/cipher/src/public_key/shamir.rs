//! Shamir's sharing of a secret among several holders ("How to share a secret", 1979). Enough shares give the secret,
//! and fewer say nothing of it. A share is a point of a polynomial modulo a prime, and the secret its value at 0.

use zeroize::Zeroizing;

use crate::ffi::{value_at, value_at_zero};
use crate::{Error, Random, Result};

/// The shares of one secret are no more than this.
const SHARES_MAX: usize = 256;

/// The largest prime of 256 bits: 2^256 - 189.
pub const PRIME_256: [u8; 32] = {
    let mut prime = [0xff; 32];
    prime[31] = 0x43;
    prime
};

/// Makes `count` shares of a secret below [`PRIME_256`], of which `threshold` give it back with [`join_shares`].
///
/// # Errors
/// [`Error::Shares`] if there would be no such shares; [`Error::Library`] or an error of the random numbers.
pub fn split_secret(
    secret: &[u8; 32],
    (threshold, count): (usize, usize),
    random: &dyn Random,
) -> Result<Vec<Zeroizing<Vec<u8>>>> {
    let can_be = (1..=count).contains(&threshold) && count <= SHARES_MAX;
    if !can_be || *secret >= PRIME_256 {
        return Err(Error::Shares);
    }
    let mut coefficients = vec![Zeroizing::new(*secret)];
    while coefficients.len() < threshold {
        let mut coefficient = Zeroizing::new([0; 32]);
        random.fill(&mut *coefficient)?;
        // Each value below the prime is as likely.
        if *coefficient < PRIME_256 {
            coefficients.push(coefficient);
        }
    }
    let coefficients: Vec<&[u8]> = coefficients.iter().map(|c| &c[..]).collect();
    let share = |number: usize| {
        let mut x = [0; 32];
        x[24..].copy_from_slice(&(number as u64).to_be_bytes());
        let y = value_at(&PRIME_256, &coefficients, &x)?;
        Ok(Zeroizing::new([&x, &y[..]].concat()))
    };
    (1..=count).map(share).collect()
}

/// The secret of these shares, as long as the prime. A share is x and then y, each as long as the prime, big-endian.
///
/// # Errors
/// [`Error::Shares`] for shares that cannot be of one secret. Other shares than those that were made give another secret.
pub fn join_shares(prime: &[u8], shares: &[&[u8]]) -> Result<Zeroizing<Vec<u8>>> {
    let is_odd = prime.last().is_some_and(|last| last & 1 == 1);
    let is_long = prime.first().is_some_and(|first| *first >= 0x80);
    let fit = shares.iter().all(|share| share.len() == 2 * prime.len());
    if !(is_odd && is_long && fit && (1..=SHARES_MAX).contains(&shares.len())) {
        return Err(Error::Shares);
    }
    let points: Vec<[&[u8]; 2]> = shares
        .iter()
        .map(|share| share.split_at(prime.len()).into())
        .collect();
    value_at_zero(prime, &points)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enough_shares_give_the_secret_and_fewer_do_not() {
        let secret = [0xa5; 32];
        let random = crate::SeededRandom::new(1);
        let shares = split_secret(&secret, (3, 5), &random).unwrap();
        let join = |which: &[usize]| {
            let chosen: Vec<&[u8]> = which.iter().map(|i| &shares[*i][..]).collect();
            join_shares(&PRIME_256, &chosen).unwrap()
        };
        for which in [[0, 1, 2], [4, 2, 0], [1, 3, 4]] {
            assert_eq!(*join(&which), secret);
        }
        assert_ne!(*join(&[0, 1]), secret);
        for (secret, counts) in [
            (secret, (0, 1)),
            (secret, (3, 2)),
            (secret, (2, 257)),
            (PRIME_256, (1, 1)),
        ] {
            let made = split_secret(&secret, counts, &random);
            assert_eq!(made.err(), Some(Error::Shares));
        }
    }

    /// The polynomial 3x² + 94x + 166 modulo 251.
    #[test]
    fn a_secret_comes_back() {
        let join = |prime: u8, shares: &[[u8; 2]]| {
            let shares: Vec<&[u8]> = shares.iter().map(|share| &share[..]).collect();
            join_shares(&[prime], &shares).map(|secret| secret[0])
        };
        let value = |x: u32| [x as u8, ((3 * x * x + 94 * x + 166) % 251) as u8];
        let all = [value(1), value(2), value(200)];
        assert_eq!(join(251, &all), Ok(166));
        assert_eq!(join(251, &[value(77), value(2), value(250)]), Ok(166));
        assert_ne!(join(251, &all[..2]), Ok(166));
        assert_eq!(join(251, &[[9, 3]]), Ok(3), "one share is the secret");
        for (prime, shares) in [
            (251, &[value(1), value(1)][..]),
            (250, &all),
            (13, &all),
            (251, &[]),
        ] {
            assert_eq!(join(prime, shares), Err(Error::Shares));
        }
        // 255 = 3 · 5 · 17 is no prime.
        assert_eq!(join(255, &[[1, 1], [4, 1]]), Err(Error::Shares));
        assert_eq!(join_shares(&[251], &[&[1]]), Err(Error::Shares));
        assert_eq!(join_shares(&[], &[&[]]), Err(Error::Shares));
    }
}
