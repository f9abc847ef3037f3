//! The reason why a file is left out.

use std::io;

use protocol::api::FailureKind;
use rustix::io::Errno;

/// The reason why an entry is left out.
#[derive(Debug)]
pub(crate) struct Trouble {
    pub(crate) why: String,
    pub(crate) kind: FailureKind,
    /// The reason holds for all other files too.
    pub(crate) is_end: bool,
}

pub(crate) type Result<T> = std::result::Result<T, Trouble>;

impl Trouble {
    pub(crate) fn new(why: impl Into<String>) -> Trouble {
        Trouble {
            why: why.into(),
            kind: FailureKind::Other,
            is_end: false,
        }
    }

    /// The target refused something.
    pub(crate) fn of(what: &str, error: impl Into<io::Error>) -> Trouble {
        let error = error.into();
        let errno = Errno::from_io_error(&error);
        // A target that is full, read-only or not mounted any more is so for all files.
        let is_full = matches!(errno, Some(Errno::NOSPC | Errno::DQUOT));
        let is_gone = matches!(
            errno,
            Some(Errno::ROFS | Errno::NOTCONN | Errno::CONNABORTED)
        );
        Trouble {
            why: format!("{what}: {error}"),
            kind: match is_full {
                true => FailureKind::NoSpace,
                false => FailureKind::Other,
            },
            is_end: is_full || is_gone,
        }
    }

    /// The source refused something. Another part of it may be readable.
    fn of_source(what: &str, error: impl Into<io::Error>) -> Trouble {
        Trouble::new(format!("{what}: {}", error.into()))
    }

    pub(crate) fn interrupted() -> Trouble {
        Trouble {
            is_end: true,
            ..Trouble::new("interrupted; run the command again to go on")
        }
    }
}

/// Puts what was tried before an error.
pub(crate) trait TroubleContext<T> {
    fn context(self, what: &str) -> Result<T>;
    /// The same, for an error of the source.
    fn of_source(self, what: &str) -> Result<T>;
}

impl<T, E: Into<io::Error>> TroubleContext<T> for std::result::Result<T, E> {
    fn context(self, what: &str) -> Result<T> {
        self.map_err(|error| Trouble::of(what, error))
    }

    fn of_source(self, what: &str) -> Result<T> {
        self.map_err(|error| Trouble::of_source(what, error))
    }
}
