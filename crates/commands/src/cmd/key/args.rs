//! Keys: loading, unloading and changing them, and making key files.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use console::values::{HashCost, is_keysource};
use protocol::api::Pbkdf;

use crate::cmd::key::sheet::KeySheetArgs;

/// Load, unload, change, add and back up the keys of datasets
///
/// An encrypted dataset has a wrapping key of its own, or inherits the one of the dataset above. The
/// property `keysource=FORMAT,LOCATION` says where the key comes from. FORMAT is `passphrase`, `hex` or
/// `raw`.
///
/// LOCATION is `prompt`, `file:///PATH`, `https://HOST/PATH`, `exec:///PROGRAM` (a program that the daemon
/// starts), `unix:///SOCKET` (a program that listens), `pkcs11:URI` (a token),
/// `tang:http://HOST#thp=THUMBPRINT` (a Tang server), `tpm2:#pcrs=7&pin=yes` (the TPM of this machine) or
/// `sss:2|LOCATION|LOCATION|...` (two of these open it).
/// With `#ca=/FILE` after an https address, only the certificates in that file are trusted. Only `prompt`,
/// tokens and `pin=yes` ask a person.
/// KEY-PROVIDERS in the documentation has the details.
///
/// While a key is not loaded, names, contents and sizes of files are unreadable. Scrub, snapshot and
/// destroy still work. A wrapping key can have several slots. Each slot is a passphrase or key that opens
/// it.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
EXAMPLES
  Show which keys are loaded:
    strongroom key status

  Load a key, and unload it:
    strongroom key load tank/home
    strongroom key unload tank/home

  Add a second key that is kept in a safe, and back up the keyring:
    strongroom keygen --format hex escrow.key
    strongroom key add -o keysource=hex,file:///root/escrow.key tank/home
    strongroom key backup tank/home home.keys")]
pub(crate) enum KeyCommand {
    #[command(short_flag = 'l')]
    Load(KeyLoadArgs),
    #[command(short_flag = 'u')]
    Unload(KeyUnloadArgs),
    Accept(KeyAcceptArgs),
    #[command(short_flag = 'c')]
    Change(KeyChangeArgs),
    #[command(short_flag = 'K')]
    Rotate(KeyRotateArgs),
    Generations(KeyGenerationsArgs),
    Status(KeyStatusArgs),
    Tries(KeyTriesArgs),
    Add(KeyAddArgs),
    Remove(KeyRemoveArgs),
    Slots(KeySlotsArgs),
    Recover(KeyRecover),
    Backup(KeyBackupArgs),
    Restore(KeyRestoreArgs),
    Sheet(KeySheetArgs),
}

/// Load the keys of datasets
///
/// Reads each key from the location in `keysource`, or asks for it. A terminal does not show the passphrase
/// that you type. If the standard input is no terminal, the command reads one line from there for each key.
/// Datasets that inherit a key need nothing of their own. Nothing is mounted; see `strongroom mount -l`.
#[derive(Args, Debug)]
#[command(
    group = ArgGroup::new("which").args(["all", "names"]).required(true),
    override_usage = "strongroom key load [-r] [-n] [-L LOCATION|-o keysource=...] [--hash-memory MIB] <-a|DATASET...>",
    after_help = "\
EXAMPLES
  One key, from its location:
    strongroom key load tank/home

  All keys of a pool:
    strongroom key load -r tank

  From a copy in another location; only test whether the copy is right:
    strongroom key load -L file:///media/stick/home.key tank/home
    strongroom key load -n -L file:///media/stick/home.key tank/home

  By the key of another slot, whatever its format is:
    strongroom key load -L file:///media/stick/escrow.key tank/home

  In a script:
    strongroom key load tank/home < passphrase

EXIT CODES
  3 if there is no such dataset; 4 if the key is loaded already; 7 if the key is wrong; 8 if it
  cannot be read; 9 if the keyring is damaged."
)]
pub(crate) struct KeyLoadArgs {
    /// For all datasets of all pools
    #[arg(short, conflicts_with = "names")]
    pub(crate) all: bool,
    /// Also for datasets below
    #[arg(short)]
    pub(crate) recursive: bool,
    /// Only test whether the key is right
    #[arg(short = 'n')]
    pub(crate) dry_run: bool,
    /// Read the key of any slot from here, in any format: `prompt`, `file:///PATH` or another location
    #[arg(short = 'L', value_name = "LOCATION")]
    pub(crate) location: Option<String>,
    /// The same as -L, in this format only: `keysource=FORMAT,LOCATION`
    #[arg(
        short = 'o',
        value_name = "PROPERTY=VALUE",
        value_parser = keysource_option,
        conflicts_with = "location"
    )]
    pub(crate) keysource: Option<String>,
    #[command(flatten)]
    pub(crate) cost: HashCost,
    /// The datasets
    #[arg(value_name = "DATASET")]
    pub(crate) names: Vec<String>,
}

/// Unload the keys of datasets
///
/// Names and contents are unreadable afterwards, and cached data is wiped. Datasets that use the key must
/// not be mounted; -f unmounts them.
#[derive(Args, Debug)]
#[command(
    group = ArgGroup::new("which").args(["all", "names"]).required(true),
    override_usage = "strongroom key unload [-r] [-f] <-a|DATASET...>",
    after_help = "\
EXAMPLES
  One key:
    strongroom unmount tank/home
    strongroom key unload tank/home

  All keys at once, even if files are open:
    strongroom key unload -a -f

EXIT CODES
  3 if there is no such dataset; 5 if a dataset that uses the key is mounted; 8 if the key is not
  loaded."
)]
pub(crate) struct KeyUnloadArgs {
    /// For all datasets of all pools
    #[arg(short, conflicts_with = "names")]
    pub(crate) all: bool,
    /// Also for datasets below
    #[arg(short)]
    pub(crate) recursive: bool,
    /// Unmount datasets even if they are in use
    #[arg(short)]
    pub(crate) force: bool,
    /// The datasets
    #[arg(value_name = "DATASET")]
    pub(crate) names: Vec<String>,
}

/// Accept the proposed key locations of datasets
///
/// A stream, or a pool that this machine has not seen, can name any key location: a file, a server, a
/// program or a token. The daemon reads nothing there before you accept the location. `strongroom get
/// keysource` shows such a location with the source `proposed`. Locations that `create`, `clone`, `key
/// change` and `receive -o keysource` set here are accepted at once. `key load -L LOCATION` with the
/// proposed location accepts it too.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Look at the location, and accept it:
    strongroom get keysource backup/home
    strongroom key accept backup/home

  All locations of a pool:
    strongroom key accept -r backup

EXIT CODES
  3 if there is no such dataset.")]
pub(crate) struct KeyAcceptArgs {
    /// Also for datasets below
    #[arg(short)]
    pub(crate) recursive: bool,
    /// The datasets
    #[arg(value_name = "DATASET", required = true)]
    pub(crate) names: Vec<String>,
}

/// Change the key or passphrase of a dataset
///
/// The key must be loaded; the command does not ask for the old passphrase. It replaces the wrapped keys
/// and overwrites the old ones on the devices. It reads and writes no data. A dataset that inherited its
/// key then has a key of its own; -i makes it inherit again. If the key has several slots, choose the slot
/// that gets the new key; the others stay. The property `keysource` then names the new key, unless its old
/// value may open one of the others. Older copies of the devices still open with the old key.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  A new passphrase:
    strongroom key change tank/home

  A key in a file instead:
    strongroom keygen /etc/keys/home
    strongroom key change -o keysource=raw,file:///etc/keys/home tank/home

  Replace the passphrase and keep an escrow key; replace both:
    strongroom key change --slot 0 tank/home
    strongroom key change --only tank/home

  Inherit the key of the dataset above again:
    strongroom key change -i tank/home/ann

  A passphrase that opens in FIPS mode, too:
    strongroom key change --pbkdf pbkdf2 tank/home

EXIT CODES
  2 for a wrong keysource, two passphrases that differ, or several slots and no choice; 3 if there
  is no such dataset or slot; 4 if it inherits its key already; 8 if the key is not loaded, or the
  new one cannot be read.")]
pub(crate) struct KeyChangeArgs {
    /// The location of the new key: `keysource=FORMAT,LOCATION`
    #[arg(short = 'o', value_name = "PROPERTY=VALUE", value_parser = keysource_option)]
    pub(crate) keysource: Option<String>,
    /// Inherit the key of the dataset above; both keys must be loaded
    #[arg(short, conflicts_with_all = ["keysource", "slot", "only", "pbkdf"])]
    pub(crate) inherit: bool,
    /// Replace the key in this slot, and keep the others
    #[arg(long, value_name = "NUMBER", conflicts_with = "only")]
    pub(crate) slot: Option<u32>,
    /// Make the new key the only one
    #[arg(long)]
    pub(crate) only: bool,
    #[command(flatten)]
    pub(crate) hash: PassphraseHash,
    /// The dataset
    #[arg(value_name = "DATASET")]
    pub(crate) name: String,
}

/// Rotate the data keys of a dataset: new keys for later writes
///
/// The key must be loaded. Older data keys stay in the keyring, so stored data and snapshots stay readable.
/// The dataset itself gets a seal of the new keys; the seal of older keys is accepted for snapshots only.
/// Only the keyring and that seal are written, so this is fast for a dataset of any size. The passphrase
/// stays; `key change` changes it.
///
/// With --reencrypt the daemon also brings stored data to the new keys, in the background, while programs use the
/// dataset. New records need space beside the old ones until the next commit. Where snapshots keep the old ones, they
/// need it for ever. The daemon leaves 1/16 of the pool free for other writes and waits while there is less; `get
/// reencryption` and `pool status` say so. It continues after a restart. Then it destroys the older keys that nothing
/// needs. Keys that snapshots need are destroyed with these snapshots.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  New data keys; the same with the option of Solaris:
    strongroom key rotate tank/home
    strongroom key -K tank/home

  Also re-encrypt stored data; show the progress; pause; continue:
    strongroom key rotate --reencrypt tank/home
    strongroom get reencryption tank/home
    strongroom key rotate --pause tank/home
    strongroom key rotate --resume tank/home

  Show all data keys, and what needs them:
    strongroom key generations tank/home

EXIT CODES
  1 if the dataset is not encrypted, or there is nothing to pause; 3 if there is no such dataset;
  8 if the key is not loaded; 11 if there is no space for more keys.")]
pub(crate) struct KeyRotateArgs {
    /// Also re-encrypt stored data with the new keys
    #[arg(long)]
    pub(crate) reencrypt: bool,
    /// Pause the re-encryption; make no new keys
    #[arg(long, conflicts_with = "reencrypt")]
    pub(crate) pause: bool,
    /// Continue or start the re-encryption; make no new keys
    #[arg(long, conflicts_with_all = ["reencrypt", "pause"])]
    pub(crate) resume: bool,
    /// The dataset
    #[arg(value_name = "DATASET")]
    pub(crate) name: String,
}

/// Show the data keys of a dataset, and what needs them
///
/// Each rotation adds a generation of data keys. STATE is `newest`; `in use`, if records of the dataset
/// need it; `pinned`, if only snapshots need it; or `unused`. The command reads all metadata of the dataset
/// and its snapshots. It needs no key. `inspect -ddd` shows generations without reading metadata.
///
/// If the key is loaded, STATE can be `foreign`: the key does not open this generation. It came with a
/// forged stream, or was changed on a device. It is not used. The next command that replaces the keyring
/// (key change, key rotate) drops it.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  All generations:
    strongroom key generations tank/home

JSON
  [{\"generation\", \"txg\", \"created\", \"state\", \"records\", \"bytes\", \"snapshots\"}, ...]

EXIT CODES
  1 if the dataset is not encrypted; 3 if there is no such dataset; 9 if the keyring is damaged.")]
pub(crate) struct KeyGenerationsArgs {
    /// Print no header, tabs between columns, and exact numbers
    #[arg(short = 'H')]
    pub(crate) script: bool,
    /// The dataset
    #[arg(value_name = "DATASET")]
    pub(crate) name: String,
}

/// Add a second passphrase or key to a dataset
///
/// The key must be loaded. The new passphrase or key opens the same wrapping key as the existing ones,
/// which stay. Prints the number of the new slot. The property `keysource` stays. To load by a new key of
/// another format, use `key load -o keysource=...`.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  A second passphrase:
    strongroom key add tank/home

  An escrow key that is kept in a safe:
    strongroom keygen --format hex escrow.key
    strongroom key add -o keysource=hex,file:///root/escrow.key tank/home

JSON
  The number of the slot.

EXIT CODES
  1 if the dataset inherits its key, or all 32 slots are in use; 3 if there is no such dataset; 8
  if the key is not loaded, or the new one cannot be read.")]
pub(crate) struct KeyAddArgs {
    /// The location of the new key: `keysource=FORMAT,LOCATION`; default: ask for a passphrase
    #[arg(short = 'o', value_name = "PROPERTY=VALUE", value_parser = keysource_option)]
    pub(crate) keysource: Option<String>,
    /// Slots with a higher priority are tried first
    #[arg(short, value_name = "NUMBER", default_value_t = 128)]
    pub(crate) priority: u8,
    #[command(flatten)]
    pub(crate) hash: PassphraseHash,
    /// The dataset
    #[arg(value_name = "DATASET")]
    pub(crate) name: String,
}

/// The hash of the passphrase in a new slot.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct PassphraseHash {
    /// The hash of a passphrase; default: argon2id, or pbkdf2 if the daemon is in FIPS mode
    #[arg(long, value_enum, value_name = "HASH")]
    pub(crate) pbkdf: Option<SlotPbkdf>,
}

/// A hash of passphrases.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum SlotPbkdf {
    Argon2id,
    Pbkdf2,
}

impl From<SlotPbkdf> for Pbkdf {
    fn from(hash: SlotPbkdf) -> Pbkdf {
        match hash {
            SlotPbkdf::Argon2id => Pbkdf::Argon2id,
            SlotPbkdf::Pbkdf2 => Pbkdf::Pbkdf2,
        }
    }
}

/// Remove a slot: its passphrase or key no longer opens the dataset
///
/// The key must be loaded. The last slot cannot be removed. One of the other slots must open with the key
/// of the property `keysource`; -o sets a new key location. The wrapping key itself stays. A person who
/// opened the dataset with the removed key could have copied it: `key change --only` makes a new wrapping
/// key.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Show the slots, and remove one:
    strongroom key slots tank/home
    strongroom key remove tank/home 1

  Remove the first slot, and set another key location:
    strongroom key remove -o keysource=hex,file:///root/escrow.key tank/home 0

EXIT CODES
  1 if it is the last slot, or the dataset inherits its key; 2 if the keysource would open no
  slot; 3 if there is no such dataset or slot; 8 if the key is not loaded.")]
pub(crate) struct KeyRemoveArgs {
    /// The key location from now on: `keysource=FORMAT,LOCATION`
    #[arg(short = 'o', value_name = "PROPERTY=VALUE", value_parser = keysource_option)]
    pub(crate) keysource: Option<String>,
    /// Remove it even if the keysource then opens no slot
    #[arg(short)]
    pub(crate) force: bool,
    /// The dataset
    #[arg(value_name = "DATASET")]
    pub(crate) name: String,
    /// The number of the slot
    #[arg(value_name = "SLOT")]
    pub(crate) slot: u32,
}

/// Show the key slots of a dataset
///
/// A slot is one passphrase or key that opens the wrapping key. For a dataset that inherits its key, shows
/// the slots of the dataset that has the key. No key is needed.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  All slots:
    strongroom key slots tank/home

JSON
  [{\"key_root\", \"slot\", \"kind\", \"priority\", \"created\", \"cost\"}, ...]
  A kind is passphrase, key, token, tang, tpm2, sss or unknown; times are seconds since 1970.

EXIT CODES
  1 if the dataset is not encrypted; 3 if there is no such dataset; 9 if the keyring is damaged.")]
pub(crate) struct KeySlotsArgs {
    /// Print no header, and tabs between columns
    #[arg(short = 'H')]
    pub(crate) script: bool,
    /// The dataset
    #[arg(value_name = "DATASET")]
    pub(crate) name: String,
}

/// Find the key slot that a key opens
///
/// For an old passphrase or key, whose format or slot is not known any more. Tries it in every format that it can have,
/// on every slot. Says which slot opened and what to do next. Loads nothing and changes nothing; the key may be loaded
/// already.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  A passphrase or the digits of a key, which the command asks for:
    strongroom key recover tank/home

  A file from the safe:
    strongroom key recover -L file:///media/stick/escrow.key tank/home

EXIT CODES
  1 if the dataset inherits its key; 3 if there is no such dataset; 7 if no slot opens; 8 if the
  key cannot be read; 9 if the keyring is damaged.")]
pub(crate) struct KeyRecover {
    /// Read the key from here: `prompt`, `file:///PATH` or another location
    #[arg(short = 'L', value_name = "LOCATION", default_value = "prompt")]
    pub(crate) location: String,
    #[command(flatten)]
    pub(crate) cost: HashCost,
    /// The dataset
    #[arg(value_name = "DATASET")]
    pub(crate) name: String,
}

/// Back up the keyring of a dataset, or all keyrings of a pool, to a file
///
/// If the key area of a pool is lost, all data that its keys encrypt is lost. `key restore` puts the copy back. The
/// file also has the keyrings of datasets that inherit this key. With the name of a pool it has all keyrings of the
/// pool. Each dataset is restored from it by its name. Keys stay wrapped. The file opens with the passphrases and keys
/// of today, even after you change them. Keep it as you keep a key. Make a new backup after `key rotate` and after each
/// key change. No key is needed.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  A backup that is kept elsewhere:
    strongroom key backup tank/home /media/stick/home.keys

  The keys of a whole pool:
    strongroom key backup tank /media/stick/tank.keys

EXIT CODES
  3 if there is no such dataset; 4 if the file exists; 6 if you may not write it; 9 if the keyring
  is damaged.")]
pub(crate) struct KeyBackupArgs {
    /// The dataset
    #[arg(value_name = "DATASET")]
    pub(crate) name: String,
    /// The file to create
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

/// Restore the keyring of a dataset from a backup
///
/// The command replaces and overwrites the keyrings of the dataset and of those that inherit its key.
/// Passphrases and keys are then those of the time of the backup. A backup of another dataset is refused,
/// and so is a backup without keys that records need. Unless the present keyring is damaged, a passphrase
/// or key of the backup must open the backup first. The datasets must not be mounted. On a terminal it asks
/// for confirmation; without one, -f is needed.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  After the key area was damaged:
    strongroom key restore tank/home /media/stick/home.keys

  With a key in another location:
    strongroom key restore -o keysource=hex,file:///media/stick/home.key tank/home \\
      /media/stick/home.keys

JSON
  With -f, an array of the names of the datasets.

EXIT CODES
  1 if the answer was no, or keys would be missing; 2 if the backup is of other datasets, or there
  is neither a terminal nor -f; 3 if there is no such dataset or file; 5 if it is mounted; 7 if
  the key does not open the backup; 8 if the key cannot be read; 9 if the backup is damaged.")]
pub(crate) struct KeyRestoreArgs {
    /// Do not ask for confirmation
    #[arg(short)]
    pub(crate) force: bool,
    /// Read the key that opens the backup from here
    #[arg(short = 'o', value_name = "PROPERTY=VALUE", value_parser = keysource_option)]
    pub(crate) keysource: Option<String>,
    /// The dataset
    #[arg(value_name = "DATASET")]
    pub(crate) name: String,
    /// The backup
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

fn keysource_option(text: &str) -> Result<String, String> {
    match text.strip_prefix("keysource=") {
        Some(value) => Ok(value.into()),
        None if is_keysource(text) => Ok(text.into()),
        None => {
            Err("only keysource can be changed, as in keysource=hex,file:///etc/keys/home".into())
        }
    }
}

/// Show whether keys are loaded, and their locations
///
/// KEYROOT is the dataset that has the key: this dataset, or one above it. Datasets without encryption are
/// shown only if you name them.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  All encrypted datasets:
    strongroom key status

  For a script:
    strongroom key status -H tank/home

JSON
  [{\"name\", \"key_root\", \"status\", \"keysource\"}, ...]

EXIT CODES
  3 if there is no such dataset.")]
pub(crate) struct KeyStatusArgs {
    /// Print no header, and tabs between columns
    #[arg(short = 'H')]
    pub(crate) script: bool,
    /// Datasets; default: all encrypted datasets
    #[arg(value_name = "DATASET")]
    pub(crate) names: Vec<String>,
}

/// Show the wrong keys that users tried within the last hour
///
/// Each row is a dataset or the device of a LUKS container, and a user. COUNT is the number of wrong
/// passphrases or keys, at most 100. Ten of them are an alert: an event, a message of `strongroom notify`, and an alert of
/// Prometheus. Thirty of `several things` are one too. The daemon forgets them when it ends. Only root sees them.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Look who guesses:
    strongroom key tries

JSON
  [{\"name\", \"user\", \"count\", \"last\"}, ...]

EXIT CODES
  6 if the caller is not root.")]
pub(crate) struct KeyTriesArgs {
    /// Print no header, and tabs between columns
    #[arg(short = 'H')]
    pub(crate) script: bool,
}

/// The form in which `keygen` writes a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum KeyFormat {
    /// The bytes as they are
    Raw,
    /// Hexadecimal digits and a newline
    Hex,
}

/// The length of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum KeyBits {
    /// For the suites aes-128-gcm and aes-128-ccm
    #[value(name = "128")]
    Short = 128,
    /// For the suites aes-192-gcm and aes-192-ccm
    #[value(name = "192")]
    Middle = 192,
    /// For every suite
    #[value(name = "256")]
    Long = 256,
}

/// Generate a random key in a file or a token
///
/// The key has 256 bits, or with --keylen as many as the suites aes-128-* and aes-192-* use. Only the owner can read the file. The command never overwrites a file, because it
/// may hold the only copy of a key. Keep a copy elsewhere: without the key, the data is lost.
///
/// A pkcs11: URI (RFC 7512) with the path of its module makes an AES key in a PKCS#11 token. The key cannot
/// be extracted. The command asks for the PIN, or reads it from the file of pin-source. The module must be
/// in the list /etc/strongroom/pkcs11, or for an ordinary user in ~/.config/strongroom/pkcs11.
///
/// The operands of `pktool genkey` of Solaris are understood: keystore=file, outkey=FILE, keytype=aes and
/// keylen=BITS.
#[derive(Args, Debug)]
#[command(
    override_usage = "strongroom keygen [--format FORMAT] [--keylen BITS] [--pkcs11-list FILE] <FILE|pkcs11:URI>\n       \
                      strongroom keygen genkey keystore=file outkey=FILE [NAME=VALUE...]",
    after_help = "\
EXAMPLES
  A key, and a dataset that uses it:
    strongroom keygen /etc/keys/home
    strongroom create -o encryption=on -o keysource=raw,file:///etc/keys/home tank/home

  A key that can be printed on paper:
    strongroom keygen --format hex home.key

  A key of 128 bits for a cipher of 128 bits:
    strongroom keygen --keylen 128 /etc/keys/old
    strongroom create -o encryption=aes-128-ccm -o keysource=raw,file:///etc/keys/old tank/old

  The same in the words of Solaris:
    strongroom keygen genkey keystore=file keytype=aes keylen=128 outkey=/etc/keys/older

  A key that stays in a token:
    strongroom keygen 'pkcs11:token=pool;object=home?module-path=/usr/lib/softhsm/libsofthsm2.so'
    strongroom create -o encryption=on \\
        -o 'keysource=raw,pkcs11:object=home?module-path=/usr/lib/softhsm/libsofthsm2.so' tank/home

EXIT CODES
  4 if the file or the key in the token exists; 6 if you may not write the file; 7 if the PIN is
  wrong; 8 if the token is missing."
)]
pub(crate) struct Keygen {
    /// The format of the file
    #[arg(long, value_enum, default_value = "raw")]
    pub(crate) format: KeyFormat,
    /// Bits of the key; default: 256
    #[arg(long, value_enum, value_name = "BITS")]
    pub(crate) keylen: Option<KeyBits>,
    /// Use this list of PKCS#11 modules instead of /etc/strongroom/pkcs11
    #[arg(long, value_name = "FILE")]
    pub(crate) pkcs11_list: Option<PathBuf>,
    /// The file to create, a key in a token, or the operands of pktool genkey
    #[arg(value_name = "FILE|pkcs11:URI", required = true)]
    pub(crate) places: Vec<PathBuf>,
}
