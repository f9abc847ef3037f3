//! Sizes as `zfs` prints them.

pub use block::human_size as human;

/// [`human`], or all digits.
pub fn show(bytes: u64, exact: bool) -> String {
    match exact {
        true => bytes.to_string(),
        false => human(bytes),
    }
}
