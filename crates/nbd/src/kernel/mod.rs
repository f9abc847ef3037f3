//! An export as a block device of this kernel, `/dev/nbdN`.
//!
//! The kernel gets one end of a pair of sockets, and this process serves the other end. When the connection is lost the
//! kernel holds requests back for a while, so that the next process can go on with another connection.

mod netlink;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use block::{HelperBudget, TransferPool};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use self::netlink::{DeviceParameters, NbdDriver};
use crate::error::CloseCause;
use crate::serve::connection::ExportConnection;
use crate::serve::export::Export;
use crate::serve::negotiate::NegotiatedSession;
use crate::wire::input::ReceiveBuffer;
use crate::wire::link::{PeerLink, PeerSocket};
use crate::{Error, Result};

/// The kernel holds requests back so long when the connection is lost, in seconds.
const PATIENCE_SECS: u64 = 300;
/// Threads besides the one that the connection has.
const HELPERS_MAX: usize = 15;
/// The kernel has no larger logical sectors.
const SECTOR_MAX: u32 = 4096;

/// A device of the kernel, by its number. It is there whether or not this process serves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelDevice(pub u32);

impl KernelDevice {
    /// Reads `/dev/nbdN`.
    pub fn parse(path: &str) -> Option<KernelDevice> {
        let number = path.strip_prefix("/dev/nbd")?;
        let parsed = KernelDevice(number.parse().ok()?);
        (parsed.path() == Path::new(path)).then_some(parsed)
    }

    /// `/dev/nbdN`.
    pub fn path(self) -> PathBuf {
        format!("/dev/nbd{}", self.0).into()
    }

    /// Returns whether this crate attached the export under this identity, and no other program did.
    pub fn is_of(self, identity: &str) -> bool {
        let shown = std::fs::read_to_string(format!("/sys/block/nbd{}/backend", self.0));
        shown.is_ok_and(|shown| shown.trim_end() == identity)
    }

    /// Ends what was attached under this identity. Requests that wait fail.
    ///
    /// # Errors
    /// If the kernel does not do it.
    pub fn end(self, identity: &str) -> Result<()> {
        if !self.is_of(identity) {
            return Ok(());
        }
        let driver = driver()?;
        self.connect_to_nothing(&driver, identity)?;
        match driver.disconnect(self.0) {
            // It ended by itself.
            Err(error) if is(&error, Errno::NODEV) || is(&error, Errno::INVAL) => Ok(()),
            ended => ended.map_err(|error| self.explain(error)),
        }
    }

    /// Gives a device that has lost its connection one that nobody answers; nothing happens to others. The kernel notes the end
    /// of a device when its connection ends. Without one, requests would wait as before.
    fn connect_to_nothing(self, driver: &NbdDriver, identity: &str) -> Result<()> {
        let (own, theirs) = UnixStream::pair().map_err(Error::Kernel)?;
        if driver.reconnect(self.0, identity, theirs.as_fd()).is_err() {
            return Ok(());
        }
        // What the kernel sends must not wait. The thread ends with the device.
        let drain = move || std::io::copy(&mut &own, &mut std::io::sink());
        threads::start("nbd-end", drain)
            .map(drop)
            .map_err(Error::Thread)
    }

    /// Refuses if a program has it open exclusively: it is mounted, or part of another device.
    ///
    /// # Errors
    /// [`Error::KernelDeviceInUse`]
    pub fn may_end(self) -> Result<()> {
        self.claim().map(drop)
    }

    /// Keeps other programs from opening it exclusively, as to mount it. Fails if one has done so.
    fn claim(self) -> Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
        rustix::fs::open(self.path(), flags, Mode::empty())
            .map_err(|errno| self.explain(errno.into()))
    }

    fn explain(self, error: io::Error) -> Error {
        let device = self.path().display().to_string();
        match () {
            () if is(&error, Errno::BUSY) => Error::KernelDeviceInUse { device },
            () if is(&error, Errno::PERM) => Error::NotPermitted,
            () => Error::KernelDevice {
                device,
                source: error,
            },
        }
    }
}

/// An export that is attached to a device of the kernel. Nothing ends when it is dropped.
#[derive(Debug)]
pub struct Attachment {
    export: Arc<Export>,
    device: KernelDevice,
    identity: String,
}

impl Attachment {
    /// Attaches an export to a device; to one that is free if none is named. `identity` tells it from what others attach.
    ///
    /// # Errors
    /// [`Error::NoKernelModule`], [`Error::NotPermitted`], [`Error::KernelDeviceInUse`], and others.
    pub fn new(
        export: Arc<Export>,
        device: Option<KernelDevice>,
        identity: &str,
    ) -> Result<Attachment> {
        Attachment::make(export, device, identity, |driver, wanted| {
            driver.connect(wanted)
        })
    }

    /// Takes up a device that was left ([`Attachment::leave`]): its requests have waited, and are carried out now.
    ///
    /// # Errors
    /// As of [`Attachment::new`].
    pub fn take_up(
        export: Arc<Export>,
        device: KernelDevice,
        identity: &str,
    ) -> Result<Attachment> {
        Attachment::make(export, Some(device), identity, |driver, wanted| {
            driver.reconfigure(wanted)?;
            Ok(device.0)
        })
    }

    fn make(
        export: Arc<Export>,
        device: Option<KernelDevice>,
        identity: &str,
        ask: impl FnOnce(&NbdDriver, &DeviceParameters<'_>) -> io::Result<u32>,
    ) -> Result<Attachment> {
        let driver = driver()?;
        let [sector, ..] = export.block_sizes();
        if sector > SECTOR_MAX {
            let device = export.device().name();
            return Err(Error::SectorSize { device, sector });
        }
        let size = export.size()?;
        let (own, theirs) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )
        .map_err(|errno| Error::Kernel(errno.into()))?;
        let wanted = DeviceParameters {
            index: device.map(|device| device.0),
            size,
            block_size: sector,
            flags: export.flags(),
            patience_secs: PATIENCE_SECS,
            identity,
            socket: theirs.as_fd(),
        };
        let (tell, told) = channel();
        serve(&export, own, size, told)?;
        match ask(&driver, &wanted) {
            Ok(index) => {
                let (device, identity) = (KernelDevice(index), String::from(identity));
                // The thread waits for it, or has no use for it any more.
                let _ = tell.send((device, identity.clone()));
                Ok(Attachment {
                    export,
                    device,
                    identity,
                })
            }
            Err(error) => {
                export.close(true)?;
                Err(match device {
                    Some(device) => device.explain(error),
                    None if is(&error, Errno::PERM) => Error::NotPermitted,
                    None => Error::Kernel(error),
                })
            }
        }
    }

    /// The device.
    pub fn device(&self) -> KernelDevice {
        self.device
    }

    /// The export.
    pub fn export(&self) -> &Arc<Export> {
        &self.export
    }

    /// Checks that the device is not in use: see [`KernelDevice::may_end`].
    ///
    /// # Errors
    /// [`Error::KernelDeviceInUse`]
    pub fn may_detach(&self) -> Result<()> {
        match self.is_ours() {
            true => self.device.may_end(),
            false => Ok(()),
        }
    }

    /// Another program may have ended it, and use the device.
    fn is_ours(&self) -> bool {
        self.device.is_of(&self.identity)
    }

    /// Ends it. With `force` also if it is mounted; what waits in the kernel is lost then.
    ///
    /// # Errors
    /// [`Error::KernelDeviceInUse`], and what the kernel says. Then it stays.
    pub fn detach(&self, force: bool) -> Result<()> {
        if self.is_ours() && force {
            self.device.end(&self.identity)?;
        } else if self.is_ours() {
            let claimed = self.device.claim()?;
            // What the kernel keeps of the device.
            rustix::fs::fsync(&claimed).map_err(|errno| self.device.explain(errno.into()))?;
            self.device.end(&self.identity)?;
        }
        self.export.close(true)
    }

    /// Cuts the connection to a device that will be left: the kernel keeps the requests that are not answered.
    pub fn cut(&self) {
        self.export.cut();
    }

    /// Ends the connection and leaves the device to the next process: its requests wait. What was written is durable.
    ///
    /// # Errors
    /// If what was written may not be durable. Nobody must take the device up then.
    pub fn leave(&self) -> Result<()> {
        self.export.close(true)?;
        Ok(self.export.device().flush()?)
    }
}

fn driver() -> Result<NbdDriver> {
    match NbdDriver::find() {
        Ok(Some(driver)) => Ok(driver),
        Ok(None) => Err(Error::NoKernelModule),
        Err(error) => Err(Error::Kernel(error)),
    }
}

fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

/// Has a thread serve the connection to the kernel. If the connection is lost, the thread ends the device, of which it is
/// told: requests would wait for ever.
fn serve(
    export: &Arc<Export>,
    own: OwnedFd,
    size: u64,
    told: Receiver<(KernelDevice, String)>,
) -> Result<()> {
    let link: Arc<dyn PeerLink> = Arc::new(PeerSocket::new(own, std::time::Duration::ZERO));
    link.take_time();
    let attached = export.attach(&link).ok_or_else(|| Error::NoSuchExport {
        name: export.name().into(),
    })?;
    let session = NegotiatedSession {
        attached,
        size,
        structured: false,
        allocation: false,
        reads_whole: true,
        // The device of the kernel ends with this process, and its users get errors.
        settles: false,
        client: String::new(),
        // The kernel is trusted, and no client has to wait for it.
        memory: TransferPool::new(usize::MAX).share(None),
        reserved: None,
    };
    let name = export.name().to_owned();
    threads::need_flushers();
    let serve = move || {
        // Helpers are started by this thread.
        if let Err(error) = threads::be_flusher() {
            tracing::warn!(
                export = name,
                %error,
                "while memory is short, the kernel may wait for this process without an end: it may not set PR_SET_IO_FLUSHER \
                 (CAP_SYS_RESOURCE)"
            );
        }
        let helpers = HelperBudget::new(HELPERS_MAX);
        let connection = ExportConnection::new(link, session, ReceiveBuffer::new(), &helpers);
        let served = catch_unwind(AssertUnwindSafe(|| connection.serve()));
        let served = served.unwrap_or(Err(CloseCause::Protocol(
            "a request made this program fail",
        )));
        if let Err(reason) = served {
            tracing::warn!(export = name, %reason, "the kernel has lost its connection");
        }
        // One that was closed is ended, or left to the next process, by the thread that closed it. Until the connection is
        // dropped that thread waits, so that nothing is attached meanwhile.
        if connection.session.attached.export().is_closed() {
            return;
        }
        let ended = told.recv().map(|(device, identity)| device.end(&identity));
        if let Ok(Err(error)) = ended {
            tracing::error!(export = name, %error, "the kernel's device could not be ended");
        }
    };
    threads::start("nbd", serve)
        .map(drop)
        .map_err(Error::Thread)
}

#[cfg(test)]
mod tests {
    use std::io::{IoSlice, Read, Write};

    use block::{BlockDevice, SectorSizes};

    use super::*;
    use crate::wire::proto::{Kind, Request, errno};

    /// A device whose second half cannot be read.
    struct Damaged;

    impl BlockDevice for Damaged {
        block::plain_device!();

        fn size(&self) -> u64 {
            1 << 20
        }

        fn sector_sizes(&self) -> SectorSizes {
            SectorSizes::COMMON
        }

        fn name(&self) -> String {
            "damaged".into()
        }

        fn read_at(&self, offset: u64, buf: &mut [u8]) -> block::Result<()> {
            match offset + buf.len() as u64 > 512 << 10 {
                true => Err(block::Error::Io {
                    device: self.name(),
                    operation: "read",
                    offset,
                    len: buf.len() as u64,
                    source: io::ErrorKind::InvalidData.into(),
                }),
                false => Ok(()),
            }
        }

        fn write_at(&self, _: u64, _: &[IoSlice<'_>]) -> block::Result<()> {
            Ok(())
        }

        fn flush(&self) -> block::Result<()> {
            Ok(())
        }

        fn discard(&self, _: u64, _: u64) -> block::Result<()> {
            Ok(())
        }
    }

    /// The kernel has no chunks: what cannot be read has to be known before the answer begins.
    #[test]
    fn a_damaged_record_fails_a_request_and_not_the_connection() {
        let export = Arc::new(Export::new("a", "", Arc::new(Damaged), false).unwrap());
        let (own, mut kernel) = UnixStream::pair().unwrap();
        let (_tell, told) = channel();
        serve(&export, own.into(), 1 << 20, told).unwrap();
        for (len, error) in [(1 << 20, errno::IO), (512 << 10, 0)] {
            let request = Request {
                flags: 0,
                kind: Kind::Read,
                cookie: 7,
                offset: 0,
                len,
            };
            kernel.write_all(&request.encode()).unwrap();
            let mut head = [0; 16];
            kernel.read_exact(&mut head).unwrap();
            assert_eq!(head[4..8], error.to_be_bytes());
            let data = if error == 0 { len as usize } else { 0 };
            kernel.read_exact(&mut vec![0; data]).unwrap();
        }
        export.close(true).unwrap();
    }

    #[test]
    fn a_device_of_the_kernel_has_one_name() {
        assert_eq!(KernelDevice::parse("/dev/nbd12"), Some(KernelDevice(12)));
        for wrong in [
            "/dev/nbd",
            "/dev/nbd01",
            "/dev/nbd+1",
            "/dev/nbd0p1",
            "/dev/sda",
            "nbd0",
        ] {
            assert_eq!(KernelDevice::parse(wrong), None, "{wrong}");
        }
    }
}
