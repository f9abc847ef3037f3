//! The report of policies, their protectors, and whether they are unlocked.

use std::fmt::Write;
use std::fs::File;
use std::path::Path;

use console::outcome::Result;
use console::show::{json, text};
use keys::kernel::{self, KernelKeyStatus};
use rustix::io::Errno;
use serde::Serialize;
use stack::formats::fscrypt::KeyName;
use stack::formats::fscrypt::tool::{
    Config, Descriptor, MetadataStore, Options, ProtectedPolicy, descriptor_text, key_name,
};

use super::keyring::PolicyKeyring;
use super::place::{self, failure};
use super::policy_directory::PolicyDirectory;
use super::protectors::questions;
use crate::fscrypt::args::FscryptStatusArgs;

#[derive(Serialize)]
struct FileSystemRow {
    mountpoint: String,
    #[serde(rename = "type")]
    kind: String,
    encryption: &'static str,
    fscrypt: bool,
}

#[derive(Serialize)]
struct MetadataReport {
    protectors: Vec<ProtectorRow>,
    policies: Vec<PolicyRow>,
}

#[derive(Serialize)]
struct ProtectorRow {
    protector: String,
    description: String,
}

#[derive(Serialize)]
struct PolicyRow {
    policy: String,
    unlocked: &'static str,
    options: String,
    protectors: Vec<ProtectorRow>,
}

pub(super) fn run(args: &FscryptStatusArgs, as_json: bool) -> Result<String> {
    let Some(path) = &args.path else {
        let rows = file_systems()?;
        return Ok(match as_json {
            true => json::show(&rows),
            false => show_file_systems(&rows),
        });
    };
    let config = place::config()?;
    if place::is_place(path) {
        let store = place::store(path, Some(&config))?;
        let found = of_place(path, &store, &config)?;
        return Ok(match as_json {
            true => json::show(&found),
            false => show_place(&found),
        });
    }
    let found = PolicyDirectory::find(path, &config)?;
    let row = match &found.metadata {
        Some((store, policy)) => policy_row(&found.place, store, policy, &config),
        None => PolicyRow {
            policy: key_name(&found.policy.key),
            unlocked: unlocked(&found.keyring, &found.policy.key),
            options: options(&Options::of(&found.policy)),
            protectors: Vec::new(),
        },
    };
    Ok(match as_json {
        true => json::show(&row),
        false => show_policy(&row),
    })
}

/// File systems that could take part.
fn file_systems() -> Result<Vec<FileSystemRow>> {
    let kinds = ["ext4", "f2fs", "ubifs", "btrfs", "ceph", "xfs", "lustre"];
    let mut rows: Vec<FileSystemRow> = Vec::new();
    for mounted in place::mounted()? {
        let fscrypt = place::is_place(&mounted.path);
        let takes_part = kinds.contains(&&mounted.kind[..]);
        if !takes_part && !fscrypt {
            continue;
        }
        let Ok(directory) = File::open(&mounted.path) else {
            continue;
        };
        rows.push(FileSystemRow {
            mountpoint: mounted.path.display().to_string(),
            kind: mounted.kind,
            encryption: match kernel::policy(directory) {
                Ok(_) | Err(Errno::NODATA) => "supported",
                Err(Errno::OPNOTSUPP) => "not enabled",
                Err(_) => "not supported",
            },
            fscrypt,
        });
    }
    Ok(rows)
}

fn of_place(place: &Path, store: &MetadataStore, config: &Config) -> Result<MetadataReport> {
    let failed = |error| failure(&place.display().to_string(), error);
    let descriptors = store.protectors().map_err(failed)?;
    let row = |descriptor| protector_row(place, store, descriptor, config);
    let protectors = descriptors.iter().map(row).collect();
    let mut policies = Vec::new();
    for name in store.policies().map_err(failed)? {
        policies.push(match store.policy(&name) {
            Ok(policy) => policy_row(place, store, &policy, config),
            // One that is damaged does not hide the others.
            Err(error) => PolicyRow {
                policy: key_name(&name),
                unlocked: "unknown",
                options: error.to_string(),
                protectors: Vec::new(),
            },
        });
    }
    Ok(MetadataReport {
        protectors,
        policies,
    })
}

fn protector_row(
    place: &Path,
    store: &MetadataStore,
    descriptor: &Descriptor,
    config: &Config,
) -> ProtectorRow {
    let description = match place::follow(place, store, descriptor, config) {
        Ok((there, protector)) if there != place => {
            format!("{}, on {}", questions::label(&protector), there.display())
        }
        Ok((_, protector)) => questions::label(&protector),
        Err(error) => error.message,
    };
    ProtectorRow {
        protector: descriptor_text(descriptor),
        description,
    }
}

fn policy_row(
    place: &Path,
    store: &MetadataStore,
    policy: &ProtectedPolicy,
    config: &Config,
) -> PolicyRow {
    let row = |descriptor| protector_row(place, store, &descriptor, config);
    PolicyRow {
        policy: key_name(&policy.name),
        unlocked: PolicyKeyring::of_place(place)
            .map_or("unknown", |keys| unlocked(&keys, &policy.name)),
        options: options(&policy.options),
        protectors: policy.protectors().map(row).collect(),
    }
}

fn unlocked(keyring: &PolicyKeyring, name: &KeyName) -> &'static str {
    match keyring.status(name) {
        Ok(KernelKeyStatus::Present { .. }) => "yes",
        Ok(KernelKeyStatus::Absent) => "no",
        Ok(KernelKeyStatus::FilesBusy) => "partially",
        // A stacked directory that is not mounted.
        Err(_) => "unknown",
    }
}

/// The options of a policy, in the tool's words.
pub(super) fn options(options: &Options) -> String {
    format!(
        "padding:{} contents:{} filenames:{} policy_version:{}",
        options.padding,
        options.contents.name(),
        options.names.name(),
        options.version
    )
}

fn show_file_systems(rows: &[FileSystemRow]) -> String {
    let mut shown = format!(
        "{:<14} {:<8} {:<8} MOUNTPOINT\n",
        "ENCRYPTION", "FSCRYPT", "TYPE"
    );
    for row in rows {
        let fscrypt = if row.fscrypt { "yes" } else { "no" };
        let mountpoint = text::in_a_cell(&row.mountpoint);
        let line = format!(
            "{:<14} {fscrypt:<8} {:<8} {mountpoint}",
            row.encryption, row.kind
        );
        let _ = writeln!(shown, "{line}");
    }
    shown
}

fn show_place(place: &MetadataReport) -> String {
    let mut shown = show_protectors(&place.protectors);
    if !place.policies.is_empty() {
        shown.push_str("\nPOLICY                            UNLOCKED   PROTECTORS\n");
    }
    for row in &place.policies {
        let ids: Vec<&str> = row
            .protectors
            .iter()
            .map(|row| &row.protector[..])
            .collect();
        let ids = match ids.is_empty() {
            true => text::in_a_cell(&row.options).to_string(),
            false => ids.join(", "),
        };
        let _ = writeln!(shown, "{:<32}  {:<9}  {ids}", row.policy, row.unlocked);
    }
    shown
}

fn show_policy(row: &PolicyRow) -> String {
    format!(
        "policy:    {}\noptions:   {}\nunlocked:  {}\n\n{}",
        row.policy,
        row.options,
        row.unlocked,
        show_protectors(&row.protectors)
    )
}

fn show_protectors(rows: &[ProtectorRow]) -> String {
    let mut shown = String::from("PROTECTOR         DESCRIPTION\n");
    for row in rows {
        let description = text::in_a_cell(&row.description);
        let _ = writeln!(shown, "{}  {description}", row.protector);
    }
    shown
}
