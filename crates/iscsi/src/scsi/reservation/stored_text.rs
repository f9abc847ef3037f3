//! Reservations as a text, which is stored with the device (docs/FORMAT.md, "Reservations of iSCSI").

use super::state::{ActiveReservation, KeyRegistration, Kind, Nexus, Reservations};

/// The longest text.
pub(crate) const KEPT_MAX: usize = 8000;

const VERSION: &str = "1";

impl Reservations {
    /// The text. What ends with the session, or when the unit is offered again, is not in it.
    pub(crate) fn to_text(&self) -> String {
        let kind = self.reservation.as_ref().map_or(0, |it| it.kind as u8);
        let holder = self.reservation.as_ref().and_then(|it| it.holder.as_ref());
        let mut all = self.registrations.iter();
        let at = all.position(|it| Some(&it.nexus) == holder);
        let at = at.map_or("-".into(), |at| at.to_string());
        let mut text = format!("{VERSION} {kind} {at}");
        for it in &self.registrations {
            let isid = encoding::hex(&it.nexus.isid);
            let (key, ports, name) = (it.key, u8::from(it.all_ports), &it.nexus.initiator);
            text.push_str(&format!("\n{key:016x} {isid} {ports} {name}"));
        }
        text
    }

    /// Reads a text. `None` if it is none.
    pub(crate) fn from_text(text: &str) -> Option<Reservations> {
        if text.len() > KEPT_MAX {
            return None;
        }
        let mut lines = text.split('\n');
        let mut head = lines.next()?.split(' ');
        if head.next()? != VERSION {
            return None;
        }
        let (kind, at) = (head.next()?.parse().ok()?, head.next()?);
        let registrations = lines.map(registration).collect::<Option<Vec<_>>>()?;
        let is_twice = |(at, it): (usize, &KeyRegistration)| {
            registrations[..at]
                .iter()
                .any(|other| other.nexus == it.nexus)
        };
        if head.next().is_some() || registrations.iter().enumerate().any(is_twice) {
            return None;
        }
        let reservation = match (kind, at) {
            (0, "-") => None,
            (code, at) => {
                let kind = Kind::from_code(code)?;
                let holder = match (kind.is_held_by_all(), at) {
                    (true, "-") if !registrations.is_empty() => None,
                    (true, _) => return None,
                    (false, at) => {
                        let at: usize = at.parse().ok()?;
                        Some(registrations.get(at)?.nexus.clone())
                    }
                };
                Some(ActiveReservation { kind, holder })
            }
        };
        Some(Reservations {
            registrations,
            reservation,
            is_kept: true,
            ..Reservations::default()
        })
    }
}

fn registration(line: &str) -> Option<KeyRegistration> {
    let mut parts = line.splitn(4, ' ');
    let key = hex(parts.next()?, 16)?;
    let isid = hex(parts.next()?, 12)?;
    let all_ports = match parts.next()? {
        "0" => false,
        "1" => true,
        _ => return None,
    };
    let initiator = parts.next().filter(|name| !name.is_empty())?.to_owned();
    let isid = *isid.to_be_bytes().last_chunk()?;
    Some(KeyRegistration {
        nexus: Nexus { initiator, isid },
        key: Some(key).filter(|key| *key != 0)?,
        all_ports,
    })
}

/// Reads a number of `len` hexadecimal digits.
fn hex(text: &str, len: usize) -> Option<u64> {
    let is_right = text.len() == len && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    u64::from_str_radix(text, 16).ok().filter(|_| is_right)
}
