//! Modes with a tweak whose output is as long as the input.

use crate::Result;
use crate::ffi::Direction;

/// One mode, with its key. Lengths have been checked.
pub(crate) trait TweakableCipher: Send + Sync {
    fn run(&self, direction: Direction, tweak: &[u8], data: &mut [u8]) -> Result<()>;
}
