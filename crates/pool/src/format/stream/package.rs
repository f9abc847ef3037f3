//! The package that is sent before the streams of several datasets. It lists the datasets and snapshots of the sender.

use crate::error::{Error, Result};
use crate::format::codec::{ValueReader, ValueWriter};
use crate::names::{DatasetName, is_part};

const MAGIC: [u8; 8] = *b"SRPACKAG";
const VERSION: u16 = 1;

/// Streams that belong together: those of a dataset, and of datasets below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    /// The dataset, as it is called at the sender.
    pub root: String,
    /// True if the streams start from snapshots that the receiver has.
    pub is_incremental: bool,
    /// The datasets that have streams.
    pub datasets: Vec<PackedDataset>,
}

/// A dataset of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedDataset {
    /// The name of the dataset at the sender.
    pub name: String,
    /// All snapshots that it has there: guid, and last part of the name.
    pub snapshots: Vec<(u64, String)>,
}

impl Package {
    /// Returns the name of a dataset of the sender, seen from the root: empty, or `/` and the rest. `None` if it is not
    /// of the package.
    pub fn below_root<'a>(&self, name: &'a str) -> Option<&'a str> {
        let rest = name.strip_prefix(self.root.as_str())?;
        (rest.is_empty() || rest.starts_with('/')).then_some(rest)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut w = ValueWriter::default();
        w.value(&MAGIC).u16(VERSION).u8(self.is_incremental.into());
        w.text(&self.root).u32(self.datasets.len() as u32);
        for dataset in &self.datasets {
            w.text(&dataset.name).u32(dataset.snapshots.len() as u32);
            for (guid, name) in &dataset.snapshots {
                w.u64(*guid).text(name);
            }
        }
        w.bytes
    }

    /// Reads what [`Package::encode`] made; whatever else the bytes are, it is an error.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Package> {
        let mut r = ValueReader::new(bytes);
        match r.value::<[u8; 8]>().zip(r.u16()) {
            Some((MAGIC, VERSION)) => {}
            Some((MAGIC, version)) if version > VERSION => {
                return Err(Error::stream(
                    "is of a later version of the format; update Strongroom to receive it",
                ));
            }
            _ => return Err(Error::stream("is damaged")),
        }
        let package = Package::parts(&mut r).filter(Package::is_possible);
        let whole = package.filter(|_| r.is_at_end());
        whole.ok_or_else(|| Error::stream("says what cannot be"))
    }

    fn parts(r: &mut ValueReader<'_>) -> Option<Package> {
        let is_incremental = match r.u8()? {
            0 => false,
            1 => true,
            _ => return None,
        };
        let root = r.text()?;
        let count = r.u32()?;
        // Each takes bytes of the input, so no number makes this long.
        let datasets = (0..count).map(|_| {
            let name = r.text()?;
            let count = r.u32()?;
            let snapshots = (0..count).map(|_| Some((r.u64()?, r.text()?)));
            Some(PackedDataset {
                snapshots: snapshots.collect::<Option<_>>()?,
                name,
            })
        });
        Some(Package {
            is_incremental,
            datasets: datasets.collect::<Option<_>>()?,
            root,
        })
    }

    fn is_possible(&self) -> bool {
        let is_dataset =
            |name: &str| DatasetName::parse(name).is_ok_and(|name| name.snapshot.is_none());
        let fits = |dataset: &PackedDataset| {
            let mut names = dataset.snapshots.iter();
            is_dataset(&dataset.name)
                && self.below_root(&dataset.name).is_some()
                && names.all(|(guid, name)| *guid != 0 && is_part(name))
        };
        is_dataset(&self.root) && self.datasets.iter().all(fits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Package {
        Package {
            root: "tank/a".into(),
            is_incremental: true,
            datasets: vec![
                PackedDataset {
                    name: "tank/a".into(),
                    snapshots: vec![(1, "one".into()), (2, "two".into())],
                },
                PackedDataset {
                    name: "tank/a/b".into(),
                    snapshots: Vec::new(),
                },
            ],
        }
    }

    #[test]
    fn packages_round_trip_and_nothing_else_is_one() {
        let bytes = sample().encode();
        assert_eq!(Package::decode(&bytes).unwrap(), sample());
        for len in 0..bytes.len() {
            assert!(Package::decode(&bytes[..len]).is_err(), "{len}");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert!(Package::decode(&longer).is_err());
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            if let Ok(package) = Package::decode(&bad) {
                assert_eq!(package.encode(), bad);
            }
        }
    }

    #[test]
    fn names_stay_below_the_root() {
        for name in [
            "tank",
            "tank/ab",
            "tank/a/..",
            "tank/a/",
            "tank/a@one",
            "other/a",
        ] {
            let mut bad = sample();
            bad.datasets[1].name = name.into();
            assert!(Package::decode(&bad.encode()).is_err(), "{name}");
        }
        for name in ["", "..", "a/b", "a@b", "a#b"] {
            let mut bad = sample();
            bad.datasets[0].snapshots[0].1 = name.into();
            assert!(Package::decode(&bad.encode()).is_err(), "{name}");
        }
        assert_eq!(sample().below_root("tank/a/b/c"), Some("/b/c"));
        assert_eq!(sample().below_root("tank/ab"), None);
    }
}
