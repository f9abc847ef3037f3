//! Receives streams: chooses the dataset for each stream, and runs the session.
//!
//! The data comes over the connection of the command. If the command is interrupted, or its input ends early, the
//! connection closes and the receive fails. It leaves nothing, or a state from which it can resume.

use std::collections::BTreeMap;
use std::sync::Arc;

use pool::{Begin, DatasetName, DryRun, IncomingStreams, Package, ReceiveInto};
use protocol::api::{Ask, Props, ReceiveName, command};
use protocol::property::Settable;
use secret::Secret;

use crate::failure::{Failure, Result};
use crate::ops::streams::receive_policy::{Chosen, ReceiveRules};
use crate::ops::streams::receive_right::{MayReceive, ReceiveRight};
use crate::state::callers::channel::{Channel, DataChannel, without_connection};
use crate::state::callers::context::CallerContext;
use crate::state::callers::decision::Decide;
use crate::state::daemon::Daemon;
use crate::state::datasets::properties;
use crate::state::keys::key_uses::{CurrentKeyUse, KeyBoundData};
use crate::state::pools::active_pool::ActivePool;
use crate::state::zones::rules::denied;

/// A receive, with all its streams.
struct ReceiveSession<'a> {
    daemon: &'a Arc<Daemon>,
    active: &'a Arc<ActivePool>,
    it: &'a command::Receive,
    may: &'a MayReceive<'a>,
    data: &'a Arc<dyn DataChannel>,
    /// The key of the dataset that is being received.
    key: &'a CurrentKeyUse,
    dry_run: DryRun,
    /// The names of the snapshots that were received so far.
    names: Vec<String>,
    /// The failures to mount datasets again.
    failures: Vec<Failure>,
}

impl Daemon {
    /// Receives streams. Returns the names of the snapshots that were received or, with `dry_run`, would be.
    pub(crate) fn receive(
        self: &Arc<Self>,
        it: &command::Receive,
        may: &MayReceive<'_>,
        data: &Arc<dyn DataChannel>,
        context: &mut CallerContext<'_>,
    ) -> Result<Vec<String>> {
        let dataset = dataset_of(&it.target);
        let active = self.pool_of(dataset)?;
        // The user is asked now: later the stream occupies the connection.
        let chosen = match it.naming {
            ReceiveName::Exact => {
                let right = ReceiveRight::new(&active, &it.target, may, context)?;
                let exclude = it.exclude.clone();
                let chosen = Chosen::new(&active, dataset, &it.props, exclude, &right, context)?;
                Some((chosen, right))
            }
            ReceiveName::Path | ReceiveName::Last => {
                check_base(&active, &it.target)?;
                None
            }
        };
        let _running = self.transfers.begin(data)?;
        let lost = |error| Failure::from(pool::Error::StreamIo(error));
        let key = CurrentKeyUse::default();
        let mut input = KeyBoundData {
            data: data.reader().map_err(lost)?,
            key: &key,
        };
        let mut session = ReceiveSession {
            daemon: self,
            active: &active,
            it,
            may,
            data,
            key: &key,
            dry_run: DryRun::default(),
            names: Vec::new(),
            failures: Vec::new(),
        };
        let received = session.receive_all(&mut input, chosen, context);
        if !it.dry_run {
            context.tell(active.apply_settings()?);
            active.wake();
        }
        let ReceiveSession {
            names, failures, ..
        } = session;
        context.tell(failures);
        let Err((dataset, mut failure)) = received else {
            return Ok(names);
        };
        for name in names.iter().filter(|_| !it.dry_run) {
            context.channel.notice(format!("received {name}"));
        }
        if let Some(key) = &*key.borrow() {
            failure = key.explain(failure);
        }
        if let Ok(Some(_)) = active.pool.resume_token(&dataset) {
            failure.message += &format!(
                "; the received part is kept: continue with the token in the property receive_resume_token of \
                 '{dataset}', or destroy it with receive -A"
            );
        }
        Err(failure)
    }

    pub(crate) fn abandon_receive(
        &self,
        target: &str,
        context: &mut CallerContext<'_>,
    ) -> Result<()> {
        let active = self.pool_of(target)?;
        let _admin = active.lock(context.decision)?;
        active.pool.abandon_receive(target, &context.origin())?;
        active.wake();
        Ok(())
    }
}

impl<'a> ReceiveSession<'a> {
    /// Receives one stream after the other. With a failure it returns the dataset too.
    fn receive_all<'c: 'a>(
        &mut self,
        input: &mut KeyBoundData<'_, Box<dyn std::io::Read + '_>>,
        mut exact: Option<(Chosen, ReceiveRight<'a>)>,
        context: &mut CallerContext<'c>,
    ) -> std::result::Result<(), (String, Failure)> {
        let mut dataset = dataset_of(&self.it.target).to_owned();
        let mut incoming = IncomingStreams::new(input);
        let mut next = incoming.next_begin();
        loop {
            let begin = match next {
                Ok(None) => return Ok(()),
                Ok(Some(begin)) => begin,
                Err(error) => return Err((dataset, error.into())),
            };
            if incoming.package().is_some() && context.view.is_some() {
                let why = "in a zone datasets are received one by one, without send -R";
                return Err((dataset, denied(why)));
            }
            let target = named(self.it, &begin, incoming.package());
            let done = target.and_then(|target| {
                dataset = dataset_of(&target).to_owned();
                let is_exact = target == self.it.target;
                let chosen = match exact.take().filter(|_| is_exact) {
                    Some(chosen) => (target.clone(), chosen),
                    None => self.choose(&target, context)?,
                };
                if let Some(package) = incoming.package() {
                    self.follow(package, &begin, &dataset, context)?;
                }
                self.receive_into(&target, chosen, begin, &mut incoming, context)
            });
            match done {
                Ok(following) => next = Ok(following),
                Err(failure) => return Err((dataset, failure)),
            }
        }
    }

    /// Decides whether to receive into the dataset that a stream names, and makes the datasets above it.
    fn choose<'c: 'a>(
        &mut self,
        target: &str,
        context: &mut CallerContext<'c>,
    ) -> Result<(String, (Chosen, ReceiveRight<'a>))> {
        // Before anything is made above it.
        if context.view.is_none() {
            (self.may)(target, false, &context.peer)?;
        }
        let mut at = target.to_owned();
        if let Some(first) = missing_above(self.active, target) {
            match self.it.dry_run {
                // It stands for the datasets that would be made below it.
                true => at = first,
                false => self.make_above(target, &mut context.with_channel(&mut NoPrompt))?,
            }
        }
        let right = ReceiveRight::new(self.active, &at, self.may, context)?;
        let mut silent = NoPrompt;
        let context = &mut context.with_channel(&mut silent);
        // Datasets below the one that the command names inherit its properties.
        let is_below = self.it.naming == ReceiveName::Exact && target != self.it.target;
        let none = Props::new();
        let props = if is_below { &none } else { &self.it.props };
        let exclude = self.it.exclude.clone();
        let chosen = Chosen::new(
            self.active,
            dataset_of(&at),
            props,
            exclude,
            &right,
            context,
        )?;
        Ok((at, (chosen, right)))
    }

    /// Destroys and renames snapshots of a dataset as the sender has done. Only with -F, and only for root.
    fn follow(
        &self,
        package: &Package,
        begin: &Begin,
        dataset: &str,
        context: &mut CallerContext<'_>,
    ) -> Result<()> {
        let is_root = context.peer.is_admin && context.view.is_none();
        let pool = &self.active.pool;
        let sent = dataset_of(&begin.sender.name);
        let packed = package.datasets.iter().find(|packed| packed.name == sent);
        let (Some(packed), Ok(head)) = (packed, pool.find(dataset)) else {
            return Ok(());
        };
        if !is_root || !self.it.force || !package.is_incremental || self.it.dry_run {
            return Ok(());
        }
        let known: BTreeMap<u64, &String> = packed
            .snapshots
            .iter()
            .map(|(guid, name)| (*guid, name))
            .collect();
        let (kept, gone): (Vec<_>, Vec<_>) = pool
            .snapshots(head.id)?
            .into_iter()
            .partition(|here| known.contains_key(&here.guid));
        if kept.is_empty() {
            // With no snapshot in common it is another dataset.
            return Ok(());
        }
        for here in gone {
            let name = format!("{dataset}@{}", here.name);
            self.daemon.destroy_same(&name, here.guid, context)?;
        }
        let _admin = self.active.lock(context.decision)?;
        let origin = context.origin();
        for here in &kept {
            self.active
                .same(here, &format!("{dataset}@{}", here.name), context.decision)?;
        }
        let mut renamed = Vec::new();
        for here in kept.iter().filter(|here| *known[&here.guid] != here.name) {
            // Two may have each other's names.
            let between = format!("{dataset}@renamed-{:016x}", here.guid);
            pool.rename(&format!("{dataset}@{}", here.name), &between, &origin)?;
            renamed.push((between, format!("{dataset}@{}", known[&here.guid])));
        }
        for (between, name) in renamed {
            pool.rename(&between, &name, &origin)?;
        }
        Ok(())
    }

    fn make_above(&self, target: &str, context: &mut CallerContext<'_>) -> Result<()> {
        let (above, _) = target.rsplit_once('/').unwrap_or((target, ""));
        let new = command::Create {
            name: above.into(),
            parents: true,
            no_mount: self.it.no_mount,
            ..command::Create::default()
        };
        self.daemon.create(&new, context).map(drop)
    }

    /// Receives the streams of one dataset. Returns the header of the stream after them.
    fn receive_into(
        &mut self,
        target: &str,
        (at, (chosen, right)): (String, (Chosen, ReceiveRight<'a>)),
        begin: Box<Begin>,
        incoming: &mut IncomingStreams<'_>,
        context: &mut CallerContext<'_>,
    ) -> Result<Option<Box<Begin>>> {
        let using = |root| {
            self.active
                .use_key(root, "a stream that is received", Some(self.data))
        };
        *self.key.borrow_mut() = receiving_root(self.active, dataset_of(&at))?.map(using);
        let into = ReceiveInto {
            target: &at,
            force: self.it.force,
            resumable: self.it.resumable,
            is_open: false,
        };
        let rules = ReceiveRules::new(
            self.daemon,
            self.active,
            &into,
            self.it.no_mount,
            chosen,
            &right,
        );
        let into = ReceiveInto {
            is_open: rules.is_mounted(),
            ..into
        };
        let mut next = Some(begin);
        let mut done = Ok(());
        while let Some(begin) = next.take() {
            // Before the data, so that a right that is lost costs no space.
            done = right.again();
            if done.is_ok() {
                done = self.receive_one(target, &begin, incoming, &into, &rules, context);
            }
            done = done.map_err(|failure| rules.explained(failure));
            if done.is_err() {
                break;
            }
            match incoming.next_begin() {
                Ok(following) => next = following,
                Err(error) => done = Err(error.into()),
            }
            let is_same = |begin: &Begin| {
                let name = named(self.it, begin, incoming.package());
                name.is_ok_and(|name| dataset_of(&name) == dataset_of(target))
            };
            if !next.as_deref().is_some_and(is_same) {
                break;
            }
        }
        let (names, failures) = rules.into_received();
        self.names.extend(names);
        self.failures.extend(failures);
        done.map(|()| next)
    }

    fn receive_one(
        &mut self,
        target: &str,
        begin: &Begin,
        incoming: &mut IncomingStreams<'_>,
        into: &ReceiveInto<'_>,
        rules: &ReceiveRules<'_>,
        context: &CallerContext<'_>,
    ) -> Result<()> {
        let pool = &self.active.pool;
        if !self.it.dry_run {
            pool.receive_stream(begin, incoming, into, rules, &context.origin())?;
            self.failures.extend(left_out(begin, &self.it.exclude));
            return Ok(());
        }
        let dataset = dataset_of(target);
        let snapshot = self
            .dry_run
            .check(pool, dataset, begin, incoming, into, rules)?;
        self.names.push(format!("{dataset}@{snapshot}"));
        Ok(())
    }
}

/// A message for each user property of a stream that no command would set, such as one with control characters. It is
/// not received.
fn left_out(begin: &Begin, exclude: &[String]) -> Vec<Failure> {
    let is_full = begin.from_guid == 0;
    let props = begin.props.iter().filter(|(name, _)| {
        is_full && properties::is_user_property(name) && !exclude.contains(name)
    });
    let refusal = |(name, value): (&String, &String)| {
        let refused = properties::check(name, value, Settable::WithKey).err()?;
        Some(refused.context("a property of the stream is left out"))
    };
    props.filter_map(refusal).collect()
}

fn dataset_of(name: &str) -> &str {
    name.split_once('@').map_or(name, |(dataset, _)| dataset)
}

/// The name of the dataset to receive into: from the command, or from the name at the sender.
fn named(it: &command::Receive, begin: &Begin, package: Option<&Package>) -> Result<String> {
    let sent = dataset_of(&begin.sender.name);
    let below_root = match package.map(|package| package.below_root(sent)) {
        Some(None) => {
            return Err(Failure::from(pool::Error::Stream {
                reason: "has a dataset that is not below its root".into(),
            }));
        }
        Some(Some(rest)) => Some(rest),
        None => None,
    };
    let target = &it.target;
    let name = match (it.naming, package.zip(below_root)) {
        (ReceiveName::Exact, None) => return Ok(target.clone()),
        (ReceiveName::Exact, Some(_)) if target.contains('@') => {
            return Err(Failure::usage(format!(
                "'{target}': a stream of send -R has several snapshots; name a dataset"
            )));
        }
        (ReceiveName::Exact, Some((_, rest))) => format!("{target}{rest}"),
        (ReceiveName::Path, _) => match sent.split_once('/') {
            Some((_, rest)) => format!("{target}/{rest}"),
            None => target.clone(),
        },
        (ReceiveName::Last, None) => format!("{target}/{}", last_part(sent)),
        (ReceiveName::Last, Some((package, rest))) => {
            format!("{target}/{}{rest}", last_part(&package.root))
        }
    };
    DatasetName::parse(&format!("{name}@{}", begin.snapshot()))?;
    Ok(name)
}

fn last_part(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// Checks the dataset below which streams are received by their names.
fn check_base(active: &ActivePool, target: &str) -> Result<()> {
    if target.contains('@') {
        return Err(Failure::usage(format!(
            "'{target}' is a snapshot; with -d and -e the stream names the snapshots: name a dataset"
        )));
    }
    active.pool.find(target)?;
    Ok(())
}

/// The topmost dataset above a name that does not exist.
fn missing_above(active: &ActivePool, name: &str) -> Option<String> {
    let ends = name.match_indices('/').map(|(end, _)| &name[..end]);
    let mut missing = ends.filter(|above| active.pool.find(above).is_err());
    missing.next().map(str::to_owned)
}

/// The key root whose keys seal the data that is received into a dataset, if they are loaded. For a new dataset this
/// is the key root of the dataset above it.
fn receiving_root(active: &ActivePool, dataset: &str) -> Result<Option<u64>> {
    let above = dataset.rsplit_once('/').map_or(dataset, |(above, _)| above);
    let found = active.pool.find(dataset);
    let head = found.or_else(|_| active.pool.find(above))?;
    let root = active.key_root(&head)?;
    Ok(Some(root).filter(|root| *root != 0 && active.has_key(*root)))
}

/// A prompt that always fails: the caller is sending a stream, and cannot be asked.
struct NoPrompt;

impl Channel for NoPrompt {
    fn ask(&mut self, ask: Ask) -> Result<Option<Secret>> {
        Err(Failure::usage(format!(
            "the key of '{}' cannot be asked for, because its name comes with the stream; name a file with the key, as \
             in -o keysource=raw,file:///etc/keys/k, or receive the datasets one by one",
            ask.dataset
        )))
    }

    fn notice(&mut self, text: String) {
        tracing::info!(text, "while streams are received");
    }

    without_connection!(rows pause data);
}
