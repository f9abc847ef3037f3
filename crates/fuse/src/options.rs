//! Options of a mount.

use std::num::NonZeroUsize;

/// Requests may wait for disks or a network, so there are more workers than cores. Those that are not needed sleep.
const WORKERS_MIN: usize = 16;
const WORKERS_MAX: usize = 64;
/// A write beside a mapping drops as much as was read at once.
const MAPPED_AHEAD: u32 = 128 << 10;

/// The policy by which reading a file changes its access time.
///
/// The file system sees to that. The kernel shows it in its list of mounts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccessTimePolicy {
    /// Never (`noatime`).
    Never,
    /// Only if it is older than the last change, or a day old (`relatime`).
    #[default]
    Relative,
    /// Each time that a file is opened and read (`strictatime`).
    Always,
}

/// The openings and closings of files that the kernel reports. Each report costs a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OpenReports {
    /// No report: the kernel keeps what it has read.
    Neither,
    /// The kernel reports each opening ([`vfs::FileSystem::opened`], [`vfs::FileSystem::released`]), and keeps what
    /// it has read.
    OpensAndKeeps,
    /// The kernel reports each opening, and reads the file anew.
    Opens,
    /// The kernel also reports each closing ([`vfs::FileSystem::flush`]).
    OpensAndCloses,
}

/// The parts of a file system that the kernel keeps in memory.
///
/// Whatever the choice, it keeps names and attributes of what it has looked up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KernelCache {
    /// Contents of files, listings and targets of links.
    #[default]
    All,
    /// Listings and targets of links. It keeps contents only of files that a program has open and has mapped or
    /// sent (`mmap`, `sendfile`).
    Metadata,
    /// Only names: `Metadata` without listings and targets of links.
    Names,
}

/// Settings of a mounted file system and of its threads.
#[derive(Clone, Debug)]
pub struct Options {
    /// Shown as the source in `/proc/mounts`, for example `tank/home`.
    pub fs_name: String,
    /// Shown after `fuse.` as the type in `/proc/mounts`.
    pub subtype: String,
    /// Refuse changes (`ro`).
    pub read_only: bool,
    /// Let in users other than the one who mounts. An ordinary user may ask for this only where
    /// `/etc/fuse.conf` says `user_allow_other`.
    pub allow_other: bool,
    /// Ignore set-user-ID and set-group-ID bits. Always so for ordinary users.
    pub nosuid: bool,
    /// Ignore device nodes. Always so for ordinary users.
    pub nodev: bool,
    /// Refuse to run programs.
    pub noexec: bool,
    /// The policy for access times. With [`AccessTimePolicy::Always`] from the start, the kernel reads a file anew at
    /// each opening. It does not report reads from its cache.
    pub access_times: AccessTimePolicy,
    /// The openings and closings of files that the kernel reports.
    pub hears: OpenReports,
    /// Access times of directories stay as they are (`nodiratime`).
    pub nodiratime: bool,
    /// The number of requests that may be served at the same time. `None` is a number that suits the machine.
    pub threads: Option<NonZeroUsize>,
    /// Let the kernel gather writes and send them later.
    ///
    /// Makes small writes to existing files several times faster. In exchange each removal, rename and link costs one
    /// request more, which sets a time again. Errors of writing come late. If this process is killed, written data is
    /// lost.
    pub writeback_cache: bool,
    /// The parts that the kernel keeps. All choices but [`KernelCache::All`] go without [`Options::writeback_cache`],
    /// and cost two requests for each opening and closing of a file.
    pub kernel_cache: KernelCache,
    /// The number of inodes for a file system that cannot hold any number of them. With more than this the kernel is
    /// told to forget files that no program has open.
    pub known_max: Option<NonZeroUsize>,
    /// File handles (`name_to_handle_at`) hold for as long as the file exists, over mounts too. For a file system
    /// whose inode numbers with their generations do, and which finds `.` of each inode.
    pub lasting_handles: bool,
    /// Another mount of it may show other owners (an idmapped mount, from Linux 6.12 on). Then the kernel says
    /// only who makes something, and not who does anything else.
    pub idmapped: bool,
    /// The bytes that the kernel reads ahead. More than 128 KiB needs root.
    ///
    /// The kernel asks for 1 MiB at a time, and for the next stretch when a program begins with the one before. With four
    /// times that, four workers read for one program. That is twice as fast where reading means waiting, and slower
    /// where it only means work for busy processors.
    pub read_ahead: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            fs_name: "strongroom".to_owned(),
            subtype: "strongroom".to_owned(),
            read_only: false,
            allow_other: false,
            nosuid: false,
            nodev: false,
            noexec: false,
            access_times: AccessTimePolicy::Relative,
            hears: OpenReports::Neither,
            nodiratime: false,
            threads: None,
            writeback_cache: false,
            kernel_cache: KernelCache::All,
            known_max: None,
            lasting_handles: false,
            idmapped: false,
            read_ahead: 1 << 20,
        }
    }
}

impl Options {
    pub(crate) fn worker_count(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let suitable = || (4 * cores()).clamp(WORKERS_MIN, WORKERS_MAX);
        self.threads.map_or_else(suitable, NonZeroUsize::get)
    }

    /// Returns the bytes that the kernel reads ahead. If it keeps no contents, it does so for mappings and `sendfile`
    /// only.
    pub(crate) fn ahead(&self) -> u32 {
        match self.kernel_cache {
            KernelCache::All => self.read_ahead,
            KernelCache::Metadata | KernelCache::Names => self.read_ahead.min(MAPPED_AHEAD),
        }
    }

    /// Returns the reports that the file system needs, access times considered.
    pub(crate) fn heard(&self) -> OpenReports {
        match (self.access_times, self.kernel_cache) {
            (AccessTimePolicy::Never | AccessTimePolicy::Relative, KernelCache::All) => self.hears,
            _ => self.hears.max(OpenReports::Opens),
        }
    }
}
