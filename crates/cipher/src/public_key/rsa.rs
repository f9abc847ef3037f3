//! Public keys of RSA. Nothing is checked or encrypted with them here: a TPM does, which takes the two numbers.

use aws_lc_rs::rsa::PublicKey;

use crate::ffi::rsa_numbers;
use crate::{Error, Result};

/// A public key of RSA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RsaPublicKey {
    /// The modulus, big-endian, without zeros before it.
    pub modulus: Vec<u8>,
    /// The public exponent, in the same way.
    pub exponent: Vec<u8>,
    /// `RSAPublicKey` in DER (RFC 8017, A.1.1).
    pub der: Vec<u8>,
}

impl RsaPublicKey {
    /// Reads `SubjectPublicKeyInfo` (RFC 5280, 4.1) or `RSAPublicKey` in DER.
    ///
    /// # Errors
    /// [`Error::RsaKey`] if it is not a public key of RSA.
    pub fn from_der(der: &[u8]) -> Result<RsaPublicKey> {
        let key = PublicKey::from_der(der).map_err(|_| Error::RsaKey)?;
        let der = key.as_ref().to_vec();
        let [modulus, exponent] = rsa_numbers(&der)?;
        Ok(RsaPublicKey {
            modulus,
            exponent,
            der,
        })
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::encoding::AsDer;
    use aws_lc_rs::rsa::{KeyPair, KeySize};
    use aws_lc_rs::signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_2048_8192_SHA256,
        RsaPublicKeyComponents,
    };

    use super::*;

    #[test]
    fn both_encodings_of_a_key_give_its_numbers() {
        let pair = KeyPair::generate(KeySize::Rsa2048).expect("a key");
        let public = pair.public_key();
        let key = RsaPublicKey::from_der(public.as_ref()).expect("a key");
        assert_eq!(key.der, public.as_ref());
        assert_eq!(
            (key.modulus.len(), &key.exponent[..]),
            (256, &[1, 0, 1][..])
        );
        let long = public.as_der().expect("its longer encoding");
        assert_eq!(RsaPublicKey::from_der(long.as_ref()), Ok(key.clone()));
        // They are the numbers of this key.
        let mut signature = vec![0; 256];
        let random = aws_lc_rs::rand::SystemRandom::new();
        let padding = &aws_lc_rs::signature::RSA_PKCS1_SHA256;
        let signed = pair.sign(padding, &random, b"signed", &mut signature);
        signed.expect("a signature");
        let (n, e) = (&key.modulus, &key.exponent);
        let numbers = RsaPublicKeyComponents { n, e };
        let verified = numbers.verify(&RSA_PKCS1_2048_8192_SHA256, b"signed", &signature);
        assert!(verified.is_ok());
    }

    #[test]
    fn other_keys_are_refused() {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key");
        let public = pair.public_key().as_der().expect("its encoding");
        for bytes in [public.as_ref(), b"", b"\x30", &[0x30; 300]] {
            assert_eq!(RsaPublicKey::from_der(bytes), Err(Error::RsaKey));
        }
    }
}
