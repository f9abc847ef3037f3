//! `fusermount3`: how an ordinary user mounts.
//!
//! The helper opens the device, mounts with it and sends it here over a socket.

use std::ffi::OsString;
use std::io::{self, ErrorKind, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use parking_lot::Mutex;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
};

use crate::error::Error;
use crate::options::Options;
use crate::wire::buffer::MAX_WRITE;

const HELPER: &str = "fusermount3";

/// Held while a process is started, which for a moment has copies of all our descriptors. Files of a
/// mount that have just been closed would keep it busy through those.
static STARTING: Mutex<()> = Mutex::new(());

fn start(command: &mut Command) -> io::Result<Child> {
    let _one_at_a_time = STARTING.lock();
    command.spawn()
}

/// Mounts at `path` and returns the device.
pub(crate) fn mount(path: &Path, options: &Options) -> Result<OwnedFd, Error> {
    let (ours, theirs) = rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(|error| Error::RunHelper(error.into()))?;
    let mut command = Command::new(HELPER);
    command
        .arg("-o")
        .arg(mount_options(options))
        .arg("--")
        .arg(path)
        // The helper takes any number; as standard input the socket is inherited by it alone.
        .env("_FUSE_COMMFD", "0")
        .stdin(theirs)
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = start(&mut command).map_err(cannot_run)?;
    // It has our copy of the other end of the socket.
    drop(command);
    let device = receive(&ours);
    let mut said = String::new();
    if let Some(stderr) = &mut child.stderr {
        // Whatever it said is better than nothing.
        let _ = stderr.read_to_string(&mut said);
    }
    let status = child.wait().map_err(Error::RunHelper)?;
    match device {
        Some(device) if status.success() => Ok(device),
        _ => Err(Error::Helper(clean(&said))),
    }
}

/// Unmounts `path`; if `lazily`, even if it is in use.
pub(crate) fn unmount(path: &Path, lazily: bool) -> Result<(), Error> {
    let how = if lazily { "-uz" } else { "-u" };
    let mut command = Command::new(HELPER);
    command
        .args([how, "--"])
        .arg(path)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .env("LC_ALL", "C");
    let child = start(&mut command).map_err(cannot_run)?;
    let Output { status, stderr, .. } = child.wait_with_output().map_err(cannot_run)?;
    let said = clean(&String::from_utf8_lossy(&stderr));
    match status.success() {
        true => Ok(()),
        false if said.contains("busy") => Err(Error::Busy(path.to_owned())),
        false => Err(Error::Helper(said)),
    }
}

fn cannot_run(error: std::io::Error) -> Error {
    match error.kind() {
        ErrorKind::NotFound => Error::NoHelper,
        _ => Error::RunHelper(error),
    }
}

fn mount_options(options: &Options) -> OsString {
    let mut list = format!(
        "fsname={},subtype={},default_permissions,max_read={MAX_WRITE}",
        escaped(&options.fs_name),
        escaped(&options.subtype)
    );
    let flags = [
        (options.read_only, ",ro"),
        (options.allow_other, ",allow_other"),
        (options.nosuid, ",nosuid"),
        (options.nodev, ",nodev"),
        (options.noexec, ",noexec"),
    ];
    flags
        .iter()
        .filter(|(set, _)| *set)
        .for_each(|(_, flag)| list.push_str(flag));
    list.into()
}

/// Commas separate options.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace(',', "\\,")
}

/// The descriptor that the helper sends; none if it gives up and closes its end.
fn receive(socket: &OwnedFd) -> Option<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    rustix::io::retry_on_intr(|| {
        let mut data = [IoSliceMut::new(&mut byte)];
        rustix::net::recvmsg(socket, &mut data, &mut control, RecvFlags::CMSG_CLOEXEC)
    })
    .ok()?;
    control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    })
}

/// Returns the message of the helper, without its name.
fn clean(said: &str) -> String {
    let said = said.trim();
    let said = said.strip_prefix("fusermount3: ").unwrap_or(said);
    if said.is_empty() {
        "failed without saying why".to_owned()
    } else {
        said.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_for_the_helper() {
        let options = Options {
            fs_name: "tank/a,b\\c".to_owned(),
            read_only: true,
            nodev: true,
            ..Options::default()
        };
        assert_eq!(
            mount_options(&options).to_str().unwrap(),
            "fsname=tank/a\\,b\\\\c,subtype=strongroom,default_permissions,max_read=1048576,ro,nodev"
        );
    }

    #[test]
    fn what_the_helper_says_is_cleaned() {
        assert_eq!(clean("fusermount3: no way\n"), "no way");
        assert_eq!(clean(""), "failed without saying why");
    }
}
