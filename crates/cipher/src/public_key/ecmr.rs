//! The exchange of McCallum and Relyea. A server that holds a private key helps to compute a shared secret, and
//! learns neither the secret nor the client. Tang serves it, clevis uses it.
//!
//! The secret is S·c: S = G·s is the public key of the server, and c a key that is forgotten at once. C = G·c is
//! kept. The client sends C + G·e for a random e, gets (C + G·e)·s, and subtracts S·e.

use zeroize::Zeroizing;

use crate::ffi::{add_multiple, multiples, subtract_multiple};
use crate::{Curve, Error, Random, Result};

/// A point, by its coordinates, big-endian.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// The first coordinate, as long as the coordinates of the curve.
    pub x: Vec<u8>,
    /// The second coordinate, as long.
    pub y: Vec<u8>,
}

/// A recovery that waits for the answer of the server.
pub struct KeyRecovery {
    curve: Curve,
    /// e.
    secret: Zeroizing<Vec<u8>>,
}

impl KeyRecovery {
    /// Begins with C, and gives the point for the server.
    ///
    /// # Errors
    /// [`Error::Point`] if it is no point of the curve; the failure of the random generator.
    pub fn begin(curve: Curve, kept: &Point, random: &dyn Random) -> Result<(KeyRecovery, Point)> {
        let secret = scalar(curve, random)?;
        let blinded = add_multiple(curve, &kept.octets(curve)?, &secret)?;
        let point = Point::of_octets(curve, &blinded);
        Ok((KeyRecovery { curve, secret }, point))
    }

    /// The x-coordinate of the shared secret, out of the answer and the public key of the server.
    ///
    /// # Errors
    /// [`Error::Point`] if one is no point of the curve.
    pub fn finish(self, answer: &Point, server: &Point) -> Result<Zeroizing<Vec<u8>>> {
        let curve = self.curve;
        let (answer, server) = (answer.octets(curve)?, server.octets(curve)?);
        let shared = subtract_multiple(curve, &answer, &server, &self.secret)?;
        Ok(Zeroizing::new(
            shared[1..1 + curve.coordinate_len()].to_vec(),
        ))
    }
}

/// Makes a shared secret with the public key of a server. Returns C, which is kept, and the x-coordinate of the
/// secret.
///
/// # Errors
/// [`Error::Point`] if the key is no point of the curve; the failure of the random generator.
pub fn share(
    curve: Curve,
    server: &Point,
    random: &dyn Random,
) -> Result<(Point, Zeroizing<Vec<u8>>)> {
    let [kept, shared] = multiples(curve, &server.octets(curve)?, &scalar(curve, random)?)?;
    let x = Zeroizing::new(shared[1..1 + curve.coordinate_len()].to_vec());
    Ok((Point::of_octets(curve, &kept), x))
}

/// A random number. With more bytes than the order has, all numbers below the order are as probable.
fn scalar(curve: Curve, random: &dyn Random) -> Result<Zeroizing<Vec<u8>>> {
    let mut scalar = Zeroizing::new(vec![0; curve.coordinate_len() + 16]);
    random.fill(&mut scalar)?;
    Ok(scalar)
}

impl Point {
    pub(crate) fn of_octets(curve: Curve, octets: &[u8]) -> Point {
        let (x, y) = octets[1..].split_at(curve.coordinate_len());
        Point {
            x: x.to_vec(),
            y: y.to_vec(),
        }
    }

    pub(crate) fn octets(&self, curve: Curve) -> Result<Vec<u8>> {
        let len = curve.coordinate_len();
        match (self.x.len(), self.y.len()) == (len, len) {
            true => Ok([&[4], &*self.x, &*self.y].concat()),
            false => Err(Error::Point),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SeededRandom;
    use crate::tests::hex;

    /// The generator of P-256 (FIPS 186-4, D.1.2.3), and twice it.
    fn points() -> [Point; 2] {
        [
            (
                "6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296",
                "4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5",
            ),
            (
                "7cf27b188d034f7e8a52380304b51ac3c08969e277f21b35a60b48fc47669978",
                "07775510db8ed040293d9ac69f7430dbba7dade63ce982299e04b79d227873d1",
            ),
        ]
        .map(|(x, y)| Point {
            x: hex(x),
            y: hex(y),
        })
    }

    #[test]
    fn points_are_added_and_subtracted() {
        let [one, two] = points().map(|point| point.octets(Curve::P256).expect("a point"));
        let sum = add_multiple(Curve::P256, &one, &[1]).expect("a sum");
        assert_eq!(*sum, two);
        let back = subtract_multiple(Curve::P256, &two, &one, &[1]).expect("a difference");
        assert_eq!(*back, one);
        let none = subtract_multiple(Curve::P256, &two, &one, &[2]);
        assert_eq!(none.map(drop), Err(Error::Point), "the neutral point");
    }

    /// With the key s = 2 of the server, and C = G: the answer is twice what was asked.
    #[test]
    fn a_secret_is_recovered() {
        let [kept, server] = points();
        let random = SeededRandom::new(1);
        let (recovery, asked) = KeyRecovery::begin(Curve::P256, &kept, &random).expect("a point");
        assert_ne!(asked, kept, "the server does not see what is kept");
        let zero = asked.octets(Curve::P256).expect("a point");
        // 2·A = A - A·(n - 1), for the order n.
        let less = hex("ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632550");
        let twice = subtract_multiple(Curve::P256, &zero, &zero, &less).expect("a point");
        let answer = Point {
            x: twice[1..33].to_vec(),
            y: twice[33..].to_vec(),
        };
        let shared = recovery.finish(&answer, &server).expect("a point");
        assert_eq!(*shared, server.x);
    }

    /// With a server whose key is s = 1, the secret is C itself.
    #[test]
    fn a_secret_is_shared() {
        let [server, other] = points();
        let random = SeededRandom::new(1);
        let (kept, shared) = share(Curve::P256, &server, &random).expect("a point");
        assert_eq!(*shared, kept.x);
        let (again, _) = share(Curve::P256, &server, &random).expect("a point");
        assert_ne!(kept, again);
        let wrong = Point {
            x: other.x,
            ..server
        };
        let refused = share(Curve::P256, &wrong, &random);
        assert_eq!(refused.map(drop), Err(Error::Point));
    }

    #[test]
    fn what_is_not_on_the_curve_is_refused() {
        let [kept, server] = points();
        let random = SeededRandom::new(1);
        let begin = |point: &Point| KeyRecovery::begin(Curve::P256, point, &random);
        for wrong in [
            Point {
                x: server.x.clone(),
                ..kept.clone()
            },
            Point {
                x: Vec::new(),
                ..kept.clone()
            },
            Point {
                x: vec![0; 32],
                y: vec![0; 32],
            },
        ] {
            assert_eq!(begin(&wrong).map(drop), Err(Error::Point));
            let (recovery, _) = begin(&kept).expect("a point");
            assert_eq!(
                recovery.finish(&wrong, &server).map(drop),
                Err(Error::Point)
            );
        }
    }
}
