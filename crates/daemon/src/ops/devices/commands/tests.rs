//! Devices that join a pool, and a daemon that is killed before it could say so.

use std::path::Path;
use std::time::{Duration, Instant};

use pool::DeviceState;
use protocol::api::{DeviceChange, DeviceGroup, NewPoolDevices};

use crate::tests::{command, create_pool, daemon};

/// The states of the devices that the next daemon finds, after one was killed between the commit of a change and what
/// it remembers of it.
fn found_after(change: impl FnOnce(&Path) -> DeviceChange) -> Vec<DeviceState> {
    let dir = tempfile::tempdir().unwrap();
    let killed = daemon(dir.path());
    let active = create_pool(&killed, dir.path(), "tank");
    let new = std::fs::File::create(dir.path().join("new")).unwrap();
    new.set_len(64 << 20).unwrap();
    let change = change(dir.path());
    command(|context| active.change_devices(&killed, &change, context)).unwrap();
    // The worker of the pool may hold it for a moment longer; a process that was killed has no worker.
    active.stop_worker();
    drop((active, killed));
    let next = daemon(dir.path());
    next.import_remembered(Instant::now() + Duration::from_secs(60));
    let active = next.pool("tank").unwrap();
    let devices = active.pool.devices();
    devices.into_iter().map(|device| device.state).collect()
}

#[test]
fn devices_that_joined_before_a_kill_are_found() {
    let added = found_after(|dir| DeviceChange::Add {
        devices: Box::new(NewPoolDevices {
            groups: vec![DeviceGroup {
                devices: vec![dir.join("new")],
                parity: 0,
            }],
            ..NewPoolDevices::default()
        }),
        force: false,
        dry_run: false,
    });
    assert_eq!(added, [DeviceState::Online; 2]);
    let spare = found_after(|dir| DeviceChange::Add {
        devices: Box::new(NewPoolDevices {
            spares: vec![dir.join("new")],
            ..NewPoolDevices::default()
        }),
        force: false,
        dry_run: false,
    });
    assert_eq!(spare, [DeviceState::Online, DeviceState::Spare]);
    for is_replaced in [false, true] {
        let joined = found_after(|dir| {
            let (device, new) = (dir.join("tank").display().to_string(), dir.join("new"));
            match is_replaced {
                true => DeviceChange::Replace {
                    device,
                    new: Some(new),
                    force: false,
                },
                false => DeviceChange::Attach {
                    device,
                    new,
                    force: false,
                    follow: None,
                },
            }
        });
        assert!(!joined.contains(&DeviceState::Missing), "{joined:?}");
        assert!(joined.iter().any(|state| *state != DeviceState::Missing));
    }
}
