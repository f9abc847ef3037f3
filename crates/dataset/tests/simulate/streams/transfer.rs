//! Snapshots that travel within the pool: sealed or in the clear, whole or by what is new, broken off, changed
//! on their way, and taken up again. What is shown afterwards is all of a snapshot, or nothing.

use std::collections::BTreeMap;
use std::io::Read;

use cipher::Suite;
use dataset::RecordOpener;
use keys::Keyring;
use pool::{Error, OpenRecords, Pool, ReceiveInto, SendOf, StreamPosition};

use crate::administration::clones::DATASETS_MAX;
use crate::common::origin;
use crate::model::world::{ModelDataset, Partial, Place, Snapshot, World, shape_of};
use crate::sim::{Refusal, Sim};
use crate::streams::taker::Secrets;

/// A stream, and what it should bring.
pub struct Stream {
    bytes: Vec<u8>,
    pub is_plain: bool,
    /// True if the stream begins after the records that a receiver has already.
    is_rest: bool,
    pub snapshot: Snapshot,
    /// The snapshot that it goes on from.
    base: Option<Snapshot>,
    pub suite: Option<Suite>,
    family: u64,
    /// True if it is not known which data keys it needs.
    may_be_rotated: bool,
    /// True if its keyring lacks the generations that seal what it makes. A later stream brings them.
    seals_no_heads: bool,
    block_size: Option<u64>,
    /// The secrets that may open it.
    pub secrets: Vec<u64>,
}

impl Stream {
    /// The guid of the snapshot that it goes on from, or 0.
    fn from(&self) -> u64 {
        self.base.as_ref().map_or(0, |base| base.guid)
    }
}

/// The events on the way.
enum Fate {
    Arrives,
    /// The stream ends after so many bytes.
    BreaksOff(usize),
    /// A bit of this byte is another.
    Changes(usize),
}

/// The bytes that arrive, while others commit.
struct Way<'a> {
    rest: &'a [u8],
    /// After so many bytes more.
    next_commit: usize,
    pool: &'a Pool,
}

impl Read for Way<'_> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        if self.next_commit == 0 {
            // If it fails, the receiver is told so too.
            let _ = self.pool.commit();
            self.next_commit = usize::MAX;
        }
        let len = buf.len().min(self.next_commit);
        let read = self.rest.read(&mut buf[..len])?;
        self.next_commit -= read;
        Ok(read)
    }
}

impl Sim {
    /// A stream is sent and received, one that was broken off is taken up again, or thrown away.
    pub fn transfer(&mut self) {
        let waiting: Vec<Place> = self.world.partials.keys().cloned().collect();
        match self.dice.below(6) {
            0 | 1 if !waiting.is_empty() => {
                let place = self.pick(waiting).unwrap();
                self.resume(&place);
            }
            2 if !waiting.is_empty() => {
                let place = self.pick(waiting).unwrap();
                self.abandon(&place);
            }
            _ => self.transfer_anew(),
        }
    }

    fn abandon(&mut self, place: &Place) {
        let target = self.world.target(place);
        self.say(format!("throw away what came of {target}"));
        let gone = self.pool().abandon_receive(&target, &origin());
        let mut after = self.world.clone();
        after.partials.remove(place);
        self.command(after, gone);
    }

    fn transfer_anew(&mut self) {
        let source = self.pick_dataset();
        let Some((index, _)) = self.pick_snapshot(&source) else {
            return;
        };
        let before = self.world.before(&source, index);
        let before: Vec<u64> = before.iter().map(|snapshot| snapshot.guid).collect();
        let from = match self.dice.below(3) {
            0 => None,
            _ => self.pick(before),
        };
        let target = match from {
            // Sometimes as a clone of what it goes on from.
            Some(from) if self.dice.below(4) > 0 => self.pick_target(&source, from),
            _ => {
                let above = self.pick_dataset();
                let parent = &self.world.datasets[&above];
                if parent.block_size.is_some()
                    || above.len() > 60
                    || self.world.datasets.len() >= DATASETS_MAX
                {
                    return;
                }
                format!("{above}/t{}", self.number())
            }
        };
        let is_plain = self.dice.below(2) == 0;
        let Some(stream) = self.stream(&source, index, from, is_plain, StreamPosition::START)
        else {
            return;
        };
        let resumable = !is_plain && self.dice.below(2) == 0;
        let force = self.dice.below(2) == 0;
        let fate = match self.dice.below(8) {
            0..=3 => Fate::Arrives,
            4..=6 => Fate::BreaksOff(self.dice.below(stream.bytes.len() as u64) as usize),
            _ => Fate::Changes(self.dice.below(stream.bytes.len() as u64) as usize),
        };
        self.receive(&stream, &target, (force, resumable), &fate);
    }

    /// A dataset that has the snapshot that a stream goes on from, if there is one besides its source.
    fn pick_target(&mut self, source: &str, from: u64) -> String {
        let datasets = self.world.datasets.iter();
        let has_it = datasets.filter(|(name, dataset)| {
            *name != source && dataset.snapshots.iter().any(|s| s.guid == from)
        });
        let all: Vec<String> = has_it.map(|(name, _)| name.clone()).collect();
        match self.dice.below(8) {
            0 => self.pick_dataset(),
            _ => self.pick(all).unwrap_or_else(|| source.to_owned()),
        }
    }

    fn resume(&mut self, place: &Place) {
        let target = self.world.target(place);
        self.say(format!("go on with {target}"));
        let pool = self.pool();
        let token = pool.resume_token(&target);
        let Some(token) = self.survive(token) else {
            return;
        };
        let token = token.expect("something waits there");
        let was = &self.world.partials[place];
        assert_eq!((was.to, was.from), (token.to_guid, token.from_guid));
        let Some((to, from)) = pool.snapshots_of(&token) else {
            return self.say("   it is gone where it came from");
        };
        let name = pool.name_of(to).unwrap();
        let (source, snapshot) = name.split_once('@').unwrap();
        let (source, snapshot) = (source.to_owned(), snapshot.to_owned());
        let snapshots = &self.world.datasets[&source].snapshots;
        let index = snapshots.iter().position(|s| s.name == snapshot).unwrap();
        let from = from.map(|from| pool.entry(from).unwrap().guid);
        let Some(stream) = self.stream(&source, index, from, false, token.next) else {
            return;
        };
        let fate = match self.dice.below(4) {
            0 => Fate::BreaksOff(self.dice.below(stream.bytes.len() as u64) as usize),
            _ => Fate::Arrives,
        };
        let force = self.dice.below(2) == 0;
        self.receive(&stream, &target, (force, true), &fate);
    }

    /// Sends a snapshot; none if it cannot be.
    fn stream(
        &mut self,
        source: &str,
        index: usize,
        from: Option<u64>,
        is_plain: bool,
        start: StreamPosition,
    ) -> Option<Stream> {
        let dataset = self.world.datasets[source].clone();
        let snapshot = dataset.snapshots[index].clone();
        if is_plain && !self.load_key(source) {
            return None;
        }
        self.say(format!(
            "send {source}@{} (guid {:x}) from {from:x?}, in the clear: {is_plain}",
            snapshot.name, snapshot.guid
        ));
        let pool = self.pool();
        let to = pool.find(&format!("{source}@{}", snapshot.name)).unwrap();
        let line = self.world.before(source, index);
        let base = from.map(|guid| line.into_iter().find(|s| s.guid == guid).unwrap().clone());
        let from_id = base.as_ref().map(|base| {
            let (owner, at) = self.world.owner(base.id).unwrap();
            let name = format!("{owner}@{}", self.world.datasets[owner].snapshots[at].name);
            pool.find(&name).unwrap().id
        });
        let open = match is_plain {
            true => {
                let keys = self.data_keys(&to, &dataset)?;
                let of_base = self.data_keys(&to, &dataset)?;
                let base = from_id.map(|from| (from, of_base));
                let opener = RecordOpener::new(&pool, to.id, base, keys);
                Some(Box::new(self.survive_dataset(opener)?) as Box<dyn OpenRecords>)
            }
            false => None,
        };
        let (mut snapshot, mut keys_txg) = (snapshot, to.keys_txg());
        let mut seals_no_heads = false;
        let keyring = match dataset.suite {
            Some(_) if !is_plain => {
                let ring = self.keyring_to_send(&dataset, &to, from_id.is_none())?;
                let sent = dataset.generations.get(..ring.generations().len());
                snapshot.generations = sent.map_or(snapshot.generations, <[u64]>::to_vec);
                keys_txg = keys_txg.max(ring.newest().txg());
                seals_no_heads = ring.seals_no_heads();
                ring.encode()
            }
            _ => Vec::new(),
        };
        let root = self.world.by_guid(dataset.key_root);
        let secrets = root.map_or(Vec::new(), |(_, root)| root.secrets.clone());
        let what = SendOf {
            to: to.id,
            from: from_id,
            start,
            keyring,
            keys_txg,
            props: BTreeMap::new(),
            open,
            readers: 0,
        };
        let mut bytes = Vec::new();
        let sent = pool.send(what).and_then(|send| send.write(&mut bytes));
        self.survive(sent)?;
        Some(Stream {
            bytes,
            is_plain,
            is_rest: start != StreamPosition::START,
            snapshot,
            base,
            suite: dataset.suite,
            family: dataset.family,
            may_be_rotated: dataset.may_be_rotated,
            seals_no_heads,
            block_size: dataset.block_size,
            secrets,
        })
    }

    fn keyring_to_send(
        &mut self,
        dataset: &ModelDataset,
        to: &pool::Entry,
        makes: bool,
    ) -> Option<Keyring> {
        let (root, _) = self.world.by_guid(dataset.key_root).unwrap();
        let pool = self.pool();
        let slots = pool.keyring(pool.find(root).unwrap().id);
        let slots = Keyring::decode(&self.survive(slots)?).unwrap();
        let ring = Keyring::decode(&self.survive(pool.keyring(to.id))?).unwrap();
        let ring = ring.for_stream(to.keys_txg(), makes, slots.wrapping());
        Some(ring.unwrap())
    }

    fn receive(
        &mut self,
        stream: &Stream,
        target: &str,
        (force, resumable): (bool, bool),
        fate: &Fate,
    ) {
        if stream.seals_no_heads && self.becomes_clone(stream, target) {
            // Only its snapshots could be opened, until a stream from after the rotation comes.
            return;
        }
        if self.world.datasets.contains_key(target) {
            let guid = self.world.datasets[target].guid;
            if self.mounted.contains_key(&guid) {
                self.close(guid);
            }
            if self.mounted.contains_key(&guid) {
                return;
            }
        }
        let Some((taker, secrets)) = self.taker(stream, target) else {
            return;
        };
        let mut bytes = stream.bytes.clone();
        let what = match fate {
            Fate::Arrives => String::new(),
            Fate::BreaksOff(at) => {
                bytes.truncate(*at);
                format!(", breaks off after {at} bytes")
            }
            Fate::Changes(at) => {
                bytes[*at] ^= 1 << self.dice.below(8);
                format!(", byte {at} is another")
            }
        };
        let len = stream.bytes.len();
        self.say(format!(
            "receive {len} bytes into {target}, force: {force}, resumable: {resumable}{what}"
        ));
        let refusal = match self.refusal(stream, target, (force, resumable)) {
            Refusal::None if self.becomes_clone(stream, target) => {
                self.refusal_of_clone(stream, target, secrets.suite)
            }
            refusal => refusal,
        };
        let pool = self.pool();
        let mut way = Way {
            rest: &bytes,
            next_commit: self.dice.below(2 * len as u64) as usize,
            pool: &pool,
        };
        let into = ReceiveInto {
            target,
            force,
            resumable,
            is_open: false,
        };
        let received = pool.receive(&mut way, &into, &taker, &origin());
        let place = self.world.place(target);
        let done = self.after_receive(stream, target, secrets);
        let was = self.world.partials.get(&place).cloned();
        let sealed_as = stream.snapshot.sealed_as;
        let is_own = was.as_ref().is_none_or(|was| was.sealed_as == sealed_as);
        let is_own = is_own && !stream.is_plain;
        // What may have come before it failed.
        let part = Partial {
            to: stream.snapshot.guid,
            from: stream.from(),
            base: self.base_in(stream, target),
            sealed_as,
        };
        let goes_on = was
            .as_ref()
            .is_none_or(|was| (was.to, was.from) == (part.to, part.from));
        let part = match &was {
            Some(was) if self.becomes_clone(stream, target) => Partial {
                base: was.base,
                ..part
            },
            _ => part,
        };
        let is_refused = matches!(received, Err(Error::Refused { .. }));
        let mut with_part = self.world.clone();
        if goes_on && !(is_refused && was.is_some()) {
            with_part.partials.insert(place.clone(), part);
        }
        let is_whole = matches!(fate, Fate::Arrives);
        match received {
            Ok(()) => {
                assert!(is_whole && refusal != Refusal::Due, "it was received");
                self.say("   received");
                self.tally.clones += u64::from(self.becomes_clone(stream, target));
                self.enter(done);
            }
            Err(error) => {
                self.say(format!("   {error}"));
                let is_due = match &error {
                    Error::NoSpace => true,
                    Error::Stream { .. } | Error::StreamIo(_) => !is_whole || !is_own,
                    Error::Exists { .. } | Error::HasClones { .. } | Error::Refused { .. } => {
                        refusal != Refusal::None
                    }
                    _ => false,
                };
                assert!(is_due || self.may_fail(), "{error}");
                if self.may_fail() {
                    self.is_over = true;
                    if done.shape() == self.world.shape() {
                        // A dataset that gets its own newest snapshot again: whether it has cannot be seen from
                        // outside.
                        let got = done.datasets[target].history.clone();
                        let dataset = self.world.datasets.get_mut(target).unwrap();
                        dataset.history.or(&got);
                    }
                    self.may_be(with_part);
                    self.may_be(done);
                    return;
                }
                self.find_part(with_part, (goes_on, resumable), &place);
            }
        }
    }

    /// Finds the rest of a stream that was not received: nothing, or the part that was to be kept.
    fn find_part(&mut self, part: World, (goes_on, resumable): (bool, bool), place: &Place) {
        let mut without = self.world.clone();
        without.partials.remove(place);
        let was_there = self.world.partials.contains_key(place);
        let may_be = match (goes_on, was_there || resumable) {
            (true, true) => vec![part, without],
            _ => vec![self.world.clone()],
        };
        let found = shape_of(&self.pool());
        let this = may_be.into_iter().find(|world| world.shape() == found);
        self.world = this.unwrap_or_else(|| panic!("what is left: {found:#?}"));
        self.world.learn(&self.pool());
    }

    /// The snapshot of the target that a stream goes on from.
    fn base_in(&self, stream: &Stream, target: &str) -> Option<u64> {
        let dataset = self.world.datasets.get(target)?;
        let snapshots = dataset.snapshots.iter().rev();
        let base = snapshots.filter(|_| stream.base.is_some());
        base.into_iter()
            .find(|s| s.guid == stream.from())
            .map(|s| s.id)
    }

    fn becomes_clone(&self, stream: &Stream, target: &str) -> bool {
        stream.base.is_some() && !self.world.datasets.contains_key(target)
    }

    /// Returns why a clone with a suite is refused: one of several equal snapshots is its origin.
    fn refusal_of_clone(&self, stream: &Stream, target: &str, suite: Option<Suite>) -> Refusal {
        let from = stream.base.as_ref().expect("it has one");
        let all = self.world.datasets.values().flat_map(|dataset| {
            let snapshots = dataset.snapshots.iter().filter(|s| s.guid == from.guid);
            snapshots.map(move |snapshot| (dataset.suite, snapshot))
        });
        let all: Vec<_> = all.collect();
        let fits = |snapshot: &Snapshot| match stream.is_plain {
            true => snapshot.lineage == from.lineage,
            false => snapshot.sealed_as == from.sealed_as,
        };
        let are_sealed = all.iter().filter(|(suite, _)| suite.is_some()).count();
        let waits = self.world.partials.get(&self.world.place(target));
        // It may go on from another one than what waits.
        if waits.is_some() && all.len() > 1 || !all.iter().any(|(_, s)| fits(s)) {
            return Refusal::Possible;
        }
        match are_sealed {
            _ if !stream.is_plain => Refusal::None,
            // It shares records, and so cannot be sealed otherwise.
            0 => suite.is_some().into(),
            sealed if sealed == all.len() => Refusal::Due,
            _ => Refusal::Possible,
        }
    }

    fn refusal(&self, stream: &Stream, target: &str, (force, resumable): (bool, bool)) -> Refusal {
        if stream.is_plain && resumable {
            return Refusal::Due;
        }
        let place = self.world.place(target);
        let numbers = (stream.snapshot.guid, stream.from());
        let partial = self.world.partials.get(&place);
        let goes_on = partial.is_some_and(|was| (was.to, was.from) == numbers && !stream.is_plain);
        let is_free = partial.is_none() && !stream.is_rest;
        if !goes_on && !is_free {
            return Refusal::Due;
        }
        let is_same = partial.is_none_or(|was| was.sealed_as == stream.snapshot.sealed_as);
        let Some(dataset) = self.world.datasets.get(target) else {
            return match is_same {
                true => Refusal::None,
                false => Refusal::Possible,
            };
        };
        let Some(base) = self.base_in(stream, target) else {
            return Refusal::Due;
        };
        // What is there goes on from another one by that name.
        let is_other = partial.is_some_and(|was| was.base != Some(base));
        let at = dataset.snapshots.iter().position(|s| s.id == base).unwrap();
        let (kept, later) = dataset.snapshots.split_at(at + 1);
        let is_taken = kept.iter().any(|s| s.name == stream.snapshot.name);
        let needed = self.world.are_needed(later, |_| true, |_| true);
        let is_alien = !stream.is_plain && stream.family != dataset.family;
        let (own, sent) = (&dataset.generations, &stream.snapshot.generations);
        let is_apart = !stream.is_plain && own.iter().zip(sent).any(|(a, b)| a != b);
        let is_known = !dataset.may_be_rotated && !stream.may_be_rotated;
        // Keys that are new may be wrapped by others than those that are there.
        let brings_keys = !stream.is_plain && (sent.len() > own.len() || !is_known);
        if is_alien || is_apart && is_known || is_taken || needed || !later.is_empty() && !force {
            return Refusal::Due;
        }
        let (from, base) = (stream.base.as_ref().expect("it has one"), &kept[at]);
        // Where nothing was new, what came in the clear is as it was before, and so is its seal.
        let is_state = match stream.is_plain {
            true => from.lineage == base.lineage,
            false => from.sealed_as == base.sealed_as,
        };
        match is_same && is_state && !brings_keys && (force || dataset.is_untouched) {
            true if is_other && stream.is_rest => Refusal::Due,
            true => Refusal::None,
            false => Refusal::Possible,
        }
    }

    /// The world with what a stream brings.
    fn after_receive(&mut self, stream: &Stream, target: &str, secrets: Secrets) -> World {
        let mut after = self.world.clone();
        let id = self.number();
        after.partials.remove(&after.place(target));
        let base = self.base_in(stream, target);
        let dataset = after.datasets.entry(target.to_owned());
        let dataset = dataset.or_insert_with(|| {
            let mut new = ModelDataset::new(0, secrets.suite, secrets.key_root, None);
            new.secrets = secrets.own;
            if stream.is_plain {
                new.generations = secrets.suite.map(|_| id).into_iter().collect();
                new.family = 0;
            } else {
                new.generations = stream.snapshot.generations.clone();
                new.family = stream.family;
                new.may_be_rotated = stream.may_be_rotated;
            }
            new.block_size = stream.block_size;
            new
        });
        let kept = dataset.snapshots.iter().position(|s| Some(s.id) == base);
        dataset.snapshots.truncate(kept.map_or(0, |at| at + 1));
        let sent = &stream.snapshot;
        if !stream.is_plain && sent.generations.len() > dataset.generations.len() {
            dataset.generations = sent.generations.clone();
        }
        dataset.may_be_rotated |= stream.may_be_rotated;
        let generations = match stream.is_plain {
            true => dataset.generations.clone(),
            false => sent.generations.clone(),
        };
        let (sealed_as, lineage) = match stream.is_plain {
            true => (id, sent.lineage),
            false => (sent.sealed_as, sent.sealed_as),
        };
        dataset.snapshots.push(Snapshot {
            id,
            sealed_as,
            lineage,
            generations,
            ..sent.clone()
        });
        dataset.history = stream.snapshot.history.clone();
        dataset.is_untouched = true;
        // A dataset with another one refuses it.
        dataset.block_size = stream.block_size;
        dataset.follow_size();
        after
    }
}
