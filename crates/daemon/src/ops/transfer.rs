//! Send: the requests, and the part of a stream besides its records. The data goes over the connection of the command.

use std::collections::BTreeMap;
use std::sync::Arc;

use dataset::RecordOpener;
use pool::{Entry, Marked, Position, ResumeToken, SendOf};
use protocol::api::{FailureKind, SendWhat, StreamRow, command};
use protocol::property::{Property, Settable};

use crate::failure::{Failure, Result};
use crate::state::active_pool::ActivePool;
use crate::state::channel::Data;
use crate::state::daemon::Daemon;
use crate::state::keyuses::{KeyNow, WhileLoaded};
use crate::state::properties;
use crate::state::zones::view::View;

/// Records are read ahead by so many threads.
const READERS: usize = 4;

impl Daemon {
    /// Sends.
    pub(crate) fn send(
        &self,
        it: &command::Send,
        data: &Arc<dyn Data>,
        view: Option<&View>,
    ) -> Result<()> {
        let (active, all, root) = self.prepare(it, view)?;
        let _running = self.transfers.begin(data)?;
        let using = |root| active.use_key(root, "a stream that is sent", Some(data));
        let key = KeyNow::new(root.map(using));
        // It may have been unloaded since its data keys were taken.
        root.map(|root| active.loaded_key(root)).transpose()?;
        let mut out = WhileLoaded {
            data: data.writer(),
            key: &key,
        };
        let explained = |failure: Failure| match &*key.borrow() {
            Some(key) => key.explain(failure),
            None => failure,
        };
        for (what, mark) in all {
            let sending = active.pool.send_since(what, mark.as_ref())?;
            let sent = sending.write(&mut out);
            sent.map_err(|error| explained(error.into()))?;
        }
        let ended = out.data.end();
        ended.map_err(|error| explained(pool::Error::StreamIo(error).into()))
    }

    /// Tells what [`Daemon::send`] would send.
    pub(crate) fn estimate(
        &self,
        it: &command::Send,
        view: Option<&View>,
    ) -> Result<Vec<StreamRow>> {
        let (active, all, _) = self.prepare(it, view)?;
        let pool = &active.pool;
        let row = |(what, mark): (SendOf, Option<Marked>)| {
            let from = match (&mark, what.from) {
                (Some(mark), _) => Some(mark.name.clone()),
                (None, from) => from.map(|from| pool.name_of(from)).transpose()?,
            };
            Ok(StreamRow {
                name: pool.name_of(what.to)?,
                from,
                size: pool.send_since(what, mark.as_ref())?.size()?,
            })
        };
        all.into_iter().map(row).collect()
    }

    /// Decides what goes into each stream, before anything is sent. Also returns the key root whose key is needed.
    fn prepare(
        &self,
        it: &command::Send,
        view: Option<&View>,
    ) -> Result<(Arc<ActivePool>, Vec<Prepared>, Option<u64>)> {
        let (active, pieces) = self.pieces(&it.what)?;
        // Only what is sealed goes on after an interruption.
        let raw = it.raw || matches!(it.what, SendWhat::Rest { .. });
        let of = |piece: &Piece| {
            let what = active.send_of(piece, raw, it.props)?;
            Ok((what, piece.mark.clone()))
        };
        let all = pieces.iter().map(of);
        let root = match pieces.first().filter(|_| !raw) {
            Some(piece) => active.key_root(&*active.pool.entry(piece.to)?)?,
            None => 0,
        };
        // Whatever is wrong with one of them is said before anything is sent.
        let all: Vec<Prepared> = all.collect::<Result<_>>()?;
        // Now that it is known which keyrings go with it.
        if let Some(view) = view {
            view.may_send(&active, &pieces)?;
        }
        Ok((active, all, Some(root).filter(|root| *root != 0)))
    }

    /// What is to be sent, one stream behind the other.
    fn pieces(&self, what: &SendWhat) -> Result<(Arc<ActivePool>, Vec<Piece>)> {
        let (name, from, all) = match what {
            SendWhat::Snapshot { name, from, all } => (name, from, *all),
            SendWhat::Rest { token } => return self.rest(token),
        };
        let (active, to) = self.find(name)?;
        if !to.is_snapshot() {
            return Err(Failure::usage(format!(
                "'{name}' is not a snapshot; write DATASET@SNAPSHOT"
            )));
        }
        let from = match from {
            None => None,
            Some(from) if from.contains('#') => {
                let piece = since_bookmark(&active, name, &to, from, all)?;
                return Ok((active, vec![piece]));
            }
            Some(from) => {
                let (dataset, _) = name.split_once('@').unwrap_or((name, ""));
                let whole = match from.starts_with('@') {
                    true => format!("{dataset}{from}"),
                    false => from.clone(),
                };
                Some(active.pool.find(&whole)?)
            }
        };
        let mut pieces = Vec::new();
        let mut last = from;
        if let Some(from) = last.clone().filter(|_| all) {
            for between in active.pool.between(&from, &to) {
                pieces.push(Piece::new(&between, last.as_deref()));
                last = Some(between);
            }
        }
        pieces.push(Piece::new(&to, last.as_deref()));
        Ok((active, pieces))
    }

    fn rest(&self, token: &str) -> Result<(Arc<ActivePool>, Vec<Piece>)> {
        let token = ResumeToken::parse(token)
            .ok_or_else(|| Failure::usage("this is not the token of an interrupted receive"))?;
        for active in self.pools() {
            if let Some((to, from)) = active.pool.snapshots_of(&token) {
                let start = token.next;
                let mark = None;
                return Ok((
                    active,
                    vec![Piece {
                        to,
                        from,
                        mark,
                        start,
                    }],
                ));
            }
            if let Some((to, mark)) = active.pool.bookmark_of(&token) {
                let (start, mark) = (token.next, Some(mark));
                return Ok((
                    active,
                    vec![Piece {
                        to,
                        from: None,
                        mark,
                        start,
                    }],
                ));
            }
        }
        Err(Failure::new(
            FailureKind::NotFound,
            format!(
                "'{}', or the snapshot that its stream began at, is in none of the imported pools",
                token.name
            ),
        ))
    }
}

/// A stream, and the bookmark that it goes on from.
type Prepared = (SendOf, Option<Marked>);

/// The stream of a snapshot that goes on from a bookmark.
fn since_bookmark(
    active: &ActivePool,
    name: &str,
    to: &Entry,
    from: &str,
    all: bool,
) -> Result<Piece> {
    if all {
        return Err(Failure::usage(
            "-I sends all snapshots between two of them; from a bookmark, send with -i",
        ));
    }
    let (dataset, _) = name.split_once('@').unwrap_or((name, ""));
    let mark = match from.starts_with('#') {
        true => active.pool.find_bookmark(&format!("{dataset}{from}"))?,
        false => active.pool.find_bookmark(from)?,
    };
    Ok(Piece {
        mark: Some(mark),
        ..Piece::new(to, None)
    })
}

/// One stream.
pub(crate) struct Piece {
    /// The snapshot that it brings.
    pub(crate) to: u64,
    /// The one that it goes on from.
    pub(crate) from: Option<u64>,
    /// The bookmark that it goes on from.
    pub(crate) mark: Option<Marked>,
    start: Position,
}

impl Piece {
    fn new(to: &Entry, from: Option<&Entry>) -> Piece {
        Piece {
            to: to.id,
            from: from.map(|from| from.id),
            mark: None,
            start: Position::START,
        }
    }
}

impl ActivePool {
    /// What goes into a stream.
    fn send_of(&self, piece: &Piece, raw: bool, props: bool) -> Result<SendOf> {
        let to = self.pool.entry(piece.to)?;
        let head = self.pool.entry(to.parent)?;
        let mut sent = BTreeMap::new();
        if props {
            let known = |name: &str| {
                properties::is_user_property(name)
                    || Property::settable(name).is_some_and(|p| p.settable == Settable::Always)
            };
            let travels = head.props.iter().filter(|(name, _)| known(name));
            sent.extend(travels.map(|(name, value)| (name.clone(), value.clone())));
        }
        let (mut keyring, mut keys_txg) = (Vec::new(), to.keys_txg());
        if raw && to.suite != 0 {
            let root = self.pool.entry(head.key_root)?;
            let slots = self.keyring(&root)?;
            let ring = self.keyring(&to)?;
            let makes = match (&piece.mark, piece.from) {
                (Some(mark), _) => mark.dataset != to.parent,
                (None, Some(from)) => self.pool.entry(from)?.parent != to.parent,
                (None, None) => true,
            };
            let ring = ring.for_stream(to.keys_txg(), makes, slots.wrapping());
            let name = self.pool.name_of(head.id)?;
            let ring = ring.map_err(|error| {
                Failure::from(error).context(format_args!("the keyring of '{name}'"))
            })?;
            keys_txg = keys_txg.max(ring.newest().txg());
            keyring = ring.encode();
            sent.insert("keysource".into(), self.keysource(&root)?.to_string());
        }
        Ok(SendOf {
            to: piece.to,
            from: piece.from,
            start: piece.start,
            keyring,
            keys_txg,
            props: sent,
            open: match raw {
                true => None,
                false => Some(Box::new(self.opener(&to, piece.from)?)),
            },
            readers: READERS,
        })
    }

    /// What opens the records of a snapshot. Its key has to be loaded.
    fn opener(&self, to: &Entry, from: Option<u64>) -> Result<RecordOpener> {
        let keys = self.data_keys(to).map_err(|mut failure| {
            if failure.kind == FailureKind::NoKey {
                failure
                    .message
                    .push_str(", or send what is sealed, with -w");
            }
            failure
        })?;
        let opener = RecordOpener::new(&self.pool, to.id, from, keys);
        opener.map_err(|error| self.explain_foreign(to, error.into()))
    }
}
