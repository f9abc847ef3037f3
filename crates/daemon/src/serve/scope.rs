//! The scope of a token: which commands it is for, and whether it may change something. The dataset of a scope is checked
//! where permissions are (`ActivePool::allows`).

use protocol::api::Command;

use crate::failure::Result;
use crate::host::callers::users::Peer;
use crate::serve::authorize::refused;

/// The effect of a command, for tokens that only read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// The command shows something, or sends a copy.
    Reads,
    /// The command changes data, settings, keys, mounts or other users' access.
    Changes,
}

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
    if scope.read_only && effect(command) == Effect::Changes {
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

/// The effect of a command. A new command has to be entered here.
pub(super) fn effect(command: &Command) -> Effect {
    match command {
        Command::DaemonStatus
        | Command::Metrics
        | Command::Whoami
        | Command::Mounts
        | Command::Zones
        | Command::NbdExports
        | Command::IscsiExports
        | Command::IscsiSessions
        | Command::Tokens
        | Command::HaStatus(_)
        | Command::LuksStatus(_)
        | Command::PoolImportable(_)
        | Command::PoolStatus(_)
        | Command::PoolIo(_)
        | Command::PoolFeatures(_)
        | Command::PoolHistory(_)
        | Command::KeyGenerations(_)
        | Command::KeySlots(_)
        | Command::KeyStatus(_)
        | Command::Holds(_)
        | Command::Get(_)
        | Command::Diff(_)
        | Command::Permissions(_)
        | Command::Inspect(_)
        | Command::Anchor(_)
        | Command::AnchorVerify(_)
        | Command::Send(_) => Effect::Reads,
        Command::PoolEvents(events) if !events.clear => Effect::Reads,
        Command::PoolEvents(_)
        | Command::AnchorAccept(_)
        | Command::Home(_)
        | Command::DaemonStop
        | Command::DaemonStopForced
        | Command::NbdExport(_)
        | Command::NbdUnexport(_)
        | Command::NbdAttach(_)
        | Command::NbdDetach(_)
        | Command::IscsiExport(_)
        | Command::IscsiUnexport(_)
        | Command::IscsiKick(_)
        | Command::HaStart(_)
        | Command::HaStop(_)
        | Command::HaVerify(_)
        | Command::HaCheck(_)
        | Command::LuksOpen(_)
        | Command::LuksClose(_)
        | Command::LuksRefresh(_)
        | Command::LuksResize(_)
        | Command::LuksReencrypt(_)
        | Command::LuksSuspend(_)
        | Command::LuksResume(_)
        | Command::LuksBorrow(_)
        | Command::PoolCreate(_)
        | Command::PoolImport(_)
        | Command::PoolExport(_)
        | Command::PoolDestroy(_)
        | Command::PoolDevices(_)
        | Command::PoolSplit(_)
        | Command::PoolReguid(_)
        | Command::PoolSync(_)
        | Command::PoolSweep(_)
        | Command::PoolCheckpoint(_)
        | Command::PoolScrub(_)
        | Command::PoolLabelClear(_)
        | Command::KeyLoad(_)
        | Command::KeyUnload(_)
        | Command::KeyChange(_)
        | Command::KeyRotate(_)
        | Command::KeyAdd(_)
        | Command::KeyRemove(_)
        // Wrapped keys outlive a later change of the passphrase.
        | Command::KeyBackup(_)
        | Command::KeyRestore(_)
        | Command::KeyAccept(_)
        | Command::Create(_)
        | Command::Prune(_)
        | Command::Destroy(_)
        | Command::DestroyLater(_)
        | Command::Shred(_)
        | Command::Clone(_)
        | Command::Promote(_)
        | Command::Hold(_)
        | Command::Release(_)
        | Command::Bookmark(_)
        | Command::DestroyBookmark(_)
        | Command::Receive(_)
        | Command::ReceiveAbandon(_)
        | Command::Rename(_)
        | Command::Set(_)
        | Command::Inherit(_)
        | Command::Snapshot(_)
        | Command::Rollback(_)
        | Command::Mount(_)
        | Command::Remount(_)
        | Command::Unmount(_)
        // To look for the first time begins to count.
        | Command::Userspace(_)
        | Command::ChangePermissions(_)
        | Command::ZoneCreate(_)
        | Command::ZoneSet(_)
        | Command::ZoneDestroy(_)
        | Command::TokenCreate(_)
        | Command::TokenRevoke(_) => Effect::Changes,
    }
}
