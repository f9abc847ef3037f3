//! Exports by NBD and iSCSI, and LUKS mappings.

use protocol::api::Reply;

use super::done;
use super::line::HistoryText;
use crate::state::exports::listen::Protocol;

root_only!(
    NbdExport,
    |it| HistoryText::new("nbd export").word(&it.device),
    |it, daemon, _| daemon.export_device(it).map(done)
);

root_only!(
    NbdUnexport,
    |it| HistoryText::new("nbd unexport")
        .flag("--force", it.force)
        .word(&it.name),
    |it, daemon, _| daemon.unexport(Protocol::Nbd, &it.name, it.force).map(done)
);

root_only!(
    NbdAttach,
    |it| HistoryText::new("nbd attach")
        .word(&it.device)
        .words(it.kernel.as_slice()),
    |it, daemon, _| Ok(Reply::Exports(vec![daemon.attach_device(it)?]))
);

root_only!(
    NbdDetach,
    |it| HistoryText::new("nbd detach")
        .flag("--force", it.force)
        .word(&it.device),
    |it, daemon, _| daemon.detach_device(&it.device, it.force).map(done)
);

root_only!(
    NbdExports,
    |_| HistoryText::new("nbd list"),
    |_, daemon, _| Ok(Reply::Exports(daemon.export_rows(Protocol::Nbd)))
);

root_only!(
    IscsiExport,
    |it| HistoryText::new("iscsi export").word(&it.device),
    |it, daemon, context| daemon.export_target(it, context.channel).map(done)
);

root_only!(
    IscsiUnexport,
    |it| HistoryText::new("iscsi unexport")
        .flag("--force", it.force)
        .word(&it.name),
    |it, daemon, _| daemon
        .unexport(Protocol::Iscsi, &it.name, it.force)
        .map(done)
);

root_only!(
    IscsiExports,
    |_| HistoryText::new("iscsi list"),
    |_, daemon, _| Ok(Reply::Exports(daemon.export_rows(Protocol::Iscsi)))
);

root_only!(
    IscsiSessions,
    |_| HistoryText::new("iscsi sessions"),
    |_, daemon, _| Ok(Reply::Sessions(daemon.session_rows()))
);

root_only!(
    IscsiKick,
    |it| HistoryText::new("iscsi sessions --kick")
        .word(it.number.to_string())
        .word(&it.target),
    |it, daemon, _| daemon.end_session(&it.target, it.number).map(done)
);

root_only!(
    HaStart,
    |it| HistoryText::new(if it.update { "ha update" } else { "ha start" }).word(&it.pool),
    |it, daemon, context| daemon.start_ha(&it.pool, it.update, context).map(done)
);

root_only!(
    HaStop,
    |it| HistoryText::new("ha stop").word(&it.pool),
    |it, daemon, context| daemon.stop_ha(&it.pool, context).map(done)
);

root_only!(
    HaVerify,
    |it| HistoryText::new("ha verify").word(&it.pool),
    |it, daemon, context| daemon.verify_ha(&it.pool, context).map(done)
);

root_only!(
    HaCheck,
    |it| HistoryText::new("ha check").word(&it.pool),
    |it, daemon, context| daemon.check_ha(it, context).map(done)
);

root_only!(
    HaStatus,
    |it| HistoryText::new("ha status").word(&it.pool),
    |it, daemon, _| daemon.ha_report(&it.pool).map(Reply::Ha)
);

root_only!(
    LuksOpen,
    |it| HistoryText::new("luks open")
        .flag("--persistent-open", it.at_start.is_some())
        .path(&it.device)
        .word(&it.name),
    |it, daemon, context| daemon.open_mapping(it, context.channel).map(done)
);

root_only!(
    LuksClose,
    |it| HistoryText::new("luks close").word(&it.name),
    |it, daemon, _| daemon.close_mapping(&it.name).map(done)
);

root_only!(
    LuksStatus,
    |it| HistoryText::new("luks status").words(&it.names),
    |it, daemon, _| daemon.mapping_rows(&it.names).map(Reply::Mappings)
);

root_only!(
    LuksRefresh,
    |it| HistoryText::new("luks refresh").word(&it.name),
    |it, daemon, _| daemon.change_mapping(&it.name, it).map(done)
);

root_only!(
    LuksResize,
    |it| HistoryText::new("luks resize").word(&it.name),
    |it, daemon, _| daemon.resize_mapping(&it.name, it.size).map(done)
);

root_only!(
    LuksReencrypt,
    |it| HistoryText::new("luks reencrypt").word(&it.name),
    |it, daemon, context| daemon.reencrypt_mapping(it, context.channel).map(done)
);

root_only!(
    LuksSuspend,
    |it| HistoryText::new("luks suspend").word(&it.name),
    |it, daemon, _| daemon.suspend_mapping(&it.name).map(done)
);

root_only!(
    LuksResume,
    |it| HistoryText::new("luks resume").word(&it.name),
    |it, daemon, context| daemon.resume_mapping(it, context.channel).map(done)
);

root_only!(
    LuksBorrow,
    |it| HistoryText::new("luks").path(&it.device),
    |it, daemon, context| daemon
        .lend(&it.device, it.how, &context.channel.data()?)
        .map(done)
);
