//! Re-encryption of an open container, on the connection of its command. It pauses when the command requests it, when
//! the connection closes, or when the mapping has to close.

use std::sync::Arc;
use std::time::{Duration, Instant};

use block::{BlockDevice, FileDevice};
use cipher::SystemRandom;
use luks::{Container, Mapping, ReencryptionEnd, ReencryptionPace, ReencryptionProgress};
use protocol::api::{DaemonAnswer, FailureKind, MappingReencryption, command};
use protocol::wire;
use rustix::process::{getpriority_process, setpriority_process};
use secret::Secret;

use crate::failure::{Failure, Result};
use crate::ops::mappings::key::{counted, passphrase_of};
use crate::state::callers::channel::{Channel, Dialogue};
use crate::state::daemon::Daemon;
use crate::state::devices::leases::Lease;
use crate::state::devices::mapping_table::{MappingPart, OpenMapping, ReencryptionWorker};
use crate::state::devices::reencryption_guard::ReencryptionGuard;

/// The time to wait for another program that has the file of the header locked, or a command that changes the header.
const PATIENCE: Duration = Duration::from_secs(10);

/// The time between two tries meanwhile.
const STEP: Duration = Duration::from_millis(20);

/// The longest answer of a command, in bytes.
const ANSWER_MAX: u32 = 64;

/// The priority at which the work gives way to requests, if both want a processor (nice(2)).
const NICENESS: i32 = 10;

/// While this exists, its thread gives way to others. A daemon that may not take that back keeps it until the connection
/// of the command closes.
struct GivesWay {
    before: i32,
}

impl GivesWay {
    fn begin() -> Option<GivesWay> {
        let before = getpriority_process(None).ok()?;
        setpriority_process(None, before + NICENESS).ok()?;
        Some(GivesWay { before })
    }
}

impl Drop for GivesWay {
    fn drop(&mut self) {
        let _ = setpriority_process(None, self.before);
    }
}

/// A container that is being re-encrypted.
struct ContainerReencryption {
    name: String,
    mapping: Arc<Mapping>,
    header: Arc<dyn BlockDevice>,
    file: Option<Arc<FileDevice>>,
    /// Keeps other programs from the re-encryption. It stays afterwards if that is not complete.
    guard: Option<ReencryptionGuard>,
    is_under_way: bool,
    /// Keeps other commands from changing the header meanwhile.
    _lease: Lease<MappingPart>,
    /// Must be the last field: when it is dropped, this holds neither the mapping nor its file.
    worker: Ending,
}

impl ContainerReencryption {
    /// Opens the container, and guards its re-encryption. Other programs read its header meanwhile if this user can reach
    /// the locks of cryptsetup. Else the file stays locked.
    fn open(&mut self) -> Result<Container> {
        // The lock of a file that is shared ends with this.
        let guard = self.guard.take().filter(ReencryptionGuard::is_named);
        let locked = { self.file.as_ref() }.map(|file| file.lock(PATIENCE));
        let locked = match locked.transpose() {
            Ok(locked) => locked,
            Err(error) => {
                let shared = self.file.as_ref().and_then(|file| file.share(STEP).ok());
                self.guard = guard.or(shared.map(ReencryptionGuard::File));
                return Err(error.into());
            }
        };
        let mut container = Container::open(Arc::clone(&self.header), &SystemRandom)?;
        let guard = match guard {
            None => ReencryptionGuard::named(container.uuid())?,
            guard => guard,
        };
        let is_named = guard.is_some();
        self.guard = guard.or(locked.map(ReencryptionGuard::File));
        if let (true, Some(file)) = (is_named, &self.file) {
            container.let_others_read(Arc::clone(file));
        }
        Ok(container)
    }
}

/// A worker that ends when this is dropped.
struct Ending(Arc<ReencryptionWorker>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Limits the speed of the re-encryption.
struct Pacer {
    begun: Instant,
    first: Option<u64>,
}

impl Pacer {
    fn new() -> Pacer {
        Pacer {
            begun: Instant::now(),
            first: None,
        }
    }

    fn row(
        &mut self,
        ReencryptionProgress { done, total }: ReencryptionProgress,
        running: bool,
    ) -> MappingReencryption {
        let first = *self.first.get_or_insert(done);
        let time = self.begun.elapsed().as_secs_f64();
        let speed =
            (running && done > first).then(|| ((done - first) as f64 / time.max(1e-3)) as u64);
        MappingReencryption {
            done,
            total,
            running,
            speed,
            seconds_left: speed.map(|speed| (total - done) / speed.max(1)),
        }
    }
}

impl Daemon {
    /// Continues the re-encryption of an open container until it is complete or a command pauses it.
    pub(crate) fn reencrypt_mapping(
        &self,
        what: &command::LuksReencrypt,
        channel: &mut dyn Channel,
    ) -> Result<()> {
        let data = channel.data()?;
        let device = self
            .mappings
            .with_open(&what.name, |open| Ok(open.device.clone()))?;
        let given = passphrase_of(&device, what.with_key_file, channel)?;
        let _running = self.transfers.begin(&data)?;
        let mut work = self.begin_work(&what.name)?;
        let pace = ReencryptionPace {
            zone: what.zone,
            device_size: None,
        };
        let ended = self.work(&mut work, (&device, &given), pace, &mut *data.dialogue());
        let is_to_pause = work.worker.0.is_to_pause();
        self.end_work(work);
        match ended? {
            ReencryptionEnd::Paused(_) if is_to_pause => Err(Failure::new(
                FailureKind::Busy,
                format!(
                    "the re-encryption is paused, because the mapping '{}' is being closed",
                    what.name
                ),
            )),
            _ => Ok(()),
        }
    }

    fn work(
        &self,
        work: &mut ContainerReencryption,
        (device, given): (&str, &Secret),
        pace: ReencryptionPace,
        caller: &mut dyn Dialogue,
    ) -> Result<ReencryptionEnd> {
        // Assumed until the header is read.
        work.is_under_way = true;
        let mut container = work.open()?;
        work.is_under_way = container.is_in_reencryption();
        if !work.is_under_way {
            return Err(Failure::new(
                FailureKind::NotFound,
                format!("the container of '{}' is not being re-encrypted", work.name),
            ));
        }
        container.check_writable()?;
        let keys = counted(self, device, container.unlock_both(given))?;
        let mut pacer = Pacer::new();
        let mut go_on = |progress: ReencryptionProgress| {
            let row = pacer.row(progress, true);
            self.show_work(&work.name, Some(row));
            !work.worker.0.is_to_pause() && wants_more(caller, row)
        };
        let mapping = &work.mapping;
        let gives_way = GivesWay::begin();
        let ended = mapping.reencrypt(&mut container, &keys, pace, &SystemRandom, &mut go_on);
        drop(gives_way);
        work.is_under_way = container.is_in_reencryption();
        let progress = container.reencryption_progress(&**mapping.device());
        let row = progress.ok().map(|at| Pacer::new().row(at, false));
        self.show_work(&work.name, row.filter(|_| work.is_under_way));
        if !work.is_under_way {
            self.mappings.with_open(&work.name, |open| {
                open.slot = Some(keys.slot);
                open.key_bits = keys.key_len() * 8;
                Ok(())
            })?;
        }
        Ok(ended?)
    }

    /// Takes the header for a re-encryption, when no other command changes it.
    fn begin_work(&self, name: &str) -> Result<ContainerReencryption> {
        let begun = Instant::now();
        loop {
            let found = self
                .mappings
                .with_open(name, |open| self.begin_work_now(name, open))?;
            match found {
                Some(work) => return Ok(work),
                None if begun.elapsed() < PATIENCE => std::thread::sleep(STEP),
                None => {
                    return Err(Failure::new(
                        FailureKind::Busy,
                        format!("another command changes the header of the mapping '{name}'"),
                    ));
                }
            }
        }
    }

    fn begin_work_now(
        &self,
        name: &str,
        open: &mut OpenMapping,
    ) -> Result<Option<ContainerReencryption>> {
        let (Some((header, _)), "LUKS2") = (&open.on, open.kind) else {
            return Err(Failure::usage(format!(
                "the mapping '{name}' is not one of a LUKS2 container, which has two keys at a time"
            )));
        };
        Daemon::check_not_suspended(name, &open.mapping)?;
        let (leases, used) = (&self.mappings.leases, MappingPart::Header(name.into()));
        if open.worker.as_ref().is_some_and(|worker| !worker.is_over()) {
            return Err(Failure::new(
                FailureKind::Busy,
                format!("the mapping '{name}' is being re-encrypted by another command"),
            ));
        }
        if !leases.users(&used).is_empty() {
            return Ok(None);
        }
        let worker = Arc::new(ReencryptionWorker::default());
        open.worker = Some(Arc::clone(&worker));
        let guard = open.guard.take();
        Ok(Some(ContainerReencryption {
            name: name.into(),
            mapping: Arc::clone(&open.mapping),
            header: Arc::clone(header),
            file: open.file.clone(),
            is_under_way: guard.is_some(),
            guard,
            _lease: leases.take(used, "its re-encryption"),
            worker: Ending(worker),
        }))
    }

    fn show_work(&self, name: &str, row: Option<MappingReencryption>) {
        let _ = self.mappings.with_open(name, |open| {
            open.reencryption = row;
            Ok(())
        });
    }

    /// Ends or pauses the re-encryption. While it is paused, the guard keeps other programs from continuing it.
    fn end_work(&self, mut work: ContainerReencryption) {
        let guard = work.guard.take().filter(|_| work.is_under_way);
        let guard = guard.and_then(|guard| guard.at_rest(work.file.as_ref()));
        let _ = self.mappings.with_open(&work.name, |open| {
            open.guard = guard;
            Ok(())
        });
    }

    /// Pauses the re-encryption of a mapping, and waits until it is paused.
    ///
    /// # Errors
    /// [`FailureKind::Busy`] if it does not pause.
    pub(crate) fn pause_reencryption(&self, name: &str) -> Result<()> {
        let worker = self
            .mappings
            .with_open(name, |open| Ok(open.worker.clone()))
            .ok();
        match worker.flatten().is_none_or(|worker| worker.pause()) {
            true => Ok(()),
            false => Err(Failure::new(
                FailureKind::Busy,
                format!(
                    "the mapping '{name}' is being re-encrypted, and that does not pause: end that command"
                ),
            )),
        }
    }
}

/// Reports the progress to the command, and asks whether to continue. A command that is gone means no.
fn wants_more(mut caller: &mut dyn Dialogue, row: MappingReencryption) -> bool {
    let told = wire::send(&mut caller, &DaemonAnswer::Progress(row));
    let answer = told.and_then(|()| wire::receive_up_to::<bool>(&mut caller, ANSWER_MAX));
    answer.unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_thread_that_works_gives_way() {
        let now = || getpriority_process(None).unwrap();
        let before = now();
        let work = std::thread::spawn(move || {
            let gives_way = GivesWay::begin();
            assert_eq!(now(), (before + NICENESS).min(19));
            drop(gives_way);
            now()
        });
        let after = work.join().unwrap();
        assert!(after == before || !rustix::process::geteuid().is_root());
        assert_eq!(now(), before);
    }
}
