//! The demands of a call on a volume: use, size, topology, and parameters of storage classes.

use std::collections::HashMap;

use protocol::api::Props;
use rustix::mount::MountFlags;

use crate::driver::CsiDriver;
use crate::names::shown;
use crate::proto::volume_capability::access_mode::Mode;
use crate::proto::volume_capability::{AccessType, MountVolume};
use crate::proto::{CapacityRange, Topology, TopologyRequirement, VolumeCapability};
use crate::status::{GrpcCode, GrpcStatus, Result};
use crate::volumes::Kind;

/// The size of a block volume if none is wanted.
const SIZE_DEFAULT: u64 = 1 << 30;
/// The sizes of block volumes are multiples of this.
pub(crate) const STEP: u64 = 1 << 20;

/// The way in which a volume is used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VolumeUse {
    pub(crate) kind: Kind,
    /// True if only one path may have the volume.
    pub(crate) is_single: bool,
    /// True if the volume is only read.
    pub(crate) read_only: bool,
    /// The options of the mount.
    pub(crate) flags: MountFlags,
}

impl VolumeUse {
    pub(crate) fn of(capability: &VolumeCapability) -> Result<VolumeUse> {
        let mode = capability.access_mode.as_ref().map(|mode| mode.mode());
        let (is_single, read_only) = match mode {
            Some(Mode::SingleNodeWriter | Mode::SingleNodeMultiWriter) => (false, false),
            Some(Mode::SingleNodeSingleWriter) => (true, false),
            Some(Mode::SingleNodeReaderOnly) => (false, true),
            Some(Mode::Unknown) | None => {
                return Err(GrpcStatus::invalid("the access mode is missing"));
            }
            Some(mode) => {
                return Err(GrpcStatus::invalid(format!(
                    "{mode:?}: a pool is on one node, so its volumes can be used there only"
                )));
            }
        };
        let (kind, flags) = match &capability.access_type {
            Some(AccessType::Block(_)) => (Kind::Block, MountFlags::empty()),
            Some(AccessType::Mount(mount)) => (Kind::Files, flags(mount)?),
            None => {
                return Err(GrpcStatus::invalid(
                    "the access type is missing: mount or block",
                ));
            }
        };
        Ok(VolumeUse {
            kind,
            is_single,
            read_only,
            flags,
        })
    }

    /// The kind of volume that has all these capabilities.
    pub(crate) fn of_all(capabilities: &[VolumeCapability]) -> Result<Kind> {
        let mut kinds = capabilities
            .iter()
            .map(|one| VolumeUse::of(one).map(|is| is.kind));
        let first = kinds
            .next()
            .ok_or_else(|| GrpcStatus::invalid("the capabilities of the volume are missing"))??;
        for kind in kinds {
            if kind? != first {
                return Err(GrpcStatus::invalid(
                    "a volume is either mounted or a block device, not both",
                ));
            }
        }
        Ok(first)
    }

    /// The kind and use that one call demands.
    pub(crate) fn of_one(capability: Option<&VolumeCapability>) -> Result<VolumeUse> {
        capability.map_or_else(
            || {
                Err(GrpcStatus::invalid(
                    "the capability of the volume is missing",
                ))
            },
            VolumeUse::of,
        )
    }
}

fn flags(mount: &MountVolume) -> Result<MountFlags> {
    if !matches!(mount.fs_type.as_str(), "" | "strongroom") {
        return Err(GrpcStatus::invalid(format!(
            "fsType '{}': a volume has the file system of Strongroom; leave fsType out",
            shown(&mount.fs_type)
        )));
    }
    if !mount.volume_mount_group.is_empty() {
        return Err(GrpcStatus::invalid(
            "a group for the whole mount is not supported",
        ));
    }
    let mut flags = MountFlags::empty();
    for word in &mount.mount_flags {
        flags |= mount_flag(word).ok_or_else(|| {
            GrpcStatus::invalid(format!(
                "mount option '{}': use ro, noexec, nosuid, nodev, noatime or nodiratime",
                shown(word)
            ))
        })?;
    }
    Ok(flags)
}

/// An option of a mount, as people and the kernel write it.
pub(crate) fn mount_flag(word: &str) -> Option<MountFlags> {
    Some(match word {
        "ro" => MountFlags::RDONLY,
        "noexec" => MountFlags::NOEXEC,
        "nosuid" => MountFlags::NOSUID,
        "nodev" => MountFlags::NODEV,
        "noatime" => MountFlags::NOATIME,
        "nodiratime" => MountFlags::NODIRATIME,
        _ => return None,
    })
}

/// The limits of the size of a volume, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SizeRange {
    /// At least; 0 if no size is wanted.
    least: u64,
    /// At most, if there is a limit.
    most: Option<u64>,
}

impl SizeRange {
    pub(crate) fn of(range: Option<&CapacityRange>) -> Result<SizeRange> {
        let Some(range) = range else {
            return Ok(SizeRange::default());
        };
        let bytes = |value: i64| {
            u64::try_from(value)
                .map_err(|_| GrpcStatus::invalid(format!("a size of {value} bytes")))
        };
        let (least, most) = (bytes(range.required_bytes)?, bytes(range.limit_bytes)?);
        let most = (most > 0).then_some(most);
        match most.is_some_and(|most| most < least) {
            true => Err(GrpcStatus::invalid(
                "the limit of the size is below the size that is wanted",
            )),
            false => Ok(SizeRange { least, most }),
        }
    }

    /// Returns whether the call sets no limit.
    pub(crate) fn wants_any(&self) -> bool {
        self.least == 0
    }

    /// Returns whether a volume of this size meets the limits; 0 is without a limit.
    pub(crate) fn holds(&self, size: u64) -> bool {
        match size {
            0 => self.most.is_none(),
            size => size >= self.least && self.most.is_none_or(|most| size <= most),
        }
    }

    /// The size of a volume that is to be made or to grow, and is at least `least`.
    pub(crate) fn size(&self, kind: Kind, least: u64) -> Result<u64> {
        let usual = match (kind, self.most) {
            (Kind::Files, None) => 0,
            (_, most) => most.unwrap_or(u64::MAX).min(SIZE_DEFAULT),
        };
        let wanted = if self.least > 0 { self.least } else { usual }.max(least);
        let size = match kind {
            Kind::Files => wanted,
            Kind::Block => wanted.checked_next_multiple_of(STEP).unwrap_or(u64::MAX),
        };
        match i64::try_from(size).is_ok() && self.most.is_none_or(|most| size <= most) {
            true => Ok(size),
            false => Err(GrpcStatus::new(
                GrpcCode::OutOfRange,
                format!("the volume would have {size} bytes, which is more than the limit"),
            )),
        }
    }
}

/// Parameters of a storage class.
#[derive(Debug, Default)]
pub(crate) struct Parameters {
    /// Properties of the dataset.
    pub(crate) props: Props,
    /// True if space is reserved.
    pub(crate) reserve: bool,
}

/// Properties that a storage class may set, by the kind of volume. Those with `true` are of new datasets only, and not
/// of clones.
const ALLOWED: &[(&str, Option<Kind>, bool)] = &[
    ("atime", Some(Kind::Files), false),
    ("compression", None, false),
    ("copies", Some(Kind::Files), false),
    ("dedup", None, false),
    ("encryption", None, true),
    ("keysource", None, true),
    ("primarycache", None, false),
    ("recordsize", Some(Kind::Files), false),
    ("relatime", Some(Kind::Files), false),
    ("secondarycache", None, false),
    ("sync", None, false),
    ("volblocksize", Some(Kind::Block), true),
];
/// The prefix of parameters that the sidecars of Kubernetes add. They are not for the driver.
const OF_SIDECARS: &str = "csi.storage.k8s.io/";

impl Parameters {
    /// `is_clone`: the volume begins as another one, and is encrypted as that is.
    pub(crate) fn of(
        given: &HashMap<String, String>,
        (kind, is_clone): (Kind, bool),
        key_sources: &[String],
    ) -> Result<Parameters> {
        let mut parameters = Parameters::default();
        for (name, value) in given {
            let wrong =
                |why: &str| GrpcStatus::invalid(format!("parameter '{}': {why}", shown(name)));
            if name.starts_with(OF_SIDECARS) {
                continue;
            }
            if name == "reserve" {
                parameters.reserve = match value.as_str() {
                    "true" => true,
                    "false" => false,
                    _ => return Err(wrong("use true or false")),
                };
                continue;
            }
            let found = ALLOWED.iter().find(|(allowed, ..)| allowed == name);
            let (_, of, at_creation) =
                found.ok_or_else(|| wrong("not known, or not allowed in a storage class"))?;
            match name.as_str() {
                "encryption" if value == "off" => {
                    return Err(wrong(
                        "'off' is not allowed; leave it out to encrypt as the parent is",
                    ));
                }
                "keysource" if !key_sources.contains(value) => {
                    return Err(wrong(
                        "not one that the driver was started with (--key-source)",
                    ));
                }
                _ => {}
            }
            // A class for both kinds names properties of both.
            if of.is_none_or(|of| of == kind) && !(is_clone && *at_creation) {
                parameters.props.push((name.clone(), value.clone()));
            }
        }
        parameters.props.sort();
        Ok(parameters)
    }
}

impl CsiDriver {
    /// Returns whether a volume on this node meets the topology of a call.
    pub(crate) fn is_accessible(&self, wanted: Option<&TopologyRequirement>) -> bool {
        let requisite = wanted.map_or(&[][..], |wanted| &wanted.requisite);
        requisite.is_empty() || requisite.iter().any(|topology| self.is_here(topology))
    }

    /// Returns whether a topology is, or contains, this node. Segments of other drivers do not matter.
    pub(crate) fn is_here(&self, topology: &Topology) -> bool {
        let here = &self.settings.node_id;
        let node = topology.segments.get(&self.topology_key());
        node.is_some_and(|node| node == here)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(required_bytes: i64, limit_bytes: i64) -> Result<SizeRange> {
        SizeRange::of(Some(&CapacityRange {
            required_bytes,
            limit_bytes,
        }))
    }

    #[test]
    fn sizes_are_in_the_range() {
        let size = |required, limit, kind| range(required, limit)?.size(kind, 0);
        assert_eq!(size(1000, 0, Kind::Files).unwrap(), 1000);
        assert_eq!(size(1000, 0, Kind::Block).unwrap(), STEP);
        assert_eq!(size(0, 0, Kind::Files).unwrap(), 0);
        assert_eq!(size(0, 5 << 20, Kind::Block).unwrap(), 5 << 20);
        for (required, limit) in [(-1, 0), (0, -1), (5, 4), (i64::MAX, 0), (1, 1)] {
            assert!(
                size(required, limit, Kind::Block).is_err(),
                "{required} {limit}"
            );
        }
        let some = range(10, 20).unwrap();
        assert!(some.holds(10) && some.holds(20) && !some.holds(9) && !some.holds(21));
        assert!(!some.holds(0) && range(10, 0).unwrap().holds(0));
        assert_eq!(
            some.size(Kind::Files, 21).unwrap_err().code,
            GrpcCode::OutOfRange
        );
    }

    #[test]
    fn parameters_are_those_of_the_list() {
        let of = |name: &str, value: &str| {
            let given = HashMap::from([(name.to_owned(), value.to_owned())]);
            Parameters::of(&given, (Kind::Files, false), &["raw,file:///k".into()])
        };
        assert_eq!(of("compression", "zstd").unwrap().props.len(), 1);
        assert!(of("volblocksize", "4K").unwrap().props.is_empty());
        assert!(
            of("csi.storage.k8s.io/pvc/name", "a")
                .unwrap()
                .props
                .is_empty()
        );
        assert!(of("reserve", "true").unwrap().reserve);
        assert!(of("keysource", "raw,file:///k").is_ok());
        for (name, value) in [
            ("keysource", "raw,file:///etc/shadow"),
            ("encryption", "off"),
            ("mountpoint", "/etc"),
            ("csi:volume", "a"),
            ("reserve", "yes"),
            ("Compression", "lz4"),
        ] {
            assert!(of(name, value).is_err(), "{name}={value}");
        }
    }
}
