//! The profiles of zones, which Solaris calls `file-mac-profile`.

use serde::{Deserialize, Serialize};

/// Says which datasets of a zone its tenant cannot change, from the least strict one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ZoneProfile {
    /// The tenant changes all datasets.
    #[default]
    None,
    /// The root and the datasets of the system are fixed, but not `etc` and `root`.
    FlexibleConfiguration,
    /// The root and the datasets of the system are fixed.
    FixedConfiguration,
    /// All datasets are fixed.
    Strict,
}

/// The datasets directly below the root that hold a system.
const SYSTEM: [&str; 9] = [
    "ROOT", "bin", "boot", "lib", "lib32", "lib64", "opt", "sbin", "usr",
];
/// The datasets directly below the root that hold the configuration of a system.
const CONFIGURATION: [&str; 2] = ["etc", "root"];
/// The directories in a fixed root where a tenant mounts datasets.
const FOR_DATASETS: [&str; 3] = ["export", "home", "var"];

impl ZoneProfile {
    /// All profiles.
    pub const ALL: [ZoneProfile; 4] = [
        ZoneProfile::None,
        ZoneProfile::FlexibleConfiguration,
        ZoneProfile::FixedConfiguration,
        ZoneProfile::Strict,
    ];

    /// The name, as in Solaris.
    pub const fn name(self) -> &'static str {
        match self {
            ZoneProfile::None => "none",
            ZoneProfile::FlexibleConfiguration => "flexible-configuration",
            ZoneProfile::FixedConfiguration => "fixed-configuration",
            ZoneProfile::Strict => "strict",
        }
    }

    /// The profile with a name.
    pub fn parse(name: &str) -> Option<ZoneProfile> {
        let mut all = ZoneProfile::ALL.into_iter();
        all.find(|profile| profile.name() == name)
    }

    /// Returns whether the tenant cannot change a dataset. `below` is its path below the root, and empty for the root.
    /// The datasets below a dataset are as that one.
    pub fn fixes(self, below: &str) -> bool {
        let first = below.split('/').next().unwrap_or_default();
        let is_system = first.is_empty() || SYSTEM.contains(&first);
        match self {
            ZoneProfile::None => false,
            ZoneProfile::FlexibleConfiguration => is_system,
            ZoneProfile::FixedConfiguration => is_system || CONFIGURATION.contains(&first),
            ZoneProfile::Strict => true,
        }
    }

    /// The directories that a fixed root needs for datasets of the tenant.
    pub fn directories(self) -> Vec<&'static str> {
        match self {
            ZoneProfile::None | ZoneProfile::Strict => Vec::new(),
            ZoneProfile::FixedConfiguration => FOR_DATASETS.to_vec(),
            ZoneProfile::FlexibleConfiguration => [&FOR_DATASETS[..], &CONFIGURATION].concat(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of `docs/guide/src/sharing.md`.
    #[test]
    fn each_profile_fixes_its_datasets() {
        let fixed_by = |below: &str| {
            let all = ZoneProfile::ALL.into_iter();
            all.filter(|profile| profile.fixes(below))
                .map(ZoneProfile::name)
                .collect::<Vec<_>>()
        };
        let at_least_flexible = ["flexible-configuration", "fixed-configuration", "strict"];
        assert_eq!(fixed_by(""), at_least_flexible);
        assert_eq!(fixed_by("usr/local"), at_least_flexible);
        assert_eq!(fixed_by("etc"), ["fixed-configuration", "strict"]);
        assert_eq!(fixed_by("root/x"), ["fixed-configuration", "strict"]);
        assert_eq!(fixed_by("export/home"), ["strict"]);
        assert_eq!(fixed_by("usrlocal"), ["strict"]);
        for profile in ZoneProfile::ALL {
            assert_eq!(ZoneProfile::parse(profile.name()), Some(profile));
            let mut directories = profile.directories().into_iter();
            assert!(directories.all(|name| !profile.fixes(name)));
        }
        assert_eq!(ZoneProfile::parse("Strict"), None);
    }
}
