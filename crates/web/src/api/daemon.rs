//! Requests to the daemon, in the name of a caller.

use std::path::PathBuf;
use std::sync::Arc;

use protocol::api::{Ask, Command, Failure, FailureKind, Reply};
use protocol::client::{BAD_TOKEN, Client, Terminal};
use secret::Secret;

use super::secrets::Given;
use crate::http::Problem;

/// Who asks, and which daemon.
pub(crate) struct Caller {
    pub(crate) socket: PathBuf,
    /// Without it the caller is the user of this process.
    pub(crate) token: Option<Arc<Secret>>,
}

/// What a command replied, and what it had to say besides.
pub(crate) struct Told {
    pub(crate) reply: Reply,
    pub(crate) notices: Vec<String>,
}

impl Caller {
    /// Has a command done that asks for nothing.
    pub(crate) fn ask(&self, command: impl Into<Command>) -> Result<Reply, Problem> {
        let told = self.call(command.into(), Vec::new(), None)?;
        Ok(told.reply)
    }

    /// Has a command done, with these secrets.
    pub(crate) fn call(
        &self,
        command: Command,
        secrets: Vec<Given>,
        hash_memory: Option<u64>,
    ) -> Result<Told, Problem> {
        let mut answers = Answers {
            secrets,
            missing: None,
            notices: Vec::new(),
        };
        let client = self.connect()?.with_hash_memory(hash_memory);
        match client.call(command, &mut answers) {
            Ok(reply) => Ok(Told {
                reply,
                notices: answers.notices,
            }),
            Err(failure) => Err(match answers.missing {
                Some(ask) => Problem::SecretNeeded(failure, ask),
                None if failure.message == BAD_TOKEN => Problem::Login(failure.message),
                None => failure.into(),
            }),
        }
    }

    fn connect(&self) -> Result<Client, Problem> {
        Ok(Client::connect(&self.socket)?.with_token(self.token.clone()))
    }
}

/// Answers the daemon's questions with what came with the request.
struct Answers {
    secrets: Vec<Given>,
    /// The first question without an answer.
    missing: Option<Ask>,
    notices: Vec<String>,
}

impl Terminal for Answers {
    fn ask(&mut self, ask: &Ask) -> Result<Option<Secret>, Failure> {
        let fits = |given: &Given| {
            given
                .dataset
                .as_ref()
                .is_none_or(|name| *name == ask.dataset)
        };
        // A secret that was wrong is not tried again with the next one, which is for another question.
        if !ask.again
            && let Some(at) = self.secrets.iter().position(fits)
        {
            return Ok(Some(self.secrets.remove(at).secret));
        }
        let name = &ask.dataset;
        if ask.again {
            let why = format!("'{name}': the secret is wrong");
            return Err(Failure::new(FailureKind::WrongKey, why));
        }
        self.missing = Some(ask.clone());
        let why = format!("'{name}': a secret is needed; send it in 'secrets'");
        Err(Failure::new(FailureKind::NoKey, why))
    }

    fn notice(&mut self, text: &str) {
        self.notices.push(text.into());
    }
}
