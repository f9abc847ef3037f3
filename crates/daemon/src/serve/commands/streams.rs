//! Sending and receiving.

use pool::ReceiveInto;
use protocol::api::{Reply, SendWhat};

use super::done;
use super::line::{LEFT_OUT, Line};
use crate::serve::authorize::only_root;
use crate::serve::zones::Names;
use crate::state::zones::rules::refused;

serve!(
    Send,
    |_| Names::AsItIs,
    |it| {
        let line = Line::new("send").flag("-p", it.props);
        let line = line.flag("-w", it.raw);
        match &it.what {
            SendWhat::Snapshot { name, from, all } => {
                let since = if *all { "-I" } else { "-i" };
                line.option(since, from.as_ref()).word(name)
            }
            SendWhat::Rest { .. } => line.word("-t").word(LEFT_OUT),
        }
    },
    // Where the stream goes on from may be another dataset's.
    |it, check| {
        let SendWhat::Snapshot { name, from, .. } = &it.what else {
            return Err(only_root());
        };
        // A caller who may not have the contents opened can send them as long as they are sealed.
        let needed: &[&str] = match it.raw && check.is_sealed(name) {
            true => &["send"],
            false => &["send", "key"],
        };
        check.need(name, needed)?;
        match from.as_ref().filter(|from| !from.starts_with('@')) {
            Some(from) => check.need(from, needed),
            None => Ok(()),
        }
    },
    // Whether the keys that go with it are the tenant's is looked at when they are known: [`View::may_send`].
    |it, view| view.send(&mut it.what),
    |it, daemon, context| {
        let data = &context.channel.data()?;
        let sent = daemon.send(&it.what, it.raw, it.props, data, context.view);
        sent.map(done)
    }
);

serve!(
    Receive,
    |_| Names::AsItIs,
    |it| {
        let mut exclude = it.exclude.clone();
        exclude.sort();
        let line = Line::new("receive")
            .flag("-F", it.force)
            .flag("-s", it.resumable)
            .props("-o", &it.props);
        let leave = |line: Line, name: String| line.option("-x", Some(name));
        exclude.into_iter().fold(line, leave).word(&it.target)
    },
    |it, check| {
        check.receive(&it.target)?;
        let (at, is_there) = check.receives_at(&it.target)?;
        if it.force && is_there {
            check.need(at, &["rollback", "destroy"])?;
        }
        check.properties(at, &it.props)
    },
    |it, view| view.receive(&mut it.target, it.resumable, &mut it.props),
    |it, daemon, context| {
        let into = ReceiveInto {
            target: &it.target,
            force: it.force,
            resumable: it.resumable,
            is_open: false,
        };
        let data = &context.channel.data()?;
        let received = daemon.receive(&into, &it.props, it.exclude.clone(), data, context);
        received.map(Reply::Names)
    }
);

serve!(
    ReceiveAbandon,
    |_| Names::AsItIs,
    |it| Line::new("receive -A").word(&it.target),
    |it, check| check.receive(&it.target),
    // A tenant's receive leaves nothing.
    |_, _| Err(refused()),
    |it, daemon, context| daemon.abandon_receive(&it.target, context).map(done)
);

// Marks of the state of a dataset name more than what is a tenant's.
root_only!(
    Anchor,
    |it| Line::new("anchor").words(&it.names),
    |it, daemon, _| daemon.anchors(&it.names).map(Reply::Anchors)
);

root_only!(
    AnchorVerify,
    |_| Line::new("anchor verify"),
    |it, daemon, _| daemon.check_anchors(&it.anchors).map(Reply::AnchorRows)
);
