//! The devices of a pool as they are named to make it: for `-n`.

use std::fmt::Write;

use console::show::text;
use protocol::api::{DeviceGroup, NewPoolDevices};

/// The output of `pool create -n`.
pub(crate) fn layout(pool: &str, devices: &NewPoolDevices) -> String {
    let begin = format!("would create '{pool}' with the following layout:\n\n\t{pool}\n");
    begin + &layout_of(devices)
}

/// The lines of devices that are to belong to a pool.
pub(crate) fn layout_of(devices: &NewPoolDevices) -> String {
    let mut out = layout_of_groups(&devices.groups);
    if !devices.logs.is_empty() {
        out += "\tlogs\n";
        out += &layout_of_groups(&devices.logs);
    }
    for (heading, devices) in [("cache", &devices.caches), ("spares", &devices.spares)] {
        if !devices.is_empty() {
            let _ = writeln!(out, "\t{heading}");
        }
        for device in devices {
            let _ = writeln!(out, "\t  {}", text::in_a_cell(&device.to_string_lossy()));
        }
    }
    out
}

fn layout_of_groups(groups: &[DeviceGroup]) -> String {
    let mut out = String::new();
    for group in groups {
        let depth = match (group.parity, group.devices.len()) {
            (0, 1) => "  ",
            (parity, _) => {
                let name = match parity {
                    0 => "mirror".to_owned(),
                    _ => format!("raidz{parity}"),
                };
                let _ = writeln!(out, "\t  {name}");
                "    "
            }
        };
        for device in &group.devices {
            let _ = writeln!(
                out,
                "\t{depth}{}",
                text::in_a_cell(&device.to_string_lossy())
            );
        }
    }
    out
}
