//! What mount(8) calls for the type `strongroom`: this program by the name `mount.strongroom`.
//!
//! `mount -t strongroom tank/home /mnt -o ro` runs `mount.strongroom tank/home /mnt -o rw,ro`, and
//! `mount -o remount,ro /mnt` runs `mount.fuse.strongroom` alike, since the kernel's list has this type.
//! The arguments are made into those of `strongroom mount`.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// What mount(8) takes for a wrong call.
pub(crate) const WRONG_CALL: u8 = 1;
/// What mount(8) takes for a mount that failed.
pub(crate) const MOUNT_FAILED: u8 = 32;

const NAMES: [&str; 2] = ["mount.strongroom", "mount.fuse.strongroom"];

/// Whether the program was called by this name.
pub(crate) fn is_called(program: &OsStr) -> bool {
    let name = Path::new(program).file_name().and_then(OsStr::to_str);
    name.is_some_and(|name| NAMES.contains(&name))
}

/// The command line that means the same: `[-sfnv] [-N NAMESPACE] [-o OPTIONS] [-t TYPE]`, and what to
/// mount where. None if there is nothing to do.
pub(crate) fn command_line(
    args: impl Iterator<Item = OsString>,
) -> Result<Option<Vec<OsString>>, String> {
    let mut line: Vec<OsString> = ["strongroom", "mount"].map(OsString::from).into();
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
                let options: Vec<&str> = options.split(',').filter(|o| !is_fuses(o)).collect();
                line.extend(["-o", &options.join(",")].map(OsString::from));
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
        .map_err(|_| "name a dataset and a directory, as mount(8) does")?;
    line.extend([OsString::from("--"), name]);
    if !is_remount {
        line.push(dir);
    }
    Ok((!is_fake).then_some(line))
}

/// Whether an option is one that the kernel lists of every FUSE mount, and mount(8) repeats.
fn is_fuses(option: &str) -> bool {
    let name = option.split('=').next();
    let names = [
        "user_id",
        "group_id",
        "default_permissions",
        "allow_other",
        "max_read",
    ];
    name.is_some_and(|name| names.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Result<Option<String>, String> {
        let args = text.split(' ').map(OsString::from);
        let joined = |line: Vec<OsString>| line.join(OsStr::new(" ")).into_string().unwrap();
        Ok(command_line(args)?.map(joined))
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
    fn names_that_mount_calls() {
        assert!(is_called(OsStr::new("/sbin/mount.strongroom")));
        assert!(is_called(OsStr::new("mount.fuse.strongroom")));
        assert!(!is_called(OsStr::new("/usr/bin/strongroom")) && !is_called(OsStr::new("")));
    }
}
