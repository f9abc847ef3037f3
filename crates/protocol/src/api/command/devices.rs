//! The commands that serve devices: exports, targets and mappings.

use std::path::PathBuf;

use crate::api::arguments::each_once;
use crate::api::reports::{DeviceUse, MappingChange, MappingKeyPlace, PlainMapping};

requests! {
    /// Offer a device to others.
    #[derive(Default)]
    NbdExport: Changes, "nbd export" [device] {
        /// The device, as `Exportable` in the daemon has it: an absolute path.
        device: String,
        /// The name of the export for clients; the last part of the path if absent.
        name: Option<String>,
        /// A description for people.
        description: Option<String>,
        /// True if clients cannot change it.
        #[serde(default)]
        read_only: bool,
        /// `unix:PATH` or `HOST:PORT`; a socket beside the daemon's if absent.
        listen: Option<String>,
        /// A directory with certificates, for TCP.
        tls_certificates: Option<PathBuf>,
    }

    /// Take an export back.
    NbdUnexport: Changes, "nbd unexport" ["--force" force, name] {
        /// The export.
        name: String,
        /// Also from those who use it.
        #[serde(default)]
        force: bool,
    }

    /// Make a device one of the kernel.
    NbdAttach: Changes, "nbd attach" [device, kernel] {
        /// The device, as `Exportable` in the daemon has it: an absolute path.
        device: String,
        /// `/dev/nbdN`; one that is free if absent.
        kernel: Option<String>,
        /// True if the kernel cannot change it.
        #[serde(default)]
        read_only: bool,
    }

    /// End a device of the kernel.
    NbdDetach: Changes, "nbd detach" ["--force" force, device] {
        /// `/dev/nbdN`, or what is attached to it.
        device: String,
        /// Also if it is mounted.
        #[serde(default)]
        force: bool,
    }

    /// Make a device one of the kernel, by its driver ublk.
    UblkAttach: Changes, "ublk attach" [device, kernel] {
        /// The device, as `Exportable` in the daemon has it: an absolute path.
        device: String,
        /// `/dev/ublkbN`; one that is free if absent.
        kernel: Option<String>,
        /// True if the kernel cannot change it.
        #[serde(default)]
        read_only: bool,
    }

    /// End a device of the kernel.
    UblkDetach: Changes, "ublk detach" ["--force" force, device] {
        /// `/dev/ublkbN`, or what is attached to it.
        device: String,
        /// Also if it is mounted.
        #[serde(default)]
        force: bool,
    }

    /// Offer a device to initiators.
    IscsiExport: Changes, "iscsi export" [device] {
        /// The device, as `Exportable` in the daemon has it: an absolute path.
        device: String,
        /// The name of the target; made of that of the device if absent.
        name: Option<String>,
        /// True if initiators cannot change it.
        #[serde(default)]
        read_only: bool,
        /// `ADDRESS:PORT`; port 3260 of this host only if absent.
        portal: Option<String>,
        /// Further portals, at which the target is offered too.
        #[serde(default)]
        more_portals: Vec<String>,
        /// The initiators that may log in; all if there are none.
        initiators: Vec<String>,
        /// `USER=LOCATION` of the secrets that they prove.
        chap: Vec<String>,
        /// The same of the target itself.
        own_chap: Option<String>,
        /// True if initiators need not authenticate themselves.
        #[serde(default)]
        open: bool,
        /// True if persistent reservations that are kept of the device are forgotten first.
        #[serde(default)]
        forget_reservations: bool,
        /// The serial number that initiators know from another storage.
        #[serde(default)]
        serial: Option<String>,
        /// The NAA designator that they know, in hexadecimal digits.
        #[serde(default)]
        naa: Option<String>,
        /// The size of a block, in bytes.
        #[serde(default)]
        block_size: Option<String>,
    }

    /// Take a target back.
    IscsiUnexport: Changes, "iscsi unexport" ["--force" force, name] {
        /// The target.
        name: String,
        /// Also from those who use it.
        #[serde(default)]
        force: bool,
    }

    /// End a session of an initiator.
    IscsiKick: Changes, "iscsi sessions" ["--kick" number, target] {
        /// The target.
        target: String,
        /// The number of the session there.
        number: u16,
    }

    /// Serve what the file of a pool says.
    HaStart: Changes, "ha" [verb(), pool] {
        /// The pool.
        pool: String,
        /// Only if it is served already.
        #[serde(default)]
        update: bool,
    }

    /// Serve nothing of a pool any more.
    HaStop: Changes, "ha stop" [pool] {
        /// The pool.
        pool: String,
    }

    /// Look whether the file of a pool can be followed.
    HaVerify: Changes, "ha verify" [pool] {
        /// The pool.
        pool: String,
    }

    /// Look whether this machine could take a pool over.
    HaCheck: Changes, "ha check" [pool] {
        /// The pool, which is usually imported on another machine.
        pool: String,
        /// Files, disks, or directories of such; the usual places if empty.
        search: Vec<PathBuf>,
    }

    /// Report the targets and units that a pool serves.
    HaStatus: Reads, "ha status" [pool] {
        /// The pool.
        pool: String,
    }

    /// Open a container.
    LuksOpen: Changes, "luks open" ["--persistent-open" at_start.is_some(), device, name] {
        /// The file or disk.
        device: PathBuf,
        /// The device of the header, if it is a separate one.
        header: Option<PathBuf>,
        /// The name of the mapping.
        name: String,
        /// True if what opens it is asked for as the contents of a key file. The caller reads that.
        #[serde(default)]
        with_key_file: bool,
        /// Only this key slot.
        key_slot: Option<u32>,
        /// True if writes are refused.
        #[serde(default)]
        read_only: bool,
        /// The form in which the mapping is served; the header decides what is absent.
        serving: MappingChange,
        /// The provider of the cipher, such as `aws-lc`.
        #[serde(default)]
        provider: Option<String>,
        /// True if the header is to say so from now on.
        #[serde(default)]
        persistent: bool,
        /// True if sectors with tags are written without the journal.
        #[serde(default)]
        no_journal: bool,
        /// True if the journal of sectors with tags is not looked at.
        #[serde(default)]
        recovery: bool,
        /// The parameters of the mapping, if there is no header.
        plain: Option<Box<PlainMapping>>,
        /// The location of the key at each start, if the daemon is to open the mapping then. The daemon uses it now too.
        at_start: Option<Box<MappingKeyPlace>>,
    }

    /// Close a mapping.
    LuksClose: Changes, "luks close" [name] {
        /// The mapping.
        name: String,
    }

    /// List the open mappings and their state.
    LuksStatus: Reads, "luks status" [names] {
        /// These; all if there are none.
        #[serde(deserialize_with = "each_once")]
        names: Vec<String>,
    }

    /// Change how a mapping is served.
    LuksRefresh: Changes, "luks refresh" [name] {
        /// The mapping.
        name: String,
        /// The settings that change.
        change: MappingChange,
        /// The provider of the cipher from now on, such as `aws-lc`.
        #[serde(default)]
        provider: Option<String>,
    }

    /// Make a mapping larger or smaller.
    LuksResize: Changes, "luks resize" [name] {
        /// The mapping.
        name: String,
        /// The new size in bytes; the size of the device if absent.
        size: Option<u64>,
    }

    /// Go on with the re-encryption of a container that is open. It pauses when the caller says so or goes away.
    LuksReencrypt: Changes, "luks reencrypt" [name] {
        /// The mapping.
        name: String,
        /// True if what opens the container is asked for as the contents of a key file.
        #[serde(default)]
        with_key_file: bool,
        /// The longest hot zone, in bytes.
        zone: Option<u64>,
    }

    /// Wipe the key of a mapping; its requests wait.
    LuksSuspend: Changes, "luks suspend" [name] {
        /// The mapping.
        name: String,
    }

    /// Give a mapping its key again.
    LuksResume: Changes, "luks resume" [name] {
        /// The mapping.
        name: String,
        /// True if what opens the container is asked for as the contents of a key file.
        #[serde(default)]
        with_key_file: bool,
        /// Only this key slot.
        key_slot: Option<u32>,
    }

    /// Lend the caller a volume, or the header of a container that is open.
    LuksBorrow: Changes, "luks" [device] {
        /// The volume, or the path of the device that the header is on.
        device: PathBuf,
        /// The use of the device.
        how: DeviceUse,
    }
}

impl HaStart {
    fn verb(&self) -> &'static str {
        match self.update {
            true => "update",
            false => "start",
        }
    }
}
