//! The part of an address after `?`.

use super::problem::Problem;

/// Names and values, decoded.
#[derive(Debug, Default)]
pub(crate) struct UrlQuery(Vec<(String, String)>);

impl UrlQuery {
    /// Decodes `name=value&name=value`.
    pub(crate) fn parse(text: &str) -> Result<UrlQuery, Problem> {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        let pairs = pairs.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((decode(name)?, decode(value)?))
        });
        pairs.collect::<Result<_, Problem>>().map(UrlQuery)
    }

    /// Refuses names that the resource does not know: a misspelled one would be ignored.
    pub(crate) fn only(&self, known: &[&str]) -> Result<(), Problem> {
        match self.0.iter().find(|(name, _)| !known.contains(&&**name)) {
            None => Ok(()),
            Some((name, _)) => Err(Problem::usage(format!(
                "'{name}' is no parameter of this resource; it has: {}",
                known.join(", ")
            ))),
        }
    }

    /// All values of a name.
    pub(crate) fn all(&self, name: &str) -> Vec<String> {
        let of = self.0.iter().filter(|(known, _)| known == name);
        of.map(|(_, value)| value.clone()).collect()
    }

    /// The value of a name; an error if there are several.
    pub(crate) fn one(&self, name: &str) -> Result<Option<String>, Problem> {
        match &*self.all(name) {
            [] => Ok(None),
            [value] => Ok(Some(value.clone())),
            _ => Err(Problem::usage(format!("give '{name}' once"))),
        }
    }

    /// The value of a name that has to be there.
    pub(crate) fn needed(&self, name: &str) -> Result<String, Problem> {
        let missing = || Problem::usage(format!("give the parameter '{name}'"));
        self.one(name)?.ok_or_else(missing)
    }

    /// The number that is the value of a name.
    pub(crate) fn number<N: std::str::FromStr>(&self, name: &str) -> Result<Option<N>, Problem> {
        let wrong = |_| Problem::usage(format!("'{name}' has to be a number"));
        self.one(name)?
            .map(|text| text.parse().map_err(wrong))
            .transpose()
    }

    /// Returns whether a name has the value `true`.
    pub(crate) fn flag(&self, name: &str) -> Result<bool, Problem> {
        match self.one(name)?.as_deref() {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(Problem::usage(format!("'{name}' is true or false"))),
        }
    }
}

/// Decodes `%20` and `+`.
fn decode(text: &str) -> Result<String, Problem> {
    let wrong = || Problem::usage("the address is not correctly encoded");
    let mut bytes = text.bytes();
    let mut out = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || (bytes.next()? as char).to_digit(16);
                let (high, low) = (digit(), digit());
                let value = high.zip(low).ok_or_else(wrong)?;
                (value.0 * 16 + value.1) as u8
            }
            byte => byte,
        });
    }
    String::from_utf8(out).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_decoded() {
        let query = UrlQuery::parse("name=tank%2Fa%20b&name=x+y&depth=1&internal=true").unwrap();
        assert_eq!(query.all("name"), ["tank/a b", "x y"]);
        assert_eq!(query.number::<u32>("depth").ok(), Some(Some(1)));
        assert_eq!(query.flag("internal").ok(), Some(true));
        assert!(query.one("name").is_err(), "twice");
        assert!(query.only(&["name", "depth"]).is_err(), "internal");
        for wrong in ["a=%", "a=%4", "a=%zz", "a=%ff"] {
            assert!(UrlQuery::parse(wrong).is_err(), "{wrong}");
        }
    }
}
