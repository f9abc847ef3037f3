//! Open LUKS containers and plain mappings: devices in this process, by name.
//!
//! A mapping has exclusive use of its devices (the data, and a separate header) until it is closed. So no container is
//! open twice. The daemon forgets mappings when it ends, except those that it opens at its start (`mapping_start`).

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use block::{BlockDevice, DeviceAccess, FileLock};
use luks::{Container, Mapping, MappingMeter, RequestMeter};
use protocol::api::{DeviceUse, FailureKind, MappingRow, MappingTimes, command};
use protocol::device_name::DeviceName;

use crate::failure::{Failure, Result};
use crate::ops::devices::layers::Carrier;
use crate::ops::mappings::open::{open_luks, open_plain, paused, provider, serve_as};
use crate::state::callers::channel::Channel;
use crate::state::daemon::Daemon;
use crate::state::devices::device_name;
use crate::state::devices::mapping_table::{
    HeaderLoan, KnownMapping, LentMapping, MappingPart, OpenMapping, no_such_mapping,
};
use crate::state::devices::reencryption_guard::ReencryptionGuard;

/// The name in messages for the user of a mapping or a borrowed volume.
pub(crate) const USER: &str = "a command about LUKS";

/// The time that a command waits for another command that changes the same header.
const PATIENCE: Duration = Duration::from_secs(60);

/// The time between two tries meanwhile.
const STEP: Duration = Duration::from_millis(20);

/// The result of one try to borrow a header.
enum LoanAttempt {
    /// The loan, if an open container has the header.
    Lent(Option<HeaderLoan>),
    /// Another command changes it.
    Changing,
}

impl Daemon {
    /// Opens a container or a plain mapping.
    pub(crate) fn open_mapping(
        self: &Arc<Self>,
        new: &command::LuksOpen,
        channel: &mut dyn Channel,
    ) -> Result<()> {
        check_name(&new.name)?;
        self.mappings.check_known(new)?;
        self.add_mapping(new, channel)?;
        if let Err(failure) = self.mappings.remember(new) {
            drop(self.mappings.take(&new.name)?);
            self.mappings.remove(&new.name);
            return Err(failure);
        }
        self.import_above(&Carrier::Mapping(new.name.clone()));
        // Exports of this mapping may have waited for it, and other mappings.
        self.restore_offers();
        Ok(())
    }

    /// Opens a mapping whose name is valid, and adds it to the table of open ones.
    pub(super) fn add_mapping(
        &self,
        new: &command::LuksOpen,
        channel: &mut dyn Channel,
    ) -> Result<()> {
        self.mappings.reserve(&new.name)?;
        // Getting the key can take long. Other commands do not wait for that.
        let opened = match &new.plain {
            Some(plain) => open_plain(self, new, plain, channel),
            None => open_luks(self, new, channel),
        };
        match opened {
            Ok(open) => {
                self.mappings.insert(&new.name, Box::new(open));
                Ok(())
            }
            Err(failure) => {
                self.mappings.remove(&new.name);
                Err(failure)
            }
        }
    }

    /// Closes a mapping. Its writes are durable then, and its key is wiped. The next start does not open it.
    pub(crate) fn close_mapping(&self, name: &str) -> Result<()> {
        if self.mappings.forget_waiting(name)? {
            return Ok(());
        }
        self.close_after(name, || self.mappings.forget(name))
    }

    /// Closes a mapping when its writes are durable and `last` was done.
    pub(super) fn close_after(&self, name: &str, last: impl FnOnce() -> Result<()>) -> Result<()> {
        let used = MappingPart::Mapping(name.into());
        let leases = &self.mappings.leases;
        leases.may_go(&used, &format!("the mapping '{name}'"))?;
        self.pause_reencryption(name)?;
        let open = self.mappings.take(name)?;
        // If this fails, the mapping stays open, with the data that is not written yet.
        let closed = flush(&open.mapping)
            .map_err(Failure::from)
            .and_then(|()| last());
        if closed.is_err() {
            self.mappings.insert(name, open);
            return closed;
        }
        // Its name is in use until its devices are free.
        drop(open);
        self.mappings.remove(name);
        Ok(())
    }

    /// The device of an open mapping.
    pub(crate) fn mapping_device(&self, name: &str) -> Result<String> {
        self.mappings
            .with_open(name, |open| Ok(open.device.clone()))
    }

    /// Lends an open mapping to `user`. Commands about LUKS use it beside one other user.
    fn lend_mapping(&self, name: &str, user: &str) -> Result<LentMapping> {
        self.mappings.with_open(name, |open| {
            let used = MappingPart::Mapping(name.into());
            let mut others = self.mappings.leases.users(&used).into_iter();
            if let Some(other) = others.find(|other| other != USER && user != USER) {
                return Err(Failure::new(
                    FailureKind::Busy,
                    format!("the mapping '{name}' is in use, by {other}; end that first"),
                ));
            }
            Ok(LentMapping {
                name: DeviceName::Luks(name).to_string(),
                mapping: Arc::clone(&open.mapping),
                _lease: self.mappings.leases.take(used, user),
            })
        })
    }

    /// Opens a mapping as a device for `user`. The mapping cannot be closed while the device is open.
    pub(crate) fn open_mapped(
        &self,
        name: &str,
        access: DeviceAccess,
        user: &str,
    ) -> Result<LentMapping> {
        let mapping = self.lend_mapping(name, user)?;
        Daemon::check_not_suspended(name, &mapping.mapping)?;
        match mapping.mapping.flags().read_only && access != DeviceAccess::ReadOnly {
            true => Err(Failure::usage(format!(
                "the mapping '{name}' is open read-only; export it with --read-only"
            ))),
            false => Ok(mapping),
        }
    }

    /// Lends the header of the container that is open on this device; `None` if none is open. Commands that change
    /// the header wait for each other.
    ///
    /// # Errors
    /// [`FailureKind::Busy`] if another command changes the header for long, or `how` needs the device alone.
    pub(crate) fn header_loan(&self, device: &Path, how: DeviceUse) -> Result<Option<HeaderLoan>> {
        let begun = Instant::now();
        loop {
            match self.header_loan_now(device, how)? {
                LoanAttempt::Lent(loan) => return Ok(loan),
                LoanAttempt::Changing if begun.elapsed() < PATIENCE => std::thread::sleep(STEP),
                LoanAttempt::Changing => {
                    let device = device.display();
                    return Err(Failure::new(
                        FailureKind::Busy,
                        format!("another command changes the header on {device}; wait for it"),
                    ));
                }
            }
        }
    }

    fn header_loan_now(&self, device: &Path, how: DeviceUse) -> Result<LoanAttempt> {
        // The first mapping on the device counts: a loan of another one would hold it up.
        let loan = self.mappings.find_open(|name, open| {
            open.is_on(device)
                .then(|| self.loan_of_header(name, open, device, how))
        });
        loan.unwrap_or(Ok(LoanAttempt::Lent(None)))
    }

    /// Lends the header of this open mapping. The table of mappings is locked.
    fn loan_of_header(
        &self,
        name: &str,
        open: &OpenMapping,
        device: &Path,
        how: DeviceUse,
    ) -> Result<LoanAttempt> {
        let (Some((on, len)), false) = (&open.on, how == DeviceUse::Own) else {
            let device = device.display();
            return Err(Failure::new(
                FailureKind::Busy,
                format!(
                    "{device} is open as the mapping '{name}'; close that first: strongroom luks close {name}"
                ),
            ));
        };
        let changes = how != DeviceUse::Look;
        let leases = &self.mappings.leases;
        let (mapping, header) = (
            MappingPart::Mapping(name.into()),
            MappingPart::Header(name.into()),
        );
        if changes && !leases.users(&header).is_empty() {
            return Ok(LoanAttempt::Changing);
        }
        let used = std::iter::once(mapping).chain(changes.then_some(header));
        Ok(LoanAttempt::Lent(Some(HeaderLoan {
            device: Arc::clone(on),
            len: *len,
            file: { open.file.clone() }.filter(|_| changes && !open.has_locked_file()),
            _leases: used.map(|used| leases.take(used, USER)).collect(),
        })))
    }

    /// Reads the header of the container that is open on this device again, because a command may have changed it. The
    /// status of the mapping is updated. If the header says that a re-encryption is not complete, or cannot be read,
    /// a guard is kept: no other program may continue the re-encryption below the mapping.
    pub(crate) fn read_header_again(&self, device: &Path, locked: Option<FileLock>) {
        let on_device = self.mappings.find_open(|name, open| {
            let on = open.on.as_ref().filter(|_| open.is_on(device))?;
            Some((
                name.to_owned(),
                Arc::clone(&on.0),
                Arc::clone(&open.mapping),
            ))
        });
        let Some((name, on, mapping)) = on_device else {
            return;
        };
        let container = Container::look(on).ok();
        let is_in_reencryption = container.as_ref().is_none_or(Container::is_in_reencryption);
        let known = container.as_ref().filter(|_| is_in_reencryption);
        let progress = known.and_then(|of| paused(of, &**mapping.device()).ok());
        // The mapping may have been closed meanwhile.
        let _ = self.mappings.with_open(&name, |open| {
            if let Some(container) = &container {
                open.uuid = Some(container.uuid().into());
            }
            if is_in_reencryption {
                open.reencryption = progress.or(open.reencryption);
                if open.guard.is_none() {
                    let uuid = open.uuid.as_deref().unwrap_or_default();
                    let guard = ReencryptionGuard::take(uuid, open.file.as_ref(), locked);
                    open.guard = guard.unwrap_or_else(|failure| {
                        tracing::warn!(mapping = name, reason = failure.message, "no claim on it");
                        None
                    });
                }
            }
            Ok(())
        });
    }

    /// Changes how a mapping is served, while it is in use.
    pub(crate) fn change_mapping(&self, name: &str, changes: &command::LuksRefresh) -> Result<()> {
        let provider = provider(changes.provider.as_deref())?;
        let lent = self.lend_mapping(name, USER)?;
        // First what can fail.
        provider.map_or(Ok(()), |provider| lent.mapping.set_provider(provider))?;
        let mut flags = lent.mapping.flags();
        serve_as(&mut flags, &changes.change);
        lent.mapping.set_flags(flags);
        Ok(())
    }

    /// Gives a mapping this size, or the present size of its device.
    pub(crate) fn resize_mapping(&self, name: &str, size: Option<u64>) -> Result<()> {
        let lent = self.lend_mapping(name, USER)?;
        lent.mapping.resize(size)?;
        Ok(())
    }

    /// The rows for these mappings; for all if `names` is empty. Those that wait to be opened come last.
    pub(crate) fn mapping_rows(&self, names: &[String]) -> Result<Vec<MappingRow>> {
        let known = self.mappings.all_known();
        let leases = &self.mappings.leases;
        let users = |name: &str| leases.users(&MappingPart::Mapping(name.into())).len();
        let mut rows = self.mappings.map_open(|name, open| {
            Some(MappingRow {
                at_start: known.contains_key(name),
                ..row(name, open, users(name))
            })
        });
        let is_open = |name: &String| rows.iter().any(|row| row.name == *name);
        let closed: Vec<_> = known.iter().filter(|(name, _)| !is_open(name)).collect();
        let is_there = |name: &&String| is_open(name) || known.contains_key(*name);
        if let Some(missing) = names.iter().find(|name| !is_there(name)) {
            return Err(no_such_mapping(missing));
        }
        rows.extend(
            closed
                .into_iter()
                .map(|(name, known)| waiting_row(name, known)),
        );
        rows.retain(|row| names.is_empty() || names.contains(&row.name));
        Ok(rows)
    }

    /// The meter of each mapping, for metrics.
    pub(crate) fn mapping_meters(&self) -> Vec<(String, Arc<MappingMeter>)> {
        let meter = |open: &OpenMapping| Arc::clone(open.mapping.meter());
        self.mappings
            .map_open(|name, open| Some((name.to_owned(), meter(open))))
    }

    /// Makes the writes to all mappings durable, before the daemon ends.
    pub(crate) fn flush_mappings(&self) {
        let open = self
            .mappings
            .map_open(|name, open| Some((name.to_owned(), Arc::clone(&open.mapping))));
        for (name, mapping) in open {
            if let Err(failure) = self.pause_reencryption(&name) {
                tracing::warn!(
                    mapping = name,
                    reason = failure.message,
                    "the end does not wait"
                );
            }
            if let Err(error) = flush(&mapping) {
                tracing::error!(mapping = name, %error, "what was written may not be durable");
            }
        }
    }
}

impl OpenMapping {
    /// Returns whether the header or the data of the mapping is on this device.
    fn is_on(&self, device: &Path) -> bool {
        self.places()
            .any(|place| device_name::is_same(place, device))
    }
}

/// Makes the writes to a mapping durable.
fn flush(mapping: &Mapping) -> block::Result<()> {
    // A suspended mapping has nothing left to write.
    match mapping.flags().read_only || mapping.is_suspended() {
        true => Ok(()),
        false => mapping.flush(),
    }
}

fn row(name: &str, open: &OpenMapping, users: usize) -> MappingRow {
    let (mapping, flags) = (&open.mapping, open.mapping.flags());
    let meter = mapping.meter();
    MappingRow {
        name: name.into(),
        kind: open.kind.into(),
        device: open.device.clone(),
        header: open.header.clone(),
        uuid: open.uuid.clone(),
        slot: open.slot,
        cipher: mapping.cipher(),
        provider: mapping.provider().map(|provider| provider.name().into()),
        key_bits: open.key_bits,
        sector_size: mapping.sector_sizes().logical,
        offset: mapping.offset(),
        iv_offset: mapping.iv_offset(),
        size: mapping.size(),
        read_only: flags.read_only,
        allow_discards: flags.allow_discards,
        read_workqueue: flags.read_workqueue,
        write_workqueue: flags.write_workqueue,
        same_cpu: flags.same_cpu,
        sort_writes: flags.sort_writes,
        no_journal: flags.no_journal,
        recovery: flags.recovery,
        suspended: mapping.is_suspended(),
        reencryption: open.reencryption,
        users,
        at_start: false,
        waits: None,
        read_inline: times(&meter.read_inline),
        read_queued: times(&meter.read_queued),
        write_inline: times(&meter.write_inline),
        write_queued: times(&meter.write_queued),
    }
}

/// The row of a mapping that the daemon could not open.
fn waiting_row(name: &str, known: &KnownMapping) -> MappingRow {
    let open = &known.open;
    let waits = known.waits.as_ref();
    let reason = waits.map_or("it is being opened", |waits| &waits.reason);
    MappingRow {
        name: name.into(),
        device: open.device.display().to_string(),
        header: open.header.as_ref().map(|path| path.display().to_string()),
        read_only: open.read_only,
        at_start: true,
        waits: Some(reason.into()),
        ..MappingRow::default()
    }
}

fn times(served: &RequestMeter) -> MappingTimes {
    let totals = served.totals();
    let nanos = |share| {
        totals
            .times
            .percentile(share)
            .map(|time| time.as_nanos() as u64)
    };
    MappingTimes {
        count: totals.requests,
        bytes: totals.bytes,
        errors: totals.errors,
        p50_ns: nanos(0.5),
        p99_ns: nanos(0.99),
        p999_ns: nanos(0.999),
    }
}

fn check_name(name: &str) -> Result<()> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.+".contains(c);
    match name.len() {
        1..=127 if name.chars().all(plain) && name != "." && name != ".." => Ok(()),
        _ => Err(Failure::usage(format!(
            "'{name}' is not a valid name for a mapping; use letters, digits and -_.+"
        ))),
    }
}
