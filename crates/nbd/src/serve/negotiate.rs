//! The first phase of a connection: the client asks for options until it has an export.
//!
//! A client has limited time for it and says little: each option has at most [`DATA_MAX`] bytes.

use std::sync::Arc;

use block::{TransferClaim, TransferShare};
use zerocopy::byteorder::big_endian::{U16, U32};
use zerocopy::{FromBytes, IntoBytes};

use crate::error::CloseCause;
use crate::serve::buffers::THREAD_MEMORY;
use crate::serve::export::{Export, ExportAttachment, Exports};
use crate::wire::input::{CAPACITY, ReceiveBuffer};
use crate::wire::layout::{
    BlockSizeLimits, ExportSize, Greeting, OptionHead, OptionReplyHead, ZEROES,
};
use crate::wire::link::PeerLink;
use crate::wire::proto::{self, FieldReader, answer, can, greeting, info, option};
use crate::wire::tls::{Tls, TlsLink};

/// The data of an option: two strings of the greatest length and some numbers are shorter.
const DATA_MAX: u32 = 16 << 10;
/// More than this is not even left out.
const SKIPPED_MAX: u32 = 1 << 20;

/// The memory of a connection: its input, and the buffers of its first thread.
const CONNECTION_MEMORY: usize = CAPACITY + THREAD_MEMORY;
/// The reason for which a client does not get an export.
const NO_MEMORY: &str = "the connections of its address have all the memory that they may have";

/// The one metadata context there is, and its number.
pub(crate) const ALLOCATION: &[u8] = b"base:allocation";
pub(crate) const ALLOCATION_ID: u32 = 1;

type Result<T> = std::result::Result<T, CloseCause>;

/// The result of a negotiation.
pub(crate) struct NegotiatedSession {
    pub(crate) attached: ExportAttachment,
    /// The size that the client was told, in bytes.
    pub(crate) size: u64,
    /// True if reads are answered in chunks.
    pub(crate) structured: bool,
    /// True if the client may ask for holes.
    pub(crate) allocation: bool,
    /// True if a read is finished before any of it is sent, so that an error does not end the connection. That takes
    /// memory, which only a trusted client gets.
    pub(crate) reads_whole: bool,
    /// True if the client continues when the next process serves the device. Changes are then settled before the
    /// reply.
    pub(crate) settles: bool,
    /// The name of the client: the same name when it connects again.
    pub(crate) client: String,
    /// The memory for data of the connection, with the part that it has in any case.
    pub(crate) memory: TransferShare,
    pub(crate) reserved: Option<TransferClaim>,
}

/// A client that has not got an export.
struct Negotiation<'a> {
    link: &'a mut Arc<dyn PeerLink>,
    input: &'a mut ReceiveBuffer,
    exports: &'a Exports,
    tls: Option<&'a Tls>,
    memory: &'a TransferShare,
    /// Called when the client has shown who it is.
    authenticated: &'a dyn Fn() -> bool,
    no_zeroes: bool,
    structured: bool,
    /// For which export it asked for [`ALLOCATION`], as it called it.
    allocation: Option<Vec<u8>>,
}

/// The next step after an option.
enum OptionOutcome {
    Option,
    Session(NegotiatedSession),
    End,
}

/// Runs the handshake: the client chooses an export. With `tls` it gets nothing before the connection is secure;
/// `authenticated` is called then, and says whether one more such client may be there. `None` if it ends without
/// having an export.
pub(crate) fn negotiate(
    link: &mut Arc<dyn PeerLink>,
    input: &mut ReceiveBuffer,
    exports: &Exports,
    tls: Option<&Tls>,
    memory: &TransferShare,
    authenticated: &dyn Fn() -> bool,
) -> Result<Option<NegotiatedSession>> {
    let hello = Greeting {
        magic: proto::MAGIC.into(),
        option_magic: proto::OPTION_MAGIC.into(),
        flags: (greeting::FIXED_NEWSTYLE | greeting::NO_ZEROES).into(),
    };
    link.send(hello.as_bytes())?;
    let flags = match input.fill(&**link, 4)? {
        true => FieldReader(input.take(4)).u32().unwrap_or_default(),
        false => return Ok(None),
    };
    let known = u32::from(greeting::FIXED_NEWSTYLE | greeting::NO_ZEROES);
    if flags & !known != 0 || flags & u32::from(greeting::FIXED_NEWSTYLE) == 0 {
        return Err(CloseCause::Protocol(
            "it does not speak the fixed newstyle protocol",
        ));
    }
    let mut client = Negotiation {
        link,
        input,
        exports,
        tls,
        memory,
        authenticated,
        no_zeroes: flags & u32::from(greeting::NO_ZEROES) != 0,
        structured: false,
        allocation: None,
    };
    loop {
        match client.option()? {
            OptionOutcome::Option => {}
            OptionOutcome::Session(session) => return Ok(Some(session)),
            OptionOutcome::End => return Ok(None),
        }
    }
}

impl Negotiation<'_> {
    /// Answers one option.
    fn option(&mut self) -> Result<OptionOutcome> {
        const HEAD: usize = size_of::<OptionHead>();
        if !self.input.fill(&**self.link, HEAD)? {
            return Ok(OptionOutcome::End);
        }
        let (wanted, len) = match OptionHead::ref_from_bytes(self.input.take(HEAD)) {
            Ok(head) if head.magic == proto::OPTION_MAGIC => (head.option.get(), head.len.get()),
            _ => return Err(CloseCause::Protocol("what it says is no option")),
        };
        if len > DATA_MAX {
            if len > SKIPPED_MAX || wanted == option::EXPORT_NAME {
                return Err(CloseCause::Protocol("an option is too long"));
            }
            self.input.skip(&**self.link, len.into())?;
            return self.refuse(wanted, answer::TOO_BIG);
        }
        if !self.input.fill(&**self.link, len as usize)? && len > 0 {
            return Ok(OptionOutcome::End);
        }
        let data = self.input.take(len as usize).to_vec();
        let is_early = self.tls.is_some() && !self.link.is_secure();
        match wanted {
            option::ABORT => {
                self.answer(wanted, answer::ACK, &[])?;
                Ok(OptionOutcome::End)
            }
            option::STARTTLS => self.start_tls(&data),
            option::EXPORT_NAME if is_early => {
                Err(CloseCause::Protocol("it did not ask for TLS first"))
            }
            _ if is_early => self.refuse(wanted, answer::TLS_REQUIRED),
            option::EXPORT_NAME => self.export_name(&data),
            option::LIST => self.list(&data),
            option::INFO | option::GO => self.export(wanted, &data),
            option::STRUCTURED_REPLY if data.is_empty() => {
                self.structured = true;
                self.done(wanted)
            }
            option::STRUCTURED_REPLY => self.refuse(wanted, answer::INVALID),
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => self.contexts(wanted, &data),
            _ => self.refuse(wanted, answer::UNSUPPORTED),
        }
    }

    fn answer(&self, wanted: u32, kind: u32, data: &[u8]) -> Result<()> {
        let head = OptionReplyHead {
            magic: proto::OPTION_REPLY_MAGIC.into(),
            option: wanted.into(),
            kind: kind.into(),
            len: (data.len() as u32).into(),
        };
        Ok(self.link.send(&[head.as_bytes(), data].concat())?)
    }

    fn done(&self, wanted: u32) -> Result<OptionOutcome> {
        self.answer(wanted, answer::ACK, &[])?;
        Ok(OptionOutcome::Option)
    }

    fn refuse(&self, wanted: u32, why: u32) -> Result<OptionOutcome> {
        self.answer(wanted, why, &[])?;
        Ok(OptionOutcome::Option)
    }

    fn start_tls(&mut self, data: &[u8]) -> Result<OptionOutcome> {
        let wanted = option::STARTTLS;
        let Some(tls) = self.tls else {
            return self.refuse(wanted, answer::POLICY);
        };
        if !data.is_empty() || self.link.is_secure() {
            return self.refuse(wanted, answer::INVALID);
        }
        // Bytes that are here already came in the clear, and could be from any sender.
        if self.input.len() > 0 {
            return Err(CloseCause::Protocol("it did not wait for TLS"));
        }
        self.answer(wanted, answer::ACK, &[])?;
        *self.link = Arc::new(TlsLink::accept(Arc::clone(self.link), tls)?);
        if !(self.authenticated)() {
            return Err(CloseCause::Protocol(
                "too many clients are there without an export",
            ));
        }
        (self.structured, self.allocation) = (false, None);
        Ok(OptionOutcome::Option)
    }

    fn list(&self, data: &[u8]) -> Result<OptionOutcome> {
        if !data.is_empty() {
            return self.refuse(option::LIST, answer::INVALID);
        }
        for export in self.exports.all() {
            let (name, description) = (export.name(), export.description());
            let len = U32::new(name.len() as u32);
            let entry = [len.as_bytes(), name.as_bytes(), description.as_bytes()];
            self.answer(option::LIST, answer::SERVER, &entry.concat())?;
        }
        self.done(option::LIST)
    }

    /// The old way to have an export, which knows no refusal.
    fn export_name(&mut self, name: &[u8]) -> Result<OptionOutcome> {
        let export = self.exports.find(name);
        let export = export.ok_or(CloseCause::Protocol(
            "it asked for an export that does not exist",
        ))?;
        let session = self.attach(&export, name)?;
        let mut session = session.ok_or(CloseCause::Protocol("the export is ending"))?;
        session.reserved = self.memory.claim(CONNECTION_MEMORY);
        if session.reserved.is_none() {
            return Err(CloseCause::Protocol(NO_MEMORY));
        }
        let size = self.size_and_flags(&session, &export);
        let zeroes: &[u8] = if self.no_zeroes { &[] } else { &[0; ZEROES] };
        self.link.send(&[size.as_bytes(), zeroes].concat())?;
        Ok(OptionOutcome::Session(session))
    }

    /// Answers `NBD_OPT_INFO` and `NBD_OPT_GO`: describes an export, and for `GO` attaches the client to it.
    fn export(&mut self, wanted: u32, data: &[u8]) -> Result<OptionOutcome> {
        let Some((name, infos)) = export_request(data) else {
            return self.refuse(wanted, answer::INVALID);
        };
        let Some(export) = self.exports.find(name) else {
            return self.refuse(wanted, answer::UNKNOWN);
        };
        let Some(mut session) = self.attach(&export, name)? else {
            return self.refuse(wanted, answer::UNKNOWN);
        };
        if wanted == option::GO {
            session.reserved = self.memory.claim(CONNECTION_MEMORY);
            if session.reserved.is_none() {
                tracing::warn!("{NO_MEMORY}");
                return self.refuse(wanted, answer::POLICY);
            }
        }
        let size = self.size_and_flags(&session, &export);
        let [minimum, preferred, maximum] = export.block_sizes().map(Into::into);
        let limits = BlockSizeLimits {
            minimum,
            preferred,
            maximum,
        };
        let is_wanted = |kind| infos.contains(&kind);
        for (kind, is_told, about) in [
            (info::EXPORT, true, size.as_bytes()),
            (info::BLOCK_SIZE, true, limits.as_bytes()),
            (info::NAME, is_wanted(info::NAME), export.name().as_bytes()),
            (
                info::DESCRIPTION,
                is_wanted(info::DESCRIPTION),
                export.description().as_bytes(),
            ),
        ] {
            if is_told {
                let kind = U16::new(kind);
                self.answer(wanted, answer::INFO, &[kind.as_bytes(), about].concat())?;
            }
        }
        self.answer(wanted, answer::ACK, &[])?;
        Ok(match wanted {
            option::GO => OptionOutcome::Session(session),
            _ => OptionOutcome::Option,
        })
    }

    /// The size is asked for here, so that who comes now sees what has grown.
    fn attach(&self, export: &Arc<Export>, name: &[u8]) -> Result<Option<NegotiatedSession>> {
        let Some(attached) = export.attach(self.link) else {
            return Ok(None);
        };
        let size = export.size().map_err(|error| {
            tracing::warn!(export = export.name(), %error, "its size is not known");
            CloseCause::Protocol("the device failed")
        })?;
        Ok(Some(NegotiatedSession {
            attached,
            size,
            structured: self.structured,
            allocation: self.allocation.as_deref() == Some(name),
            reads_whole: false,
            settles: true,
            client: String::new(),
            memory: self.memory.clone(),
            reserved: None,
        }))
    }

    fn size_and_flags(&self, session: &NegotiatedSession, export: &Export) -> ExportSize {
        let of_replies = if self.structured {
            can::DONT_FRAGMENT
        } else {
            0
        };
        ExportSize {
            size: session.size.into(),
            flags: (export.flags() | of_replies).into(),
        }
    }

    fn contexts(&mut self, wanted: u32, data: &[u8]) -> Result<OptionOutcome> {
        let is_set = wanted == option::SET_META_CONTEXT;
        if is_set {
            self.allocation = None;
        }
        let Some((name, queries)) = context_request(data).filter(|_| self.structured) else {
            return self.refuse(wanted, answer::INVALID);
        };
        if self.exports.find(name).is_none() {
            return self.refuse(wanted, answer::UNKNOWN);
        }
        let asks_for_all = !is_set && (queries.is_empty() || queries.contains(&&b"base:"[..]));
        if asks_for_all || queries.contains(&ALLOCATION) {
            if is_set {
                self.allocation = Some(name.to_vec());
            }
            let id = U32::new(ALLOCATION_ID);
            let context = [id.as_bytes(), ALLOCATION].concat();
            self.answer(wanted, answer::META_CONTEXT, &context)?;
        }
        self.done(wanted)
    }
}

/// The name of an export, and what is wanted to be known about it.
fn export_request(data: &[u8]) -> Option<(&[u8], Vec<u16>)> {
    let mut fields = FieldReader(data);
    let name = fields.counted()?;
    let count = fields.u16()?;
    let infos: Option<Vec<u16>> = (0..count).map(|_| fields.u16()).collect();
    fields.0.is_empty().then_some((name, infos?))
}

/// The name of an export, and queries for contexts.
fn context_request(data: &[u8]) -> Option<(&[u8], Vec<&[u8]>)> {
    let mut fields = FieldReader(data);
    let name = fields.counted()?;
    let count = fields.u32()?;
    let queries: Option<Vec<&[u8]>> = (0..count).map(|_| fields.counted()).collect();
    fields.0.is_empty().then_some((name, queries?))
}
