//! What the targets share.

pub mod device;
pub mod image;
pub mod walk;

/// Splits input into what a target takes before the rest: one byte below `bound`.
pub fn choice(data: &[u8], bound: u8) -> Option<(u8, &[u8])> {
    let (first, rest) = data.split_first()?;
    Some((first % bound, rest))
}
