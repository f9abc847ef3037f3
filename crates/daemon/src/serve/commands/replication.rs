//! Jobs that copy datasets.

use protocol::api::Reply;

use super::done;
use crate::serve::authorize::{PermissionCheck, refused};
use crate::serve::replication::{verify_copies, would_send};
use crate::serve::zones::NameEffect;
use crate::state::replication::target::ReplicationTarget;
use crate::state::zones::rules;

/// Refuses a token for one dataset: a job has the rights of its user, and its target is elsewhere.
fn whole_user(check: &PermissionCheck<'_>) -> crate::failure::Result<()> {
    match check.has_token_of_dataset() {
        false => Ok(()),
        true => Err(refused(
            "a job has the rights of its user, and this token reaches one dataset",
        )),
    }
}

serve!(
    ReplicateAdd,
    |_| NameEffect::AsItIs,
    |it, check| {
        whole_user(check)?;
        check.send_dataset(&it.source, it.recursive)?;
        check.need_below(&it.source, it.recursive, &["bookmark"])?;
        match ReplicationTarget::parse(&it.target) {
            Ok(ReplicationTarget::Local(target)) => check.receive(&target),
            // The other host decides. A target that is wrong is refused with its own words.
            _ => Ok(()),
        }
    },
    // A tenant sees no other pool, and the daemon's user is not the tenant.
    |_, _| Err(rules::refused()),
    |it, daemon, context| daemon.replicate_add(it, context).map(done)
);

serve!(
    ReplicateChange,
    |_| NameEffect::AsItIs,
    |it, check| {
        whole_user(check)?;
        check.need(&it.source, &["send"])
    },
    |_, _| Err(rules::refused()),
    |it, daemon, context| daemon.replicate_change(it, context).map(done)
);

serve!(
    ReplicateRun,
    |_| NameEffect::AsItIs,
    |it, check| {
        whole_user(check)?;
        check.need(&it.source, &["send"])
    },
    |_, _| Err(rules::refused()),
    |it, daemon, context| {
        let one = daemon.job_to_run(&it.name, &it.source, context)?;
        if it.dry_run {
            return would_send(daemon, one, context).map(Reply::Streams);
        }
        daemon.run_and_wait(&one.key(), context).map(done)
    }
);

serve!(
    ReplicateVerify,
    |_| NameEffect::AsItIs,
    |it, check| {
        whole_user(check)?;
        check.need(&it.source, &["send"])
    },
    |_, _| Err(rules::refused()),
    |it, daemon, context| {
        let one = daemon.job_to_run(&it.name, &it.source, context)?;
        verify_copies(daemon, one, it.newest, context).map(Reply::CopyReport)
    }
);

serve!(
    ReplicateDrilled,
    |_| NameEffect::AsItIs,
    |it, check| {
        whole_user(check)?;
        check.need(&it.source, &["send"])
    },
    |_, _| Err(rules::refused()),
    |it, daemon, context| daemon.note_drill(it, context).map(done)
);

serve!(
    ReplicateList,
    |_| NameEffect::AsItIs,
    |it, check| {
        whole_user(check)?;
        match it.names.is_empty() {
            true => check.something_anywhere(true),
            false => check.each_named(&it.names, false, &mut |name, active, head| {
                check.something(name, active, head)
            }),
        }
    },
    |_, _| Err(rules::refused()),
    |it, daemon, context| daemon
        .replications(&it.names, &context.peer)
        .map(Reply::Replications)
);
