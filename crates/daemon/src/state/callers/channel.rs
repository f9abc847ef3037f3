//! The channel between a command and its caller, for any protocol.
//!
//! A front end for commands, such as the Unix socket, implements both traits. Operations use only these traits.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Duration;

use protocol::api::{Ask, Reply};
use secret::Secret;

use crate::failure::Result;

/// The caller of a command.
pub(crate) trait Channel {
    /// Asks for a secret; `None` if there will be none.
    fn ask(&mut self, ask: Ask) -> Result<Option<Secret>>;

    /// Tells the user something.
    fn notice(&mut self, text: String);

    /// Sends rows of the reply. More follow.
    fn rows(&mut self, rows: Reply) -> Result<()>;

    /// Lets time pass. Returns false, and earlier, if the caller has gone: then the command ends.
    fn pause(&mut self, time: Duration) -> bool;

    /// The data connection of the command. The daemon itself and callers without a connection have none.
    fn data(&self) -> Result<Arc<dyn DataChannel>>;
}

/// The named methods of a [`Channel`] to a caller without a connection: such a caller gets no rows and no data, and does
/// not go away.
macro_rules! without_connection {
    ($($method:ident)*) => {
        $($crate::state::callers::channel::without_connection! { @$method })*
    };
    (@rows) => {
        fn rows(&mut self, _: protocol::api::Reply) -> $crate::failure::Result<()> {
            let message = "this command needs a connection for its rows";
            Err($crate::failure::Failure::other(message))
        }
    };
    (@pause) => {
        fn pause(&mut self, time: std::time::Duration) -> bool {
            std::thread::sleep(time);
            true
        }
    };
    (@data) => {
        fn data(
            &self,
        ) -> $crate::failure::Result<std::sync::Arc<dyn $crate::state::callers::channel::DataChannel>>
        {
            let message = "this command needs a connection for its data";
            Err($crate::failure::Failure::other(message))
        }
    };
}
pub(crate) use without_connection;

/// A prompt for commands without a person to ask.
#[derive(Default)]
pub(crate) struct NonInteractive {
    pub(crate) notices: Vec<String>,
}

impl NonInteractive {
    /// Logs the notices that a person would have seen.
    pub(crate) fn log(&self) {
        for notice in &self.notices {
            tracing::warn!(notice, "at start");
        }
    }
}

impl Channel for NonInteractive {
    fn ask(&mut self, _: Ask) -> Result<Option<Secret>> {
        Ok(None)
    }

    fn notice(&mut self, text: String) {
        self.notices.push(text);
    }

    without_connection!(rows pause data);
}

/// The data of one command: a stream, or the requests to a borrowed device.
pub(crate) trait DataChannel: Send + Sync {
    /// Tells the caller to send a stream, and returns a reader of it.
    fn reader(&self) -> io::Result<Box<dyn Read + '_>>;

    /// A writer that sends a stream to the caller.
    fn writer(&self) -> Box<dyn StreamWriter + '_>;

    /// Bytes in both directions, for the protocol of borrowed devices.
    fn dialogue(&self) -> Box<dyn Dialogue + '_>;

    /// Closes both directions, as if the caller had disconnected. A waiting reader or writer gets an error or the end.
    fn break_off(&self);

    /// Returns whether the caller has gone.
    fn is_gone(&self) -> bool;
}

/// Sends a stream.
pub(crate) trait StreamWriter: Write {
    /// Ends the stream.
    fn end(self: Box<Self>) -> io::Result<()>;
}

/// Bytes in both directions.
pub(crate) trait Dialogue: Read + Write {}

impl<T: Read + Write> Dialogue for T {}
