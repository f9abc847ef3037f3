//! Commands that show headers, and measure this machine.

use clap::Args;

use super::common::{LuksContainer, LuksVersion};

/// Show the header of a container
///
/// Prints what `cryptsetup luksDump` prints, and no secret. If one copy of the header is damaged, shows the
/// other copy. Repairs nothing.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  For people; for programs:
    strongroom luks dump secret.img
    strongroom luks dump --json secret.img

JSON
  {\"version\": 2, \"epoch\", \"uuid\", \"label\", \"subsystem\", \"metadata\": the JSON in the header}
  {\"version\": 1, \"uuid\", \"cipher\", \"hash\", \"key_size\", \"offset\", \"keyslots\": [...]}

EXIT CODES
  3 if there is no header; 9 if it is damaged.")]
pub(crate) struct LuksDump {
    #[command(flatten)]
    pub(crate) container: LuksContainer,
}

/// Show or change the UUID, label or subsystem of a container
///
/// Without an option, prints the UUID. LUKS1 has only a UUID. Passphrases stay.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Show the UUID; set a label:
    strongroom luks uuid secret.img
    strongroom luks uuid --label archive secret.img

EXIT CODES
  2 for a wrong value; 3 if there is no header; 5 if the container is open.")]
pub(crate) struct LuksUuid {
    /// The new UUID
    #[arg(long, value_name = "UUID")]
    pub(crate) uuid: Option<String>,
    /// The new label
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,
    /// The new subsystem
    #[arg(long, value_name = "TEXT")]
    pub(crate) subsystem: Option<String>,
    #[command(flatten)]
    pub(crate) container: LuksContainer,
}

/// Test whether a device is a container
///
/// Prints nothing; the exit code is the answer. A container with a damaged header, or with features that
/// are unknown here, is a container too.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  In a script:
    strongroom luks is-luks /dev/sdb && strongroom luks open /dev/sdb data
    strongroom luks is-luks --type luks1 /dev/sdb

EXIT CODES
  0 if it is a container; 3 if it is not.")]
pub(crate) struct LuksIsLuks {
    /// Only this version of LUKS
    #[arg(long = "type", value_enum)]
    pub(crate) version: Option<LuksVersion>,
    #[command(flatten)]
    pub(crate) container: LuksContainer,
}

/// Measure the speed of password hashes and ciphers
///
/// Measures in memory, without a device, and prints the form of `cryptsetup benchmark`. Opening a container
/// takes the time of its password hash. The speed of the cipher on each processor limits the speed of a
/// mapping.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  All; one cipher:
    strongroom luks benchmark
    strongroom luks benchmark --cipher aes-xts-plain64 --key-size 512 --sector-size 4096

JSON
  {\"kdfs\": [{\"name\", \"iterations\", \"memory_kib\", \"lanes\", \"key_size\"}, ...],
  \"ciphers\": [{\"name\", \"key_size\", \"sector_size\", \"encrypt_mib_s\", \"decrypt_mib_s\"}, ...]}")]
pub(crate) struct LuksBenchmark {
    /// Measure only this cipher
    #[arg(short, long, value_name = "CIPHER")]
    pub(crate) cipher: Option<String>,
    /// The length of the key in bits
    #[arg(
        short = 's',
        long,
        value_name = "BITS",
        default_value = "256",
        requires = "cipher"
    )]
    pub(crate) key_size: usize,
    /// The sector size in bytes
    #[arg(long, value_name = "BYTES", default_value = "4096")]
    pub(crate) sector_size: usize,
}
