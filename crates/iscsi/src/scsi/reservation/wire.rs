//! The bytes of PERSISTENT RESERVE IN and OUT.

use zerocopy::{FromBytes, IntoBytes};

use super::change::{Action, ReserveOutCommand};
use super::state::{Kind, Nexus, Reservations};
use crate::scsi::layout::WireLayout;
use crate::scsi::layout::reservation::{
    Capabilities, GenerationHeader, RegistrationDescriptor, ReservationDescriptor, ReserveOutList,
    TransportIdHeader,
};
use crate::scsi::sense::Sense;

/// The parameter list of PERSISTENT RESERVE OUT has so many bytes.
pub(crate) const LIST_LEN: usize = size_of::<ReserveOutList>();

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
    let list = ReserveOutList::ref_from_bytes(list).map_err(|_| Sense::LIST_LENGTH)?;
    let registers = matches!(action, Action::Register | Action::RegisterAndIgnore);
    if registers && list.flags & SPEC_I_PT != 0 {
        return Err(Sense::FIELD_IN_LIST);
    }
    Ok(ReserveOutCommand {
        action,
        what,
        key: list.key.get(),
        other: list.action_key.get(),
        keep: registers && list.flags & APTPL != 0,
        all_ports: registers && list.flags & ALL_TG_PT != 0,
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
    let row = ReservationDescriptor {
        key: holder.unwrap_or(0).into(),
        scope_and_type: now.kind as u8,
        ..ReservationDescriptor::ZERO
    };
    after_generation(all, row.as_bytes())
}

/// READ FULL STATUS
pub(crate) fn full_status(all: &Reservations) -> Vec<u8> {
    const ALL_TARGET_PORTS: u8 = 0x02;
    const IS_HOLDER: u8 = 0x01;
    let mut body = Vec::new();
    for it in &all.registrations {
        let held = all
            .reservation
            .as_ref()
            .filter(|_| all.is_holder(&it.nexus));
        let (ports, port) = match it.all_ports {
            true => (ALL_TARGET_PORTS, 0),
            false => (0, PORT),
        };
        let id = transport_id(&it.nexus);
        let row = RegistrationDescriptor {
            key: it.key.into(),
            flags: ports
                | if all.is_holder(&it.nexus) {
                    IS_HOLDER
                } else {
                    0
                },
            scope_and_type: held.map_or(0, |it| it.kind as u8),
            port: port.into(),
            id_len: (id.len() as u32).into(),
            ..RegistrationDescriptor::ZERO
        };
        body.extend_from_slice(row.as_bytes());
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
    let answer = Capabilities {
        len: (size_of::<Capabilities>() as u16).into(),
        flags: COMPATIBLE | ALL_PORTS | u8::from(can_keep),
        types_flags: TYPES_FOLLOW | u8::from(all.is_kept),
        types: mask.into(),
        ..Capabilities::ZERO
    };
    answer.as_bytes().to_vec()
}

fn after_generation(all: &Reservations, body: &[u8]) -> Vec<u8> {
    let header = GenerationHeader {
        generation: all.generation.into(),
        len: (body.len() as u32).into(),
    };
    [header.as_bytes(), body].concat()
}

/// The port of an initiator, as SPC-4 writes it for iSCSI.
fn transport_id(nexus: &Nexus) -> Vec<u8> {
    const PORT_OF_ISCSI: u8 = 0x45;
    let digits = encoding::hex(&nexus.isid);
    let mut name = format!("{},i,0x{digits}", nexus.initiator).into_bytes();
    name.resize((name.len() + 1).next_multiple_of(4), 0);
    let header = TransportIdHeader {
        protocol: PORT_OF_ISCSI,
        len: (name.len() as u16).into(),
        ..TransportIdHeader::ZERO
    };
    [header.as_bytes(), &name].concat()
}
