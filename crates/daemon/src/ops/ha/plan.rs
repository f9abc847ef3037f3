//! The meaning of a file for the volumes of its pool.

use std::collections::{BTreeMap, BTreeSet};

use iscsi::LoginRedirect;
use protocol::ha_file::{
    HaFile, HaTarget, HaView, LUN_MAX, NounRefusal, RedirectTarget, parse_lun,
};

use super::identities::{GivenIdentity, identities};
use super::volume::HaVolume;

use crate::state::exports::chap::ChapSources;
use crate::state::exports::ha_targets::{HaPlan, PlannedTarget, PlannedUnit, PlannedView};
use crate::state::exports::listen::ListenAddress;

/// The most views of units that a plan can have, over all targets and initiators.
const VIEWS_MAX: usize = 100_000;
/// All addresses of a host, at the port of iSCSI.
const ANYWHERE: &str = "[::]:3260";

/// Decides what the pool with this name serves.
pub(super) fn plan(pool: &str, file: &HaFile, volumes: &[HaVolume]) -> Result<HaPlan, NounRefusal> {
    let (chosen, mut missing) = choose(file, volumes);
    let (mut given, unknown) = identities(file, &chosen);
    let mut plan = number(&chosen, &mut given);
    missing.extend(unknown);
    if !missing.is_empty() {
        // The number of a missing volume is not known. No other volume may get it.
        let new = plan.units.values_mut().filter(|unit| unit.is_new);
        new.filter(|unit| in_name(&unit.name).is_none())
            .for_each(|unit| {
                let why = "it gets its number when all volumes that logical_units lists are there";
                unit.refused = Some(why.into());
            });
    }
    plan.missing = missing;
    let mut left = VIEWS_MAX;
    for target in &file.targets {
        let name = target.iscsi_name(pool);
        let (places, moved) = places(target, file)?;
        let planned = PlannedTarget {
            places,
            moved,
            chap: chap(target)?,
            views: views(target, &file.views, &chosen, &mut left)?,
        };
        plan.targets.insert(name, planned);
    }
    let HaPlan {
        units,
        targets,
        clashes,
        ..
    } = &mut plan;
    for (name, target) in targets {
        refuse_ambiguous(name, target, units, clashes);
    }
    Ok(plan)
}

/// The volumes that a file chooses, and the names in it that are no volumes.
fn choose<'a>(file: &HaFile, volumes: &'a [HaVolume]) -> (Vec<&'a HaVolume>, Vec<NounRefusal>) {
    let Some(listed) = &file.logical_units else {
        return (volumes.iter().collect(), Vec::new());
    };
    let by_name: BTreeMap<&str, &HaVolume> = volumes.iter().map(|it| (&*it.name, it)).collect();
    let (mut chosen, mut missing) = (Vec::new(), Vec::new());
    for (line, name) in listed {
        match by_name.get(&**name) {
            Some(volume) => chosen.push(*volume),
            None => {
                let what = format!("the pool has no volume '{name}'");
                missing.push(NounRefusal::new(*line, "logical_units", what));
            }
        }
    }
    (chosen, missing)
}

/// Gives each unit a number: the one of its identity, the one in its name, the one that it had before, or the lowest free
/// one.
fn number(volumes: &[&HaVolume], given: &mut BTreeMap<u64, GivenIdentity>) -> HaPlan {
    let mut plan = HaPlan::default();
    let mut taken = BTreeSet::new();
    let mut rest = Vec::new();
    for volume in volumes {
        let remembered = volume.remembered.as_deref().and_then(valid);
        let of_identity = given.get(&volume.guid).and_then(|it| it.lun);
        match of_identity.or(in_name(&volume.name)).or(remembered) {
            Some(lun) => {
                taken.insert(lun);
                let is_new = remembered != Some(lun);
                let identity = given.remove(&volume.guid).unwrap_or_default();
                plan.units
                    .insert(volume.guid, unit(volume, lun, is_new, identity));
            }
            None => rest.push(*volume),
        }
    }
    let mut free = (0..=LUN_MAX).filter(|lun| !taken.contains(lun));
    for volume in rest {
        match free.next() {
            Some(lun) => {
                let identity = given.remove(&volume.guid).unwrap_or_default();
                plan.units
                    .insert(volume.guid, unit(volume, lun, true, identity));
            }
            None => plan.unnumbered.push(volume.name.clone()),
        }
    }
    plan
}

fn unit(volume: &HaVolume, lun: u16, is_new: bool, given: GivenIdentity) -> PlannedUnit {
    PlannedUnit {
        id: volume.id,
        name: volume.name.clone(),
        lun,
        is_new,
        is_own: volume.is_own,
        identity: given.san,
        is_ambiguous: false,
        refused: given.refused,
    }
}

/// The number after the last ':' of a name.
fn in_name(name: &str) -> Option<u16> {
    let (_, digits) = name.rsplit_once(':')?;
    valid(digits)
}

fn valid(digits: &str) -> Option<u16> {
    parse_lun(digits).ok()
}

/// The places where a target is found, and those of them that send initiators elsewhere.
fn places(
    target: &HaTarget,
    file: &HaFile,
) -> Result<
    (
        BTreeSet<ListenAddress>,
        BTreeMap<ListenAddress, LoginRedirect>,
    ),
    NounRefusal,
> {
    let own = &target.portal_group;
    let (mut places, mut moved) = (portals(target, own, file)?, BTreeMap::new());
    for (name, group) in &file.portal_groups {
        let Some(redirect) = &group.redirect else {
            continue;
        };
        let to = match &redirect.to {
            RedirectTarget::Address(address) if name == own => vec![address.clone()],
            RedirectTarget::Group(to) if to == own => file.portal_groups[to].portals.clone(),
            _ => continue,
        };
        let to = LoginRedirect {
            to,
            permanently: redirect.permanently,
        };
        for place in portals(target, name, file)? {
            moved.insert(place.clone(), to.clone());
            places.insert(place);
        }
    }
    Ok((places, moved))
}

fn portals(
    target: &HaTarget,
    group: &str,
    file: &HaFile,
) -> Result<BTreeSet<ListenAddress>, NounRefusal> {
    let anywhere = [ANYWHERE.to_owned()];
    let portals = match &file.portal_groups[group].portals[..] {
        [] => &anywhere[..],
        portals => portals,
    };
    let places = portals.iter().map(|portal| {
        ListenAddress::portal(portal)
            .map_err(|failure| NounRefusal::new(target.line, group, failure.message.clone()))
    });
    places.collect()
}

/// The secrets of a target. A prompt is refused: nobody is there to type.
fn chap(target: &HaTarget) -> Result<Option<ChapSources>, NounRefusal> {
    let noun = format!("{}_chap", target.name.as_deref().unwrap_or_default());
    let refused = |what: String| NounRefusal::new(target.line, &noun, what);
    let mut all = target.chap.iter().chain(&target.own_chap);
    if all.any(|text| !text.contains("=file:///")) {
        let what =
            "write USER=file:///PATH, as in web=file:///etc/keys/web; secrets are not in this file";
        return Err(refused(what.into()));
    }
    let sources = ChapSources::parse(&target.chap, target.own_chap.as_deref());
    sources.map_err(|failure| refused(failure.message.clone()))
}

/// The views of a target; `left` says how many more views there may be.
fn views(
    target: &HaTarget,
    views: &[HaView],
    volumes: &[&HaVolume],
    left: &mut usize,
) -> Result<Vec<PlannedView>, NounRefusal> {
    let is_there = |view: &&HaView| match (&view.targets, &target.name) {
        (Some(targets), Some(name)) => targets.contains(name),
        (targets, _) => targets.is_none(),
    };
    let mut shown = Vec::new();
    for view in views.iter().filter(is_there) {
        let is_below = |volume: &&&HaVolume| {
            let prefix = view.prefix.as_deref();
            prefix.is_none_or(|prefix| {
                let rest = volume.name.strip_prefix(prefix.trim_end_matches('/'));
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            })
        };
        for volume in volumes.iter().filter(is_below) {
            *left = left.checked_sub(1).ok_or_else(|| {
                let what = format!("units would be shown more than {VIEWS_MAX} times");
                NounRefusal::new(0, "views", what)
            })?;
            shown.push(PlannedView {
                unit: volume.guid,
                hosts: view.hosts.clone(),
                read_only: view.read_only,
            });
        }
    }
    Ok(shown)
}

/// No initiator sees two units under one number. What was served under it before stays; of new units the one that an
/// administrator has named is served, or among those of other users the oldest. If several were served before, an initiator
/// could take one of them for another, so none is.
fn refuse_ambiguous(
    name: &str,
    target: &PlannedTarget,
    units: &mut BTreeMap<u64, PlannedUnit>,
    clashes_of_served: &mut Vec<NounRefusal>,
) {
    let mut by_lun: BTreeMap<u16, Vec<&PlannedView>> = BTreeMap::new();
    for view in &target.views {
        // A volume without a number has no unit.
        if let Some(unit) = units.get(&view.unit) {
            by_lun.entry(unit.lun).or_default().push(view);
        }
    }
    for (lun, views) in by_lun {
        for clash in clashes(&views) {
            let why = refuse_all_but_one(name, lun, &clash, units);
            clashes_of_served.extend(why);
        }
    }
}

/// Returns the reason if units are refused that were served before.
fn refuse_all_but_one(
    target: &str,
    lun: u16,
    clash: &BTreeSet<u64>,
    units: &mut BTreeMap<u64, PlannedUnit>,
) -> Option<NounRefusal> {
    let one = owner(clash, units);
    let mut names: Vec<&str> = clash.iter().map(|guid| &*units[guid].name).collect();
    names.sort_unstable();
    let why = format!(
        "'{}' would have the number {lun} at {target} for one initiator; rename all but one, or give them views of \
         different hosts",
        names.join("' and '")
    );
    let was_served = one.is_none() && clash.iter().any(|guid| !units[guid].is_new);
    for guid in clash.iter().filter(|guid| Some(**guid) != one) {
        if let Some(unit) = units.get_mut(guid) {
            unit.is_ambiguous = true;
            unit.refused.get_or_insert_with(|| why.clone());
        }
    }
    was_served.then(|| NounRefusal::new(0, "logical_units", why))
}

/// The unit that gets the number, of units that would have the same number. `None` if administrators gave it twice. A
/// volume of another user never takes the number from a volume of an administrator.
fn owner(clash: &BTreeSet<u64>, units: &BTreeMap<u64, PlannedUnit>) -> Option<u64> {
    let mut left: Vec<(&u64, &PlannedUnit)> = clash.iter().map(|it| (it, &units[it])).collect();
    let keep = |left: &mut Vec<(&u64, &PlannedUnit)>, is_it: fn(&PlannedUnit) -> bool| {
        if left.iter().any(|(_, unit)| is_it(unit)) {
            left.retain(|(_, unit)| is_it(unit));
        }
    };
    keep(&mut left, |unit| !unit.is_new);
    keep(&mut left, |unit| unit.is_own);
    let (guid, unit) = left.iter().min_by_key(|(_, unit)| unit.id)?;
    (left.len() == 1 || !unit.is_own).then_some(**guid)
}

/// The sets of units that one initiator would see under the same number.
fn clashes(views: &[&PlannedView]) -> BTreeSet<BTreeSet<u64>> {
    let mut seen: BTreeMap<Option<&String>, BTreeSet<u64>> = BTreeMap::new();
    for view in views {
        match &view.hosts {
            Some(hosts) => hosts.iter().for_each(|host| {
                seen.entry(Some(host)).or_default().insert(view.unit);
            }),
            None => drop(seen.entry(None).or_default().insert(view.unit)),
        }
    }
    let of_all = seen.get(&None).cloned().unwrap_or_default();
    let sets = seen.into_values().map(|units| &units | &of_all);
    sets.filter(|units| units.len() > 1).collect()
}

/// Warnings for the administrator, one line each.
pub(super) fn warnings(plan: &HaPlan) -> Vec<String> {
    let is_open = |target: &PlannedTarget| {
        target.chap.is_none() && target.views.iter().any(|view| view.hosts.is_none())
    };
    let open = plan.targets.iter().filter(|(_, target)| is_open(target));
    let open: Vec<&str> = open.map(|(name, _)| name.as_str()).collect();
    let mut all: Vec<String> = plan.missing.iter().map(NounRefusal::to_string).collect();
    if !plan.unnumbered.is_empty() {
        all.push(format!(
            "there is no number left for {}",
            plan.unnumbered.join(", ")
        ));
    }
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

    fn volumes(names: &[(&str, Option<&str>)]) -> Vec<HaVolume> {
        let volume = |(guid, (name, lun)): (u64, &(&str, Option<&str>))| HaVolume {
            id: guid,
            guid,
            name: (*name).into(),
            remembered: lun.map(Into::into),
            is_own: !name.starts_with("tank/users/"),
            number: guid,
            stmf: Vec::new(),
            is_identified_by_admins: !name.starts_with("tank/users/"),
        };
        (1..).zip(names).map(volume).collect()
    }

    fn planned(text: &str, names: &[(&str, Option<&str>)]) -> Result<HaPlan, NounRefusal> {
        let file = Spelling::Toml.parse(text.as_bytes()).unwrap();
        plan("tank", &file, &volumes(names))
    }

    fn luns(plan: &HaPlan) -> Vec<(&str, u16, bool)> {
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
            ("tank/b:01", 1, true),
            ("tank/c", 3, false),
            ("tank/d", 2, true),
            ("tank/e:x1", 4, true),
        ];
        assert_eq!(luns(&plan), expected);
        let target = &plan.targets[TANK];
        assert_eq!(target.views.len(), 5);
        assert_eq!(
            target.places,
            [ListenAddress::Iscsi("[::]:3260".into())].into()
        );
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
        // Different initiators may see different units under one number.
        let names = [("tank/a/x:5", None), ("tank/b/y:5", None)];
        let plan = planned(TWO_HOSTS, &names).unwrap();
        assert_eq!(plan.targets[TANK].views.len(), 2);
    }

    fn refused(plan: &HaPlan) -> Vec<&str> {
        let all = plan.units.values().filter(|it| it.refused.is_some());
        all.map(|it| &*it.name).collect()
    }

    #[test]
    fn what_is_ambiguous_is_not_served_and_the_rest_is() {
        let names = [
            ("tank/a:5", None),
            ("tank/b", Some("5")),
            ("tank/c:7", None),
            ("tank/d:7", None),
            ("tank/e:8", Some("8")),
        ];
        let plan = planned("", &names).unwrap();
        assert_eq!(refused(&plan), ["tank/a:5", "tank/c:7", "tank/d:7"]);
        let why = plan.units[&1].refused.as_ref().unwrap();
        assert!(
            why.starts_with("'tank/a:5' and 'tank/b' would have the number 5"),
            "{why}"
        );
        // Both were served, to different initiators, and one new one is there: it is not for the program to choose.
        let names = [
            ("tank/a:5", Some("5")),
            ("tank/b", Some("5")),
            ("tank/ab:5", None),
            ("tank/c", Some("3")),
        ];
        let plan = planned("", &names).unwrap();
        assert_eq!(refused(&plan), ["tank/a:5", "tank/b", "tank/ab:5"]);
        let what = &plan.clashes[0].what;
        assert!(
            what.starts_with("'tank/a:5' and 'tank/ab:5' and 'tank/b'"),
            "{what}"
        );
        // One of the views is of all initiators.
        let one = TWO_HOSTS.replace("two_hg = \"b\"\n", "");
        let both = [("tank/a/x:5", None), ("tank/b/y:5", None)];
        assert_eq!(refused(&planned(&one, &both).unwrap()).len(), 2);
    }

    #[test]
    fn the_name_of_a_stranger_keeps_no_number_from_an_administrator() {
        let case = |names: &[(&str, Option<&str>)]| {
            let plan = planned("", names).unwrap();
            refused(&plan)
                .into_iter()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        // The order does not matter.
        let (db, x) = (("tank/db:7", None), ("tank/users/x:7", None));
        assert_eq!(case(&[x, db]), ["tank/users/x:7"]);
        assert_eq!(case(&[db, x]), ["tank/users/x:7"]);
        assert_eq!(case(&[x, ("tank/users/y:7", None), db]).len(), 2);
        // Nor from an older one of another user.
        assert_eq!(case(&[x, ("tank/users/y:7", None)]), ["tank/users/y:7"]);
        // What is served stays, and is no reason to serve nothing.
        let served = ("tank/users/x:7", Some("7"));
        assert_eq!(case(&[served, db]), ["tank/db:7"]);
        let both = [served, ("tank/db", Some("7"))];
        assert_eq!(case(&both), ["tank/users/x:7"]);
        let strangers = [served, ("tank/users/y", Some("7"))];
        assert_eq!(case(&strangers), ["tank/users/y"]);
    }

    #[test]
    fn a_volume_that_is_missing_keeps_back_no_other() {
        let names = [("tank/a", None), ("tank/b", Some("3")), ("tank/c:1", None)];
        let listed = "\nlogical_units = [\"tank/x\", \"tank/b\", \"tank/a\", \"tank/c:1\"]";
        let plan = planned(listed, &names).unwrap();
        let all = [
            ("tank/a", 0, true),
            ("tank/b", 3, false),
            ("tank/c:1", 1, true),
        ];
        assert_eq!(luns(&plan), all);
        // The missing one may have had the number that is free.
        assert_eq!(refused(&plan), ["tank/a"]);
        assert_eq!(
            warnings(&plan)[0],
            "line 2: logical_units: the pool has no volume 'tank/x'"
        );
    }

    #[test]
    fn a_number_that_is_none_is_not_followed() {
        let names = [
            ("tank/a:16384", None),
            ("tank/b:+1", None),
            ("tank/c", Some("16384")),
            ("tank/d", Some("x")),
        ];
        let plan = planned("", &names).unwrap();
        let luns: Vec<_> = luns(&plan).into_iter().map(|it| (it.1, it.2)).collect();
        assert_eq!(luns, [(0, true), (1, true), (2, true), (3, true)]);
    }

    #[test]
    fn a_target_is_found_at_portals_that_redirect_to_its_own() {
        let text = "target_portal_groups = [\"san\", \"front\", \"old\"]\nsan_portals = [\"192.0.2.1\", \"192.0.2.2\"]\n\
            front_portals = [\"192.0.2.100\"]\nfront_redirect = \"san\"\nold_redirect = \"192.0.2.7\"\n\
            old_portals = [\"192.0.2.3\"]\ntargets = [\"a\", \"b\"]\nb_tpg = \"old\"\n";
        let plan = planned(text, &[]).unwrap();
        let target =
            |name: &str| &plan.targets[&format!("{}{name}", protocol::ha_file::TARGET_PREFIX)];
        let found = |name: &str| {
            let places = target(name).places.iter();
            places.map(ListenAddress::to_string).collect::<Vec<_>>()
        };
        let san = ["192.0.2.1:3260", "192.0.2.2:3260"];
        assert_eq!(target("a").portals(), san);
        assert_eq!(found("a"), ["192.0.2.100:3260", san[0], san[1]]);
        let moved = &target("a").moved[&ListenAddress::Iscsi("192.0.2.100:3260".into())];
        assert_eq!(
            (&moved.to[..], moved.permanently),
            (&san.map(String::from)[..], false)
        );
        assert_eq!(target("b").portals(), [""; 0]);
        assert_eq!(found("b"), ["192.0.2.3:3260"]);
    }

    #[test]
    fn views_have_a_limit() {
        let names: Vec<String> = (0..1000).map(|number| format!("tank/{number}")).collect();
        let names: Vec<_> = names.iter().map(|name| (&**name, None)).collect();
        let views: Vec<String> = (0..101).map(|number| format!("\"v{number}\"")).collect();
        let (_, noun, what) = error(&format!("views = [{}]", views.join(",")), &names);
        assert!(noun == "views" && what.contains("100000"), "{what}");
        let plan = planned(&format!("views = [{}]", views[1..].join(",")), &names).unwrap();
        assert_eq!(plan.targets[TANK].views.len(), 100_000);
    }

    fn error(text: &str, names: &[(&str, Option<&str>)]) -> (usize, String, String) {
        let refused = planned(text, names).unwrap_err();
        (refused.line, refused.noun, refused.what)
    }

    #[test]
    fn a_file_that_cannot_be_followed_is_refused() {
        let typed = "targets = [\"t\"]\nt_chap = [\"web=prompt\"]";
        let (line, noun, _) = error(typed, &[]);
        assert_eq!((line, &*noun), (1, "t_chap"));
    }
}
