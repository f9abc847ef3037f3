//! Sending and receiving.

use pool::ResumeToken;
use protocol::api::{ReceiveName, Reply, SendScope, command};

use super::done;
use crate::host::callers::users::Peer;
use crate::serve::authorize::{PermissionCheck, only_root};
use crate::serve::zones::NameEffect;
use crate::state::zones::rules::{denied, refused};

serve!(
    Send,
    |_| NameEffect::AsItIs,
    // Where the stream goes on from may be another dataset's. So a delegate names the dataset with a token.
    |it, check| {
        let (name, from, replicate) = match &it.what {
            SendScope::Snapshot {
                name,
                from,
                replicate,
                ..
            } => (name, from, replicate),
            SendScope::Rest { of: None, .. } => return Err(only_root()),
            SendScope::Rest {
                token,
                of: Some(name),
            } => {
                // The token decides whether the contents are opened.
                let is_raw = ResumeToken::parse(token).is_some_and(|token| !token.plain);
                let needed: &[&str] = match is_raw && check.is_sealed(name) {
                    true => &["send"],
                    false => &["send", "key"],
                };
                return check.need(name, needed);
            }
        };
        if *replicate {
            return check.send_below(name, it.raw);
        }
        // A caller who may not have the contents opened can send them as long as they are sealed.
        let needed: &[&str] = match it.raw && check.is_sealed(name) {
            true => &["send"],
            false => &["send", "key"],
        };
        check.need(name, needed)?;
        match from.as_ref().filter(|from| !from.starts_with(['@', '#'])) {
            Some(from) => check.need(from, needed),
            None => Ok(()),
        }
    },
    // Whether the keys that go with it are the tenant's is looked at when they are known: [`ZoneView::may_send`].
    |it, view| view.send(&mut it.what),
    |it, daemon, context| {
        if it.estimate {
            return daemon.estimate(it, context).map(Reply::Streams);
        }
        daemon.send(it, context).map(done)
    }
);

serve!(
    Receive,
    |_| NameEffect::AsItIs,
    |it, check| {
        if it.naming != ReceiveName::Exact {
            // Each name is decided on when it comes.
            return check.need(&it.target, &["receive"]);
        }
        check.receive(&it.target)?;
        let (at, is_there) = check.receives_at(&it.target)?;
        if it.force && is_there {
            check.need(at, &["rollback", "destroy"])?;
        }
        check.properties(at, &it.props)
    },
    |it, view| {
        if it.naming != ReceiveName::Exact {
            return Err(denied(
                "in a zone the dataset is named; leave out -d and -e",
            ));
        }
        view.receive(&mut it.target, it.resumable, &mut it.props)
    },
    |it, daemon, context| {
        // The stream names datasets, and the receive may make some of them.
        let may = |target: &str, is_own: bool, peer: &Peer| {
            let check = PermissionCheck::new(daemon, peer);
            match is_own {
                _ if peer.is_admin => Ok(()),
                true => check.receive_new(target),
                false => {
                    let exact = command::Receive {
                        target: target.into(),
                        naming: ReceiveName::Exact,
                        ..it.clone()
                    };
                    exact.authorize(&check)
                }
            }
        };
        let data = &context.channel.data()?;
        let received = daemon.receive(it, &may, data, context);
        received.map(Reply::Names)
    }
);

serve!(
    ReceiveAbandon,
    |_| NameEffect::AsItIs,
    |it, check| check.receive(&it.target),
    // A tenant's receive leaves nothing.
    |_, _| Err(refused()),
    |it, daemon, context| daemon.abandon_receive(&it.target, context).map(done)
);

serve!(
    Verify,
    |_| NameEffect::AsItIs,
    |it, check| check.each_named(&it.names, false, &mut |name, active, head| {
        // A proof of clear contents confirms a guess of them.
        match head.suite {
            0 => check.need_of(name, active, head, &["send", "key"]),
            _ => check.something(name, active, head),
        }
    }),
    // Seals and identities name more than what is a tenant's.
    |_, _| Err(refused()),
    |it, daemon, context| daemon.verify(it, context).map(Reply::Verified)
);

root_only! {
    // Marks of the state of a dataset name more than what is a tenant's.
    Anchor: |it, daemon, _| daemon.anchors(&it.names).map(Reply::Anchors);
    AnchorVerify: |it, daemon, _| daemon.check_anchors(&it.anchors).map(Reply::AnchorRows);
    AnchorAccept: |it, daemon, context| daemon.accept_states(&it.names, context).map(done);
}
