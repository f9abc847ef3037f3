//! Exports by NBD and iSCSI, devices of the kernel, and LUKS mappings.

use protocol::api::Reply;

use super::done;
use crate::state::exports::listen::Protocol;

root_only! {
    NbdExport: |it, daemon, _| daemon.export_device(it).map(done);
    NbdUnexport: |it, daemon, _| daemon.unexport(Protocol::Nbd, &it.name, it.force).map(done);
    NbdAttach: |it, daemon, _| Ok(Reply::Exports(vec![daemon.attach_device(it)?]));
    NbdDetach: |it, daemon, _| daemon.detach_device(&it.device, it.force).map(done);
    UblkAttach: |it, daemon, _| Ok(Reply::Exports(vec![daemon.attach_ublk(it)?]));
    UblkDetach: |it, daemon, _| daemon.detach_ublk(&it.device, it.force).map(done);
    UblkDevices: |_, daemon, _| Ok(Reply::Exports(daemon.export_rows(Protocol::Ublk)));
    NbdExports: |_, daemon, _| Ok(Reply::Exports(daemon.export_rows(Protocol::Nbd)));
    IscsiExport: |it, daemon, context| daemon.export_target(it, context.channel).map(done);
    IscsiUnexport: |it, daemon, _| daemon.unexport(Protocol::Iscsi, &it.name, it.force).map(done);
    IscsiExports: |_, daemon, _| Ok(Reply::Exports(daemon.export_rows(Protocol::Iscsi)));
    IscsiSessions: |_, daemon, _| Ok(Reply::Sessions(daemon.session_rows()));
    IscsiKick: |it, daemon, _| daemon.end_session(&it.target, it.number).map(done);
    HaStart: |it, daemon, context| daemon.start_ha(&it.pool, it.update, context).map(done);
    HaStop: |it, daemon, context| daemon.stop_ha(&it.pool, context).map(done);
    HaVerify: |it, daemon, context| daemon.verify_ha(&it.pool, context).map(done);
    HaCheck: |it, daemon, context| daemon.check_ha(it, context).map(done);
    HaStatus: |it, daemon, _| daemon.ha_report(&it.pool).map(Reply::Ha);
    LuksOpen: |it, daemon, context| daemon.open_mapping(it, context.channel).map(done);
    LuksClose: |it, daemon, _| daemon.close_mapping(&it.name).map(done);
    LuksStatus: |it, daemon, _| daemon.mapping_rows(&it.names).map(Reply::Mappings);
    LuksRefresh: |it, daemon, _| daemon.change_mapping(&it.name, it).map(done);
    LuksResize: |it, daemon, _| daemon.resize_mapping(&it.name, it.size).map(done);
    LuksReencrypt: |it, daemon, context| daemon.reencrypt_mapping(it, context.channel).map(done);
    LuksSuspend: |it, daemon, _| daemon.suspend_mapping(&it.name).map(done);
    LuksResume: |it, daemon, context| daemon.resume_mapping(it, context.channel).map(done);
    LuksBorrow: |it, daemon, context| daemon.lend(&it.device, it.how, &context.channel.data()?).map(done);
}
