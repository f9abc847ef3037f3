//! The bytes of PERSISTENT RESERVE IN and OUT.

use super::change::{Action, ReserveOutCommand};
use super::state::{Kind, Nexus, Reservations};
use crate::scsi::number;
use crate::scsi::sense::Sense;

/// The parameter list of PERSISTENT RESERVE OUT has so many bytes.
pub(crate) const LIST_LEN: usize = 24;

/// The number of the port of the target.
const PORT: u16 = 1;

/// Reads a parameter list.
///
/// # Errors
/// If it has another length, or asks for what is not supported: to register other initiators (SPEC_I_PT).
pub(crate) fn order(action: Action, what: u8, list: &[u8]) -> Result<ReserveOutCommand, Sense> {
    const SPEC_I_PT: u8 = 0x08;
    const ALL_TG_PT: u8 = 0x04;
    const APTPL: u8 = 0x01;
    if list.len() != LIST_LEN {
        return Err(Sense::LIST_LENGTH);
    }
    let registers = matches!(action, Action::Register | Action::RegisterAndIgnore);
    if registers && list[20] & SPEC_I_PT != 0 {
        return Err(Sense::FIELD_IN_LIST);
    }
    Ok(ReserveOutCommand {
        action,
        what,
        key: number(list, 0, 8),
        other: number(list, 8, 8),
        keep: registers && list[20] & APTPL != 0,
        all_ports: registers && list[20] & ALL_TG_PT != 0,
    })
}

/// READ KEYS
pub(crate) fn keys(all: &Reservations) -> Vec<u8> {
    let keys = all.registrations.iter().flat_map(|it| it.key.to_be_bytes());
    after_generation(all, &keys.collect::<Vec<u8>>())
}

/// READ RESERVATION
pub(crate) fn reservation(all: &Reservations) -> Vec<u8> {
    let Some(now) = &all.reservation else {
        return after_generation(all, &[]);
    };
    let holder = now.holder.as_ref().and_then(|it| all.key_of(it));
    let mut body = [0; 16];
    body[..8].copy_from_slice(&holder.unwrap_or(0).to_be_bytes());
    body[13] = now.kind as u8;
    after_generation(all, &body)
}

/// READ FULL STATUS
pub(crate) fn full_status(all: &Reservations) -> Vec<u8> {
    let mut body = Vec::new();
    for it in &all.registrations {
        body.extend(it.key.to_be_bytes());
        let is_holder = all.is_holder(&it.nexus);
        let kind = all.reservation.as_ref().filter(|_| is_holder);
        body.extend([0; 4]);
        body.push(u8::from(it.all_ports) << 1 | u8::from(is_holder));
        body.push(kind.map_or(0, |it| it.kind as u8));
        body.extend([0; 4]);
        body.extend(if it.all_ports { 0 } else { PORT }.to_be_bytes());
        let id = transport_id(&it.nexus);
        body.extend((id.len() as u32).to_be_bytes());
        body.extend(id);
    }
    after_generation(all, &body)
}

/// REPORT CAPABILITIES. `can_keep`: there is a place where reservations can be stored.
pub(crate) fn capabilities(all: &Reservations, can_keep: bool) -> Vec<u8> {
    const COMPATIBLE: u8 = 0x10;
    const ALL_PORTS: u8 = 0x04;
    const TYPES_FOLLOW: u8 = 0x80;
    let mask = Kind::ALL.iter().fold(0u16, |mask, kind| {
        // Type 8 has the first bit of the second byte.
        let code = *kind as u16;
        mask | if code < 8 { 0x100 << code } else { 1 }
    });
    let mut data = vec![0, 8, COMPATIBLE | ALL_PORTS | u8::from(can_keep)];
    data.push(TYPES_FOLLOW | u8::from(all.is_kept));
    data.extend(mask.to_be_bytes());
    data.extend([0; 2]);
    data
}

fn after_generation(all: &Reservations, body: &[u8]) -> Vec<u8> {
    let mut data = all.generation.to_be_bytes().to_vec();
    data.extend((body.len() as u32).to_be_bytes());
    data.extend(body);
    data
}

/// The port of an initiator, as SPC-4 writes it for iSCSI.
fn transport_id(nexus: &Nexus) -> Vec<u8> {
    const PORT_OF_ISCSI: u8 = 0x45;
    let digits = encoding::hex(&nexus.isid);
    let mut name = format!("{},i,0x{digits}", nexus.initiator).into_bytes();
    name.resize((name.len() + 1).next_multiple_of(4), 0);
    let mut id = vec![PORT_OF_ISCSI, 0];
    id.extend((name.len() as u16).to_be_bytes());
    id.extend(name);
    id
}
