//! Sending and receiving.

use clap::Args;

use super::values;

/// Write a snapshot to the standard output, for `receive`
///
/// What is written holds the whole snapshot, or with -i only what is new since an earlier one. With -w the
/// records travel as they are stored, sealed, and no key has to be loaded here or there; with them travel
/// the wrapped keys and where the key comes from, so that the copy opens with the same passphrase or key.
/// Whoever reads the stream sees what the devices show: names of the dataset and the snapshot, sizes,
/// properties, wrapped keys; not contents, and no names of files.
///
/// Without -w THE STREAM IS PLAIN TEXT, also of an encrypted dataset, whose key has to be loaded: contents and
/// names of all files, for everyone who sees it. Send it over a pipe or an encrypted connection, not to a file.
/// Whoever receives it seals it with keys of his own, or compresses it as his properties say. It cannot go on
/// after an interruption.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  A copy in another pool, and in the same way over the network:
    strongroom send -w tank/home@monday | strongroom receive backup/home
    strongroom send -w tank/home@monday | ssh host strongroom receive backup/home

  A day later, what is new since then:
    strongroom send -w -i @monday tank/home@tuesday | strongroom receive backup/home

  A copy with keys of its own; the stream is plain text:
    strongroom send tank/home@monday | strongroom receive -o encryption=on backup/home
    strongroom send -i @monday tank/home@tuesday | strongroom receive backup/home

  A dataset that was not encrypted becomes one that is:
    strongroom send tank/old@now | strongroom receive tank/vault/new

  A file, and the rest of a receive that was interrupted:
    strongroom send -w tank/home@monday > /media/stick/home.stream
    strongroom get -H -o value receive_resume_token backup/home
    strongroom send -w -t 0100... | strongroom receive -s backup/home

EXIT CODES
  2 if there is a terminal where the stream should go, or for a snapshot that is no earlier one;
  3 if there is no such snapshot; 8 if the dataset is encrypted, its key is not loaded, and -w is
  not given; 9 if a record is damaged in every copy: what was written so far cannot be received.")]
pub(crate) struct Send {
    /// As it is stored, sealed, without a key; otherwise it is plain text
    #[arg(short = 'w')]
    pub(crate) raw: bool,
    /// Only what is new since this snapshot, as DATASET@SNAPSHOT or @SNAPSHOT
    #[arg(short = 'i', value_name = "SNAPSHOT", conflicts_with = "all_from")]
    pub(crate) from: Option<String>,
    /// The same, with all snapshots between them
    #[arg(short = 'I', value_name = "SNAPSHOT")]
    pub(crate) all_from: Option<String>,
    /// With the properties that are set at the dataset
    #[arg(short)]
    pub(crate) props: bool,
    /// What an interrupted receive lacks; its property receive_resume_token says this
    #[arg(short = 't', value_name = "TOKEN", conflicts_with_all = ["from", "all_from", "snapshot"])]
    pub(crate) token: Option<String>,
    /// Say how much was written, on the standard error
    #[arg(short)]
    pub(crate) verbose: bool,
    /// The snapshot
    #[arg(value_name = "SNAPSHOT", required_unless_present = "token")]
    pub(crate) snapshot: Option<String>,
}

/// Make a dataset, or its next snapshot, of what `send` wrote
///
/// A full stream makes a dataset with one snapshot; one made with -i adds a snapshot to a dataset that has
/// the one before as its newest and was not changed since. What is received is seen when all of it is
/// there, and has been compared with what the stream says; until then, and after a failure, the dataset is
/// as it was. What is received is not mounted.
///
/// If the dataset is not there, and the pool has the snapshot that the stream goes on from, a new dataset is made as a
/// clone of that snapshot: send -i ORIGIN CLONE@SNAPSHOT sends a clone after its origin.
///
/// A dataset that is mounted stays so while a stream comes, and is mounted again at the end, with the new contents. If
/// one of its files is open then, or somebody's working directory is in it, the receive fails and the dataset stays as
/// it was. With -F such files give errors instead. Reading can change access times, which counts as a change: turn
/// `atime` off on a copy that people read.
///
/// What was sent with -w comes with its keys: none has to be loaded, and a dataset keeps its key slots whatever a
/// stream brings. What was sent without -w is plain text and is sealed here: a new dataset is encrypted as the one
/// above, whose key has to be loaded, or as -o encryption and -o keysource say, as with `create`. What comes from
/// an encrypted dataset stays in the clear only if -o encryption=off (or -x encryption, where nothing above is
/// encrypted) says so. What is added to a dataset is sealed with its keys. A passphrase for a new key is asked for on
/// the terminal, never read from the stream.
///
/// A stream says nothing about this machine. Of its properties those are taken that belong to the contents; a new
/// dataset has canmount=noauto, setuid=off and devices=off, and a place of its key is only proposed (see
/// `strongroom key accept`). -o sets a property, and -x has it be what it is without the stream: -x setuid -x devices
/// trusts the programs and devices in it, -x canmount has it mount by itself.
///
/// With -s, what was received before an interruption is kept, and the property receive_resume_token says
/// with which token `send -t` makes the rest; -A throws it away.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  A new dataset from a file:
    strongroom receive backup/home < /media/stick/home.stream

  What is new, although somebody has written to the copy:
    strongroom send -w -i @monday tank/home@tuesday | strongroom receive -F backup/home

  Plain text into a dataset with a key of its own:
    strongroom receive -o encryption=on -o keysource=raw,file:///etc/key backup/home < home.stream

  All that a trusted sender sends, to be mounted like any dataset:
    strongroom receive -x canmount -x setuid -x devices backup/home < home.stream

  Look at it, with the key of where it comes from:
    strongroom key load backup/home
    strongroom mount backup/home

EXIT CODES
  2 if the stream does not fit: the dataset is there already, lacks the snapshot, has newer ones or
  was changed, has other keys, or would be in the clear; 3 if there is nothing above it; 5 if it is
  in use; 9 if the stream is damaged or ends too early; 11 if there is no room.")]
pub(crate) struct Receive {
    /// Take the dataset back to the snapshot that the stream goes on from; newer ones are destroyed
    #[arg(short = 'F')]
    pub(crate) force: bool,
    /// Keep what came if it is interrupted; not of what comes in the clear
    #[arg(short = 's')]
    pub(crate) resumable: bool,
    /// Throw away what an interrupted receive left
    #[arg(short = 'A', conflicts_with_all = ["force", "resumable", "props", "exclude"])]
    pub(crate) abandon: bool,
    /// Set a property of a new dataset; of what comes in the clear also encryption and keysource
    #[arg(short = 'o', value_name = "PROPERTY=VALUE", value_parser = values::property)]
    pub(crate) props: Vec<(String, String)>,
    /// Leave a property as it is without the stream
    #[arg(short = 'x', value_name = "PROPERTY")]
    pub(crate) exclude: Vec<String>,
    /// Say what was received, on the standard error
    #[arg(short)]
    pub(crate) verbose: bool,
    /// The dataset, or DATASET@SNAPSHOT to give the snapshot another name
    #[arg(value_name = "DATASET")]
    pub(crate) target: String,
}
