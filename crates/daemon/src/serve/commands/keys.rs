//! Keys.

use std::time::Instant;

use encoding::{hex, unhex};
use protocol::api::Reply;

use super::done;
use crate::failure::Failure;
use crate::serve::authorize::is_read;
use crate::serve::zones::{NameEffect, check_source};
use crate::state::zones::rules::refused;

serve!(
    KeyLoad,
    |_| NameEffect::Shared,
    |it, check| {
        check.all_named(&it.names)?;
        // The format does not matter here.
        let location = it.location.as_ref().filter(|text| *text != "prompt");
        let given = location.map(|location| format!("raw,{location}"));
        for source in [&it.keysource, &given] {
            if is_read(source.as_deref())? {
                check.need_all(&it.names, it.recursive, &["keysource"])?;
            }
        }
        check.need_all(&it.names, it.recursive, &["key"])
    },
    |it, view| {
        check_source(it.keysource.as_deref(), it.location.as_deref())?;
        view.all_own_keys(&mut it.names, it.recursive)
    },
    |it, daemon, context| daemon.key_load(it, context).map(done)
);

serve!(
    KeyUnload,
    |_| NameEffect::Shared,
    |it, check| {
        check.all_named(&it.names)?;
        check.need_all(&it.names, it.recursive, &["key"])
    },
    |it, view| view.unload_keys(&mut it.names, it.recursive),
    |it, daemon, context| daemon
        .key_unload(&it.names, it.recursive, it.force, context)
        .map(done)
);

serve!(
    KeyChange,
    |it| match it.inherit {
        true => NameEffect::Alone,
        false => NameEffect::Shared,
    },
    |it, check| check.change_key(&it.name, it.keysource.as_deref()),
    |it, view| view.change_key(&mut it.name, it.keysource.as_deref()),
    |it, daemon, context| {
        let (active, entry) = daemon.find(&it.name)?;
        active.change_key(&entry, it, context)?;
        active.tell_old_keys(context);
        Ok(Reply::Nothing)
    }
);

serve!(
    KeyRotate,
    |_| NameEffect::Shared,
    |it, check| check.need(&it.name, &["keychange"]),
    |it, view| view.rotate_key(&mut it.name),
    |it, daemon, context| daemon.key_rotate(&it.name, it.how, context).map(done)
);

/// The commands that show the slots and the data keys of a dataset.
macro_rules! shows_keys {
    ($command:ident, $rows:ident, $reply:ident) => {
        serve!(
            $command,
            |_| NameEffect::Shared,
            |it, check| check.something_of(&it.name),
            |it, view| view.own_keys(&mut it.name, false),
            |it, daemon, context| {
                let (active, entry) = daemon.find(&it.name)?;
                let entry = active.again(&entry, &it.name, context.decision)?;
                active.$rows(&entry).map(Reply::$reply)
            }
        );
    };
}

shows_keys!(KeyGenerations, generation_rows, Generations);
shows_keys!(KeySlots, slot_rows, Slots);

serve!(
    KeyAdd,
    |_| NameEffect::Shared,
    |it, check| check.change_key(&it.name, it.keysource.as_deref()),
    |it, view| view.change_key(&mut it.name, it.keysource.as_deref()),
    |it, daemon, context| {
        let (active, entry) = daemon.find(&it.name)?;
        active.add_slot(&entry, it, context).map(Reply::Slot)
    }
);

serve!(
    KeyRemove,
    |_| NameEffect::Shared,
    |it, check| check.change_key(&it.name, it.keysource.as_deref()),
    |it, view| view.change_key(&mut it.name, it.keysource.as_deref()),
    |it, daemon, context| {
        let (active, entry) = daemon.find(&it.name)?;
        let source = it.keysource.as_deref();
        active.remove_slot(&entry, it.slot, source, it.force, context)?;
        active.tell_old_keys(context);
        Ok(Reply::Nothing)
    }
);

root_only! {
    // The names are those of other users too.
    KeyTries: |_, daemon, _| Ok(Reply::WrongKeys(daemon.events.wrong_keys.rows(Instant::now())));
    // Copies of wrapped keys are about more than what is a tenant's.
    KeyBackup: |it, daemon, _| {
        let (active, entry) = daemon.find(&it.name)?;
        let backup = active.backup_keys(&entry)?;
        Ok(Reply::Backup(hex(&backup)))
    };
    KeyRestore: |it, daemon, context| {
        let (active, entry) = daemon.find(&it.name)?;
        let bytes = unhex(&it.backup)
            .ok_or_else(|| Failure::usage("the backup is not in hexadecimal digits"))?;
        let (source, origin) = (it.keysource.as_deref(), context.origin());
        let (decision, channel) = (context.decision, &mut *context.channel);
        let restored = active.restore_keys(&entry, &bytes, source, decision, &origin, channel);
        restored.map(Reply::Names)
    };
}

serve!(
    KeyAccept,
    |_| NameEffect::AsItIs,
    // It says what the daemon reads and runs.
    |it, check| {
        check.all_named(&it.names)?;
        check.need_all(&it.names, it.recursive, &["key", "keysource"])
    },
    |_, _| Err(refused()),
    |it, daemon, context| daemon
        .key_accept(&it.names, it.recursive, context)
        .map(done)
);

serve!(
    KeyStatus,
    |_| NameEffect::AsItIs,
    |it, check| {
        check.all_named(&it.names)?;
        check.each_named(&it.names, false, &mut |name, active, entry| {
            check.something(name, active, entry)
        })
    },
    |it, view| {
        if !it.names.is_empty() {
            return view.translate_names(&mut it.names);
        }
        it.names = view.encrypted()?;
        Ok(())
    },
    |it, daemon, context| match context.view {
        // Nothing in the zone is encrypted. Outside, no names are all datasets.
        Some(_) if it.names.is_empty() => Ok(Reply::Keys(Vec::new())),
        _ => daemon.key_status(&it.names).map(Reply::Keys),
    }
);
