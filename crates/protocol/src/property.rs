//! The properties of datasets: one table, from which parsing, help, columns, completion and rights follow.
//!
//! A new property is a new row in [`PROPERTIES`]. What it does is beside the code that does it: a setting that an
//! open dataset follows in `daemon::state::properties::settings`, a computed value in `daemon::ops::list`.

#[cfg(test)]
mod tests;

/// A property of a dataset.
#[derive(Clone, Copy, Debug)]
pub struct Property {
    /// Its name, as `get` and `set` take it.
    pub name: &'static str,
    /// A shorter name, or the same.
    pub short: &'static str,
    /// What stands above its column; if empty, its short name in capitals.
    pub header: &'static str,
    /// Whether its column is one of numbers.
    pub is_number: bool,
    /// What has it.
    pub applies: Applies,
    /// When it can be set.
    pub settable: Settable,
    /// What it can be set to.
    pub values: Values,
    /// What it is if it was never set.
    pub default: &'static str,
    /// Whether a dataset has it from the one above.
    pub inherits: bool,
    /// Whether it means something for a snapshot.
    pub of_snapshots: bool,
    /// Whether the tenant of a zone may set it.
    pub tenant: Tenant,
    /// What becomes of it when a stream brings it.
    pub received: Received,
    /// The first version that has it.
    pub since: &'static str,
    /// What it does, in one sentence.
    pub help: &'static str,
}

/// What has a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applies {
    /// Every dataset.
    All,
    /// File systems.
    Files,
    /// Volumes.
    Volumes,
    /// The first dataset of a pool.
    Pools,
}

/// When a property can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settable {
    /// Never: it is counted, or fixed.
    Never,
    /// At any time.
    Always,
    /// When the dataset is made.
    AtCreation,
    /// When the dataset is made, and with `key change`.
    WithKey,
}

/// Whether the tenant of a zone may set a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tenant {
    /// No.
    No,
    /// Below the root of the zone, which is limited by the owner of the pool.
    BelowRoot,
    /// Everywhere in the zone.
    Yes,
}

/// What becomes of a property that a stream brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// It belongs to the contents, and is kept.
    Kept,
    /// It belongs to the machine of the receiver. What the stream says is not taken.
    Dropped,
    /// As `Dropped`, and a new dataset has this value unless the receiver says otherwise.
    Distrusted(&'static str),
}

/// What a property can be set to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// One of these words.
    Words(&'static [&'static str]),
    /// A size in bytes, or `none`.
    Size,
    /// A number from 0, or `none`.
    Count,
    /// How many snapshots of which kinds are made and kept, or `none`.
    Schedule,
    /// The size of a record: 4 KiB to 1 MiB, a power of two.
    RecordSize,
    /// A path that begins with `/`, or `none` or `legacy`.
    Mountpoint,
    /// The name of a compression.
    Compression,
    /// The name of a suite, `on` or `off`.
    Encryption,
    /// Where a key comes from.
    KeySource,
}

const ON_OFF: Values = Values::Words(&["on", "off"]);
const CACHING: Values = Values::Words(&["all", "metadata", "none"]);

impl Values {
    /// The allowed values, for help and errors.
    pub fn describe(&self) -> String {
        match self {
            Values::Words(words) => words.join(" | "),
            Values::Size => "none | a size, such as 512M, 1.5G or 2T".into(),
            Values::Count => "none | a number".into(),
            Values::Schedule => {
                "none | KIND:1-9999,... (KIND: hourly, daily, weekly, monthly, yearly)".into()
            }
            Values::RecordSize => "4K to 1M, a power of two".into(),
            Values::Mountpoint => "a path | none | legacy".into(),
            Values::Compression => "on | off | lz4 | zstd | zstd-1 to zstd-19".into(),
            Values::Encryption => {
                "on | off | xaes-256-gcm | aes-128-gcm | aes-192-gcm | aes-256-gcm | aes-128-ccm | aes-192-ccm | \
                 aes-256-ccm | xchacha20-poly1305"
                    .into()
            }
            Values::KeySource => {
                "raw | hex | passphrase, then a comma, then prompt | file:///PATH | https://HOST/PATH | \
                 exec:///PROGRAM | unix:///SOCKET | pkcs11:URI"
                    .into()
            }
        }
    }
}

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
        received: Received::Kept,
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
const fn of_mount(name: &'static str, received: Received, help: &'static str) -> Property {
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

/// Whether only the first dataset of a pool has a property.
pub fn is_of_pools(name: &str) -> bool {
    of_pools().any(|known| known == name)
}

/// The properties that only the first dataset of a pool has.
pub fn of_pools() -> impl Iterator<Item = &'static str> {
    let rows = PROPERTIES
        .iter()
        .filter(|row| row.applies == Applies::Pools);
    rows.map(|row| row.name)
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
            "Size of a full record, for files created from now on.",
        )
    },
    Property {
        tenant: Tenant::No,
        received: Received::Dropped,
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
        tenant: Tenant::No,
        received: Received::Dropped,
        ..space(
            "reservation",
            "reserv",
            "Space reserved for the dataset, its snapshots and everything below.",
        )
    },
    Property {
        tenant: Tenant::No,
        received: Received::Dropped,
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
        Received::Dropped,
        "Whether programs in the dataset can be run.",
    ),
    of_mount(
        "setuid",
        Received::Distrusted("off"),
        "Whether programs in the dataset can run as their owner.",
    ),
    of_mount(
        "devices",
        Received::Distrusted("off"),
        "Whether device nodes in the dataset can be opened.",
    ),
    Property {
        inherits: false,
        received: Received::Distrusted("noauto"),
        ..of_files(
            "canmount",
            Values::Words(&["on", "off", "noauto"]),
            "on",
            "Mounted automatically (on), never (off), or by a command only (noauto).",
        )
    },
    of_files(
        "snapdir",
        Values::Words(&["hidden", "visible"]),
        "hidden",
        "Whether listings of the root directory show .snapshot.",
    ),
    Property {
        short: "snapsched",
        received: Received::Dropped,
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
            "What stays decrypted in memory after it was written.",
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
            "How records are encrypted.",
        )
    },
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
        "Space that destroying the data of the dataset would free.",
    ),
    counted(
        "usedbysnapshots",
        "usedsnap",
        "Space that destroying the snapshots would free.",
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

impl Property {
    /// The property with a name, whole or short.
    pub fn find(name: &str) -> Option<&'static Property> {
        let mut all = PROPERTIES.iter();
        all.find(|property| property.name == name || property.short == name)
    }

    /// The property with this name, if it can be set.
    pub fn settable(name: &str) -> Option<&'static Property> {
        let named = PROPERTIES.iter().find(|property| property.name == name)?;
        (named.settable != Settable::Never).then_some(named)
    }

    /// Whether it is counted or fixed.
    pub fn is_computed(name: &str) -> bool {
        let mut computed = PROPERTIES
            .iter()
            .filter(|property| property.settable == Settable::Never);
        computed.any(|property| property.name == name)
    }

    /// What stands above its column.
    pub fn title(&self) -> String {
        match self.header {
            "" => self.short.to_uppercase(),
            header => header.into(),
        }
    }
}
