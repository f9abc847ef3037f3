//! The meaning of a file, as far as it can be known without the pool.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use super::identity::HaIdentity;
use super::items::{Items, NounRefusal};
use super::nouns::{ANYWHERE, Nouns};

/// The beginning of the names of targets.
pub const TARGET_PREFIX: &str = "iqn.2026-01.io.github.strongroom:";
/// The port of iSCSI.
const PORT: u16 = 3260;

/// The nouns: lists of names, and what can be said of each name there.
pub(super) const ORDER: [(&str, &[&str]); 9] = [
    (
        "target_portal_groups",
        &["_portals", "_redirect", "_redirect_permanently"],
    ),
    ("default_tpg", &[]),
    ("default_target_type", &[]),
    (
        "targets",
        &["_iqn", "_type", "_tpg", "_chap", "_mutual_chap"],
    ),
    ("logical_units", &[]),
    (
        "identities",
        &["_lu", "_lun", "_serial", "_naa", "_block_size"],
    ),
    ("host_groups", &["_members"]),
    ("target_groups", &["_members"]),
    ("views", &["_hg", "_tg", "_lu_prefix", "_read_only"]),
];
/// The nouns that stmf-ha does not know.
pub(super) const OURS: [&str; 12] = [
    "_iqn",
    "identities",
    "_lu",
    "_lun",
    "_serial",
    "_naa",
    "_block_size",
    "_chap",
    "_mutual_chap",
    "_read_only",
    "_redirect",
    "_redirect_permanently",
];

/// The targets, units and views that a pool is to serve.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HaFile {
    /// The portal groups by name. `default` is among them if a target uses it.
    pub portal_groups: BTreeMap<String, PortalGroup>,
    /// The targets. If the file lists none, there is one without a name, which is called after the pool.
    pub targets: Vec<HaTarget>,
    /// The volumes, with their lines; all of the pool if absent.
    pub logical_units: Option<Vec<(usize, String)>>,
    /// Identities that units had in another storage.
    pub identities: Vec<HaIdentity>,
    /// The views of units to initiators; one view of all to all if the file has none.
    pub views: Vec<HaView>,
}

/// Addresses at which targets can be reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortalGroup {
    /// `ADDRESS:PORT`; all addresses of the host at port 3260 if there are none.
    pub portals: Vec<String>,
    /// The portals to which initiators are sent that log in there.
    pub redirect: Option<Redirect>,
}

/// Sends initiators from the portals of one group to others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// The line, from 1.
    pub line: usize,
    /// To which portals.
    pub to: RedirectTarget,
    /// True if initiators may use the other portal from then on.
    pub permanently: bool,
}

/// Portals to which initiators are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedirectTarget {
    /// `ADDRESS:PORT`, for the targets of the group itself.
    Address(String),
    /// The portals of another group, whose targets are found at the portals of this one too.
    Group(String),
}

/// A target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HaTarget {
    /// The line, from 1; 0 of the default target.
    pub line: usize,
    /// The name of the target in the file; absent for the default target.
    pub name: Option<String>,
    /// The name that initiators know it by, if it does not come from the one in the file.
    pub iqn: Option<String>,
    /// The portal group of the target.
    pub portal_group: String,
    /// `USER=LOCATION` of the secrets that initiators prove.
    pub chap: Vec<String>,
    /// The same of the target itself.
    pub own_chap: Option<String>,
}

/// A view: units, initiators and targets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HaView {
    /// The line, from 1; 0 of the view of all to all.
    pub line: usize,
    /// The name of the unit in the file.
    pub name: String,
    /// The initiators that see the units, in small letters; all if absent.
    pub hosts: Option<BTreeSet<String>>,
    /// The names in the file of the targets that show the units; all if absent.
    pub targets: Option<BTreeSet<String>>,
    /// Volumes below this dataset; all if absent.
    pub prefix: Option<String>,
    /// True if the initiators cannot change the units.
    pub read_only: bool,
}

impl HaFile {
    /// Returns the meaning of the nouns of a file.
    ///
    /// # Errors
    /// What has no meaning, with its line and noun.
    pub fn of(items: &Items) -> Result<HaFile, NounRefusal> {
        let mut nouns = Nouns::of(items);
        let file = nouns.file()?;
        nouns.refuse_unused()?;
        Ok(file)
    }
}

impl Nouns<'_> {
    fn file(&mut self) -> Result<HaFile, NounRefusal> {
        let groups = self.names("target_portal_groups")?;
        let mut portal_groups = BTreeMap::new();
        for (_, name) in &groups {
            let noun = format!("{name}_portals");
            let portals = self.list(&noun)?.unwrap_or_default().into_iter();
            let portals = portals.map(|(line, text)| portal(line, &noun, &text));
            let portals = portals.collect::<Result<_, _>>()?;
            let redirect = self.redirect(name, &groups)?;
            portal_groups.insert(name.clone(), PortalGroup { portals, redirect });
        }
        check_redirects(&portal_groups)?;
        portal_groups.insert(ANYWHERE.into(), PortalGroup::default());
        let has_group = |line, noun: &str, name: String| match portal_groups.contains_key(&name) {
            true => Ok(name),
            false => Err(unknown(line, noun, &name, "target_portal_groups")),
        };
        let first = groups.first().map_or(ANYWHERE, |(_, name)| name).to_owned();
        let default_group = match self.word("default_tpg")? {
            Some((line, name)) => has_group(line, "default_tpg", name)?,
            None => first,
        };
        self.is_iscsi("default_target_type")?;
        let listed = self.names("targets")?;
        let mut targets = Vec::new();
        for (line, name) in &listed {
            self.is_iscsi(&format!("{name}_type"))?;
            let noun = format!("{name}_tpg");
            let group = match self.word(&noun)? {
                Some((line, group)) => has_group(line, &noun, group)?,
                None => default_group.clone(),
            };
            let chap = self.list(&format!("{name}_chap"))?.unwrap_or_default();
            targets.push(HaTarget {
                line: *line,
                name: Some(name.clone()),
                iqn: self.iqn(name)?,
                portal_group: group,
                chap: chap.into_iter().map(|(_, user)| user).collect(),
                own_chap: self.word(&format!("{name}_mutual_chap"))?.map(|own| own.1),
            });
        }
        one_in_small_letters(&targets)?;
        if targets.is_empty() {
            targets.push(HaTarget {
                portal_group: default_group,
                ..HaTarget::default()
            });
        }
        let has_targets = |name: &String| targets.iter().any(|it| it.portal_group == *name);
        portal_groups.retain(|name, group| match &group.redirect {
            Some(Redirect {
                to: RedirectTarget::Group(to),
                ..
            }) => has_targets(name) || has_targets(to),
            _ => has_targets(name),
        });
        Ok(HaFile {
            portal_groups,
            targets,
            logical_units: self.list("logical_units")?,
            identities: self.identities()?,
            views: self.views(&listed)?,
        })
    }

    /// The name that initiators know a target by.
    fn iqn(&mut self, target: &str) -> Result<Option<String>, NounRefusal> {
        let noun = format!("{target}_iqn");
        match self.word(&noun)? {
            Some((line, name)) if !is_iscsi_name(&name) => {
                Err(not_a_name(line, &noun, &name, "a target"))
            }
            found => Ok(found.map(|(_, name)| name.to_ascii_lowercase())),
        }
    }

    /// Returns the portals to which initiators are sent that log in at a portal of a group.
    fn redirect(
        &mut self,
        group: &str,
        groups: &[(usize, String)],
    ) -> Result<Option<Redirect>, NounRefusal> {
        let noun = format!("{group}_redirect");
        let to = self.word(&noun)?;
        let flag = format!("{noun}_permanently");
        let permanently = self.flag(&flag)?;
        let Some((line, to)) = to else {
            return match self.item(&flag) {
                Some(item) => {
                    let what = format!("'{noun}' is missing");
                    Err(NounRefusal::new(item.line, &flag, what))
                }
                None => Ok(None),
            };
        };
        let to = match groups.iter().any(|(_, name)| *name == to) {
            true => RedirectTarget::Group(to),
            false => {
                let what = format!(
                    "'{to}' is neither listed in target_portal_groups nor an address, as in 192.0.2.1 or \
                     [2001:db8::1]:3260"
                );
                let address = portal(line, &noun, &to);
                RedirectTarget::Address(address.map_err(|_| NounRefusal::new(line, &noun, what))?)
            }
        };
        Ok(Some(Redirect {
            line,
            to,
            permanently,
        }))
    }

    fn is_iscsi(&mut self, noun: &str) -> Result<(), NounRefusal> {
        match self.word(noun)? {
            Some((line, kind)) if kind != "iscsi" => {
                let what = format!("there is no type '{kind}'; the type is iscsi");
                Err(NounRefusal::new(line, noun, what))
            }
            _ => Ok(()),
        }
    }

    /// Groups of a kind with their members.
    fn groups(
        &mut self,
        noun: &str,
        check: impl Fn(usize, &str, &str) -> Result<(), NounRefusal>,
    ) -> Result<BTreeMap<String, BTreeSet<String>>, NounRefusal> {
        let mut groups = BTreeMap::new();
        for (line, name) in self.names(noun)? {
            let own = format!("{name}_members");
            if self.is_used(&own) {
                let what = format!("'{name}' is a host group and a target group");
                return Err(NounRefusal::new(line, noun, what));
            }
            let members = self.list(&own)?;
            let members = members
                .ok_or_else(|| NounRefusal::new(line, noun, format!("'{own}' is missing")))?;
            for (line, member) in &members {
                check(*line, &own, member)?;
            }
            groups.insert(name, members.into_iter().map(|member| member.1).collect());
        }
        Ok(groups)
    }

    fn views(&mut self, targets: &[(usize, String)]) -> Result<Vec<HaView>, NounRefusal> {
        let hosts = self.groups("host_groups", |line, noun, name| {
            match is_iscsi_name(name) {
                true => Ok(()),
                false => Err(not_a_name(line, noun, name, "an initiator")),
            }
        })?;
        let groups = self.groups("target_groups", |line, noun, name| {
            match targets.iter().any(|(_, target)| target == name) {
                true => Ok(()),
                false => Err(unknown(line, noun, name, "targets")),
            }
        })?;
        let mut views = Vec::new();
        for (line, name) in self.names("views")? {
            let mut member =
                |suffix: &str, list: &str, groups: &BTreeMap<String, BTreeSet<String>>| {
                    let noun = format!("{name}{suffix}");
                    let Some((line, group)) = self.word(&noun)? else {
                        return Ok(None);
                    };
                    match groups.get(&group) {
                        Some(members) => Ok(Some(members.clone())),
                        None => Err(unknown(line, &noun, &group, list)),
                    }
                };
            let seen = member("_hg", "host_groups", &hosts)?;
            views.push(HaView {
                line,
                hosts: seen.map(|it| it.iter().map(|name| name.to_ascii_lowercase()).collect()),
                targets: member("_tg", "target_groups", &groups)?,
                prefix: self.word(&format!("{name}_lu_prefix"))?.map(|it| it.1),
                read_only: self.flag(&format!("{name}_read_only"))?,
                name,
            });
        }
        if views.is_empty() {
            views.push(HaView::default());
        }
        Ok(views)
    }
}

/// Refuses redirects that lead nowhere, or back.
fn check_redirects(groups: &BTreeMap<String, PortalGroup>) -> Result<(), NounRefusal> {
    for (name, group) in groups {
        let Some(redirect) = &group.redirect else {
            continue;
        };
        let to = match &redirect.to {
            RedirectTarget::Address(address) => std::slice::from_ref(address),
            RedirectTarget::Group(to) => &groups[to].portals,
        };
        let is_open = |address: &String| {
            let address = address.parse::<SocketAddr>();
            address.is_ok_and(|it| it.ip().is_unspecified())
        };
        let what = match &redirect.to {
            RedirectTarget::Group(to) if groups[to].redirect.is_some() => {
                format!("the portals of '{to}' redirect too")
            }
            _ if to.iter().any(|it| group.portals.contains(it)) => {
                "it leads back to a portal of this group".into()
            }
            _ if to.is_empty() || to.iter().any(is_open) => {
                "initiators need addresses that they can reach, and not all addresses of this host"
                    .into()
            }
            _ => continue,
        };
        return Err(NounRefusal::new(
            redirect.line,
            &format!("{name}_redirect"),
            what,
        ));
    }
    Ok(())
}

fn unknown(line: usize, noun: &str, name: &str, list: &str) -> NounRefusal {
    NounRefusal::new(line, noun, format!("'{name}' is not listed in {list}"))
}

/// Names of targets differ by more than the size of their letters.
fn one_in_small_letters(targets: &[HaTarget]) -> Result<(), NounRefusal> {
    let mut seen = BTreeSet::new();
    // The name of the pool does not matter: all have names in the file.
    match targets.iter().find(|it| !seen.insert(it.iscsi_name(""))) {
        None => Ok(()),
        Some(target) => {
            let name = target.name.as_deref().unwrap_or_default();
            let what = format!("'{name}' makes the same name of a target as another one");
            Err(NounRefusal::new(target.line, "targets", what))
        }
    }
}

fn iscsi_name(name: &str) -> String {
    name.to_ascii_lowercase().replace('_', "-")
}

impl HaTarget {
    /// Returns the name of the target for initiators, in a pool of this name.
    pub fn iscsi_name(&self, pool: &str) -> String {
        if let Some(iqn) = &self.iqn {
            return iqn.clone();
        }
        let name = self.name.as_deref().unwrap_or(pool);
        let may = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':');
        let name = iscsi_name(name);
        let name = name.chars().map(|c| if may(c) { c } else { '-' });
        TARGET_PREFIX.chars().chain(name).collect()
    }
}

fn not_a_name(line: usize, noun: &str, name: &str, of: &str) -> NounRefusal {
    let what = format!(
        "'{name}' is no name of {of}: it begins with iqn., eui. or naa., and has letters, digits, '.', ':' and '-'"
    );
    NounRefusal::new(line, noun, what)
}

fn is_iscsi_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let may = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '.' | ':' | '-');
    let begins = |it: &&str| name.len() > it.len() && name.starts_with(*it);
    name.len() <= 223 && name.chars().all(may) && ["iqn.", "eui.", "naa."].iter().any(begins)
}

/// `ADDRESS:PORT`, of which the port may be left out.
fn portal(line: usize, noun: &str, text: &str) -> Result<String, NounRefusal> {
    let with_port = text.parse::<SocketAddr>().ok();
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    let alone = || {
        bare.parse::<IpAddr>()
            .ok()
            .map(|it| SocketAddr::new(it, PORT))
    };
    match with_port.or_else(alone).filter(|it| it.port() != 0) {
        Some(address) => Ok(address.to_string()),
        None => {
            let what = format!(
                "'{text}' is not the address of a portal; write ADDRESS or ADDRESS:PORT, as in 192.0.2.1 or \
                 [2001:db8::1]:3260"
            );
            Err(NounRefusal::new(line, noun, what))
        }
    }
}
