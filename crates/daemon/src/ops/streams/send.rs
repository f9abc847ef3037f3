//! Send: the requests, and the part of a stream besides its records. The data goes over the connection of the command.

use std::collections::BTreeMap;
use std::sync::Arc;

use dataset::RecordOpener;
use pool::{Entry, OutgoingStream, Package, ResumeToken, SendOf};
use protocol::api::{FailureKind, SendScope, StreamRow, command};
use protocol::property::{Property, Settable};

use crate::failure::{Failure, Result};
use crate::ops::streams::piece::StreamPiece;
use crate::ops::streams::replication::{ReplicationStreams, SnapshotRange, replicate};
use crate::state::callers::channel::{DataChannel, StreamWriter};
use crate::state::callers::context::CallerContext;
use crate::state::daemon::Daemon;
use crate::state::datasets::properties;
use crate::state::keys::key_uses::{CurrentKeyUse, KeyBoundData};
use crate::state::pools::active_pool::ActivePool;

/// The number of threads that read records ahead.
const READERS: usize = 4;

impl Daemon {
    /// Sends streams.
    pub(crate) fn send(&self, it: &command::Send, context: &mut CallerContext<'_>) -> Result<()> {
        let prepared = self.prepare(it, context)?;
        // The notices go before the data.
        let data = &context.channel.data()?;
        let _running = self.transfers.begin(data)?;
        let key = CurrentKeyUse::default();
        let mut out = KeyBoundData {
            data: data.writer(),
            key: &key,
        };
        let sent = prepared.write(data, &mut out);
        let ended = sent.and_then(|()| {
            let ended = out.data.end();
            ended.map_err(|error| pool::Error::StreamIo(error).into())
        });
        ended.map_err(|failure| match &*key.borrow() {
            Some(key) => key.explain(failure),
            None => failure,
        })
    }

    /// Estimates what [`Daemon::send`] would send.
    pub(crate) fn estimate(
        &self,
        it: &command::Send,
        context: &mut CallerContext<'_>,
    ) -> Result<Vec<StreamRow>> {
        let prepared = self.prepare(it, context)?;
        let pool = &prepared.active.pool;
        // The package counts for the first stream.
        let mut before = prepared.package.as_ref().map_or(0, Package::size);
        let row = |piece: &StreamPiece| {
            let from = match (&piece.mark, piece.from) {
                (Some(mark), _) => Some(mark.name.clone()),
                (None, from) => from.map(|from| pool.name_of(from)).transpose()?,
            };
            Ok(StreamRow {
                name: pool.name_of(piece.to)?,
                from,
                size: prepared.sending(piece)?.size()? + std::mem::take(&mut before),
            })
        };
        prepared.pieces.iter().map(row).collect()
    }

    /// Decides which streams to send, and how.
    fn prepare(&self, it: &command::Send, context: &mut CallerContext<'_>) -> Result<PreparedSend> {
        let (active, pieces, package) = match &it.what {
            SendScope::Snapshot {
                name,
                from,
                all,
                replicate: true,
            } => {
                let (active, replicated) = self.replicated(name, from.as_deref(), *all)?;
                for name in replicated.left_out {
                    context
                        .channel
                        .notice(format!("'{name}' has no such snapshot, and is not sent"));
                }
                (active, replicated.pieces, Some(replicated.package))
            }
            what => {
                let (active, pieces) = self.pieces(what)?;
                (active, pieces, None)
            }
        };
        // The names may mean other datasets since the decision.
        for piece in &pieces {
            for id in [Some(piece.to), piece.from].into_iter().flatten() {
                let name = active.pool.name_of(id)?;
                active.again(&*active.pool.entry(id)?, &name, context.decision)?;
            }
        }
        let prepared = PreparedSend {
            raw: is_raw(it)?,
            props: it.props,
            active,
            pieces,
            package,
        };
        // All streams are checked before the first one is sent.
        for piece in &prepared.pieces {
            prepared.send_of(piece)?;
        }
        // Checked here, because the keyrings in the streams are known now.
        if let Some(view) = context.view {
            view.may_send(&prepared.active, &prepared.pieces)?;
        }
        Ok(prepared)
    }

    /// The streams of a dataset and of the datasets below it.
    fn replicated(
        &self,
        name: &str,
        from: Option<&str>,
        all: bool,
    ) -> Result<(Arc<ActivePool>, ReplicationStreams)> {
        let (active, to) = self.find(name)?;
        let Some((dataset, last)) = name.split_once('@').filter(|_| to.is_snapshot()) else {
            return Err(not_a_snapshot(name));
        };
        let from = match from {
            None => None,
            Some(from) => {
                let own = from.strip_prefix(dataset).unwrap_or(from);
                let own = own.strip_prefix('@').ok_or_else(|| {
                    Failure::usage(format!(
                        "'{from}': with -R, -i and -I take a snapshot of '{dataset}', as @SNAPSHOT"
                    ))
                })?;
                let from = active.pool.find(&format!("{dataset}@{own}"))?;
                if from.created_txg >= to.created_txg {
                    return Err(Failure::usage(format!(
                        "'{dataset}@{own}' is not an earlier snapshot of '{name}'"
                    )));
                }
                Some(own)
            }
        };
        let wanted = SnapshotRange {
            to: last,
            from,
            all,
        };
        let root = active.pool.entry(to.parent)?;
        let replicated = replicate(&active, &root, &wanted)?;
        Ok((active, replicated))
    }

    /// The streams to send, in order.
    fn pieces(&self, what: &SendScope) -> Result<(Arc<ActivePool>, Vec<StreamPiece>)> {
        let (name, from, all) = match what {
            SendScope::Snapshot {
                name, from, all, ..
            } => (name, from, *all),
            SendScope::Rest { token, of } => return self.rest(token, of.as_deref()),
        };
        let (active, to) = self.find(name)?;
        if !to.is_snapshot() {
            return Err(not_a_snapshot(name));
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
                pieces.push(StreamPiece::new(&between, last.as_deref()));
                last = Some(between);
            }
        }
        pieces.push(StreamPiece::new(&to, last.as_deref()));
        Ok((active, pieces))
    }

    /// The stream that a token names. With `of` it is of a snapshot of that dataset, whatever else the token says.
    fn rest(&self, token: &str, of: Option<&str>) -> Result<(Arc<ActivePool>, Vec<StreamPiece>)> {
        let mut token = ResumeToken::parse(token)
            .ok_or_else(|| Failure::usage("this is not the token of an interrupted receive"))?;
        let head = of.map(|of| self.find(of)).transpose()?;
        let mut pools = self.pools();
        if let Some((active, head)) = &head {
            // Other datasets, and other pools, may have the same snapshot.
            let mut own = active.pool.snapshots(head.id)?.into_iter();
            let own = own.find(|own| own.guid == token.to_guid);
            let own = own.ok_or_else(|| without_snapshot(&token))?;
            token.name = active.pool.name_of(own.id)?;
            pools = vec![Arc::clone(active)];
        }
        let is_meant = |dataset: u64| head.as_ref().is_none_or(|(_, head)| head.id == dataset);
        for active in pools {
            if let Some((to, from)) = active.pool.snapshots_of(&token) {
                let start = token.next;
                let mark = None;
                return Ok((
                    active,
                    vec![StreamPiece {
                        to,
                        from,
                        mark,
                        start,
                    }],
                ));
            }
            if let Some((to, mark)) = active.pool.bookmark_of(&token)
                && is_meant(mark.dataset)
            {
                let (start, mark) = (token.next, Some(mark));
                return Ok((
                    active,
                    vec![StreamPiece {
                        to,
                        from: None,
                        mark,
                        start,
                    }],
                ));
            }
        }
        Err(without_snapshot(&token))
    }
}

fn without_snapshot(token: &ResumeToken) -> Failure {
    Failure::new(
        FailureKind::NotFound,
        format!(
            "'{}', or the snapshot that its stream began at, is in none of the imported pools",
            token.name
        ),
    )
}

/// Returns whether records are sent sealed, as on disk. A resume token says how the interrupted send began.
fn is_raw(it: &command::Send) -> Result<bool> {
    let token = match &it.what {
        SendScope::Rest { token, .. } => ResumeToken::parse(token),
        SendScope::Snapshot { .. } => None,
    };
    match token {
        Some(token) if token.plain && it.raw => Err(Failure::usage(
            "the token goes on with a stream that was sent without -w; leave out -w",
        )),
        Some(token) => Ok(!token.plain),
        None => Ok(it.raw),
    }
}

fn not_a_snapshot(name: &str) -> Failure {
    Failure::usage(format!(
        "'{name}' is not a snapshot; write DATASET@SNAPSHOT"
    ))
}

/// A send that is decided.
struct PreparedSend {
    active: Arc<ActivePool>,
    package: Option<Package>,
    pieces: Vec<StreamPiece>,
    raw: bool,
    props: bool,
}

impl PreparedSend {
    fn send_of(&self, piece: &StreamPiece) -> Result<SendOf> {
        self.active.send_of(piece, self.raw, self.props)
    }

    fn sending(&self, piece: &StreamPiece) -> Result<OutgoingStream> {
        let what = self.send_of(piece)?;
        Ok(self.active.pool.send_since(what, piece.mark.as_ref())?)
    }

    /// The key root whose key a stream needs.
    fn root(&self, piece: &StreamPiece) -> Result<Option<u64>> {
        let root = match self.raw {
            true => 0,
            false => self.active.key_root(&*self.active.pool.entry(piece.to)?)?,
        };
        Ok(Some(root).filter(|root| *root != 0))
    }

    fn write(
        &self,
        data: &Arc<dyn DataChannel>,
        out: &mut KeyBoundData<'_, Box<dyn StreamWriter + '_>>,
    ) -> Result<()> {
        if let Some(package) = &self.package {
            package.write(out)?;
        }
        let mut last = None;
        for piece in &self.pieces {
            let root = self.root(piece)?;
            if root != last {
                let using = |root| {
                    self.active
                        .use_key(root, "a stream that is sent", Some(data))
                };
                *out.key.borrow_mut() = root.map(using);
                last = root;
            }
            // `sending` takes the data keys, if the wrapping key is still loaded.
            self.sending(piece)?.write(out)?;
        }
        Ok(())
    }
}

/// The stream of a snapshot that starts from a bookmark.
fn since_bookmark(
    active: &ActivePool,
    name: &str,
    to: &Entry,
    from: &str,
    all: bool,
) -> Result<StreamPiece> {
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
    Ok(StreamPiece {
        mark: Some(mark),
        ..StreamPiece::new(to, None)
    })
}

impl ActivePool {
    /// The contents of a stream.
    fn send_of(&self, piece: &StreamPiece, raw: bool, props: bool) -> Result<SendOf> {
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

    /// The opener of the records of a snapshot. Its key must be loaded.
    fn opener(&self, to: &Entry, from: Option<u64>) -> Result<RecordOpener> {
        let keys = |entry: &Entry| {
            self.data_keys(entry).map_err(|mut failure| {
                if failure.kind == FailureKind::NoKey {
                    failure
                        .message
                        .push_str(", or send what is sealed, with -w");
                }
                failure
            })
        };
        let from = match from {
            Some(from) => Some((from, keys(&*self.pool.entry(from)?)?)),
            None => None,
        };
        let opener = RecordOpener::new(&self.pool, to.id, from, keys(to)?);
        opener.map_err(|error| self.explain_foreign(to, error.into()))
    }
}
