//! Reading a request: from bytes to a [`FuseOperation`], for any bytes.
//!
//! The bytes come from the kernel, which is trusted. This code still checks everything: a newer protocol, or a bug
//! here, must cost one failed system call and not the mount. The result is a request or [`MalformedRequest`] in each
//! case. Nothing panics, nothing is allocated, and names and payloads stay where they were read.

use zerocopy::FromBytes;

use crate::wire::abi::{self, op};

/// A request of the kernel.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    /// The caller, the operation, and the inode that it is about.
    pub(crate) header: abi::InHeader,
    pub(crate) op: FuseOperation<'a>,
}

/// A request that could not be read.
#[derive(Debug)]
pub(crate) struct MalformedRequest {
    /// The header, if there is one: then a caller waits for an answer.
    pub(crate) header: Option<abi::InHeader>,
}

/// An operation with its arguments. The inode it is about is `header.nodeid`.
#[derive(Debug)]
pub(crate) enum FuseOperation<'a> {
    Init {
        version: (u32, u32),
        flags: u64,
    },
    Destroy,
    Interrupt,
    Lookup {
        name: &'a [u8],
    },
    Forget {
        count: u64,
    },
    BatchForget(Forgets<'a>),
    Getattr,
    Statx,
    Setattr(abi::SetattrIn),
    Readlink,
    Symlink {
        name: &'a [u8],
        target: &'a [u8],
    },
    Mknod {
        args: abi::MknodIn,
        name: &'a [u8],
    },
    Mkdir {
        args: abi::MkdirIn,
        name: &'a [u8],
    },
    Unlink {
        name: &'a [u8],
    },
    Rmdir {
        name: &'a [u8],
    },
    Rename {
        new_parent: u64,
        flags: u32,
        name: &'a [u8],
        new_name: &'a [u8],
    },
    Link {
        ino: u64,
        name: &'a [u8],
    },
    Create {
        args: abi::CreateIn,
        name: &'a [u8],
    },
    Tmpfile {
        args: abi::CreateIn,
    },
    Open,
    Opendir,
    /// A file is closed for good.
    Release,
    Releasedir,
    Flush,
    Read {
        offset: u64,
        len: u32,
        /// The flags of the kernel, see [`abi::READ_LOCKOWNER`].
        flags: u32,
    },
    Write {
        offset: u64,
        flags: u32,
        /// The flags of the descriptor, and of this write alone.
        open_flags: u32,
        data: &'a [u8],
    },
    Fsync {
        datasync: bool,
    },
    Syncfs,
    Readdir {
        cookie: u64,
        len: u32,
        plus: bool,
    },
    Statfs,
    Access,
    Setxattr {
        name: &'a [u8],
        value: &'a [u8],
        flags: u32,
        ext_flags: u32,
    },
    Getxattr {
        name: &'a [u8],
        len: u32,
    },
    Listxattr {
        len: u32,
    },
    Removexattr {
        name: &'a [u8],
    },
    Fallocate(abi::FallocateIn),
    Ioctl {
        cmd: u32,
        data: &'a [u8],
        /// The longest answer, in bytes.
        len: u32,
    },
    Lseek {
        offset: u64,
        whence: u32,
    },
    CopyFileRange {
        args: abi::CopyFileRangeIn,
        /// The answer has 64 bits.
        wide: bool,
    },
    /// The answer to a [`crate::wire::reply::ping`].
    NotifyReply,
    /// An operation that this crate does not know.
    Unknown,
}

impl<'a> Request<'a> {
    /// Reads the one request in `bytes`. `setxattr_ext` is what the handshake agreed.
    pub(crate) fn parse(
        bytes: &'a [u8],
        setxattr_ext: bool,
    ) -> Result<Request<'a>, MalformedRequest> {
        let Ok((header, _)) = abi::InHeader::read_from_prefix(bytes) else {
            return Err(MalformedRequest { header: None });
        };
        body(bytes, &header)
            .and_then(|body| args(header.opcode, body, setxattr_ext))
            .map(|op| Request { header, op })
            .ok_or(MalformedRequest {
                header: Some(header),
            })
    }
}

/// Returns the bytes between the header and the extensions.
fn body<'a>(bytes: &'a [u8], header: &abi::InHeader) -> Option<&'a [u8]> {
    let extensions = usize::from(header.total_extlen) * 8;
    let end = usize::try_from(header.len).ok()?.checked_sub(extensions)?;
    bytes.get(size_of::<abi::InHeader>()..end)
}

fn args(opcode: u32, body: &[u8], setxattr_ext: bool) -> Option<FuseOperation<'_>> {
    let mut a = Args(body);
    Some(match opcode {
        op::INIT => {
            let init: abi::InitIn = a.take()?;
            // The second word came with 7.36; older kernels end before it.
            let high = match u64::from(init.flags) & abi::init::INIT_EXT {
                0 => 0,
                _ => u64::from(a.take::<abi::InitInExt>()?.flags2) << 32,
            };
            FuseOperation::Init {
                version: (init.major, init.minor),
                flags: u64::from(init.flags) | high,
            }
        }
        op::DESTROY => FuseOperation::Destroy,
        op::INTERRUPT => FuseOperation::Interrupt,
        op::NOTIFY_REPLY => FuseOperation::NotifyReply,
        op::LOOKUP => FuseOperation::Lookup {
            name: a.looked_up()?,
        },
        op::FORGET => FuseOperation::Forget {
            count: a.take::<abi::ForgetIn>()?.nlookup,
        },
        op::BATCH_FORGET => {
            let count = a.take::<abi::BatchForgetIn>()?.count;
            let len = usize::try_from(count)
                .ok()?
                .checked_mul(size_of::<abi::ForgetOne>())?;
            FuseOperation::BatchForget(Forgets(a.bytes(len)?))
        }
        op::GETATTR => FuseOperation::Getattr,
        op::STATX => FuseOperation::Statx,
        op::SETATTR => FuseOperation::Setattr(a.take()?),
        op::READLINK => FuseOperation::Readlink,
        op::SYMLINK => FuseOperation::Symlink {
            name: a.name()?,
            target: a.string()?,
        },
        op::MKNOD => FuseOperation::Mknod {
            args: a.take()?,
            name: a.name()?,
        },
        op::MKDIR => FuseOperation::Mkdir {
            args: a.take()?,
            name: a.name()?,
        },
        op::UNLINK => FuseOperation::Unlink { name: a.name()? },
        op::RMDIR => FuseOperation::Rmdir { name: a.name()? },
        op::RENAME => FuseOperation::Rename {
            new_parent: a.take::<abi::RenameIn>()?.newdir,
            flags: 0,
            name: a.name()?,
            new_name: a.name()?,
        },
        op::RENAME2 => {
            let rename: abi::Rename2In = a.take()?;
            FuseOperation::Rename {
                new_parent: rename.newdir,
                flags: rename.flags,
                name: a.name()?,
                new_name: a.name()?,
            }
        }
        op::LINK => FuseOperation::Link {
            ino: a.take::<abi::LinkIn>()?.oldnodeid,
            name: a.name()?,
        },
        op::CREATE => FuseOperation::Create {
            args: a.take()?,
            name: a.name()?,
        },
        // The name that follows is the kernel's placeholder.
        op::TMPFILE => FuseOperation::Tmpfile { args: a.take()? },
        op::OPEN => FuseOperation::Open,
        op::OPENDIR => FuseOperation::Opendir,
        op::RELEASE => FuseOperation::Release,
        op::RELEASEDIR => FuseOperation::Releasedir,
        op::FLUSH => FuseOperation::Flush,
        op::READ => {
            let read: abi::ReadIn = a.take()?;
            FuseOperation::Read {
                offset: read.offset,
                len: read.size,
                flags: read.read_flags,
            }
        }
        op::WRITE => {
            let write: abi::WriteIn = a.take()?;
            FuseOperation::Write {
                offset: write.offset,
                flags: write.write_flags,
                open_flags: write.flags,
                data: a.bytes(usize::try_from(write.size).ok()?)?,
            }
        }
        op::FSYNC | op::FSYNCDIR => FuseOperation::Fsync {
            datasync: a.take::<abi::FsyncIn>()?.fsync_flags & abi::FSYNC_DATASYNC != 0,
        },
        op::SYNCFS => FuseOperation::Syncfs,
        op::READDIR | op::READDIRPLUS => {
            let read: abi::ReadIn = a.take()?;
            FuseOperation::Readdir {
                cookie: read.offset,
                len: read.size,
                plus: opcode == op::READDIRPLUS,
            }
        }
        op::STATFS => FuseOperation::Statfs,
        op::ACCESS => FuseOperation::Access,
        op::SETXATTR => {
            let (size, flags, ext_flags) = if setxattr_ext {
                let set: abi::SetxattrIn = a.take()?;
                (set.size, set.flags, set.setxattr_flags)
            } else {
                let set: abi::SetxattrInCompat = a.take()?;
                (set.size, set.flags, 0)
            };
            FuseOperation::Setxattr {
                name: a.string()?,
                value: a.bytes(usize::try_from(size).ok()?)?,
                flags,
                ext_flags,
            }
        }
        op::GETXATTR => {
            let get: abi::GetxattrIn = a.take()?;
            FuseOperation::Getxattr {
                name: a.string()?,
                len: get.size,
            }
        }
        op::LISTXATTR => FuseOperation::Listxattr {
            len: a.take::<abi::GetxattrIn>()?.size,
        },
        op::REMOVEXATTR => FuseOperation::Removexattr { name: a.string()? },
        op::FALLOCATE => FuseOperation::Fallocate(a.take()?),
        op::IOCTL => {
            let ioctl: abi::IoctlIn = a.take()?;
            FuseOperation::Ioctl {
                cmd: ioctl.cmd,
                data: a.bytes(usize::try_from(ioctl.in_size).ok()?)?,
                len: ioctl.out_size,
            }
        }
        op::LSEEK => {
            let seek: abi::LseekIn = a.take()?;
            FuseOperation::Lseek {
                offset: seek.offset,
                whence: seek.whence,
            }
        }
        op::COPY_FILE_RANGE | op::COPY_FILE_RANGE_64 => FuseOperation::CopyFileRange {
            args: a.take()?,
            wide: opcode == op::COPY_FILE_RANGE_64,
        },
        _ => FuseOperation::Unknown,
    })
}

/// The arguments that are still to be read.
struct Args<'a>(&'a [u8]);

impl<'a> Args<'a> {
    fn take<T: FromBytes>(&mut self) -> Option<T> {
        let (value, rest) = T::read_from_prefix(self.0).ok()?;
        self.0 = rest;
        Some(value)
    }

    fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(bytes)
    }

    /// A string up to its NUL; never empty.
    fn string(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|&byte| byte == 0)?;
        let string = self.bytes(end)?;
        self.bytes(1)?;
        (!string.is_empty()).then_some(string)
    }

    /// The name of a directory entry, or for a file handle `.` of any inode and `..` of a directory.
    fn looked_up(&mut self) -> Option<&'a [u8]> {
        let name = self.string()?;
        (!name.contains(&b'/')).then_some(name)
    }

    /// The name of a directory entry.
    fn name(&mut self) -> Option<&'a [u8]> {
        let name = self.looked_up()?;
        (name != b"." && name != b"..").then_some(name)
    }
}

/// The inodes of a `BATCH_FORGET`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forgets<'a>(&'a [u8]);

impl<'a> Forgets<'a> {
    /// Each inode, and how many lookups of it are given back.
    pub(crate) fn iter(self) -> impl Iterator<Item = (u64, u64)> + 'a {
        self.0
            .chunks_exact(size_of::<abi::ForgetOne>())
            .filter_map(|one| abi::ForgetOne::read_from_bytes(one).ok())
            .map(|one| (one.nodeid, one.nlookup))
    }
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
