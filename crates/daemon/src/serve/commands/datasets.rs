//! Datasets and their properties.

use std::collections::BTreeSet;

use protocol::api::{OwnerKind, Reply};

use super::done;
use crate::serve::authorize::one_by_one;
use crate::serve::zones::NameEffect;
use crate::state::callers::context::reach;
use crate::state::callers::row_stream::RowStream;
use crate::state::datasets::account_property::AccountProperty;
use crate::state::datasets::properties;
use crate::state::datasets::written_property::WrittenSince;
use crate::state::zones::rules::denied;

serve!(
    Create,
    |_| NameEffect::AsItIs,
    |it, check| {
        check.make(&it.name, &it.props, it.parents)?;
        match (it.volume, it.name.rsplit_once('/')) {
            // Space is reserved for it.
            (Some(volume), Some((above, _))) if !volume.sparse => {
                check.need(above, &["refreservation"])
            }
            _ => Ok(()),
        }
    },
    |it, view| {
        view.new_name(&mut it.name)?;
        if it.volume.is_some_and(|volume| !volume.sparse) {
            return Err(denied("only the global zone can reserve space; use -s"));
        }
        view.new_props(&it.name, &mut it.props)
    },
    |it, daemon, context| daemon.create(it, context).map(Reply::Names)
);

/// The two commands that destroy datasets.
macro_rules! destroys {
    ($command:ident, $destroy:ident $(, $reply:ident)?) => {
        serve!(
            $command,
            |_| NameEffect::Alone,
            |it, check| check.destroy(&it.name, reach(it.recursive, it.clones)),
            |it, view| view.destroy(&mut it.name, reach(it.recursive, it.clones)),
            |it, daemon, context| {
                let reach = reach(it.recursive, it.clones);
                daemon.$destroy(&it.name, reach, it.force, it.dry_run, context)$(.map(Reply::$reply))?
            }
        );
    };
}

destroys!(Destroy, destroy);
destroys!(Shred, shred, Shredded);

serve!(
    DestroyLater,
    |_| NameEffect::Alone,
    |it, check| check.defer(&it.name, it.recursive),
    |it, view| view.destroy(&mut it.name, it.recursive.into()),
    |it, daemon, context| daemon.destroy_later(it, context).map(Reply::Deferred)
);

serve!(
    Rename,
    |_| NameEffect::Alone,
    |it, check| {
        let (from, to) = (&it.from, &it.to);
        check.need_below(from, it.recursive, &["rename"])?;
        if it.parents {
            return Err(one_by_one());
        }
        match to.rsplit_once('/').filter(|_| !from.contains('@')) {
            None => Ok(()),
            Some((above, _)) => {
                // By force, all below are unmounted from who uses them.
                check.need_below(from, it.force, &["mount"])?;
                check.need(above, &["create", "mount"])
            }
        }
    },
    |it, view| view.rename(&mut it.from, &mut it.to, it.parents),
    |it, daemon, context| daemon.rename(it, context).map(done)
);

serve!(
    Get,
    |_| NameEffect::AsItIs,
    |it, check| {
        for since in it.props.iter().filter_map(|prop| WrittenSince::parse(prop)) {
            if let Some(name) = since.of_another() {
                let (active, entry) = check.find(name)?;
                check.something(name, &active, &entry)?;
            }
        }
        // What accounts have takes a permission on each dataset.
        let of_accounts = |prop: &&String| AccountProperty::parse(prop).is_some();
        if it.names.is_empty() {
            return check.something_anywhere(!it.props.iter().any(|prop| of_accounts(&prop)));
        }
        let props = it.props.iter().filter(of_accounts);
        let of_accounts: BTreeSet<&str> =
            props.map(|prop| properties::permission_for(prop)).collect();
        let of_accounts = Vec::from_iter(of_accounts);
        let looks_below = it.depth != Some(0) || it.snapshots || it.bookmarks;
        let is_there = |name: &&String| check.decides(name) == name.as_str();
        let (names, interrupted): (Vec<&String>, Vec<_>) = it.names.iter().partition(is_there);
        let names: Vec<String> = names.into_iter().cloned().collect();
        for name in interrupted {
            let above = check.decides(name);
            let (active, entry) = check.find(above)?;
            check.something(above, &active, &entry)?;
        }
        check.each_named(&names, looks_below, &mut |name, active, head| {
            check.something(name, active, head)?;
            check.need_of(name, active, head, &of_accounts)
        })
    },
    |it, view| {
        let since = |prop| WrittenSince::parse(prop).and_then(WrittenSince::of_another);
        if it.props.iter().any(|prop| since(prop).is_some()) {
            return Err(denied(
                "in a zone write written@SNAPSHOT, without the dataset",
            ));
        }
        if it.names.is_empty() {
            it.names.push(view.inward(&view.alias)?);
            return Ok(());
        }
        view.translate_names(&mut it.names)
    },
    |it, daemon, context| {
        let payer = context.payer();
        let (peer, view) = (&context.peer, context.view);
        let channel = &mut *context.channel;
        let seen = |rows| match view {
            Some(_) => rows,
            None => daemon.seen_by(peer, rows),
        };
        // Named datasets were checked.
        let may_see = |name: &str| !it.names.is_empty() || daemon.may_see(peer, name);
        let decision = context.decision;
        let mut rows = RowStream::new(payer, |rows| {
            channel.rows(Reply::Datasets(seen(rows)))?;
            // The caller may have let the answer wait.
            decision.again()
        });
        daemon.get(it, &may_see, &mut rows)?;
        let rest = rows.into_rest();
        Ok(Reply::Datasets(seen(rest)))
    }
);

serve!(
    Set,
    |_| NameEffect::AsItIs,
    |it, check| {
        check.each_named(&it.names, false, &mut |name, active, entry| {
            // Also where no property asks for a permission.
            check.something(name, active, entry)?;
            check.properties(name, &it.props)
        })
    },
    |it, view| {
        for name in &mut it.names {
            view.change(name)?;
            view.props(name, &it.props)?;
        }
        Ok(())
    },
    |it, daemon, context| daemon
        .set(&it.names, &it.props, it.force, context)
        .map(done)
);

serve!(
    Inherit,
    |_| NameEffect::AsItIs,
    |it, check| {
        let permission = properties::permission_for(&it.prop);
        check.need_all(&it.names, it.recursive, &[permission])
    },
    |it, view| {
        let prop = properties::whole_name(&it.prop)?;
        for name in &mut it.names {
            view.change(name)?;
            view.property(name, &prop)?;
        }
        Ok(())
    },
    |it, daemon, context| daemon
        .inherit(&it.names, &it.prop, it.recursive, context)
        .map(done)
);

serve!(
    Userspace,
    |_| NameEffect::AsItIs,
    |it, check| match it.kind {
        OwnerKind::User => check.need(&it.name, &["userused", "userobjused"]),
        OwnerKind::Group => check.need(&it.name, &["groupused", "groupobjused"]),
    },
    // To look for the first time begins to count.
    |it, view| view.change(&mut it.name),
    |it, daemon, context| daemon
        .userspace(&it.name, it.kind, it.check, context)
        .map(Reply::Accounts)
);
