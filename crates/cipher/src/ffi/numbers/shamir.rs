//! Numbers modulo a prime: the points of a polynomial, and its constant term from them.

use aws_lc_sys as sys;
use zeroize::Zeroizing;

use super::number::{Number, NumberContext};
use crate::ffi::library::check;
use crate::{Error, Result};

/// The value at 0 of the polynomial through these points, as many bytes as the prime has.
pub(crate) fn value_at_zero(prime: &[u8], points: &[[&[u8]; 2]]) -> Result<Zeroizing<Vec<u8>>> {
    let field = PrimeField {
        prime: Number::read(prime)?,
        context: NumberContext::new()?,
    };
    let points = points.iter().map(|point| {
        let [x, y] = point.map(Number::read);
        Ok([x?, y?])
    });
    let points = points.collect::<Result<Vec<[Number; 2]>>>()?;
    let mut sum = Number::read(&[])?;
    for [x, y] in &points {
        // y times the product of x' / (x' - x), for all other points.
        let mut term = field.product(y, &Number::read(&[1])?)?;
        for [other, _] in points.iter().filter(|[other, _]| !std::ptr::eq(other, x)) {
            let inverse = field.inverse(&field.difference(other, x)?)?;
            term = field.product(&term, &field.product(other, &inverse)?)?;
        }
        sum = field.sum(&sum, &term)?;
    }
    sum.write(prime.len())
}

/// The value at `x` of the polynomial with these coefficients, the constant one first; as many bytes as the prime has.
pub(crate) fn value_at(
    prime: &[u8],
    coefficients: &[&[u8]],
    x: &[u8],
) -> Result<Zeroizing<Vec<u8>>> {
    let field = PrimeField {
        prime: Number::read(prime)?,
        context: NumberContext::new()?,
    };
    let x = Number::read(x)?;
    let mut sum = Number::read(&[])?;
    for coefficient in coefficients.iter().rev() {
        let shifted = field.product(&sum, &x)?;
        sum = field.sum(&shifted, &Number::read(coefficient)?)?;
    }
    sum.write(prime.len())
}

/// The field in which numbers are added and multiplied.
struct PrimeField {
    prime: Number,
    context: NumberContext,
}

impl PrimeField {
    fn sum(&self, one: &Number, other: &Number) -> Result<Number> {
        self.compute(sys::BN_mod_add, one, other)
    }

    fn difference(&self, one: &Number, other: &Number) -> Result<Number> {
        self.compute(sys::BN_mod_sub, one, other)
    }

    fn product(&self, one: &Number, other: &Number) -> Result<Number> {
        self.compute(sys::BN_mod_mul, one, other)
    }

    fn compute(&self, operation: FieldOperation, one: &Number, other: &Number) -> Result<Number> {
        let result = Number::read(&[])?;
        // SAFETY: all numbers and the context live, and the result is none of the others.
        let done = unsafe {
            operation(
                result.raw(),
                one.raw(),
                other.raw(),
                self.prime.raw(),
                self.context.raw(),
            )
        };
        check(done, Error::Library)?;
        Ok(result)
    }

    /// Fails for two points with the same x, and if the prime is none.
    fn inverse(&self, number: &Number) -> Result<Number> {
        let result = Number::read(&[])?;
        // SAFETY: as above.
        let found = unsafe {
            let (prime, context) = (self.prime.raw(), self.context.raw());
            sys::BN_mod_inverse(result.raw(), number.raw(), prime, context)
        };
        check(i32::from(!found.is_null()), Error::Shares)?;
        Ok(result)
    }
}

type FieldOperation = unsafe extern "C" fn(
    *mut sys::BIGNUM,
    *const sys::BIGNUM,
    *const sys::BIGNUM,
    *const sys::BIGNUM,
    *mut sys::BN_CTX,
) -> i32;
