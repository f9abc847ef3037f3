//! Carries out a request by one call of the file system.

use std::ops::Range;

use vfs::{
    Attr, Caller, Error, FileSystem, Ino, Kind, ReadPieces, RenameMode, Seek, SetAttr, SetXattr,
    Trust,
};
use zerocopy::{Immutable, IntoBytes};

use crate::dispatch::caller::CallerRights;
use crate::dispatch::delayed_reply::{DelayedOperation, Later, skips};
use crate::dispatch::direct::DirectFiles;
use crate::dispatch::inode_limit::Crowd;
use crate::dispatch::ioctl::{self, FlagRequest};
use crate::options::{KernelCache, OpenReports};
use crate::wire::abi::{self, fopen};
use crate::wire::convert::{self, Valid};
use crate::wire::directory::DirectoryPage;
use crate::wire::errno::Errno;
use crate::wire::request::{FuseOperation, Request};

#[derive(Debug)]
pub(crate) enum ReplyContent {
    /// The bytes in the output buffer, possibly none.
    Output,
    /// The bytes in the output buffer. The kernel then drops what it was told about the contents of the inode.
    Unkept,
    /// The bytes in the output buffer. The kernel then drops the attributes of this inode. Otherwise it would not ask
    /// for the mode, and could let a program run with lost privileges.
    Changed(Ino),
    /// Contents of a file, up to so many bytes.
    Pieces(ReadPieces, usize),
    /// The kernel expects no answer, or another thread sends it.
    Silence,
}

type Result<T> = std::result::Result<T, Errno>;

/// A file system behind a mount.
pub(crate) struct Dispatcher<'a> {
    pub(crate) fs: &'a dyn FileSystem,
    /// Has a request answered by another thread.
    pub(crate) later: &'a dyn Fn(Later),
    pub(crate) hears: OpenReports,
    pub(crate) kernel_cache: KernelCache,
    /// Open files, if the kernel is to keep no contents.
    pub(crate) direct: Option<&'a DirectFiles>,
    /// The inodes that the kernel knows, if their number is limited.
    pub(crate) crowd: Option<&'a Crowd>,
}

impl Dispatcher<'_> {
    /// Carries out a request. `out` is empty, and holds the answer if that is [`ReplyContent::Output`].
    pub(crate) fn serve(&self, request: &Request<'_>, out: &mut Vec<u8>) -> Result<ReplyContent> {
        let fs = self.fs;
        let ino = request.header.nodeid;
        let caller = Caller {
            uid: request.header.uid,
            gid: request.header.gid,
        };
        match request.op {
            FuseOperation::Lookup { name } => match fs.lookup(ino, name) {
                Ok(attr) => put(out, &self.entry(ino, name, &attr)),
                // Put like this, the kernel keeps it.
                Err(Error::NotFound) if self.valid(ino) == Valid::LONG => {
                    put(out, &convert::no_entry())
                }
                Err(error) => return Err(error.into()),
            },
            FuseOperation::Forget { count } => {
                self.forget(ino, count);
                return Ok(ReplyContent::Silence);
            }
            FuseOperation::BatchForget(forgets) => {
                forgets
                    .iter()
                    .for_each(|(ino, count)| self.forget(ino, count));
                return Ok(ReplyContent::Silence);
            }
            FuseOperation::Getattr => {
                let attr = fs.getattr(ino)?;
                put(out, &convert::attr_out(&attr, self.valid_attr(&attr)));
            }
            FuseOperation::Statx => {
                // Where there are no flags, none are set.
                let flags = fs.flags(ino).unwrap_or_default();
                let attr = fs.getattr(ino)?;
                put(out, &convert::statx(&attr, flags, self.valid_attr(&attr)));
            }
            FuseOperation::Setattr(ref args) => {
                let set = convert::set_attr(args);
                let attr = fs.setattr(&caller, ino, &set)?;
                put(out, &convert::attr_out(&attr, self.valid_attr(&attr)));
            }
            FuseOperation::Readlink => out.extend_from_slice(&fs.readlink(ino)?),
            FuseOperation::Symlink { name, target } => {
                let attr = fs.symlink(&caller, ino, name, target)?;
                put(out, &self.entry(ino, name, &attr));
            }
            FuseOperation::Mknod { args, name } => {
                let node = convert::new_node(args.mode, args.umask, args.rdev);
                let node = node.ok_or(Errno::INVALID)?;
                let attr = fs.mknod(&caller, ino, name, &node)?;
                put(out, &self.entry(ino, name, &attr));
            }
            FuseOperation::Mkdir { args, name } => {
                let node = convert::node(Kind::Directory, args.mode, args.umask, 0);
                let attr = fs.mkdir(&caller, ino, name, &node)?;
                put(out, &self.entry(ino, name, &attr));
            }
            FuseOperation::Unlink { name } => fs.unlink(ino, name)?,
            FuseOperation::Rmdir { name } => fs.rmdir(ino, name)?,
            FuseOperation::Rename {
                new_parent,
                flags,
                name,
                new_name,
            } => {
                let mode = convert::rename_mode(flags, caller).ok_or(Errno::INVALID)?;
                fs.rename(ino, name, new_parent, new_name, mode)?;
                self.is_renamed(new_parent, new_name);
                if matches!(mode, RenameMode::Exchange | RenameMode::Whiteout(_)) {
                    self.is_renamed(ino, name);
                }
            }
            FuseOperation::Link { ino: target, name } => {
                put(out, &self.entry(ino, name, &fs.link(target, ino, name)?));
            }
            FuseOperation::Create { args, name } => {
                let node = convert::node(Kind::File, args.mode, args.umask, 0);
                let attr = fs.create(&caller, ino, name, &node)?;
                self.put_created(ino, name, &attr, out)?;
            }
            FuseOperation::Tmpfile { args } => {
                let node = convert::node(Kind::File, args.mode, args.umask, 0);
                let attr = fs.tmpfile(&caller, ino, &node)?;
                self.put_created(ino, b"", &attr, out)?;
            }
            FuseOperation::Read { offset, len, flags } => {
                let read = || fs.read(ino, offset, len);
                let pieces = match self.direct {
                    Some(direct) if flags & abi::READ_LOCKOWNER == 0 => {
                        direct.fill(ino, span(offset, len.into()), read)?
                    }
                    _ => read()?,
                };
                return Ok(ReplyContent::Pieces(pieces, len as usize));
            }
            FuseOperation::Write {
                offset,
                flags,
                open_flags,
                data,
            } => {
                let kill_suidgid = flags & abi::WRITE_KILL_SUIDGID != 0;
                let loses = kill_suidgid && has_suidgid(&fs.owner(ino)?);
                let is_beside_pages = self.write(ino, offset, data, flags)?;
                // The kernel leaves it to the server where writes do not go through its cache.
                let sync = convert::sync_of(open_flags);
                let synced = sync.map_or(Ok(()), |datasync| fs.fsync(ino, datasync));
                if is_beside_pages {
                    // The kernel drops the mode with the pages.
                    let what = DelayedOperation::Write {
                        offset,
                        len: data.len() as u32,
                        failed: synced.err(),
                    };
                    return Ok(self.answer_later(request, what));
                }
                synced?;
                put_written(out, data.len() as u64);
                if loses {
                    return Ok(ReplyContent::Changed(ino));
                }
            }
            FuseOperation::Fsync { datasync } => fs.fsync(ino, datasync)?,
            FuseOperation::Syncfs => fs.sync()?,
            FuseOperation::Readdir { cookie, len, plus } => {
                return self.readdir(ino, cookie, len, plus, out);
            }
            FuseOperation::Statfs => put(out, &convert::statfs(&fs.statfs()?)),
            FuseOperation::Setxattr {
                name,
                value,
                flags,
                ext_flags,
            } => {
                let how = SetXattr {
                    create: flags & 1 != 0,
                    replace: flags & 2 != 0,
                    kill_sgid: ext_flags & abi::SETXATTR_ACL_KILL_SGID != 0,
                };
                fs.setxattr(ino, name, value, how)?;
            }
            FuseOperation::Getxattr { name, len } => put_sized(out, &fs.getxattr(ino, name)?, len)?,
            FuseOperation::Listxattr { len } => {
                let names = fs.listxattr(ino)?;
                let mut list = Vec::with_capacity(names.iter().map(|name| name.len() + 1).sum());
                for name in &names {
                    list.extend_from_slice(name);
                    list.push(0);
                }
                put_sized(out, &list, len)?;
            }
            FuseOperation::Removexattr { name } => fs.removexattr(ino, name)?,
            FuseOperation::Fallocate(ref args) => {
                let mode = convert::fallocate(args.mode).ok_or(Errno::NOT_SUPPORTED)?;
                let loses = self.kill_suidgid(&request.header, ino)?;
                fs.fallocate(ino, args.offset, args.length, mode)?;
                if loses {
                    return Ok(ReplyContent::Changed(ino));
                }
            }
            FuseOperation::Ioctl { cmd, data, len } => match ioctl::read(cmd, data)? {
                FlagRequest::Show(form) => ioctl::shown(form, fs.flags(ino)?, len, out),
                FlagRequest::Set(flags) => {
                    ioctl::check(&caller, fs.owner(ino)?.uid, fs.flags(ino)?, flags)?;
                    return Ok(self.answer_later(request, DelayedOperation::Flags(flags)));
                }
            },
            FuseOperation::Lseek { offset, whence } => {
                let what = convert::seek(whence).ok_or(Errno::INVALID)?;
                let found = fs.seek(ino, offset, what);
                if what == Seek::Data
                    && let Some(found) = skips(offset, &found)
                {
                    return Ok(self.answer_later(request, DelayedOperation::Data { offset, found }));
                }
                put(out, &abi::LseekOut { offset: found? });
            }
            FuseOperation::CopyFileRange { ref args, wide } => {
                let to = args.nodeid_out;
                let loses = self.kill_suidgid(&request.header, to)?;
                self.copy_range(ino, args, wide, out)?;
                if loses {
                    return Ok(ReplyContent::Changed(to));
                }
            }
            // Files and directories that were opened by being created are released.
            FuseOperation::Release if self.hears > OpenReports::Neither => {
                self.fs.released(ino);
                self.crowd.inspect(|crowd| crowd.released(ino));
                if self.direct.is_some_and(|direct| direct.released(ino)) {
                    self.answer_later(request, DelayedOperation::Closed);
                }
            }
            FuseOperation::Release | FuseOperation::Releasedir | FuseOperation::Destroy => {}
            FuseOperation::NotifyReply => return Ok(ReplyContent::Silence),
            FuseOperation::Open if self.hears > OpenReports::Neither => {
                self.fs.opened(ino, false)?;
                self.crowd.inspect(|crowd| crowd.opened(ino));
                let keeps = self.hears == OpenReports::OpensAndKeeps;
                self.put_opened(ino, if keeps { fopen::KEEP_CACHE } else { 0 }, out);
            }
            // The kernel keeps no listing then.
            FuseOperation::Opendir if self.kernel_cache == KernelCache::Names => {
                put(out, &abi::OpenOut::default())
            }
            FuseOperation::Flush if self.hears == OpenReports::OpensAndCloses => {
                self.fs.flush(ino)?
            }
            // Refusing these once makes the kernel do without them. Opening and closing cost no request, the kernel
            // checks permissions, and interrupts are not sent.
            FuseOperation::Open
            | FuseOperation::Opendir
            | FuseOperation::Flush
            | FuseOperation::Access
            | FuseOperation::Interrupt => {
                return Err(Errno::NOT_IMPLEMENTED);
            }
            FuseOperation::Init { .. } | FuseOperation::Unknown => {
                return Err(Errno::NOT_IMPLEMENTED);
            }
        }
        Ok(ReplyContent::Output)
    }

    fn readdir(
        &self,
        ino: u64,
        cookie: u64,
        len: u32,
        plus: bool,
        out: &mut Vec<u8>,
    ) -> Result<ReplyContent> {
        let entry = |name: &[u8], attr: &Attr| self.entry(ino, name, attr);
        let mut page = DirectoryPage::new(out, len as usize, plus.then_some(&entry));
        let listed = self
            .fs
            .readdir(ino, cookie, plus, &mut |entry| page.push(entry));
        match listed {
            // An accepted entry is counted as looked up, so the kernel must see it. The error comes again when it
            // asks for more.
            Err(error) if page.is_empty() => Err(error.into()),
            // The kernel keeps listings, since opening a directory asks nothing. It does so from the moment it is
            // told of the end, with the entries so far. So a listing that may be another one next time is dropped at
            // this moment.
            Ok(()) if page.is_empty() && self.valid(ino) != Valid::LONG => Ok(ReplyContent::Unkept),
            _ => Ok(ReplyContent::Output),
        }
    }

    /// Returns the time for which the kernel may trust the names in `ino`. The same time applies to its attributes,
    /// unless they say otherwise.
    fn valid(&self, ino: Ino) -> Valid {
        valid_by(self.fs.trust(ino))
    }

    /// Returns the time for which the kernel may trust these attributes.
    fn valid_attr(&self, found: &Attr) -> Valid {
        match found.is_passing {
            true => Valid::ONCE,
            false => self.valid(found.ino),
        }
    }

    /// The kernel gives lookups back.
    fn forget(&self, ino: Ino, count: u64) {
        self.fs.forget(ino, count);
        self.crowd.inspect(|crowd| crowd.forget(ino, count));
    }

    /// Notes that an entry has got this name.
    fn is_renamed(&self, parent: Ino, name: &[u8]) {
        if let Some(crowd) = self.crowd
            && let Ok(found) = self.fs.lookup(parent, name)
        {
            crowd.renamed(parent, name, &found);
            self.fs.forget(found.ino, 1);
        }
    }

    /// The answer to a lookup in `parent`.
    fn entry(&self, parent: Ino, name: &[u8], found: &Attr) -> abi::EntryOut {
        if let Some(crowd) = self.crowd {
            crowd.enter(parent, name, found);
        }
        abi::EntryOut {
            // The kernel gives the root 0, and some give up a file system that says otherwise.
            generation: match found.ino {
                vfs::ROOT => 0,
                _ => self.fs.generation(found),
            },
            ..convert::entry(
                found,
                self.valid_name(parent, found),
                self.valid_attr(found),
            )
        }
    }

    /// Returns the time for which the kernel may trust that this name stands for this inode.
    fn valid_name(&self, parent: Ino, found: &Attr) -> Valid {
        match self.fs.trust(parent) {
            Trust::BriefAttributes if found.kind != Kind::Directory => Valid::ONCE,
            trust => valid_by(trust),
        }
    }

    /// Writes, and returns whether the kernel has pages of the file that may lack the bytes.
    fn write(&self, ino: Ino, offset: u64, data: &[u8], flags: u32) -> Result<bool> {
        let kill_suidgid = flags & abi::WRITE_KILL_SUIDGID != 0;
        let write = |offset, data: &[u8]| self.fs.write(ino, offset, data, kill_suidgid);
        let bytes = span(offset, data.len() as u64);
        let Some(direct) = self.direct else {
            write(offset, data)?;
            return Ok(false);
        };
        if flags & abi::WRITE_CACHE == 0 {
            return Ok(direct.write(ino, bytes, || write(offset, data))?);
        }
        direct.write_back(ino, bytes, |part| {
            // Parts of the data, so this is within it.
            let [from, to] = [part.start, part.end].map(|at| (at - offset) as usize);
            write(part.start, &data[from..to])
        })?;
        Ok(false)
    }

    /// Has another thread answer a request.
    fn answer_later(&self, request: &Request<'_>, what: DelayedOperation) -> ReplyContent {
        (self.later)(Later {
            unique: request.header.unique,
            ino: request.header.nodeid,
            what,
        });
        ReplyContent::Silence
    }

    /// A file that was opened by being made is like those that are opened without a word.
    fn put_created(&self, parent: Ino, name: &[u8], made: &Attr, out: &mut Vec<u8>) -> Result<()> {
        if self.hears > OpenReports::Neither {
            let opened = self.fs.opened(made.ino, true);
            opened.inspect_err(|_| self.fs.forget(made.ino, 1))?;
        }
        put(out, &self.entry(parent, name, made));
        if self.hears > OpenReports::Neither {
            self.crowd.inspect(|crowd| crowd.opened(made.ino));
        }
        self.put_opened(made.ino, fopen::KEEP_CACHE, out);
        Ok(())
    }

    /// The answer for an opened file, with these flags if the kernel keeps contents.
    fn put_opened(&self, ino: Ino, open_flags: u32, out: &mut Vec<u8>) {
        self.direct.inspect(|direct| direct.opened(ino));
        let open_flags = match self.direct {
            Some(_) => fopen::DIRECT_IO,
            None => open_flags,
        };
        let opened = abi::OpenOut {
            open_flags,
            ..Default::default()
        };
        put(out, &opened);
    }

    /// Takes set-user-ID and set-group-ID bits from a file that an unprivileged process is about to change,
    /// where the kernel leaves this to us. Returns whether there were any.
    fn kill_suidgid(&self, header: &abi::InHeader, ino: Ino) -> Result<bool> {
        let attr = self.fs.owner(ino)?;
        if !has_suidgid(&attr) {
            return Ok(false);
        }
        let rights = CallerRights::of(header.pid);
        if rights.fsetid {
            return Ok(false);
        }
        let is_in_group = rights.is_in(attr.gid) && attr.mode & 0o010 == 0;
        let lost = if is_in_group { 0o4000 } else { 0o6000 };
        let set = SetAttr {
            mode: Some(attr.mode & !lost),
            ..SetAttr::default()
        };
        let caller = Caller {
            uid: header.uid,
            gid: header.gid,
        };
        self.fs.setattr(&caller, ino, &set)?;
        Ok(true)
    }

    fn copy_range(
        &self,
        from: u64,
        args: &abi::CopyFileRangeIn,
        wide: bool,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        if args.flags != 0 {
            return Err(Errno::INVALID);
        }
        // The narrow answer has 32 bits.
        let len = if wide {
            args.len
        } else {
            args.len.min(u64::from(u32::MAX) & !0xfff)
        };
        let (to, to_offset) = (args.nodeid_out, args.off_out);
        let copied = self.fs.copy_range(from, args.off_in, to, to_offset, len)?;
        let copied = copied.min(len);
        if wide {
            put(
                out,
                &abi::CopyFileRangeOut {
                    bytes_copied: copied,
                },
            );
        } else {
            put_written(out, copied);
        }
        Ok(())
    }
}

/// Returns whether a process that runs the file gets the rights of its owner or group.
fn has_suidgid(attr: &Attr) -> bool {
    attr.kind == Kind::File && attr.mode & 0o6000 != 0
}

fn put<T: IntoBytes + Immutable>(out: &mut Vec<u8>, value: &T) {
    out.extend_from_slice(value.as_bytes());
}

fn put_written(out: &mut Vec<u8>, len: u64) {
    // Both callers hold at most what 32 bits can say.
    let size = u32::try_from(len).unwrap_or(u32::MAX);
    put(out, &abi::WriteOut { size, padding: 0 });
}

/// An xattr answer: its size if that is asked for, else the value if there is space for it.
fn put_sized(out: &mut Vec<u8>, value: &[u8], size_max: u32) -> Result<()> {
    let size = u32::try_from(value.len()).map_err(|_| Errno::RANGE)?;
    match size_max {
        0 => put(out, &abi::GetxattrOut { size, padding: 0 }),
        size_max if size > size_max => return Err(Errno::RANGE),
        _ => out.extend_from_slice(value),
    }
    Ok(())
}

/// Returns the range of `len` bytes at `offset`. Offsets end before 2^63.
fn span(offset: u64, len: u64) -> Range<u64> {
    offset..offset.saturating_add(len)
}

fn valid_by(trust: Trust) -> Valid {
    match trust {
        Trust::Lasting => Valid::LONG,
        Trust::Brief | Trust::BriefAttributes => Valid::SHORT,
        Trust::Once => Valid::ONCE,
    }
}
