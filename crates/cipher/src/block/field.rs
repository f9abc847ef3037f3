//! GF(2^128) of IEEE 1619, in which tweaks are multiplied. The first byte of a block is the lowest.

/// Multiplies by x, in constant time.
pub(crate) fn double(element: u128) -> u128 {
    let carry = (element as i128 >> 127) as u128;
    element << 1 ^ carry & 0x87
}

/// Multiplies by x to the power `by`, which is between 1 and 56.
#[inline(always)]
pub(crate) fn multiply(element: u128, by: u32) -> u128 {
    element << by ^ u128::from(reduced((element >> (128 - by)) as u64))
}

/// The reduction: a bit that leaves at the top comes back as x^7 + x^2 + x + 1.
#[inline(always)]
pub(crate) fn reduced(carry: u64) -> u64 {
    carry ^ carry << 1 ^ carry << 2 ^ carry << 7
}
