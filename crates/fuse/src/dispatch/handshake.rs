//! The first exchange with the kernel: the features that it has, and those that this crate uses.
//!
//! The choice follows from one fact: every change of a mounted file system goes through its mount. The kernel may
//! therefore keep names, attributes, contents and listings without a limit of time. It may gather writes if asked to,
//! and need not report when files are opened and closed. `AUTO_INVAL_DATA` would drop contents without need and is
//! left out. Locks stay in the kernel. Where the file system says otherwise (`FileSystem::trust`), each answer says
//! so.
//!
//! Asynchronous direct I/O (`ASYNC_DIO`) is left out too. The kernel drops its pages of a file before such a write,
//! and not once more after it. A buffered read in between would leave old contents in its cache for good.
//!
//! Direct I/O that no program asked for (`FOPEN_DIRECT_IO`, `DIRECT_IO_ALLOW_MMAP`) is for mounts whose contents the
//! kernel is not to keep. `direct` keeps the writes beside mappings, which such a mount would lose otherwise.

use std::os::fd::BorrowedFd;

use zerocopy::IntoBytes;

use crate::error::Error;
use crate::options::{KernelCache, Options};
use crate::wire::abi::{self, init};
use crate::wire::buffer::{MAX_PAGES, MAX_WRITE, RequestBuffer};
use crate::wire::reply::Replier;
use crate::wire::request::{FuseOperation, Request};

/// The number of read-ahead and write-back requests that the kernel may have under way.
const MAX_BACKGROUND: u16 = 64;
/// From here on the kernel holds optional ones back.
const CONGESTION: u16 = 48;
/// `EPROTO`
const EPROTO: i32 = 71;

/// The features that the kernel has and this crate wants.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KernelFeatures {
    flags: u64,
}

impl KernelFeatures {
    /// Returns whether `SETXATTR` has its longer arguments.
    pub(crate) fn setxattr_ext(self) -> bool {
        self.flags & init::SETXATTR_EXT != 0
    }
}

/// Answers the kernel's `INIT`, which is there as soon as the file system is mounted.
pub(crate) fn shake(
    device: BorrowedFd<'_>,
    options: &Options,
    buffer: &mut RequestBuffer,
) -> Result<KernelFeatures, Error> {
    loop {
        let bytes = buffer.read(device).map_err(Error::Device)?;
        let Ok(request) = Request::parse(bytes, false) else {
            return Err(Error::Protocol("the first request cannot be read"));
        };
        let replier = Replier::new(device, request.header.unique);
        let FuseOperation::Init { version, flags } = request.op else {
            replier.error(EPROTO);
            return Err(Error::Protocol("the first request is not INIT"));
        };
        if version.0 > abi::MAJOR {
            // The kernel asks again, with the version named here.
            let ours = abi::InitOut {
                major: abi::MAJOR,
                ..Default::default()
            };
            replier.bytes(ours.as_bytes());
            continue;
        }
        if version < (abi::MAJOR, abi::MINOR_MIN) {
            replier.error(EPROTO);
            return Err(Error::Protocol(
                "the kernel is too old: it has to be 5.4 or later",
            ));
        }
        let flags = flags & wanted(options);
        replier.bytes(answer(version.1, flags, options).as_bytes());
        tracing::debug!(
            minor = version.1,
            flags = format_args!("{flags:#x}"),
            "session begins"
        );
        return Ok(KernelFeatures { flags });
    }
}

fn wanted(options: &Options) -> u64 {
    let gathers = options.writeback_cache && options.kernel_cache == KernelCache::All;
    let writes = if gathers { init::WRITEBACK_CACHE } else { 0 };
    let cache = match options.kernel_cache {
        KernelCache::All => init::CACHE_SYMLINKS,
        KernelCache::Metadata => init::CACHE_SYMLINKS | init::DIRECT_IO_ALLOW_MMAP,
        KernelCache::Names => init::DIRECT_IO_ALLOW_MMAP,
    };
    // An inode number may be used again, and there may be no generations. A handle kept by an NFS client could open
    // another file.
    let handles = match options.lasting_handles {
        true => init::EXPORT_SUPPORT,
        false => init::NO_EXPORT_SUPPORT,
    };
    let owners = match options.idmapped {
        true => init::ALLOW_IDMAP,
        false => 0,
    };
    cache
        | writes
        | handles
        | owners
        | init::ASYNC_READ
        | init::BIG_WRITES
        // Which umask applies depends on the default ACL of the directory, which is ours to know.
        | init::DONT_MASK
        | init::DO_READDIRPLUS
        | init::READDIRPLUS_AUTO
        | init::NO_OPEN_SUPPORT
        | init::NO_OPENDIR_SUPPORT
        | init::PARALLEL_DIROPS
        | init::POSIX_ACL
        | init::ABORT_ERROR
        | init::MAX_PAGES
        | init::EXPLICIT_INVAL_DATA
        | init::HANDLE_KILLPRIV_V2
        | init::SETXATTR_EXT
        | init::INIT_EXT
}

fn answer(minor: u32, flags: u64, options: &Options) -> abi::InitOut {
    abi::InitOut {
        major: abi::MAJOR,
        minor: minor.min(abi::MINOR),
        max_readahead: options.ahead(),
        // The lower and the upper word.
        flags: flags as u32,
        flags2: (flags >> 32) as u32,
        max_background: MAX_BACKGROUND,
        congestion_threshold: CONGESTION,
        max_write: MAX_WRITE,
        time_gran: 1,
        max_pages: MAX_PAGES,
        ..Default::default()
    }
}
