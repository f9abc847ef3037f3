//! `.pefs.conf`: a symbolic link whose target says how passphrases are hashed.

use crate::formats::pefs::algorithm::Algorithm;
use crate::formats::pefs::error::Error;

/// The name of the link, in the root of the lower directory.
pub const CONFIG_NAME: &str = ".pefs.conf";

/// The name of the file with key chains, beside it.
pub const DATABASE_NAME: &str = ".pefs.db";

/// More only take time: some seconds already.
const ITERATIONS_MAX: u32 = 10_000_000;

/// The contents of the configuration; parts that are left out are for the caller to choose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// The algorithm of new keys.
    pub algorithm: Option<Algorithm>,
    /// The number of hashes of a passphrase; 0 is not at all.
    pub iterations: Option<u32>,
}

impl Config {
    /// Reads a target.
    ///
    /// # Errors
    /// [`Error::Config`].
    pub fn decode(target: &[u8]) -> Result<Config, Error> {
        let text = str::from_utf8(target).map_err(|_| Error::Config)?;
        let mut fields = text.split(':');
        let (algorithm, iterations) = (fields.next().unwrap_or_default(), fields.next());
        if fields.next().is_some() {
            return Err(Error::Config);
        }
        let known = |field: &str| Algorithm::from_name(field).ok_or(Error::Config);
        let number = |field: &str| {
            let number = field.parse().ok();
            let number = number.filter(|number| *number <= ITERATIONS_MAX);
            number.ok_or(Error::Config)
        };
        let is_set = |field: &&str| !field.is_empty();
        Ok(Config {
            algorithm: Some(algorithm).filter(is_set).map(known).transpose()?,
            iterations: iterations.filter(is_set).map(number).transpose()?,
        })
    }
}
