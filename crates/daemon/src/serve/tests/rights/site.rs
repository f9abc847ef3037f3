//! A daemon with datasets of several users, and requests of each user.

use std::collections::BTreeSet;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use pool::Origin;
use protocol::api::{Ask, AskFormat, Command, DatasetRow, Reply, ZoneProfile, command};
use protocol::api::{Failure, Result};
use protocol::client::{DaemonConnection, Data, Terminal};
use protocol::property::{PROPERTIES, Property, Settable};
use secret::Secret;
use serde_json::json;

use super::samples::create;
use crate::host::callers::users::Peer;
use crate::ops::users::delegation::PERMISSIONS;
use crate::serve::zones::ZoneSockets;
use crate::state::callers::budget::Payer;
use crate::state::callers::row_stream::RowStream;
use crate::state::daemon::Daemon;
use crate::state::exports::listen::Protocol;
use crate::state::front_end::FrontEnd;
use crate::tests::{KEY, command, create_pool, daemon, encrypted, key_file};

/// A permission of a delegate on one dataset.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Right {
    pub(super) dataset: String,
    pub(super) permission: &'static str,
}

/// The zones of two tenants. In each are `fs` with a key of its own, `sub` with the key of the zone's root, and `to`,
/// which is clear.
pub(super) const ZONES: [&str; 2] = ["web", "other"];

/// The datasets below `fs` and below `sub`.
pub(super) const INSIDE: [&str; 4] = ["", "/x", "/clone", "/vol"];

pub(super) struct Site {
    dir: tempfile::TempDir,
    pub(super) daemon: Arc<Daemon>,
    /// All rights on the datasets of the first zone. A group has each.
    pub(super) rights: Vec<Right>,
}

/// The group that has a right.
fn group(at: usize) -> u32 {
    100_000 + at as u32
}

impl Site {
    /// With these zones.
    pub(super) fn new(zones: &[&str]) -> Site {
        // Many are made, and none has to last.
        let in_memory = tempfile::tempdir_in("/dev/shm");
        let dir = in_memory.or_else(|_| tempfile::tempdir()).unwrap();
        let daemon = daemon(dir.path());
        create_pool(&daemon, dir.path(), "tank");
        let mut site = Site {
            dir,
            daemon,
            rights: Vec::new(),
        };
        for zone in zones {
            site.build(zone);
        }
        site.allow_each_right_to_a_group();
        site
    }

    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }

    fn build(&self, zone: &str) {
        let root = format!("tank/{zone}");
        let global = encrypted(&key_file(self.dir.path(), zone));
        crate::tests::create(&self.daemon, &root, &global);
        self.root(create(format!("{root}/to"), &[("encryption", "off")]));
        let own: [(&str, &str); 2] = [("encryption", "on"), ("keysource", "hex,prompt")];
        for (name, props) in [("fs", &own[..]), ("sub", &[])] {
            let fs = format!("{root}/{name}");
            self.root(create(fs.clone(), props));
            self.root(create(format!("{fs}/x"), &[]));
            for snapshot in ["1", "2"] {
                self.root(request!({"snapshot": {"names": [format!("{fs}@{snapshot}")], "recursive": true}}));
            }
            self.root(request!({"bookmark": {"of": format!("{fs}@1"), "name": format!("{fs}#1")}}));
            self.root(
                request!({"create": {"name": format!("{fs}/vol"), "props": [], "no_mount": true,
                                           "volume": {"size": 1 << 20, "sparse": true}}}),
            );
            self.root(request!({"clone": {"snapshot": format!("{fs}/x@1"), "name": format!("{fs}/clone"), "props": [],
                                          "no_mount": true}}));
        }
        self.root(request!({"snapshot": {"names": [format!("{root}/to@1")]}}));
        let new = command::ZoneCreate {
            name: zone.into(),
            dataset: root,
            profile: ZoneProfile::None,
            ..command::ZoneCreate::default()
        };
        command(|context| self.daemon.create_zone(&new, context)).unwrap();
    }

    fn allow_each_right_to_a_group(&mut self) {
        let settable = |property: &&Property| property.settable != Settable::Never;
        let known = PROPERTIES.iter().filter(settable).map(|known| known.name);
        let permissions: BTreeSet<&str> = known.chain(PERMISSIONS.iter().copied()).collect();
        let inside = INSIDE.map(|name| format!("tank/web/fs{name}"));
        for dataset in inside.into_iter().chain(["tank/web/to".to_owned()]) {
            let mut text = Vec::new();
            for permission in &permissions {
                text.push(format!("g{} l {permission}", group(self.rights.len())));
                self.rights.push(Right {
                    dataset: dataset.clone(),
                    permission,
                });
            }
            let active = self.daemon.pool("tank").unwrap();
            let origin = Origin {
                who: "test".into(),
                text: "allow".into(),
                uid: None,
            };
            let allow = [("@allow".to_owned(), Some(text.join("\n")))];
            active.pool.set_props(&[dataset], &allow, &origin).unwrap();
        }
    }

    /// A caller with the rights for which `has` says so.
    pub(super) fn delegate(&self, has: impl Fn(&Right) -> bool) -> Peer {
        let all = self.rights.iter().enumerate();
        let groups = all.filter(|(_, right)| has(right)).map(|(at, _)| group(at));
        Peer {
            uid: 12345,
            gid: 12345,
            groups: groups.collect(),
            is_admin: false,
            token: None,
            who: "ann on host".into(),
        }
    }

    /// Has a command of a caller done at the daemon's socket.
    pub(super) fn ask_as(&self, peer: &Peer, command: &Command) -> Result<Reply> {
        let (client, server) = UnixStream::pair().unwrap();
        thread::scope(|scope| {
            scope.spawn(|| self.daemon.serve_peer(peer.clone(), server));
            DaemonConnection::over(client).call(command.clone(), &mut Typist)
        })
    }

    /// Has a command done that sends or receives data.
    pub(super) fn transfer_as(
        &self,
        peer: &Peer,
        command: &Command,
        data: &mut dyn Data,
    ) -> Result<Reply> {
        self.transfer_at(peer, command, data, &mut Typist)
    }

    /// Has a command done that sends or receives data, by a caller at this terminal.
    pub(super) fn transfer_at(
        &self,
        peer: &Peer,
        command: &Command,
        data: &mut dyn Data,
        terminal: &mut dyn Terminal,
    ) -> Result<Reply> {
        let (client, server) = UnixStream::pair().unwrap();
        thread::scope(|scope| {
            scope.spawn(|| self.daemon.serve_peer(peer.clone(), server));
            DaemonConnection::over(client).call_with_data(command.clone(), terminal, data)
        })
    }

    /// Has a command of root done.
    pub(super) fn root(&self, command: Command) {
        let peer = Peer {
            is_admin: true,
            token: None,
            ..self.delegate(|_| false)
        };
        let done = self.ask_as(&peer, &command);
        done.unwrap_or_else(|failure| panic!("{command:?}: {failure:?}"));
    }

    /// Has a command of a tenant done.
    pub(super) fn ask_in(&self, zone: &str, command: &Command) -> Result<Reply> {
        let client = DaemonConnection::connect(&self.daemon.zone_socket(zone))?;
        client.call(command.clone(), &mut Typist)
    }

    /// The state that a request could change in a dataset and below it.
    pub(super) fn state_below(&self, dataset: &str) -> String {
        json!(self.rows(vec![dataset.into()])).to_string()
    }

    /// The datasets with all properties. What is counted is left out: a commit in the background changes it.
    fn rows(&self, names: Vec<String>) -> Vec<DatasetRow> {
        let all = command::Get {
            names,
            snapshots: true,
            bookmarks: true,
            ..command::Get::default()
        };
        let mut rows = Vec::new();
        let mut found = RowStream::new(Payer::Root, |piece| {
            rows.extend(piece);
            Ok(())
        });
        self.daemon.get(&all, &|_| true, &mut found).unwrap();
        let rest = found.into_rest();
        rows.extend(rest);
        for row in &mut rows {
            let is_counted = |name: &str| {
                name.starts_with("used")
                    || [
                        "available",
                        "referenced",
                        "logicalreferenced",
                        "compressratio",
                        "refcompressratio",
                        "written",
                    ]
                    .contains(&name)
            };
            row.props.retain(|prop| !is_counted(&prop.property));
        }
        rows
    }

    /// The state that a request could change.
    pub(super) fn state(&self) -> String {
        let daemon = &self.daemon;
        let rows = self.rows(Vec::new());
        let tags = rows.iter().filter(|row| row.name.contains('@'));
        let tags: Vec<String> = tags.map(|row| row.name.clone()).collect();
        let mut holds = RowStream::new(Payer::Root, |_| panic!("there are few"));
        daemon.holds(&tags, false, &mut holds).unwrap();
        let heads = rows.iter().filter(|row| !row.name.contains(['@', '#']));
        let allowed: Vec<_> = heads
            .map(|row| daemon.permissions(&row.name).unwrap())
            .collect();
        let state = json!([
            rows,
            allowed,
            daemon.history("tank", true).unwrap(),
            holds.into_rest(),
            daemon.mount_list().unwrap(),
            daemon.zone_rows(),
            daemon.export_rows(Protocol::Nbd),
            daemon.export_rows(Protocol::Ublk),
            daemon.mapping_rows(&[]).unwrap(),
            std::fs::read_to_string(self.dir.path().join("state/accepted.json")).unwrap(),
        ]);
        state.to_string()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        ZoneSockets.stop(&self.daemon);
    }
}

/// Types the same key whenever it is asked.
pub(super) struct Typist;

impl Terminal for Typist {
    fn ask(&mut self, ask: &Ask) -> std::result::Result<Option<Secret>, Failure> {
        let typed = match ask.format {
            AskFormat::Passphrase => "correct horse",
            _ => KEY,
        };
        Ok(Some(Secret::from_slice(typed.as_bytes()).unwrap()))
    }

    fn notice(&mut self, _: &str) {}
}
