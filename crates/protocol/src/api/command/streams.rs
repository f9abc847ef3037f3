//! The commands for streams of datasets, and for anchors of their states.

use super::history::{HistoryText, HistoryValue, LEFT_OUT};
use crate::api::arguments::{Props, ReceiveName, SendScope, each_once};
use crate::api::reports::DatasetAnchor;

requests! {
    /// Send a snapshot: data follows.
    Send: Reads, "send" ["-n" estimate, "-p" props, "-w" raw, what] {
        /// The states that are sent.
        what: SendScope,
        /// True if records are sent as they are stored.
        #[serde(default)]
        raw: bool,
        /// With the properties of the dataset.
        #[serde(default)]
        props: bool,
        /// Send nothing: tell what would be sent.
        #[serde(default)]
        estimate: bool,
    }

    /// Receive what is sent: data follows once the daemon is ready.
    Receive: Changes, "receive" [
        "-d" naming.eq(&ReceiveName::Path), "-e" naming.eq(&ReceiveName::Last), "-F" force, "-n" dry_run,
        "-s" resumable, "-u" no_mount, "-o" props, "-x" sorted_exclude(), target,
    ] {
        /// A dataset, or a snapshot of one by its whole name.
        target: String,
        /// The rule by which the names of received datasets are made.
        naming: ReceiveName,
        /// Take it back to where the stream goes on.
        #[serde(default)]
        force: bool,
        /// Keep what came if it is interrupted.
        #[serde(default)]
        resumable: bool,
        /// Do not mount it again.
        #[serde(default)]
        no_mount: bool,
        /// Change nothing: tell what would be received.
        #[serde(default)]
        dry_run: bool,
        /// Properties for it, in the place of those that came.
        props: Props,
        /// Properties that are left out.
        #[serde(deserialize_with = "each_once")]
        exclude: Vec<String>,
    }

    /// Throw away what an interrupted receive left.
    ReceiveAbandon: Changes, "receive -A" [target] {
        /// The dataset.
        target: String,
    }

    /// Read all records of snapshots, and check them.
    Verify: Reads, "verify" ["--challenge" challenge, names] {
        /// Snapshots, and datasets with all their snapshots.
        #[serde(deserialize_with = "each_once")]
        names: Vec<String>,
        /// The key of the proof, 64 hexadecimal digits.
        #[serde(default)]
        challenge: Option<String>,
    }

    /// Make anchors of the state of datasets, to keep elsewhere.
    Anchor: Reads, "anchor" [names] {
        /// With everything below them; all if none is named.
        #[serde(deserialize_with = "each_once")]
        names: Vec<String>,
    }

    /// Compare datasets with what was kept.
    AnchorVerify: Reads, "anchor verify" [] {
        /// The anchors that were kept.
        anchors: Vec<DatasetAnchor>,
    }

    /// Accept the present states of datasets, although this machine has seen later ones.
    AnchorAccept: Changes, "anchor accept" [names] {
        /// The datasets.
        #[serde(deserialize_with = "each_once")]
        names: Vec<String>,
    }
}

impl HistoryValue for SendScope {
    fn write(&self, _: &str, line: &mut HistoryText) {
        match self {
            SendScope::Snapshot {
                name,
                from,
                all,
                replicate,
            } => {
                let since = if *all { "-I" } else { "-i" };
                line.add("-R", *replicate).add(since, from).add("", name);
            }
            SendScope::Rest { of, .. } => {
                line.add("-t", LEFT_OUT).add("", of);
            }
        }
    }
}

impl Receive {
    fn sorted_exclude(&self) -> Vec<String> {
        let mut exclude = self.exclude.clone();
        exclude.sort();
        exclude
    }
}
