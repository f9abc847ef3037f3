//! Mount units for datasets.
//!
//! systemd makes a unit of each line of fstab too. It orders local mounts before `local-fs.target`, and the daemon needs that
//! target, since pools lie on local file systems. So the mount would wait for itself. The unit here has the same name, no
//! such order, and a place before that one (`early`).

use std::fmt::Write;

use super::table::FieldLine;
use super::unit::{Unit, check, cleaned, path_name, value};

/// The advice about a line that has a unit: systemd takes it for a local mount that must not fail.
pub(super) fn warning(line: &FieldLine) -> Option<String> {
    let options = line.options(3);
    let is_harmless = ["_netdev", "nofail", "noauto", "x-systemd.automount"];
    let is_required = !is_harmless.iter().any(|word| options.contains(word));
    (line.field(2) == TYPE && is_required).then(|| {
        format!(
            "'{}' has neither _netdev nor nofail: if it cannot be mounted, systemd starts no more than a shell for \
             emergencies. Add _netdev",
            line.field(1)
        )
    })
}

/// The type in fstab.
const TYPE: &str = "strongroom";
const TARGET: &str = "remote-fs.target";

/// The unit of a line; none if the line is for others.
pub(super) fn unit(line: &FieldLine, source: &str) -> Result<Option<Unit>, String> {
    if !matches!(line.field(2), TYPE | "fuse.strongroom") {
        return Ok(None);
    }
    let (what, place) = (line.field(0), cleaned(line.field(1)));
    if !place.starts_with('/') || place.split('/').any(|part| part == "..") {
        return Err(format!("'{place}' is not the path of a directory"));
    }
    line.fields.iter().try_for_each(|field| check(field))?;
    let options = line.options(3);
    // An option may end a line of the unit, too.
    options.iter().try_for_each(|option| check(option))?;
    let has = |word: &str| options.contains(&word);
    let is_optional = has("nofail");
    let order = match is_optional {
        true => "umount.target".to_owned(),
        false => format!("umount.target {TARGET}"),
    };
    let mut text = format!(
        "# Made by strongroom-generator\n\
         [Unit]\n\
         SourcePath={source}\n\
         Documentation=man:fstab(5) man:strongroom-generate-systemd(1)\n\
         DefaultDependencies=no\n\
         Requires=strongroom.service\n\
         After=strongroom.service remote-fs-pre.target\n\
         Conflicts=umount.target\n\
         Before={order}\n",
        source = value(source)
    );
    let of_systemd = options
        .iter()
        .filter_map(|option| option.strip_prefix("x-systemd."));
    let (mut pulled_by, mut timeout) = (Vec::new(), None);
    for (name, units) in of_systemd.filter_map(|option| option.split_once('=')) {
        let units = &value(units);
        let _ = match name {
            "requires" => writeln!(text, "Requires={units}\nAfter={units}"),
            "wants" => writeln!(text, "Wants={units}\nAfter={units}"),
            "after" => writeln!(text, "After={units}"),
            "before" => writeln!(text, "Before={units}"),
            "requires-mounts-for" => writeln!(text, "RequiresMountsFor={units}"),
            "mount-timeout" => {
                timeout = Some(units.clone());
                Ok(())
            }
            "wanted-by" => {
                pulled_by.push(format!("{units}.wants"));
                Ok(())
            }
            "required-by" => {
                pulled_by.push(format!("{units}.requires"));
                Ok(())
            }
            _ => Ok(()),
        };
    }
    let _ = writeln!(
        text,
        "\n[Mount]\nWhat={}\nWhere={}\nType={TYPE}",
        value(what),
        value(&place)
    );
    let words = [
        "auto", "noauto", "nofail", "_netdev", "fail", "user", "nouser",
    ];
    let rest = options.iter().filter(|option| {
        !words.contains(option) && !option.starts_with("x-") && !option.starts_with("comment=")
    });
    let rest: Vec<String> = rest.map(|option| value(option)).collect();
    if !rest.is_empty() {
        let _ = writeln!(text, "Options={}", rest.join(","));
    }
    if let Some(timeout) = timeout {
        let _ = writeln!(text, "TimeoutSec={timeout}");
    }
    // An automount unit, which systemd makes of the same line, mounts at the first access.
    let is_manual = has("noauto") || has("x-systemd.automount");
    if !is_manual && pulled_by.is_empty() {
        let how = if is_optional { "wants" } else { "requires" };
        pulled_by.push(format!("{TARGET}.{how}"));
    }
    if let Some(wrong) = pulled_by.iter().find(|dir| dir.contains('/')) {
        return Err(format!("'{wrong}' is not the name of a unit"));
    }
    Ok(Some(Unit {
        name: format!("{}.mount", path_name(&place)),
        text,
        pulled_by,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::generate::table::lines;

    #[test]
    fn options_that_could_harm_are_found() {
        let joins = lines("tank/a /a strongroom x-systemd.requires=a\\,nofail")
            .next()
            .unwrap();
        assert!(unit(&joins, "fstab").is_err());
        let text = "tank/a /a strongroom noatime\ntank/a /a strongroom _netdev\nx /x ext4 noatime";
        let warned: Vec<bool> = lines(text).map(|line| warning(&line).is_some()).collect();
        assert_eq!(warned, [true, false, false]);
    }
}
