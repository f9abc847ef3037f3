//! Users and groups of this machine, by name and number.

use std::collections::BTreeMap;
use std::io;

const USERS: &str = "/etc/passwd";
const GROUPS: &str = "/etc/group";

/// An account of this machine.
#[derive(Clone, Debug)]
pub struct SystemAccount {
    /// The name of the user.
    pub name: String,
    /// The first group.
    pub gid: u32,
    /// The home directory.
    pub home: String,
}

/// The accounts in `/etc/passwd`, by number. If two have the same number, the first one counts.
///
/// # Errors
/// The file cannot be read, or has no accounts.
pub fn accounts() -> io::Result<BTreeMap<u32, SystemAccount>> {
    let text = std::fs::read(USERS)?;
    let text = String::from_utf8_lossy(&text);
    let account = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next()?.to_owned();
        let uid: u32 = fields.nth(1)?.parse().ok()?;
        let gid = fields.next()?.parse().ok()?;
        let home = fields.nth(1)?.to_owned();
        Some((uid, SystemAccount { name, gid, home }))
    };
    let mut all = BTreeMap::new();
    for (uid, account) in text.lines().filter_map(account) {
        all.entry(uid).or_insert(account);
    }
    match all.is_empty() {
        true => Err(io::ErrorKind::UnexpectedEof.into()),
        false => Ok(all),
    }
}

/// The name of a user in `/etc/passwd`.
pub fn user_name(uid: u32) -> Option<String> {
    name_in(USERS, uid)
}

/// The name of a group in `/etc/group`.
pub fn group_name(gid: u32) -> Option<String> {
    name_in(GROUPS, gid)
}

/// The number of a user: of that name, or that number itself.
pub fn uid_of(name: &str) -> Option<u32> {
    number_in(USERS, name)
}

/// The number of a group: of that name, or that number itself.
pub fn gid_of(name: &str) -> Option<u32> {
    number_in(GROUPS, name)
}

fn name_in(file: &str, number: u32) -> Option<String> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(number)).then(|| name.to_owned())
    })
}

fn number_in(file: &str, name: &str) -> Option<u32> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let by_name = text.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == name).then(|| fields.nth(1)?.parse().ok())?
    });
    by_name.or_else(|| name.parse().ok())
}

/// The first group of a user.
pub fn first_group(name: &str) -> Option<u32> {
    let text = std::fs::read_to_string(USERS).unwrap_or_default();
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == name).then(|| fields.nth(2)?.parse().ok())?
    })
}

/// The groups that list a user as their member.
pub fn groups_of(name: &str) -> Vec<u32> {
    let text = std::fs::read_to_string(GROUPS).unwrap_or_default();
    let is_member = |line: &str| {
        let mut fields = line.split(':').skip(2);
        let number = fields.next()?.parse().ok()?;
        let mut members = fields.next()?.split(',');
        members.any(|member| member == name).then_some(number)
    };
    text.lines().filter_map(is_member).collect()
}
