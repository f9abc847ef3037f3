//! The first phase of a connection: the client asks for options, and for an export.
//!
//! What the server says is bounded: each answer has at most [`DATA_MAX`] bytes, each option at most [`ANSWERS_MAX`]
//! answers, and the socket has a time limit for all of it.

use std::sync::Arc;

use zerocopy::byteorder::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, IntoBytes};

use super::tls::ClientTls;
use crate::error::CloseCause;
use crate::serve::negotiate::ALLOCATION;
use crate::wire::input::ReceiveBuffer;
use crate::wire::layout::{BlockSizeLimits, ExportSize, OptionHead, OptionReplyHead, ZEROES};
use crate::wire::link::PeerLink;
use crate::wire::proto::{self, answer, greeting, info, option};

/// The data of an answer.
const DATA_MAX: u32 = 64 << 10;
/// Answers to one option.
const ANSWERS_MAX: usize = 64;
/// The longest name of an export.
pub(super) const NAME_MAX: usize = 4096;
/// The number of bytes of a server's text that a message shows.
const SHOWN_MAX: usize = 200;

/// Servers before the fixed newstyle say this in place of `IHAVEOPT`.
const OLD_MAGIC: u64 = 0x0000_4202_8186_1253;

type Result<T> = std::result::Result<T, CloseCause>;

/// The parameters on which a client and a server have agreed.
#[derive(Clone, Debug)]
pub(crate) struct RemoteParameters {
    pub(crate) size: u64,
    /// See [`proto::can`].
    pub(crate) flags: u16,
    pub(crate) blocks: RequestSizes,
    /// True if reads are answered in chunks.
    pub(crate) structured: bool,
    /// The number of the context that says what is a hole.
    pub(crate) allocation: Option<u32>,
}

impl RemoteParameters {
    /// The parameters of an export, without structured replies.
    fn new(export: ExportSize, blocks: RequestSizes) -> RemoteParameters {
        RemoteParameters {
            size: export.size.get(),
            flags: export.flags.get(),
            blocks,
            structured: false,
            allocation: None,
        }
    }

    pub(crate) fn can(&self, flag: u16) -> bool {
        self.flags & proto::can::HAS_FLAGS != 0 && self.flags & flag != 0
    }
}

/// Sizes of requests, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestSizes {
    pub(crate) minimum: u32,
    pub(crate) preferred: u32,
    pub(crate) maximum: u32,
}

impl RequestSizes {
    /// The sizes of a server that does not name them.
    const DEFAULT: RequestSizes = RequestSizes {
        minimum: 512,
        preferred: 4096,
        maximum: proto::PAYLOAD_MAX,
    };

    fn decode(data: &[u8]) -> Option<RequestSizes> {
        let (limits, _) = BlockSizeLimits::ref_from_prefix(data).ok()?;
        let blocks = RequestSizes {
            minimum: limits.minimum.get(),
            preferred: limits.preferred.get(),
            maximum: limits.maximum.get(),
        };
        let RequestSizes {
            minimum,
            preferred,
            maximum,
        } = blocks;
        let makes_sense = minimum.is_power_of_two()
            && minimum <= 64 << 10
            && preferred.is_power_of_two()
            && preferred >= minimum
            && maximum >= minimum;
        makes_sense.then_some(blocks)
    }
}

struct ClientHandshake<'a> {
    link: &'a mut Arc<dyn PeerLink>,
    input: &'a mut ReceiveBuffer,
    export: &'a str,
    no_zeroes: bool,
}

/// Gets the export of this name; with `tls`, after everything is encrypted.
pub(crate) fn negotiate(
    link: &mut Arc<dyn PeerLink>,
    input: &mut ReceiveBuffer,
    export: &str,
    tls: Option<&ClientTls>,
) -> Result<RemoteParameters> {
    let mut client = ClientHandshake {
        link,
        input,
        export,
        no_zeroes: false,
    };
    client.hello()?;
    if let Some(tls) = tls {
        client.start_tls(tls)?;
    }
    let structured = client.ask(option::STRUCTURED_REPLY, &[])?;
    let allocation = match structured {
        true => client.allocation()?,
        false => None,
    };
    let mut agreed = client.go()?;
    agreed.structured = structured;
    agreed.allocation = allocation;
    Ok(agreed)
}

impl ClientHandshake<'_> {
    fn hear(&mut self, len: usize) -> Result<&[u8]> {
        match self.input.fill(&**self.link, len)? {
            true => Ok(self.input.take(len)),
            false => Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into()),
        }
    }

    /// Receives a structure.
    fn hear_as<T: FromBytes>(&mut self) -> Result<T> {
        T::read_from_bytes(self.hear(size_of::<T>())?).map_err(|_| NO_ANSWER)
    }

    fn hello(&mut self) -> Result<()> {
        let (magic, option_magic): (U64, U64) = (self.hear_as()?, self.hear_as()?);
        match (magic.get(), option_magic.get()) {
            (proto::MAGIC, proto::OPTION_MAGIC) => {}
            (proto::MAGIC, OLD_MAGIC) => {
                return Err(CloseCause::Protocol(
                    "the server speaks the old NBD of before 2011",
                ));
            }
            _ => return Err(CloseCause::Protocol("no NBD server listens there")),
        }
        let flags = self.hear_as::<U16>()?.get();
        if flags & greeting::FIXED_NEWSTYLE == 0 {
            return Err(CloseCause::Protocol(
                "the server has no fixed newstyle handshake",
            ));
        }
        let taken = flags & (greeting::FIXED_NEWSTYLE | greeting::NO_ZEROES);
        self.no_zeroes = taken & greeting::NO_ZEROES != 0;
        Ok(self.link.send(U32::new(taken.into()).as_bytes())?)
    }

    fn say(&mut self, option: u32, data: &[u8]) -> Result<()> {
        let head = OptionHead {
            magic: proto::OPTION_MAGIC.into(),
            option: option.into(),
            len: (data.len() as u32).into(),
        };
        Ok(self.link.send(&[head.as_bytes(), data].concat())?)
    }

    /// An answer to an option, and its data.
    fn answer(&mut self, option: u32) -> Result<(u32, Vec<u8>)> {
        let head: OptionReplyHead = self.hear_as()?;
        let (kind, len) = (head.kind.get(), head.len.get());
        if head.magic != proto::OPTION_REPLY_MAGIC {
            return Err(CloseCause::Protocol(
                "what the server says is no answer to an option",
            ));
        }
        if head.option != option {
            return Err(CloseCause::Protocol(
                "the server answers an option that was not asked for",
            ));
        }
        if len > DATA_MAX {
            return Err(CloseCause::Protocol(
                "the server answers an option at too great length",
            ));
        }
        Ok((kind, self.hear(len as usize)?.to_vec()))
    }

    /// Asks for an option with no answer but yes or no.
    fn ask(&mut self, option: u32, data: &[u8]) -> Result<bool> {
        self.say(option, data)?;
        match self.answer(option)? {
            (answer::ACK, _) => Ok(true),
            (kind, data) if kind == answer::TLS_REQUIRED => Err(refusal(kind, &data)),
            (kind, _) if kind & answer::ERROR != 0 => Ok(false),
            _ => Err(NO_ANSWER),
        }
    }

    fn start_tls(&mut self, tls: &ClientTls) -> Result<()> {
        if !self.ask(option::STARTTLS, &[])? {
            return Err(CloseCause::Protocol(
                "the server has no TLS; its address begins with nbd",
            ));
        }
        if self.input.len() > 0 {
            return Err(CloseCause::Protocol("the server did not wait for TLS"));
        }
        *self.link = Arc::new(tls.greet(Arc::clone(self.link))?);
        Ok(())
    }

    /// The name of the export, after its length.
    fn name(&self) -> Vec<u8> {
        let len = U32::new(self.export.len() as u32);
        [len.as_bytes(), self.export.as_bytes()].concat()
    }

    /// Asks for the context that says what is a hole.
    fn allocation(&mut self) -> Result<Option<u32>> {
        let (count, len) = (U32::new(1), U32::new(ALLOCATION.len() as u32));
        let data = [&self.name(), count.as_bytes(), len.as_bytes(), ALLOCATION].concat();
        self.say(option::SET_META_CONTEXT, &data)?;
        let mut found = None;
        for _ in 0..ANSWERS_MAX {
            match self.answer(option::SET_META_CONTEXT)? {
                (answer::ACK, _) => return Ok(found),
                (answer::META_CONTEXT, data) => {
                    let (id, name) = U32::ref_from_prefix(&data).map_err(|_| NO_ANSWER)?;
                    if name == ALLOCATION {
                        found = Some(id.get());
                    }
                }
                (kind, _) if kind & answer::ERROR != 0 => return Ok(None),
                _ => return Err(NO_ANSWER),
            }
        }
        Err(TOO_MANY)
    }

    fn go(&mut self) -> Result<RemoteParameters> {
        let (count, wanted) = (U16::new(1), U16::new(info::BLOCK_SIZE));
        let data = [&self.name(), count.as_bytes(), wanted.as_bytes()].concat();
        self.say(option::GO, &data)?;
        let (mut export, mut blocks) = (None, RequestSizes::DEFAULT);
        for _ in 0..ANSWERS_MAX {
            match self.answer(option::GO)? {
                (answer::ACK, _) => {
                    let export = export.ok_or(CloseCause::Protocol(
                        "the server does not say how large the export is",
                    ))?;
                    return Ok(RemoteParameters::new(export, blocks));
                }
                (answer::INFO, data) => {
                    let (kind, about) = U16::ref_from_prefix(&data).map_err(|_| NO_ANSWER)?;
                    match kind.get() {
                        info::EXPORT => {
                            let size = ExportSize::read_from_prefix(about);
                            export = Some(size.map_err(|_| NO_ANSWER)?.0);
                        }
                        info::BLOCK_SIZE => {
                            let decoded = RequestSizes::decode(about);
                            blocks = decoded.ok_or(CloseCause::Protocol(
                                "the server's block sizes make no sense",
                            ))?;
                        }
                        _ => {}
                    }
                }
                (answer::UNSUPPORTED, _) => return self.go_as_before(),
                (kind, data) if kind & answer::ERROR != 0 => return Err(refusal(kind, &data)),
                _ => return Err(NO_ANSWER),
            }
        }
        Err(TOO_MANY)
    }

    /// Servers before 2016 know no other option. They close the connection if there is no such export.
    fn go_as_before(&mut self) -> Result<RemoteParameters> {
        let export = self.export;
        self.say(option::EXPORT_NAME, export.as_bytes())?;
        let size: ExportSize = self.hear_as()?;
        if !self.no_zeroes {
            self.hear(ZEROES)?;
        }
        Ok(RemoteParameters::new(size, RequestSizes::DEFAULT))
    }
}

const NO_ANSWER: CloseCause =
    CloseCause::Protocol("the server's answer to an option makes no sense");
const TOO_MANY: CloseCause = CloseCause::Protocol("the server answers an option too many times");

/// Returns the reason of the server for not giving the export.
fn refusal(kind: u32, data: &[u8]) -> CloseCause {
    let reason = match kind {
        answer::UNKNOWN => "the server has no export of this name",
        answer::POLICY => "the server refuses this client",
        answer::TLS_REQUIRED => "the server requires TLS; its address begins with nbds",
        answer::SHUTDOWN => "the server is shutting down",
        answer::BLOCK_SIZE_REQUIRED => "the server wants other block sizes",
        _ => "the server refused",
    };
    match shown(data) {
        said if said.is_empty() => CloseCause::Refused(reason.into()),
        said => CloseCause::Refused(format!("{reason} ({said})")),
    }
}

/// Returns the text of a server, cut and cleaned for a message.
pub(super) fn shown(said: &[u8]) -> String {
    let said = String::from_utf8_lossy(said);
    let is_shown = |c: &char| !c.is_control();
    let shown: String = said.chars().filter(is_shown).take(SHOWN_MAX).collect();
    shown.trim().to_owned()
}
