//! The registrations and the reservation of a unit, and the commands that they allow.

/// A path from an initiator to the unit: the port of the initiator. Each unit is reached by one port of its target.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Nexus {
    /// The name of the initiator, in small letters.
    pub(crate) initiator: String,
    /// The number that it gave its session.
    pub(crate) isid: [u8; 6],
}

/// The types of a persistent reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    WriteExclusive = 1,
    ExclusiveAccess = 3,
    WriteExclusiveRegistrants = 5,
    ExclusiveAccessRegistrants = 6,
    WriteExclusiveAll = 7,
    ExclusiveAccessAll = 8,
}

impl Kind {
    pub(crate) const ALL: [Kind; 6] = [
        Kind::WriteExclusive,
        Kind::ExclusiveAccess,
        Kind::WriteExclusiveRegistrants,
        Kind::ExclusiveAccessRegistrants,
        Kind::WriteExclusiveAll,
        Kind::ExclusiveAccessAll,
    ];

    pub(super) fn from_code(code: u8) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| *kind as u8 == code)
    }

    /// Returns whether all registrants may do what is reserved.
    pub(super) fn is_for_registrants(self) -> bool {
        self as u8 >= Kind::WriteExclusiveRegistrants as u8
    }

    /// Returns whether each registrant is a holder.
    pub(super) fn is_held_by_all(self) -> bool {
        matches!(self, Kind::WriteExclusiveAll | Kind::ExclusiveAccessAll)
    }

    fn keeps_readers_out(self) -> bool {
        use Kind as K;
        matches!(
            self,
            K::ExclusiveAccess | K::ExclusiveAccessRegistrants | K::ExclusiveAccessAll
        )
    }
}

/// The right that a command needs under reservations, by the tables of SPC-4 and SBC-3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// No right: the command is always allowed.
    Nothing,
    /// Only RESERVE (6) of another initiator is in its way.
    Presence,
    /// The right to read.
    Read,
    /// The right to write.
    Write,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeyRegistration {
    pub(super) nexus: Nexus,
    pub(super) key: u64,
    /// True if the key was registered for all ports of the target. There is one.
    pub(super) all_ports: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ActiveReservation {
    pub(super) kind: Kind,
    /// The holder; none if all registrants hold the reservation.
    pub(super) holder: Option<Nexus>,
}

/// The reservations of a unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reservations {
    /// Counts changes since the unit was offered.
    pub(super) generation: u32,
    pub(super) registrations: Vec<KeyRegistration>,
    pub(super) reservation: Option<ActiveReservation>,
    /// The initiator that reserved the unit by RESERVE (6).
    pub(super) simple: Option<Nexus>,
    /// True if the state is to be stored: APTPL of the last registration.
    pub(crate) is_kept: bool,
}

impl Reservations {
    /// Returns whether a command is allowed.
    pub(crate) fn allow(&self, nexus: &Nexus, need: Need) -> bool {
        if let Some(owner) = &self.simple
            && owner != nexus
        {
            return need == Need::Nothing;
        }
        let Some(reservation) = &self.reservation else {
            return true;
        };
        match need {
            Need::Nothing | Need::Presence => true,
            _ if self.is_holder(nexus) => true,
            _ if reservation.kind.is_for_registrants() && self.key_of(nexus).is_some() => true,
            Need::Read => !reservation.kind.keeps_readers_out(),
            Need::Write => false,
        }
    }

    /// Returns whether a RESERVE (6) blocks persistent reservations, also one of the same initiator.
    pub(crate) fn is_simple(&self) -> bool {
        self.simple.is_some()
    }

    pub(super) fn key_of(&self, nexus: &Nexus) -> Option<u64> {
        let mut all = self.registrations.iter();
        all.find(|it| it.nexus == *nexus).map(|it| it.key)
    }

    pub(super) fn is_holder(&self, nexus: &Nexus) -> bool {
        match &self.reservation {
            None => false,
            Some(ActiveReservation { holder: None, .. }) => self.key_of(nexus).is_some(),
            Some(ActiveReservation { holder, .. }) => holder.as_ref() == Some(nexus),
        }
    }

    /// The type of the reservation, how many have registered, and who holds it, for people.
    pub(crate) fn summary(&self) -> (usize, Option<(&'static str, Vec<&Nexus>)>) {
        let held = self.reservation.as_ref().map(|it| {
            let name = match it.kind {
                Kind::WriteExclusive => "write-exclusive",
                Kind::ExclusiveAccess => "exclusive-access",
                Kind::WriteExclusiveRegistrants => "write-exclusive-registrants-only",
                Kind::ExclusiveAccessRegistrants => "exclusive-access-registrants-only",
                Kind::WriteExclusiveAll => "write-exclusive-all-registrants",
                Kind::ExclusiveAccessAll => "exclusive-access-all-registrants",
            };
            let all = self.registrations.iter().map(|it| &it.nexus);
            (name, all.filter(|nexus| self.is_holder(nexus)).collect())
        });
        let simple = || self.simple.iter().map(|nexus| ("reserve-6", vec![nexus]));
        (self.registrations.len(), held.or_else(|| simple().next()))
    }

    /// Returns whether this initiator has registered a key.
    pub(crate) fn is_registered(&self, nexus: &Nexus) -> bool {
        self.key_of(nexus).is_some()
    }

    /// Ends a RESERVE (6): that of `nexus` with its session, or any by a reset of the unit.
    pub(crate) fn forget_simple(&mut self, nexus: Option<&Nexus>) {
        if nexus.is_none() || self.simple.as_ref() == nexus {
            self.simple = None;
        }
    }
}
