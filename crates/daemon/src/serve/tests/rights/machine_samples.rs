//! A sample request of each kind, for pools, devices and the daemon.

use protocol::api::{
    Borrowing, CheckpointUse, Command, DeviceChange, InspectTarget, MappingChange, PoolDevices,
    Props, Sweep, ZoneProfile, command,
};

/// Requests about pools, devices and the daemon.
pub(super) fn of_the_machine() -> Vec<Command> {
    let pool = || "tank".to_owned();
    let device = "/nonexistent/device";
    let sweep = |what| {
        Command::PoolSweep(command::PoolSweep {
            pool: pool(),
            what,
            device: None,
            stop: false,
            pause: false,
        })
    };
    vec![
        Command::PoolCreate(command::PoolCreate {
            pool: "pool".into(),
            devices: Box::new(PoolDevices::default()),
            size: None,
            force: false,
            props: Props::new(),
            no_mount: false,
            dry_run: false,
            altroot: None,
            temporary_name: None,
        }),
        Command::PoolImportable(command::PoolImportable {
            search: vec!["/nonexistent".into()],
        }),
        Command::PoolImport(command::PoolImport {
            search: vec!["/nonexistent".into()],
            pool: Some("pool".into()),
            new_name: None,
            temporary_name: false,
            temporary: false,
            read_only: false,
            force: false,
            no_mount: false,
            load_keys: false,
            without_logs: false,
            without_reservations: false,
            accept: false,
            altroot: None,
            checkpoint: CheckpointUse::Keep,
        }),
        Command::PoolExport(command::PoolExport {
            pool: pool(),
            force: false,
        }),
        Command::PoolDestroy(command::PoolDestroy {
            pool: pool(),
            force: false,
        }),
        Command::PoolStatus(command::PoolStatus {
            pools: vec![pool()],
            names_files: true,
        }),
        Command::PoolIo(command::PoolIo {
            pools: vec![pool()],
        }),
        Command::PoolDevices(command::PoolDevices {
            pool: pool(),
            change: DeviceChange::Clear { device: None },
        }),
        Command::PoolSplit(command::PoolSplit {
            pool: pool(),
            new: "half".into(),
            devices: Vec::new(),
            dry_run: true,
            altroot: None,
            load_keys: false,
        }),
        Command::PoolReguid(command::PoolReguid {
            pool: pool(),
            load_keys: false,
        }),
        Command::PoolSync(command::PoolSync {
            pools: vec![pool()],
        }),
        Command::PoolCheckpoint(command::PoolCheckpoint {
            pool: pool(),
            discard: false,
        }),
        sweep(Sweep::Trim),
        sweep(Sweep::Initialize),
        Command::PoolScrub(command::PoolScrub {
            pool: pool(),
            stop: false,
            pause: false,
        }),
        Command::PoolEvents(command::PoolEvents {
            after: 0,
            clear: false,
        }),
        Command::PoolLabelClear(command::PoolLabelClear {
            device: device.into(),
            force: false,
        }),
        Command::PoolFeatures(command::PoolFeatures {
            pools: vec![pool()],
        }),
        Command::PoolHistory(command::PoolHistory {
            pool: pool(),
            internal: false,
        }),
        Command::Inspect(command::Inspect {
            target: InspectTarget::Devices(vec![device.into()]),
            detail: 0,
            check: false,
        }),
        Command::ZoneCreate(command::ZoneCreate {
            name: "new".into(),
            dataset: "tank/web".into(),
            alias: None,
            profile: ZoneProfile::None,
            owner: None,
        }),
        Command::ZoneSet(command::ZoneSet {
            name: "z".into(),
            profile: ZoneProfile::Strict,
        }),
        Command::ZoneDestroy(command::ZoneDestroy { name: "z".into() }),
        Command::Zones,
        Command::Whoami,
        Command::TokenCreate(command::TokenCreate {
            user: None,
            label: "phone".into(),
            zone: None,
            expires: Some(60),
            scope: Default::default(),
        }),
        Command::TokenCreate(command::TokenCreate {
            user: Some("root".into()),
            label: "phone".into(),
            zone: None,
            expires: Some(60),
            scope: Default::default(),
        }),
        Command::Tokens,
        Command::TokenRevoke(command::TokenRevoke {
            id: "0badcafe".into(),
        }),
        Command::Metrics,
        Command::NbdExport(command::NbdExport {
            device: device.into(),
            name: None,
            description: None,
            read_only: true,
            listen: None,
            tls_certificates: None,
        }),
        Command::NbdUnexport(command::NbdUnexport {
            name: "export".into(),
            force: false,
        }),
        Command::NbdAttach(command::NbdAttach {
            device: device.into(),
            kernel: None,
            read_only: true,
        }),
        Command::NbdDetach(command::NbdDetach {
            device: device.into(),
            force: false,
        }),
        Command::NbdExports,
        Command::IscsiExport(command::IscsiExport {
            device: device.into(),
            name: None,
            read_only: true,
            portal: None,
            more_portals: Vec::new(),
            initiators: Vec::new(),
            chap: Vec::new(),
            own_chap: None,
            open: true,
            forget_reservations: false,
            serial: None,
            naa: None,
            block_size: None,
        }),
        Command::IscsiUnexport(command::IscsiUnexport {
            name: "iqn.2026-01.org.example:export".into(),
            force: false,
        }),
        Command::IscsiKick(command::IscsiKick {
            target: "iqn.2026-01.org.example:export".into(),
            number: 1,
        }),
        Command::HaStart(command::HaStart {
            pool: "tank".into(),
            update: false,
        }),
        Command::HaStop(command::HaStop {
            pool: "tank".into(),
        }),
        Command::HaVerify(command::HaVerify {
            pool: "tank".into(),
        }),
        Command::HaCheck(command::HaCheck {
            pool: "tank".into(),
            search: Vec::new(),
        }),
        Command::HaStatus(command::HaStatus {
            pool: "tank".into(),
        }),
        Command::IscsiExports,
        Command::IscsiSessions,
        Command::LuksOpen(command::LuksOpen {
            provider: None,
            device: device.into(),
            header: None,
            name: "mapping".into(),
            with_key_file: false,
            key_slot: None,
            read_only: true,
            serving: MappingChange::default(),
            persistent: false,
            no_journal: false,
            recovery: false,
            plain: None,
            at_start: None,
        }),
        Command::LuksClose(command::LuksClose {
            name: "mapping".into(),
        }),
        Command::LuksStatus(command::LuksStatus { names: Vec::new() }),
        Command::LuksRefresh(command::LuksRefresh {
            provider: None,
            name: "mapping".into(),
            change: MappingChange {
                read_workqueue: Some(true),
                ..MappingChange::default()
            },
        }),
        Command::LuksResize(command::LuksResize {
            name: "mapping".into(),
            size: None,
        }),
        Command::LuksReencrypt(command::LuksReencrypt {
            name: "mapping".into(),
            with_key_file: false,
            zone: None,
        }),
        Command::LuksSuspend(command::LuksSuspend {
            name: "mapping".into(),
        }),
        Command::LuksResume(command::LuksResume {
            name: "mapping".into(),
            with_key_file: false,
            key_slot: None,
        }),
        Command::LuksBorrow(command::LuksBorrow {
            device: device.into(),
            how: Borrowing::Look,
        }),
        Command::DaemonStatus,
        Command::DaemonStop,
        Command::DaemonStopForced,
    ]
}
