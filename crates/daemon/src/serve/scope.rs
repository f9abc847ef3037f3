//! The scope of a token: which commands it is for, and whether it may change something. The dataset of a scope is checked
//! where permissions are (`ActivePool::allows`).

use protocol::api::{Command, CommandDefinition, Effect, ReceiveName};

use crate::failure::Result;
use crate::host::callers::users::Peer;
use crate::serve::authorize::refused;

/// The properties that a token sees that only receives: what an incremental stream begins at, and how one goes on.
const OF_COPIES: [&str; 6] = [
    "name",
    "type",
    "guid",
    "createtxg",
    "receive_resume_token",
    "origin",
];

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
    if scope.receive_only {
        return check_receiver(command);
    }
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

/// Refuses all but what a sender needs: to list copies, to add to them, and to have them read. Its permissions are those of
/// [`crate::host::callers::scope::PeerToken::denies`] besides.
fn check_receiver(command: &Command) -> Result<()> {
    let is_of_copies = |name: &String| OF_COPIES.contains(&name.as_str());
    let why = match command {
        // What an interrupted receive left was never whole. A proof needs no key.
        Command::ReceiveAbandon(_) | Command::Verify(_) => return Ok(()),
        Command::Get(it) if !it.props.is_empty() && it.props.iter().all(is_of_copies) => {
            return Ok(());
        }
        Command::Get(_) => &format!("it sees these properties: {}", OF_COPIES.join(", ")),
        Command::Receive(it)
            if it.naming == ReceiveName::Exact
                && !it.force
                && it.no_mount
                && it.props.is_empty()
                && it.exclude.is_empty() =>
        {
            return Ok(());
        }
        Command::Receive(_) => {
            "it receives with no_mount, into the named dataset, and without other options"
        }
        _ => "it has no other command",
    };
    Err(refused(&format!("the token is for receiving only: {why}")))
}
