//! The changes by PERSISTENT RESERVE OUT, RESERVE (6) and RELEASE (6).

use super::state::{ActiveReservation, KeyRegistration, Kind, Nexus, Reservations};
use super::stored_text::KEPT_MAX;
use crate::scsi::sense::{CommandRefusal, Sense};

/// The service actions of PERSISTENT RESERVE OUT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Register,
    Reserve,
    Release,
    Clear,
    Preempt { abort: bool },
    RegisterAndIgnore,
}

/// A PERSISTENT RESERVE OUT with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReserveOutCommand {
    pub(crate) action: Action,
    /// Scope and type.
    pub(crate) what: u8,
    /// RESERVATION KEY
    pub(crate) key: u64,
    /// SERVICE ACTION RESERVATION KEY
    pub(crate) other: u64,
    /// APTPL
    pub(crate) keep: bool,
    /// ALL_TG_PT
    pub(crate) all_ports: bool,
}

/// The effects of a change on other initiators.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Effects {
    /// The unit attention conditions, and the initiators that get them.
    pub(crate) told: Vec<(Nexus, Sense)>,
    /// The initiators whose commands are aborted.
    pub(crate) aborted: Vec<Nexus>,
}

impl Effects {
    fn tell<'a>(&mut self, all: impl IntoIterator<Item = &'a Nexus>, sense: Sense) {
        let all = all.into_iter();
        self.told.extend(all.map(|nexus| (nexus.clone(), sense)));
    }
}

impl Reservations {
    /// Returns these reservations after an order of `nexus`, and the effects on others. The reservations themselves
    /// stay.
    ///
    /// # Errors
    /// Why nothing changes.
    pub(crate) fn after(
        &self,
        nexus: &Nexus,
        order: &ReserveOutCommand,
    ) -> Result<(Reservations, Effects), CommandRefusal> {
        if self.is_simple() {
            return Err(CommandRefusal::Conflict);
        }
        let own = self.key_of(nexus);
        let is_right = match order.action {
            Action::RegisterAndIgnore => true,
            Action::Register => order.key == own.unwrap_or(0),
            _ => own == Some(order.key),
        };
        if !is_right {
            return Err(CommandRefusal::Conflict);
        }
        let mut new = self.clone();
        let effects = match order.action {
            Action::Register | Action::RegisterAndIgnore => new.register(nexus, order)?,
            Action::Reserve => return new.reserve(nexus, order).map(|effects| (new, effects)),
            Action::Release => return new.release(nexus, order).map(|effects| (new, effects)),
            Action::Clear => new.clear(nexus),
            Action::Preempt { abort } => new.preempt(nexus, order, abort)?,
        };
        new.generation = new.generation.wrapping_add(1);
        Ok((new, effects))
    }

    fn register(
        &mut self,
        nexus: &Nexus,
        order: &ReserveOutCommand,
    ) -> Result<Effects, CommandRefusal> {
        let mut effects = Effects::default();
        let known = self.registrations.iter_mut().find(|it| it.nexus == *nexus);
        match (known, order.other) {
            (None, 0) => {}
            (Some(_), 0) => self.unregister(nexus, &mut effects),
            (Some(known), key) => (known.key, known.all_ports) = (key, order.all_ports),
            (None, key) => {
                self.registrations.push(KeyRegistration {
                    nexus: nexus.clone(),
                    key,
                    all_ports: order.all_ports,
                });
                // What RESERVE adds to the text has to fit too.
                if self.to_text().len() > KEPT_MAX - 8 {
                    return Err(Sense::NO_REGISTRATIONS.into());
                }
            }
        }
        self.is_kept = order.keep;
        Ok(effects)
    }

    /// Takes a registration away, and the reservation if it goes with it.
    fn unregister(&mut self, nexus: &Nexus, effects: &mut Effects) {
        let held = self
            .reservation
            .take_if(|it| it.holder.as_ref() == Some(nexus));
        self.registrations.retain(|it| it.nexus != *nexus);
        if held.is_some_and(|it| it.kind.is_for_registrants()) {
            let rest = self.registrations.iter().map(|it| &it.nexus);
            effects.tell(rest, Sense::RESERVATIONS_RELEASED);
        }
        self.end_without_registrants();
    }

    /// Ends a reservation of all registrants with the last of them.
    fn end_without_registrants(&mut self) {
        if self.registrations.is_empty() {
            self.reservation = None;
        }
    }

    fn reserve(
        &mut self,
        nexus: &Nexus,
        order: &ReserveOutCommand,
    ) -> Result<Effects, CommandRefusal> {
        let kind = kind(order.what)?;
        match &self.reservation {
            None => self.reservation = Some(held(kind, nexus)),
            Some(now) if now.kind == kind && self.is_holder(nexus) => {}
            Some(_) => return Err(CommandRefusal::Conflict),
        }
        Ok(Effects::default())
    }

    fn release(
        &mut self,
        nexus: &Nexus,
        order: &ReserveOutCommand,
    ) -> Result<Effects, CommandRefusal> {
        let mut effects = Effects::default();
        let Some(now) = self.reservation.as_ref().filter(|_| self.is_holder(nexus)) else {
            return Ok(effects);
        };
        if now.kind as u8 != order.what {
            return Err(Sense::WRONG_RELEASE.into());
        }
        if now.kind.is_for_registrants() {
            let others = self.registrations.iter().map(|it| &it.nexus);
            let others = others.filter(|other| *other != nexus);
            effects.tell(others, Sense::RESERVATIONS_RELEASED);
        }
        self.reservation = None;
        Ok(effects)
    }

    fn clear(&mut self, nexus: &Nexus) -> Effects {
        let mut effects = Effects::default();
        let all = std::mem::take(&mut self.registrations);
        let others = all.iter().map(|it| &it.nexus).filter(|it| *it != nexus);
        effects.tell(others, Sense::RESERVATIONS_PREEMPTED);
        self.reservation = None;
        effects
    }

    fn preempt(
        &mut self,
        nexus: &Nexus,
        order: &ReserveOutCommand,
        abort: bool,
    ) -> Result<Effects, CommandRefusal> {
        let holder_key = match &self.reservation {
            None => None,
            // Whose reservation all registrants hold is meant by 0.
            Some(ActiveReservation { holder: None, .. }) => Some(0),
            Some(ActiveReservation { holder, .. }) => {
                holder.as_ref().and_then(|it| self.key_of(it))
            }
        };
        if order.other == 0 && holder_key != Some(0) {
            return Err(Sense::FIELD_IN_LIST.into());
        }
        let takes_over = holder_key == Some(order.other);
        let kind = match takes_over {
            true => Some(kind(order.what)?),
            false => None,
        };
        let is_meant = |it: &KeyRegistration| match takes_over {
            true => (order.other == 0 || it.key == order.other) && it.nexus != *nexus,
            false => it.key == order.other,
        };
        let gone = self.registrations.extract_if(.., |it| is_meant(it));
        let gone: Vec<Nexus> = gone.map(|it| it.nexus).collect();
        if gone.is_empty() && !takes_over {
            return Err(CommandRefusal::Conflict);
        }
        let mut effects = Effects::default();
        let others = || gone.iter().filter(|it| *it != nexus);
        effects.tell(others(), Sense::REGISTRATIONS_PREEMPTED);
        if abort {
            effects.aborted = others().cloned().collect();
        }
        if let Some(kind) = kind {
            let before = self.reservation.replace(held(kind, nexus));
            if before.is_some_and(|it| it.kind != kind) {
                let rest = self.registrations.iter().map(|it| &it.nexus);
                let rest = rest.filter(|other| *other != nexus);
                effects.tell(rest, Sense::RESERVATIONS_RELEASED);
            }
        }
        self.end_without_registrants();
        Ok(effects)
    }

    /// RESERVE (6), or else RELEASE (6). Where keys are registered neither has an effect: those who have what is
    /// reserved are told that all is well (CRH), others that there is a conflict.
    ///
    /// # Errors
    /// [`CommandRefusal::Conflict`]
    pub(crate) fn simply(&mut self, nexus: &Nexus, reserve: bool) -> Result<(), CommandRefusal> {
        if !self.registrations.is_empty() {
            let kind = self.reservation.as_ref().map(|it| it.kind);
            let has = self.is_holder(nexus)
                || kind.is_some_and(Kind::is_for_registrants) && self.is_registered(nexus);
            return if has {
                Ok(())
            } else {
                Err(CommandRefusal::Conflict)
            };
        }
        match (reserve, &self.simple) {
            (true, Some(owner)) if owner != nexus => return Err(CommandRefusal::Conflict),
            (true, _) => self.simple = Some(nexus.clone()),
            (false, _) => self.forget_simple(Some(nexus)),
        }
        Ok(())
    }
}

fn held(kind: Kind, nexus: &Nexus) -> ActiveReservation {
    let holder = (!kind.is_held_by_all()).then(|| nexus.clone());
    ActiveReservation { kind, holder }
}

/// The scope is the unit, and the type is known.
fn kind(what: u8) -> Result<Kind, Sense> {
    match what >> 4 {
        0 => Kind::from_code(what).ok_or(Sense::FIELD_IN_CDB),
        _ => Err(Sense::FIELD_IN_CDB),
    }
}
