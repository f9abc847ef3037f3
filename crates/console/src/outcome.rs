//! The result of a command.

use protocol::api::{Command, Failure, Reply};
use protocol::pages::ExitCode;
use serde::Serialize;

use crate::session::{Session, answer, unexpected};
use crate::show::json;
use crate::show::table::{self, Column};

/// The result of a command.
#[derive(Debug, Default)]
pub struct Outcome {
    /// For the standard output.
    pub text: String,
    /// The failures; the first decides the exit code.
    pub failures: Vec<Failure>,
    /// The exit code, if the kind of the first failure does not say it.
    pub exit_code: Option<u8>,
}

impl Outcome {
    /// An outcome without output.
    pub fn done() -> Outcome {
        Outcome::default()
    }

    /// An outcome with output.
    pub fn text(text: impl Into<String>) -> Outcome {
        Outcome {
            text: text.into(),
            ..Outcome::default()
        }
    }

    /// A list: JSON, or a table with a row of these cells for each element.
    pub fn rows<R: Serialize>(
        rows: Vec<R>,
        as_json: bool,
        heads: &[Column],
        script: bool,
        cells: impl FnMut(R) -> Vec<String>,
    ) -> Outcome {
        if as_json {
            return Outcome::text(json::show(&rows));
        }
        let rows: Vec<Vec<String>> = rows.into_iter().map(cells).collect();
        Outcome::text(table::show(heads, &rows, script))
    }

    /// The outcome of a command that failed.
    pub fn failed(failure: Failure) -> Outcome {
        Outcome {
            failures: vec![failure],
            ..Outcome::default()
        }
    }

    /// The exit code of a failure, if there is more to read about it than its message.
    pub fn page(&self) -> Option<u8> {
        let failure = self.failures.first()?;
        let code = ExitCode::find(failure.kind.exit_code())?;
        (self.exit_code.is_none() && code.is_explained()).then_some(code.code)
    }

    /// Returns this outcome with an exit code of another program, whose options the command takes.
    pub fn with_exit_code(self, code: u8) -> Outcome {
        Outcome {
            exit_code: Some(code),
            ..self
        }
    }
}

/// The outcome of a command, or why it failed.
pub type Result<T = Outcome> = std::result::Result<T, Failure>;

/// Has something done that has nothing to show, but as JSON the names that it was done to.
pub fn call_quiet(session: &mut Session, command: impl Into<Command>) -> Result {
    match session.call(command)? {
        Reply::Names(names) if session.json => Ok(Outcome::text(json::show(&names))),
        Reply::Nothing | Reply::Names(_) => Ok(Outcome::done()),
        reply => Err(unexpected(&reply)),
    }
}

/// Asks for names.
pub fn call_names(session: &mut Session, command: impl Into<Command>) -> Result<Vec<String>> {
    match session.call(command)? {
        Reply::Nothing => Ok(Vec::new()),
        reply => answer!(reply, Names),
    }
}
