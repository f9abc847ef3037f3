//! The identity of a unit, by which initiators find their disk again.

/// The identity of a unit in a storage network. What is absent comes from the number, or from the device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SanIdentity {
    /// The number that tells the unit from all others.
    pub number: u64,
    /// The serial number of another storage, which initiators know.
    pub serial: Option<String>,
    /// The NAA designator of another storage: 8 or 16 bytes.
    pub naa: Option<Vec<u8>>,
    /// The size of a block, in bytes.
    pub block: Option<u32>,
}

impl From<u64> for SanIdentity {
    fn from(number: u64) -> SanIdentity {
        SanIdentity {
            number,
            ..SanIdentity::default()
        }
    }
}

impl SanIdentity {
    /// The serial number that initiators see.
    pub fn shown_serial(&self) -> String {
        let own = || format!("{:016x}", self.number);
        self.serial.clone().unwrap_or_else(own)
    }

    /// The NAA designator that initiators see. One of the number is assigned locally.
    pub fn shown_naa(&self) -> Vec<u8> {
        let own = || (0x3 << 60 | self.number & (u64::MAX >> 4)).to_be_bytes();
        self.naa.clone().unwrap_or_else(|| own().to_vec())
    }

    /// Returns whether an initiator would take one unit for the other.
    pub fn is_taken_for(&self, other: &SanIdentity) -> bool {
        self.shown_naa() == other.shown_naa() || self.shown_serial() == other.shown_serial()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_taken_for_each_other_by_either_name() {
        let (one, two) = (SanIdentity::from(1), SanIdentity::from(2));
        assert!(!one.is_taken_for(&two));
        let serial = SanIdentity {
            serial: Some(one.shown_serial()),
            ..two.clone()
        };
        let naa = SanIdentity {
            naa: Some(one.shown_naa()),
            ..two
        };
        assert!(serial.is_taken_for(&one) && one.is_taken_for(&naa));
        assert!(!serial.is_taken_for(&naa));
    }
}
