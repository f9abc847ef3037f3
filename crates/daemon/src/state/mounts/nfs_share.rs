//! The property `sharenfs`: who may use a mounted dataset by the kernel's NFS server, and how.
//!
//! The value reaches the command line of `exportfs`, which runs as root, and delegates may be allowed to set it. So each
//! word of it is one of a list, or an address. Clients are addresses, networks, patterns or netgroups, and no plain host
//! names: `exportfs` would ask a name server for these while the pool is locked.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

/// The options without a value.
const FLAGS: [&str; 8] = [
    "root_squash",
    "no_root_squash",
    "all_squash",
    "no_all_squash",
    "secure",
    "insecure",
    "wdelay",
    "no_wdelay",
];
const FLAVORS: [&str; 4] = ["sys", "krb5", "krb5i", "krb5p"];

/// A directory that the NFS server exports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NfsShare {
    pub(crate) dir: PathBuf,
    /// The clients, each with its options.
    pub(crate) clients: Vec<(String, String)>,
}

impl NfsShare {
    /// The share of a directory by the value of its property; `None` if it is not shared. The handles of clients have the
    /// guids of the pool and of the dataset, so they are the same on each machine that imports the pool.
    pub(crate) fn new(value: &str, dir: PathBuf, guids: (u64, u64)) -> Option<NfsShare> {
        let ShareValue { clients, options } = parse(value)??;
        let guids = format!("{:016x}{:016x}", guids.0, guids.1);
        let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &guids[part]);
        // A directory without its mount is not exported.
        let fixed = format!("fsid={},mountpoint,no_subtree_check,sync", parts.join("-"));
        let rest: String = options.iter().map(|option| format!(",{option}")).collect();
        let of_client = |(client, access)| (client, format!("{access},{fixed}{rest}"));
        let clients = clients.into_iter().map(of_client).collect();
        Some(NfsShare { dir, clients })
    }

    /// The line for `exports(5)`.
    pub(crate) fn line(&self) -> String {
        let clients = self.clients.iter();
        let clients = clients.map(|(client, options)| {
            // Without brackets here.
            format!(" {}({options})", client.replace(['[', ']'], ""))
        });
        let mut line = String::new();
        for byte in self.dir.as_os_str().as_encoded_bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                    line.push(char::from(*byte));
                }
                other => line.push_str(&format!("\\{other:03o}")),
            }
        }
        line.extend(clients);
        line
    }
}

/// A parsed value of `sharenfs`.
#[derive(Debug, Default, PartialEq, Eq)]
struct ShareValue {
    /// Clients, and `rw` or `ro`.
    clients: Vec<(String, &'static str)>,
    options: Vec<String>,
}

/// Returns whether a value of `sharenfs` is allowed.
pub(crate) fn is_valid(value: &str) -> bool {
    parse(value).is_some()
}

/// `None` for a value that is not allowed, and `Some(None)` for `off`.
fn parse(value: &str) -> Option<Option<ShareValue>> {
    let mut parsed = ShareValue::default();
    let mut of_all = "rw";
    match value {
        "off" => return Some(None),
        "on" => {}
        _ => {
            for word in value.split(',') {
                match (word, word.split_once('=')) {
                    ("rw", _) => of_all = "rw",
                    ("ro", _) => of_all = "ro",
                    (_, None) if FLAGS.contains(&word) => parsed.options.push(word.into()),
                    (_, Some(("rw", clients))) => parsed.clients.extend(each(clients, "rw")?),
                    (_, Some(("ro", clients))) => parsed.clients.extend(each(clients, "ro")?),
                    (_, Some(("sec", flavors))) => {
                        let mut all = flavors.split(':');
                        all.all(|flavor| FLAVORS.contains(&flavor)).then_some(())?;
                        parsed.options.push(word.into());
                    }
                    (_, Some(("anonuid" | "anongid", number))) => {
                        let id: u32 = number.parse().ok()?;
                        (id.to_string() == number).then_some(())?;
                        parsed.options.push(word.into());
                    }
                    _ => return None,
                }
            }
        }
    }
    if parsed.clients.is_empty() {
        parsed.clients.push(("*".into(), of_all));
    }
    Some(Some(parsed))
}

/// The clients in a list that colons separate.
fn each(list: &str, access: &'static str) -> Option<Vec<(String, &'static str)>> {
    let mut clients = Vec::new();
    let mut rest = list;
    loop {
        // Colons in brackets are of an address.
        let after = rest.find(']').map_or(0, |at| at + 1);
        let end = rest[after..].find(':').map_or(rest.len(), |at| after + at);
        let end = match rest.starts_with('[') {
            true => end,
            false => rest.find(':').unwrap_or(rest.len()),
        };
        let client = &rest[..end];
        is_client(client).then(|| clients.push((client.to_owned(), access)))?;
        match rest.get(end + 1..) {
            Some(more) => rest = more,
            None => return Some(clients),
        }
    }
}

fn is_client(client: &str) -> bool {
    let is_name = |name: &str| {
        let allowed = |c: char| c.is_ascii_alphanumeric() || ".-_*?".contains(c);
        name.len() <= 255 && !name.starts_with(['-', '.']) && name.chars().all(allowed)
    };
    if let Some(group) = client.strip_prefix('@') {
        return !group.is_empty() && is_name(group) && !group.contains(['*', '?']);
    }
    let (address, prefix) = match client.split_once('/') {
        Some((address, prefix)) => (address, Some(prefix)),
        None => (client, None),
    };
    let is_prefix = |most: u8| {
        prefix.is_none_or(|prefix| {
            let bits: Option<u8> = prefix.parse().ok();
            bits.is_some_and(|bits| bits <= most && bits.to_string() == prefix)
        })
    };
    let in_brackets = address
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    match in_brackets {
        Some(address) => address.parse::<Ipv6Addr>().is_ok() && is_prefix(128),
        None if address.parse::<Ipv4Addr>().is_ok() => is_prefix(32),
        // A pattern of names, which the server compares when a client comes.
        None => client.contains(['*', '?']) && is_name(client),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clients(value: &str) -> Vec<(String, String)> {
        let share = NfsShare::new(value, "/tank/a b".into(), (1, 0xabc));
        share.map_or_else(Vec::new, |share| share.clients)
    }

    #[test]
    fn values_become_options_of_exportfs() {
        let fixed = "fsid=00000000-0000-0001-0000-000000000abc,mountpoint,no_subtree_check,sync";
        assert_eq!(clients("off"), []);
        assert_eq!(clients("on"), [("*".into(), format!("rw,{fixed}"))]);
        assert_eq!(clients("ro"), [("*".into(), format!("ro,{fixed}"))]);
        let value = "rw=192.0.2.0/24:[2001:db8::]/32,ro=*.example.org:@staff,sec=krb5p:sys,no_root_squash,anonuid=7";
        let rest = "sec=krb5p:sys,no_root_squash,anonuid=7";
        let expected = [
            ("192.0.2.0/24", "rw"),
            ("[2001:db8::]/32", "rw"),
            ("*.example.org", "ro"),
            ("@staff", "ro"),
        ];
        let expected = expected
            .map(|(client, access)| (client.to_owned(), format!("{access},{fixed},{rest}")));
        assert_eq!(clients(value), expected);
        let share = NfsShare::new("rw=[::1]", "/tank/a b#\\".into(), (1, 0xabc)).unwrap();
        assert_eq!(
            share.line(),
            format!("/tank/a\\040b\\043\\134 ::1(rw,{fixed})")
        );
    }

    /// A user who may set the property gets no other option, client or argument to the program.
    #[test]
    fn other_words_are_refused() {
        for value in [
            "",
            ",",
            "rw,",
            "rw=",
            "rw=:",
            "on,rw",
            "off,rw",
            "ON",
            "rw ro",
            "rw=host",
            "rw=-o",
            "rw=--all",
            "rw=10.0.0.1:",
            "rw=10.0.0.0/33",
            "rw=10.0.0.0/+8",
            "rw=10.0.0.1/24/8",
            "rw=10.0.0.300",
            "rw=*:/etc",
            "rw=*(rw)",
            "rw=* *",
            "rw=*\n/etc",
            "rw=@",
            "rw=@a*",
            "rw=[10.0.0.1]",
            "rw=[::1",
            "rw=::1",
            "rw=[::1]x",
            "fsid=0",
            "fsid=root",
            "async",
            "crossmnt",
            "nohide",
            "refer=/x@y",
            "replicas=/x@y",
            "sec=none",
            "sec=",
            "sec=sys:",
            "anonuid=-1",
            "anonuid=+1",
            "anonuid=",
            "anonuid=4294967296",
            "insecure=1",
            "mountpoint=/",
            "mp",
            "pnfs",
            "no_subtree_check",
            "rw=*.a/8",
            "root=*",
        ] {
            assert!(!is_valid(value), "{value}");
        }
        for value in [
            "on",
            "off",
            "ro",
            "ro,insecure",
            "rw=*",
            "rw=10.0.0.1:10.0.0.2,ro=*.a:[::1]:[fe80::]/10",
        ] {
            assert!(is_valid(value), "{value}");
        }
    }
}
