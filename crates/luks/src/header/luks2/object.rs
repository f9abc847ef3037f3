//! Reading untrusted JSON: each value is asked for with its type. A missing value, or one of
//! another type, is an error that names it.

use serde_json::{Map, Value};

/// A value of the JSON area, or a description of the fault.
pub(crate) type Result<T> = std::result::Result<T, String>;

/// An object, and how to call it in an error.
pub(crate) struct Object<'a> {
    name: String,
    map: &'a Map<String, Value>,
}

impl<'a> Object<'a> {
    pub(crate) fn new(name: impl Into<String>, map: &'a Map<String, Value>) -> Object<'a> {
        let name = name.into();
        Object { name, map }
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.map.contains_key(key)
    }

    fn get(&self, key: &str) -> Result<&'a Value> {
        let missing = || format!("{} has no \"{key}\"", self.name);
        self.map.get(key).ok_or_else(missing)
    }

    fn wrong(&self, key: &str, expected: &str) -> String {
        format!("\"{key}\" of {} is not {expected}", self.name)
    }

    pub(crate) fn object(&self, key: &str) -> Result<Object<'a>> {
        let map = self.get(key)?.as_object();
        let map = map.ok_or_else(|| self.wrong(key, "an object"))?;
        Ok(Object::new(format!("\"{key}\" of {}", self.name), map))
    }

    /// Text that is not empty.
    pub(crate) fn text(&self, key: &str) -> Result<&'a str> {
        let text = self.get(key)?.as_str().filter(|text| !text.is_empty());
        text.ok_or_else(|| self.wrong(key, "a text"))
    }

    pub(crate) fn u32(&self, key: &str) -> Result<u32> {
        let number = self.get(key)?.as_u64();
        number
            .and_then(|number| u32::try_from(number).ok())
            .ok_or_else(|| self.wrong(key, "a number below 2^32"))
    }

    /// A number, as text: JSON readers keep 53 bits of one that is a number.
    pub(crate) fn u64(&self, key: &str) -> Result<u64> {
        parse(self.text(key)?).ok_or_else(|| self.wrong(key, "a decimal number below 2^64"))
    }

    /// A list of texts.
    pub(crate) fn texts(&self, key: &str) -> Result<Vec<&'a str>> {
        let items = self.get(key)?.as_array();
        items
            .and_then(|items| items.iter().map(Value::as_str).collect())
            .ok_or_else(|| self.wrong(key, "a list of texts"))
    }

    /// A list of numbers of members of `of`.
    pub(crate) fn members_of(&self, key: &str, of: &Object<'_>) -> Result<Vec<u32>> {
        let number = |text: &str| match of.map.get(text) {
            Some(Value::Object(_)) => {
                index(text).ok_or_else(|| self.wrong(key, "a list of numbers"))
            }
            _ => Err(format!(
                "{} refers to {text} of {}, which is not there",
                self.name, of.name
            )),
        };
        self.texts(key)?.into_iter().map(number).collect()
    }

    /// Returns the bytes of a field in base64, such as `salt`.
    pub(crate) fn base64<const N: usize>(&self, key: &str) -> Result<[u8; N]> {
        let bytes = self.base64_bytes(key)?;
        <[u8; N]>::try_from(bytes).map_err(|_| self.wrong(key, &format!("{N} bytes in base64")))
    }

    pub(crate) fn base64_bytes(&self, key: &str) -> Result<Vec<u8>> {
        use base64::Engine;
        let decoded = base64::engine::general_purpose::STANDARD.decode(self.text(key)?);
        decoded.map_err(|_| self.wrong(key, "base64"))
    }

    /// The members, which are objects with numbers for names, in the order of the numbers.
    pub(crate) fn numbered(&self, what: &str, limit: u32) -> Result<Vec<(u32, Object<'a>)>> {
        let member = |(key, value): (&String, &'a Value)| {
            let number = index(key).filter(|number| *number < limit);
            let number = number.ok_or_else(|| format!("{} has a member \"{key}\"", self.name))?;
            let map = value
                .as_object()
                .ok_or_else(|| self.wrong(key, "an object"))?;
            Ok((number, Object::new(format!("{what} {number}"), map)))
        };
        let mut members: Vec<_> = self.map.iter().map(member).collect::<Result<_>>()?;
        members.sort_by_key(|(number, _)| *number);
        Ok(members)
    }
}

/// A decimal number without sign. It may have leading zeros.
fn parse(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok())?
}

/// The number that is the name of a member. There is one way to write it, so that no two members
/// have one number.
fn index(text: &str) -> Option<u32> {
    let number = text.parse::<u32>().ok()?;
    (number.to_string() == text).then_some(number)
}
