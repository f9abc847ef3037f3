//! Mounts that a daemon left behind when it was killed.

use std::fs;
use std::path::PathBuf;

use rustix::io::Errno;

use crate::attach::{self, unescaped};
use crate::helper;
use crate::place::has_lost_server;

/// A mount whose server was killed, as the kernel's list had it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dead {
    number: u64,
    /// What was mounted.
    pub source: String,
    /// Where.
    pub path: PathBuf,
    /// The options of the mount, such as `ro`.
    pub options: Vec<String>,
}

/// Takes away mounts of this process's user whose server was killed: those of a type, of what is asked
/// for. A mount of another user may have any name and is left alone.
pub fn clear_dead(subtype: &str, is_ours: impl Fn(&str) -> bool) -> Vec<Dead> {
    let list = fs::read("/proc/self/mountinfo").unwrap_or_default();
    let lines = list.split(|byte| *byte == b'\n').rev();
    let listed = lines.filter_map(|line| parse(line, subtype));
    // The last come first: they may be in others.
    listed
        .filter(|dead| is_ours(&dead.source) && clear(dead))
        .collect()
}

fn clear(dead: &Dead) -> bool {
    let Some(spot) = attach::spot(&dead.path) else {
        return false;
    };
    let Ok(root) = spot.open() else { return false };
    let is_it = attach::id_of(&root).is_some_and(|id| id.mount == dead.number);
    if !is_it || !has_lost_server(&root) {
        return false;
    }
    let cleared = match attach::detach(&root) {
        Err(Errno::PERM) => helper::unmount(&dead.path, true).is_ok(),
        result => result.is_ok(),
    };
    tracing::info!(path = %dead.path.display(), source = dead.source, cleared, "a mount without a server");
    cleared
}

/// A line of the kernel's list: number, two numbers, root, directory, options, words, a dash, type,
/// source, options of the file system.
fn parse(line: &[u8], subtype: &str) -> Option<Dead> {
    let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let text = |at: usize| {
        fields
            .get(at)
            .and_then(|field| std::str::from_utf8(field).ok())
    };
    let dash = fields.iter().position(|field| *field == b"-")?;
    let user = format!("user_id={}", rustix::process::geteuid().as_raw());
    let is_ours = text(dash + 1)?.strip_prefix("fuse.") == Some(subtype)
        && text(dash + 3)?.split(',').any(|option| option == user);
    is_ours.then_some(())?;
    Some(Dead {
        number: text(0)?.parse().ok()?,
        source: unescaped(fields.get(dash + 2)?).to_str()?.to_owned(),
        path: unescaped(fields.get(4)?),
        options: text(5)?.split(',').map(str::to_owned).collect(),
    })
}

/// Reads a line of the kernel's list.
#[cfg(fuzzing)]
pub(crate) fn read_line(line: &[u8]) {
    let _ = parse(line, "strongroom");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_of_others_are_not_ours() {
        let user = rustix::process::geteuid().as_raw();
        let line = |kind: &str, user: u32| {
            let line = format!(
                "47 27 0:44 / /a\\040b ro,nosuid shared:1 - {kind} tank/a rw,user_id={user},group_id=0"
            );
            parse(line.as_bytes(), "strongroom")
        };
        let ours = line("fuse.strongroom", user).unwrap();
        assert_eq!((ours.number, &*ours.source), (47, "tank/a"));
        assert_eq!(ours.path, PathBuf::from("/a b"));
        assert_eq!(ours.options, ["ro", "nosuid"]);
        assert_eq!(line("fuse.strongroom", user + 1), None);
        assert_eq!(line("fuse.sshfs", user), None);
        assert_eq!(parse(b"", "strongroom"), None);
    }
}
