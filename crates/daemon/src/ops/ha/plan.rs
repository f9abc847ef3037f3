//! What a file means for the volumes that a pool has.

use std::collections::{BTreeMap, BTreeSet};

use protocol::ha_file::{HaFile, HaTarget, HaView, PortalGroup, Refused};

use crate::state::exports::chap::ChapSources;
use crate::state::exports::listen::Place;
use crate::state::ha::{Plan, PlannedTarget, PlannedUnit, PlannedView};

/// The property of a volume that has the number that was assigned to its unit.
pub(super) const LUN_PROPERTY: &str = "ha:lun";
/// The highest number of a unit.
const LUN_MAX: u16 = 0x3fff;
/// A unit is shown so often at most, to all initiators and at all targets together.
const VIEWS_MAX: usize = 100_000;
/// All addresses of a host, at the port of iSCSI.
const ANYWHERE: &str = "[::]:3260";

/// A volume of the pool.
pub(super) struct Volume {
    pub(super) guid: u64,
    pub(super) name: String,
    /// The number that was assigned to it.
    pub(super) remembered: Option<String>,
}

/// What a pool of this name is to serve.
pub(super) fn plan(pool: &str, file: &HaFile, volumes: &[Volume]) -> Result<Plan, Refused> {
    let chosen = choose(file, volumes)?;
    let mut plan = Plan {
        units: number(&chosen)?,
        ..Plan::default()
    };
    for target in &file.targets {
        let name = target.iscsi_name(pool);
        let planned = PlannedTarget {
            places: places(target, &file.portal_groups[&target.portal_group])?,
            chap: chap(target)?,
            views: views(target, &file.views, &chosen),
        };
        plan.targets.insert(name, planned);
    }
    let count: usize = plan.targets.values().map(|target| target.views.len()).sum();
    if count > VIEWS_MAX {
        let what = format!("units would be shown {count} times, and {VIEWS_MAX} are possible");
        return Err(Refused::new(0, "views", what));
    }
    for (name, target) in &plan.targets {
        refuse_ambiguous(name, target, &plan.units)?;
    }
    Ok(plan)
}

fn choose<'a>(file: &HaFile, volumes: &'a [Volume]) -> Result<Vec<&'a Volume>, Refused> {
    let Some(listed) = &file.logical_units else {
        return Ok(volumes.iter().collect());
    };
    let by_name: BTreeMap<&str, &Volume> = volumes.iter().map(|it| (&*it.name, it)).collect();
    let find = |(line, name): &(usize, String)| {
        by_name.get(&**name).copied().ok_or_else(|| {
            let what = format!("the pool has no volume '{name}'");
            Refused::new(*line, "logical_units", what)
        })
    };
    listed.iter().map(find).collect()
}

/// Gives each unit its number: that in its name, or that it has had, or the lowest that is free.
fn number(volumes: &[&Volume]) -> Result<BTreeMap<u64, PlannedUnit>, Refused> {
    let mut units = BTreeMap::new();
    let mut taken = BTreeSet::new();
    let mut rest = Vec::new();
    for volume in volumes {
        let said = in_name(&volume.name).map(|text| ("its name", text));
        let kept = volume
            .remembered
            .as_deref()
            .map(|text| (LUN_PROPERTY, text));
        let Some((whence, text)) = said.or(kept) else {
            rest.push(*volume);
            continue;
        };
        let lun = text.parse().ok().filter(|lun| *lun <= LUN_MAX);
        let lun = lun.ok_or_else(|| {
            let what = format!(
                "'{}' cannot have the number {text} of {whence}: use 0 to {LUN_MAX}",
                volume.name
            );
            Refused::new(0, "logical_units", what)
        })?;
        taken.insert(lun);
        let unit = PlannedUnit {
            name: volume.name.clone(),
            lun,
            is_new: false,
        };
        units.insert(volume.guid, unit);
    }
    let mut free = (0..=LUN_MAX).filter(|lun| !taken.contains(lun));
    for volume in rest {
        let lun = free.next().ok_or_else(|| {
            let what = format!("there is no number left for '{}'", volume.name);
            Refused::new(0, "logical_units", what)
        })?;
        let unit = PlannedUnit {
            name: volume.name.clone(),
            lun,
            is_new: true,
        };
        units.insert(volume.guid, unit);
    }
    Ok(units)
}

/// The digits after the last ':' of a name.
fn in_name(name: &str) -> Option<&str> {
    let (_, digits) = name.rsplit_once(':')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then_some(digits)
}

fn places(target: &HaTarget, group: &PortalGroup) -> Result<BTreeSet<Place>, Refused> {
    let anywhere = [ANYWHERE.to_owned()];
    let portals = match group.portals.is_empty() {
        true => &anywhere[..],
        false => &group.portals,
    };
    let places = portals.iter().map(|portal| {
        Place::portal(portal).map_err(|failure| {
            Refused::new(target.line, &target.portal_group, failure.message.clone())
        })
    });
    places.collect()
}

/// No one is there to type a secret.
fn chap(target: &HaTarget) -> Result<Option<ChapSources>, Refused> {
    let noun = format!("{}_chap", target.name.as_deref().unwrap_or_default());
    let refused = |what: String| Refused::new(target.line, &noun, what);
    let mut all = target.chap.iter().chain(&target.own_chap);
    if all.any(|text| !text.contains("=file:///")) {
        let what =
            "write USER=file:///PATH, as in web=file:///etc/keys/web; secrets are not in this file";
        return Err(refused(what.into()));
    }
    let sources = ChapSources::parse(&target.chap, target.own_chap.as_deref());
    sources.map_err(|failure| refused(failure.message.clone()))
}

fn views(target: &HaTarget, views: &[HaView], volumes: &[&Volume]) -> Vec<PlannedView> {
    let is_there = |view: &&HaView| match (&view.targets, &target.name) {
        (Some(targets), Some(name)) => targets.contains(name),
        (targets, _) => targets.is_none(),
    };
    let mut shown = Vec::new();
    for view in views.iter().filter(is_there) {
        let is_below = |volume: &&&Volume| {
            let prefix = view.prefix.as_deref();
            prefix.is_none_or(|prefix| {
                let rest = volume.name.strip_prefix(prefix.trim_end_matches('/'));
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            })
        };
        shown.extend(volumes.iter().filter(is_below).map(|volume| PlannedView {
            unit: volume.guid,
            hosts: view.hosts.clone(),
            read_only: view.read_only,
        }));
    }
    shown
}

/// No initiator sees two units under one number.
fn refuse_ambiguous(
    name: &str,
    target: &PlannedTarget,
    units: &BTreeMap<u64, PlannedUnit>,
) -> Result<(), Refused> {
    let mut by_lun: BTreeMap<u16, Vec<&PlannedView>> = BTreeMap::new();
    for view in &target.views {
        by_lun.entry(units[&view.unit].lun).or_default().push(view);
    }
    for (lun, views) in by_lun {
        let mut seen: BTreeMap<Option<&String>, u64> = BTreeMap::new();
        for view in views {
            let hosts: Vec<Option<&String>> = match &view.hosts {
                Some(hosts) => hosts.iter().map(Some).collect(),
                None => vec![None],
            };
            let clash = |host: &Option<&String>| {
                let same = seen.iter().find(|(other, unit)| {
                    **unit != view.unit && (other.is_none() || host.is_none() || *other == host)
                });
                same.map(|(_, unit)| *unit)
            };
            if let Some(other) = hosts.iter().find_map(clash) {
                let what = format!(
                    "'{}' and '{}' would both have the number {lun} at {name} for one initiator; rename one, give them \
                     views of different hosts, or have the number assigned again: strongroom inherit {LUN_PROPERTY} \
                     VOLUME",
                    units[&other].name, units[&view.unit].name
                );
                return Err(Refused::new(0, "logical_units", what));
            }
            seen.extend(hosts.into_iter().map(|host| (host, view.unit)));
        }
    }
    Ok(())
}

/// What an administrator should look at, in one line each.
pub(super) fn warnings(plan: &Plan) -> Vec<String> {
    let is_open = |target: &PlannedTarget| {
        target.chap.is_none() && target.views.iter().any(|view| view.hosts.is_none())
    };
    let open = plan.targets.iter().filter(|(_, target)| is_open(target));
    let open: Vec<&str> = open.map(|(name, _)| name.as_str()).collect();
    let mut all = Vec::new();
    if !open.is_empty() {
        all.push(format!(
            "neither host groups nor CHAP limit access to {}: every initiator that reaches the portal can use the units",
            open.join(", ")
        ));
    }
    let shown: BTreeSet<u64> = { plan.targets.values() }
        .flat_map(|target| target.views.iter().map(|view| view.unit))
        .collect();
    let hidden = plan.units.iter().filter(|(guid, _)| !shown.contains(guid));
    let hidden: Vec<&str> = hidden.map(|(_, unit)| unit.name.as_str()).collect();
    if !hidden.is_empty() {
        all.push(format!("no view shows {}", hidden.join(", ")));
    }
    all
}

#[cfg(test)]
mod tests {
    use protocol::ha_file::Spelling;

    use super::*;

    fn volumes(names: &[(&str, Option<&str>)]) -> Vec<Volume> {
        let volume = |(guid, (name, lun)): (u64, &(&str, Option<&str>))| Volume {
            guid,
            name: (*name).into(),
            remembered: lun.map(Into::into),
        };
        (1..).zip(names).map(volume).collect()
    }

    fn planned(text: &str, names: &[(&str, Option<&str>)]) -> Result<Plan, Refused> {
        let file = Spelling::Toml.parse(text.as_bytes()).unwrap();
        plan("tank", &file, &volumes(names))
    }

    fn luns(plan: &Plan) -> Vec<(&str, u16, bool)> {
        let units = plan.units.values();
        let mut all: Vec<_> = units.map(|it| (&*it.name, it.lun, it.is_new)).collect();
        all.sort();
        all
    }

    const TANK: &str = "iqn.2026-01.io.github.strongroom:tank";

    #[test]
    fn an_empty_file_shows_all_volumes_to_all() {
        let names = [
            ("tank/a", None),
            ("tank/b:01", Some("7")),
            ("tank/c", Some("3")),
            ("tank/d", None),
            ("tank/e:x1", None),
        ];
        let plan = planned("", &names).unwrap();
        let expected = [
            ("tank/a", 0, true),
            ("tank/b:01", 1, false),
            ("tank/c", 3, false),
            ("tank/d", 2, true),
            ("tank/e:x1", 4, true),
        ];
        assert_eq!(luns(&plan), expected);
        let target = &plan.targets[TANK];
        assert_eq!(target.views.len(), 5);
        assert_eq!(target.places, [Place::Iscsi("[::]:3260".into())].into());
        assert_eq!((target.initiators(), plan.targets.len()), (None, 1));
        assert!(warnings(&plan)[0].starts_with("neither"));
    }

    const TWO_HOSTS: &str = "host_groups = [\"a\", \"b\"]\na_members = [\"iqn.x:a\"]\nb_members = [\"iqn.x:b\"]\n\
        views = [\"one\", \"two\"]\none_hg = \"a\"\none_lu_prefix = \"tank/a\"\ntwo_hg = \"b\"\n\
        two_lu_prefix = \"tank/b\"\ntwo_read_only = true\n";

    #[test]
    fn views_show_what_is_below_a_dataset() {
        let names = [("tank/a/x:5", None), ("tank/b:5", None), ("tank/ab", None)];
        let plan = planned(TWO_HOSTS, &names).unwrap();
        let target = &plan.targets[TANK];
        let seen: Vec<_> = target
            .views
            .iter()
            .map(|it| (it.unit, it.read_only))
            .collect();
        // 'tank/b:5' is not below 'tank/b', nor 'tank/ab' below 'tank/a'.
        assert_eq!(seen, [(1, false)]);
        assert_eq!(target.initiators().unwrap().len(), 1);
        assert_eq!(warnings(&plan), ["no view shows tank/b:5, tank/ab"]);
        // Initiators that differ may see two units under one number.
        let names = [("tank/a/x:5", None), ("tank/b/y:5", None)];
        let plan = planned(TWO_HOSTS, &names).unwrap();
        assert_eq!(plan.targets[TANK].views.len(), 2);
    }

    #[test]
    fn what_is_ambiguous_is_refused() {
        let refused = |text: &str, names: &[(&str, Option<&str>)]| {
            let refused = planned(text, names).unwrap_err();
            (refused.line, refused.noun, refused.what)
        };
        let both = [("tank/a:5", None), ("tank/b", Some("5"))];
        let (_, _, what) = refused("", &both);
        assert!(what.starts_with("'tank/a:5' and 'tank/b' would both have the number 5"));
        // One of the views is of all initiators.
        let one = TWO_HOSTS.replace("two_hg = \"b\"\n", "");
        let both = [("tank/a/x:5", None), ("tank/b/y:5", None)];
        let (_, _, what) = refused(&one, &both);
        assert!(what.contains("tank/b/y:5"), "{what}");
        let (_, noun, what) = refused("", &[("tank/a:16384", None)]);
        assert!(noun == "logical_units" && what.contains("16384"), "{what}");
        let (line, noun, _) = refused("\nlogical_units = [\"tank/x\"]", &[("tank/a", None)]);
        assert_eq!((line, &*noun), (2, "logical_units"));
        let typed = "targets = [\"t\"]\nt_chap = [\"web=prompt\"]";
        let (line, noun, _) = refused(typed, &[]);
        assert_eq!((line, &*noun), (1, "t_chap"));
    }
}
