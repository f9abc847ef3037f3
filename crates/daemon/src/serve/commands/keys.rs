//! Keys.

use encoding::{hex, unhex};
use protocol::api::{Pbkdf, Reply, Rotation};

use super::done;
use super::line::{HistoryText, LEFT_OUT};
use crate::failure::Failure;
use crate::serve::authorize::is_read;
use crate::serve::zones::{NameEffect, check_source};
use crate::state::zones::rules::refused;

/// The priority of a key slot if none is given.
const USUAL_PRIORITY: u8 = 128;

serve!(
    KeyLoad,
    |_| NameEffect::Shared,
    |it| HistoryText::new("key load")
        .flag("-a", it.names.is_empty())
        .flag("-n", it.dry_run)
        .flag("-r", it.recursive)
        // What is no location may be anything.
        .option("-L", it.location.as_ref().map(|_| LEFT_OUT))
        .keysource(it.keysource.as_ref())
        .words(&it.names),
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
    |it| HistoryText::new("key unload")
        .flag("-a", it.names.is_empty())
        .flag("-f", it.force)
        .flag("-r", it.recursive)
        .words(&it.names),
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
    |it| HistoryText::new("key change")
        .flag("-i", it.inherit)
        .flag("--only", it.only)
        .option("--slot", it.slot.map(|slot| slot.to_string()))
        .option("--pbkdf", it.pbkdf.map(Pbkdf::name))
        .keysource(it.keysource.as_ref())
        .word(&it.name),
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
    |it| {
        let verb = match it.how {
            Rotation::New => "key -K",
            Rotation::Reencrypt => "key -K --reencrypt",
            Rotation::Pause => "key -K --pause",
            Rotation::Resume => "key -K --resume",
        };
        HistoryText::new(verb).word(&it.name)
    },
    |it, check| check.need(&it.name, &["keychange"]),
    |it, view| view.rotate_key(&mut it.name),
    |it, daemon, context| daemon.key_rotate(&it.name, it.how, context).map(done)
);

/// The commands that show the slots and the data keys of a dataset.
macro_rules! shows_keys {
    ($command:ident, $line:literal, $rows:ident, $reply:ident) => {
        serve!(
            $command,
            |_| NameEffect::Shared,
            |it| HistoryText::new($line).word(&it.name),
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

shows_keys!(
    KeyGenerations,
    "key generations",
    generation_rows,
    Generations
);
shows_keys!(KeySlots, "key slots", slot_rows, Slots);

serve!(
    KeyAdd,
    |_| NameEffect::Shared,
    |it| {
        let priority = (it.priority != USUAL_PRIORITY).then(|| it.priority.to_string());
        let line = HistoryText::new("key add").option("-p", priority);
        let line = line.option("--pbkdf", it.pbkdf.map(Pbkdf::name));
        line.keysource(it.keysource.as_ref()).word(&it.name)
    },
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
    |it| {
        let line = HistoryText::new("key remove").flag("-f", it.force);
        let line = line.keysource(it.keysource.as_ref()).word(&it.name);
        line.word(it.slot.to_string())
    },
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

// Copies of wrapped keys are about more than what is a tenant's.
root_only!(
    KeyBackup,
    |it| HistoryText::new("key backup").word(&it.name),
    |it, daemon, _| {
        let (active, entry) = daemon.find(&it.name)?;
        let backup = active.backup_keys(&entry)?;
        Ok(Reply::Backup(hex(&backup)))
    }
);

root_only!(
    KeyRestore,
    |it| HistoryText::new("key restore")
        .keysource(it.keysource.as_ref())
        .word(&it.name)
        .word(LEFT_OUT),
    |it, daemon, context| {
        let (active, entry) = daemon.find(&it.name)?;
        let bytes = unhex(&it.backup)
            .ok_or_else(|| Failure::usage("the backup is not in hexadecimal digits"))?;
        let (source, origin) = (it.keysource.as_deref(), context.origin());
        active
            .restore_keys(
                &entry,
                &bytes,
                source,
                context.decision,
                &origin,
                context.channel,
            )
            .map(Reply::Names)
    }
);

serve!(
    KeyAccept,
    |_| NameEffect::AsItIs,
    |it| HistoryText::new("key accept")
        .flag("-r", it.recursive)
        .words(&it.names),
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
    |it| HistoryText::new("key status").words(&it.names),
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
