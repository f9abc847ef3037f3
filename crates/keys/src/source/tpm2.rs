//! The TPM of this machine: `tpm2:[DEVICE][#pcrs=7+11&bank=sha256&pin=yes]`.

use std::fmt;
use std::path::{Path, PathBuf};

use super::url::refuse;
use crate::{Error, Result};

/// A TPM, and what it is to want before it opens a key. Always one that can be asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TpmSource {
    pub(crate) device: Option<PathBuf>,
    pub(crate) pcrs: Option<Pcrs>,
    pub(crate) pin: bool,
}

/// Registers of a TPM with one hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pcrs {
    /// The number of the hash.
    bank: u16,
    /// A bit for each.
    registers: u32,
}

/// A TPM has 24.
const REGISTERS: u32 = 24;
const BANK: &str = "sha256";
/// Names and numbers of hashes (TCG Algorithm Registry).
const BANKS: [(&str, u16); 4] = [
    ("sha1", 0x0004),
    (BANK, 0x000b),
    ("sha384", 0x000c),
    ("sha512", 0x000d),
];

impl TpmSource {
    /// Takes what follows `tpm2:`.
    pub(crate) fn parse(rest: &str) -> Result<TpmSource> {
        let (device, options) = rest.split_once('#').unwrap_or((rest, ""));
        let device = match device {
            "" => None,
            device if is_tpm(device) => Some(PathBuf::from(device)),
            _ => return refuse("the device of a TPM is named as in tpm2:/dev/tpmrm0, or left out"),
        };
        let (mut pcrs, mut bank, mut pin) = (None, None, None);
        for option in options.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            let place = match name {
                "pcrs" => &mut pcrs,
                "bank" => &mut bank,
                "pin" => &mut pin,
                _ => {
                    return refuse(
                        "behind the # a tpm2: location has pcrs, bank and pin only, as in \
                         tpm2:#pcrs=7+11&bank=sha256&pin=yes",
                    );
                }
            };
            if place.replace(value).is_some() {
                return refuse("behind the # of a tpm2: location, each option stands once");
            }
        }
        let pcrs = match (pcrs, bank) {
            (None, None) => None,
            (None, Some(_)) => return refuse("the bank is that of PCRs; name them with pcrs="),
            (Some(pcrs), bank) => Some(parse_pcrs(pcrs, bank.unwrap_or(BANK))?),
        };
        let pin = match pin {
            None | Some("no") => false,
            Some("yes") => true,
            Some(_) => {
                return refuse(
                    "write pin=yes to be asked for a PIN; it never stands in a property",
                );
            }
        };
        Ok(TpmSource { device, pcrs, pin })
    }

    /// Returns whether a person has to give a PIN.
    pub fn has_pin(&self) -> bool {
        self.pin
    }

    pub(crate) fn device(&self) -> Option<&Path> {
        self.device.as_deref()
    }
}

/// Returns whether this path names a TPM as the kernel does. The daemon writes to it, so no other path will do.
fn is_tpm(device: &str) -> bool {
    let name = device.strip_prefix("/dev/tpm");
    let number = name.map(|name| name.strip_prefix("rm").unwrap_or(name));
    number.is_some_and(|number| {
        (1..=5).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

fn parse_pcrs(text: &str, bank: &str) -> Result<Pcrs> {
    let numbers = text.split('+');
    // Neither a sign nor spaces.
    let numbers = numbers.map(
        |number| match number.bytes().all(|byte| byte.is_ascii_digit()) {
            true => number.parse().ok(),
            false => None,
        },
    );
    Pcrs::new(bank, numbers).or_else(|_| {
        refuse(
            "write PCRs as numbers from 0 to 23 with + between them, and their bank as one of sha1, sha256, \
             sha384 and sha512",
        )
    })
}

impl Pcrs {
    /// Registers by their numbers, in the bank of a hash.
    pub(crate) fn new(bank: &str, numbers: impl Iterator<Item = Option<u64>>) -> Result<Pcrs> {
        let known = BANKS.iter().find(|(name, _)| *name == bank);
        let Some((_, bank)) = known else {
            return Err(Error::Tpm("it names PCRs of an unknown hash".into()));
        };
        let mut registers = 0;
        for number in numbers {
            let number = number.and_then(|number| u32::try_from(number).ok());
            let number = number.filter(|number| *number < REGISTERS);
            let no_such = || Error::Tpm("it names a PCR that no TPM has".into());
            registers |= 1 << number.ok_or_else(no_such)?;
        }
        Ok(Pcrs {
            bank: *bank,
            registers,
        })
    }

    /// From the number of a hash, and a bit for each register.
    pub(crate) fn of_bits(bank: u16, registers: u32) -> Option<Pcrs> {
        let is_known = BANKS.iter().any(|(_, known)| *known == bank);
        let are_there = registers != 0 && registers >> REGISTERS == 0;
        (is_known && are_there).then_some(Pcrs { bank, registers })
    }

    /// The number of the hash.
    pub(crate) fn bank(self) -> u16 {
        self.bank
    }

    /// A bit for each register.
    pub(crate) fn registers(self) -> u32 {
        self.registers
    }

    pub(crate) fn bank_name(self) -> &'static str {
        let known = BANKS.iter().find(|(_, bank)| *bank == self.bank);
        known.map_or("", |(name, _)| name)
    }
}

impl fmt::Display for Pcrs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set = (0..REGISTERS).filter(|number| self.registers >> number & 1 == 1);
        for (i, number) in set.enumerate() {
            write!(f, "{}{number}", if i == 0 { "" } else { "+" })?;
        }
        Ok(())
    }
}

impl fmt::Display for TpmSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tpm2:")?;
        if let Some(device) = &self.device {
            write!(f, "{}", device.display())?;
        }
        if let Some(pcrs) = &self.pcrs {
            write!(f, "#pcrs={pcrs}")?;
            if pcrs.bank_name() != BANK {
                write!(f, "&bank={}", pcrs.bank_name())?;
            }
        }
        match (self.pin, &self.pcrs) {
            (false, _) => Ok(()),
            (true, None) => f.write_str("#pin=yes"),
            (true, Some(_)) => f.write_str("&pin=yes"),
        }
    }
}
