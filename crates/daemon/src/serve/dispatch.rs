//! Serving commands: one connection, one command, one thread.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use protocol::api::{
    API_VERSION, Answer, Ask, AskFormat, Command, DaemonReport, FailureKind, Reply, Request,
};
use protocol::wire;
use secret::Secret;
use vfs::Caller;

use crate::failure::{Failure, Result};
use crate::host::users::Peer;
use crate::ops::clones::CloneOf;
use crate::ops::datasets::NewDatasets;
use crate::ops::keys::commands::unloaded_roots;
use crate::ops::list::Get;
use crate::ops::mounts::HowToMount;
use crate::ops::pools::{ImportPool, NewPool};
use crate::serve::said;
use crate::state::connections::Hurried;
use crate::state::context::{Context, first_of, reach};
use crate::state::daemon::Daemon;
use crate::state::keyring::Asker;
use crate::state::zones::view::View;
use crate::state::zones::zone::Zone;

/// Whoever connects says within this time what is wanted.
const REQUEST_TIME: Duration = Duration::from_secs(10);
/// A request of somebody else than root has no more bytes than this.
const DELEGATE_REQUEST_MAX: u32 = 1 << 20;

/// Asks over the connection, in a zone as its tenant calls things.
struct Remote<'a> {
    stream: &'a mut UnixStream,
    view: Option<&'a View>,
}

impl Asker for Remote<'_> {
    fn ask(&mut self, ask: Ask) -> Result<Option<Secret>> {
        let lost =
            |error| Failure::new(FailureKind::NoKey, format!("the caller went away: {error}"));
        let ask = match self.view {
            Some(view) => view.ask(ask),
            None => ask,
        };
        let len_max = match ask.format {
            AskFormat::KeyFile => wire::KEY_FILE_MAX,
            AskFormat::Passphrase | AskFormat::Hex | AskFormat::Pin => wire::SECRET_MAX,
        };
        wire::send(self.stream, &Answer::Ask(ask)).map_err(lost)?;
        wire::receive_secret(self.stream, len_max).map_err(lost)
    }

    fn notice(&mut self, text: String) {
        let text = match self.view {
            Some(view) => view.text(&text),
            None => text,
        };
        // Whoever went away does not want to know.
        let _ = wire::send(self.stream, &Answer::Notice(text));
    }
}

/// How much memory a request lets one password hash take, in KiB: others may not take it from the machine.
fn hash_memory_of(request: &Request, peer: &Peer, view: Option<&View>) -> Result<u64> {
    match request.hash_memory {
        None => Ok(0),
        Some(mib) if peer.is_master && view.is_none() => Ok(mib.saturating_mul(1024)),
        Some(_) => Err(Failure::new(
            FailureKind::Permission,
            "--hash-memory is for root, and for the user who runs the daemon",
        )),
    }
}

impl Daemon {
    /// Has a thread of its own serve a connection.
    pub(crate) fn serve_on_thread(serve: impl FnOnce() + Send + 'static) {
        let thread = std::thread::Builder::new().name("command".into());
        if let Err(error) = thread.spawn(serve) {
            tracing::error!(%error, "a command could not be served");
        }
    }

    /// Serves one connection, which came in where the daemon listens or through a zone.
    pub(crate) fn serve_one(
        self: &Arc<Self>,
        mut stream: UnixStream,
        zone: Option<&Zone>,
    ) -> Served {
        let outcome = match zone {
            Some(zone) => self.handle_in_zone(&mut stream, zone),
            None => self.handle(&mut stream),
        };
        answer(stream, outcome)
    }

    /// Serves one connection of a caller who is known by other means.
    #[cfg(test)]
    pub(crate) fn serve_peer(self: &Arc<Self>, peer: Peer, mut stream: UnixStream) {
        let outcome = self.hear(peer, &mut stream);
        assert_eq!(answer(stream, outcome), Served::Done);
    }

    fn handle(self: &Arc<Self>, stream: &mut UnixStream) -> Result<Outcome> {
        self.hear(Peer::of(stream)?, stream)
    }

    /// Hears what a caller wants, and does it.
    fn hear(self: &Arc<Self>, peer: Peer, stream: &mut UnixStream) -> Result<Outcome> {
        let request = match peer.is_master {
            true => receive_in_time(stream, wire::JSON_MAX)?,
            false => {
                self.check_known(&peer)?;
                receive_in_time(stream, DELEGATE_REQUEST_MAX)?
            }
        };
        self.carry_out(request, peer, None, stream)
    }

    /// Does what a tenant asks for, and tells him what came of it as he calls things.
    fn handle_in_zone(self: &Arc<Self>, stream: &mut UnixStream, zone: &Zone) -> Result<Outcome> {
        let mut peer = Peer::of(stream)?;
        zone.check(&peer)?;
        let _running = zone.callers.begin(stream)?;
        let request = receive_in_time(stream, DELEGATE_REQUEST_MAX)?;
        peer.who = format!("{}:{}", peer.who, zone.name);
        let view = self.view(zone)?;
        let _steady = zone.steady(&request.command)?;
        self.carry_out(request, peer, Some(&view), stream)
    }

    fn carry_out(
        self: &Arc<Self>,
        request: Request,
        peer: Peer,
        view: Option<&View>,
        stream: &mut UnixStream,
    ) -> Result<Outcome> {
        keys::hash_for(peer.uid);
        keys::allow_hash_memory(hash_memory_of(&request, &peer, view)?);
        let said = said::line(&request.command);
        tracing::info!(who = peer.who, command = said, "command");
        let command = self.authorize(&peer, view, request.command)?;
        let lost = |error| Failure::other(format!("the caller went away: {error}"));
        let data = stream.try_clone().map_err(lost)?;
        let mut remote = Remote { stream, view };
        let pools = || self.pools();
        let mut context = Context {
            peer,
            view,
            pools: &pools,
            // In a zone what it means outside.
            said: said::line(&command),
            asker: &mut remote,
        };
        if let Command::DaemonStop = command {
            self.shut_down()?;
            return Ok(Outcome::Stop);
        }
        let result = match self.run_transfer(command, data, &mut context) {
            Ok(done) => done,
            Err(other) => self.run(other, &mut context),
        };
        let seen = match (view, result) {
            (None, result) => result,
            (Some(view), Ok(reply)) => view.reply(reply),
            (Some(view), Err(failure)) => Err(view.failure(failure)),
        };
        seen.map(Outcome::Reply)
    }

    /// Refuses somebody to whom nothing is allowed anywhere, before he is heard.
    fn check_known(&self, peer: &Peer) -> Result<()> {
        if self.knows(peer) {
            return Ok(());
        }
        Err(Failure::new(
            FailureKind::Permission,
            "only root, the user who runs the daemon, and those to whom something is allowed \
             ('strongroom allow') may use it",
        ))
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
                    devices: *devices,
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
                without_logs,
                accept,
            } => {
                let import = ImportPool {
                    search,
                    pool,
                    new_name,
                    read_only,
                    force,
                    no_mount,
                    load_keys,
                    keys_until: None,
                    without_logs,
                    accept,
                };
                self.import_pools(&import, context).map(Reply::Names)
            }
            Command::PoolExport { pool, force } => {
                self.export_pool(&pool, force, context).map(done)
            }
            Command::PoolDestroy { pool, force } => {
                self.destroy_pool(&pool, force, context).map(done)
            }
            Command::PoolDevices { pool, change } => {
                self.change_devices(&pool, &change, context).map(done)
            }
            Command::PoolStatus { pools } => self.status(&pools).map(Reply::Pools),
            Command::PoolIo { pools } => self.pool_io(&pools).map(Reply::Io),
            Command::PoolSync { pools } => self.sync(&pools).map(done),
            Command::PoolScrub { pool, stop } => self.scrub(&pool, stop, context).map(done),
            Command::PoolFeatures { pools } => self.features(&pools).map(Reply::Features),
            Command::PoolHistory { pool, internal } => {
                self.history(&pool, internal).map(Reply::History)
            }
            Command::Create {
                name,
                props,
                parents,
                no_mount,
                volume,
            } => {
                let new = NewDatasets {
                    name: &name,
                    parents,
                    no_mount,
                    volume,
                };
                self.create(&new, &props, context).map(done)
            }
            Command::Destroy {
                name,
                recursive,
                clones,
                force,
                dry_run,
            } => self
                .destroy(&name, reach(recursive, clones), force, dry_run, context)
                .map(Reply::Names),
            Command::Shred {
                name,
                recursive,
                clones,
                force,
                dry_run,
            } => self
                .shred(&name, reach(recursive, clones), force, dry_run, context)
                .map(Reply::Shredded),
            Command::ReceiveAbandon { target } => self.abandon_receive(&target, context).map(done),
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
                .map(|rows| match context.view {
                    Some(_) => Reply::Datasets(rows),
                    None => Reply::Datasets(self.seen_by(&context.peer, rows)),
                }),
            Command::Set {
                names,
                props,
                force,
            } => self.set(&names, &props, force, context).map(done),
            Command::Userspace { name, kind, check } => self
                .userspace(&name, kind, check, context)
                .map(Reply::Accounts),
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
            other => self.run_clones_and_holds(other, context),
        }
    }

    fn run_clones_and_holds(
        self: &Arc<Self>,
        command: Command,
        context: &mut Context<'_>,
    ) -> Result<Reply> {
        let done = |()| Reply::Nothing;
        match command {
            Command::Clone {
                snapshot,
                name,
                props,
                rekey,
                parents,
                no_mount,
            } => {
                let clone = CloneOf {
                    snapshot: &snapshot,
                    name: &name,
                    props: &props,
                    rekey,
                    parents,
                    no_mount,
                };
                self.clone_snapshot(&clone, context).map(done)
            }
            Command::Promote { name } => self.promote(&name, context).map(done),
            Command::Hold {
                names,
                tag,
                recursive,
            } => self.hold(&names, &tag, recursive, context).map(done),
            Command::Release {
                names,
                tag,
                recursive,
            } => self.release(&names, &tag, recursive, context).map(done),
            Command::Diff { from, to } => self.diff(&from, to.as_deref()).map(Reply::Diff),
            Command::Holds { names, recursive } => self.holds(&names, recursive).map(Reply::Holds),
            other => self.run_mounts(other, context),
        }
    }

    fn run_mounts(self: &Arc<Self>, command: Command, context: &mut Context<'_>) -> Result<Reply> {
        let done = |()| Reply::Nothing;
        match command {
            Command::Mount {
                name: Some(name),
                dir,
                load_keys,
                read_only,
                overlay,
                allowed,
            } => {
                let how = HowToMount {
                    dir,
                    read_only,
                    overlay,
                    allowed,
                    owner: self.owner_of_root(&name, context)?,
                };
                self.mount_one(&name, load_keys, &how, context).map(done)
            }
            Command::Mount {
                name: None,
                load_keys,
                ..
            } => self.mount_all(load_keys, context).map(done),
            Command::Remount {
                name,
                read_only,
                allowed,
            } => self.remount(&name, read_only, allowed).map(done),
            Command::Mounts => self.mount_list().map(Reply::Mounts),
            Command::Unmount { target, force } => {
                self.unmount(target.as_deref(), force, context).map(done)
            }
            Command::Inspect {
                target,
                detail,
                check,
            } => {
                let inspection = self.inspect(&target, detail, check)?;
                Ok(Reply::Inspection(Box::new(inspection)))
            }
            Command::Anchor { names } => self.anchors(&names).map(Reply::Anchors),
            Command::AnchorVerify { anchors } => {
                self.check_anchors(&anchors).map(Reply::AnchorRows)
            }
            Command::Permissions { name } => self.permissions(&name).map(Reply::Permissions),
            Command::ChangePermissions(change) => {
                self.change_permissions(&change, context).map(done)
            }
            Command::ZoneCreate(new) => self.create_zone(&new, context).map(done),
            Command::ZoneDestroy { name } => self.destroy_zone(&name, context).map(done),
            Command::Zones => Ok(Reply::Zones(self.zone_rows())),
            Command::NbdExport(new) => self.export_device(&new).map(done),
            Command::NbdUnexport { name, force } => self.unexport(&name, force).map(done),
            Command::NbdExports => Ok(Reply::Exports(self.export_rows())),
            Command::LuksOpen(new) => self.open_mapping(&new, context.asker).map(done),
            Command::LuksClose { name } => self.close_mapping(&name).map(done),
            Command::LuksStatus { names } => self.mapping_rows(&names).map(Reply::Mappings),
            Command::LuksRefresh { name, change } => self.change_mapping(&name, &change).map(done),
            Command::LuksResize { name, size } => self.resize_mapping(&name, size).map(done),
            Command::DaemonStatus => Ok(Reply::Daemon(self.report())),
            other => self.run_keys(other, context),
        }
    }

    fn sync(&self, names: &[String]) -> Result<()> {
        let named: Result<Vec<_>> = names.iter().map(|name| self.pool(name)).collect();
        let pools = if names.is_empty() {
            self.pools()
        } else {
            named?
        };
        for imported in pools.iter().filter(|p| !p.pool.is_read_only()) {
            imported.pool.commit()?;
        }
        Ok(())
    }

    fn scrub(&self, pool: &str, stop: bool, context: &mut Context<'_>) -> Result<()> {
        let imported = self.pool(pool)?;
        let _admin = imported.lock()?;
        imported.pool.record(&context.origin())?;
        if stop {
            imported.pool.scrub_stop()?;
        } else {
            imported.pool.scrub_start()?;
            imported.wake();
        }
        Ok(())
    }

    /// Who owns the root of a dataset that is mounted for the first time. To mount it is not to own it: a delegate
    /// does who may make datasets there.
    fn owner_of_root(&self, name: &str, context: &Context<'_>) -> Result<Caller> {
        let (imported, entry) = self.find(name)?;
        let may_make = match imported.pool.entry(entry.parent) {
            Ok(above) => imported.allows(&above, &context.peer, "create")?,
            // The root of a pool is nobody's to make.
            Err(_) => false,
        };
        Ok(match may_make {
            true => context.caller(),
            false => context.owner_elsewhere(),
        })
    }

    fn mount_one(
        self: &Arc<Self>,
        name: &str,
        load_keys: bool,
        how: &HowToMount,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let (imported, entry) = self.find(name)?;
        if load_keys && entry.suite != 0 {
            imported.ensure_key(imported.key_root(&entry)?, context.asker)?;
        }
        let _admin = imported.lock()?;
        let entry = imported.again(&entry, name)?;
        self.mount(&imported, &entry, how)
    }

    fn mount_all(self: &Arc<Self>, load_keys: bool, context: &mut Context<'_>) -> Result<()> {
        let mut failures = Vec::new();
        for imported in self.pools() {
            if load_keys {
                for root in unloaded_roots(&imported)? {
                    failures.extend(imported.ensure_key(root, context.asker).err());
                }
            }
            // One that was exported meanwhile has nothing to mount.
            let Ok(_admin) = imported.lock() else {
                continue;
            };
            let entries = imported.all_heads()?;
            failures.extend(self.mount_automatic(&imported, &entries, context.caller()));
        }
        first_of(failures, context)
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

/// Tells a caller what came of a command.
fn answer(mut stream: UnixStream, outcome: Result<Outcome>) -> Served {
    let answer = match outcome {
        Ok(Outcome::Reply(reply)) => Answer::Done(reply),
        Ok(Outcome::Stop) => {
            let _ = wire::send(&mut stream, &Answer::Done(Reply::Nothing));
            return Served::Stop;
        }
        Err(failure) => {
            tracing::info!(reason = failure.message, "a command failed");
            Answer::Failed(failure.into())
        }
    };
    if let Err(error) = wire::send(&mut stream, &answer) {
        tracing::debug!(%error, "a caller did not wait for its answer");
    }
    Served::Done
}

/// Receives what somebody wants done, in so many bytes and within [`REQUEST_TIME`].
fn receive_in_time(stream: &UnixStream, max: u32) -> Result<Request> {
    let unheard = |error| Failure::other(format!("the connection failed: {error}"));
    let until = Instant::now() + REQUEST_TIME;
    let request = understood(wire::receive_request(&mut Hurried { stream, until }, max))?;
    // Who is asked for a passphrase then may think.
    stream.set_read_timeout(None).map_err(unheard)?;
    Ok(request)
}

fn understood(request: std::io::Result<std::result::Result<Request, u32>>) -> Result<Request> {
    let request = request
        .map_err(|error| Failure::other(format!("the request cannot be understood: {error}")))?;
    request.map_err(|version| {
        Failure::other(format!(
            "the daemon speaks version {API_VERSION} and this command version {version}; restart the daemon: \
             strongroom daemon stop"
        ))
    })
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::api::API_VERSION;

    #[test]
    fn others_do_not_give_a_hash_more_memory() {
        let request = |hash_memory| Request {
            version: API_VERSION,
            command: Command::Mounts,
            hash_memory,
        };
        let peer = |is_master| Peer {
            uid: 1000,
            gid: 1000,
            groups: vec![1000],
            who: "another user".into(),
            is_master,
        };
        let refused = hash_memory_of(&request(Some(5)), &peer(false), None);
        assert_eq!(refused.unwrap_err().kind, FailureKind::Permission);
        assert_eq!(
            hash_memory_of(&request(None), &peer(false), None).unwrap(),
            0
        );
        let allowed = hash_memory_of(&request(Some(5)), &peer(true), None);
        assert_eq!(allowed.unwrap(), 5 << 10);
    }
}
