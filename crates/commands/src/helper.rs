//! The other names of this program. mount(8) calls it for the types `strongroom` and `strongroom-stack` by the name
//! `mount.strongroom` or `mount.strongroom-stack`; systemd calls it by the name `strongroom-generator`.
//!
//! `mount -t strongroom tank/home /mnt -o ro` runs `mount.strongroom tank/home /mnt -o rw,ro`, and
//! `mount -o remount,ro /mnt` runs `mount.fuse.strongroom` alike, since the kernel's list has this type.
//! The arguments are made into those of `strongroom mount`, or of `strongroom stack mount`.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The exit code of mount(8) for a wrong call.
pub(crate) const WRONG_CALL: u8 = 1;
/// The exit code of mount(8) for a mount that failed.
pub(crate) const MOUNT_FAILED: u8 = 32;

/// The name under which systemd calls the program.
const GENERATOR: &str = "strongroom-generator";

/// The kind of mount that mount(8) asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MountKind {
    Dataset,
    Stacked,
}

/// The kind of mount, if the program was called by a name of mount(8).
pub(crate) fn called_as(program: &OsStr) -> Option<MountKind> {
    match Path::new(program).file_name()?.to_str()? {
        "mount.strongroom" | "mount.fuse.strongroom" => Some(MountKind::Dataset),
        "mount.strongroom-stack" | "mount.fuse.strongroom-stack" => Some(MountKind::Stacked),
        _ => None,
    }
}

/// The command line of `generate systemd`, if systemd called the program as its generator.
pub(crate) fn as_generator(args: impl Iterator<Item = OsString>) -> impl Iterator<Item = OsString> {
    let mut args = args.peekable();
    let called = args
        .next_if(|program| Path::new(program).file_name() == Some(OsStr::new(GENERATOR)))
        .map(|_| ["strongroom", "generate", "systemd", "--"].map(OsString::from));
    called.into_iter().flatten().chain(args)
}

/// The command line that means the same: `[-sfnv] [-N NAMESPACE] [-o OPTIONS] [-t TYPE]`, and what to
/// mount where. None if there is nothing to do.
pub(crate) fn command_line(
    kind: MountKind,
    args: impl Iterator<Item = OsString>,
) -> Result<Option<Vec<OsString>>, String> {
    let words: &[&str] = match kind {
        MountKind::Dataset => &["strongroom", "mount"],
        MountKind::Stacked => &["strongroom", "stack", "mount"],
    };
    let mut line: Vec<OsString> = words.iter().map(OsString::from).collect();
    let mut names = Vec::new();
    let (mut is_fake, mut is_remount) = (false, false);
    let mut args = args;
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or("an option has no value");
        match arg.to_str() {
            Some("-o") => {
                let options = value()?;
                let options = options.to_str().ok_or("the options are not UTF-8")?;
                is_remount |= options.split(',').any(|word| word == "remount");
                add_options(&mut line, kind, options);
            }
            Some("-t") => drop(value()?),
            Some("-N") => return Err("mounting in another namespace does not work".to_owned()),
            Some(letters) if letters.starts_with('-') && letters.len() > 1 => {
                match letters.chars().skip(1).find(|c| !"sfnv".contains(*c)) {
                    Some(wrong) => return Err(format!("the option -{wrong} is not known")),
                    None => is_fake |= letters.contains('f'),
                }
            }
            _ => names.push(arg),
        }
    }
    let [name, dir] = <[OsString; 2]>::try_from(names)
        .map_err(|_| "name what to mount, and a directory, as mount(8) does")?;
    line.extend([OsString::from("--"), name]);
    if !is_remount || kind == MountKind::Stacked {
        line.push(dir);
    }
    Ok((!is_fake).then_some(line))
}

/// Adds what `-o` says. Of a stacked directory the options of `stack mount` are named there too, without `--`.
fn add_options(line: &mut Vec<OsString>, kind: MountKind, options: &str) {
    let mut rest = Vec::new();
    for option in options.split(',') {
        let name = option.split('=').next().unwrap_or_default();
        let of_stack = [
            "key-file",
            "passfile",
            "locked",
            "reverse",
            "private",
            "writeback",
            "overlay",
            "cache",
            "allow_other",
        ];
        if kind == MountKind::Stacked && of_stack.contains(&name) {
            let option = match name {
                "allow_other" => "allow-other",
                _ => option,
            };
            line.push(format!("--{option}").into());
        } else if !is_fuses(name) {
            rest.push(option);
        }
    }
    if !rest.is_empty() {
        line.extend(["-o", &rest.join(",")].map(OsString::from));
    }
}

/// Returns whether an option is one that the kernel lists of every FUSE mount, and mount(8) repeats.
fn is_fuses(name: &str) -> bool {
    let names = [
        "user_id",
        "group_id",
        "default_permissions",
        "allow_other",
        "max_read",
    ];
    names.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line_of(kind: MountKind, text: &str) -> Result<Option<String>, String> {
        let args = text.split(' ').map(OsString::from);
        let joined = |line: Vec<OsString>| line.join(OsStr::new(" ")).into_string().unwrap();
        Ok(command_line(kind, args)?.map(joined))
    }

    fn line(text: &str) -> Result<Option<String>, String> {
        line_of(MountKind::Dataset, text)
    }

    #[test]
    fn what_mount_says_is_what_strongroom_mount_says() {
        let is = |text: &str, meant: &str| assert_eq!(line(text).unwrap().unwrap(), meant);
        is(
            "tank/home /mnt -o rw,noatime",
            "strongroom mount -o rw,noatime -- tank/home /mnt",
        );
        is("-sn tank/home /mnt", "strongroom mount -- tank/home /mnt");
        is(
            "tank/home /mnt -o remount,user_id=0,group_id=0,default_permissions,allow_other,max_read=1,ro -t fuse.strongroom",
            "strongroom mount -o remount,ro -- tank/home",
        );
        assert_eq!(line("tank/home /mnt -f"), Ok(None));
        for wrong in ["tank/home", "a b c", "a b -o", "a b -x", "a b -N 1"] {
            assert!(line(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn options_of_stacked_directories_are_options_of_the_command() {
        let text =
            "/srv/my_files /mnt -o rw,nodev,key-file=/root/my_key,allow_other,private,user_id=0";
        let meant = "strongroom stack mount --key-file=/root/my_key --allow-other --private -o rw,nodev \
             -- /srv/my_files /mnt";
        assert_eq!(line_of(MountKind::Stacked, text).unwrap().unwrap(), meant);
    }

    #[test]
    fn systemd_calls_the_generator() {
        let line = |text: &str| {
            let args = text.split(' ').map(OsString::from);
            let line: Vec<OsString> = as_generator(args).collect();
            line.join(OsStr::new(" ")).into_string().unwrap()
        };
        assert_eq!(
            line("/usr/lib/systemd/system-generators/strongroom-generator /run/a /run/b /run/c"),
            "strongroom generate systemd -- /run/a /run/b /run/c"
        );
        assert_eq!(
            line("/usr/bin/strongroom list -r"),
            "/usr/bin/strongroom list -r"
        );
    }

    #[test]
    fn names_that_mount_calls() {
        let is = |name: &str| called_as(OsStr::new(name));
        assert_eq!(is("/sbin/mount.strongroom"), Some(MountKind::Dataset));
        assert_eq!(is("mount.fuse.strongroom"), Some(MountKind::Dataset));
        assert_eq!(is("mount.fuse.strongroom-stack"), Some(MountKind::Stacked));
        assert_eq!(is("/usr/bin/strongroom"), None);
        assert_eq!(is(""), None);
    }
}
