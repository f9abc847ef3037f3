//! Requests of `ioctl`: the flags that `chattr` sets.
//!
//! Since Linux 5.13 the kernel itself asks for the flags and sets them. It checks before who may: the owner, and for
//! the immutable and append-only flags a process with `CAP_LINUX_IMMUTABLE`. Older kernels pass on the request of a
//! program, so the same is checked here as well. A request names a user and no capabilities: root stands for those
//! who have them.
//!
//! The kernel translates the numbers that a program of 32 bits uses. Sent by one of 64 bits they arrive unchecked, and
//! without a user on idmapped mounts: they are refused.

use vfs::{Caller, FileFlags};
use zerocopy::{FromBytes, IntoBytes};

use crate::wire::abi::{self, ioctl};
use crate::wire::convert::UNKNOWN_ID;
use crate::wire::errno::Errno;

/// A request of a program for the flags of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlagRequest {
    Show(FlagFormat),
    Set(FileFlags),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlagFormat {
    /// A number.
    Number,
    /// A part of `struct fsxattr`.
    Xattr,
}

/// Flags of `FS_IOC_GETFLAGS`, and those of `struct fsxattr`.
const IMMUTABLE: [u32; 2] = [0x10, 0x8];
const APPEND_ONLY: [u32; 2] = [0x20, 0x10];
const NO_DUMP: [u32; 2] = [0x40, 0x80];

/// Reads a request.
///
/// # Errors
/// `EOPNOTSUPP` for flags that there are not and for discarding free space, `ENOTTY` for another request.
pub(crate) fn read(cmd: u32, data: &[u8]) -> Result<FlagRequest, Errno> {
    Ok(match cmd {
        ioctl::GETFLAGS => FlagRequest::Show(FlagFormat::Number),
        ioctl::FSGETXATTR => FlagRequest::Show(FlagFormat::Xattr),
        ioctl::SETFLAGS => {
            // The kernel sends 4 bytes of them, a program 4 or 8.
            let (bits, rest) = u32::read_from_prefix(data).map_err(|_| Errno::INVALID)?;
            if rest.iter().any(|byte| *byte != 0) {
                return Err(Errno::NOT_SUPPORTED);
            }
            FlagRequest::Set(flags_of(FlagFormat::Number, bits)?)
        }
        ioctl::FSSETXATTR => {
            let xattr = abi::FsXattr::read_from_bytes(data).map_err(|_| Errno::INVALID)?;
            // There are no projects, and no sizes of extents to ask for. How many extents there are is no question.
            if xattr.extsize != 0 || xattr.projid != 0 || xattr.cowextsize != 0 {
                return Err(Errno::NOT_SUPPORTED);
            }
            FlagRequest::Set(flags_of(FlagFormat::Xattr, xattr.xflags)?)
        }
        ioctl::FITRIM => return Err(Errno::NOT_SUPPORTED),
        _ => return Err(Errno::NO_SUCH_IOCTL),
    })
}

fn flags_of(form: FlagFormat, bits: u32) -> Result<FileFlags, Errno> {
    let [immutable, append_only, no_dump] =
        [IMMUTABLE, APPEND_ONLY, NO_DUMP].map(|bit| bit[form as usize]);
    if bits & !(immutable | append_only | no_dump) != 0 {
        return Err(Errno::NOT_SUPPORTED);
    }
    Ok(FileFlags {
        immutable: bits & immutable != 0,
        append_only: bits & append_only != 0,
        no_dump: bits & no_dump != 0,
    })
}

/// The answer to a program that wants to see flags, of up to `len` bytes.
pub(crate) fn shown(form: FlagFormat, flags: FileFlags, len: u32, out: &mut Vec<u8>) {
    let all = [
        (IMMUTABLE, flags.immutable),
        (APPEND_ONLY, flags.append_only),
        (NO_DUMP, flags.no_dump),
    ];
    let bits = all.into_iter().filter(|(_, is_set)| *is_set);
    let bits = bits.fold(0, |bits, (bit, _)| bits | bit[form as usize]);
    let xattr = abi::FsXattr {
        xflags: bits,
        ..Default::default()
    };
    out.extend_from_slice(abi::IoctlOut::default().as_bytes());
    let head = out.len();
    match form {
        FlagFormat::Number => out.extend_from_slice(u64::from(bits).as_bytes()),
        FlagFormat::Xattr => out.extend_from_slice(xattr.as_bytes()),
    }
    out.truncate(head + len as usize);
}

/// Returns whether a caller may change flags of an inode of `owner`.
///
/// # Errors
/// `EPERM`
pub(crate) fn check(
    caller: &Caller,
    owner: u32,
    now: FileFlags,
    wanted: FileFlags,
) -> Result<(), Errno> {
    let binds = |flags: FileFlags| (flags.immutable, flags.append_only);
    let may = match caller.uid {
        // The kernel leaves the user out where it has checked.
        0 | UNKNOWN_ID => true,
        uid => uid == owner && binds(now) == binds(wanted),
    };
    may.then_some(()).ok_or(Errno::NOT_PERMITTED)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: FileFlags = FileFlags {
        immutable: true,
        append_only: true,
        no_dump: true,
    };

    /// The bytes are those of a kernel of 64 bits.
    #[test]
    fn both_forms_of_flags_are_read_and_shown() {
        let asked = read(ioctl::SETFLAGS, &[0x70, 0, 0, 0]).unwrap();
        assert_eq!(asked, FlagRequest::Set(ALL));
        assert_eq!(
            read(ioctl::SETFLAGS, &[0x70, 0, 0, 0, 0, 0, 0, 0]).unwrap(),
            asked
        );
        let mut xattr = [0; 28];
        xattr[0] = 0x98;
        assert_eq!(read(ioctl::FSSETXATTR, &xattr).unwrap(), asked);
        for (form, len) in [
            (FlagFormat::Number, 4),
            (FlagFormat::Number, 8),
            (FlagFormat::Xattr, 28),
        ] {
            let mut out = Vec::new();
            shown(form, ALL, len, &mut out);
            let first = if form == FlagFormat::Number {
                0x70
            } else {
                0x98
            };
            assert_eq!((out.len(), out[16]), (16 + len as usize, first));
        }
    }

    #[test]
    fn what_there_is_not_is_refused() {
        let not_supported =
            |cmd, data: &[u8]| assert_eq!(read(cmd, data), Err(Errno::NOT_SUPPORTED));
        // No compression, no journal, no flag above 32 bits, no project.
        not_supported(ioctl::SETFLAGS, &[4, 0, 0, 0]);
        not_supported(ioctl::SETFLAGS, &[0, 0x40, 0, 0]);
        not_supported(ioctl::SETFLAGS, &[0, 0, 0, 0, 1, 0, 0, 0]);
        let mut xattr = [0; 28];
        xattr[12] = 1;
        not_supported(ioctl::FSSETXATTR, &xattr);
        not_supported(ioctl::FITRIM, &[0; 24]);
        assert_eq!(read(ioctl::SETFLAGS, &[4, 0]), Err(Errno::INVALID));
        assert_eq!(read(ioctl::FSSETXATTR, &xattr[1..]), Err(Errno::INVALID));
        assert_eq!(read(0x5401, &[]), Err(Errno::NO_SUCH_IOCTL));
        // `FS_IOC32_GETFLAGS` and `FS_IOC32_SETFLAGS`.
        assert_eq!(read(0x8004_6601, &[]), Err(Errno::NO_SUCH_IOCTL));
        assert_eq!(read(0x4004_6602, &[0; 4]), Err(Errno::NO_SUCH_IOCTL));
    }

    #[test]
    fn only_root_sets_what_binds_root() {
        let (ann, none) = (1000, FileFlags::default());
        let no_dump = FileFlags {
            no_dump: true,
            ..none
        };
        let may = |uid, now, wanted| check(&Caller { uid, gid: 0 }, ann, now, wanted).is_ok();
        assert!(may(ann, none, no_dump) && !may(1001, none, no_dump));
        assert!(!may(ann, none, ALL) && !may(ann, ALL, no_dump));
        assert!(may(0, none, ALL) && may(UNKNOWN_ID, none, ALL));
    }
}
