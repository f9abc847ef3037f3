//! Delegates and tenants: permissions and zones.

use protocol::api::{Reply, WhoKind};

use super::done;
use crate::serve::authorize::{self, below};
use crate::serve::zones::NameEffect;
use crate::state::zones::rules::refused;

serve!(
    Permissions,
    |_| NameEffect::AsItIs,
    |it, check| check.something_of(&it.name),
    |_, _| Err(refused()),
    |it, daemon, _| daemon.permissions(&it.name).map(Reply::Permissions)
);

serve!(
    ChangePermissions,
    |_| NameEffect::AsItIs,
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

root_only! {
    ZoneCreate: |it, daemon, context| daemon.create_zone(it, context).map(done);
    ZoneSet: |it, daemon, context| daemon.set_zone(it, context).map(done);
    ZoneDestroy: |it, daemon, context| daemon.destroy_zone(&it.name, context).map(done);
    Zones: |_, daemon, _| Ok(Reply::Zones(daemon.zone_rows()));
}
