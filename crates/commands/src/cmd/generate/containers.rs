//! Services that open LUKS containers in the daemon.

use std::fmt::Write;

use super::table::FieldLine;
use super::unit::{Unit, argument, check, cleaned, name, path_name, quoted, udev_name, value};

const TARGET: &str = "remote-fs.target";

/// The unit of a line of crypttab.
pub(super) fn unit(line: &FieldLine, source: &str, program: &str) -> Result<Unit, String> {
    line.fields.iter().try_for_each(|field| check(field))?;
    let (mapping, device, key) = (line.field(0), line.field(1), line.field(2));
    if device.is_empty() {
        return Err("a name and a device are needed".into());
    }
    let device = match device.split_once('=') {
        Some((tag @ ("UUID" | "LABEL" | "PARTUUID" | "PARTLABEL"), id)) => {
            let quotes = ['"', '\''].into_iter();
            let mut unquoted =
                quotes.filter_map(|quote| id.strip_prefix(quote)?.strip_suffix(quote));
            let id = udev_name(unquoted.next().unwrap_or(id));
            format!("/dev/disk/by-{}/{id}", tag.to_ascii_lowercase())
        }
        _ => cleaned(device),
    };
    let mut command = format!("{} luks open", argument(program));
    let mut add = |option: &str, text: &str| {
        let _ = write!(command, " {option} {}", argument(text));
    };
    let is_token = matches!(key, "" | "none" | "-");
    if !is_token {
        add("--key-file", key);
    }
    let (mut is_optional, mut is_manual) = (false, false);
    let mut signatures = None;
    let mut flags = if is_token { " --token-only" } else { "" }.to_owned();
    for option in line.options(3) {
        match option.split_once('=').unwrap_or((option, "")) {
            ("header", file) => add("--header", file),
            ("keyfile-offset", bytes) if !is_token => add("--keyfile-offset", bytes),
            ("keyfile-size", bytes) if !is_token => add("--keyfile-size", bytes),
            ("key-slot", slot) => add("--key-slot", slot),
            ("read-only" | "readonly", "") => flags += " --readonly",
            ("discard", "") => flags += " --allow-discards",
            ("no-read-workqueue", "") => flags += " --no-read-workqueue",
            ("no-write-workqueue", "") => flags += " --no-write-workqueue",
            ("nofail", "") => is_optional = true,
            ("noauto", "") => is_manual = true,
            ("luks" | "auto" | "_netdev" | "none" | "defaults", "") => {}
            // The token of the container is one of these.
            ("fido2-device" | "tpm2-device", "auto") if is_token => {}
            ("tpm2-signature", file) if is_token && file.starts_with('/') => {
                add("--tpm2-signature", file);
                signatures = Some(file);
            }
            _ => return Err(format!("the option {option} is not known")),
        }
    }
    command += &flags;
    let _ = write!(command, " -- {} {}", argument(&device), argument(mapping));
    let needs = match device.starts_with("/dev/") {
        true => {
            let unit = format!("{}.device", path_name(&device));
            format!("BindsTo={}\nAfter={}\n", value(&unit), value(&unit))
        }
        false if device.starts_with('/') => format!("RequiresMountsFor={}\n", quoted(&device)),
        false => String::new(),
    };
    let is_file = |path: &&str| path.starts_with('/') && !path.starts_with("/dev/");
    let needs_key = match Some(key).filter(is_file).or(signatures) {
        Some(file) => format!("RequiresMountsFor={}\n", quoted(file)),
        None => String::new(),
    };
    let order = match is_optional {
        true => String::new(),
        false => format!("Before={TARGET}\n"),
    };
    let text = format!(
        "# Made by strongroom-generator\n\
         [Unit]\n\
         Description=LUKS container {shown} in Strongroom\n\
         SourcePath={source}\n\
         Documentation=man:crypttab(5) man:strongroom-luks-open(1)\n\
         Requires=strongroom.service\n\
         After=strongroom.service\n\
         {needs}{needs_key}{order}\
         \n[Service]\n\
         Type=oneshot\n\
         RemainAfterExit=yes\n\
         TimeoutStartSec=infinity\n\
         ExecStart={command}\n\
         ExecStop={program} luks close -- {mapping}\n",
        shown = value(mapping),
        source = value(source),
        program = argument(program),
        mapping = argument(mapping),
    );
    let how = if is_optional { "wants" } else { "requires" };
    let pulled_by = match is_manual {
        true => Vec::new(),
        false => vec![format!("{TARGET}.{how}")],
    };
    Ok(Unit {
        name: format!("strongroom-luks-{}.service", name(mapping)),
        text,
        pulled_by,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::generate::table::lines;

    #[test]
    fn a_chip_or_an_authenticator_opens_by_a_token() {
        let of = |text: &str| unit(&lines(text).next().unwrap(), "crypttab", "strongroom");
        for option in ["fido2-device=auto", "tpm2-device=auto"] {
            let made = of(&format!("a /dev/sda - {option}")).unwrap();
            assert!(made.text.contains(" --token-only "), "{}", made.text);
            assert!(of(&format!("a /dev/sda /key {option}")).is_err());
        }
        assert!(of("a /dev/sda - tpm2-device=/dev/tpmrm1").is_err());
        let made = of("a /dev/sda - tpm2-device=auto,tpm2-signature=/etc/a\\040b").unwrap();
        for part in [
            " --tpm2-signature \"/etc/a b\" --token-only -- ",
            "RequiresMountsFor=\"/etc/a b\"\n",
        ] {
            assert!(made.text.contains(part), "{}", made.text);
        }
        for line in [
            "a /dev/sda - tpm2-signature=pcrs.json",
            "a /dev/sda /key tpm2-signature=/x",
        ] {
            assert!(of(line).is_err());
        }
    }

    #[test]
    fn a_device_has_the_name_of_its_unit() {
        let text = "a LABEL=\"x\\040y\" /etc/$key\nb /dev//sda none";
        let made = lines(text).map(|line| unit(&line, "crypttab", "strongroom").unwrap().text);
        let made: Vec<String> = made.collect();
        assert!(made[0].contains("BindsTo=dev-disk-by\\x2dlabel-x\\x5cx20y.device\n"));
        assert!(made[0].contains("RequiresMountsFor=\"/etc/$key\"\n"));
        assert!(made[0].contains("\"/dev/disk/by-label/x\\\\x20y\""));
        assert!(made[1].contains("BindsTo=dev-sda.device\n"));
    }
}
