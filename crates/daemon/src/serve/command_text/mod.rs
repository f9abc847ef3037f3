//! What a command is called in the history of a pool and in the log: as it could be typed.
//!
//! It is made from the command that is carried out, so that no caller writes what was not done. Options stand in one
//! order, and properties by name. No secret is part of a command but the backup of a keyring, which is left out.

mod line;

use protocol::api::{Command, DeviceChange, Props, Rotation, WhoKind, command};

use line::{LEFT_OUT, Line, property, size};

/// What is tried first among key slots if nobody says so.
const USUAL_PRIORITY: u8 = 128;

/// A command line.
pub(crate) fn line(command: &Command) -> String {
    of_pools(command).0
}

fn of_pools(command: &Command) -> Line {
    match command {
        Command::PoolCreate(command::PoolCreate {
            pool,
            devices,
            size: of_files,
            force,
            props,
            no_mount,
        }) => {
            let (place, props): (Props, Props) = props
                .iter()
                .cloned()
                .partition(|(name, _)| name == "mountpoint");
            Line::new("pool create")
                .flag("-f", *force)
                .flag("-N", *no_mount)
                .option("-s", of_files.map(size))
                .option("-m", place.first().map(|(_, dir)| dir))
                .props("-O", &props)
                .word(pool)
                .devices(devices)
        }
        Command::PoolImportable(command::PoolImportable { search }) => {
            let line = Line::new("pool import");
            search
                .iter()
                .fold(line, |line, dir| line.word("-d").path(dir))
        }
        Command::PoolImport(command::PoolImport {
            search,
            pool,
            new_name,
            read_only,
            force,
            no_mount,
            load_keys,
            without_logs,
            accept,
        }) => {
            let line = Line::new("pool import")
                .flag("--accept", *accept)
                .flag("-a", pool.is_none())
                .flag("-f", *force)
                .flag("-l", *load_keys)
                .flag("-m", *without_logs)
                .flag("-N", *no_mount)
                .option("-o", read_only.then_some("readonly=on"));
            let line = search
                .iter()
                .fold(line, |line, dir| line.word("-d").path(dir));
            line.words(pool).words(new_name)
        }
        Command::PoolExport(command::PoolExport { pool, force }) => {
            Line::new("pool export").flag("-f", *force).word(pool)
        }
        Command::PoolDestroy(command::PoolDestroy { pool, force }) => {
            Line::new("pool destroy").flag("-f", *force).word(pool)
        }
        Command::PoolStatus(command::PoolStatus { pools }) => Line::new("pool status").words(pools),
        Command::PoolIo(command::PoolIo { pools }) => Line::new("pool iostat").words(pools),
        Command::PoolDevices(command::PoolDevices { pool, change }) => of_devices(pool, change),
        Command::PoolSync(command::PoolSync { pools }) => Line::new("pool sync").words(pools),
        Command::PoolScrub(command::PoolScrub { pool, stop }) => {
            Line::new("pool scrub").flag("-s", *stop).word(pool)
        }
        Command::PoolFeatures(command::PoolFeatures { pools }) => {
            Line::new("pool upgrade").words(pools)
        }
        Command::PoolHistory(command::PoolHistory { pool, internal }) => {
            Line::new("pool history").flag("-i", *internal).word(pool)
        }
        other => of_datasets(other),
    }
}

fn of_devices(pool: &str, change: &DeviceChange) -> Line {
    match change {
        DeviceChange::Add { devices, force } => {
            let line = Line::new("pool add").flag("-f", *force);
            line.word(pool).devices(devices)
        }
        DeviceChange::Attach { device, new, force } => {
            let line = Line::new("pool attach").flag("-f", *force);
            line.word(pool).word(device).path(new)
        }
        DeviceChange::Detach { device } => Line::new("pool detach").word(pool).word(device),
        DeviceChange::Replace { device, new, force } => {
            let line = Line::new("pool replace").flag("-f", *force);
            let line = line.word(pool).word(device);
            new.iter().fold(line, |line, path| line.path(path))
        }
        // Whether somebody waits for it is not what was done.
        DeviceChange::Remove { device, wait: _ } => {
            Line::new("pool remove").word(pool).word(device)
        }
        DeviceChange::StopRemove => Line::new("pool remove -s").word(pool),
        DeviceChange::Offline { device, temporary } => {
            let line = Line::new("pool offline").flag("-t", *temporary);
            line.word(pool).word(device)
        }
        DeviceChange::Online { device, expand } => {
            let line = Line::new("pool online").flag("-e", *expand);
            line.word(pool).word(device)
        }
        DeviceChange::Clear { device } => Line::new("pool clear").word(pool).words(device),
    }
}

fn of_datasets(command: &Command) -> Line {
    match command {
        Command::Create(command::Create {
            name,
            props,
            parents,
            no_mount,
            volume,
        }) => Line::new("create")
            .flag("-p", *parents)
            .flag("-s", volume.is_some_and(|volume| volume.sparse))
            .flag("-u", *no_mount)
            .option("-V", volume.map(|volume| size(volume.size)))
            .props("-o", props)
            .word(name),
        Command::Destroy(command::Destroy {
            name,
            recursive,
            clones,
            force,
            dry_run,
        })
        | Command::Shred(command::Shred {
            name,
            recursive,
            clones,
            force,
            dry_run,
        }) => Line::new("destroy")
            .flag("--shred", matches!(command, Command::Shred(_)))
            .flag("-f", *force)
            .flag("-n", *dry_run)
            .flag("-r", *recursive)
            .flag("-R", *clones)
            .word(name),
        Command::Rename(command::Rename { from, to }) => Line::new("rename").word(from).word(to),
        Command::Get(command::Get { names, props, .. }) => {
            let all = match props.is_empty() {
                true => "all".into(),
                false => props.join(","),
            };
            Line::new("get").word(all).words(names)
        }
        Command::Set(command::Set {
            names,
            props,
            force,
        }) => {
            let mut props: Vec<String> = props.iter().map(property).collect();
            props.sort();
            let line = Line::new("set").flag("-f", *force);
            line.words(props).words(names)
        }
        Command::Inherit(command::Inherit {
            names,
            prop,
            recursive,
        }) => {
            let line = Line::new("inherit").flag("-r", *recursive);
            line.word(prop).words(names)
        }
        Command::Userspace(command::Userspace { name, kind, check }) => {
            let verb = match kind {
                protocol::api::OwnerKind::User => "userspace",
                protocol::api::OwnerKind::Group => "groupspace",
            };
            Line::new(verb).flag("--check", *check).word(name)
        }
        other => of_snapshots(other),
    }
}

fn of_snapshots(command: &Command) -> Line {
    match command {
        Command::Snapshot(command::Snapshot { names, recursive }) => {
            Line::new("snapshot").flag("-r", *recursive).words(names)
        }
        Command::Rollback(command::Rollback {
            name,
            recursive,
            force,
        }) => {
            let line = Line::new("rollback").flag("-f", *force);
            line.flag("-r", *recursive).word(name)
        }
        Command::Clone(command::Clone {
            snapshot,
            name,
            props,
            rekey,
            parents,
            no_mount,
        }) => Line::new("clone")
            .flag("-K", *rekey)
            .flag("-p", *parents)
            .flag("-u", *no_mount)
            .props("-o", props)
            .word(snapshot)
            .word(name),
        Command::Promote(command::Promote { name }) => Line::new("promote").word(name),
        Command::Hold(command::Hold {
            names,
            tag,
            recursive,
        }) => {
            let line = Line::new("hold").flag("-r", *recursive);
            line.word(tag).words(names)
        }
        Command::Release(command::Release {
            names,
            tag,
            recursive,
        }) => {
            let line = Line::new("release").flag("-r", *recursive);
            line.word(tag).words(names)
        }
        Command::Holds(command::Holds { names, recursive }) => {
            Line::new("holds").flag("-r", *recursive).words(names)
        }
        Command::Diff(command::Diff { from, to }) => Line::new("diff").word(from).words(to),
        Command::Send(command::Send { what, raw, props }) => {
            let line = Line::new("send").flag("-p", *props).flag("-w", *raw);
            match what {
                protocol::api::SendWhat::Snapshot { name, from, all } => {
                    let since = if *all { "-I" } else { "-i" };
                    line.option(since, from.as_ref()).word(name)
                }
                protocol::api::SendWhat::Rest { .. } => line.word("-t").word(LEFT_OUT),
            }
        }
        Command::Receive(command::Receive {
            target,
            force,
            resumable,
            props,
            exclude,
        }) => {
            let mut exclude = exclude.clone();
            exclude.sort();
            let line = Line::new("receive")
                .flag("-F", *force)
                .flag("-s", *resumable)
                .props("-o", props);
            let leave = |line: Line, name: String| line.option("-x", Some(name));
            exclude.into_iter().fold(line, leave).word(target)
        }
        Command::ReceiveAbandon(command::ReceiveAbandon { target }) => {
            Line::new("receive -A").word(target)
        }
        other => of_keys(other),
    }
}

fn of_keys(command: &Command) -> Line {
    match command {
        Command::KeyLoad(command::KeyLoad {
            names,
            recursive,
            location,
            keysource,
            dry_run,
        }) => Line::new("key load")
            .flag("-a", names.is_empty())
            .flag("-n", *dry_run)
            .flag("-r", *recursive)
            // What is no location may be anything.
            .option("-L", location.as_ref().map(|_| LEFT_OUT))
            .keysource(keysource.as_ref())
            .words(names),
        Command::KeyAccept(command::KeyAccept { names, recursive }) => {
            Line::new("key accept").flag("-r", *recursive).words(names)
        }
        Command::KeyUnload(command::KeyUnload {
            names,
            recursive,
            force,
        }) => Line::new("key unload")
            .flag("-a", names.is_empty())
            .flag("-f", *force)
            .flag("-r", *recursive)
            .words(names),
        Command::KeyChange(command::KeyChange {
            name,
            keysource,
            slot,
            only,
            inherit,
        }) => Line::new("key change")
            .flag("-i", *inherit)
            .flag("--only", *only)
            .option("--slot", slot.map(|slot| slot.to_string()))
            .keysource(keysource.as_ref())
            .word(name),
        Command::KeyRotate(command::KeyRotate { name, how }) => {
            let verb = match how {
                Rotation::New => "key -K",
                Rotation::Reencrypt => "key -K --reencrypt",
                Rotation::Pause => "key -K --pause",
                Rotation::Resume => "key -K --resume",
            };
            Line::new(verb).word(name)
        }
        Command::KeyGenerations(command::KeyGenerations { name }) => {
            Line::new("key generations").word(name)
        }
        Command::KeyAdd(command::KeyAdd {
            name,
            keysource,
            priority,
        }) => {
            let priority = (*priority != USUAL_PRIORITY).then(|| priority.to_string());
            let line = Line::new("key add").option("-p", priority);
            line.keysource(keysource.as_ref()).word(name)
        }
        Command::KeyRemove(command::KeyRemove {
            name,
            slot,
            keysource,
            force,
        }) => {
            let line = Line::new("key remove").flag("-f", *force);
            let line = line.keysource(keysource.as_ref()).word(name);
            line.word(slot.to_string())
        }
        Command::KeySlots(command::KeySlots { name }) => Line::new("key slots").word(name),
        Command::KeyBackup(command::KeyBackup { name }) => Line::new("key backup").word(name),
        Command::KeyRestore(command::KeyRestore {
            name,
            backup: _,
            keysource,
        }) => {
            let line = Line::new("key restore").keysource(keysource.as_ref());
            line.word(name).word(LEFT_OUT)
        }
        Command::KeyStatus(command::KeyStatus { names }) => Line::new("key status").words(names),
        other => of_rights(other),
    }
}

fn of_rights(command: &Command) -> Line {
    match command {
        Command::Mount(command::Mount {
            name,
            dir,
            load_keys,
            ..
        }) => {
            let line = Line::new("mount")
                .flag("-a", name.is_none())
                .flag("-l", *load_keys)
                .words(name);
            dir.iter().fold(line, |line, dir| line.path(dir))
        }
        Command::Remount(command::Remount {
            name,
            read_only,
            allowed: _,
        }) => {
            let options = match read_only {
                Some(true) => "remount,ro",
                Some(false) => "remount,rw",
                None => "remount",
            };
            let line = Line::new("mount").option("-o", Some(options));
            line.word(name)
        }
        Command::Mounts => Line::new("mount"),
        Command::Unmount(command::Unmount { target, force }) => Line::new("unmount")
            .flag("-a", target.is_none())
            .flag("-f", *force)
            .words(target),
        Command::Inspect(_) => Line::new("inspect"),
        Command::Anchor(command::Anchor { names }) => Line::new("anchor").words(names),
        Command::AnchorVerify(_) => Line::new("anchor verify"),
        Command::Permissions(command::Permissions { name }) => Line::new("allow").word(name),
        Command::ChangePermissions(change) => of_permissions(change),
        Command::ZoneCreate(new) => Line::new("zone create")
            .option("--alias", new.alias.as_ref())
            .option("--dataset", Some(&new.dataset))
            .flag("--immutable", new.immutable)
            .option("--owner", new.owner.as_ref())
            .word(&new.name),
        Command::ZoneDestroy(command::ZoneDestroy { name }) => Line::new("zone destroy").word(name),
        Command::Zones => Line::new("zone list"),
        Command::NbdExport(new) => Line::new("nbd export").word(&new.device),
        Command::NbdUnexport(command::NbdUnexport { name, force }) => {
            Line::new("nbd unexport").flag("--force", *force).word(name)
        }
        Command::NbdExports => Line::new("nbd list"),
        Command::LuksOpen(new) => Line::new("luks open").path(&new.device).word(&new.name),
        Command::LuksClose(command::LuksClose { name }) => Line::new("luks close").word(name),
        Command::LuksStatus(command::LuksStatus { names }) => Line::new("luks status").words(names),
        Command::LuksRefresh(command::LuksRefresh { name, .. }) => {
            Line::new("luks refresh").word(name)
        }
        Command::LuksResize(command::LuksResize { name, .. }) => {
            Line::new("luks resize").word(name)
        }
        Command::LuksBorrow(command::LuksBorrow { device, .. }) => Line::new("luks").path(device),
        Command::DaemonStatus => Line::new("daemon status"),
        Command::DaemonStop => Line::new("daemon stop"),
        Command::PoolCreate(_)
        | Command::PoolImportable(_)
        | Command::PoolImport(_)
        | Command::PoolExport(_)
        | Command::PoolDestroy(_)
        | Command::PoolStatus(_)
        | Command::PoolIo(_)
        | Command::PoolDevices(_)
        | Command::PoolSync(_)
        | Command::PoolScrub(_)
        | Command::PoolFeatures(_)
        | Command::PoolHistory(_)
        | Command::Create(_)
        | Command::Destroy(_)
        | Command::Shred(_)
        | Command::Rename(_)
        | Command::Get(_)
        | Command::Set(_)
        | Command::Inherit(_)
        | Command::Userspace(_)
        | Command::Snapshot(_)
        | Command::Rollback(_)
        | Command::Clone(_)
        | Command::Promote(_)
        | Command::Hold(_)
        | Command::Release(_)
        | Command::Holds(_)
        | Command::Diff(_)
        | Command::Send(_)
        | Command::Receive(_)
        | Command::ReceiveAbandon(_)
        | Command::KeyLoad(_)
        | Command::KeyAccept(_)
        | Command::KeyUnload(_)
        | Command::KeyChange(_)
        | Command::KeyRotate(_)
        | Command::KeyGenerations(_)
        | Command::KeyAdd(_)
        | Command::KeyRemove(_)
        | Command::KeySlots(_)
        | Command::KeyBackup(_)
        | Command::KeyRestore(_)
        | Command::KeyStatus(_) => unreachable!("it is above"),
    }
}

fn of_permissions(change: &command::ChangePermissions) -> Line {
    let verb = if change.remove { "unallow" } else { "allow" };
    let kind = match change.kind {
        Some(WhoKind::User) => "-u",
        Some(WhoKind::Group) => "-g",
        Some(WhoKind::Everyone) => "-e",
        Some(WhoKind::Creator) => "-c",
        Some(WhoKind::Set) => "-s",
        None => "",
    };
    let is_named = !matches!(change.kind, Some(WhoKind::Everyone | WhoKind::Creator));
    let list = |words: &[String]| (!words.is_empty()).then(|| words.join(","));
    Line::new(verb)
        .flag("-l", change.local && !change.below)
        .flag("-d", change.below && !change.local)
        .flag(kind, !kind.is_empty())
        .words(list(&change.who).filter(|_| is_named))
        .words(list(&change.permissions))
        .word(&change.name)
}

#[cfg(test)]
mod tests;
