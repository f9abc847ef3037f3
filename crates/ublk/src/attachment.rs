//! A device that this process serves.

use std::sync::Arc;
use std::time::{Duration, Instant};

use block::{BlockDevice, SectorSizes};
use rustix::io::Errno;

use crate::control::{UblkDriver, is};
use crate::device::UblkDevice;
use crate::serve::execute::RequestExecutor;
use crate::serve::helpers::QueueOrder;
use crate::serve::queue_set::QueueSet;
use crate::wire::abi::{
    ANY_DEVICE, BasicParameters, DiscardParameters, SECTOR, UblkInfo, UblkParameters, attribute,
    feature, parameter,
};
use crate::{Error, Result};

/// The kernel has no larger logical sectors.
const SECTOR_MAX: u32 = 4096;
/// A device has no more queues.
const QUEUES_MAX: usize = 16;
/// The queues of a device have so many requests together, or 16 each. Their buffers take 64 MiB at most.
const REQUESTS_MAX: usize = 256;
/// The most requests of a queue.
const DEPTH_MAX: usize = 128;
/// The most bytes of a request.
const REQUEST_LEN: u32 = 256 << 10;
/// The most bytes of a request without data.
const RANGE_LEN: u64 = 1 << 30;
/// The kernel needs a moment to notice that a process is gone.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(10);

/// The choices for a new device.
#[derive(Clone, Copy, Debug)]
pub struct UblkOptions {
    /// The number of the device; a free one if absent.
    pub number: Option<u32>,
    /// The number that tells the device from those of others.
    pub identity: u64,
    /// True if programs cannot change it.
    pub is_read_only: bool,
}

/// A device of the kernel that this process serves. Nothing ends when it is dropped.
pub struct UblkAttachment {
    kernel: UblkDevice,
    identity: u64,
    queues: QueueSet,
}

impl UblkAttachment {
    /// Makes a device one of the kernel.
    ///
    /// # Errors
    /// [`Error::NoDriver`], [`Error::NotPermitted`], [`Error::Exists`], and others.
    pub fn new(device: Arc<dyn BlockDevice>, options: UblkOptions) -> Result<UblkAttachment> {
        let driver = UblkDriver::open()?;
        let mut parameters = parameters(&*device, options.is_read_only)?;
        let mut info = new_info(options);
        let kernel = options.number.map(UblkDevice);
        driver.add(&mut info).map_err(|error| match kernel {
            Some(kernel) => kernel.explain(error),
            None if is(&error, Errno::PERM) => Error::NotPermitted,
            None => Error::Driver(error),
        })?;
        let kernel = UblkDevice(info.device);
        let set = driver.set_parameters(kernel.0, &mut parameters);
        let made = { set.map_err(|error| kernel.explain(error)) }
            .and_then(|()| serve(kernel, &info, device, options.is_read_only))
            .and_then(|queues| {
                let started = driver.start(kernel.0);
                started.map_err(|error| end_queues(&queues, kernel.explain(error)))?;
                Ok(queues)
            });
        match made {
            Ok(queues) => Ok(UblkAttachment {
                kernel,
                identity: options.identity,
                queues,
            }),
            Err(error) => {
                kernel.end(options.identity)?;
                Err(error)
            }
        }
    }

    /// Takes up a device that has lost its process: its requests have waited, and are carried out now.
    ///
    /// # Errors
    /// As of [`UblkAttachment::new`]; and [`Error::OtherSize`]. Then the device waits still.
    pub fn take_up(
        device: Arc<dyn BlockDevice>,
        kernel: UblkDevice,
        options: UblkOptions,
    ) -> Result<UblkAttachment> {
        let driver = UblkDriver::open()?;
        let explain = |error| kernel.explain(error);
        let left = driver.parameters(kernel.0).map_err(explain)?;
        let (size, now) = (left.basic.sectors * SECTOR, device.refresh_size()?);
        if now < size {
            return Err(Error::OtherSize {
                device: kernel.path().display().to_string(),
                size,
                source_name: device.name(),
                now,
            });
        }
        let begin = Instant::now();
        loop {
            match driver.start_recovery(kernel.0) {
                Err(error) if is(&error, Errno::BUSY) && begin.elapsed() < PATIENCE => {
                    std::thread::sleep(PAUSE);
                }
                started => break started.map_err(explain)?,
            }
        }
        let info = driver.info(kernel.0).map_err(explain)?;
        let queues = serve(kernel, &info, device, options.is_read_only)?;
        let ended = driver.end_recovery(kernel.0);
        ended.map_err(|error| end_queues(&queues, explain(error)))?;
        Ok(UblkAttachment {
            kernel,
            identity: options.identity,
            queues,
        })
    }

    /// The device of the kernel.
    pub fn kernel(&self) -> UblkDevice {
        self.kernel
    }

    /// The device that is served.
    pub fn device(&self) -> &Arc<dyn BlockDevice> {
        self.queues.device()
    }

    /// Returns whether the kernel can use the device.
    pub fn is_served(&self) -> bool {
        self.queues.is_running()
    }

    /// Checks that the device is not in use: see [`UblkDevice::may_end`].
    ///
    /// # Errors
    /// [`Error::InUse`]
    pub fn may_detach(&self) -> Result<()> {
        match self.is_ours() {
            true => self.kernel.may_end(),
            false => Ok(()),
        }
    }

    /// Another program may have ended it, and use its number.
    fn is_ours(&self) -> bool {
        self.kernel.is_of(self.identity)
    }

    /// Ends it. With `force` also if it is mounted; what waits in the kernel is lost then.
    ///
    /// # Errors
    /// [`Error::InUse`], and what the kernel says. Then it stays.
    pub fn detach(&self, force: bool) -> Result<()> {
        if self.is_ours() && force {
            self.kernel.end(self.identity)?;
        } else if self.is_ours() {
            let claimed = self.kernel.claim()?;
            // What the kernel keeps of the device.
            rustix::fs::fsync(&claimed).map_err(|errno| self.kernel.explain(errno.into()))?;
            self.kernel.end(self.identity)?;
        }
        self.queues.give(QueueOrder::Leave);
        self.wait()
    }

    /// Stops to answer. The kernel keeps the requests that are not answered.
    pub fn cut(&self) {
        self.queues.give(QueueOrder::Cut);
    }

    /// Leaves the device to the next process: its requests wait. What was written is durable.
    ///
    /// # Errors
    /// If what was written may not be durable. Nobody must take the device up then.
    pub fn leave(&self) -> Result<()> {
        self.queues.give(QueueOrder::Leave);
        self.wait()?;
        Ok(self.device().flush()?)
    }

    /// Tells the kernel of the size that the device has now. False if the kernel cannot change the size of a device.
    ///
    /// # Errors
    /// The failure of the device or of the kernel.
    pub fn follow_size(&self) -> Result<bool> {
        let sectors = self.device().refresh_size()? / SECTOR;
        match UblkDriver::open()?.update_size(self.kernel.0, sectors) {
            Err(error) if is(&error, Errno::OPNOTSUPP) => Ok(false),
            updated => updated
                .map(|()| true)
                .map_err(|error| self.kernel.explain(error)),
        }
    }

    fn wait(&self) -> Result<()> {
        match self.queues.wait() {
            true => Ok(()),
            false => Err(Error::Busy {
                device: self.kernel.path().display().to_string(),
            }),
        }
    }
}

/// Ends the threads of a device that could not be started.
fn end_queues(queues: &QueueSet, error: Error) -> Error {
    queues.give(QueueOrder::Cut);
    error
}

/// Serves the queues of a device.
fn serve(
    kernel: UblkDevice,
    info: &UblkInfo,
    device: Arc<dyn BlockDevice>,
    is_read_only: bool,
) -> Result<QueueSet> {
    let file = kernel.serving_file()?;
    let identity = info.identity;
    let on_loss = move |error| {
        let device = kernel.path().display().to_string();
        tracing::error!(device, %error, "a queue is lost; the device is ended");
        let end = move || {
            if let Err(error) = kernel.end(identity) {
                tracing::error!(device, %error, "the device could not be ended");
            }
        };
        // The thread of the queue has to end first, because the kernel waits for it.
        drop(threads::start("ublk-end", end));
    };
    threads::need_flushers();
    let executor = RequestExecutor::new(device, is_read_only);
    QueueSet::start(info, file, executor, on_loss).map_err(Error::Thread)
}

/// The wish for a device.
fn new_info(options: UblkOptions) -> UblkInfo {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let queues = processors.min(QUEUES_MAX);
    let depth = (REQUESTS_MAX / queues).clamp(REQUESTS_MAX / QUEUES_MAX, DEPTH_MAX);
    UblkInfo {
        queues: queues as u16,
        depth: depth as u16,
        buffer_len: REQUEST_LEN,
        device: options.number.unwrap_or(ANY_DEVICE),
        process: rustix::process::getpid().as_raw_nonzero().get(),
        flags: feature::USER_RECOVERY | feature::USER_RECOVERY_REISSUE | feature::IOCTL_CODES,
        identity: options.identity,
        ..UblkInfo::default()
    }
}

/// The parameters of a new device.
fn parameters(device: &dyn BlockDevice, is_read_only: bool) -> Result<UblkParameters> {
    let size = device.refresh_size()?;
    let SectorSizes { logical, physical } = device.sector_sizes();
    let fits = logical.is_power_of_two()
        && (SECTOR as u32..=SECTOR_MAX).contains(&logical)
        && size.is_multiple_of(logical.into());
    if !fits {
        return Err(Error::Shape {
            device: device.name(),
            size,
            sector: logical,
        });
    }
    let physical = physical.max(logical).next_power_of_two();
    let shift = |size: u32| size.trailing_zeros() as u8;
    let attributes = match is_read_only {
        true => attribute::READ_ONLY,
        false => attribute::VOLATILE_CACHE | attribute::FUA,
    };
    let basic = BasicParameters {
        attributes,
        logical_shift: shift(logical),
        physical_shift: shift(physical),
        best_io_shift: shift(REQUEST_LEN),
        least_io_shift: shift(physical),
        sectors_max: REQUEST_LEN / SECTOR as u32,
        sectors: size / SECTOR,
        ..BasicParameters::default()
    };
    let range = (RANGE_LEN / SECTOR) as u32;
    let discard = DiscardParameters {
        granularity: physical,
        discard_sectors_max: range,
        zero_sectors_max: range,
        segments_max: 1,
        ..DiscardParameters::default()
    };
    Ok(UblkParameters {
        len: size_of::<UblkParameters>() as u32,
        kinds: match is_read_only {
            true => parameter::BASIC,
            false => parameter::BASIC | parameter::DISCARD,
        },
        basic,
        discard,
        ..UblkParameters::default()
    })
}
