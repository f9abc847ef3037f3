//! Modes with a tweak whose output is as long as the input.

use crate::Result;
use crate::ffi::Direction;

/// A mode with its key. The lengths were checked by the caller.
pub(crate) trait TweakableCipher: Send + Sync {
    fn run(&self, direction: Direction, tweak: &[u8], data: &mut [u8]) -> Result<()>;
}
