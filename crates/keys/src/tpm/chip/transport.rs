//! The way to a TPM: the device of the kernel's resource manager, or the socket of a TPM in software.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use zeroize::Zeroizing;

use super::refusal::is_busy;
use super::wire::{MESSAGE_MAX, answer_len};
use crate::{Error, Result};

/// The device, unless its source or `STRONGROOM_TPM` names another one.
const DEVICE: &str = "/dev/tpmrm0";
/// The longest time for which the TPM may be busy.
const BUSY_MAX: Duration = Duration::from_secs(10);
const BUSY_PAUSE: Duration = Duration::from_millis(20);
/// A TPM has this long for one command. Only a socket is left then: the kernel has limits of its own for its device.
const TIME_MAX: Duration = Duration::from_secs(60);

pub(crate) struct Transport {
    path: PathBuf,
    stream: TpmStream,
}

enum TpmStream {
    Device(File),
    Socket(UnixStream),
}

impl Transport {
    pub(crate) fn open(device: Option<&Path>) -> Result<Transport> {
        let variable = || std::env::var_os("STRONGROOM_TPM").map_or(DEVICE.into(), PathBuf::from);
        let path = device.map_or_else(variable, Path::to_owned);
        let opened = open_soon(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                Error::Tpm(format!("there is none: {} does not exist", path.display()))
            }
            _ => Error::Tpm(format!("{}: {error}", path.display())),
        });
        let stream = opened?;
        Ok(Transport { path, stream })
    }

    /// Has a command done, and returns the answer. The TPM may be busy for a while.
    pub(crate) fn exchange(&mut self, command: &[u8]) -> Result<Zeroizing<Vec<u8>>> {
        let until = Instant::now() + BUSY_MAX;
        loop {
            let answer = self.once(command);
            let answer =
                answer.map_err(|error| Error::Tpm(format!("{}: {error}", self.path.display())))?;
            let code = answer.get(6..10).and_then(|code| code.try_into().ok());
            if !is_busy(code.map_or(0, u32::from_be_bytes)) || Instant::now() > until {
                return Ok(answer);
            }
            std::thread::sleep(BUSY_PAUSE);
        }
    }

    fn once(&mut self, command: &[u8]) -> io::Result<Zeroizing<Vec<u8>>> {
        let mut bytes = Zeroizing::new(vec![0; MESSAGE_MAX]);
        let mut len = 0;
        self.stream.as_writer().write_all(command)?;
        // The device gives an answer at once, a socket in pieces.
        loop {
            let read = self.stream.as_reader().read(&mut bytes[len..])?;
            len += read;
            let wanted = answer_len(&bytes[..len]);
            if read == 0 || wanted.is_some_and(|wanted| len >= wanted) {
                break;
            }
        }
        bytes.truncate(len);
        Ok(bytes)
    }
}

/// `/dev/tpm0` can be opened once at a time, and another program may be done soon.
fn open_soon(path: &Path) -> io::Result<TpmStream> {
    let until = Instant::now() + BUSY_MAX;
    loop {
        match open(path) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && Instant::now() < until => {
                std::thread::sleep(BUSY_PAUSE);
            }
            opened => return opened,
        }
    }
}

fn open(path: &Path) -> io::Result<TpmStream> {
    let kind = std::fs::metadata(path)?.file_type();
    if kind.is_socket() {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(TIME_MAX))?;
        return Ok(TpmStream::Socket(stream));
    }
    // What is written would destroy a file or a disk.
    if !kind.is_char_device() {
        return Err(io::Error::other("it is no TPM"));
    }
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    Ok(TpmStream::Device(file))
}

impl TpmStream {
    fn as_writer(&mut self) -> &mut dyn Write {
        match self {
            TpmStream::Device(file) => file,
            TpmStream::Socket(stream) => stream,
        }
    }

    fn as_reader(&mut self) -> &mut dyn Read {
        match self {
            TpmStream::Device(file) => file,
            TpmStream::Socket(stream) => stream,
        }
    }
}
