//! Asking the kernel's driver, by generic netlink: `linux/nbd-netlink.h`.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use netlink_packet_core::{
    DecodeError, DefaultNla, Emitable, NLA_F_NESTED, NLM_F_ACK, NLM_F_REQUEST, NetlinkHeader,
    NetlinkMessage, NetlinkPayload, NlasIterator, Parseable, ParseableParametrized, parse_u16,
    parse_u32,
};
use netlink_packet_generic::constants::{
    CTRL_ATTR_FAMILY_ID, CTRL_ATTR_FAMILY_NAME, CTRL_CMD_GETFAMILY, GENL_ID_CTRL,
};
use netlink_packet_generic::{GenlFamily, GenlHeader, GenlMessage};
use rustix::io::Errno;
use rustix::net::netlink::{GENERIC, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

/// The name of the driver's family.
const FAMILY: &str = "nbd";
/// Answers are much shorter.
const ANSWER_MAX: usize = 32 << 10;

mod command {
    pub(super) const CONNECT: u8 = 1;
    pub(super) const DISCONNECT: u8 = 2;
    pub(super) const RECONFIGURE: u8 = 3;
}

mod attribute {
    pub(super) const INDEX: u16 = 1;
    pub(super) const SIZE: u16 = 2;
    pub(super) const BLOCK_SIZE: u16 = 3;
    pub(super) const SERVER_FLAGS: u16 = 5;
    pub(super) const SOCKETS: u16 = 7;
    pub(super) const DEAD_CONNECTION_TIMEOUT: u16 = 8;
    pub(super) const BACKEND: u16 = 10;
    /// In the list of sockets.
    pub(super) const SOCKET: u16 = 1;
    /// In a socket.
    pub(super) const FD: u16 = 1;
}

/// The parameters of a device for the kernel.
pub(super) struct DeviceParameters<'a> {
    /// The number of the device. If it is absent, the kernel takes any free device.
    pub(super) index: Option<u32>,
    pub(super) size: u64,
    pub(super) block_size: u32,
    pub(super) flags: u16,
    /// Requests wait so many seconds for another connection.
    pub(super) patience_secs: u64,
    /// The text that the kernel shows as `/sys/block/nbdN/backend`.
    pub(super) identity: &'a str,
    /// The kernel's end of the connection.
    pub(super) socket: BorrowedFd<'a>,
}

pub(super) struct NbdDriver {
    socket: OwnedFd,
    family: u16,
}

impl NbdDriver {
    /// Finds it; `None` if the kernel has none.
    pub(super) fn find() -> io::Result<Option<NbdDriver>> {
        let kind = SocketType::DGRAM;
        let flags = SocketFlags::CLOEXEC;
        let made = rustix::net::socket_with(AddressFamily::NETLINK, kind, flags, Some(GENERIC));
        let socket = match made {
            Err(Errno::AFNOSUPPORT | Errno::PROTONOSUPPORT) => return Ok(None),
            made => made?,
        };
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, 0))?;
        let mut name = FAMILY.as_bytes().to_vec();
        name.push(0);
        let request = GenericMessage {
            family: GENL_ID_CTRL,
            command: CTRL_CMD_GETFAMILY,
            attributes: vec![DefaultNla::new(CTRL_ATTR_FAMILY_NAME, name)],
        };
        let answer = match request.ask(socket.as_fd()) {
            Err(error) if error.raw_os_error() == Some(Errno::NOENT.raw_os_error()) => {
                return Ok(None);
            }
            answer => answer?,
        };
        let id = answer.as_ref().and_then(|it| it.value(CTRL_ATTR_FAMILY_ID));
        let family = id.and_then(|id| parse_u16(&id).ok());
        let family = family.ok_or_else(|| io::Error::other("its family has no number"))?;
        Ok(Some(NbdDriver { socket, family }))
    }

    /// Makes a device of a connection; returns its number.
    pub(super) fn connect(&self, wanted: &DeviceParameters<'_>) -> io::Result<u32> {
        let answer = self.ask(command::CONNECT, wanted.attributes())?;
        let index = answer.as_ref().and_then(|it| it.value(attribute::INDEX));
        let index = index.and_then(|index| parse_u32(&index).ok());
        { index.or(wanted.index) }.ok_or_else(|| io::Error::other("the device has no number"))
    }

    /// Gives another connection to a device that has lost its own.
    pub(super) fn reconfigure(&self, wanted: &DeviceParameters<'_>) -> io::Result<()> {
        self.ask(command::RECONFIGURE, wanted.attributes())?;
        Ok(())
    }

    /// Gives a device that has lost its connection another one, and changes nothing else of it.
    pub(super) fn reconnect(
        &self,
        index: u32,
        identity: &str,
        socket: BorrowedFd<'_>,
    ) -> io::Result<()> {
        let device = number(attribute::INDEX, index);
        let attributes = vec![device, backend(identity), sockets(socket)];
        self.ask(command::RECONFIGURE, attributes)?;
        Ok(())
    }

    /// Ends a device. Requests that wait fail, if it has a connection.
    pub(super) fn disconnect(&self, index: u32) -> io::Result<()> {
        self.ask(command::DISCONNECT, vec![number(attribute::INDEX, index)])?;
        Ok(())
    }

    fn ask(&self, command: u8, attributes: Vec<DefaultNla>) -> io::Result<Option<GenericMessage>> {
        let family = self.family;
        GenericMessage {
            family,
            command,
            attributes,
        }
        .ask(self.socket.as_fd())
    }
}

impl DeviceParameters<'_> {
    fn attributes(&self) -> Vec<DefaultNla> {
        let mut attributes = vec![
            long_number(attribute::SIZE, self.size),
            long_number(attribute::BLOCK_SIZE, self.block_size.into()),
            long_number(attribute::SERVER_FLAGS, self.flags.into()),
            long_number(attribute::DEAD_CONNECTION_TIMEOUT, self.patience_secs),
            backend(self.identity),
            sockets(self.socket),
        ];
        attributes.extend(self.index.map(|index| number(attribute::INDEX, index)));
        attributes
    }
}

fn backend(identity: &str) -> DefaultNla {
    let mut identity = identity.as_bytes().to_vec();
    identity.push(0);
    DefaultNla::new(attribute::BACKEND, identity)
}

/// A list of one socket.
fn sockets(socket: BorrowedFd<'_>) -> DefaultNla {
    let fd = number(attribute::FD, socket.as_raw_fd() as u32);
    nested(attribute::SOCKETS, &[nested(attribute::SOCKET, &[fd])])
}

fn number(kind: u16, value: u32) -> DefaultNla {
    DefaultNla::new(kind, value.to_ne_bytes().to_vec())
}

fn long_number(kind: u16, value: u64) -> DefaultNla {
    DefaultNla::new(kind, value.to_ne_bytes().to_vec())
}

fn nested(kind: u16, inner: &[DefaultNla]) -> DefaultNla {
    let mut value = vec![0; inner.buffer_len()];
    inner.emit(&mut value);
    DefaultNla::new(kind | NLA_F_NESTED, value)
}

/// A request to a family, or its answer.
#[derive(Debug)]
struct GenericMessage {
    family: u16,
    command: u8,
    attributes: Vec<DefaultNla>,
}

impl GenericMessage {
    /// Sends it, and waits until the kernel has done it.
    fn ask(self, socket: BorrowedFd<'_>) -> io::Result<Option<GenericMessage>> {
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | NLM_F_ACK;
        let payload = NetlinkPayload::from(GenlMessage::from_payload(self));
        let mut request = NetlinkMessage::new(header, payload);
        request.finalize();
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        rustix::net::send(socket, &bytes, SendFlags::empty())?;
        let mut answer = None;
        let mut buffer = vec![0; ANSWER_MAX];
        loop {
            let (len, _) = match rustix::net::recv(socket, &mut *buffer, RecvFlags::empty()) {
                Err(Errno::INTR) => continue,
                received => received?,
            };
            let mut rest = &buffer[..len];
            while !rest.is_empty() {
                let message: NetlinkMessage<GenlMessage<GenericMessage>> =
                    NetlinkMessage::deserialize(rest).map_err(io::Error::other)?;
                match message.payload {
                    NetlinkPayload::Error(told) if told.code.is_none() => return Ok(answer),
                    NetlinkPayload::Error(told) => return Err(told.to_io()),
                    NetlinkPayload::InnerMessage(told) => answer = Some(told.payload),
                    _ => {}
                }
                let len = (message.header.length as usize).next_multiple_of(4);
                rest = rest.get(len..).unwrap_or_default();
            }
        }
    }

    fn value(&self, kind: u16) -> Option<Vec<u8>> {
        use netlink_packet_core::Nla;
        let found = self.attributes.iter().find(|it| it.kind() == kind)?;
        let mut value = vec![0; found.value_len()];
        found.emit_value(&mut value);
        Some(value)
    }
}

impl GenlFamily for GenericMessage {
    fn family_name() -> &'static str {
        FAMILY
    }

    fn family_id(&self) -> u16 {
        self.family
    }

    fn command(&self) -> u8 {
        self.command
    }

    fn version(&self) -> u8 {
        1
    }
}

impl Emitable for GenericMessage {
    fn buffer_len(&self) -> usize {
        self.attributes.as_slice().buffer_len()
    }

    fn emit(&self, buffer: &mut [u8]) {
        self.attributes.as_slice().emit(buffer);
    }
}

impl ParseableParametrized<[u8], GenlHeader> for GenericMessage {
    fn parse_with_param(bytes: &[u8], header: GenlHeader) -> Result<GenericMessage, DecodeError> {
        let attributes: Result<Vec<DefaultNla>, DecodeError> = NlasIterator::new(bytes)
            .map(|it| it.and_then(|it| DefaultNla::parse(&it)))
            .collect();
        Ok(GenericMessage {
            family: 0,
            command: header.cmd,
            attributes: attributes?,
        })
    }
}
