//! Requests to the daemon.

use std::path::PathBuf;

use protocol::api::{
    Ask, Command, DatasetRow, Failure, FailureKind, MountRow, PropertyValue, Props, Reply, command,
};
use protocol::client::{DaemonConnection, Terminal};
use secret::Secret;

use crate::status::Result;

/// The daemon at a socket.
pub(crate) struct DaemonClient {
    pub(crate) socket: PathBuf,
}

impl DaemonClient {
    pub(crate) fn call(&self, command: impl Into<Command>) -> std::result::Result<Reply, Failure> {
        DaemonConnection::connect(&self.socket)?.call(command, &mut Nobody)
    }

    /// A dataset, and with `depth` what is below it.
    pub(crate) fn get(
        &self,
        name: &str,
        depth: u32,
        props: &[&str],
    ) -> std::result::Result<Vec<DatasetRow>, Failure> {
        let get = command::Get {
            names: vec![name.into()],
            depth: Some(depth),
            snapshots: depth > 0,
            bookmarks: false,
            props: props.iter().map(|name| (*name).into()).collect(),
        };
        match self.call(get)? {
            Reply::Datasets(rows) => Ok(rows),
            _ => Err(not_understood()),
        }
    }

    pub(crate) fn set(&self, name: &str, props: Props) -> Result<()> {
        let set = command::Set {
            names: vec![name.into()],
            props,
            force: false,
        };
        self.call(set)?;
        Ok(())
    }

    /// The row of the mount of a dataset, if it is mounted.
    pub(crate) fn mount_of(&self, dataset: &str) -> Result<Option<MountRow>> {
        match self.call(Command::Mounts)? {
            Reply::Mounts(rows) => Ok(rows.into_iter().find(|row| row.name == dataset)),
            _ => Err(not_understood().into()),
        }
    }

    /// The kernel's device of a volume, as `/dev/nbd0`.
    pub(crate) fn kernel_device_of(&self, dataset: &str) -> Result<Option<String>> {
        let Reply::Exports(rows) = self.call(Command::NbdExports)? else {
            return Err(not_understood().into());
        };
        let found = rows.into_iter().find(|row| row.device == dataset);
        Ok(found.map(|row| row.listen))
    }
}

/// The value of a property that is a size.
pub(crate) fn bytes(row: &DatasetRow, name: &str) -> Option<u64> {
    match value(row, name)? {
        PropertyValue::Bytes(bytes) | PropertyValue::Number(bytes) | PropertyValue::Time(bytes) => {
            Some(*bytes)
        }
        _ => None,
    }
}

/// The value of a property that is a word.
pub(crate) fn word<'a>(row: &'a DatasetRow, name: &str) -> Option<&'a str> {
    match value(row, name)? {
        PropertyValue::Text(text) => Some(text),
        _ => None,
    }
}

fn value<'a>(row: &'a DatasetRow, name: &str) -> Option<&'a PropertyValue> {
    let found = row.props.iter().find(|prop| prop.property == name);
    found.map(|prop| &prop.value)
}

pub(crate) fn not_understood() -> Failure {
    Failure::other("the answer of the daemon is not understood")
}

/// A channel without a terminal: a secret that is asked for is refused.
struct Nobody;

impl Terminal for Nobody {
    fn ask(&mut self, ask: &Ask) -> std::result::Result<Option<Secret>, Failure> {
        let name = &ask.dataset;
        Err(Failure::new(
            FailureKind::NoKey,
            format!(
                "the key of '{name}' is not loaded; load it on the node: strongroom key load {name}"
            ),
        ))
    }

    fn notice(&mut self, text: &str) {
        eprintln!("strongroom: {text}");
    }
}
