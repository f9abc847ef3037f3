//! The property `retention`: how long new snapshots of a dataset are retained.

/// The name of the property, and the tag of its holds.
pub(crate) const RETENTION: &str = "retention";

/// The longest time for which a snapshot can be retained, in seconds: 30 years. Nobody can take back a later year that
/// was a slip.
pub(crate) const RETENTION_MAX: u64 = 30 * 366 * DAY;

const DAY: u64 = 86_400;

/// The units of a length, in seconds.
const UNITS: [(&str, u64); 5] = [
    ("m", 60),
    ("h", 3_600),
    ("d", DAY),
    ("w", 7 * DAY),
    ("y", 365 * DAY),
];

/// A length such as `30d` in seconds; `None` if it is none, or longer than 30 years.
pub fn retention_length(value: &str) -> Option<u64> {
    let unit = value.trim_start_matches(|c: char| c.is_ascii_digit());
    let number = value.strip_suffix(unit)?;
    let (_, secs) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let length = number.parse::<u64>().ok()?.checked_mul(*secs)?;
    (1..=RETENTION_MAX).contains(&length).then_some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths() {
        let good = [
            ("1m", 60),
            ("36h", 129_600),
            ("30d", 2_592_000),
            ("2w", 1_209_600),
            ("30y", 946_080_000),
        ];
        for (value, secs) in good {
            assert_eq!(retention_length(value), Some(secs));
        }
        let bad = [
            "",
            "off",
            "30",
            "d",
            "0d",
            "31y",
            "-1d",
            "+1d",
            "1.5d",
            "1 d",
            "1dd",
            "30ä",
            "9999999999999999999d",
            "99999999999999999999d",
        ];
        for value in bad {
            assert_eq!(retention_length(value), None, "{value}");
        }
    }
}
