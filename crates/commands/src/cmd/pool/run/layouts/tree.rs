//! The devices of a pool as a tree: groups, and what is in them.

use protocol::api::{DeviceRow, PoolReport};

pub(crate) struct TreeLine<'a> {
    depth: usize,
    pub(crate) name: String,
    pub(crate) state: &'a str,
    /// The devices that are counted in it; none of a pool.
    pub(crate) devices: Vec<&'a DeviceRow>,
    /// Bytes; none of a heading.
    pub(crate) size: Option<u64>,
}

impl TreeLine<'_> {
    /// The name, behind spaces.
    pub(crate) fn indented(&self) -> String {
        format!("{:1$}{2}", "", 2 * self.depth, self.name)
    }
}

/// The pool, its groups and devices, logs and caches. Not the spares.
pub(crate) fn lines(pool: &PoolReport) -> Vec<TreeLine<'_>> {
    let mut lines = vec![TreeLine {
        depth: 0,
        name: pool.name.clone(),
        state: &pool.health,
        devices: Vec::new(),
        size: Some(pool.size),
    }];
    let groups = pool.devices.chunk_by(|a, b| a.group == b.group);
    let (logs, data): (Vec<_>, Vec<_>) = groups.partition(|group| group[0].is_log);
    let count = data.len();
    for (n, group) in data.into_iter().chain(logs).enumerate() {
        if n == count {
            lines.push(heading("logs"));
        }
        if let Some(number) = group[0].group {
            add_group(&mut lines, number, group);
        }
    }
    let mut caches = pool
        .devices
        .iter()
        .filter(|device| device.is_cache)
        .peekable();
    if caches.peek().is_some() {
        lines.push(heading("cache"));
    }
    lines.extend(caches.map(|cache| one(1, cache.path.clone(), cache)));
    lines
}

/// The spares that are not in use.
pub(crate) fn spares(pool: &PoolReport) -> impl Iterator<Item = &DeviceRow> {
    let devices = pool.devices.iter();
    devices.filter(|device| device.group.is_none() && !device.is_cache)
}

pub(crate) fn spare(spare: &DeviceRow) -> TreeLine<'_> {
    one(1, format!("{} (spare)", spare.path), spare)
}

fn add_group<'a>(lines: &mut Vec<TreeLine<'a>>, number: u16, group: &'a [DeviceRow]) {
    let mut depth = 1;
    if group.len() > 1 {
        let are_all = |state: &str| group.iter().all(|device| device.state == state);
        let well = ["ONLINE", "REMOVING"]
            .into_iter()
            .find(|state| are_all(state));
        lines.push(TreeLine {
            depth,
            name: format!("{}-{number}", kind(group)),
            state: well.unwrap_or("DEGRADED"),
            devices: group.iter().collect(),
            size: Some(group_size(group)),
        });
        depth = 2;
    }
    lines.extend(group.iter().map(|device| one(depth, name(device), device)));
}

fn heading(name: &str) -> TreeLine<'static> {
    TreeLine {
        depth: 0,
        name: name.into(),
        state: "",
        devices: Vec::new(),
        size: None,
    }
}

fn one(depth: usize, name: String, device: &DeviceRow) -> TreeLine<'_> {
    TreeLine {
        depth,
        name,
        state: &device.state,
        devices: vec![device],
        size: Some(device.size),
    }
}

/// Bytes that a group has space for, without what is for parity.
fn group_size(group: &[DeviceRow]) -> u64 {
    let smallest = group.iter().map(|device| device.size).min().unwrap_or(0);
    let columns = group
        .iter()
        .map(|device| u64::from(device.column) + 1)
        .max();
    let parity = group.first().map_or(0, |device| device.parity as u64);
    smallest * columns.unwrap_or(1).saturating_sub(parity)
}

/// A group of one that is just being replaced is no mirror.
fn kind(group: &[DeviceRow]) -> &'static str {
    match group.first().map(|device| device.parity) {
        Some(1) => return "raidz1",
        Some(2) => return "raidz2",
        Some(3) => return "raidz3",
        _ => {}
    }
    let lasting = group
        .iter()
        .filter(|device| device.replaces.is_none())
        .count();
    match lasting {
        1 => "replacing",
        _ => "mirror",
    }
}

fn name(device: &DeviceRow) -> String {
    let what = match (&device.replaces, device.was_spare) {
        (Some(path), true) => format!(" (spare for {path})"),
        (Some(path), false) => format!(" (replaces {path})"),
        (None, _) => String::new(),
    };
    format!("{}{what}", device.path)
}
