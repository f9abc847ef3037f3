//! Where a cipher reads and writes.

use crate::{Error, Result};

/// The length of an authentication tag. No suite truncates it.
pub(crate) const TAG_LEN: usize = 16;

/// Input and output of a cipher: two buffers of one length, or one buffer for both.
pub(crate) enum Buffers<'a> {
    /// Reads the first, writes the second.
    Apart(&'a [u8], &'a mut [u8]),
    /// Overwrites its input.
    InPlace(&'a mut [u8]),
}

impl Buffers<'_> {
    /// How long the input is.
    pub(crate) fn input_len(&self) -> usize {
        match self {
            Buffers::Apart(input, _) => input.len(),
            Buffers::InPlace(data) => data.len(),
        }
    }

    /// How long the output is.
    pub(crate) fn output_len(&self) -> usize {
        match self {
            Buffers::Apart(_, output) => output.len(),
            Buffers::InPlace(data) => data.len(),
        }
    }

    /// Input, output and the length of both.
    ///
    /// The pointers are valid for that length for as long as the borrow, and are equal or do not
    /// overlap (a shared and an exclusive borrow never do): what AWS-LC asks of `in` and `out`.
    pub(super) fn pointers(&mut self) -> Result<(*const u8, *mut u8, usize)> {
        match self {
            Buffers::Apart(input, output) if input.len() != output.len() => {
                Err(Error::OutputLength {
                    input: input.len(),
                    output: output.len(),
                })
            }
            Buffers::Apart(input, output) => Ok((input.as_ptr(), output.as_mut_ptr(), input.len())),
            Buffers::InPlace(data) => {
                let output = data.as_mut_ptr();
                Ok((output.cast_const(), output, data.len()))
            }
        }
    }

    /// The output, with the input in it: for a cipher that overwrites its input.
    pub(super) fn copied(&mut self) -> Result<&mut [u8]> {
        self.pointers()?;
        match self {
            Buffers::Apart(input, output) => {
                output.copy_from_slice(input);
                Ok(output)
            }
            Buffers::InPlace(data) => Ok(data),
        }
    }

    /// Zeroes the output: the caller must not see unauthenticated plaintext.
    pub(crate) fn wipe_output(&mut self) {
        match self {
            Buffers::Apart(_, output) => output.fill(0),
            Buffers::InPlace(data) => data.fill(0),
        }
    }
}
