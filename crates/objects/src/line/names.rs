//! The names of objects below the address of a pool.

/// The object that describes the pool.
pub(crate) const POOL: &str = "pool";
/// The folder of the log.
pub(crate) const LOG: &str = "log/";
/// The folder of the checkpoints.
pub(crate) const MAP: &str = "map/";

/// The largest number that is read. No pool has as many objects: a writer with a thousand in a second needs 2,000 years.
pub(crate) const NUMBER_MAX: u64 = 1 << 46;

/// The name of a log object.
pub(crate) fn log(number: u64) -> String {
    numbered(LOG, number)
}

/// The name of the checkpoint of the map after a log object.
pub(crate) fn checkpoint(number: u64) -> String {
    numbered(MAP, number)
}

/// All numbers have the same length, so that stores list them in order.
pub(crate) fn numbered(folder: &str, number: u64) -> String {
    format!("{folder}{number:020}")
}

/// Reads the number in a name. `None` if the name is not one of this folder.
pub(crate) fn number(folder: &str, name: &str) -> Option<u64> {
    let digits = name.strip_prefix(folder)?;
    let number: u64 = digits.parse().ok()?;
    let is_possible = (1..=NUMBER_MAX).contains(&number);
    (is_possible && numbered(folder, number) == name).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written_and_others_are_not() {
        for n in [1, 9, 10, NUMBER_MAX] {
            assert_eq!(number(LOG, &log(n)), Some(n));
            assert_eq!(number(MAP, &checkpoint(n)), Some(n));
            assert_eq!(number(MAP, &log(n)), None);
        }
        assert!(log(9) < log(10), "the order of names is that of numbers");
        for name in [
            "log/7",
            "log/00000000000000000000",
            "log/18446744073709551615",
            "log/+0000000000000000007",
        ] {
            assert_eq!(number(LOG, name), None, "{name}");
        }
    }
}
