//! Serving commands: one connection, one command, one thread.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;

use keys::{KeySource, Location, Secret};
use pool::{Entry, Origin};
use vfs::Caller;

use crate::api::{
    API_VERSION, Answer, Ask, Command, DaemonReport, Failure, FailureKind, Reply, Request,
};
use crate::failure::Result;
use crate::imported::Imported;
use crate::keyholder::Asker;
use crate::mounts::HowToMount;
use crate::pools::{ImportPool, NewPool};
use crate::query::Get;
use crate::state::Daemon;
use crate::users::{Peer, host_name};
use crate::wire;

/// Who wants something done, and how to talk to them.
pub(crate) struct Context<'a> {
    peer: Peer,
    typed: String,
    pub(crate) asker: &'a mut dyn Asker,
}

impl<'a> Context<'a> {
    /// Something that the daemon does by itself.
    pub(crate) fn internal(what: &str, asker: &'a mut dyn Asker) -> Context<'a> {
        let peer = Peer {
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            who: format!("daemon on {}", host_name()),
        };
        Context {
            peer,
            typed: what.into(),
            asker,
        }
    }

    /// For the history.
    pub(crate) fn origin(&self) -> Origin {
        Origin {
            who: self.peer.who.clone(),
            text: self.typed.clone(),
        }
    }

    /// Who owns what is made.
    pub(crate) fn caller(&self) -> Caller {
        Caller {
            uid: self.peer.uid,
            gid: self.peer.gid,
        }
    }

    /// Tells of failures that do not make the command fail.
    pub(crate) fn tell(&mut self, failures: Vec<Failure>) {
        for failure in failures {
            self.asker.notice(failure.message);
        }
    }
}

/// Asks over the connection.
struct Remote<'a>(&'a mut UnixStream);

impl Asker for Remote<'_> {
    fn ask(&mut self, ask: Ask) -> Result<Option<Secret>> {
        let lost =
            |error| Failure::new(FailureKind::NoKey, format!("the caller went away: {error}"));
        wire::send(self.0, &Answer::Ask(ask)).map_err(lost)?;
        wire::receive_secret(self.0).map_err(lost)
    }

    fn notice(&mut self, text: String) {
        // Whoever went away does not want to know.
        let _ = wire::send(self.0, &Answer::Notice(text));
    }
}

/// Listens where commands look for the daemon.
pub(crate) fn listen(socket: &Path) -> Result<UnixListener> {
    let failed = |what: &str, error: std::io::Error| {
        Failure::other(format!("cannot {what} {}: {error}", socket.display()))
    };
    if let Some(dir) = socket.parent() {
        make_private_dir(dir).map_err(|error| failed("make the directory of", error))?;
    }
    match UnixListener::bind(socket) {
        Ok(listener) => private(socket, listener),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            if UnixStream::connect(socket).is_ok() {
                return Err(Failure::new(
                    FailureKind::Busy,
                    format!("a daemon runs already at {}", socket.display()),
                ));
            }
            // Its owner was killed.
            std::fs::remove_file(socket).map_err(|error| failed("replace", error))?;
            let listener =
                UnixListener::bind(socket).map_err(|error| failed("listen at", error))?;
            private(socket, listener)
        }
        Err(error) => Err(failed("listen at", error)),
    }
}

fn make_private_dir(dir: &Path) -> std::io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    std::fs::create_dir_all(dir)?;
    std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o700))
}

fn private(socket: &Path, listener: UnixListener) -> Result<UnixListener> {
    let mode = std::fs::Permissions::from_mode(0o600);
    // A caller that has gone again must not keep the others waiting.
    listener
        .set_nonblocking(true)
        .and_then(|()| std::fs::set_permissions(socket, mode))
        .map_err(|error| Failure::other(format!("cannot protect {}: {error}", socket.display())))?;
    Ok(listener)
}

impl Daemon {
    /// Serves one connection.
    pub(crate) fn serve_one(self: &Arc<Self>, mut stream: UnixStream) -> Served {
        let answer = match self.handle(&mut stream) {
            Ok(Outcome::Reply(reply)) => Answer::Done(reply),
            Ok(Outcome::Stop) => {
                let _ = wire::send(&mut stream, &Answer::Done(Reply::Nothing));
                return Served::Stop;
            }
            Err(failure) => Answer::Failed(failure),
        };
        if let Err(error) = wire::send(&mut stream, &answer) {
            tracing::debug!(%error, "a caller did not wait for its answer");
        }
        Served::Done
    }

    fn handle(self: &Arc<Self>, stream: &mut UnixStream) -> Result<Outcome> {
        let peer = Peer::of(stream)?;
        let bad = |error| Failure::other(format!("the request cannot be understood: {error}"));
        let request: Request = wire::receive(stream).map_err(bad)?;
        if request.version != API_VERSION {
            return Err(Failure::other(format!(
                "the daemon speaks version {API_VERSION} and this command version {}; \
                 restart the daemon: strongroom daemon stop",
                request.version
            )));
        }
        tracing::info!(who = peer.who, command = request.typed, "command");
        let mut remote = Remote(stream);
        let mut context = Context {
            peer,
            typed: request.typed,
            asker: &mut remote,
        };
        if let Command::DaemonStop = request.command {
            self.shut_down(false)?;
            return Ok(Outcome::Stop);
        }
        self.run(request.command, &mut context).map(Outcome::Reply)
    }

    fn run(self: &Arc<Self>, command: Command, context: &mut Context<'_>) -> Result<Reply> {
        let done = |()| Reply::Nothing;
        match command {
            Command::PoolCreate {
                pool,
                devices,
                size,
                force,
                props,
                no_mount,
            } => {
                let new = NewPool {
                    name: pool,
                    devices,
                    size,
                    force,
                    props,
                    no_mount,
                };
                self.create_pool(new, context).map(done)
            }
            Command::PoolImportable { search } => self.importable(&search).map(Reply::Importable),
            Command::PoolImport {
                search,
                pool,
                new_name,
                read_only,
                force,
                no_mount,
                load_keys,
            } => {
                let import = ImportPool {
                    search,
                    pool,
                    new_name,
                    read_only,
                    force,
                    no_mount,
                    load_keys,
                };
                self.import_pools(&import, context).map(Reply::Names)
            }
            Command::PoolExport { pool, force } => {
                self.export_pool(&pool, force, context).map(done)
            }
            Command::PoolDestroy { pool, force } => self.destroy_pool(&pool, force).map(done),
            Command::PoolStatus { pools } => self.status(&pools).map(Reply::Pools),
            Command::PoolScrub { pool, stop } => self.scrub(&pool, stop, context).map(done),
            Command::PoolHistory { pool, internal } => {
                self.history(&pool, internal).map(Reply::History)
            }
            Command::Create {
                name,
                props,
                parents,
                no_mount,
            } => self
                .create(&name, &props, parents, no_mount, context)
                .map(done),
            Command::Destroy {
                name,
                recursive,
                force,
                dry_run,
            } => self
                .destroy(&name, recursive, force, dry_run, context)
                .map(Reply::Names),
            Command::Rename { from, to } => self.rename(&from, &to, context).map(done),
            Command::Get {
                names,
                depth,
                snapshots,
                props,
            } => self
                .get(&Get {
                    names,
                    depth,
                    snapshots,
                    props,
                })
                .map(Reply::Datasets),
            Command::Set { names, props } => self.set(&names, &props, context).map(done),
            Command::Inherit {
                names,
                prop,
                recursive,
            } => self.inherit(&names, &prop, recursive, context).map(done),
            Command::Snapshot { names, recursive } => {
                self.snapshot(&names, recursive, context).map(Reply::Names)
            }
            Command::Rollback {
                name,
                recursive,
                force,
            } => self.rollback(&name, recursive, force, context).map(done),
            other => self.run_keys_and_mounts(other, context),
        }
    }

    fn run_keys_and_mounts(
        self: &Arc<Self>,
        command: Command,
        context: &mut Context<'_>,
    ) -> Result<Reply> {
        let done = |()| Reply::Nothing;
        match command {
            Command::Mount {
                name: Some(name),
                dir,
                load_keys,
                read_only,
                overlay,
            } => {
                let how = HowToMount {
                    dir,
                    read_only,
                    overlay,
                    owner: context.caller(),
                };
                self.mount_one(&name, load_keys, &how, context).map(done)
            }
            Command::Mount {
                name: None,
                load_keys,
                ..
            } => self.mount_all(load_keys, context).map(done),
            Command::Mounts => self.mount_list().map(Reply::Mounts),
            Command::Unmount { target, force } => self.unmount(target.as_deref(), force).map(done),
            Command::KeyLoad {
                names,
                recursive,
                location,
                dry_run,
            } => self
                .key_load(&names, recursive, location.as_deref(), dry_run, context)
                .map(done),
            Command::KeyUnload {
                names,
                recursive,
                force,
            } => self.key_unload(&names, recursive, force).map(done),
            Command::KeyChange { name, keysource } => {
                let (imported, entry) = self.find(&name)?;
                let _admin = imported.admin.lock();
                let origin = context.origin();
                imported
                    .change_key(&entry, keysource.as_deref(), &origin, context.asker)
                    .map(done)
            }
            Command::KeyStatus { names } => self.key_status(&names).map(Reply::Keys),
            Command::Inspect {
                target,
                detail,
                check,
            } => {
                let inspection = self.inspect(&target, detail, check)?;
                Ok(Reply::Inspection(Box::new(inspection)))
            }
            Command::DaemonStatus => Ok(Reply::Daemon(self.report())),
            other => Err(Failure::other(format!("{other:?} is not served here"))),
        }
    }

    fn scrub(&self, pool: &str, stop: bool, context: &mut Context<'_>) -> Result<()> {
        let imported = self.pool(pool)?;
        let _admin = imported.admin.lock();
        imported.pool.record(&context.origin())?;
        if stop {
            imported.pool.scrub_stop()?;
        } else {
            imported.pool.scrub_start()?;
            imported.wake();
        }
        Ok(())
    }

    fn mount_one(
        self: &Arc<Self>,
        name: &str,
        load_keys: bool,
        how: &HowToMount,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let (imported, entry) = self.find(name)?;
        let _admin = imported.admin.lock();
        if load_keys && entry.suite != 0 && imported.wrapping_key(entry.key_root)?.is_none() {
            let root = imported.pool.entry(entry.key_root)?;
            imported.load_key(&root, None, false, context.asker)?;
        }
        self.mount(&imported, &entry, how).map(|_| ())
    }

    fn mount_all(self: &Arc<Self>, load_keys: bool, context: &mut Context<'_>) -> Result<()> {
        let mut failures = Vec::new();
        for imported in self.pools() {
            let _admin = imported.admin.lock();
            let entries = imported.all_heads()?;
            if load_keys {
                for root in unloaded_roots(&imported, &entries) {
                    failures.extend(imported.load_key(&root, None, false, context.asker).err());
                }
            }
            failures.extend(self.mount_automatic(&imported, &entries, context.caller()));
        }
        first_of(failures, context)
    }

    fn key_load(
        &self,
        names: &[String],
        recursive: bool,
        location: Option<&str>,
        dry_run: bool,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let mut failures = Vec::new();
        for (imported, entries) in self.key_targets(names, recursive)? {
            let _admin = imported.admin.lock();
            for entry in &entries {
                let mut load = || {
                    let root = key_root(&imported, entry, names)?;
                    let Some(root) = root else { return Ok(()) };
                    let is_loaded = imported.keys.lock().contains_key(&root.id);
                    if is_loaded && !dry_run && names.is_empty() {
                        return Ok(());
                    }
                    let source = location
                        .map(|text| other_source(&imported, &root, text))
                        .transpose()?;
                    imported.load_key(&root, source.as_ref(), dry_run, context.asker)
                };
                failures.extend(load().err());
            }
        }
        first_of(failures, context)
    }

    fn key_unload(self: &Arc<Self>, names: &[String], recursive: bool, force: bool) -> Result<()> {
        for (imported, entries) in self.key_targets(names, recursive)? {
            let _admin = imported.admin.lock();
            for entry in &entries {
                let Some(root) = key_root(&imported, entry, names)? else {
                    continue;
                };
                if !imported.keys.lock().contains_key(&root.id) {
                    if names.is_empty() || recursive {
                        continue;
                    }
                    let name = imported.pool.name_of(root.id)?;
                    return Err(Failure::new(
                        FailureKind::NoKey,
                        format!("the key of '{name}' is not loaded"),
                    ));
                }
                self.unload_key(&imported, &root, force)?;
            }
        }
        Ok(())
    }

    /// Forgets a key. With `force`, what is mounted with it is unmounted first.
    fn unload_key(
        self: &Arc<Self>,
        imported: &Arc<Imported>,
        root: &Entry,
        force: bool,
    ) -> Result<()> {
        let mut users = Vec::new();
        for id in imported.mounted_ids() {
            if imported.pool.entry(id)?.key_root == root.id {
                users.push(id);
            }
        }
        if let Some(user) = users.first().filter(|_| !force) {
            let (root, user) = (
                imported.pool.name_of(root.id)?,
                imported.pool.name_of(*user)?,
            );
            return Err(Failure::new(
                FailureKind::Busy,
                format!(
                    "the key of '{root}' is in use: '{user}' is mounted; unmount it, or use -f"
                ),
            ));
        }
        self.unmount_all(imported, &users, force)?;
        imported.keys.lock().remove(&root.id);
        Ok(())
    }

    /// The datasets whose keys a command is about, by pool; all if it names none.
    fn key_targets(&self, names: &[String], recursive: bool) -> Result<Vec<KeyTargets>> {
        if names.is_empty() {
            let all = self.pools().into_iter().map(|imported| {
                let entries = imported.all_heads()?;
                Ok((imported, entries))
            });
            return all.collect();
        }
        let named = names.iter().map(|name| {
            let (imported, entry) = self.find(name)?;
            let entries = if recursive {
                imported.heads_below(&entry)?
            } else {
                vec![entry]
            };
            Ok((imported, entries))
        });
        named.collect()
    }

    fn report(&self) -> DaemonReport {
        DaemonReport {
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            socket: self.socket.display().to_string(),
            hardware: cipher::hardware().to_string(),
            pools: self
                .pools()
                .iter()
                .map(|imported| imported.pool.name())
                .collect(),
        }
    }
}

/// The key root that a command means by a dataset: itself. Where a dataset was named that inherits
/// its key, that is an error; where it was not, it is passed over.
fn key_root(
    imported: &Imported,
    entry: &Arc<Entry>,
    names: &[String],
) -> Result<Option<Arc<Entry>>> {
    if entry.suite != 0 && entry.key_root == entry.id {
        return Ok(Some(Arc::clone(entry)));
    }
    let name = imported.pool.name_of(entry.id)?;
    if !names.contains(&name) {
        return Ok(None);
    }
    if entry.suite == 0 {
        return Err(Failure::other(format!("'{name}' is not encrypted")));
    }
    let root = imported.pool.name_of(entry.key_root)?;
    Err(Failure::other(format!(
        "'{name}' has its key from '{root}'; load or unload that"
    )))
}

fn unloaded_roots(imported: &Imported, entries: &[Arc<Entry>]) -> Vec<Arc<Entry>> {
    let keys = imported.keys.lock();
    entries
        .iter()
        .filter(|entry| {
            entry.suite != 0 && entry.key_root == entry.id && !keys.contains_key(&entry.id)
        })
        .cloned()
        .collect()
}

/// A key source with the same format and another location.
fn other_source(imported: &Imported, root: &Entry, location: &str) -> Result<KeySource> {
    let own = imported.keysource(root)?;
    let text = format!("{},{location}", own.format());
    let source: KeySource = text.parse()?;
    match source.location() {
        Location::Prompt | Location::File(_) => Ok(source),
    }
}

/// The first failure is the command's; the others are told.
fn first_of(mut failures: Vec<Failure>, context: &mut Context<'_>) -> Result<()> {
    if failures.is_empty() {
        return Ok(());
    }
    let first = failures.remove(0);
    context.tell(failures);
    Err(first)
}

/// Datasets of one pool whose keys a command is about.
type KeyTargets = (Arc<Imported>, Vec<Arc<Entry>>);

enum Outcome {
    Reply(Reply),
    Stop,
}

/// What becomes of the daemon after a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Served {
    /// It goes on.
    Done,
    /// It ends.
    Stop,
}
