//! Keys: loading, unloading and changing them, and making key files.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};

use super::values::is_keysource;

/// Load, unload, change, add and back up the keys of encrypted datasets
///
/// A dataset that is created encrypted has a wrapping key, or uses the one of the dataset above it. The
/// property `keysource=FORMAT,LOCATION` says where that key comes from: FORMAT is `passphrase`, `hex` or
/// `raw`, LOCATION is `prompt`, `file:///PATH`, `https://HOST/PATH` (with `#ca=/FILE` behind it, only that
/// file vouches for the server), `exec:///PROGRAM` or `unix:///SOCKET` (a program that is started or listens)
/// or `pkcs11:URI` (a token); see KEY-PROVIDERS in the documentation. Only `prompt` ever asks somebody. While the key is not
/// loaded, names, contents and sizes of files are unreadable; scrubs, snapshots and destruction still
/// work. A wrapping key can have several slots: each is a passphrase or key that opens it.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
EXAMPLES
  Which keys are loaded:
    strongroom key status

  Load one, and unload it:
    strongroom key load tank/home
    strongroom key unload tank/home

  A second key, for the safe, and a copy of the keyring:
    strongroom keygen --format hex escrow.key
    strongroom key add -o keysource=hex,file:///root/escrow.key tank/home
    strongroom key backup tank/home home.keys")]
pub(crate) enum Key {
    #[command(short_flag = 'l')]
    Load(KeyLoad),
    #[command(short_flag = 'u')]
    Unload(KeyUnload),
    Accept(KeyAccept),
    #[command(short_flag = 'c')]
    Change(KeyChange),
    #[command(short_flag = 'K')]
    Rotate(KeyRotate),
    Generations(KeyGenerations),
    Status(KeyStatus),
    Add(KeyAdd),
    Remove(KeyRemove),
    Slots(KeySlots),
    Backup(KeyBackup),
    Restore(KeyRestore),
}

/// Load the keys of datasets
///
/// Reads each key from where `keysource` says, or asks for it. On a terminal a passphrase is read
/// without showing it; if the standard input is no terminal, one line is read from there for each key.
/// Datasets that use the key of one above them need nothing of their own. Nothing is mounted; see
/// `strongroom mount -l`.
#[derive(Args, Debug)]
#[command(
    group = ArgGroup::new("which").args(["all", "names"]).required(true),
    override_usage = "strongroom key load [-r] [-n] [-L LOCATION|-o keysource=...] <-a|DATASET...>",
    after_help = "\
EXAMPLES
  One key, from where it belongs:
    strongroom key load tank/home

  All keys of a pool:
    strongroom key load -r tank

  From a copy in another place; or only try whether it is the right one:
    strongroom key load -L file:///media/stick/home.key tank/home
    strongroom key load -n -L file:///media/stick/home.key tank/home

  By a key of another kind, which another slot takes:
    strongroom key load -o keysource=hex,file:///media/stick/escrow.key tank/home

  In a script:
    strongroom key load tank/home < passphrase

EXIT CODES
  3 if there is no such dataset; 4 if the key is loaded already; 7 if the key is wrong; 8 if it
  cannot be read; 9 if what it unlocks is damaged."
)]
pub(crate) struct KeyLoad {
    /// The keys of all datasets of all pools
    #[arg(short, conflicts_with = "names")]
    pub(crate) all: bool,
    /// Of datasets below them too
    #[arg(short)]
    pub(crate) recursive: bool,
    /// Only try whether the key is the right one
    #[arg(short = 'n')]
    pub(crate) dry_run: bool,
    /// Read it from here instead: `prompt`, `file:///PATH` or another location
    #[arg(short = 'L', value_name = "LOCATION")]
    pub(crate) location: Option<String>,
    /// The same with its format: `keysource=FORMAT,LOCATION`
    #[arg(
        short = 'o',
        value_name = "PROPERTY=VALUE",
        value_parser = keysource_option,
        conflicts_with = "location"
    )]
    pub(crate) keysource: Option<String>,
    /// Datasets
    #[arg(value_name = "DATASET")]
    pub(crate) names: Vec<String>,
}

/// Unload the keys of datasets
///
/// Afterwards names and contents cannot be reached, and what was cached of them is wiped. Datasets that
/// use the key must not be mounted, unless -f is given, which unmounts them.
#[derive(Args, Debug)]
#[command(
    group = ArgGroup::new("which").args(["all", "names"]).required(true),
    override_usage = "strongroom key unload [-r] [-f] <-a|DATASET...>",
    after_help = "\
EXAMPLES
  One key:
    strongroom unmount tank/home
    strongroom key unload tank/home

  All keys at once, whatever is open:
    strongroom key unload -a -f

EXIT CODES
  3 if there is no such dataset; 5 if something that uses the key is mounted; 8 if the key is
  not loaded."
)]
pub(crate) struct KeyUnload {
    /// The keys of all datasets of all pools
    #[arg(short, conflicts_with = "names")]
    pub(crate) all: bool,
    /// Of datasets below them too
    #[arg(short)]
    pub(crate) recursive: bool,
    /// Unmount what is in use
    #[arg(short)]
    pub(crate) force: bool,
    /// Datasets
    #[arg(value_name = "DATASET")]
    pub(crate) names: Vec<String>,
}

/// Accept where the keys of datasets come from
///
/// A stream, or a pool that this machine has not seen, can name any place for a key: a file, a server, a program or
/// a token. The daemon does not read a key from there before you accept the place. `strongroom get keysource` shows
/// such a place with the source `proposed`. What `create`, `clone`, `key change` and `receive -o keysource` set here is
/// accepted as they set it. `key load -L LOCATION` with the place that is proposed accepts it as well.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Look at the place, and accept it:
    strongroom get keysource backup/home
    strongroom key accept backup/home

  All places of a pool:
    strongroom key accept -r backup

EXIT CODES
  3 if there is no such dataset.")]
pub(crate) struct KeyAccept {
    /// Of datasets below them too
    #[arg(short)]
    pub(crate) recursive: bool,
    /// Datasets
    #[arg(value_name = "DATASET", required = true)]
    pub(crate) names: Vec<String>,
}

/// Put another key or passphrase in the place of a dataset's
///
/// The key must be loaded; the old passphrase is not asked for. No data is read or written: only the
/// wrapped keys are replaced, and the old ones are overwritten on the devices. A dataset that used the
/// key of one above it has one of its own afterwards, and with -i it uses that again. If the key has
/// several slots, say which one gets the new key: the others stay as they are. Copies of the devices
/// made earlier can still be opened with the old key.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  A new passphrase:
    strongroom key change tank/home

  A key in a file instead:
    strongroom keygen /etc/keys/home
    strongroom key change -o keysource=raw,file:///etc/keys/home tank/home

  A new passphrase beside an escrow key, which stays; or in the place of both:
    strongroom key change --slot 0 tank/home
    strongroom key change --only tank/home

  The key of the dataset above again:
    strongroom key change -i tank/home/ann

EXIT CODES
  2 for a keysource that makes no sense, a passphrase that was not typed the same twice, or several
  slots and no choice; 3 if there is no such dataset or slot; 4 if it inherits its key already; 8 if
  the key is not loaded, or the new one cannot be read.")]
pub(crate) struct KeyChange {
    /// Where the new key comes from: `keysource=FORMAT,LOCATION`
    #[arg(short = 'o', value_name = "PROPERTY=VALUE", value_parser = keysource_option)]
    pub(crate) keysource: Option<String>,
    /// Use the key of the dataset above instead; both must be loaded
    #[arg(short, conflicts_with_all = ["keysource", "slot", "only"])]
    pub(crate) inherit: bool,
    /// Put the new key into this slot, and leave the others
    #[arg(long, value_name = "NUMBER", conflicts_with = "only")]
    pub(crate) slot: Option<u32>,
    /// Have the new key be the only one
    #[arg(long)]
    pub(crate) only: bool,
    /// The dataset
    #[arg(value_name = "DATASET")]
    pub(crate) name: String,
}

/// Give a dataset new data keys for what is written from now on
///
/// The key must be loaded. What is stored already stays readable by the older data keys, which are kept in
/// the dataset's keyring; snapshots too. Nothing is read or written but the keyring, so it takes no longer
/// for a large dataset. With --reencrypt what is stored is brought to the new keys in the background, while
/// the dataset is mounted and used; it takes room beside the old until the next commit, and for ever where
/// snapshots keep the old. It leaves 1/16 of the pool free for other writes, and waits where there is less:
/// `get reencryption` and `pool status` say so. It goes on by itself, also after a restart. Older keys that nothing needs any more are destroyed
/// then; those that only snapshots need, when the snapshots are. The passphrase stays; `key change` puts
/// another in its place.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  New keys; also as zfs has it:
    strongroom key rotate tank/home
    strongroom key -K tank/home

  And what is stored, too; how far that is; and a pause:
    strongroom key rotate --reencrypt tank/home
    strongroom get reencryption tank/home
    strongroom key rotate --pause tank/home
    strongroom key rotate --resume tank/home

  Which keys there are, and what needs them:
    strongroom key generations tank/home

EXIT CODES
  1 if the dataset is not encrypted, or there is nothing to pause; 3 if there is no such dataset; 8 if
  the key is not loaded; 11 if there is no room for more keys.")]
pub(crate) struct KeyRotate {
    /// Bring what is stored to the new keys
    #[arg(long)]
    pub(crate) reencrypt: bool,
    /// Make no new keys, and stop bringing what is stored to the newest
    #[arg(long, conflicts_with = "reencrypt")]
    pub(crate) pause: bool,
    /// Make no new keys, and go on, or begin, bringing what is stored to the newest
    #[arg(long, conflicts_with_all = ["reencrypt", "pause"])]
    pub(crate) resume: bool,
    /// The dataset
    #[arg(value_name = "DATASET")]
    pub(crate) name: String,
}

/// Show the data keys of a dataset, and what needs them
///
/// Each rotation makes a generation of data keys. STATE is `newest`; `in use`, if the dataset has records
/// that are sealed with them; `pinned`, if only snapshots have; or `unused`. All metadata of the dataset
/// and of its snapshots is read for this, but no key is needed. `inspect -ddd` shows generations without.
///
/// If the key is loaded, STATE is `foreign` of those that it does not open. They came with a stream that nobody
/// with the key had sent, or were changed on a device. They are not used; the next command that replaces the
/// keyring (key change, key rotate) leaves them out.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  All generations:
    strongroom key generations tank/home

JSON
  [{\"generation\", \"txg\", \"created\", \"state\", \"records\", \"bytes\", \"snapshots\"}, ...]

EXIT CODES
  1 if the dataset is not encrypted; 3 if there is no such dataset; 9 if the keyring is damaged.")]
pub(crate) struct KeyGenerations {
    /// No header, a tab between columns, and exact numbers
    #[arg(short = 'H')]
    pub(crate) script: bool,
    /// The dataset
    #[arg(value_name = "DATASET")]
    pub(crate) name: String,
}

/// Add another way to open a dataset: a second passphrase or key
///
/// The key must be loaded. The new passphrase or key opens the same wrapping key as those that are there;
/// they stay. Prints the number of the new slot. The property `keysource` stays as it is; to load by the
/// new key where it is of another kind, use `key load -o keysource=...`.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  A second passphrase:
    strongroom key add tank/home

  An escrow key that lies in a safe:
    strongroom keygen --format hex escrow.key
    strongroom key add -o keysource=hex,file:///root/escrow.key tank/home

JSON
  The number of the slot.

EXIT CODES
  1 if the dataset has its key from one above it, or all 32 slots are in use; 3 if there is no such
  dataset; 8 if the key is not loaded, or the new one cannot be read.")]
pub(crate) struct KeyAdd {
    /// Where the new key comes from: `keysource=FORMAT,LOCATION`; a passphrase is asked for if not given
    #[arg(short = 'o', value_name = "PROPERTY=VALUE", value_parser = keysource_option)]
    pub(crate) keysource: Option<String>,
    /// Slots with a higher priority are tried first
    #[arg(short, value_name = "NUMBER", default_value_t = 128)]
    pub(crate) priority: u8,
    /// The dataset
    #[arg(value_name = "DATASET")]
    pub(crate) name: String,
}

/// Remove a slot, so that its passphrase or key opens the dataset no more
///
/// The key must be loaded. The last slot stays, since without it nobody could open the dataset. What the
/// property `keysource` says must open one of the slots that are left; -o says where the key comes from
/// then. The wrapping key itself stays: whoever opened the dataset with the removed key could have copied
/// it; `key change --only` makes another.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Which slots there are, and without one of them:
    strongroom key slots tank/home
    strongroom key remove tank/home 1

  The first, and the key comes from elsewhere then:
    strongroom key remove -o keysource=hex,file:///root/escrow.key tank/home 0

EXIT CODES
  1 if it is the last one, or the dataset has its key from one above it; 2 if nothing is left for
  the keysource; 3 if there is no such dataset or slot; 8 if the key is not loaded.")]
pub(crate) struct KeyRemove {
    /// Where the key comes from then: `keysource=FORMAT,LOCATION`
    #[arg(short = 'o', value_name = "PROPERTY=VALUE", value_parser = keysource_option)]
    pub(crate) keysource: Option<String>,
    /// Even if the keysource opens nothing then
    #[arg(short)]
    pub(crate) force: bool,
    /// The dataset
    #[arg(value_name = "DATASET")]
    pub(crate) name: String,
    /// The number of the slot
    #[arg(value_name = "SLOT")]
    pub(crate) slot: u32,
}

/// Show the slots of a dataset's key
///
/// A slot is one passphrase or key that opens the wrapping key. Of a dataset that has its key from one
/// above it, the slots of that are shown. No key is needed.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  All slots:
    strongroom key slots tank/home

JSON
  [{\"key_root\", \"slot\", \"kind\", \"priority\", \"created\", \"cost\"}, ...]
  A kind is passphrase, key or unknown; times are seconds since 1970.

EXIT CODES
  1 if the dataset is not encrypted; 3 if there is no such dataset; 9 if the keyring is damaged.")]
pub(crate) struct KeySlots {
    /// No header, and a tab between columns
    #[arg(short = 'H')]
    pub(crate) script: bool,
    /// The dataset
    #[arg(value_name = "DATASET")]
    pub(crate) name: String,
}

/// Copy the keyring of a dataset into a file
///
/// If the key area of a pool is lost, so is everything that its keys encrypt; `key restore` puts the copy
/// back. The keyrings of datasets that have their key from this one are copied too. Keys stay wrapped: the
/// file opens with the passphrases and keys that open the dataset now, also after these were changed. So
/// keep it like a key. Make another after `key rotate`, and after each change. No key is needed.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  A copy, to be kept elsewhere:
    strongroom key backup tank/home /media/stick/home.keys

EXIT CODES
  3 if there is no such dataset; 4 if the file exists; 6 if it may not be written; 9 if the keyring
  is damaged already.")]
pub(crate) struct KeyBackup {
    /// The dataset
    #[arg(value_name = "DATASET")]
    pub(crate) name: String,
    /// The file to make
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

/// Put a copy of a dataset's keyring back
///
/// The keyrings that the dataset and those below it have now are replaced and overwritten: passphrases and
/// keys are those of the time of the copy. A copy of another dataset is refused, and so is one that lacks
/// keys which records are encrypted with. Unless the keyring that is there is damaged, the copy has to be
/// opened first: by the passphrase or key of the time of the copy. Nothing of it may be mounted. On a
/// terminal it asks first; without one, -f is needed.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  After the key area was damaged:
    strongroom key restore tank/home /media/stick/home.keys

  Opened by a key that is elsewhere now:
    strongroom key restore -o keysource=hex,file:///media/stick/home.key tank/home \\
      /media/stick/home.keys

JSON
  With -f, an array of the names of the datasets.

EXIT CODES
  1 if the answer was no, or keys would be missing; 2 if the copy is of other datasets, or there is
  neither a terminal nor -f; 3 if there is no such dataset or file; 5 if it is mounted; 7 if the key
  does not open the copy; 8 if it cannot be read; 9 if the copy is damaged.")]
pub(crate) struct KeyRestore {
    /// Do not ask whether to replace them
    #[arg(short)]
    pub(crate) force: bool,
    /// Read the key that opens the copy from here
    #[arg(short = 'o', value_name = "PROPERTY=VALUE", value_parser = keysource_option)]
    pub(crate) keysource: Option<String>,
    /// The dataset
    #[arg(value_name = "DATASET")]
    pub(crate) name: String,
    /// The copy
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

/// Show whether keys are loaded, and where they come from
///
/// KEYROOT is the dataset whose key unlocks this one: itself, or one above it. Datasets that are not
/// encrypted are not shown unless they are named.
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
pub(crate) struct KeyStatus {
    /// No header, and a tab between columns
    #[arg(short = 'H')]
    pub(crate) script: bool,
    /// Datasets; all if none is named
    #[arg(value_name = "DATASET")]
    pub(crate) names: Vec<String>,
}

/// How `keygen` writes a key down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum KeyFormat {
    /// 32 bytes as they are
    Raw,
    /// 64 hexadecimal digits and a newline
    Hex,
}

/// Make a new random key in a file or a token
///
/// The key has 256 bits. Only the owner can read the file, and a file that exists is never overwritten:
/// it may hold the only copy of a key. Keep a copy elsewhere: what is encrypted by a key that is lost is
/// lost. In a PKCS#11 token, named by a pkcs11: URI (RFC 7512) with the path of its module, an AES key is made
/// that cannot be taken out; the PIN is asked for, or read from the file that pin-source names. The module has to be
/// in the list /etc/strongroom/pkcs11, or of an ordinary user in ~/.config/strongroom/pkcs11.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  A key, and a dataset that uses it:
    strongroom keygen /etc/keys/home
    strongroom create -o encryption=on -o keysource=raw,file:///etc/keys/home tank/home

  One that can be printed on paper:
    strongroom keygen --format hex home.key

  One that stays in a token:
    strongroom keygen 'pkcs11:token=pool;object=home?module-path=/usr/lib/softhsm/libsofthsm2.so'
    strongroom create -o encryption=on \\
        -o 'keysource=raw,pkcs11:object=home?module-path=/usr/lib/softhsm/libsofthsm2.so' tank/home

EXIT CODES
  4 if the file or the key in the token exists; 6 if it may not be written; 7 if the PIN is wrong;
  8 if the token is not there.")]
pub(crate) struct Keygen {
    /// How to write it down
    #[arg(long, value_enum, default_value = "raw")]
    pub(crate) format: KeyFormat,
    /// Load a PKCS#11 module in this list, and not one in /etc/strongroom/pkcs11
    #[arg(long, value_name = "FILE")]
    pub(crate) pkcs11_list: Option<PathBuf>,
    /// The file to make, or the key in a token
    #[arg(value_name = "FILE|pkcs11:URI")]
    pub(crate) file: PathBuf,
}
