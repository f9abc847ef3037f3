//! The entry points, which libpam calls.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::handle::{Handle, Raw, ReturnCode};
use crate::hooks;

/// A hook of the module.
type Hook = fn(&Handle, &[&str], c_int) -> ReturnCode;

/// Calls a hook. A panic must not go on into the program that loaded the module.
///
/// # Safety
/// `raw` is a handle of libpam, and `argv` has `argc` strings, as libpam calls modules.
unsafe fn call(
    hook: Hook,
    raw: *mut Raw,
    flags: c_int,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    let count = usize::try_from(argc).unwrap_or(0);
    if raw.is_null() || (count > 0 && argv.is_null()) {
        return ReturnCode::Abort as c_int;
    }
    let words = (0..count).filter_map(|at| {
        // SAFETY: `argv` has `count` strings, which live during the call.
        let word = unsafe { CStr::from_ptr(*argv.add(at)) };
        word.to_str().ok()
    });
    let words: Vec<&str> = words.collect();
    let handle = Handle { raw };
    let called = catch_unwind(AssertUnwindSafe(|| hook(&handle, &words, flags)));
    called.unwrap_or(ReturnCode::Abort) as c_int
}

macro_rules! entry_points {
    ($($name:ident => $hook:expr;)*) => {$(
        /// An entry point of a PAM module.
        ///
        /// # Safety
        /// Only libpam calls it.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            raw: *mut Raw,
            flags: c_int,
            argc: c_int,
            argv: *const *const c_char,
        ) -> c_int {
            // SAFETY: libpam calls with its handle and the arguments of the line.
            unsafe { call($hook, raw, flags, argc, argv) }
        }
    )*};
}

entry_points! {
    pam_sm_authenticate => hooks::authenticate;
    pam_sm_setcred => hooks::set_credentials;
    pam_sm_open_session => hooks::open_session;
    pam_sm_close_session => hooks::close_session;
    pam_sm_chauthtok => hooks::change_passphrase;
}
