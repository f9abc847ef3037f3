//! The bytes that are said to a TPM and that it answers (TPM 2.0 Library, parts 2 and 3). Numbers are big-endian;
//! what has no fixed length has it before it, in two bytes. An answer may be a lie: it is decoded with a check of
//! every length.

use super::refusal::refusal;
use crate::{Error, Result};

/// Neither side says more than this at a time.
pub(crate) const MESSAGE_MAX: usize = 4096;
const HEADER_LEN: usize = 10;

const WITHOUT_SESSIONS: u16 = 0x8001;
const WITH_SESSIONS: u16 = 0x8002;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum TpmCommand {
    CreatePrimary = 0x131,
    Create = 0x153,
    Load = 0x157,
    Unseal = 0x15e,
    FlushContext = 0x165,
    LoadExternal = 0x167,
    PolicyAuthorize = 0x16a,
    PolicyAuthValue = 0x16b,
    ReadPublic = 0x173,
    StartAuthSession = 0x176,
    VerifySignature = 0x177,
    GetCapability = 0x17a,
    PcrRead = 0x17e,
    PolicyPcr = 0x17f,
    PolicyGetDigest = 0x189,
}

/// Bytes that are put together.
#[derive(Clone, Debug, Default)]
pub(crate) struct TpmBytes(pub(crate) Vec<u8>);

impl TpmBytes {
    pub(crate) fn u8(mut self, number: u8) -> TpmBytes {
        self.0.push(number);
        self
    }

    pub(crate) fn u16(self, number: u16) -> TpmBytes {
        self.raw(&number.to_be_bytes())
    }

    pub(crate) fn u32(self, number: u32) -> TpmBytes {
        self.raw(&number.to_be_bytes())
    }

    pub(crate) fn raw(mut self, bytes: &[u8]) -> TpmBytes {
        self.0.extend_from_slice(bytes);
        self
    }

    /// With its length before it.
    pub(crate) fn sized(self, bytes: &[u8]) -> TpmBytes {
        let len = u16::try_from(bytes.len()).expect("less than a message");
        self.u16(len).raw(bytes)
    }
}

/// A whole command: what it is about, who may do it, and its parameters.
pub(crate) fn command(
    code: TpmCommand,
    handles: &[u32],
    auth: Option<&[u8]>,
    params: &[u8],
) -> Vec<u8> {
    let mut body = TpmBytes::default();
    for handle in handles {
        body = body.u32(*handle);
    }
    let tag = match auth {
        None => WITHOUT_SESSIONS,
        Some(auth) => {
            body = body.u32(auth.len() as u32).raw(auth);
            WITH_SESSIONS
        }
    };
    let body = body.raw(params).0;
    let len = (HEADER_LEN + body.len()) as u32;
    TpmBytes::default()
        .u16(tag)
        .u32(len)
        .u32(code as u32)
        .raw(&body)
        .0
}

/// The authorization by a password, which is empty.
pub(crate) fn no_password() -> Vec<u8> {
    const PASSWORD: u32 = 0x4000_0009;
    TpmBytes::default()
        .u32(PASSWORD)
        .sized(&[])
        .u8(0)
        .sized(&[])
        .0
}

/// A reader of a response, field by field.
pub(crate) struct ResponseReader<'a>(pub(crate) &'a [u8]);

impl<'a> ResponseReader<'a> {
    pub(crate) fn raw(&mut self, len: usize) -> Result<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(len).ok_or_else(not_understood)?;
        self.0 = rest;
        Ok(bytes)
    }

    pub(crate) fn u8(&mut self) -> Result<u8> {
        Ok(self.raw(1)?[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16> {
        let bytes = self.raw(2)?;
        Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    pub(crate) fn u32(&mut self) -> Result<u32> {
        let bytes = self.raw(4)?;
        Ok(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    pub(crate) fn sized(&mut self) -> Result<&'a [u8]> {
        let len = self.u16()?;
        self.raw(usize::from(len))
    }
}

/// A command that was done.
#[derive(Debug)]
pub(crate) struct TpmResponse<'a> {
    /// 0 if the command makes none.
    pub(crate) handle: u32,
    pub(crate) params: &'a [u8],
    /// The authorization of the session in the response; empty without a session.
    pub(crate) auth: &'a [u8],
}

/// Reads the answer to a command.
pub(crate) fn answer(
    bytes: &[u8],
    has_handle: bool,
    has_sessions: bool,
) -> Result<TpmResponse<'_>> {
    let mut reader = ResponseReader(bytes);
    let (tag, len, code) = (reader.u16()?, reader.u32()?, reader.u32()?);
    if code != 0 {
        return Err(refusal(code));
    }
    let expected = if has_sessions {
        WITH_SESSIONS
    } else {
        WITHOUT_SESSIONS
    };
    if tag != expected || len as usize != bytes.len() {
        return Err(not_understood());
    }
    let handle = if has_handle { reader.u32()? } else { 0 };
    let params = match has_sessions {
        true => {
            let len = reader.u32()?;
            reader.raw(usize::try_from(len).map_err(|_| not_understood())?)?
        }
        false => std::mem::take(&mut reader.0),
    };
    Ok(TpmResponse {
        handle,
        params,
        auth: reader.0,
    })
}

/// The length of a response, from its first bytes.
pub(crate) fn answer_len(beginning: &[u8]) -> Option<usize> {
    let len = beginning.get(2..6)?.try_into().ok()?;
    usize::try_from(u32::from_be_bytes(len)).ok()
}

pub(crate) fn not_understood() -> Error {
    Error::Tpm("its answer cannot be understood".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_that_lie_are_refused() {
        let whole = |tag: u16, body: &[u8]| {
            let len = (HEADER_LEN + body.len()) as u32;
            TpmBytes::default().u16(tag).u32(len).u32(0).raw(body).0
        };
        let plain = whole(WITHOUT_SESSIONS, &[1, 2, 3, 4, 5]);
        let read = answer(&plain, true, false).unwrap();
        assert_eq!((read.handle, read.params), (0x0102_0304, &[5][..]));
        assert!(answer(&plain, true, true).is_err());
        assert!(answer(&plain[..14], true, false).is_err());
        assert!(answer(&[], true, false).is_err());
        let session = whole(WITH_SESSIONS, &[0, 0, 0, 1, 7, 8]);
        let read = answer(&session, false, true).unwrap();
        assert_eq!((read.params, read.auth), (&[7][..], &[8][..]));
        let long = whole(WITH_SESSIONS, &[0xff, 0xff, 0xff, 0xff, 7]);
        assert!(answer(&long, false, true).is_err());
        assert!(ResponseReader(&[0, 2, 1]).sized().is_err());
    }
}
