//! The curves of a key exchange.

/// A curve of NIST.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Curve {
    /// secp256r1.
    P256,
    /// secp384r1.
    P384,
    /// secp521r1.
    P521,
}

impl Curve {
    /// The name in JOSE.
    pub const fn name(self) -> &'static str {
        match self {
            Curve::P256 => "P-256",
            Curve::P384 => "P-384",
            Curve::P521 => "P-521",
        }
    }

    /// The curve with this name.
    pub fn from_name(name: &str) -> Option<Curve> {
        let all = [Curve::P256, Curve::P384, Curve::P521];
        all.into_iter().find(|curve| curve.name() == name)
    }

    /// Returns the length of a coordinate, in bytes.
    pub const fn coordinate_len(self) -> usize {
        match self {
            Curve::P256 => 32,
            Curve::P384 => 48,
            Curve::P521 => 66,
        }
    }
}
