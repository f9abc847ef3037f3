//! Sizes for people.

const UNITS: [&str; 7] = ["B", "K", "M", "G", "T", "P", "E"];
/// Digits, a point and a unit take no more than this.
const WIDTH_MAX: usize = 5;

/// `0B`, `96K`, `1.23G`: three significant digits and a unit, as `zfs` prints sizes. Exact multiples of a unit have no
/// fraction.
pub fn human_size(bytes: u64) -> String {
    let index = match bytes {
        0 => 0,
        _ => bytes.ilog2() as usize / 10,
    };
    let unit = UNITS[index];
    let scale = 1u64 << (10 * index);
    if bytes.is_multiple_of(scale) {
        return format!("{}{unit}", bytes / scale);
    }
    // Below 2^64 the error of this division is far below the digits that are shown.
    let number = bytes as f64 / scale as f64;
    let fits = |text: &String| text.len() <= WIDTH_MAX;
    [2, 1]
        .map(|digits| format!("{number:.digits$}{unit}"))
        .into_iter()
        .find(fits)
        .unwrap_or_else(|| format!("{number:.0}{unit}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_a_unit() {
        for (bytes, text) in [
            (0, "0B"),
            (1, "1B"),
            (1023, "1023B"),
            (1024, "1K"),
            (1025, "1.00K"),
            (96 << 10, "96K"),
            (1536, "1.50K"),
            (10_000, "9.77K"),
            (100_000, "97.7K"),
            (1_000_000, "977K"),
            ((1 << 20) - 1, "1024K"),
            (1 << 20, "1M"),
            (1_320_702_444, "1.23G"),
            (4 << 30, "4G"),
            (5 << 39, "2.50T"),
            (u64::MAX, "16.0E"),
        ] {
            assert_eq!(human_size(bytes), text, "{bytes}");
        }
    }
}
