//! The target of a job: a dataset of this machine, or of another host by `ssh`.
//!
//! The parts of a target become arguments of the program `ssh`. So none of them can be taken for an option, and the name
//! of the dataset is quoted for the shell of the other host.

use std::fmt;

use pool::DatasetName;

use crate::failure::{Failure, Result};

/// The begin of a target on another host, by `ssh` and by its HTTPS API.
const SSH: &str = "ssh://";
const HTTPS: &str = "https://";
/// The port of a target by HTTPS that names none.
const HTTPS_PORT: u16 = 443;
/// The most bytes of the name of a host or user.
const NAME_MAX: usize = 255;

/// The place of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReplicationTarget {
    /// A dataset of a pool of this machine.
    Local(String),
    /// A dataset of another host, by `ssh`.
    Ssh(SshTarget),
    /// A dataset of another host, by its HTTPS API.
    Https(HttpsTarget),
}

/// A dataset of another host with a site on the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HttpsTarget {
    pub(crate) host: String,
    port: Option<u16>,
    dataset: String,
}

/// A dataset of another host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SshTarget {
    pub(crate) user: Option<String>,
    pub(crate) host: String,
    pub(crate) port: Option<u16>,
    pub(crate) dataset: String,
}

impl ReplicationTarget {
    pub(crate) fn parse(text: &str) -> Result<ReplicationTarget> {
        let target = match text.strip_prefix(SSH) {
            Some(rest) => SshTarget::parse(rest).map(ReplicationTarget::Ssh),
            None if text.starts_with(HTTPS) => {
                let target = HttpsTarget::parse(&text[HTTPS.len()..]);
                target.map(ReplicationTarget::Https)
            }
            None if text.contains("://") => None,
            None => {
                check_dataset(text)?;
                return Ok(ReplicationTarget::Local(text.into()));
            }
        };
        let target = target.ok_or_else(|| {
            Failure::usage(format!(
                "the target '{text}' is neither a dataset, nor ssh://[USER@]HOST[:PORT]/POOL/DATASET, nor \
                 https://HOST[:PORT]/POOL/DATASET"
            ))
        })?;
        check_dataset(target.dataset())?;
        Ok(target)
    }

    /// The dataset, on its host.
    pub(crate) fn dataset(&self) -> &str {
        match self {
            ReplicationTarget::Local(dataset) => dataset,
            ReplicationTarget::Ssh(target) => &target.dataset,
            ReplicationTarget::Https(target) => &target.dataset,
        }
    }

    /// The pool of a dataset of this machine.
    pub(crate) fn local_pool(&self) -> Option<&str> {
        match self {
            ReplicationTarget::Local(dataset) => dataset.split('/').next(),
            ReplicationTarget::Ssh(_) | ReplicationTarget::Https(_) => None,
        }
    }
}

fn check_dataset(name: &str) -> Result<()> {
    let parsed = DatasetName::parse(name)?;
    match parsed.snapshot {
        None if !name.contains('#') => Ok(()),
        _ => Err(Failure::usage(format!(
            "the target '{name}' is a snapshot or bookmark; name a dataset"
        ))),
    }
}

impl fmt::Display for ReplicationTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplicationTarget::Local(dataset) => f.write_str(dataset),
            ReplicationTarget::Ssh(target) => target.fmt(f),
            ReplicationTarget::Https(target) => target.fmt(f),
        }
    }
}

impl SshTarget {
    fn parse(text: &str) -> Option<SshTarget> {
        let (place, dataset) = text.split_once('/')?;
        let (user, place) = match place.rsplit_once('@') {
            Some((user, place)) => (Some(user), place),
            None => (None, place),
        };
        let (host, port) = host_and_port(place)?;
        if !user.is_none_or(is_word) {
            return None;
        }
        Some(SshTarget {
            user: user.map(str::to_owned),
            host: host.into(),
            port,
            dataset: dataset.into(),
        })
    }
}

impl fmt::Display for SshTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(SSH)?;
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        write_place(f, &self.host, self.port)?;
        write!(f, "/{}", self.dataset)
    }
}

/// The name or address in `HOST[:PORT]`, with the port if there is one.
fn host_and_port(place: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = match place.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']')?;
            let is_address = host.parse::<std::net::Ipv6Addr>().is_ok();
            (is_address.then_some(host)?, after)
        }
        None => {
            let end = place.find(':').unwrap_or(place.len());
            let (host, after) = place.split_at(end);
            (is_word(host).then_some(host)?, after)
        }
    };
    let port = match port.strip_prefix(':') {
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            Some(digits.parse().ok().filter(|port| *port > 0)?)
        }
        None if port.is_empty() => None,
        _ => return None,
    };
    Some((host, port))
}

/// Writes `HOST[:PORT]`.
fn write_place(f: &mut fmt::Formatter<'_>, host: &str, port: Option<u16>) -> fmt::Result {
    match host.contains(':') {
        true => write!(f, "[{host}]")?,
        false => f.write_str(host)?,
    }
    match port {
        Some(port) => write!(f, ":{port}"),
        None => Ok(()),
    }
}

impl HttpsTarget {
    fn parse(text: &str) -> Option<HttpsTarget> {
        let (place, dataset) = text.split_once('/')?;
        let (host, port) = host_and_port(place)?;
        Some(HttpsTarget {
            host: host.into(),
            port,
            dataset: dataset.into(),
        })
    }

    /// The host and the port, as `HOST:PORT`.
    pub(crate) fn place(&self) -> String {
        let port = self.port.unwrap_or(HTTPS_PORT);
        match self.host.contains(':') {
            true => format!("[{}]:{port}", self.host),
            false => format!("{}:{port}", self.host),
        }
    }
}

impl fmt::Display for HttpsTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HTTPS)?;
        write_place(f, &self.host, self.port)?;
        write!(f, "/{}", self.dataset)
    }
}

/// Returns whether a text can be the name of a user or host. It cannot be an option of a program.
fn is_word(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    !text.is_empty()
        && text.len() <= NAME_MAX
        && !text.starts_with('-')
        && text.chars().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_and_written() {
        for text in [
            "backup/home",
            "ssh://host/backup/home",
            "ssh://ann@host.example.org:2222/backup/a b",
            "ssh://ann@[2001:db8::1]/backup",
            "ssh://[::1]:22/backup/home",
            "https://host/backup/home",
            "https://host.example.org:8443/backup/a b",
            "https://[2001:db8::1]:8443/backup",
        ] {
            let target = ReplicationTarget::parse(text).unwrap();
            assert_eq!(target.to_string(), text);
        }
        let target = ReplicationTarget::parse("ssh://ann@host:22/backup/home").unwrap();
        let ReplicationTarget::Ssh(ssh) = target else {
            panic!("{target}");
        };
        assert_eq!((ssh.user.as_deref(), &*ssh.host), (Some("ann"), "host"));
        assert_eq!((ssh.port, &*ssh.dataset), (Some(22), "backup/home"));
        for (text, place) in [
            ("https://host/backup", "host:443"),
            ("https://[::1]:8443/backup", "[::1]:8443"),
        ] {
            let target = ReplicationTarget::parse(text).unwrap();
            let ReplicationTarget::Https(https) = target else {
                panic!("{target}");
            };
            assert_eq!(https.place(), place);
        }
    }

    #[test]
    fn no_part_can_be_an_option_or_a_command() {
        for text in [
            "",
            "/home",
            "backup/home@1",
            "backup/home#1",
            "ssh://",
            "ssh://host",
            "ssh:///backup",
            "ssh://-oProxyCommand=x/backup",
            "ssh://-l@host/backup",
            "ssh://ann@-h/backup",
            "ssh://a b/backup",
            "ssh://host;reboot/backup",
            "ssh://host:0/backup",
            "ssh://host:+1/backup",
            "ssh://host:99999/backup",
            "ssh://[host]/backup",
            "ssh://[::1]x/backup",
            "ssh://host/backup/x@1",
            "ssh://host/backup/a\nb",
            "http://host/backup",
            "https://host",
            "https://ann@host/backup",
            "https://-h/backup",
            "https://host:x/backup",
            "https://host/backup/x@1",
        ] {
            assert!(ReplicationTarget::parse(text).is_err(), "{text:?}");
        }
    }
}
