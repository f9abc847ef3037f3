//! Sending and receiving: what travels with a stream besides its records, and which keys a dataset has
//! afterwards.
//!
//! The data goes over the connection of the command. If that breaks, because somebody interrupts the
//! command or a pipe behind it closes, a receive ends there, and leaves nothing, or what can go on.

use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use cipher::Suite;
use keys::{Generation, KeySource, Keyring, Wrapping, WrappingKey};
use parking_lot::Mutex;
use pool::{Begin, Entry, Position, ReceiveInto, Reception, ResumeToken, SendOf};

use crate::api::{Answer, Command, Failure, FailureKind, Props, Reply, SendWhat};
use crate::failure::Result;
use crate::imported::Imported;
use crate::keyholder::keyring_of;
use crate::plan::checked;
use crate::properties::{self, Settable};
use crate::server::Context;
use crate::state::Daemon;
use crate::wire::{self, DataReader, DataWriter};
use crate::zones::View;

impl Daemon {
    /// Carries out a command that sends or receives data; gives back any other.
    pub(crate) fn run_transfer(
        self: &Arc<Self>,
        command: Command,
        data: UnixStream,
        context: &mut Context<'_>,
    ) -> std::result::Result<Result<Reply>, Command> {
        match command {
            Command::Send { what, raw, props } => {
                let sent = self.send(&what, raw, props, &data, context.view);
                Ok(sent.map(|()| Reply::Nothing))
            }
            Command::Receive {
                target,
                force,
                resumable,
                props,
                exclude,
            } => {
                let into = ReceiveInto {
                    target: &target,
                    force,
                    resumable,
                };
                let received = self.receive(&into, &props, exclude, &data, context);
                Ok(received.map(Reply::Names))
            }
            other => Err(other),
        }
    }

    fn send(
        &self,
        what: &SendWhat,
        raw: bool,
        props: bool,
        data: &UnixStream,
        view: Option<&View>,
    ) -> Result<()> {
        let (imported, pieces) = self.pieces(what)?;
        let all = pieces
            .iter()
            .map(|piece| imported.send_of(piece, raw, props));
        // Whatever is wrong with one of them is said before anything is sent.
        let all: Vec<SendOf> = all.collect::<Result<_>>()?;
        // Now that it is known which keyrings go with it.
        if let Some(view) = view {
            view.may_send(&imported, &pieces)?;
        }
        let _running = self.transfers.begin(data)?;
        let mut out = DataWriter::new(data);
        for what in all {
            imported.pool.send(what)?.write(&mut out)?;
        }
        out.end()
            .map_err(|error| pool::Error::StreamIo(error).into())
    }

    /// What is to be sent, one stream behind the other.
    fn pieces(&self, what: &SendWhat) -> Result<(Arc<Imported>, Vec<Piece>)> {
        let (name, from, all) = match what {
            SendWhat::Snapshot { name, from, all } => (name, from, *all),
            SendWhat::Rest { token } => return self.rest(token),
        };
        let (imported, to) = self.find(name)?;
        if !to.is_snapshot() {
            return Err(Failure::usage(format!(
                "'{name}' is not a snapshot; what is sent is dataset@snapshot"
            )));
        }
        let from = match from {
            None => None,
            Some(from) => {
                let (dataset, _) = name.split_once('@').unwrap_or((name, ""));
                let whole = match from.starts_with('@') {
                    true => format!("{dataset}{from}"),
                    false => from.clone(),
                };
                Some(imported.pool.find(&whole)?)
            }
        };
        let mut pieces = Vec::new();
        let mut last = from;
        if let Some(from) = last.clone().filter(|_| all) {
            for between in imported.pool.between(&from, &to) {
                pieces.push(Piece::new(&between, last.as_deref()));
                last = Some(between);
            }
        }
        pieces.push(Piece::new(&to, last.as_deref()));
        Ok((imported, pieces))
    }

    fn rest(&self, token: &str) -> Result<(Arc<Imported>, Vec<Piece>)> {
        let token = ResumeToken::parse(token)
            .ok_or_else(|| Failure::usage("this is no token of an interrupted receive"))?;
        for imported in self.pools() {
            if let Some((to, from)) = imported.pool.snapshots_of(&token) {
                let start = token.next;
                return Ok((imported, vec![Piece { to, from, start }]));
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

    fn receive(
        self: &Arc<Self>,
        into: &ReceiveInto<'_>,
        props: &Props,
        exclude: Vec<String>,
        data: &UnixStream,
        context: &mut Context<'_>,
    ) -> Result<Vec<String>> {
        let (dataset, _) = into.target.split_once('@').unwrap_or((into.target, ""));
        let imported = self.pool_of(dataset)?;
        let props = checked(props)?;
        for name in ["encryption", "keysource"] {
            if props.contains_key(name) || exclude.iter().any(|excluded| excluded == name) {
                return Err(Failure::usage(format!(
                    "the property '{name}' comes with the keys of the stream; use 'key change' \
                     afterwards"
                )));
            }
        }
        let head = imported.pool.find(dataset).ok();
        if let Some(head) = &head
            && imported.mounts.lock().contains_key(&head.id)
        {
            return Err(Failure::new(
                FailureKind::Busy,
                format!(
                    "'{dataset}' is mounted, and would change under whoever uses it; \
                     'strongroom unmount {dataset}' first"
                ),
            ));
        }
        let _running = self.transfers.begin(data)?;
        let lost = |error| Failure::from(pool::Error::StreamIo(error));
        wire::send(&mut &*data, &Answer::Ready).map_err(lost)?;
        let rules = Rules {
            imported: &imported,
            key: head.and_then(|head| imported.loaded_key(head.key_root).ok()),
            props,
            exclude,
            received: Mutex::default(),
        };
        let mut input = DataReader::new(data);
        let received = imported
            .pool
            .receive(&mut input, into, &rules, &context.origin());
        imported.apply_settings()?;
        imported.wake();
        let names = rules.received.into_inner();
        let Err(error) = received else {
            return Ok(names);
        };
        for name in names {
            context.asker.notice(format!("received {name}"));
        }
        let mut failure = Failure::from(error);
        if let Ok(Some(_)) = imported.pool.resume_token(dataset) {
            failure.message += &format!(
                "; what came is kept: go on with the token in the property receive_resume_token \
                 of '{dataset}', or throw it away with receive -A"
            );
        }
        Err(failure)
    }

    pub(crate) fn abandon_receive(&self, target: &str, context: &mut Context<'_>) -> Result<()> {
        let imported = self.pool_of(target)?;
        let _admin = imported.lock()?;
        imported.pool.abandon_receive(target, &context.origin())?;
        imported.wake();
        Ok(())
    }
}

/// One stream.
pub(crate) struct Piece {
    /// The snapshot that it brings.
    pub(crate) to: u64,
    /// The one that it goes on from.
    pub(crate) from: Option<u64>,
    start: Position,
}

impl Piece {
    fn new(to: &Entry, from: Option<&Entry>) -> Piece {
        Piece {
            to: to.id,
            from: from.map(|from| from.id),
            start: Position::START,
        }
    }
}

impl Imported {
    /// What goes into a stream.
    fn send_of(&self, piece: &Piece, raw: bool, props: bool) -> Result<SendOf> {
        let to = self.pool.entry(piece.to)?;
        if to.suite != 0 && !raw {
            return Err(Failure::usage(format!(
                "'{}' is encrypted; send it as it is stored, with -w",
                self.pool.name_of(to.id)?
            )));
        }
        let head = self.pool.entry(to.parent)?;
        let mut sent = BTreeMap::new();
        if props {
            let known = |name: &str| {
                properties::is_user_property(name)
                    || properties::definition(name).is_some_and(|d| d.settable == Settable::Always)
            };
            let travels = head.props.iter().filter(|(name, _)| known(name));
            sent.extend(travels.map(|(name, value)| (name.clone(), value.clone())));
        }
        let mut keyring = Vec::new();
        if to.suite != 0 {
            let root = self.pool.entry(head.key_root)?;
            let slots = self.keyring(&root)?;
            let ring = self.keyring(&to)?;
            let ring = ring.for_stream(to.keys_txg(), slots.wrapping());
            let name = self.pool.name_of(head.id)?;
            keyring = ring
                .map_err(|error| {
                    Failure::from(error).context(format_args!("the keyring of '{name}'"))
                })?
                .encode();
            sent.insert("keysource".into(), self.keysource(&root)?.to_string());
        }
        Ok(SendOf {
            to: piece.to,
            from: piece.from,
            start: piece.start,
            keyring,
            props: sent,
        })
    }
}

/// What becomes of the keys and properties that come with a stream.
struct Rules<'a> {
    imported: &'a Imported,
    /// The wrapping key of the dataset, if it is loaded.
    key: Option<WrappingKey>,
    /// In the place of those that come.
    props: BTreeMap<String, String>,
    exclude: Vec<String>,
    /// What was received so far.
    received: Mutex<Vec<String>>,
}

impl Reception for Rules<'_> {
    fn keyring(
        &self,
        begin: &Begin,
        current: Option<&[u8]>,
    ) -> std::result::Result<Option<Vec<u8>>, String> {
        let bad = |error: keys::Error| format!("the keyring that comes with it: {error}");
        let sent = keyring_of(&begin.keyring, begin.family, begin.suite).map_err(bad)?;
        let Some(current) = current else {
            return match sent.wrapping() {
                Wrapping::Own { .. } => Ok(Some(begin.keyring.clone())),
                Wrapping::Inherited { .. } => Err("the stream brings no key slots".into()),
            };
        };
        let bad = |error: keys::Error| format!("its keyring: {error}");
        let own = keyring_of(current, begin.family, begin.suite).map_err(bad)?;
        let key = self
            .key
            .as_ref()
            .filter(|key| key.id() == own.wrapping().id());
        let own = match key {
            // Another receive may have brought what does not open.
            Some(key) => own.opened_by(key).map_err(bad)?.0,
            None => own,
        };
        let merged = merge(&own, &sent)?;
        if let (Some(merged), Some(key)) = (&merged, key) {
            merged.open(key).map_err(|error| {
                format!("the data keys that the stream brings do not open with the key of the dataset: {error}")
            })?;
        }
        Ok(merged.map(|keyring| keyring.encode()))
    }

    fn props(&self, begin: &Begin) -> std::result::Result<BTreeMap<String, String>, String> {
        let mut props = begin.props.clone();
        props.retain(|name, value| {
            let is_known = properties::check(name, value, Settable::WithKey).is_ok();
            // How much room is kept from others is not for a stream to say.
            let reserves = ["reservation", "refreservation"].contains(&name.as_str());
            is_known && !reserves && !self.exclude.contains(name)
        });
        if begin.suite == 0 {
            props.remove("keysource");
        } else {
            let suite = Suite::from_id(begin.suite).ok_or("its cipher is not known")?;
            props.insert("encryption".into(), suite.name().into());
            let default = KeySource::default().to_string();
            props.entry("keysource".into()).or_insert(default);
        }
        props.extend(self.props.clone());
        Ok(props)
    }

    /// Keyrings change one after the other.
    fn finish(&self, finish: &mut dyn FnMut() -> pool::Result<String>) -> pool::Result<String> {
        let _admin = self
            .imported
            .lock()
            .map_err(|failure| pool::Error::Refused {
                name: self.imported.pool.name(),
                reason: failure.message,
            })?;
        finish()
    }

    fn received(&self, name: &str) {
        self.received.lock().push(name.into());
    }
}

/// No generation has a higher number: a day has not enough rotations to get there, and whoever rotates next
/// has room for his.
const NUMBER_MAX: u32 = 1 << 31;

/// A keyring with the generations that another one of the same dataset has besides; `None` if it has none.
/// Slots and the wrapping key stay what they are.
fn merge(own: &Keyring, sent: &Keyring) -> std::result::Result<Option<Keyring>, String> {
    let same = |a: &Generation, b: &Generation| match a.wrapping_key() == b.wrapping_key() {
        true => a == b,
        false => (a.txg(), a.created(), a.suite()) == (b.txg(), b.created(), b.suite()),
    };
    let mut new = Vec::new();
    for generation in sent.generations() {
        match own.generation(generation.number()) {
            Some(known) if same(known, generation) => {}
            Some(_) => {
                return Err(format!(
                    "it was rotated apart from where the stream comes from: generation {} of its \
                     keyring is another one there; receive a full stream under another name. (If it came \
                     with a stream of someone else, load the key of the dataset first)",
                    generation.number()
                ));
            }
            None if generation.suite() != own.newest().suite()
                || generation.number() > NUMBER_MAX =>
            {
                return Err(format!(
                    "the stream brings data keys (generation {}) that no rotation makes",
                    generation.number()
                ));
            }
            None => new.push(generation.clone()),
        }
    }
    let Some(first) = new.first() else {
        return Ok(None);
    };
    if sent.wrapping().id() != own.wrapping().id() {
        return Err(format!(
            "the stream brings data keys (generation {}) that are wrapped by another key than its \
             own: 'key change' was used here or there since. A receive replaces no key: receive a \
             full stream under another name",
            first.number()
        ));
    }
    let mut all = [own.generations(), &new].concat();
    all.sort_by_key(Generation::number);
    let merged = Keyring::new(own.family(), own.wrapping().clone(), all);
    merged.map(Some).map_err(|error| error.to_string())
}
