//! The table of properties, and how its rows are made.

use super::row::{Applies, Property, ReceiveTreatment, Settable, Tenant, Values};

const ON_OFF: Values = Values::Words(&["on", "off"]);

/// The names of checksums in ZFS. Here all mean the same one.
const CHECKSUMS: Values = Values::Words(&[
    "on",
    "blake3",
    "fletcher2",
    "fletcher4",
    "sha256",
    "sha512",
    "skein",
    "edonr",
]);
const CACHING: Values = Values::Words(&["all", "metadata", "none"]);

/// A property that can be set at any time, and that datasets below inherit.
const fn setting(
    name: &'static str,
    values: Values,
    default: &'static str,
    help: &'static str,
) -> Property {
    Property {
        name,
        short: name,
        header: "",
        is_number: false,
        applies: Applies::All,
        settable: Settable::Always,
        values,
        default,
        inherits: true,
        of_snapshots: false,
        tenant: Tenant::Yes,
        received: ReceiveTreatment::Kept,
        since: "0.1.0",
        help,
    }
}

/// A setting of file systems.
const fn of_files(
    name: &'static str,
    values: Values,
    default: &'static str,
    help: &'static str,
) -> Property {
    Property {
        applies: Applies::Files,
        ..setting(name, values, default, help)
    }
}

/// A setting of file systems that says what files there may do to the machine.
const fn of_mount(name: &'static str, received: ReceiveTreatment, help: &'static str) -> Property {
    Property {
        tenant: Tenant::No,
        received,
        ..of_files(name, ON_OFF, "on", help)
    }
}

/// A limit for the space of a dataset, or space that is kept for it.
const fn space(name: &'static str, short: &'static str, help: &'static str) -> Property {
    Property {
        short,
        is_number: true,
        inherits: false,
        ..setting(name, Values::Size, "none", help)
    }
}

/// A limit for how many datasets or snapshots there may be.
const fn limit(name: &'static str, short: &'static str, help: &'static str) -> Property {
    Property {
        short,
        is_number: true,
        inherits: false,
        tenant: Tenant::BelowRoot,
        ..setting(name, Values::Count, "none", help)
    }
}

/// A property that is counted or fixed.
const fn computed(name: &'static str, help: &'static str) -> Property {
    Property {
        settable: Settable::Never,
        inherits: false,
        of_snapshots: true,
        tenant: Tenant::No,
        ..setting(name, Values::Words(&[]), "-", help)
    }
}

/// A property that is counted, and a number.
const fn counted(name: &'static str, short: &'static str, help: &'static str) -> Property {
    Property {
        short,
        is_number: true,
        ..computed(name, help)
    }
}

/// A setting of a whole pool.
const fn of_pool(
    name: &'static str,
    values: Values,
    default: &'static str,
    help: &'static str,
) -> Property {
    Property {
        inherits: false,
        ..setting(name, values, default, help)
            .of(Applies::Pools)
            .set_by(Tenant::No)
    }
}

impl Property {
    const fn of(self, applies: Applies) -> Property {
        Property { applies, ..self }
    }

    const fn short(self, short: &'static str) -> Property {
        Property { short, ..self }
    }

    const fn of_snapshots(self, of_snapshots: bool) -> Property {
        Property {
            of_snapshots,
            ..self
        }
    }

    const fn set_by(self, tenant: Tenant) -> Property {
        Property { tenant, ..self }
    }

    const fn received(self, received: ReceiveTreatment) -> Property {
        Property { received, ..self }
    }
}

/// All properties, in the order in which `get all` shows them.
#[rustfmt::skip]
pub const PROPERTIES: &[Property] = &[
    computed("type", "Filesystem, volume or snapshot."),
    computed("creation", "When the dataset or snapshot was created."),
    counted("used", "used", "Space of the dataset, its snapshots and everything below."),
    counted("available", "avail", "Space that the dataset and everything below can still use."),
    counted("referenced", "refer", "Space of the data in the dataset, shared or not."),
    counted("compressratio", "ratio", "Bytes before compression to bytes on the devices."),
    computed("mounted", "Whether the dataset is mounted.").of(Applies::Files),
    Property {
        is_number: true,
        ..of_files(
            "recordsize",
            Values::RecordSize,
            "128K",
            "Size of a full record, for new files; the unit of devices is 4 KiB.",
        ).short("recsize")
    },
    of_files(
        "mountpoint",
        Values::Mountpoint,
        "",
        "Where the dataset is mounted; datasets below are in directories there.",
    ).set_by(Tenant::No).received(ReceiveTreatment::Dropped),
    space("quota", "quota", "The most space of the dataset, its snapshots and everything below.")
        .of(Applies::Files).set_by(Tenant::BelowRoot),
    space("refquota", "refquota", "The most space of the data in the dataset, without snapshots.")
        .of(Applies::Files).set_by(Tenant::BelowRoot),
    limit("filesystem_limit", "fslimit", "How many file systems and volumes there may be below the dataset.")
        .of(Applies::Files),
    limit("snapshot_limit", "snaplimit", "How many snapshots the dataset and everything below may have."),
    space("property_limit", "proplimit", "The most space of properties, tags and permissions, with all below.")
        .set_by(Tenant::BelowRoot),
    limit("mount_limit", "mountlimit", "How many datasets and snapshots may be mounted, with all below.")
        .of(Applies::Files).received(ReceiveTreatment::Dropped),
    space("reservation", "reserv", "Space reserved for the dataset, its snapshots and everything below.")
        .set_by(Tenant::No).received(ReceiveTreatment::Dropped),
    space("refreservation", "refreserv", "Space reserved for the data in the dataset.")
        .set_by(Tenant::No).received(ReceiveTreatment::Dropped),
    setting("compression", Values::Compression, "lz4", "How records written from now on are compressed.")
        .short("compress"),
    setting("checksum", CHECKSUMS, "blake3", "The checksum of each record: always BLAKE3. Other words mean the same."),
    of_files("atime", ON_OFF, "on", "Whether reading a file changes its access time."),
    of_files("relatime", ON_OFF, "on", "With atime=on: only if that time is older than the last change or a day."),
    setting("readonly", ON_OFF, "off", "Whether changes are refused.").short("rdonly"),
    of_mount("exec", ReceiveTreatment::Dropped, "Whether programs in the dataset can be run."),
    of_mount("setuid", ReceiveTreatment::Distrusted("off"), "Whether programs in the dataset can run as their owner."),
    of_mount("devices", ReceiveTreatment::Distrusted("off"), "Whether device nodes in the dataset can be opened."),
    Property {
        inherits: false,
        ..of_files(
            "canmount",
            Values::Words(&["on", "off", "noauto"]),
            "on",
            "Mounted automatically (on), never (off), or by a command only (noauto).",
        ).received(ReceiveTreatment::Distrusted("noauto"))
    },
    Property {
        inherits: false,
        ..setting("owner", Values::User, "-", "The user who made it. A login opens homes of its own user and of root.")
            .set_by(Tenant::No).received(ReceiveTreatment::Dropped)
    },
    of_files(
        "snapdir",
        Values::Words(&["hidden", "visible"]),
        "hidden",
        "Whether listings of the root directory show .snapshot.",
    ),
    of_files(
        "sharenfs",
        Values::NfsShare,
        "off",
        "Whether the kernel's NFS server exports the mounted dataset, and to whom.",
    ).set_by(Tenant::No).received(ReceiveTreatment::Dropped),
    setting(
        "snapshot-schedule",
        Values::Schedule,
        "none",
        "Which snapshots are made automatically, and how many are kept.",
    ).short("snapsched").received(ReceiveTreatment::Dropped),
    setting("retention", Values::Length, "off", "How long nobody can destroy new and received snapshots, root included.")
        .set_by(Tenant::No).received(ReceiveTreatment::Dropped),
    setting("autolock", Values::Length, "off", "How long no program uses the data before the key is unloaded.")
        .received(ReceiveTreatment::Dropped),
    setting("primarycache", CACHING, "all", "What stays decrypted in memory; all is fastest (set it before the mount).")
        .of_snapshots(true),
    setting("secondarycache", CACHING, "all", "What cache devices may hold, encrypted as in the pool.")
        .of_snapshots(true),
    setting(
        "sync",
        Values::Words(&["standard", "always", "disabled"]),
        "standard",
        "When changes are durable: when a program asks, always at once, or later.",
    ),
    setting(
        "writecache",
        Values::Words(&["on", "off", "volatile"]),
        "on",
        "Where an answered write is: in the log, durable, or only in memory.",
    ).of(Applies::Volumes),
    of_files(
        "copies",
        Values::Words(&["1", "2"]),
        "1",
        "How often data is stored on the devices of the pool, from now on.",
    ),
    setting("dedup", ON_OFF, "off", "Whether equal records of the dataset and its clones are stored once."),
    of_pool("autoexpand", ON_OFF, "off", "Whether the pool grows when its devices do."),
    of_pool("autotrim", ON_OFF, "on", "Whether devices are told of freed space."),
    of_pool(
        "devicedeadline",
        Values::Words(&["off", "1s", "5s", "10s", "30s", "60s"]),
        "10s",
        "How long a write waits for a device that has a copy elsewhere.",
    ),
    of_pool("multihost", ON_OFF, "off", "Whether the host that uses the pool writes heartbeats to it."),
    of_pool("reservations", ON_OFF, "off", "Whether the disks refuse the writes of other hosts."),
    of_pool(
        "scrub-schedule",
        Values::Words(&["off", "weekly", "monthly"]),
        "off",
        "How often the pool is scrubbed: every 7 or 30 days.",
    ),
    Property {
        settable: Settable::AtCreation,
        header: "ENCRYPTION",
        ..setting(
            "encryption",
            Values::Encryption,
            "off",
            "How records are encrypted: on for the default suite; off; or a suite.",
        ).short("enc").set_by(Tenant::No)
    },
    computed("suite", "The cipher suite of the records."),
    Property {
        settable: Settable::WithKey,
        ..setting("keysource", Values::KeySource, "none", "Where the key comes from, and in which form.")
            .of_snapshots(true).set_by(Tenant::No)
    },
    computed("keystatus", "Whether the key is loaded."),
    computed("locks-at", "When the key is unloaded, if no program uses the data (autolock)."),
    computed("rekeydate", "When the newest data keys were made."),
    computed("reencryption", "How far re-encryption with the newest data keys is."),
    computed("origin", "The snapshot of which the dataset is a clone."),
    computed("clones", "The clones of the snapshot."),
    computed("retained-until", "Until when nobody can destroy the snapshot, root included.").short("retained"),
    counted("usedbydataset", "usedds", "What destroying the dataset frees, after all its snapshots."),
    counted("usedbysnapshots", "usedsnap", "What destroying all snapshots of the dataset frees."),
    counted("usedbychildren", "usedchild", "Space of everything below the dataset.").of(Applies::Files),
    counted("usedbyrefreservation", "usedrefreserv", "Space reserved for the dataset and not used yet."),
    counted("volsize", "volsize", "Bytes of the volume; set volsize=SIZE changes it.").of(Applies::Volumes),
    counted("volblocksize", "volblock", "Bytes of a block of the volume; chosen when the volume is created.")
        .of(Applies::Volumes),
    counted("filesystem_count", "fscount", "How many file systems and volumes there are below the dataset.")
        .of(Applies::Files).of_snapshots(false),
    counted("snapshot_count", "snapcount", "How many snapshots the dataset and everything below have.")
        .of_snapshots(false),
    counted("logicalused", "lused", "Bytes of the dataset, its snapshots and all below, before compression."),
    counted("logicalreferenced", "lrefer", "Bytes of the data in the dataset before compression."),
    counted("refcompressratio", "refratio", "The same as compressratio."),
    counted("written", "written", "Space of the data that was written since the snapshot before."),
    counted("userrefs", "userrefs", "How many holds the snapshot has."),
    computed("defer_destroy", "Whether the snapshot goes as soon as nothing keeps it."),
    counted("guid", "guid", "A number by which streams know the dataset or snapshot."),
    counted("createtxg", "createtxg", "The transaction group that created the dataset or snapshot."),
    computed("receive_resume_token", "A token that continues an interrupted receive."),
];
