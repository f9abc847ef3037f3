//! The error codes of a TPM, as errors in words.

use crate::Error;

pub(crate) const OTHER_PCRS: &str =
    "its PCRs do not have the values to which the key was sealed: the machine started otherwise";

/// The error of a response code. Those with bit 7 also say which handle, session or parameter they mean.
pub(crate) fn refusal(code: u32) -> Error {
    let kind = match code & 0x80 {
        0 => code,
        _ => code & 0xbf,
    };
    let reason = match kind {
        0x8e | 0xa2 => {
            return Error::TpmPin("the PIN, or the password of the TPM's owner, is wrong".into());
        }
        0x921 => {
            return Error::TpmLocked("it is locked after too many wrong PINs".into());
        }
        0x9d => OTHER_PCRS,
        0x8b | 0x9f => {
            "another TPM sealed the key, or this one was cleared, or what is stored is damaged"
        }
        0x9b => "another key made it, or it is damaged; sign again with the key of the token",
        0x84 | 0x8a | 0x92 | 0x95 | 0x9a => "it does not know what is stored; it may be damaged",
        0x902..=0x905 => "it has no memory for another key or session",
        0x100 => "it was not started by the firmware",
        _ => return Error::Tpm(format!("it answers with error {code:#x}")),
    };
    Error::Tpm(reason.into())
}

/// Returns whether the TPM wants the command again later.
pub(crate) fn is_busy(code: u32) -> bool {
    matches!(code, 0x908 | 0x90a | 0x922)
}
