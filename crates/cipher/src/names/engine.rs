//! What each mode does.

use crate::Result;
use crate::ffi::Direction;

/// One mode, with its key. Lengths have been checked.
pub(super) trait Engine: Send + Sync {
    fn run(&self, direction: Direction, tweak: &[u8], data: &mut [u8]) -> Result<()>;
}
