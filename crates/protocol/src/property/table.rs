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

/// All properties, in the order in which `get all` shows them.
pub const PROPERTIES: &[Property] = &[
    computed("type", "Filesystem, volume or snapshot."),
    computed("creation", "When the dataset or snapshot was created."),
    counted(
        "used",
        "used",
        "Space of the dataset, its snapshots and everything below.",
    ),
    counted(
        "available",
        "avail",
        "Space that the dataset and everything below can still use.",
    ),
    counted(
        "referenced",
        "refer",
        "Space of the data in the dataset, shared or not.",
    ),
    counted(
        "compressratio",
        "ratio",
        "Bytes before compression to bytes on the devices.",
    ),
    Property {
        applies: Applies::Files,
        ..computed("mounted", "Whether the dataset is mounted.")
    },
    Property {
        short: "recsize",
        is_number: true,
        ..of_files(
            "recordsize",
            Values::RecordSize,
            "128K",
            "Size of a full record, for new files; the unit of devices is 4 KiB.",
        )
    },
    Property {
        tenant: Tenant::No,
        received: ReceiveTreatment::Dropped,
        ..of_files(
            "mountpoint",
            Values::Mountpoint,
            "",
            "Where the dataset is mounted; datasets below are in directories there.",
        )
    },
    Property {
        applies: Applies::Files,
        tenant: Tenant::BelowRoot,
        ..space(
            "quota",
            "quota",
            "The most space of the dataset, its snapshots and everything below.",
        )
    },
    Property {
        applies: Applies::Files,
        tenant: Tenant::BelowRoot,
        ..space(
            "refquota",
            "refquota",
            "The most space of the data in the dataset, without snapshots.",
        )
    },
    Property {
        applies: Applies::Files,
        ..limit(
            "filesystem_limit",
            "fslimit",
            "How many file systems and volumes there may be below the dataset.",
        )
    },
    limit(
        "snapshot_limit",
        "snaplimit",
        "How many snapshots the dataset and everything below may have.",
    ),
    Property {
        tenant: Tenant::BelowRoot,
        ..space(
            "property_limit",
            "proplimit",
            "The most space of properties, tags and permissions, with all below.",
        )
    },
    Property {
        applies: Applies::Files,
        received: ReceiveTreatment::Dropped,
        ..limit(
            "mount_limit",
            "mountlimit",
            "How many datasets and snapshots may be mounted, with all below.",
        )
    },
    Property {
        tenant: Tenant::No,
        received: ReceiveTreatment::Dropped,
        ..space(
            "reservation",
            "reserv",
            "Space reserved for the dataset, its snapshots and everything below.",
        )
    },
    Property {
        tenant: Tenant::No,
        received: ReceiveTreatment::Dropped,
        ..space(
            "refreservation",
            "refreserv",
            "Space reserved for the data in the dataset.",
        )
    },
    Property {
        short: "compress",
        ..setting(
            "compression",
            Values::Compression,
            "lz4",
            "How records written from now on are compressed.",
        )
    },
    setting(
        "checksum",
        CHECKSUMS,
        "blake3",
        "The checksum of each record: always BLAKE3. Other words mean the same.",
    ),
    of_files(
        "atime",
        ON_OFF,
        "on",
        "Whether reading a file changes its access time.",
    ),
    of_files(
        "relatime",
        ON_OFF,
        "on",
        "With atime=on: only if that time is older than the last change or a day.",
    ),
    Property {
        short: "rdonly",
        ..setting("readonly", ON_OFF, "off", "Whether changes are refused.")
    },
    of_mount(
        "exec",
        ReceiveTreatment::Dropped,
        "Whether programs in the dataset can be run.",
    ),
    of_mount(
        "setuid",
        ReceiveTreatment::Distrusted("off"),
        "Whether programs in the dataset can run as their owner.",
    ),
    of_mount(
        "devices",
        ReceiveTreatment::Distrusted("off"),
        "Whether device nodes in the dataset can be opened.",
    ),
    Property {
        inherits: false,
        received: ReceiveTreatment::Distrusted("noauto"),
        ..of_files(
            "canmount",
            Values::Words(&["on", "off", "noauto"]),
            "on",
            "Mounted automatically (on), never (off), or by a command only (noauto).",
        )
    },
    Property {
        inherits: false,
        tenant: Tenant::No,
        received: ReceiveTreatment::Dropped,
        ..setting(
            "owner",
            Values::User,
            "-",
            "The user who made it. A login opens homes of its own user and of root.",
        )
    },
    of_files(
        "snapdir",
        Values::Words(&["hidden", "visible"]),
        "hidden",
        "Whether listings of the root directory show .snapshot.",
    ),
    Property {
        tenant: Tenant::No,
        received: ReceiveTreatment::Dropped,
        ..of_files(
            "sharenfs",
            Values::NfsShare,
            "off",
            "Whether the kernel's NFS server exports the mounted dataset, and to whom.",
        )
    },
    Property {
        short: "snapsched",
        received: ReceiveTreatment::Dropped,
        ..setting(
            "snapshot-schedule",
            Values::Schedule,
            "none",
            "Which snapshots are made automatically, and how many are kept.",
        )
    },
    Property {
        of_snapshots: true,
        ..setting(
            "primarycache",
            CACHING,
            "all",
            "What stays decrypted in memory; all is fastest (set it before the mount).",
        )
    },
    Property {
        of_snapshots: true,
        ..setting(
            "secondarycache",
            CACHING,
            "all",
            "What cache devices may hold, encrypted as in the pool.",
        )
    },
    setting(
        "sync",
        Values::Words(&["standard", "always", "disabled"]),
        "standard",
        "When changes are durable: when a program asks, always at once, or later.",
    ),
    Property {
        applies: Applies::Volumes,
        ..setting(
            "writecache",
            Values::Words(&["on", "off", "volatile"]),
            "on",
            "Where an answered write is: in the log, durable, or only in memory.",
        )
    },
    of_files(
        "copies",
        Values::Words(&["1", "2"]),
        "1",
        "How often data is stored on the devices of the pool, from now on.",
    ),
    setting(
        "dedup",
        ON_OFF,
        "off",
        "Whether equal records of the dataset and its clones are stored once.",
    ),
    Property {
        applies: Applies::Pools,
        inherits: false,
        tenant: Tenant::No,
        ..setting(
            "autoexpand",
            ON_OFF,
            "off",
            "Whether the pool grows when its devices do.",
        )
    },
    Property {
        applies: Applies::Pools,
        inherits: false,
        tenant: Tenant::No,
        ..setting(
            "autotrim",
            ON_OFF,
            "on",
            "Whether devices are told of freed space.",
        )
    },
    Property {
        applies: Applies::Pools,
        inherits: false,
        tenant: Tenant::No,
        ..setting(
            "devicedeadline",
            Values::Words(&["off", "1s", "5s", "10s", "30s", "60s"]),
            "10s",
            "How long a write waits for a device that has a copy elsewhere.",
        )
    },
    Property {
        applies: Applies::Pools,
        inherits: false,
        tenant: Tenant::No,
        ..setting(
            "multihost",
            ON_OFF,
            "off",
            "Whether the host that uses the pool writes heartbeats to it.",
        )
    },
    Property {
        applies: Applies::Pools,
        inherits: false,
        tenant: Tenant::No,
        ..setting(
            "reservations",
            ON_OFF,
            "off",
            "Whether the disks refuse the writes of other hosts.",
        )
    },
    Property {
        applies: Applies::Pools,
        inherits: false,
        tenant: Tenant::No,
        ..setting(
            "scrub-schedule",
            Values::Words(&["off", "weekly", "monthly"]),
            "off",
            "How often the pool is scrubbed: every 7 or 30 days.",
        )
    },
    Property {
        settable: Settable::AtCreation,
        short: "enc",
        header: "ENCRYPTION",
        tenant: Tenant::No,
        ..setting(
            "encryption",
            Values::Encryption,
            "off",
            "How records are encrypted: on for the default suite; off; or a suite.",
        )
    },
    computed("suite", "The cipher suite of the records."),
    Property {
        settable: Settable::WithKey,
        of_snapshots: true,
        tenant: Tenant::No,
        ..setting(
            "keysource",
            Values::KeySource,
            "none",
            "Where the key comes from, and in which form.",
        )
    },
    computed("keystatus", "Whether the key is loaded."),
    computed("rekeydate", "When the newest data keys were made."),
    computed(
        "reencryption",
        "How far re-encryption with the newest data keys is.",
    ),
    computed("origin", "The snapshot of which the dataset is a clone."),
    computed("clones", "The clones of the snapshot."),
    counted(
        "usedbydataset",
        "usedds",
        "What destroying the dataset frees, after all its snapshots.",
    ),
    counted(
        "usedbysnapshots",
        "usedsnap",
        "What destroying all snapshots of the dataset frees.",
    ),
    Property {
        applies: Applies::Files,
        ..counted(
            "usedbychildren",
            "usedchild",
            "Space of everything below the dataset.",
        )
    },
    counted(
        "usedbyrefreservation",
        "usedrefreserv",
        "Space reserved for the dataset and not used yet.",
    ),
    Property {
        applies: Applies::Volumes,
        ..counted(
            "volsize",
            "volsize",
            "Bytes of the volume; set volsize=SIZE changes it.",
        )
    },
    Property {
        applies: Applies::Volumes,
        ..counted(
            "volblocksize",
            "volblock",
            "Bytes of a block of the volume; chosen when the volume is created.",
        )
    },
    Property {
        applies: Applies::Files,
        of_snapshots: false,
        ..counted(
            "filesystem_count",
            "fscount",
            "How many file systems and volumes there are below the dataset.",
        )
    },
    Property {
        of_snapshots: false,
        ..counted(
            "snapshot_count",
            "snapcount",
            "How many snapshots the dataset and everything below have.",
        )
    },
    counted(
        "logicalused",
        "lused",
        "Bytes of the dataset, its snapshots and all below, before compression.",
    ),
    counted(
        "logicalreferenced",
        "lrefer",
        "Bytes of the data in the dataset before compression.",
    ),
    counted("refcompressratio", "refratio", "The same as compressratio."),
    counted(
        "written",
        "written",
        "Space of the data that was written since the snapshot before.",
    ),
    counted("userrefs", "userrefs", "How many holds the snapshot has."),
    computed(
        "defer_destroy",
        "Whether the snapshot goes as soon as nothing keeps it.",
    ),
    counted(
        "guid",
        "guid",
        "A number by which streams know the dataset or snapshot.",
    ),
    counted(
        "createtxg",
        "createtxg",
        "The transaction group that created the dataset or snapshot.",
    ),
    computed(
        "receive_resume_token",
        "A token that continues an interrupted receive.",
    ),
];
