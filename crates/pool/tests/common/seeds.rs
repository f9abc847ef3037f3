// Included by the tests of this crate and of `dataset`.

/// The seeds to run: `first` and the `count - 1` after it, or what `STRONGROOM_SEEDS` asks for, as
/// `first` or `first+count`.
pub fn seeds(first: u64, count: u64) -> std::ops::Range<u64> {
    let asked = std::env::var("STRONGROOM_SEEDS").ok();
    let (first, count) = match asked
        .as_deref()
        .map(|asked| asked.split_once('+').unwrap_or((asked, "1")))
    {
        Some((first, count)) => (first.parse().unwrap(), count.parse().unwrap()),
        None => (first, count),
    };
    first..first + count
}
