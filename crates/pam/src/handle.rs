//! The functions of libpam that the module uses. What is `unsafe` here is that calls go over C.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use secret::Secret;

/// The handle of a login in libpam.
#[repr(C)]
pub(crate) struct Raw {
    _opaque: [u8; 0],
}

type Cleanup = extern "C" fn(*mut Raw, *mut c_void, c_int);

// The declarations of <security/pam_modules.h>, <security/pam_ext.h> and <security/pam_modutil.h> of Linux-PAM.
unsafe extern "C" {
    fn pam_get_user(raw: *mut Raw, user: *mut *const c_char, prompt: *const c_char) -> c_int;
    fn pam_get_item(raw: *const Raw, item: c_int, value: *mut *const c_void) -> c_int;
    fn pam_set_item(raw: *mut Raw, item: c_int, value: *const c_void) -> c_int;
    fn pam_get_authtok(
        raw: *mut Raw,
        item: c_int,
        token: *mut *const c_char,
        prompt: *const c_char,
    ) -> c_int;
    fn pam_get_data(raw: *const Raw, name: *const c_char, data: *mut *const c_void) -> c_int;
    fn pam_set_data(
        raw: *mut Raw,
        name: *const c_char,
        data: *mut c_void,
        cleanup: Option<Cleanup>,
    ) -> c_int;
    fn pam_modutil_getpwnam(raw: *mut Raw, user: *const c_char) -> *mut libc::passwd;
    fn pam_syslog(raw: *const Raw, priority: c_int, format: *const c_char, ...);
    fn pam_prompt(
        raw: *mut Raw,
        style: c_int,
        response: *mut *mut c_char,
        format: *const c_char,
        ...
    ) -> c_int;
}

/// Return values, as <security/_pam_types.h> numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum ReturnCode {
    Success = 0,
    AuthErr = 7,
    AuthinfoUnavail = 9,
    UserUnknown = 10,
    SessionErr = 14,
    AuthtokErr = 20,
    Ignore = 25,
    Abort = 26,
}

/// A passphrase that PAM has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PamItem {
    Current,
    Old,
}

impl PamItem {
    fn number(self) -> c_int {
        match self {
            PamItem::Current => 6,
            PamItem::Old => 7,
        }
    }
}

/// Flags of a call.
pub(crate) const SILENT: c_int = 0x8000;
pub(crate) const PRELIM_CHECK: c_int = 0x4000;

const ERROR_MESSAGE: c_int = 3;

/// The longest passphrase: the longest answer of PAM.
const PASSPHRASE_MAX: usize = 512;

/// A user of the machine.
#[derive(Clone, Debug)]
pub(crate) struct UserAccount {
    pub(crate) name: String,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) home: PathBuf,
}

/// The data that the module keeps between calls.
#[derive(Debug, Default)]
pub(crate) struct SessionData {
    /// The passphrase, from the authentication to the session.
    pub(crate) passphrase: Option<Secret>,
    /// The guid of the dataset that the passphrase opens.
    pub(crate) dataset: Option<u64>,
    /// True if the session is counted.
    pub(crate) is_counted: bool,
}

/// A login.
pub(crate) struct Handle {
    pub(crate) raw: *mut Raw,
}

impl Handle {
    /// The user. Names that no machine has are refused.
    pub(crate) fn account(&self) -> Option<UserAccount> {
        let mut name = std::ptr::null();
        // SAFETY: `raw` is the handle of this call; `name` is written and points into libpam's memory.
        let code = unsafe { pam_get_user(self.raw, &raw mut name, std::ptr::null()) };
        if code != 0 || name.is_null() {
            return None;
        }
        // SAFETY: libpam gave a string that ends with a zero byte, and lives as long as the handle.
        let text = unsafe { CStr::from_ptr(name) }.to_str().ok()?.to_owned();
        let is_name = |c: char| !c.is_control() && !matches!(c, '/' | ':' | ' ');
        let is_usual = !text.is_empty() && text.len() <= 256 && !text.starts_with('-');
        if !is_usual || !text.chars().all(is_name) {
            return None;
        }
        // SAFETY: as above. The result belongs to libpam, and lives as long as the handle.
        let found = unsafe { pam_modutil_getpwnam(self.raw, name).as_ref() }?;
        if found.pw_dir.is_null() {
            return None;
        }
        // SAFETY: a string of the entry, not null.
        let home = unsafe { CStr::from_ptr(found.pw_dir) };
        let home = PathBuf::from(std::ffi::OsStr::from_bytes(home.to_bytes()));
        home.is_absolute().then_some(UserAccount {
            name: text,
            uid: found.pw_uid,
            gid: found.pw_gid,
            home,
        })
    }

    /// A passphrase that PAM has already.
    pub(crate) fn known(&self, item: PamItem) -> Option<Secret> {
        let mut token = std::ptr::null();
        // SAFETY: `token` is written, and points to a string of libpam or is null.
        let code = unsafe { pam_get_item(self.raw, item.number(), &raw mut token) };
        (code == 0).then(|| copy(token.cast())).flatten()
    }

    /// A passphrase that PAM has, or else the user types. A new one is typed twice.
    pub(crate) fn ask(&self, item: PamItem, prompt: Option<&CStr>) -> Option<Secret> {
        let mut token = std::ptr::null();
        let prompt = prompt.map_or(std::ptr::null(), CStr::as_ptr);
        // SAFETY: `prompt` is a string or null; `token` is written, and points to a string of libpam or is null.
        let code = unsafe { pam_get_authtok(self.raw, item.number(), &raw mut token, prompt) };
        (code == 0).then(|| copy(token)).flatten()
    }

    /// Has PAM forget a passphrase, so that the user is asked.
    pub(crate) fn forget(&self, item: PamItem) {
        // SAFETY: null removes the item.
        let _ = unsafe { pam_set_item(self.raw, item.number(), std::ptr::null()) };
    }

    /// Uses what the module kept in an earlier call for this user.
    pub(crate) fn with_kept<T>(&self, use_it: impl FnOnce(&mut SessionData) -> T) -> Option<T> {
        let mut data = std::ptr::null();
        // SAFETY: the name is a string; `data` is written with what `keep` gave, or not at all.
        let code = unsafe { pam_get_data(self.raw, NAME.as_ptr(), &raw mut data) };
        let data = data.cast_mut().cast::<SessionData>();
        let kept = match code {
            // SAFETY: only `keep` sets this name, with a `SessionData` that `clean_up` frees. One call of the module has the
            // handle at a time, and `use_it` has no handle.
            0 => unsafe { data.as_mut() },
            _ => None,
        };
        kept.map(use_it)
    }

    /// Keeps this for later calls, in the place of what was kept.
    pub(crate) fn keep(&self, kept: SessionData) -> bool {
        let data = Box::into_raw(Box::new(kept)).cast::<c_void>();
        // SAFETY: `data` is a `SessionData` of a box; libpam calls `clean_up` with it once.
        let code = unsafe { pam_set_data(self.raw, NAME.as_ptr(), data, Some(clean_up)) };
        if code != 0 {
            clean_up(self.raw, data, 0);
        }
        code == 0
    }

    /// Writes to the system's log.
    pub(crate) fn log(&self, priority: c_int, text: &str) {
        if let Ok(text) = CString::new(text) {
            // SAFETY: the format has one `%s`, for one string.
            unsafe { pam_syslog(self.raw, priority, c"%s".as_ptr(), text.as_ptr()) };
        }
    }

    /// Tells the user something.
    pub(crate) fn say(&self, text: &str) {
        if let Ok(text) = CString::new(text) {
            let none = std::ptr::null_mut();
            // SAFETY: the format has one `%s`, for one string. A message has no response.
            unsafe { pam_prompt(self.raw, ERROR_MESSAGE, none, c"%s".as_ptr(), text.as_ptr()) };
        }
    }
}

const NAME: &CStr = c"strongroom";

extern "C" fn clean_up(_: *mut Raw, data: *mut c_void, _: c_int) {
    let data = data.cast::<SessionData>();
    if !data.is_null() {
        // SAFETY: `keep` made it of a box, and libpam gives it back once.
        let kept = unsafe { Box::from_raw(data) };
        let _ = catch_unwind(AssertUnwindSafe(|| drop(kept)));
    }
}

/// Copies a passphrase of libpam. One that is too long is none.
fn copy(token: *const c_char) -> Option<Secret> {
    if token.is_null() {
        return None;
    }
    // SAFETY: a string of libpam, which stays until the item changes; nothing changes it here.
    let bytes = unsafe { CStr::from_ptr(token) }.to_bytes();
    // The program reads lines.
    let fits = bytes.len() <= PASSPHRASE_MAX && !bytes.contains(&b'\n');
    fits.then(|| Secret::from_slice(bytes).ok()).flatten()
}
