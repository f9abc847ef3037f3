//! Persistent reservations of SCSI disks, by the kernel (`linux/pr.h`, `scsi/sg.h`).

// The standard library and rustix have no such requests.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use super::registrar::{Registrar, RegistrarAnswer, Registrations};

const WRITE_EXCLUSIVE_REGISTRANTS_ONLY: u32 = 3;
const IGNORE_KEY: u32 = 1;

/// The tries of a request that the disk refuses for a temporary reason, for example after a reset.
const TRIES: u32 = 5;

const SG_IO: libc::c_ulong = 0x2285;
const PERSISTENT_RESERVE_IN: u8 = 0x5e;
const READ_KEYS: u8 = 0;
const READ_RESERVATION: u8 = 1;
/// The longest list that is read, in bytes.
const LIST: u16 = 8192;

#[repr(C)]
struct KernelRegistration {
    old_key: u64,
    new_key: u64,
    flags: u32,
    pad: u32,
}

#[repr(C)]
struct KernelReservation {
    key: u64,
    kind: u32,
    flags: u32,
}

/// The kernel calls the two keys old and new. These are their meanings for SCSI disks.
#[repr(C)]
struct Preemption {
    own_key: u64,
    key_that_ends: u64,
    kind: u32,
    flags: u32,
}

const _: () =
    assert!(size_of::<KernelRegistration>() == 24 && size_of::<KernelReservation>() == 16);
const _: () = assert!(size_of::<Preemption>() == 24);

/// `sg_io_hdr`
#[repr(C)]
struct SgRequest {
    interface: i32,
    direction: i32,
    command_len: u8,
    sense_len_max: u8,
    pieces: u16,
    data_len: u32,
    data: *mut c_void,
    command: *mut u8,
    sense: *mut u8,
    timeout_millis: u32,
    flags: u32,
    id: i32,
    user: *mut c_void,
    status: u8,
    masked_status: u8,
    message_status: u8,
    sense_len: u8,
    host_status: u16,
    driver_status: u16,
    left: i32,
    duration: u32,
    info: u32,
}

#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<SgRequest>() == 88);

/// `_IOW('p', number, T)`
const fn request<T>(number: libc::c_ulong) -> libc::c_ulong {
    1 << 30 | (size_of::<T>() as libc::c_ulong) << 16 | (b'p' as libc::c_ulong) << 8 | number
}

/// A disk of the kernel.
pub(crate) struct Disk(pub(crate) File);

impl Disk {
    /// Makes a request of `linux/pr.h`.
    fn ask<T>(&self, number: libc::c_ulong, argument: &T) -> io::Result<RegistrarAnswer> {
        let mut last = 0;
        for _ in 0..TRIES {
            // SAFETY: the descriptor is open, and the kernel reads one `T`, which the number of the request stands for.
            last = unsafe {
                libc::ioctl(
                    self.0.as_raw_fd(),
                    request::<T>(number) as _,
                    &raw const *argument,
                )
            };
            if last < 0 {
                let error = io::Error::last_os_error();
                return match error.raw_os_error() {
                    Some(libc::EBADE) => Ok(RegistrarAnswer::Conflict),
                    Some(libc::EOPNOTSUPP | libc::ENOTTY) => Err(io::Error::new(
                        io::ErrorKind::Unsupported,
                        "it has no persistent reservations",
                    )),
                    _ => Err(error),
                };
            }
            match answer(last) {
                Some(answer) => return Ok(answer),
                None => continue,
            }
        }
        Err(io::Error::other(format!(
            "it refuses persistent reservations (status {last:#x})"
        )))
    }

    /// PERSISTENT RESERVE IN of a SCSI disk.
    fn read(&self, action: u8) -> io::Result<Vec<u8>> {
        let mut data = vec![0; LIST.into()];
        let [high, low] = LIST.to_be_bytes();
        let mut command = [PERSISTENT_RESERVE_IN, action, 0, 0, 0, 0, 0, high, low, 0];
        let mut sense = [0; 32];
        for _ in 0..TRIES {
            let mut request = SgRequest {
                interface: i32::from(b'S'),
                direction: -3,
                command_len: command.len() as u8,
                sense_len_max: sense.len() as u8,
                pieces: 0,
                data_len: LIST.into(),
                data: data.as_mut_ptr().cast(),
                command: command.as_mut_ptr(),
                sense: sense.as_mut_ptr(),
                timeout_millis: 10_000,
                flags: 0,
                id: 0,
                user: std::ptr::null_mut(),
                status: 0,
                masked_status: 0,
                message_status: 0,
                sense_len: 0,
                host_status: 0,
                driver_status: 0,
                left: 0,
                duration: 0,
                info: 0,
            };
            // SAFETY: the descriptor is open. The pointers of the request are of buffers with the lengths that it says,
            // which live as long as the call.
            if unsafe { libc::ioctl(self.0.as_raw_fd(), SG_IO as _, &raw mut request) } < 0 {
                return Err(not_read(io::Error::last_os_error()));
            }
            if (request.status, request.host_status, request.driver_status) == (0, 0, 0) {
                return Ok(data);
            }
        }
        Err(io::Error::other(
            "its reservation cannot be read (PERSISTENT RESERVE IN failed)",
        ))
    }
}

impl Registrar for Disk {
    fn register(&self, old: Option<u64>, new: u64) -> io::Result<RegistrarAnswer> {
        let registration = KernelRegistration {
            old_key: old.unwrap_or(0),
            new_key: new,
            flags: if old.is_none() { IGNORE_KEY } else { 0 },
            pad: 0,
        };
        self.ask(200, &registration)
    }

    fn reserve(&self, own: u64) -> io::Result<RegistrarAnswer> {
        let reservation = KernelReservation {
            key: own,
            kind: WRITE_EXCLUSIVE_REGISTRANTS_ONLY,
            flags: 0,
        };
        self.ask(201, &reservation)
    }

    fn preempt(&self, own: u64, other: u64) -> io::Result<RegistrarAnswer> {
        let preemption = Preemption {
            own_key: own,
            key_that_ends: other,
            kind: WRITE_EXCLUSIVE_REGISTRANTS_ONLY,
            flags: 0,
        };
        self.ask(204, &preemption)
    }

    fn registered(&self) -> io::Result<Registrations> {
        Ok(Registrations {
            keys: keys_in(&self.read(READ_KEYS)?),
            holder: keys_in(&self.read(READ_RESERVATION)?).first().copied(),
        })
    }
}

/// The error for a PERSISTENT RESERVE IN that the kernel did not pass to the disk.
fn not_read(error: io::Error) -> io::Error {
    let (kind, reason) = match error.raw_os_error() {
        // The registrations of an NVMe disk cannot be read this way, and the kernel has no request that ends one.
        Some(libc::ENOTTY | libc::EOPNOTSUPP | libc::EINVAL) => (
            io::ErrorKind::Unsupported,
            "it is not a SCSI disk, and reservations of other disks (also NVMe) are not supported yet",
        ),
        Some(libc::EPERM | libc::EACCES) => (
            io::ErrorKind::PermissionDenied,
            "its reservation cannot be read: the daemon needs CAP_SYS_RAWIO for that",
        ),
        _ => return error,
    };
    io::Error::new(kind, reason)
}

/// The answer for a status from the kernel. A conflict is RESERVATION CONFLICT of SCSI.
fn answer(status: i32) -> Option<RegistrarAnswer> {
    match status & 0xff {
        _ if status == 0 => Some(RegistrarAnswer::Done),
        0x18 => Some(RegistrarAnswer::Conflict),
        _ => None,
    }
}

/// The keys after the header of a list. The list of a reservation has one key, and other fields after it.
fn keys_in(list: &[u8]) -> Vec<u64> {
    let (words, _) = list.as_chunks::<8>();
    let Some((head, rest)) = words.split_first() else {
        return Vec::new();
    };
    let [_, _, _, _, a, b, c, d] = *head;
    let len = u32::from_be_bytes([a, b, c, d]) as usize / 8;
    let keys = rest.iter().take(len);
    keys.map(|key| u64::from_be_bytes(*key)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_the_numbers_of_the_kernel() {
        assert_eq!(request::<KernelRegistration>(200), 0x4018_70c8);
        assert_eq!(request::<KernelReservation>(201), 0x4010_70c9);
        assert_eq!(request::<Preemption>(204), 0x4018_70cc);
    }

    #[test]
    fn a_status_is_a_conflict_or_nothing_known() {
        assert_eq!(answer(0), Some(RegistrarAnswer::Done));
        for conflict in [0x18, 0x11_0018] {
            assert_eq!(answer(conflict), Some(RegistrarAnswer::Conflict));
        }
        for other in [2, 0x0800_0002, 0x000e_0000] {
            assert_eq!(answer(other), None);
        }
    }

    #[test]
    fn lists_of_keys_end_where_they_say() {
        let list = [
            &[0, 0, 0, 9, 0, 0, 0, 16][..],
            &7_u64.to_be_bytes(),
            &8_u64.to_be_bytes(),
            &9_u64.to_be_bytes(),
        ];
        assert_eq!(keys_in(&list.concat()), [7, 8]);
        assert_eq!(keys_in(&list[..2].concat()), [7]);
        assert_eq!(keys_in(&[0; 8]), [0; 0]);
        assert_eq!(keys_in(&[]), [0; 0]);
    }

    #[test]
    fn a_disk_that_cannot_be_asked_is_an_error_with_the_reason() {
        let disk = Disk(tempfile::tempfile().unwrap());
        let error = disk.register(Some(0), 1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
        let error = disk.registered().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
        assert!(error.to_string().contains("NVMe"), "{error}");
        let error = not_read(io::Error::from_raw_os_error(libc::EPERM));
        assert!(error.to_string().contains("CAP_SYS_RAWIO"), "{error}");
        let error = not_read(io::Error::from_raw_os_error(libc::EIO));
        assert_eq!(error.raw_os_error(), Some(libc::EIO));
    }
}
