//! The input and the output of a cipher.

use crate::{Error, Result};

/// The length of an authentication tag. No suite truncates it.
pub(crate) const TAG_LEN: usize = 16;

/// Input and output of a cipher: two buffers of one length, or one buffer for both.
pub(crate) enum AeadBuffers<'a> {
    /// Reads the first, writes the second.
    Apart(&'a [u8], &'a mut [u8]),
    /// Overwrites its input.
    InPlace(&'a mut [u8]),
}

impl AeadBuffers<'_> {
    /// Returns the length of the input.
    pub(crate) fn input_len(&self) -> usize {
        match self {
            AeadBuffers::Apart(input, _) => input.len(),
            AeadBuffers::InPlace(data) => data.len(),
        }
    }

    /// Returns the length of the output.
    pub(crate) fn output_len(&self) -> usize {
        match self {
            AeadBuffers::Apart(_, output) => output.len(),
            AeadBuffers::InPlace(data) => data.len(),
        }
    }

    /// Input, output and the length of both.
    ///
    /// The pointers are valid for that length for as long as the borrow, and are equal or do not
    /// overlap (a shared and an exclusive borrow never do): what AWS-LC asks of `in` and `out`.
    pub(super) fn pointers(&mut self) -> Result<(*const u8, *mut u8, usize)> {
        match self {
            AeadBuffers::Apart(input, output) if input.len() != output.len() => {
                Err(Error::OutputLength {
                    input: input.len(),
                    output: output.len(),
                })
            }
            AeadBuffers::Apart(input, output) => {
                Ok((input.as_ptr(), output.as_mut_ptr(), input.len()))
            }
            AeadBuffers::InPlace(data) => {
                let output = data.as_mut_ptr();
                Ok((output.cast_const(), output, data.len()))
            }
        }
    }

    /// The output, with the input in it: for a cipher that overwrites its input.
    pub(super) fn copied(&mut self) -> Result<&mut [u8]> {
        self.pointers()?;
        match self {
            AeadBuffers::Apart(input, output) => {
                output.copy_from_slice(input);
                Ok(output)
            }
            AeadBuffers::InPlace(data) => Ok(data),
        }
    }

    /// Zeroes the output: the caller must not see unauthenticated plaintext.
    pub(crate) fn wipe_output(&mut self) {
        match self {
            AeadBuffers::Apart(_, output) => output.fill(0),
            AeadBuffers::InPlace(data) => data.fill(0),
        }
    }
}
