//! Delegates and tenants: permissions and zones.

use protocol::api::{Reply, WhoKind, ZoneProfile};

use super::done;
use super::line::HistoryText;
use crate::serve::authorize::{self, below};
use crate::serve::zones::NameEffect;
use crate::state::zones::rules::refused;

serve!(
    Permissions,
    |_| NameEffect::AsItIs,
    |it| HistoryText::new("allow").word(&it.name),
    |it, check| check.something_of(&it.name),
    |_, _| Err(refused()),
    |it, daemon, _| daemon.permissions(&it.name).map(Reply::Permissions)
);

serve!(
    ChangePermissions,
    |_| NameEffect::AsItIs,
    |it| {
        let verb = if it.remove { "unallow" } else { "allow" };
        let kind = match it.kind {
            Some(WhoKind::User) => "-u",
            Some(WhoKind::Group) => "-g",
            Some(WhoKind::Everyone) => "-e",
            Some(WhoKind::Creator) => "-c",
            Some(WhoKind::Set) => "-s",
            None => "",
        };
        let is_named = !matches!(it.kind, Some(WhoKind::Everyone | WhoKind::Creator));
        let list = |words: &[String]| (!words.is_empty()).then(|| words.join(","));
        HistoryText::new(verb)
            .flag("-l", it.local && !it.below)
            .flag("-d", it.below && !it.local)
            .flag(kind, !kind.is_empty())
            .words(list(&it.who).filter(|_| is_named))
            .words(list(&it.permissions))
            .word(&it.name)
    },
    |it, check| {
        let own: Vec<&str> = it.permissions.iter().map(String::as_str).collect();
        // A set can have more tomorrow than the delegate who passes it on today.
        let is_set = own.iter().any(|permission| permission.starts_with('@'));
        if is_set || matches!(it.kind, Some(WhoKind::Set | WhoKind::Creator)) {
            return Err(authorize::refused(
                "permission sets and create-time permissions can be changed by root only",
            ));
        }
        if it.remove && own.is_empty() {
            return Err(authorize::refused("name what is to be allowed no longer"));
        }
        let (active, entry) = check.find(&it.name)?;
        for head in below(&active, &entry, it.below)? {
            check.need_of(&it.name, &active, &head, &["allow"])?;
            check.need_of(&it.name, &active, &head, &own)?;
        }
        Ok(())
    },
    |_, _| Err(refused()),
    |it, daemon, context| daemon.change_permissions(it, context).map(done)
);

root_only!(
    ZoneCreate,
    |it| HistoryText::new("zone create")
        .option("--alias", it.alias.as_ref())
        .option("--dataset", Some(&it.dataset))
        .option("--owner", it.owner.as_ref())
        .option(
            "--profile",
            (it.profile != ZoneProfile::None).then(|| it.profile.name())
        )
        .word(&it.name),
    |it, daemon, context| daemon.create_zone(it, context).map(done)
);

root_only!(
    ZoneSet,
    |it| HistoryText::new("zone set")
        .word(format!("file-mac-profile={}", it.profile.name()))
        .word(&it.name),
    |it, daemon, context| daemon.set_zone(it, context).map(done)
);

root_only!(
    ZoneDestroy,
    |it| HistoryText::new("zone destroy").word(&it.name),
    |it, daemon, context| daemon.destroy_zone(&it.name, context).map(done)
);

root_only!(Zones, |_| HistoryText::new("zone list"), |_, daemon, _| Ok(
    Reply::Zones(daemon.zone_rows())
));
