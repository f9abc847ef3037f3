//! Options of a mount on the command line, as words.

use protocol::api::AccessTimes;

/// An option of a mount. `true` stands for the option, `false` for its opposite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountOption {
    /// The mount refuses writes.
    ReadOnly(bool),
    /// Files may be executed.
    Exec(bool),
    /// Bits set-user-ID and set-group-ID count.
    Setuid(bool),
    /// Device files work.
    Devices(bool),
    /// Reads set times of access.
    AccessTimes(AccessTimes),
    /// Reads set times of access of directories.
    DirectoryTimes(bool),
    /// The options are for a file system that is mounted.
    Remount,
    /// A stacked directory keeps an index of names where only a listing finds them.
    NameIndex(bool),
    /// The option is for other programs, such as `mount -a` and systemd.
    Ignored,
}

/// Reads an option.
pub fn mount_option(text: &str) -> Result<MountOption, String> {
    Ok(match text {
        "ro" | "readonly=on" => MountOption::ReadOnly(true),
        "rw" | "readonly=off" => MountOption::ReadOnly(false),
        "exec" | "exec=on" => MountOption::Exec(true),
        "noexec" | "exec=off" => MountOption::Exec(false),
        "suid" | "setuid=on" => MountOption::Setuid(true),
        "nosuid" | "setuid=off" => MountOption::Setuid(false),
        "dev" | "devices=on" => MountOption::Devices(true),
        "nodev" | "devices=off" => MountOption::Devices(false),
        "noatime" | "atime=off" => MountOption::AccessTimes(AccessTimes::Never),
        "atime" | "relatime" => MountOption::AccessTimes(AccessTimes::Relative),
        "strictatime" => MountOption::AccessTimes(AccessTimes::Always),
        "diratime" => MountOption::DirectoryTimes(true),
        "nodiratime" => MountOption::DirectoryTimes(false),
        "remount" => MountOption::Remount,
        other if is_ignored(other) => MountOption::Ignored,
        _ => {
            return Err(
                "options are ro, rw, [no]exec, [no]suid, [no]dev, noatime, relatime, \
                        strictatime, [no]diratime and remount"
                    .into(),
            );
        }
    })
}

/// Reads an option of a stacked directory.
pub fn stack_option(text: &str) -> Result<MountOption, String> {
    match text {
        "dircache" => Ok(MountOption::NameIndex(true)),
        "nodircache" => Ok(MountOption::NameIndex(false)),
        other => mount_option(other).map_err(|known| format!("{known}; of pefs, [no]dircache")),
    }
}

impl MountOption {
    /// A word that means the same; none for what has no effect.
    pub fn word(self) -> Option<&'static str> {
        let either = |is: bool, yes, no| Some(if is { yes } else { no });
        match self {
            MountOption::ReadOnly(is) => either(is, "ro", "rw"),
            MountOption::Exec(is) => either(is, "exec", "noexec"),
            MountOption::Setuid(is) => either(is, "suid", "nosuid"),
            MountOption::Devices(is) => either(is, "dev", "nodev"),
            MountOption::AccessTimes(AccessTimes::Never) => Some("noatime"),
            MountOption::AccessTimes(AccessTimes::Relative) => Some("relatime"),
            MountOption::AccessTimes(AccessTimes::Always) => Some("strictatime"),
            MountOption::DirectoryTimes(is) => either(is, "diratime", "nodiratime"),
            MountOption::Remount => Some("remount"),
            MountOption::NameIndex(is) => either(is, "dircache", "nodircache"),
            MountOption::Ignored => None,
        }
    }
}

/// Returns whether an option of fstab is not for the file system.
fn is_ignored(option: &str) -> bool {
    let words = [
        "defaults", "auto", "noauto", "nofail", "_netdev", "async", "nouser",
    ];
    words.contains(&option) || option.starts_with("x-") || option.starts_with("comment=")
}
