//! Parameters of PERSISTENT RESERVE IN and OUT (SPC-4, sections 6.15 and 6.16).

use zerocopy::byteorder::big_endian::{U16, U32, U64};

layouts! {
    /// The parameter list of PERSISTENT RESERVE OUT.
    ReserveOutList: 24 { key: U64, action_key: U64, obsolete: U32, flags: u8, reserved: u8, obsolete_end: U16, }
    /// The beginning of the answers with keys, the reservation, or the full status.
    GenerationHeader: 8 { generation: U32, len: U32, }
    /// The reservation, for READ RESERVATION.
    ReservationDescriptor: 16 { key: U64, obsolete: U32, reserved: u8, scope_and_type: u8, obsolete_end: U16, }
    /// A registration, for READ FULL STATUS. The transport ID follows.
    RegistrationDescriptor: 24 {
        key: U64, reserved: U32, flags: u8, scope_and_type: u8, reserved_end: U32, port: U16, id_len: U32,
    }
    /// The beginning of a transport ID. The name of a port follows.
    TransportIdHeader: 4 { protocol: u8, reserved: u8, len: U16, }
    /// The answer to REPORT CAPABILITIES.
    Capabilities: 8 { len: U16, flags: u8, types_flags: u8, types: U16, reserved: U16, }
}
