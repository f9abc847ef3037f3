//! A sample request of each kind, for datasets. `machine_samples` has those for the machine.

use protocol::api::{
    Allowed, Anchor, Command, HomeStep, NewVolume, OwnerKind, Props, ReceiveName, Rotation,
    SendWhat, WhoKind, command,
};

/// A key file that does not exist.
const KEY_FILE: &str = "raw,file:///nonexistent/key";
const PROMPT: &str = "hex,prompt";

pub(super) fn props(props: &[(&str, &str)]) -> Props {
    let props = props.iter();
    props.map(|(k, v)| ((*k).into(), (*v).into())).collect()
}

/// Requests about a dataset `fs` and about `to`, below which new datasets come. [`super::site::Site`] has both.
pub(super) fn about(fs: &str, to: &str) -> Vec<Command> {
    let mut all = of_datasets(fs);
    all.extend(of_properties(fs));
    all.extend(of_snapshots(fs, to));
    all.extend(of_streams(fs, to));
    all.extend(of_mounts(fs));
    all.extend(of_keys(fs));
    all.extend(of_people(fs));
    all
}

pub(super) fn create(name: String, of: &[(&str, &str)]) -> Command {
    Command::Create(command::Create {
        name,
        props: props(of),
        parents: false,
        no_mount: false,
        volume: None,
        dry_run: false,
    })
}

fn of_datasets(fs: &str) -> Vec<Command> {
    let new = || format!("{fs}/new");
    let volume = |sparse| {
        Command::Create(command::Create {
            name: new(),
            props: Props::new(),
            parents: false,
            no_mount: false,
            volume: Some(NewVolume {
                size: 1 << 20,
                sparse,
            }),
            dry_run: false,
        })
    };
    vec![
        create(new(), &[]),
        create(new(), &[("compression", "off")]),
        create(new(), &[("mountpoint", "legacy")]),
        create(new(), &[("keysource", PROMPT)]),
        create(new(), &[("encryption", "on"), ("keysource", PROMPT)]),
        create(new(), &[("keysource", KEY_FILE)]),
        Command::Create(command::Create {
            name: format!("{fs}/not/new"),
            props: Props::new(),
            parents: true,
            no_mount: false,
            volume: None,
            dry_run: true,
        }),
        volume(true),
        volume(false),
        destroy(format!("{fs}/vol"), false),
        destroy(format!("{fs}/x"), true),
        destroy(format!("{fs}@2"), false),
        Command::DestroyLater(command::DestroyLater {
            name: format!("{fs}@2"),
            recursive: true,
            force: false,
            dry_run: false,
        }),
        Command::Shred(command::Shred {
            name: format!("{fs}/clone"),
            recursive: true,
            clones: false,
            force: false,
            dry_run: true,
        }),
        rename(format!("{fs}/vol"), format!("{fs}/new"), false, false),
        rename(format!("{fs}/vol"), format!("{fs}/not/new"), false, true),
        rename(format!("{fs}@2"), "@3".into(), false, false),
        rename(format!("{fs}@2"), "@3".into(), true, false),
        Command::Promote(command::Promote {
            name: format!("{fs}/clone"),
        }),
    ]
}

fn rename(from: String, to: String, recursive: bool, parents: bool) -> Command {
    Command::Rename(command::Rename {
        from,
        to,
        recursive,
        parents,
        force: false,
    })
}

fn destroy(name: String, clones: bool) -> Command {
    Command::Destroy(command::Destroy {
        name,
        recursive: true,
        clones,
        force: false,
        dry_run: false,
    })
}

fn of_properties(fs: &str) -> Vec<Command> {
    let get = |names: &[&str], depth, prop: &str| {
        Command::Get(command::Get {
            names: names.iter().map(|name| (*name).into()).collect(),
            depth,
            snapshots: false,
            bookmarks: false,
            props: vec![prop.into()],
        })
    };
    let set = |name: &str, of: &[(&str, &str)]| {
        Command::Set(command::Set {
            names: vec![name.into()],
            props: props(of),
            force: false,
        })
    };
    let account = |kind, check| {
        Command::Userspace(command::Userspace {
            name: fs.into(),
            kind,
            check,
        })
    };
    vec![
        get(&[fs], Some(0), "used"),
        get(&[fs], Some(0), "userused@0"),
        get(&[fs], Some(0), "written@2"),
        get(&[], None, "name"),
        set(fs, &[("compression", "off")]),
        set(fs, &[("mountpoint", "legacy")]),
        set(fs, &[("org.example:note", "x")]),
        set(fs, &[("userquota@0", "1M")]),
        set(&format!("{fs}/vol"), &[("volsize", "2M")]),
        Command::Inherit(command::Inherit {
            names: vec![fs.into()],
            prop: "compression".into(),
            recursive: false,
        }),
        account(OwnerKind::User, false),
        account(OwnerKind::Group, true),
    ]
}

fn of_snapshots(fs: &str, to: &str) -> Vec<Command> {
    let names = || vec![format!("{fs}@2")];
    let tag = || "tag".to_owned();
    let rollback = |at: &str, recursive, clones| {
        Command::Rollback(command::Rollback {
            name: format!("{fs}{at}"),
            recursive,
            clones,
            force: false,
        })
    };
    let clone = |of: &str, name: String, source: &[(&str, &str)]| {
        Command::Clone(command::Clone {
            snapshot: format!("{fs}{of}"),
            name,
            props: props(source),
            rekey: false,
            parents: false,
            no_mount: false,
        })
    };
    vec![
        Command::Snapshot(command::Snapshot {
            names: vec![format!("{fs}@9")],
            recursive: false,
        }),
        Command::Prune(command::Prune {
            names: vec![fs.into()],
            recursive: false,
            dry_run: true,
        }),
        rollback("@2", false, false),
        rollback("@1", true, false),
        rollback("@1", false, true),
        Command::Hold(command::Hold {
            names: names(),
            tag: tag(),
            recursive: false,
        }),
        Command::Holds(command::Holds {
            names: names(),
            recursive: false,
        }),
        Command::Release(command::Release {
            names: names(),
            tag: tag(),
            recursive: false,
        }),
        Command::Bookmark(command::Bookmark {
            of: format!("{fs}@2"),
            name: format!("{fs}#2"),
        }),
        Command::DestroyBookmark(command::DestroyBookmark {
            name: format!("{fs}#2"),
        }),
        Command::Diff(command::Diff {
            from: format!("{fs}@1"),
            to: Some("@2".into()),
        }),
        clone("/x@1", format!("{fs}/new"), &[]),
        clone("/x@1", format!("{fs}/new"), &[("keysource", PROMPT)]),
        clone("@1", format!("{to}/new"), &[("keysource", PROMPT)]),
    ]
}

fn of_streams(fs: &str, to: &str) -> Vec<Command> {
    let send = |at: &str, from: Option<&str>, raw| {
        Command::Send(command::Send {
            what: SendWhat::Snapshot {
                name: format!("{fs}{at}"),
                from: from.map(str::to_owned),
                all: false,
                replicate: false,
            },
            raw,
            props: false,
            estimate: false,
        })
    };
    let receive = |target: &str, force, of: &[(&str, &str)]| {
        Command::Receive(command::Receive {
            target: target.into(),
            naming: ReceiveName::Exact,
            force,
            resumable: false,
            no_mount: false,
            dry_run: false,
            props: props(of),
            exclude: Vec::new(),
        })
    };
    let new = format!("{to}/new");
    vec![
        send("@1", None, true),
        send("@1", None, false),
        send("@2", Some("@1"), true),
        Command::Send(command::Send {
            what: SendWhat::Snapshot {
                name: format!("{fs}@1"),
                from: None,
                all: false,
                replicate: true,
            },
            raw: true,
            props: true,
            estimate: false,
        }),
        send("@2", Some("#1"), true),
        Command::Send(command::Send {
            what: SendWhat::Snapshot {
                name: format!("{to}@1"),
                from: None,
                all: false,
                replicate: false,
            },
            raw: true,
            props: false,
            estimate: false,
        }),
        Command::Send(command::Send {
            what: SendWhat::Rest {
                token: "nonsense".into(),
            },
            raw: true,
            props: false,
            estimate: false,
        }),
        receive(&new, false, &[]),
        receive(&new, false, &[("compression", "off")]),
        receive(&new, false, &[("mountpoint", "legacy")]),
        receive(fs, false, &[]),
        receive(fs, true, &[]),
        Command::Receive(command::Receive {
            target: to.into(),
            naming: ReceiveName::Path,
            force: false,
            resumable: false,
            no_mount: false,
            dry_run: false,
            props: Vec::new(),
            exclude: Vec::new(),
        }),
        Command::ReceiveAbandon(command::ReceiveAbandon { target: new }),
    ]
}

fn of_mounts(fs: &str) -> Vec<Command> {
    let mount = |name: Option<&str>, dir: Option<&str>, load_keys| {
        Command::Mount(command::Mount {
            name: name.map(str::to_owned),
            dir: dir.map(Into::into),
            load_keys,
            read_only: false,
            overlay: false,
            give_up_log: false,
            allowed: Allowed::default(),
        })
    };
    let give_up_log = Command::Mount(command::Mount {
        name: Some(fs.to_owned()),
        dir: None,
        load_keys: false,
        read_only: false,
        overlay: false,
        give_up_log: true,
        allowed: Allowed::default(),
    });
    let unmount = |target: Option<&str>| {
        Command::Unmount(command::Unmount {
            target: target.map(str::to_owned),
            force: false,
        })
    };
    vec![
        mount(Some(fs), None, false),
        mount(Some(&format!("{fs}/x")), None, true),
        mount(Some(fs), Some("/nonexistent"), false),
        mount(None, None, false),
        give_up_log,
        Command::Home(command::Home {
            step: HomeStep::Find,
            dir: "/nonexistent".into(),
            uid: 12345,
            dataset: None,
        }),
        Command::Remount(command::Remount {
            name: fs.into(),
            read_only: Some(true),
            allowed: Allowed::default(),
        }),
        unmount(Some(fs)),
        unmount(Some("/nonexistent")),
        unmount(None),
        Command::Mounts,
    ]
}

fn of_keys(fs: &str) -> Vec<Command> {
    let name = || fs.to_owned();
    let names = || vec![name()];
    let load = |names, source: Option<&str>| {
        Command::KeyLoad(command::KeyLoad {
            names,
            recursive: false,
            location: None,
            keysource: source.map(str::to_owned),
            dry_run: true,
        })
    };
    let change = |source: Option<&str>, inherit| {
        Command::KeyChange(command::KeyChange {
            pbkdf: None,
            name: name(),
            keysource: source.map(str::to_owned),
            slot: None,
            only: false,
            inherit,
        })
    };
    let rotate = |how| Command::KeyRotate(command::KeyRotate { name: name(), how });
    vec![
        load(names(), None),
        load(names(), Some(KEY_FILE)),
        load(Vec::new(), None),
        Command::KeyUnload(command::KeyUnload {
            names: names(),
            recursive: false,
            force: false,
        }),
        change(Some(PROMPT), false),
        change(Some(KEY_FILE), false),
        change(None, true),
        rotate(Rotation::New),
        rotate(Rotation::Reencrypt),
        rotate(Rotation::Pause),
        rotate(Rotation::Resume),
        Command::KeyAdd(command::KeyAdd {
            pbkdf: None,
            name: name(),
            keysource: Some(PROMPT.into()),
            priority: 128,
        }),
        Command::KeyRemove(command::KeyRemove {
            name: name(),
            slot: 0,
            keysource: None,
            force: true,
        }),
        Command::KeySlots(command::KeySlots { name: name() }),
        Command::KeyGenerations(command::KeyGenerations { name: name() }),
        Command::KeyStatus(command::KeyStatus { names: names() }),
        Command::KeyStatus(command::KeyStatus { names: Vec::new() }),
        Command::KeyAccept(command::KeyAccept {
            names: names(),
            recursive: false,
        }),
        Command::KeyBackup(command::KeyBackup { name: name() }),
        Command::KeyRestore(command::KeyRestore {
            name: name(),
            backup: String::new(),
            keysource: None,
        }),
    ]
}

fn of_people(fs: &str) -> Vec<Command> {
    let allow = |kind, who: &str, permission: &str| {
        Command::ChangePermissions(command::ChangePermissions {
            name: fs.into(),
            remove: false,
            who: vec![who.into()],
            kind: Some(kind),
            permissions: vec![permission.into()],
            local: true,
            below: false,
        })
    };
    vec![
        Command::Permissions(command::Permissions { name: fs.into() }),
        allow(WhoKind::User, "12346", "hold"),
        allow(WhoKind::Set, "@set", "hold"),
        Command::Anchor(command::Anchor {
            names: vec![fs.into()],
        }),
        Command::AnchorVerify(command::AnchorVerify {
            anchors: vec![Anchor {
                dataset: fs.into(),
                pool_guid: 1,
                txg: 1,
                guid: 1,
                sequence: 1,
                seal: String::new(),
            }],
        }),
        Command::AnchorAccept(command::AnchorAccept {
            names: vec![fs.into()],
        }),
    ]
}
