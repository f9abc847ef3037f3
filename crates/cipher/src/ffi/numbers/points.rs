//! Sums of points of the curves of NIST. A point is written as 4, its x and its y, big-endian (SEC 1, 2.3.3).

use aws_lc_sys as sys;
use zeroize::Zeroizing;

use super::number::Number;
use crate::ffi::library::check;
use crate::{Curve, Error, Result};

/// A point of the library, which wipes it when it frees it.
struct CurvePoint {
    group: *const sys::EC_GROUP,
    raw: *mut sys::EC_POINT,
}

/// `point` and `scalar` times the generator of the curve.
pub(crate) fn add_multiple(
    curve: Curve,
    point: &[u8],
    scalar: &[u8],
) -> Result<Zeroizing<Vec<u8>>> {
    let group = group(curve);
    let point = CurvePoint::read(group, point)?;
    let multiple = CurvePoint::multiple(group, None, &Number::read(scalar)?)?;
    point.plus(&multiple)?.write(curve)
}

/// `point` less `scalar` times `other`.
pub(crate) fn subtract_multiple(
    curve: Curve,
    point: &[u8],
    other: &[u8],
    scalar: &[u8],
) -> Result<Zeroizing<Vec<u8>>> {
    let group = group(curve);
    let (point, other) = (
        CurvePoint::read(group, point)?,
        CurvePoint::read(group, other)?,
    );
    let multiple = CurvePoint::multiple(group, Some(&other), &Number::read(scalar)?)?;
    // SAFETY: the point lives, and is of this group.
    let done = unsafe { sys::EC_POINT_invert(group, multiple.raw, std::ptr::null_mut()) };
    check(done, Error::Library)?;
    point.plus(&multiple)?.write(curve)
}

/// `scalar` times the generator of the curve, and `scalar` times `point`.
pub(crate) fn multiples(
    curve: Curve,
    point: &[u8],
    scalar: &[u8],
) -> Result<[Zeroizing<Vec<u8>>; 2]> {
    let group = group(curve);
    let (point, scalar) = (CurvePoint::read(group, point)?, Number::read(scalar)?);
    let of_generator = CurvePoint::multiple(group, None, &scalar)?.write(curve)?;
    let of_point = CurvePoint::multiple(group, Some(&point), &scalar)?.write(curve)?;
    Ok([of_generator, of_point])
}

fn group(curve: Curve) -> *const sys::EC_GROUP {
    // SAFETY: no arguments; the groups are static.
    unsafe {
        match curve {
            Curve::P256 => sys::EC_group_p256(),
            Curve::P384 => sys::EC_group_p384(),
            Curve::P521 => sys::EC_group_p521(),
        }
    }
}

impl CurvePoint {
    fn new(group: *const sys::EC_GROUP) -> Result<CurvePoint> {
        // SAFETY: the group is static.
        let raw = unsafe { sys::EC_POINT_new(group) };
        match raw.is_null() {
            true => Err(Error::Library),
            false => Ok(CurvePoint { group, raw }),
        }
    }

    /// The library refuses what is not on the curve.
    fn read(group: *const sys::EC_GROUP, bytes: &[u8]) -> Result<CurvePoint> {
        let point = CurvePoint::new(group)?;
        // SAFETY: the point lives and is of the group; the bytes are readable for their length.
        let done = unsafe {
            let context = std::ptr::null_mut();
            sys::EC_POINT_oct2point(group, point.raw, bytes.as_ptr(), bytes.len(), context)
        };
        check(done, Error::Point)?;
        Ok(point)
    }

    /// `scalar` times a point, or times the generator.
    fn multiple(
        group: *const sys::EC_GROUP,
        point: Option<&CurvePoint>,
        scalar: &Number,
    ) -> Result<CurvePoint> {
        let multiple = CurvePoint::new(group)?;
        // SAFETY: the group is static; points are of this group and live; the number lives; without a point and a second
        // number the generator alone is multiplied, without the first number the point alone; the context may be null.
        let done = unsafe {
            let (to, context) = (multiple.raw, std::ptr::null_mut());
            match point {
                None => {
                    let (none, no_number) = (std::ptr::null(), std::ptr::null());
                    sys::EC_POINT_mul(group, to, scalar.raw(), none, no_number, context)
                }
                Some(point) => sys::EC_POINT_mul(
                    group,
                    to,
                    std::ptr::null(),
                    point.raw,
                    scalar.raw(),
                    context,
                ),
            }
        };
        check(done, Error::Library)?;
        Ok(multiple)
    }

    fn plus(&self, other: &CurvePoint) -> Result<CurvePoint> {
        let sum = CurvePoint::new(self.group)?;
        // SAFETY: all three live and are of one group.
        let done = unsafe {
            let context = std::ptr::null_mut();
            sys::EC_POINT_add(self.group, sum.raw, self.raw, other.raw, context)
        };
        check(done, Error::Library)?;
        Ok(sum)
    }

    /// The neutral point has no coordinates, and is refused.
    fn write(&self, curve: Curve) -> Result<Zeroizing<Vec<u8>>> {
        let mut bytes = Zeroizing::new(vec![0; 1 + 2 * curve.coordinate_len()]);
        let form = sys::point_conversion_form_t::POINT_CONVERSION_UNCOMPRESSED;
        // SAFETY: the point lives; the bytes are writable for their length.
        let written = unsafe {
            let (to, context) = (bytes.as_mut_ptr(), std::ptr::null_mut());
            sys::EC_POINT_point2oct(self.group, self.raw, form, to, bytes.len(), context)
        };
        check(i32::from(written == bytes.len()), Error::Point)?;
        Ok(bytes)
    }
}

impl Drop for CurvePoint {
    fn drop(&mut self) {
        // SAFETY: it was made by the library, and nothing else has it.
        unsafe { sys::EC_POINT_free(self.raw) }
    }
}
