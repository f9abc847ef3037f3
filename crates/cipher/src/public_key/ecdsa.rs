//! Signatures by ECDSA, in the form of JOSE (RFC 7518, 3.4): ES256, ES384 and ES512.

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ECDSA_P521_SHA512_FIXED, UnparsedPublicKey,
};

use crate::{Curve, Error, Point, Result};

/// Checks the signature of a message, by the hash that goes with the curve.
///
/// # Errors
/// [`Error::Unauthentic`] if the holder of the key did not sign this message; [`Error::Point`].
pub fn verify_ecdsa(curve: Curve, key: &Point, message: &[u8], signature: &[u8]) -> Result<()> {
    let algorithm = match curve {
        Curve::P256 => &ECDSA_P256_SHA256_FIXED,
        Curve::P384 => &ECDSA_P384_SHA384_FIXED,
        Curve::P521 => &ECDSA_P521_SHA512_FIXED,
    };
    let key = UnparsedPublicKey::new(algorithm, key.octets(curve)?);
    let verified = key.verify(message, signature);
    verified.map_err(|_| Error::Unauthentic)
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::rand::SystemRandom;
    use aws_lc_rs::signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING,
        ECDSA_P521_SHA512_FIXED_SIGNING, EcdsaKeyPair, KeyPair,
    };

    use super::*;

    #[test]
    fn what_the_key_signed_is_known() {
        for (curve, signing) in [
            (Curve::P256, &ECDSA_P256_SHA256_FIXED_SIGNING),
            (Curve::P384, &ECDSA_P384_SHA384_FIXED_SIGNING),
            (Curve::P521, &ECDSA_P521_SHA512_FIXED_SIGNING),
        ] {
            let pair = EcdsaKeyPair::generate(signing).expect("a key");
            let signature = pair.sign(&SystemRandom::new(), b"signed").expect("signed");
            let key = Point::of_octets(curve, pair.public_key().as_ref());
            let verify =
                |message: &[u8], signature: &[u8]| verify_ecdsa(curve, &key, message, signature);
            assert_eq!(verify(b"signed", signature.as_ref()), Ok(()));
            assert_eq!(
                verify(b"other", signature.as_ref()),
                Err(Error::Unauthentic)
            );
            assert_eq!(verify(b"signed", b""), Err(Error::Unauthentic));
            let wrong = Point {
                x: key.y.clone(),
                y: key.x.clone(),
            };
            let refused = verify_ecdsa(curve, &wrong, b"signed", signature.as_ref());
            assert_eq!(refused, Err(Error::Unauthentic));
        }
    }
}
