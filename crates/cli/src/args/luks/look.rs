//! Looking at headers, and how fast this machine is.

use clap::Args;

use super::LuksContainer;

/// Show what the header of a container says
///
/// As `cryptsetup luksDump`; no secret is in it. A header of which one copy is damaged is shown as the other
/// copy has it, and nothing is mended.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  For people, and for programs:
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

/// Show the UUID of a container, or give it another
///
/// With an option, the UUID, label or subsystem is changed; LUKS1 has a UUID only. What opens the container
/// stays.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Look; change:
    strongroom luks uuid secret.img
    strongroom luks uuid --label archive secret.img

EXIT CODES
  2 if what is given does not fit; 3 if there is no header; 5 if the container is open.")]
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

/// Say by the exit code whether a device is a container
///
/// Prints nothing. A header that is damaged, or asks for what is not known here, is one all the same.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  In a script:
    strongroom luks is-luks /dev/sdb && strongroom luks open /dev/sdb data
    strongroom luks is-luks --type luks1 /dev/sdb

EXIT CODES
  0 if it is; 3 if it is not.")]
pub(crate) struct LuksIsLuks {
    /// Of this version
    #[arg(long = "type", value_enum)]
    pub(crate) version: Option<super::LuksVersion>,
    #[command(flatten)]
    pub(crate) container: LuksContainer,
}

/// Measure password hashes and ciphers here
///
/// In memory, without a device, in the form of `cryptsetup benchmark`. Opening a container takes as long as
/// its password hash; what a mapping moves at most is what its cipher does, on each processor.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Everything; one cipher:
    strongroom luks benchmark
    strongroom luks benchmark --cipher aes-xts-plain64 --key-size 512 --sector-size 4096

JSON
  {\"kdfs\": [{\"name\", \"iterations\", \"memory_kib\", \"lanes\", \"key_size\"}, ...],
  \"ciphers\": [{\"name\", \"key_size\", \"sector_size\", \"encrypt_mib_s\", \"decrypt_mib_s\"}, ...]}")]
pub(crate) struct LuksBenchmark {
    /// Only this cipher
    #[arg(short, long, value_name = "CIPHER")]
    pub(crate) cipher: Option<String>,
    /// With a key of so many bits
    #[arg(
        short = 's',
        long,
        value_name = "BITS",
        default_value = "256",
        requires = "cipher"
    )]
    pub(crate) key_size: usize,
    /// In sectors of so many bytes
    #[arg(long, value_name = "BYTES", default_value = "4096")]
    pub(crate) sector_size: usize,
}
