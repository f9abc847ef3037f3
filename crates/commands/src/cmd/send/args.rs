//! Sending and receiving.

use clap::Args;
use console::values;

/// Write a snapshot to the standard output, for `receive`
///
/// The stream holds the whole snapshot, or with -i the changes since an earlier snapshot. With -w it carries the
/// records as they are stored, sealed: no side needs a key. The stream also carries the wrapped keys and the key
/// location. So the copy opens with the same passphrase or key. A reader of the stream sees what the devices show:
/// names of the dataset and the snapshot, sizes, properties and wrapped keys; no contents and no names of files.
///
/// Without -w THE STREAM IS PLAIN TEXT, also for an encrypted dataset, whose key must be loaded. Everyone
/// who sees the stream can read contents and names of files. Send it over a pipe or an encrypted
/// connection, not to a file. The receiver encrypts and compresses the copy by its own properties.
///
/// With -t the token says whether the stream was plain text. Give -w too if it was not: then no token of the
/// receiver can ask for plain text.
///
/// With -R the streams of a dataset and of all datasets below it follow each other. Clones whose origin is among them
/// become clones again. With -i or -I a dataset that has the earlier snapshot sends the changes since then. A dataset
/// without it sends everything. A dataset without the snapshot to send is left out.
///
/// The sizes of -v and -P are those of the streams, to the byte. They are found before anything is sent: the nodes
/// that differ are read, and no records. Lines of -P are `full SNAPSHOT SIZE`, `incremental FROM SNAPSHOT SIZE` and
/// `size SIZE` for all together, with tabs between the words.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  A copy in another pool; a copy on another host:
    strongroom send -w tank/home@monday | strongroom receive backup/home
    strongroom send -w tank/home@monday | ssh host strongroom receive backup/home

  A day later, only the changes:
    strongroom send -w -i @monday tank/home@tuesday | strongroom receive backup/home

  The changes since a bookmark, whose snapshot is destroyed:
    strongroom send -w -i '#monday' tank/home@tuesday | strongroom receive backup/home

  A copy with its own keys; the stream is plain text:
    strongroom send tank/home@monday | strongroom receive -o encryption=on backup/home
    strongroom send -i @monday tank/home@tuesday | strongroom receive backup/home

  An encrypted copy of a dataset without encryption:
    strongroom send tank/old@now | strongroom receive tank/vault/new

  A dataset with those below it, and what is new a day later:
    strongroom send -R -w tank/home@monday | strongroom receive backup/home
    strongroom send -R -w -I @monday tank/home@tuesday | strongroom receive -F backup/home

  How large the stream will be:
    strongroom send -n -v -w -i @monday tank/home@tuesday

  To a file; the rest of an interrupted receive:
    strongroom send -w tank/home@monday > /media/stick/home.stream
    strongroom get -H -o value receive_resume_token backup/home
    strongroom send -w -t 0100... | strongroom receive -s backup/home

JSON
  With -n: [{\"name\", \"from\", \"size\"}, ...] with sizes in bytes.

EXIT CODES
  2 if the standard output is a terminal, or the snapshot of -i is not an earlier one; 3 if there
  is no such snapshot; 8 if the dataset is encrypted, its key is not loaded and -w is not given; 9
  if all copies of a record are damaged: the stream so far cannot be received.")]
pub(crate) struct Send {
    /// Send records as they are stored, sealed, without a key; without -w the stream is plain text
    #[arg(short = 'w')]
    pub(crate) raw: bool,
    /// Send only the changes since this snapshot or bookmark, as DATASET@SNAPSHOT, @SNAPSHOT or #BOOKMARK
    #[arg(short = 'i', value_name = "SNAPSHOT", conflicts_with = "all_from")]
    pub(crate) from: Option<String>,
    /// The same as -i, with all snapshots between the two
    #[arg(short = 'I', value_name = "SNAPSHOT")]
    pub(crate) all_from: Option<String>,
    /// Send the datasets below too, all with their snapshots up to this one, and their properties
    #[arg(short = 'R', conflicts_with = "token")]
    pub(crate) replicate: bool,
    /// Send the properties that are set on the dataset
    #[arg(short)]
    pub(crate) props: bool,
    /// Send the rest of an interrupted receive; its property receive_resume_token has the token
    #[arg(short = 't', value_name = "TOKEN", conflicts_with_all = ["from", "all_from"])]
    pub(crate) token: Option<String>,
    /// Send nothing; with -v or -P print what would be sent, on the standard output
    #[arg(short = 'n')]
    pub(crate) dry_run: bool,
    /// Print each stream with its size, and the progress, on the standard error
    #[arg(short)]
    pub(crate) verbose: bool,
    /// The same as -v, in columns with tabs and exact numbers, for scripts
    #[arg(short = 'P')]
    pub(crate) parsable: bool,
    /// The snapshot; with -t the dataset, which users other than root have to name
    #[arg(value_name = "SNAPSHOT", required_unless_present = "token")]
    pub(crate) snapshot: Option<String>,
}

/// Create a dataset or its next snapshot from a stream of `send`
///
/// A full stream creates a dataset with one snapshot. A stream of -i adds a snapshot to a dataset whose newest
/// snapshot is the earlier one, and which has not changed since. The new data appears when the whole stream has
/// arrived and has been verified. Until then, and after a failure, the dataset stays as it was. A new dataset
/// is not mounted.
///
/// If the dataset does not exist, but the pool has the earlier snapshot, the new dataset becomes a clone of that
/// snapshot. So send -i ORIGIN CLONE@SNAPSHOT sends a clone after its origin.
///
/// A mounted dataset stays mounted during a receive, and shows the new contents at the end. If a process has an open
/// file or its working directory in the dataset, the receive fails. The dataset stays as it was. With -F such files
/// give errors instead. Reading can change access times, which counts as a change: turn `atime` off on a copy that
/// people read.
///
/// A stream of send -w brings its keys: no key needs to be loaded, and an existing dataset keeps its key slots. A
/// stream without -w is plain text and is encrypted here. A new dataset inherits the encryption of the dataset
/// above, whose key must be loaded, or gets its own by -o encryption and -o keysource, as with `create`. A copy of
/// an encrypted dataset is stored in the clear only with -o encryption=off, or with -x encryption where nothing
/// above is encrypted. An increment is encrypted with the keys of its dataset. The command asks for a passphrase at
/// the terminal, and never reads it from the stream.
///
/// A stream decides nothing about this machine. `receive` takes only properties of the contents. A new dataset has
/// canmount=noauto, setuid=off and devices=off, and its key location is only proposed (see `strongroom key accept`).
/// -o sets a property. -x ignores the stream for a property: -x setuid -x devices trusts its programs and devices,
/// -x canmount mounts it automatically.
///
/// With -d or -e the name of each dataset comes with its stream. tank/home/ann goes to DATASET/home/ann with -d, and to
/// DATASET/ann with -e. No stream gets out of DATASET. A key that would have to be typed cannot be asked for then.
///
/// A stream of send -R makes or continues DATASET and the datasets below it, by their names below the one that was sent.
/// With -F root's receive also destroys and renames snapshots as the sender has.
///
/// With -n nothing changes. The whole stream is read, and every frame is verified. It is checked against the dataset,
/// its keys and your permissions. Not checked is what only shows in the pool: free space, quotas, and whether the
/// records make up the snapshot.
///
/// With -s, the data before an interruption is kept. The property receive_resume_token then has the token for
/// `send -t`, which sends the rest; -A discards that data, and so does `destroy` for a copy that does not exist
/// yet: `list` shows it by its name. What came of a plain stream is encrypted with the keys of the
/// copy, which have to be loaded to continue; a new dataset then has to inherit its key.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  A new dataset from a file:
    strongroom receive backup/home < /media/stick/home.stream

  Only the changes; -F discards writes to the copy:
    strongroom send -w -i @monday tank/home@tuesday | strongroom receive -F backup/home

  A plain stream into a dataset with its own key:
    strongroom receive -o encryption=on -o keysource=raw,file:///etc/key backup/home < home.stream

  Look at a stream first; then receive it as backup/home:
    strongroom receive -n -v -d backup < /media/stick/home.stream
    strongroom receive -v -d backup < /media/stick/home.stream

  From a trusted sender, mounted like any dataset:
    strongroom receive -x canmount -x setuid -x devices backup/home < home.stream

  Mount the copy with the key of the sender:
    strongroom key load backup/home
    strongroom mount backup/home

EXIT CODES
  2 if the stream does not fit: the dataset exists already, lacks the snapshot, has newer ones,
  has changed, has other keys, or would be in the clear; 3 if the dataset above does not exist; 5
  if it is in use; 8 if a plain stream needs a key that is not loaded; 9 if the stream is damaged or
  ends too early; 11 if there is no free space.")]
pub(crate) struct Receive {
    /// Roll the dataset back to the earlier snapshot first; newer ones are destroyed
    #[arg(short = 'F')]
    pub(crate) force: bool,
    /// Keep received data after an interruption, so that send -t can send the rest
    #[arg(short = 's')]
    pub(crate) resumable: bool,
    /// Discard the data of an interrupted receive
    #[arg(
        short = 'A',
        conflicts_with_all = ["force", "resumable", "props", "exclude", "path", "last", "dry_run", "no_mount"]
    )]
    pub(crate) abandon: bool,
    /// Receive below DATASET, by the sender's name without its pool; create the datasets between
    #[arg(short = 'd', conflicts_with = "last")]
    pub(crate) path: bool,
    /// Receive below DATASET, by the last part of the sender's name
    #[arg(short = 'e')]
    pub(crate) last: bool,
    /// Check the stream, and change nothing
    #[arg(short = 'n')]
    pub(crate) dry_run: bool,
    /// Do not mount the dataset again that was mounted before
    #[arg(short = 'u')]
    pub(crate) no_mount: bool,
    /// Set a property of a new dataset; for a plain stream also encryption and keysource.
    /// Refused for a dataset that exists
    #[arg(short = 'o', value_name = "PROPERTY=VALUE", value_parser = values::property)]
    pub(crate) props: Vec<(String, String)>,
    /// Ignore the stream for this property
    #[arg(short = 'x', value_name = "PROPERTY")]
    pub(crate) exclude: Vec<String>,
    /// Print what was received, on the standard error
    #[arg(short)]
    pub(crate) verbose: bool,
    /// The dataset, or DATASET@SNAPSHOT to rename the snapshot
    #[arg(value_name = "DATASET")]
    pub(crate) target: String,
}
