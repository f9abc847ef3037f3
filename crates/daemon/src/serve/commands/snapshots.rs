//! Snapshots, clones and holds.

use pool::Reach;
use protocol::api::Reply;

use super::done;
use crate::serve::authorize::refused;
use crate::serve::zones::NameEffect;
use crate::state::callers::context::reach;
use crate::state::callers::row_stream::RowStream;
use crate::state::zones::rules;

serve!(
    Snapshot,
    |_| NameEffect::AsItIs,
    |it, check| check.need_all(&it.names, it.recursive, &["snapshot"]),
    |it, view| view.change_all(&mut it.names),
    |it, daemon, context| daemon
        .snapshot(&it.names, it.recursive, context)
        .map(Reply::Names)
);

serve!(
    Prune,
    |_| NameEffect::Alone,
    |it, check| check.need_all(&it.names, it.recursive, &["destroy", "mount"]),
    |it, view| view.change_all(&mut it.names),
    |it, daemon, context| daemon.prune(it, context).map(Reply::Names)
);

serve!(
    Rollback,
    |_| NameEffect::AsItIs,
    |it, check| {
        check.need(&it.name, &["rollback", "mount"])?;
        match reach(it.recursive, it.clones) {
            Reach::Named => Ok(()),
            Reach::Below => check.destroy_later(&it.name),
            // As in a zone: another clone could come to be before this is carried out.
            Reach::Clones => Err(refused("destroy the clones one by one, without -R")),
        }
    },
    |it, view| view.rollback(&mut it.name, it.clones),
    |it, daemon, context| daemon
        .rollback(&it.name, reach(it.recursive, it.clones), it.force, context)
        .map(done)
);

serve!(
    Clone,
    |_| NameEffect::Shared,
    |it, check| {
        check.need(&it.snapshot, &["clone"])?;
        check.make(&it.name, &it.props, it.parents)
    },
    |it, view| {
        view.translate_name(&mut it.snapshot)?;
        view.new_name(&mut it.name)?;
        view.clone(&it.snapshot, &it.name, &it.props, it.parents)?;
        view.new_props(&it.name, &mut it.props)
    },
    |it, daemon, context| daemon.clone_snapshot(it, context).map(done)
);

serve!(
    Promote,
    |_| NameEffect::Alone,
    |it, check| {
        let name = &it.name;
        check.need(name, &["promote", "mount"])?;
        let (active, entry) = check.find(name)?;
        match active.pool.entry(entry.origin) {
            Ok(origin) => check.need_of(name, &active, &origin, &["promote", "mount"]),
            // The command itself says that it is no clone.
            Err(_) => Ok(()),
        }
    },
    |it, view| view.promote(&mut it.name),
    |it, daemon, context| daemon.promote(&it.name, context).map(done)
);

serve!(
    Hold,
    |_| NameEffect::AsItIs,
    |it, check| {
        check.need_all(&it.names, it.recursive, &["hold"])?;
        match it.until {
            None => Ok(()),
            // Nobody ends it earlier, the owner of the pool included.
            Some(_) => check.need_all(&it.names, it.recursive, &["retention"]),
        }
    },
    |it, view| match it.until {
        None => view.change_all(&mut it.names),
        Some(_) => Err(rules::refused()),
    },
    |it, daemon, context| daemon
        .hold(&it.names, (&it.tag, it.until), it.recursive, context)
        .map(done)
);

serve!(
    Release,
    |_| NameEffect::AsItIs,
    |it, check| check.need_all(&it.names, it.recursive, &["release"]),
    |it, view| view.change_all(&mut it.names),
    |it, daemon, context| daemon
        .release(&it.names, &it.tag, it.recursive, context)
        .map(done)
);

serve!(
    Holds,
    |_| NameEffect::AsItIs,
    |it, check| {
        check.all_named(&it.names)?;
        check.each_named(&it.names, it.recursive, &mut |name, active, head| {
            check.something(name, active, head)
        })
    },
    |it, view| view.translate_names(&mut it.names),
    |it, daemon, context| {
        let payer = context.payer();
        let send = |rows| {
            context.channel.rows(Reply::Holds(rows))?;
            // The caller may have let the answer wait.
            context.decision.again()
        };
        let mut rows = RowStream::new(payer, send);
        daemon.holds(&it.names, it.recursive, &mut rows)?;
        Ok(Reply::Holds(rows.into_rest()))
    }
);

serve!(
    Bookmark,
    |_| NameEffect::AsItIs,
    |it, check| {
        check.need(&it.of, &["bookmark"])?;
        check.need(&it.name, &["bookmark"])
    },
    |it, view| {
        view.change(&mut it.of)?;
        view.change(&mut it.name)
    },
    |it, daemon, context| daemon.bookmark(&it.of, &it.name, context).map(done)
);

serve!(
    DestroyBookmark,
    |_| NameEffect::AsItIs,
    |it, check| check.need(&it.name, &["destroy"]),
    |it, view| view.change(&mut it.name),
    |it, daemon, context| daemon.destroy_bookmark(&it.name, context).map(done)
);

serve!(
    Diff,
    |_| NameEffect::AsItIs,
    |it, check| {
        check.need(&it.from, &["diff"])?;
        match it.to.as_ref().filter(|to| !to.starts_with('@')) {
            Some(to) => check.need(to, &["diff"]),
            None => Ok(()),
        }
    },
    |it, view| {
        view.translate_name(&mut it.from)?;
        match it.to.as_mut().filter(|to| !to.starts_with('@')) {
            Some(to) => view.translate_name(to),
            None => Ok(()),
        }
    },
    |it, daemon, context| daemon
        .diff(&it.from, it.to.as_deref(), context)
        .map(Reply::Diff)
);
