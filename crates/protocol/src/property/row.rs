//! The fields of a row of the table of properties.

/// A property of a dataset.
#[derive(Clone, Copy, Debug)]
pub struct Property {
    /// The name of the property, as `get` and `set` take it.
    pub name: &'static str,
    /// A shorter name, or the same.
    pub short: &'static str,
    /// The heading of its column; if empty, its short name in capitals.
    pub header: &'static str,
    /// True if its column is one of numbers.
    pub is_number: bool,
    /// The kinds of datasets that have the property.
    pub applies: Applies,
    /// The time when it can be set.
    pub settable: Settable,
    /// The values that it can be set to.
    pub values: Values,
    /// The value if it was never set.
    pub default: &'static str,
    /// True if a dataset has it from the one above.
    pub inherits: bool,
    /// True if it means something for a snapshot.
    pub of_snapshots: bool,
    /// True if the tenant of a zone may set it.
    pub tenant: Tenant,
    /// The treatment of a value that a stream brings.
    pub received: ReceiveTreatment,
    /// The first version that has it.
    pub since: &'static str,
    /// The effect of the property, in one sentence.
    pub help: &'static str,
}

/// The kinds of datasets that have a property.
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

/// The time when a property can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settable {
    /// Never: it is counted, or fixed.
    Never,
    /// At any time.
    Always,
    /// Set when the dataset is made.
    AtCreation,
    /// Set when the dataset is made, and by `key change`.
    WithKey,
}

/// True if the tenant of a zone may set a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tenant {
    /// No.
    No,
    /// Below the root of the zone, which is limited by the owner of the pool.
    BelowRoot,
    /// Everywhere in the zone.
    Yes,
}

/// The treatment of a property that a stream brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveTreatment {
    /// The value belongs to the contents, and is kept.
    Kept,
    /// The value belongs to the machine of the receiver. The value in the stream is not taken.
    Dropped,
    /// The value in the stream is not taken, and a new dataset has this one unless the receiver says otherwise.
    Distrusted(&'static str),
}

/// The values that a property can be set to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// A word of this list.
    Words(&'static [&'static str]),
    /// A size in bytes, or `none`.
    Size,
    /// A number from 0, or `none`.
    Count,
    /// The numbers of snapshots that are made and kept of each kind, or `none`.
    Schedule,
    /// A length of time, or `off`.
    Length,
    /// The size of a record: 4 KiB to 1 MiB, a power of two.
    RecordSize,
    /// A path that begins with `/`, or `none` or `legacy`.
    Mountpoint,
    /// The name of a compression.
    Compression,
    /// The name of a suite, `on` or `off`.
    Encryption,
    /// The source of a key.
    KeySource,
    /// A user, by name or number.
    User,
    /// The clients of an export by NFS, and their options.
    NfsShare,
}

/// The values of `encryption`.
const ENCRYPTIONS: [&str; 10] = [
    "on",
    "off",
    "xaes-256-gcm",
    "aes-128-gcm",
    "aes-192-gcm",
    "aes-256-gcm",
    "aes-128-ccm",
    "aes-192-ccm",
    "aes-256-ccm",
    "xchacha20-poly1305",
];

impl Values {
    /// Values, and beginnings of values, that a shell offers.
    pub fn offered(&self) -> Vec<String> {
        let all: &[&str] = match self {
            Values::Words(words) => words,
            Values::Size | Values::Count => &["none"],
            Values::Schedule => &[
                "none", "hourly:", "daily:", "weekly:", "monthly:", "yearly:",
            ],
            Values::Length => &["off"],
            Values::RecordSize => {
                let sizes = (2..11).map(|power| 1u32 << power);
                let sizes = sizes.map(|kib| match kib {
                    1024 => "1M".into(),
                    kib => format!("{kib}K"),
                });
                return sizes.collect();
            }
            Values::Mountpoint => &["none", "legacy"],
            Values::Compression => {
                let levels = (1..=19).map(|level| format!("zstd-{level}"));
                let plain = ["on", "off", "lz4", "zstd"].into_iter().map(String::from);
                return plain.chain(levels).collect();
            }
            Values::Encryption => &ENCRYPTIONS,
            Values::KeySource => &[
                "passphrase,prompt",
                "raw,file:///",
                "hex,file:///",
                "passphrase,file:///",
            ],
            Values::User => &[],
            Values::NfsShare => &["on", "off", "rw", "ro", "rw=", "ro=", "sec="],
        };
        all.iter().map(|word| (*word).to_owned()).collect()
    }

    /// The allowed values, for help and errors.
    pub fn describe(&self) -> String {
        match self {
            Values::Words(words) => words.join(" | "),
            Values::Size => "none | a size, such as 512M, 1.5G or 2T".into(),
            Values::Count => "none | a number".into(),
            Values::Schedule => {
                "none | KIND:1-9999,...[,local] (KIND: 1min to 30min, hourly to yearly)".into()
            }
            Values::Length => "off | a number with m, h, d, w or y, such as 30d; at most 30y".into(),
            Values::RecordSize => "4K to 1M, a power of two".into(),
            Values::Mountpoint => "a path | none | legacy".into(),
            Values::Compression => "on | off | lz4 | zstd | zstd-1 to zstd-19".into(),
            Values::User => "a user, by name or number".into(),
            Values::NfsShare => {
                "on | off | rw, ro, rw=CLIENT:..., ro=CLIENT:..., options of exports(5)".into()
            }
            Values::Encryption => ENCRYPTIONS.join(" | "),
            Values::KeySource => {
                "raw | hex | passphrase, then a comma, then prompt | file:///PATH | https://HOST/PATH | \
                 exec:///PROGRAM | unix:///SOCKET | pkcs11:URI | tang:URL#thp=THUMBPRINT | tpm2:#pcrs=7 | \
                 sss:NUMBER|LOCATION|LOCATION"
                    .into()
            }
        }
    }
}
