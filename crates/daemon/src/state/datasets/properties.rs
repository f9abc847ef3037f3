//! Properties of datasets: allowed values, the value of a dataset, and the settings made from it.
//! [`protocol::property`] has the table of properties.

use std::path::Path;

use cipher::Suite;
use dataset::{Atime, Compression, PrimaryCache, Settings, SyncMode, WriteCache};
use fuse::MountDirectory;
use pool::{Entry, PROPERTY_MAX, Pool, SecondaryCache};
use protocol::accounts;
use protocol::api::{FailureKind, Props, ValueSource};
use protocol::characters;
use protocol::property::{Applies, Property, Settable, Values};
use protocol::sizes;

use crate::failure::{Failure, Result};
use crate::state::callers::channel::Channel;
use crate::state::datasets::account_property::AccountProperty;
use crate::state::datasets::snapshot_schedule::SnapshotSchedule;
use crate::state::datasets::written_property::WrittenSince;
use crate::state::mounts::nfs_share;
use crate::state::pools::active_pool::ActivePool;

fn is_mountpoint(value: &str) -> bool {
    matches!(value, "none" | "legacy") || value.starts_with('/') && !value.contains('\0')
}

/// The size of records or blocks.
pub(crate) fn record_size(value: &str) -> Option<u32> {
    let size = u32::try_from(sizes::positive(value)?).ok()?;
    (size.is_power_of_two() && (4 << 10..=1 << 20).contains(&size)).then_some(size)
}

/// The refusal of a size of records or blocks.
pub(crate) fn no_record_size(name: &str, value: &str) -> Failure {
    let is_small = sizes::positive(value).is_some_and(|size| size < 4 << 10);
    let why = match (is_small, name) {
        (false, _) => "",
        (true, "recordsize") => {
            ". A smaller record would take 4 KiB of a device too; files of up to 2 KiB are stored beside their \
             attributes and take less"
        }
        (true, _) => ". A smaller block would take 4 KiB of a device too",
    };
    Failure::usage(format!(
        "the property '{name}' cannot be '{value}'; allowed: {}{why}",
        Values::RecordSize.describe()
    ))
}

/// The stored form of a property: sizes in bytes, and record sizes in whole K or M, which older programs can read too.
/// `None` for a size of `none`, which is not stored.
pub(crate) fn stored(name: &str, value: &str) -> Option<String> {
    match name {
        _ if is_size(name) => sizes::positive(value).map(|bytes| bytes.to_string()),
        _ if is_count(name) => count(value).map(|count| count.to_string()),
        CHECKSUM => Some("blake3".into()),
        OWNER => accounts::uid_of(value).map(|uid| uid.to_string()),
        "recordsize" => record_size(value).map(|size| match size {
            0x10_0000 => "1M".into(),
            size => format!("{}K", size >> 10),
        }),
        _ => Some(value.to_owned()),
    }
}

fn sync_mode(value: &str) -> Option<SyncMode> {
    match value {
        "standard" => Some(SyncMode::Standard),
        "always" => Some(SyncMode::Always),
        "disabled" => Some(SyncMode::Disabled),
        _ => None,
    }
}

fn write_cache(value: &str) -> Option<WriteCache> {
    match value {
        "on" => Some(WriteCache::On),
        "off" => Some(WriteCache::Off),
        "volatile" => Some(WriteCache::Volatile),
        _ => None,
    }
}

fn primary_cache(value: &str) -> Option<PrimaryCache> {
    Some(match value {
        "all" => PrimaryCache::All,
        "metadata" => PrimaryCache::Metadata,
        "none" => PrimaryCache::None,
        _ => return None,
    })
}

fn secondary_cache(value: &str) -> Option<SecondaryCache> {
    Some(match value {
        "all" => SecondaryCache::All,
        "metadata" => SecondaryCache::Metadata,
        "none" => SecondaryCache::None,
        _ => return None,
    })
}

/// The property with the user who made the dataset, by number.
pub(crate) const OWNER: &str = "owner";

/// The property with the checksum of records. There is one.
const CHECKSUM: &str = "checksum";

/// Says that a checksum of this name is not computed.
pub(crate) fn tell_checksum(props: &Props, channel: &mut dyn Channel) {
    let mut given = props.iter().filter(|(name, _)| name == CHECKSUM);
    let other = given.find(|(_, value)| !matches!(value.as_str(), "on" | "blake3"));
    if let Some((name, value)) = other {
        channel.notice(format!(
            "{name}={value}: every record has a BLAKE3 checksum here, and it cannot be weaker; nothing else changes"
        ));
    }
}

/// The permission to set user properties.
pub(crate) const OF_USERS: &str = "userprop";

pub(crate) fn permission_for(property: &str) -> &str {
    match is_user_property(property) {
        true => OF_USERS,
        // Of `userquota@ann` what comes first.
        false => property
            .split_once('@')
            .map_or(property, |(first, _)| first),
    }
}

/// Returns whether a property is a user property: its name has a colon.
pub(crate) fn is_user_property(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ":-._".contains(c);
    name.contains(':') && name.len() <= 255 && name.chars().all(allowed)
}

/// The full name of a property.
pub(crate) fn whole_name(name: &str) -> Result<String> {
    if let Some(property) = Property::find(name) {
        return Ok(property.name.into());
    }
    let is_of_something =
        AccountProperty::parse(name).is_some() || WrittenSince::parse(name).is_some();
    if is_user_property(name) || is_of_something || name == "name" {
        return Ok(name.into());
    }
    Err(Failure::new(FailureKind::NotFound, Property::unknown(name)))
}

pub(crate) fn check(name: &str, value: &str, when: Settable) -> Result<()> {
    check_text(name, value)?;
    if is_user_property(name) {
        return Ok(());
    }
    let Some(property) = Property::settable(name) else {
        let of_volumes = |property: &Property| property.applies == Applies::Volumes;
        if Property::find(name).is_some_and(of_volumes) {
            return Err(Failure::usage(format!(
                "the property '{name}' is for volumes: 'create -V SIZE -o volblocksize=16K', and 'set volsize=SIZE' \
                 later"
            )));
        }
        if Property::is_computed(name) || WrittenSince::parse(name).is_some() {
            return Err(Failure::usage(format!(
                "the property '{name}' cannot be set"
            )));
        }
        whole_name(name)?;
        return Err(Failure::usage(format!(
            "the property '{name}' is inside the data; 'strongroom set' it once the dataset is mounted"
        )));
    };
    let allowed = match property.settable {
        Settable::Never => false,
        Settable::Always => true,
        Settable::AtCreation => when == Settable::AtCreation,
        Settable::WithKey => when != Settable::Always,
    };
    if !allowed {
        let how = match property.settable {
            Settable::WithKey => "use 'key change'",
            _ => "it is chosen when the dataset is created",
        };
        return Err(Failure::usage(format!(
            "the property '{name}' cannot be set; {how}"
        )));
    }
    if name == "keysource" {
        // Its own message says what is wrong with it.
        value.parse::<keys::KeySource>()?;
    }
    if is_valid(&property.values, value) {
        return Ok(());
    }
    if (name, value) == (CHECKSUM, "off") {
        return Err(Failure::usage(
            "the property 'checksum' cannot be 'off': mirrors, scrubs and the proof of every read need the checksum \
             of each record",
        ));
    }
    if property.values == Values::RecordSize {
        return Err(no_record_size(property.name, value));
    }
    let more = match property.values {
        Values::NfsShare => NFS_OPTIONS,
        _ => "",
    };
    Err(Failure::usage(format!(
        "the property '{name}' cannot be '{value}'; allowed: {}{more}",
        property.values.describe()
    )))
}

/// The words of `sharenfs`, after its values.
const NFS_OPTIONS: &str = ": sec=sys:krb5:krb5i:krb5p, [no_]root_squash, [no_]all_squash, anonuid=UID, anongid=GID, \
                           [in]secure, [no_]wdelay. A CLIENT is 192.0.2.1, 192.0.2.0/24, [2001:db8::]/32, *.example.org, \
                           @NETGROUP or *, and no host name";

/// Refuses a value that is too long, or has characters that a reader does not see ([`characters::HIDDEN`]).
fn check_text(name: &str, value: &str) -> Result<()> {
    if let Some(hidden) = value.chars().find(|c| characters::is_hidden(*c)) {
        return Err(Failure::usage(format!(
            "the value of '{name}' has the control or invisible character {}; leave it out",
            hidden.escape_unicode()
        )));
    }
    if value.len() > PROPERTY_MAX {
        return Err(Failure::usage(format!(
            "the value of '{name}' is longer than {PROPERTY_MAX} bytes"
        )));
    }
    Ok(())
}

fn is_valid(values: &Values, value: &str) -> bool {
    match values {
        Values::Words(words) => words.contains(&value),
        Values::Count => value == "none" || count(value).is_some(),
        Values::Schedule => SnapshotSchedule::parse(value).is_some(),
        Values::Length => value == "off" || pool::retention_length(value).is_some(),
        Values::Size => value == "none" || sizes::positive(value).is_some(),
        Values::RecordSize => record_size(value).is_some(),
        Values::Mountpoint => is_mountpoint(value),
        Values::Compression => Compression::from_name(value).is_some(),
        Values::Encryption => value == "off" || Suite::from_name(value).is_some(),
        Values::KeySource => value.parse::<keys::KeySource>().is_ok(),
        Values::User => accounts::uid_of(value).is_some(),
        Values::NfsShare => nfs_share::is_valid(value),
    }
}

/// Returns whether a property is a size that may be `none`.
pub(crate) fn is_size(name: &str) -> bool {
    Property::settable(name).is_some_and(|property| property.values == Values::Size)
}

/// Returns whether a property is a number that may be `none`.
pub(crate) fn is_count(name: &str) -> bool {
    Property::settable(name).is_some_and(|property| property.values == Values::Count)
}

/// A number in decimal digits.
fn count(value: &str) -> Option<u64> {
    let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
    value.parse().ok().filter(|_| is_number)
}

/// The value of a settable property, and its source.
pub(crate) fn effective(pool: &Pool, entry: &Entry, name: &str) -> Result<(String, ValueSource)> {
    let property = Property::settable(name);
    if property.is_some_and(|property| !property.inherits) {
        return Ok(match entry.props.get(name) {
            // It was recorded, and is no setting.
            Some(value) if name == OWNER => (value.clone(), ValueSource::None),
            Some(value) => (value.clone(), ValueSource::Local),
            None => (
                property.map_or("", |p| p.default).into(),
                ValueSource::Default,
            ),
        });
    }
    Ok(match pool.property(entry.id, name)? {
        Some((value, at)) if at == entry.id => (value, ValueSource::Local),
        Some((value, at)) => (value, ValueSource::Inherited(pool.name_of(at)?)),
        None => (
            property.map_or("-", |p| p.default).into(),
            ValueSource::Default,
        ),
    })
}

/// The settings of an open dataset, from its properties.
pub(crate) fn settings(pool: &Pool, entry: &Entry) -> Result<Settings> {
    let value = |name| effective(pool, entry, name).map(|(value, _)| value);
    let defaults = Settings::default();
    let is_on = |value: String| value == "on";
    let atime = match (is_on(value("atime")?), is_on(value("relatime")?)) {
        (false, _) => Atime::Off,
        (true, true) => Atime::Relative,
        (true, false) => Atime::On,
    };
    Ok(Settings {
        compression: Compression::from_name(&value("compression")?).unwrap_or(defaults.compression),
        record_size: record_size(&value("recordsize")?).unwrap_or(defaults.record_size),
        primary_cache: primary_cache(&value("primarycache")?).unwrap_or(defaults.primary_cache),
        secondary_cache: secondary_cache(&value("secondarycache")?)
            .unwrap_or(defaults.secondary_cache),
        dedup: is_on(value("dedup")?),
        copies: match entry.volume() {
            // What a volume reserves is for one.
            None if value("copies")? == "2" => 2,
            _ => 1,
        },
        read_only: is_on(value("readonly")?),
        sync: sync_mode(&value("sync")?).unwrap_or(defaults.sync),
        write_cache: write_cache(&value("writecache")?).unwrap_or(defaults.write_cache),
        atime,
        limited: pool.is_limited(entry.id)?,
        gives_up_log: false,
    })
}

/// The mountpoint of a dataset by its property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mountpoint {
    Path(MountDirectory),
    /// Only at a directory that is given to `mount`.
    Legacy,
    None,
}

/// The mountpoint of a dataset by its property, and the source of the value. To an inherited path, the names below the
/// dataset that sets it are appended. These are directories in datasets, where other users may make links. By default,
/// pools of root mount at `/name`, and pools of an ordinary user do not mount by themselves.
pub(crate) fn mountpoint(active: &ActivePool, entry: &Entry) -> Result<(Mountpoint, ValueSource)> {
    let pool = &active.pool;
    let at_root = |path: &Path| match &active.altroot {
        Some(root) => root.join(path.strip_prefix("/").unwrap_or(path)),
        None => path.to_owned(),
    };
    if entry.is_snapshot() {
        return Ok((Mountpoint::None, ValueSource::None));
    }
    let name = pool.name_of(entry.id)?;
    let Some((value, at)) = pool.property(entry.id, "mountpoint")? else {
        let default = if rustix::process::geteuid().is_root() {
            let (top, below) = name.split_once('/').unwrap_or((&name, ""));
            Mountpoint::Path(MountDirectory::new(
                at_root(&Path::new("/").join(top)),
                below,
            ))
        } else {
            Mountpoint::None
        };
        return Ok((default, ValueSource::Default));
    };
    let setter = pool.name_of(at)?;
    let source = if at == entry.id {
        ValueSource::Local
    } else {
        ValueSource::Inherited(setter.clone())
    };
    let mountpoint = match value.as_str() {
        "none" => Mountpoint::None,
        "legacy" => Mountpoint::Legacy,
        path => {
            let below = name[setter.len()..].trim_start_matches('/');
            Mountpoint::Path(MountDirectory::new(at_root(Path::new(path)), below))
        }
    };
    Ok((mountpoint, source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_checked() {
        let good = [
            ("recordsize", "4K"),
            ("recordsize", "1m"),
            ("recordsize", "131072"),
            ("compression", "zstd-3"),
            ("mountpoint", "/a/b"),
            ("encryption", "on"),
            ("keysource", "raw,file:///k"),
            ("com.example:note", "anything"),
            ("quota", "10G"),
            ("quota", "none"),
            ("quota", "1"),
            ("quota", "1.5G"),
            ("reservation", "512MiB"),
            ("recordsize", "0.5M"),
            ("recordsize", "64KiB"),
            ("refquota", "2T"),
            ("snapshot_limit", "0"),
            ("snapshot-schedule", "hourly:24,daily:30,monthly:12"),
            ("filesystem_limit", "none"),
            ("retention", "off"),
            ("retention", "30d"),
            ("reservation", "10G"),
            ("refreservation", "none"),
        ];
        for (name, value) in good {
            check(name, value, Settable::AtCreation).unwrap();
        }
        let small = check("recordsize", "512", Settable::Always).unwrap_err();
        assert!(
            small
                .message
                .contains("take 4 KiB of a device too; files of up to 2 KiB")
        );
        let bad = [
            ("recordsize", "512"),
            ("recordsize", "3K"),
            ("recordsize", "2M"),
            ("compression", "gzip"),
            ("mountpoint", "relative"),
            ("encryption", "rot13"),
            ("checksum", "off"),
            ("checksum", "md5"),
            ("keysource", "raw,prompt"),
            ("used", "5"),
            ("quota", "0"),
            ("reservation", "0"),
            ("quota", "1.2.3G"),
            ("quota", "99999999P"),
            ("quota", "much"),
            ("snapshot_limit", "1K"),
            ("snapshot-schedule", "hourly:0"),
            ("retention", "30"),
            ("retention", "31y"),
            ("snapshot_limit", "+1"),
            ("filesystem_limit", ""),
            ("filesystem_count", "1"),
            ("nonsense", "5"),
            ("UPPER:case", "x"),
            ("com.example:note", "a\x1b[2Jb"),
            ("com.example:note", "a\nb"),
            ("com.example:note", "user\u{202e}txt"),
            ("com.example:note", "a\u{200b}b"),
            ("com.example:note", &"x".repeat(PROPERTY_MAX + 1)),
            ("mountpoint", "/a\nb"),
        ];
        for (name, value) in bad {
            assert!(
                check(name, value, Settable::AtCreation).is_err(),
                "{name}={value}"
            );
        }
        assert!(check("encryption", "on", Settable::Always).is_err());
        assert!(check("keysource", "passphrase,prompt", Settable::Always).is_err());
        check("keysource", "passphrase,prompt", Settable::WithKey).unwrap();
    }

    /// Whatever the user types, older programs can read what is stored.
    #[test]
    fn sizes_are_stored_in_one_form() {
        for (name, value, is) in [
            ("quota", "1.5G", "1610612736"),
            ("refquota", "512MiB", "536870912"),
            ("recordsize", "0.5M", "512K"),
            ("recordsize", "131072", "128K"),
            ("checksum", "sha256", "blake3"),
            ("recordsize", "1024k", "1M"),
            ("compression", "1.5G", "1.5G"),
        ] {
            assert_eq!(stored(name, value).as_deref(), Some(is), "{name}={value}");
        }
        assert_eq!(stored("quota", "none"), None);
    }

    #[test]
    fn short_names_are_known() {
        assert_eq!(whole_name("refer").unwrap(), "referenced");
        assert_eq!(whole_name("a:b").unwrap(), "a:b");
        assert!(whole_name("nonsense").is_err());
    }
}
