//! Mappings.

use clap::{Args, ValueEnum};
use console::values::{self, HashCost};

use super::common::{LuksContainer, LuksKey, LuksTokenChoice};

/// The type of a container to open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LuksOpenType {
    Luks,
    Plain,
}

/// Open a container as a mapping
///
/// The command asks for the passphrase, and the daemon tries the key slots in the order of their
/// priorities. The daemon claims the container until `luks close` or until it ends. The mapping is not a
/// file: `strongroom nbd export luks:NAME` offers it to other programs. It can be a device of a pool, as
/// luks:NAME. A volume with an open container is in use: close the container before you export its pool.
///
/// With --persistent-open the daemon opens the mapping at each start, until `luks close`. It remembers where
/// the key is, and no key: it reads the key file, which only its owner may be able to read, or asks the
/// tokens. Without both, a person has to open the mapping again, with the same command. Until then the
/// mapping waits, and so do pools and mappings on it. `luks status` says why. `daemon stop` closes the
/// mapping after the pools on it, and before the pool below it.
///
/// The daemon serves a request on the calling thread (inline), which is fastest for small requests. With a
/// workqueue, several threads serve it, as in the kernel, which is faster for large requests. Each of these threads
/// writes what it encrypted. With --sort-writes they leave that to one thread, which writes by rising offsets: for
/// disks that turn. The options of cryptsetup that begin with --perf choose among these modes. dm-crypt without options
/// is --read-workqueue --write-workqueue --sort-writes here.
///
/// The flags in a LUKS2 header are obeyed: `allow-discards`, `no-read-workqueue`, `no-write-workqueue`,
/// `same-cpu-crypt`, `submit-from-crypt-cpus` and `no-journal`. An option that you give is stronger. --persistent replaces these flags by the options of this command, as
/// with cryptsetup. Other flags are for the kernel only, and stay.
///
/// A LUKS2 container whose re-encryption (a change of key or cipher) was begun or interrupted can be opened
/// too. To continue the re-encryption, run `luks reencrypt --resume-only`.
///
/// --token-only opens a LUKS2 container without a question, by a token that `clevis luks bind` made with a Tang
/// server, or with several of which some have to help: this command asks the servers that the header names, and
/// sends the daemon the passphrase. A token of clevis or `systemd-cryptenroll` can also be of this machine's TPM,
/// and may ask for a PIN. If it has a signed policy (`--tpm2-public-key`), the command looks for the file of
/// signatures that `systemd-measure sign` wrote. One that `systemd-cryptenroll` made with an authenticator (FIDO2) may ask for its PIN
/// and for a touch; it needs the package fido2-tools, and is tried last. A token made by `luks token add` names
/// a passphrase in the kernel's keyring.
///
/// With --key-file pkcs11:URI the key is in a PKCS#11 token: the value of a data object (`type=data`), or 64 bytes that an
/// AES key makes, which stays in the token. Without pin-source in the URI the command asks for the PIN.
///
/// --type plain opens a device without a header. You give the cipher, key length and hash. A wrong
/// passphrase is not detected and gives random data.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  By passphrase; by a key file:
    strongroom luks open secret.img secret
    strongroom luks open --key-file /etc/keys/disk /dev/sdb data

  Read-only; with a header on a USB stick:
    strongroom luks open --readonly secret.img secret
    strongroom luks open --header /media/stick/sdb.header /dev/sdb data

  Pass discards, now and the next times; test a passphrase:
    strongroom luks open --allow-discards --persistent secret.img secret
    strongroom luks open --test-passphrase secret.img

  By a key in a token:
    strongroom keygen 'pkcs11:object=disk?module-path=/usr/lib/hsm.so'
    strongroom luks open --key-file 'pkcs11:object=disk?module-path=/usr/lib/hsm.so' \
        /dev/sdb data

  By a Tang server, without a passphrase; by an authenticator; by the TPM with signed PCRs:
    strongroom luks open --token-only /dev/sdb data
    strongroom luks open --token-only --token-type systemd-fido2 /dev/sdb data
    strongroom luks open --token-only --tpm2-signature kernel.json /dev/sdb data

  By another implementation of the cipher than the first choice:
    strongroom luks open --provider portable secret.img secret

  An old mapping without a header:
    strongroom luks open --type plain --cipher aes-cbc-essiv:sha256 --hash ripemd160 /dev/sdb old

  At each start of the daemon, for a pool on a container on a volume:
    strongroom luks open --persistent-open --key-file /etc/keys/disk volume:tank/disk disk
    strongroom pool create inner luks:disk

EXIT CODES
  2 for a wrong argument; 3 if there is no header; 4 if the name is taken; 5 if the container is
  in use; 7 if the passphrase opens no key slot; 8 if the key cannot be read, or no key slot can be
  used; 9 if the header or key material is damaged; 10 if the header has features that are unknown
  here.")]
pub(crate) struct LuksOpenArgs {
    /// The type of the device
    #[arg(long = "type", value_enum, default_value = "luks")]
    pub(crate) kind: LuksOpenType,
    /// Try only this key slot
    #[arg(short = 'S', long, value_name = "SLOT")]
    pub(crate) key_slot: Option<u32>,
    /// Refuse writes
    #[arg(short, long)]
    pub(crate) readonly: bool,
    #[command(flatten)]
    pub(crate) serving: LuksServing,
    /// Write the options into the header, for the next times; without options, remove them
    #[arg(long, conflicts_with = "readonly")]
    pub(crate) persistent: bool,
    /// Open the mapping at each start of the daemon too, until `luks close`
    #[arg(long, conflicts_with = "test_passphrase")]
    pub(crate) persistent_open: bool,
    /// Write sectors with tags in place, without the journal: faster, but a power cut can damage sectors
    #[arg(long, conflicts_with_all = ["readonly", "integrity_recovery_mode"])]
    pub(crate) integrity_no_journal: bool,
    /// Do not look at a damaged integrity journal; sectors that it would complete are old, or cannot be read
    #[arg(long, requires = "readonly")]
    pub(crate) integrity_recovery_mode: bool,
    /// Only test the passphrase; without the daemon, and without a name
    #[arg(long, conflicts_with_all = ["persistent", "readonly"])]
    pub(crate) test_passphrase: bool,
    #[command(flatten)]
    pub(crate) cost: HashCost,
    #[command(flatten)]
    pub(crate) key: LuksKey,
    #[command(flatten)]
    pub(crate) container: LuksContainer,
    /// The name of the mapping
    #[arg(value_name = "NAME", required_unless_present = "test_passphrase")]
    pub(crate) name: Option<String>,
    // Last: what follows would stand below its heading.
    #[command(flatten)]
    pub(crate) token: LuksTokenChoice,
    #[command(flatten)]
    pub(crate) plain: LuksPlain,
}

/// The options of a mapping.
#[derive(Args, Debug)]
pub(crate) struct LuksServing {
    /// Serve reads by a workqueue
    #[arg(long, overrides_with = "no_read_workqueue")]
    pub(crate) read_workqueue: bool,
    /// Serve reads inline
    #[arg(long, visible_alias = "perf-no_read_workqueue")]
    pub(crate) no_read_workqueue: bool,
    /// Serve writes by a workqueue
    #[arg(long, overrides_with = "no_write_workqueue")]
    pub(crate) write_workqueue: bool,
    /// Serve writes inline
    #[arg(long, visible_alias = "perf-no_write_workqueue")]
    pub(crate) no_write_workqueue: bool,
    /// Write what a workqueue encrypts from one thread, sorted by offset
    #[arg(long)]
    pub(crate) sort_writes: bool,
    /// Encrypt and decrypt on the calling thread; queue only writes, and sort them
    #[arg(long = "perf-same_cpu_crypt")]
    pub(crate) same_cpu_crypt: bool,
    /// Use workqueues whose threads also write what they encrypt, unsorted
    #[arg(long = "perf-submit_from_crypt_cpus", conflicts_with = "sort_writes")]
    pub(crate) submit_from_crypt_cpus: bool,
    /// Pass discards to the device; this shows which sectors are in use
    #[arg(long, overrides_with = "no_allow_discards")]
    pub(crate) allow_discards: bool,
    /// Do not pass discards to the device
    #[arg(long)]
    pub(crate) no_allow_discards: bool,
    /// Let this implementation compute the cipher, as `crypto providers` names it
    #[arg(long, value_name = "NAME")]
    pub(crate) provider: Option<String>,
}

/// The encryption of a device without a header.
#[derive(Args, Debug)]
#[command(next_help_heading = "For --type plain")]
pub(crate) struct LuksPlain {
    /// The cipher; aes-128-cbc, aes-192-cbc and aes-256-cbc, as for lofiadm, are aes-cbc-essiv:sha256
    #[arg(short, long, value_name = "CIPHER", default_value = "aes-xts-plain64")]
    pub(crate) cipher: String,
    /// The length of the key in bits
    #[arg(short = 's', long, value_name = "BITS", default_value = "256")]
    pub(crate) key_size: usize,
    /// The hash that makes the key from a passphrase; a key file is the key itself
    #[arg(long, value_name = "HASH", default_value = "sha256")]
    pub(crate) hash: String,
    /// The start of the data, in sectors of 512 bytes
    #[arg(short, long, value_name = "SECTORS", default_value = "0")]
    pub(crate) offset: u64,
    /// The size, in sectors of 512 bytes; default: to the end of the device
    #[arg(short = 'b', long, value_name = "SECTORS")]
    pub(crate) size: Option<u64>,
    /// The number of the first sector for the tweak
    #[arg(short = 'p', long, value_name = "SECTORS", default_value = "0")]
    pub(crate) skip: u64,
    /// The sector size, in bytes
    #[arg(long, value_name = "BYTES", default_value = "512")]
    pub(crate) sector_size: u32,
}

/// Close a mapping
///
/// All writes are durable when this command returns, and the key is wiped. The daemon does not open the mapping
/// at its next start.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Close a mapping:
    strongroom luks close secret

EXIT CODES
  3 if there is no such mapping; 5 if an export, a pool or another mapping uses it.")]
pub(crate) struct LuksCloseArgs {
    /// The mapping
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

/// Show open mappings: their ciphers, options and statistics
///
/// Shows for inline and queued requests the number, the bytes and the times. Half of the requests take at
/// most p50, and 99 of 100 take at most p99. One request in eleven is timed. A mapping that the daemon could
/// not open at its start is shown with the reason.
///
/// With --table, prints each mapping as `dmsetup table` does: start and length in sectors, cipher, key, number of the
/// first sector for the tweak, device, start on the device, options. The device is major:minor for a disk, and else its
/// name. The key is zeros. With --showkeys it is the key: the command asks for a passphrase of the container and opens
/// the header itself, because the daemon tells no key, and it writes to a terminal only. A mapping in re-encryption or
/// with --integrity has no such line.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  One mapping; all mappings for a program:
    strongroom luks status secret
    strongroom luks status --json

  As dmsetup prints it; with the key:
    strongroom luks status --table secret
    strongroom luks status --table secret --showkeys

JSON
  [{\"name\", \"kind\", \"device\", \"header\", \"uuid\", \"slot\", \"cipher\",
  \"provider\": or null, \"key_bits\", \"sector_size\",
  \"offset\", \"size\", \"read_only\", \"allow_discards\", \"read_workqueue\", \"write_workqueue\",
  \"same_cpu\", \"sort_writes\", \"iv_offset\", \"suspended\",
  \"reencryption\": {\"done\", \"total\", \"running\", \"speed\": in bytes a second or null,
  \"seconds_left\": or null} or null, \"users\",
  \"at_start\": whether the daemon opens it at its start, \"waits\": why it is not open, or null,
  \"read_inline\": {\"count\", \"bytes\", \"errors\", \"p50_ns\", \"p99_ns\", \"p999_ns\"}, \"read_queued\",
  \"write_inline\", \"write_queued\"}, ...]

EXIT CODES
  2 if a mapping has no line of a table, or keys would not go to a terminal; 3 if there is no such
  mapping; 7 if the passphrase opens no key slot.")]
pub(crate) struct LuksStatusArgs {
    /// Print the line of `dmsetup table`
    #[arg(long)]
    pub(crate) table: bool,
    /// With the key in place of zeros; asks for a passphrase
    #[arg(long, requires = "table")]
    pub(crate) showkeys: bool,
    #[command(flatten)]
    pub(crate) key: LuksKey,
    /// Mappings; default: all
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
}

/// Change the options of a mapping while it is in use
///
/// Applies to later requests. Options that you do not give stay. `luks open --help` says what the modes are. With
/// --provider, requests wait until those that run have ended. The data on the device is the same with each provider.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Writes by a workqueue, reads inline:
    strongroom luks refresh --write-workqueue --no-read-workqueue secret

  Another implementation of the cipher, and all requests inline:
    strongroom luks refresh --provider portable --no-read-workqueue --no-write-workqueue secret

EXIT CODES
  2 if the provider does not have the cipher; 3 if there is no such mapping; 5 if it is
  suspended, or requests do not end.")]
pub(crate) struct LuksRefreshArgs {
    #[command(flatten)]
    pub(crate) serving: LuksServing,
    /// The mapping
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

/// Wipe the key of a mapping; its users wait
///
/// For the time that a machine is left alone. The daemon ends the requests that are under way, makes writes
/// durable, and wipes the key. Later requests wait until `luks resume` gives the key again, so that programs
/// and file systems on the mapping stop. Decrypted data that they keep in memory stays there. A client with a
/// time limit of its own, as each initiator of iSCSI, reports errors after it: end such clients first.
///
/// A suspended mapping can be closed if nothing uses it. `nbd unexport --force` and `iscsi unexport --force`
/// end the only user of a mapping: its requests fail. A signal that ends the daemon does so too, but a mounted
/// /dev/nbdN waits for the next daemon.
///
/// A container in re-encryption and a plain mapping are not suspended.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Suspend a mapping, and continue:
    strongroom luks suspend secret
    strongroom luks resume secret

EXIT CODES
  2 if it cannot be suspended; 3 if there is no such mapping; 5 if a request does not end, or
  another command changes the header.")]
pub(crate) struct LuksSuspendArgs {
    /// The mapping
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

/// Give a suspended mapping its key again
///
/// Asks for a passphrase of the container. Requests that wait are carried out. With a wrong passphrase the
/// mapping stays suspended.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  By passphrase; by a key file:
    strongroom luks resume secret
    strongroom luks resume --key-file /etc/keys/disk secret

EXIT CODES
  2 if it is not suspended, or the header is another one; 3 if there is no such mapping; 7 if the
  passphrase opens no key slot; 8 if no key slot can be used; 9 if the header or key material is
  damaged.")]
pub(crate) struct LuksResumeArgs {
    /// Try only this key slot
    #[arg(short = 'S', long, value_name = "SLOT")]
    pub(crate) key_slot: Option<u32>,
    #[command(flatten)]
    pub(crate) cost: HashCost,
    #[command(flatten)]
    pub(crate) key: LuksKey,
    /// The mapping
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

/// Resize an open mapping to its device
///
/// With --device-size the mapping gets this size, until it is closed. The header does not contain the size
/// of the data and is not changed.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  After the file became larger:
    truncate -s 2G secret.img
    strongroom luks resize secret

EXIT CODES
  2 if the size is no whole number of sectors; 3 if there is no such mapping; 11 if the device is
  smaller.")]
pub(crate) struct LuksResizeArgs {
    /// The new size, such as 1G
    #[arg(long, value_name = "SIZE", value_parser = values::size)]
    pub(crate) device_size: Option<u64>,
    /// The mapping
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}
