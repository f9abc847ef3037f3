//! Recovery keys: a random key of 128 bits as 48 digits, to print on paper and to type.
//!
//! The digits are eight groups of six, as BitLocker prints them. A group is a number of 16 bits times 11. A group with one
//! wrong digit, or with two neighbours that changed places, is no multiple of 11. So the program can say where a mistake is.
//!
//! To a slot a recovery key is a passphrase: the groups with hyphens between them.

use cipher::Random;
use secret::Secret;
use zeroize::Zeroize;

use crate::Result;

/// The number of groups.
const GROUPS: usize = 8;
/// The digits of a group.
const DIGITS: usize = 6;
/// The factor of each group.
const FACTOR: u32 = 11;

/// Returns a new recovery key: eight groups of six digits with hyphens between them.
///
/// # Errors
/// [`crate::Error::Cipher`] if there are no random numbers.
pub fn new_recovery_key(random: &dyn Random) -> Result<Secret> {
    let mut numbers = Secret::zeroed(2 * GROUPS)?;
    random.fill(numbers.expose_mut())?;
    let mut text = Secret::zeroed(0)?;
    for number in numbers.expose().chunks_exact(2) {
        if !text.is_empty() {
            text.push(b'-')?;
        }
        let mut group = FACTOR * (u32::from(number[0]) << 8 | u32::from(number[1]));
        let mut digits = [0; DIGITS];
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + (group % 10) as u8;
            group /= 10;
        }
        text.push_slice(&digits)?;
        digits.zeroize();
    }
    Ok(text)
}

/// Returns a recovery key as a slot has it, whatever is between the digits that were typed: spaces, hyphens, nothing.
/// `None` for any other passphrase.
pub(crate) fn recovery_key(typed: &[u8]) -> Result<Option<Secret>> {
    let Some(digits) = digits(typed)? else {
        return Ok(None);
    };
    if digits.expose().chunks_exact(DIGITS).any(|it| !is_right(it)) {
        return Ok(None);
    }
    let mut text = Secret::zeroed(0)?;
    for group in digits.expose().chunks_exact(DIGITS) {
        if !text.is_empty() {
            text.push(b'-')?;
        }
        text.push_slice(group)?;
    }
    Ok(Some(text))
}

/// Returns the first group with a mistake, from 1 on, of a passphrase that looks like a recovery key.
///
/// # Errors
/// There is no locked memory.
pub fn mistyped_group(typed: &[u8]) -> Result<Option<usize>> {
    let digits = digits(typed)?;
    Ok(digits.and_then(|digits| {
        let mut groups = digits.expose().chunks_exact(DIGITS);
        groups.position(|group| !is_right(group)).map(|at| at + 1)
    }))
}

/// The digits, if they are as many as a recovery key has and nothing but spaces and hyphens is between them.
fn digits(typed: &[u8]) -> Result<Option<Secret>> {
    let mut digits = Secret::zeroed(0)?;
    for byte in typed {
        match byte {
            b'0'..=b'9' => digits.push(*byte)?,
            b' ' | b'-' => {}
            _ => return Ok(None),
        }
    }
    Ok((digits.len() == GROUPS * DIGITS).then_some(digits))
}

/// Returns whether six digits are a group of a recovery key.
fn is_right(group: &[u8]) -> bool {
    let number = group
        .iter()
        .fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0'));
    number.is_multiple_of(FACTOR) && number / FACTOR <= u32::from(u16::MAX)
}

#[cfg(test)]
mod tests {
    use cipher::SeededRandom;

    use super::*;

    fn typed(text: &str) -> Option<String> {
        let key = recovery_key(text.as_bytes()).unwrap()?;
        Some(String::from_utf8(key.expose().to_vec()).unwrap())
    }

    #[test]
    fn new_keys_are_read_however_they_are_typed() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let key = new_recovery_key(&SeededRandom::new(seed)).unwrap();
            let key = String::from_utf8(key.expose().to_vec()).unwrap();
            assert_eq!(key.len(), GROUPS * DIGITS + GROUPS - 1);
            for form in [
                key.clone(),
                key.replace('-', ""),
                key.replace('-', " "),
                format!(" {}  ", key.replace('-', " - ")),
            ] {
                assert_eq!(typed(&form).as_deref(), Some(key.as_str()), "{form}");
                assert_eq!(mistyped_group(form.as_bytes()).unwrap(), None);
            }
            assert!(seen.insert(key), "twice the same key");
        }
    }

    /// 720,885 is 65,535 times 11, the largest group; 720,896 would be the next one.
    #[test]
    fn the_groups_are_multiples_of_eleven_of_sixteen_bits() {
        let right = "000000-000011-720885-123453-600006-000110-111111-654324";
        assert_eq!(typed(right).as_deref(), Some(right));
        for (wrong, group) in [
            (right.replace("000011", "000012"), 2),
            (right.replace("720885", "720896"), 3),
            (right.replace("123453", "213453"), 4),
            (right.replace("654324", "654342"), 8),
        ] {
            assert_eq!(typed(&wrong), None, "{wrong}");
            assert_eq!(mistyped_group(wrong.as_bytes()).unwrap(), Some(group));
        }
    }

    #[test]
    fn one_wrong_digit_and_neighbours_that_changed_places_are_found() {
        let key = new_recovery_key(&SeededRandom::new(7)).unwrap();
        let key: Vec<u8> = key
            .expose()
            .iter()
            .copied()
            .filter(|it| *it != b'-')
            .collect();
        for at in 0..key.len() {
            for digit in b'0'..=b'9' {
                let mut wrong = key.clone();
                wrong[at] = digit;
                let expected = (digit != key[at]).then_some(at / DIGITS + 1);
                assert_eq!(mistyped_group(&wrong).unwrap(), expected);
            }
            if (at + 1) % DIGITS != 0 && key[at] != key[at + 1] {
                let mut wrong = key.clone();
                wrong.swap(at, at + 1);
                assert_eq!(mistyped_group(&wrong).unwrap(), Some(at / DIGITS + 1));
            }
        }
    }

    #[test]
    fn other_passphrases_are_no_recovery_keys() {
        let digits = "0".repeat(GROUPS * DIGITS);
        for other in [
            "",
            "correct horse",
            &digits[1..],
            &format!("{digits}0"),
            &format!("{digits}."),
        ] {
            assert_eq!(typed(other), None, "{other}");
            assert_eq!(mistyped_group(other.as_bytes()).unwrap(), None);
        }
    }
}
