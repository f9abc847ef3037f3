//! Has reservations of a unit change, and initiators come and go.

use std::sync::Arc;

use super::cdb::{AboutReservations, ScsiCommand};
use super::reservation::{
    Action, KEPT_MAX, Nexus, Reservations, ReserveOutCommand, capabilities, full_status, keys,
    order, reservation,
};
use super::seat::NexusState;
use super::sense::{CommandRefusal, Sense};
use super::unit::{ScsiUnit, need};

impl ScsiUnit {
    /// An initiator has a session.
    pub(crate) fn sit(&self, nexus: Nexus) -> Arc<NexusState> {
        let seat = Arc::new(NexusState::new(nexus));
        self.seats.lock().push(Arc::clone(&seat));
        seat
    }

    /// Notes the end of a session. Its RESERVE (6) ends.
    pub(crate) fn leave(&self, seat: &Arc<NexusState>) {
        self.seats.lock().retain(|it| !Arc::ptr_eq(it, seat));
        if self.reservations().is_simple() {
            let mut held = self.held.write();
            held.forget_simple(Some(&seat.nexus));
            self.show(&held);
        }
    }

    /// Aborts the commands of all, and frees what was reserved by RESERVE (6). Returns when none of these
    /// commands changes anything any more.
    pub(crate) fn reset(&self) {
        let mut held = self.held.write();
        held.forget_simple(None);
        self.show(&held);
        self.seats.lock().iter().for_each(|seat| seat.reset());
    }

    /// Checks that reservations allow a command.
    ///
    /// # Errors
    /// [`CommandRefusal::Conflict`]
    pub(crate) fn permit(
        &self,
        seat: &NexusState,
        operation: &ScsiCommand,
    ) -> Result<(), CommandRefusal> {
        permitted(&self.reservations(), seat, operation)
    }

    /// Returns the reservations as they are now. A command that was permitted may be refused when it is carried out.
    pub(crate) fn reservations(&self) -> Arc<Reservations> {
        Arc::clone(&self.shown.read())
    }

    fn show(&self, held: &Reservations) {
        if **self.shown.read() != *held {
            *self.shown.write() = Arc::new(held.clone());
        }
    }

    /// Carries PERSISTENT RESERVE OUT out.
    pub(super) fn reserve(
        &self,
        seat: &NexusState,
        action: Action,
        what: u8,
        list: &[u8],
    ) -> Result<(), CommandRefusal> {
        let order = order(action, what, list)?;
        if order.keep && self.keeper.is_none() {
            return Err(Sense::FIELD_IN_LIST.into());
        }
        let mut held = self.held.write();
        let (new, effects) = held.after(&seat.nexus, &order)?;
        if new.is_kept || held.is_kept {
            self.save(&held, &new)?;
        }
        *held = new;
        self.show(&held);
        let seats = self.seats.lock();
        for seat in seats.iter() {
            let is_own = |nexus: &Nexus| *nexus == seat.nexus;
            if effects.aborted.iter().any(is_own) {
                seat.abort();
            }
            let told = effects.told.iter().filter(|(nexus, _)| is_own(nexus));
            told.for_each(|(_, sense)| seat.tell(*sense));
        }
        self.note(seat, &order);
        Ok(())
    }

    /// Saves reservations before they count.
    fn save(&self, old: &Reservations, new: &Reservations) -> Result<(), Sense> {
        let text = |it: &Reservations| it.is_kept.then(|| it.to_text());
        let (old, new) = (text(old), text(new));
        let Some(keeper) = self.keeper.as_ref().filter(|_| old != new) else {
            return Ok(());
        };
        if new.as_ref().is_some_and(|text| text.len() > KEPT_MAX) {
            return Err(Sense::NO_REGISTRATIONS);
        }
        keeper.save(new.as_deref()).map_err(|error| {
            if let Some(failures) = self.failures.next_line() {
                tracing::error!(
                    unit = self.identity.name, %error, failures, "reservations cannot be saved"
                );
            }
            Sense::FAILED
        })
    }

    fn note(&self, seat: &NexusState, order: &ReserveOutCommand) {
        let Some(changes) = seat.changes.next_line() else {
            return;
        };
        tracing::info!(
            unit = self.identity.name,
            initiator = seat.nexus.initiator,
            action = ?order.action,
            changes,
            "reservations changed"
        );
    }

    /// Carries RESERVE (6) or RELEASE (6) out.
    pub(super) fn simply(&self, seat: &NexusState, reserve: bool) -> Result<(), CommandRefusal> {
        let mut held = self.held.write();
        let done = held.simply(&seat.nexus, reserve);
        self.show(&held);
        done
    }

    /// Answers PERSISTENT RESERVE IN.
    pub(super) fn about(&self, about: AboutReservations) -> Result<Vec<u8>, CommandRefusal> {
        let held = self.reservations();
        if held.is_simple() {
            return Err(CommandRefusal::Conflict);
        }
        Ok(match about {
            AboutReservations::Keys => keys(&held),
            AboutReservations::Reservation => reservation(&held),
            AboutReservations::Capabilities => capabilities(&held, self.keeper.is_some()),
            AboutReservations::FullStatus => full_status(&held),
        })
    }
}

pub(super) fn permitted(
    held: &Reservations,
    seat: &NexusState,
    operation: &ScsiCommand,
) -> Result<(), CommandRefusal> {
    match held.allow(&seat.nexus, need(operation)) {
        true => Ok(()),
        false => Err(CommandRefusal::Conflict),
    }
}
