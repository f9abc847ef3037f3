//! Sense data: why a command failed.

use super::layout::WireLayout;
use super::layout::sense::{DescriptorSense, FixedSense};

/// The status of a command.
pub(crate) mod status {
    pub(crate) const GOOD: u8 = 0x00;
    pub(crate) const CHECK_CONDITION: u8 = 0x02;
    pub(crate) const RESERVATION_CONFLICT: u8 = 0x18;
    pub(crate) const TASK_SET_FULL: u8 = 0x28;
}

/// The reason for which a command is not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandRefusal {
    /// Another initiator has reserved the unit.
    Conflict,
    /// A failure with sense data.
    Check(Sense),
}

impl From<Sense> for CommandRefusal {
    fn from(sense: Sense) -> CommandRefusal {
        CommandRefusal::Check(sense)
    }
}

/// A sense key with an additional sense code and its qualifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sense {
    key: u8,
    code: (u8, u8),
    information: Option<u32>,
}

/// Key, code and qualifier, as manuals write them.
impl std::fmt::Display for Sense {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:x}/{:02x}/{:02x}", self.key, self.code.0, self.code.1)
    }
}

impl Sense {
    pub(crate) const NONE: Sense = Sense::new(0x0, 0x00, 0x00);
    pub(crate) const UNREADABLE: Sense = Sense::new(0x3, 0x11, 0x00);
    pub(crate) const UNWRITABLE: Sense = Sense::new(0x3, 0x0c, 0x00);
    pub(crate) const FAILED: Sense = Sense::new(0x4, 0x44, 0x00);
    pub(crate) const LIST_LENGTH: Sense = Sense::new(0x5, 0x1a, 0x00);
    pub(crate) const INFORMATION_UNIT: Sense = Sense::new(0x5, 0x0e, 0x03);
    pub(crate) const OPCODE: Sense = Sense::new(0x5, 0x20, 0x00);
    pub(crate) const OUT_OF_RANGE: Sense = Sense::new(0x5, 0x21, 0x00);
    pub(crate) const FIELD_IN_CDB: Sense = Sense::new(0x5, 0x24, 0x00);
    pub(crate) const NO_UNIT: Sense = Sense::new(0x5, 0x25, 0x00);
    pub(crate) const FIELD_IN_LIST: Sense = Sense::new(0x5, 0x26, 0x00);
    pub(crate) const WRONG_RELEASE: Sense = Sense::new(0x5, 0x26, 0x04);
    pub(crate) const NO_REGISTRATIONS: Sense = Sense::new(0x5, 0x55, 0x04);
    pub(crate) const NOT_SAVED: Sense = Sense::new(0x5, 0x39, 0x00);
    pub(crate) const POWER_ON: Sense = Sense::new(0x6, 0x29, 0x00);
    pub(crate) const RESET: Sense = Sense::new(0x6, 0x29, 0x03);
    pub(crate) const MODE: Sense = Sense::new(0x6, 0x2a, 0x01);
    pub(crate) const RESERVATIONS_PREEMPTED: Sense = Sense::new(0x6, 0x2a, 0x03);
    pub(crate) const RESERVATIONS_RELEASED: Sense = Sense::new(0x6, 0x2a, 0x04);
    pub(crate) const REGISTRATIONS_PREEMPTED: Sense = Sense::new(0x6, 0x2a, 0x05);
    pub(crate) const CLEARED: Sense = Sense::new(0x6, 0x2f, 0x00);
    pub(crate) const CAPACITY: Sense = Sense::new(0x6, 0x2a, 0x09);
    pub(crate) const SHORT: Sense = Sense::new(0x6, 0x38, 0x07);
    pub(crate) const LUNS: Sense = Sense::new(0x6, 0x3f, 0x0e);
    pub(crate) const PROTECTED: Sense = Sense::new(0x7, 0x27, 0x00);
    pub(crate) const NO_SPACE: Sense = Sense::new(0x7, 0x27, 0x07);
    pub(crate) const TOO_MUCH_DATA: Sense = Sense::new(0xb, 0x0c, 0x0d);
    pub(crate) const MISCOMPARE: Sense = Sense::new(0xe, 0x1d, 0x00);

    const fn new(key: u8, code: u8, qualifier: u8) -> Sense {
        Sense {
            key,
            code: (code, qualifier),
            information: None,
        }
    }

    /// Returns this sense with a position, in the information field.
    pub(crate) fn at(self, information: usize) -> Sense {
        let information = u32::try_from(information).ok();
        Sense {
            information,
            ..self
        }
    }

    /// Returns the sense for a failure of a device.
    pub(crate) fn of(error: &block::Error, is_write: bool) -> Sense {
        match error {
            _ if error.is_no_space() => Sense::NO_SPACE,
            block::Error::ReadOnly { .. } => Sense::PROTECTED,
            block::Error::OutOfRange { .. } => Sense::OUT_OF_RANGE,
            block::Error::Unauthentic { .. } => Sense::UNREADABLE,
            _ if is_write => Sense::UNWRITABLE,
            _ => Sense::UNREADABLE,
        }
    }

    /// Returns whether the device is the cause, and not the command.
    pub(crate) fn is_of_device(self) -> bool {
        matches!(self.key, 0x3 | 0x4) || self == Sense::NO_SPACE
    }

    /// In the fixed format.
    pub(crate) fn fixed(self) -> [u8; 18] {
        /// The error is that of this command; the information field is set.
        const CURRENT: u8 = 0x70;
        const HAS_INFORMATION: u8 = 0x80;
        zerocopy::transmute!(FixedSense {
            format: CURRENT | self.information.map_or(0, |_| HAS_INFORMATION),
            key: self.key,
            information: self.information.unwrap_or(0).into(),
            additional_len: 10,
            code: self.code.0,
            qualifier: self.code.1,
            ..FixedSense::ZERO
        })
    }

    /// In the descriptor format.
    pub(crate) fn descriptors(self) -> [u8; 8] {
        const CURRENT: u8 = 0x72;
        zerocopy::transmute!(DescriptorSense {
            format: CURRENT,
            key: self.key,
            code: self.code.0,
            qualifier: self.code.1,
            ..DescriptorSense::ZERO
        })
    }
}
