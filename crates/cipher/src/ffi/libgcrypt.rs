//! Twofish of libgcrypt. The library is loaded while the program runs, so that the program starts without it too.
//!
//! Of its interface five functions are used. They are the same in every version with this name (1.6 and later).

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::{NonNull, null, null_mut};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use super::evp::Direction;
use crate::{Error, Result};

// Of gcrypt.h.
const CONTROL_DISABLE_SECMEM: c_int = 37;
const CONTROL_INITIALIZATION_FINISHED: c_int = 38;
const CONTROL_INITIALIZATION_FINISHED_P: c_int = 39;
const CIPHER_TWOFISH: c_int = 10;
const CIPHER_TWOFISH128: c_int = 303;
const MODE_ECB: c_int = 1;

type CheckVersionFn = unsafe extern "C" fn(*const c_char) -> *const c_char;
type ControlFn = unsafe extern "C" fn(c_int, ...) -> c_uint;
type OpenFn = unsafe extern "C" fn(*mut *mut c_void, c_int, c_int, c_uint) -> c_uint;
type SetKeyFn = unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> c_uint;
type CryptFn =
    unsafe extern "C" fn(*mut c_void, *mut c_void, usize, *const c_void, usize) -> c_uint;
type CloseFn = unsafe extern "C" fn(*mut c_void);

/// The library, loaded and ready, for the life of the process.
pub(crate) struct Libgcrypt {
    /// The version of the library.
    pub(crate) version: String,
    open: OpenFn,
    set_key: SetKeyFn,
    encrypt: CryptFn,
    decrypt: CryptFn,
    close: CloseFn,
}

impl Libgcrypt {
    /// Loads the library with this file name from the places of the system's loader. None if it is missing, or is
    /// another library.
    pub(crate) fn load(name: &str) -> Option<&'static Libgcrypt> {
        // SAFETY: the initialisers of the library run. It comes from where the program's own libraries come from,
        // and is trusted as they are.
        let library = unsafe { Library::open(Some(name), RTLD_NOW | RTLD_LOCAL) }.ok()?;
        // SAFETY: these are the types of the functions in gcrypt.h. The number in the library's name stands for them.
        let (loaded, check_version, control) = unsafe {
            let loaded = Libgcrypt {
                version: String::new(),
                open: *library.get::<OpenFn>(b"gcry_cipher_open\0").ok()?,
                set_key: *library.get::<SetKeyFn>(b"gcry_cipher_setkey\0").ok()?,
                encrypt: *library.get::<CryptFn>(b"gcry_cipher_encrypt\0").ok()?,
                decrypt: *library.get::<CryptFn>(b"gcry_cipher_decrypt\0").ok()?,
                close: *library.get::<CloseFn>(b"gcry_cipher_close\0").ok()?,
            };
            let check_version = *library
                .get::<CheckVersionFn>(b"gcry_check_version\0")
                .ok()?;
            let control = *library.get::<ControlFn>(b"gcry_control\0").ok()?;
            (loaded, check_version, control)
        };
        // Never unloaded: the functions stay where they are.
        library.into_raw();
        // SAFETY: no version is required; what is returned is a static text, or null.
        let version = unsafe {
            let version = check_version(null());
            CStr::from_ptr(NonNull::new(version.cast_mut())?.as_ptr())
        };
        // SAFETY: the first of these takes no argument, the others take a number that they ignore. Secure memory is
        // switched off before the initialisation ends, and only if no other part of the process has done all this.
        unsafe {
            if control(CONTROL_INITIALIZATION_FINISHED_P) == 0 {
                control(CONTROL_DISABLE_SECMEM, 0);
                control(CONTROL_INITIALIZATION_FINISHED, 0);
            }
        }
        Some(Box::leak(Box::new(Libgcrypt {
            version: version.to_string_lossy().into_owned(),
            ..loaded
        })))
    }
}

/// An expanded key of Twofish, on the heap of the library, which overwrites it when it goes.
pub(crate) struct TwofishKey {
    library: &'static Libgcrypt,
    handle: NonNull<c_void>,
}

// SAFETY: a handle is memory of its own; the library ties nothing of it to a thread. It is not shared: every use
// takes `&mut`.
unsafe impl Send for TwofishKey {}

impl TwofishKey {
    /// Expands a key of 16 or 32 bytes. The library has no Twofish with 24.
    pub(crate) fn new(library: &'static Libgcrypt, key: &[u8]) -> Result<TwofishKey> {
        let algorithm = match key.len() {
            16 => CIPHER_TWOFISH128,
            32 => CIPHER_TWOFISH,
            _ => return Err(Error::Library),
        };
        let mut handle = null_mut();
        // SAFETY: the place of the handle is ours. The library was initialised.
        check(unsafe { (library.open)(&mut handle, algorithm, MODE_ECB, 0) })?;
        let handle = NonNull::new(handle).ok_or(Error::Library)?;
        let expanded = TwofishKey { library, handle };
        // SAFETY: the handle is open, and the key is readable for its length.
        check(unsafe { (library.set_key)(handle.as_ptr(), key.as_ptr().cast(), key.len()) })?;
        Ok(expanded)
    }

    /// Encrypts or decrypts each block where it is.
    pub(crate) fn run(&mut self, direction: Direction, blocks: &mut [[u8; 16]]) -> Result<()> {
        let crypt = match direction {
            Direction::Encrypt => self.library.encrypt,
            Direction::Decrypt => self.library.decrypt,
        };
        let (data, len) = (blocks.as_mut_ptr().cast(), blocks.as_flattened().len());
        // SAFETY: the handle is open and has a key; the data is writable for its length, whole blocks. Without an
        // input the library works in place.
        check(unsafe { crypt(self.handle.as_ptr(), data, len, null(), 0) })
    }
}

impl Drop for TwofishKey {
    fn drop(&mut self) {
        // SAFETY: the handle is open, and is not used after this.
        unsafe { (self.library.close)(self.handle.as_ptr()) }
    }
}

/// 0 is success here.
fn check(code: c_uint) -> Result<()> {
    match code {
        0 => Ok(()),
        _ => Err(Error::Library),
    }
}
