//! A tweak of XTS in a vector register, so that it is stored as one. (Of two stores the processor makes one load only
//! after both have left its buffer, which costs more than the cipher.)

// Other architectures have a number in place of the register.
#![cfg_attr(not(target_arch = "x86_64"), allow(unnecessary_transmutes))]

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    __m128i as Register, _mm_add_epi64, _mm_and_si128, _mm_set_epi32, _mm_shuffle_epi32,
    _mm_srai_epi32, _mm_xor_si128,
};

#[cfg(not(target_arch = "x86_64"))]
type Register = u128;

/// An element of GF(2^128) of IEEE 1619. The first byte of a block is the lowest.
#[derive(Clone, Copy)]
pub(crate) struct TweakElement(Register);

impl TweakElement {
    #[inline(always)]
    pub(crate) fn new(number: u128) -> TweakElement {
        // SAFETY: both types are 16 bytes, all of which may have any value.
        TweakElement(unsafe { std::mem::transmute::<[u8; 16], Register>(number.to_le_bytes()) })
    }

    /// The block of bytes.
    #[inline(always)]
    pub(crate) fn bytes(self) -> [u8; 16] {
        // SAFETY: both types are 16 bytes, all of which may have any value.
        unsafe { std::mem::transmute::<Register, [u8; 16]>(self.0) }
    }

    /// The element times x, in constant time.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(crate) fn double(self) -> TweakElement {
        // SAFETY: these need SSE2, which each processor of this architecture has.
        TweakElement(unsafe {
            // The top bit of the lower half goes to the upper one. That of the upper one comes back as x^7 + x^2 + x
            // + 1.
            let tops = _mm_shuffle_epi32::<0b00_01_00_11>(_mm_srai_epi32::<31>(self.0));
            let carries = _mm_and_si128(tops, _mm_set_epi32(0, 1, 0, 0x87));
            _mm_xor_si128(_mm_add_epi64(self.0, self.0), carries)
        })
    }

    /// The element times x, in constant time.
    #[cfg(not(target_arch = "x86_64"))]
    #[inline(always)]
    pub(crate) fn double(self) -> TweakElement {
        TweakElement::new(crate::block::field::double(u128::from_le_bytes(
            self.bytes(),
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::field::double;

    #[test]
    fn the_product_is_that_of_numbers() {
        for number in [
            0,
            1,
            1 << 63,
            1 << 64,
            1 << 127,
            u128::MAX,
            0x87 << 120 | 0x5a,
        ] {
            let doubled = TweakElement::new(number).double();
            assert_eq!(doubled.bytes(), double(number).to_le_bytes(), "{number:x}");
        }
    }
}
