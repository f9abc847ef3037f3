//! The identities that units keep from another storage: `identities` of the file, and the properties of stmf-ha.
//!
//! An identity decides which disk an initiator takes a unit for. So two units never have one, and only administrators
//! give them: a volume whose properties other users can set is not served with such a property.

use std::collections::{BTreeMap, BTreeSet};

use iscsi::SanIdentity;
use protocol::api::FailureKind;
use protocol::ha_file::{HaFile, HaIdentity, NounRefusal, STMF_PROPERTY};

use super::volume::HaVolume;
use crate::failure::{Failure, Result};
use crate::state::daemon::Daemon;
use crate::state::exports::ha_targets::HaPlan;
use crate::state::exports::listen::Protocol;

/// The identity of a unit, and its number if that is given.
#[derive(Clone, Debug, Default)]
pub(super) struct GivenIdentity {
    pub(super) lun: Option<u16>,
    pub(super) san: SanIdentity,
    pub(super) refused: Option<String>,
    /// True if the file has the identity, and not only properties.
    in_file: bool,
}

/// The identities of volumes, by guid, and those in the file whose volumes are missing.
pub(super) fn identities(
    file: &HaFile,
    volumes: &[&HaVolume],
) -> (BTreeMap<u64, GivenIdentity>, Vec<NounRefusal>) {
    let listed = file.identities.iter().map(|it| (&*it.volume, it));
    let mut listed: BTreeMap<&str, &HaIdentity> = listed.collect();
    let each = volumes.iter().map(|volume| {
        let given = given(volume, listed.remove(&*volume.name));
        (volume.guid, given)
    });
    let mut all: BTreeMap<u64, GivenIdentity> = each.collect();
    let missing = listed.into_values().map(|it| {
        let what = format!("the pool does not serve a volume '{}'", it.volume);
        NounRefusal::new(it.line, "identities", what)
    });
    let missing = missing.collect();
    refuse_shared(volumes, &mut all);
    (all, missing)
}

/// The identity of one volume. The file and the properties must not disagree.
fn given(volume: &HaVolume, in_file: Option<&HaIdentity>) -> GivenIdentity {
    let mut own = HaIdentity::default();
    let mut refused = None;
    for (name, value) in &volume.stmf {
        if !volume.is_identified_by_admins {
            let why = format!(
                "users who are no administrators can set its property '{STMF_PROPERTY}{name}'; remove that, and list \
                 the volume in identities of ha.toml"
            );
            refused.get_or_insert(why);
        } else if let Err(what) = own.take_property(name, value) {
            refused.get_or_insert(format!("property '{STMF_PROPERTY}{name}': {what}"));
        }
    }
    let nothing = HaIdentity::default();
    let file = in_file.unwrap_or(&nothing);
    let differs = [
        (
            "lun",
            file.lun.is_some() && own.lun.is_some() && file.lun != own.lun,
        ),
        (
            "guid",
            file.naa.is_some() && own.naa.is_some() && file.naa != own.naa,
        ),
        (
            "blk",
            file.block.is_some() && own.block.is_some() && file.block != own.block,
        ),
    ];
    if let Some((name, _)) = differs.iter().find(|it| it.1) {
        let why = format!(
            "its property '{STMF_PROPERTY}{name}' and ha.toml give it different identities"
        );
        refused.get_or_insert(why);
    }
    GivenIdentity {
        lun: file.lun.or(own.lun),
        san: SanIdentity {
            number: volume.number,
            serial: file.serial.clone(),
            naa: file.naa.clone().or(own.naa),
            block: file.block.or(own.block),
        },
        refused,
        in_file: in_file.is_some(),
    }
}

/// Refuses units that initiators would take for another one. One with the identity that every volume has stays, then one
/// of the file.
fn refuse_shared(volumes: &[&HaVolume], all: &mut BTreeMap<u64, GivenIdentity>) {
    let names: BTreeMap<u64, &str> = volumes.iter().map(|it| (it.guid, &*it.name)).collect();
    let mut by_serial: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
    let mut by_naa: BTreeMap<Vec<u8>, BTreeSet<u64>> = BTreeMap::new();
    for (guid, given) in all.iter() {
        { by_serial.entry(given.san.shown_serial()).or_default() }.insert(*guid);
        { by_naa.entry(given.san.shown_naa()).or_default() }.insert(*guid);
    }
    let sets = by_serial.into_values().chain(by_naa.into_values());
    for guids in sets.filter(|guids| guids.len() > 1) {
        let rank = |guid: &u64| (all[guid].is_kept(), !all[guid].in_file);
        let first = guids.iter().map(rank).min();
        let firsts: Vec<u64> = guids
            .iter()
            .copied()
            .filter(|guid| Some(rank(guid)) == first)
            .collect();
        let shown: Vec<&str> = guids.iter().map(|guid| names[guid]).collect();
        let why = format!(
            "'{}' would have one serial number or NAA",
            shown.join("' and '")
        );
        for guid in guids.iter().filter(|guid| firsts != [**guid]) {
            if let Some(given) = all.get_mut(guid) {
                given.refused.get_or_insert_with(|| why.clone());
            }
        }
    }
}

impl GivenIdentity {
    /// Returns whether the identity has a serial number or NAA of another storage.
    fn is_kept(&self) -> bool {
        is_kept(&self.san)
    }
}

fn is_kept(san: &SanIdentity) -> bool {
    san.serial.is_some() || san.naa.is_some()
}

impl Daemon {
    /// Refuses the units of a plan that have the identity of a unit of another pool or of an export.
    pub(super) fn refuse_foreign_identities(&self, pool: u64, plan: &mut HaPlan) {
        let mut others: Vec<(String, SanIdentity)> = Vec::new();
        for (_, serving) in self.served.0.lock().iter().filter(|it| *it.0 != pool) {
            let units = serving
                .plan
                .units
                .values()
                .filter(|unit| unit.refused.is_none());
            others.extend(units.map(|unit| (unit.name.clone(), unit.identity.clone())));
        }
        let exports = self.exported.entries().into_iter();
        let exports = exports.filter(|(_, it)| it.is.listen.protocol() == Protocol::Iscsi);
        others.extend(exports.map(|(name, it)| (name, it.is.san_identity())));
        for unit in plan.units.values_mut() {
            let san = &unit.identity;
            let is_other =
                |it: &&(String, SanIdentity)| it.1.number != san.number && it.1.is_taken_for(san);
            if let Some((other, _)) = others.iter().find(is_other) {
                let why = format!("'{other}' has its serial number or NAA already");
                unit.refused.get_or_insert(why);
            }
        }
    }

    /// Refuses a unit with the identity of a unit that a pool serves by its file.
    ///
    /// # Errors
    /// [`FailureKind::Exists`]
    pub(crate) fn refuse_served_identity(&self, identity: &SanIdentity) -> Result<()> {
        let served = self.served.0.lock();
        let mut units = served
            .values()
            .flat_map(|serving| serving.plan.units.values());
        let is_other =
            |san: &SanIdentity| san.number != identity.number && san.is_taken_for(identity);
        match units.find(|unit| unit.refused.is_none() && is_other(&unit.identity)) {
            None => Ok(()),
            Some(unit) => Err(Failure::new(
                FailureKind::Exists,
                format!(
                    "a pool serves '{}' with the same serial number or NAA",
                    unit.name
                ),
            )),
        }
    }

    /// Refuses a plan that gives an open unit another identity: its initiators would write to a disk that is another one
    /// now.
    ///
    /// # Errors
    /// [`FailureKind::Busy`]
    pub(super) fn refuse_changed_identity(
        &self,
        pool: u64,
        name: &str,
        plan: &HaPlan,
    ) -> Result<()> {
        let served = self.served.0.lock();
        let Some(serving) = served.get(&pool) else {
            return Ok(());
        };
        let is_changed = |guid: &&u64| {
            let (old, new) = (serving.plan.units.get(guid), plan.units.get(guid));
            new.is_some_and(|new| old.is_some_and(|old| old.identity != new.identity))
        };
        let Some(changed) = serving.units.keys().find(is_changed) else {
            return Ok(());
        };
        Err(Failure::new(
            FailureKind::Busy,
            format!(
                "'{}' would get another identity while initiators use it; stop the targets first: strongroom ha stop \
                 {name}",
                plan.units[changed].name
            ),
        ))
    }
}

#[cfg(test)]
mod tests {
    use protocol::ha_file::Spelling;

    use super::*;

    const COMSTAR: &str = "600144f0c0ffee000000512e9a0b0001";

    fn volume(guid: u64, name: &str, stmf: &[(&str, &str)]) -> HaVolume {
        let stmf = stmf
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()));
        HaVolume {
            id: guid,
            guid,
            name: name.into(),
            remembered: None,
            is_own: true,
            number: guid,
            stmf: stmf.collect(),
            is_identified_by_admins: !name.starts_with("tank/users/"),
        }
    }

    /// The units by name: number, NAA, block, and why one is refused.
    fn of(text: &str, volumes: &[HaVolume]) -> BTreeMap<String, GivenIdentity> {
        let file = Spelling::Toml.parse(text.as_bytes()).unwrap();
        let (all, missing) = identities(&file, &volumes.iter().collect::<Vec<_>>());
        assert!(missing.is_empty(), "{missing:?}");
        let named = volumes
            .iter()
            .map(|it| (it.name.clone(), all[&it.guid].clone()));
        named.collect()
    }

    fn why(given: &GivenIdentity) -> &str {
        given.refused.as_deref().unwrap_or("")
    }

    #[test]
    fn properties_of_stmf_ha_are_obeyed_or_refused() {
        let all = [("lun", "5"), ("guid", COMSTAR), ("blk", "4096")];
        let volumes = [
            volume(1, "tank/a", &all),
            volume(2, "tank/b", &[("blk", "1024")]),
            volume(3, "tank/c", &[("wcd", "true")]),
            volume(4, "tank/users/d", &[("lun", "6")]),
        ];
        let given = of("", &volumes);
        let a = &given["tank/a"];
        assert_eq!((a.lun, a.san.block, why(a)), (Some(5), Some(4096), ""));
        assert_eq!(a.san.naa.as_ref().unwrap()[..4], [0x60, 0x01, 0x44, 0xf0]);
        assert!(why(&given["tank/b"]).contains("org.illumos.stmf-ha:blk': '1024'"));
        assert!(why(&given["tank/c"]).contains("there is no such property"));
        assert!(why(&given["tank/users/d"]).starts_with("users who are no administrators"));
        // The file and the property disagree.
        let text = "identities = [\"a\"]\na_lu = \"tank/a\"\na_lun = \"6\"\n";
        assert!(why(&of(text, &volumes)["tank/a"]).contains("different identities"));
    }

    #[test]
    fn two_units_never_have_one_identity() {
        let volumes = [
            volume(1, "tank/a", &[]),
            volume(2, "tank/b", &[("guid", COMSTAR)]),
            volume(3, "tank/c", &[("guid", COMSTAR)]),
            volume(4, "tank/d", &[]),
        ];
        let refused = |text: &str| {
            let given = of(text, &volumes).into_iter();
            let refused = given.filter(|it| it.1.refused.is_some());
            refused.map(|it| it.0).collect::<Vec<_>>()
        };
        assert_eq!(refused(""), ["tank/b", "tank/c"]);
        // The file comes before properties.
        let text = format!("identities = [\"x\"]\nx_lu = \"tank/d\"\nx_naa = \"{COMSTAR}\"\n");
        assert_eq!(refused(&text), ["tank/b", "tank/c"]);
        // The identity that a volume has by itself stays.
        let serial = SanIdentity::from(1).shown_serial();
        let text = format!("identities = [\"x\"]\nx_lu = \"tank/d\"\nx_serial = \"{serial}\"\n");
        assert_eq!(refused(&text), ["tank/b", "tank/c", "tank/d"]);
    }

    #[test]
    fn an_identity_of_a_volume_that_is_missing_is_reported() {
        let text = "identities = [\"x\"]\nx_lu = \"tank/x\"\nx_lun = \"1\"\n";
        let file = Spelling::Toml.parse(text.as_bytes()).unwrap();
        let (_, missing) = identities(&file, &[]);
        assert_eq!((missing[0].line, &*missing[0].noun), (1, "identities"));
    }
}
