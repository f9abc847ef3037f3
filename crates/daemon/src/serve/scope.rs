//! The scope of a token: which commands it is for, and whether it may change something. The dataset of a scope is checked
//! where permissions are (`ActivePool::allows`).

use protocol::api::{Command, CommandDefinition, Effect};

use crate::failure::Result;
use crate::host::callers::users::Peer;
use crate::serve::authorize::refused;

/// Refuses a command that is not in the scope of the caller's token.
pub(super) fn check(peer: &Peer, command: &Command) -> Result<()> {
    let Some(token) = &peer.token else {
        return Ok(());
    };
    // The HTTP API asks this of every caller.
    if matches!(command, Command::Whoami) {
        return Ok(());
    }
    let scope = &token.scope;
    if scope.read_only && command.effect() == Effect::Changes {
        return Err(refused("the token is for reading only"));
    }
    if !scope.commands.is_empty() && !scope.commands.contains(&command.name()) {
        let names = scope.commands.join(", ");
        return Err(refused(&format!(
            "the token is for these commands: {names}"
        )));
    }
    // All others are about datasets, or for root alone, which this caller does not count as.
    let is_of_tokens = matches!(
        command,
        Command::TokenCreate(_) | Command::Tokens | Command::TokenRevoke(_)
    );
    match scope.dataset.is_some() && is_of_tokens {
        true => Err(refused("the token is for one dataset and those below it")),
        false => Ok(()),
    }
}
