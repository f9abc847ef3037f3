//! Policies and protectors themselves.

use std::path::Path;

use cipher::SystemRandom;
use console::outcome::Result;
use console::terminal::be_sure;
use stack::formats::fscrypt::tool::{
    Config, MetadataStore, ProtectedPolicy, ProtectorSource, descriptor_text, key_name,
};

use super::link;
use super::place::{self, failure};
use super::protectors::questions;
use super::protectors::secrets::{self, OpenProtector};
use crate::fscrypt::args::{
    AddProtector, ChangePassphrase, Create, Destroy, Dump, RemoveProtector,
};
use crate::stack::run::open_directory;

pub(super) fn create(args: &Create) -> Result<String> {
    let config = place::config()?;
    match args {
        Create::Protector(args) => {
            let made = secrets::new_protector(&args.mountpoint, &config, &args.new, &args.key)?;
            Ok(descriptor_text(&made.protector.descriptor))
        }
        Create::Policy(args) => {
            let place = &args.mountpoint;
            let whole = std::fs::canonicalize(place).map_err(|error| place::io(place, &error))?;
            let store = place::store(&whole, Some(&config))?;
            let opened = OpenProtector::named(&args.protector, &config, &args.key)?;
            let owner = link_to(&opened, (&whole, &store), &config)?;
            let (protector, key) = (opened.protector, opened.key);
            let failed = |error| failure(&place.display().to_string(), error);
            let (options, random) = (config.options, &SystemRandom);
            let made = ProtectedPolicy::create(options, protector.descriptor, &key, random);
            let (policy, _) = made.map_err(failed)?;
            store.put_policy(&policy, owner).map_err(failed)?;
            Ok(key_name(&policy.name))
        }
    }
}

/// Has the metadata lead to a protector that is elsewhere. Returns who owns what is made for the protector.
fn link_to(
    opened: &OpenProtector,
    here: (&Path, &MetadataStore),
    config: &Config,
) -> Result<Option<u32>> {
    let owner = opened.owner();
    if opened.place != here.0 {
        link::add(
            here,
            &opened.place,
            &opened.protector.descriptor,
            config,
            owner,
        )?;
    }
    Ok(owner)
}

pub(super) fn destroy(args: &Destroy) -> Result<String> {
    let config = place::config()?;
    if let Some(text) = &args.protector {
        let (place, descriptor) = place::descriptor(text)?;
        let store = place::store(&place, Some(&config))?;
        be_sure(
            args.force,
            "to do it without a question, use --force",
            "all files that only this protector opens will be lost",
        )?;
        let removed = store.remove_protector(&descriptor);
        removed.map_err(|error| failure(&place.display().to_string(), error))?;
        return Ok(format!("the protector {text} is destroyed"));
    }
    if let Some(text) = &args.policy {
        let (place, store, policy) = place::policy(text, &config)?;
        be_sure(
            args.force,
            "to do it without a question, use --force",
            "all files of this policy will be lost",
        )?;
        let removed = store.remove_policy(&policy.name);
        removed.map_err(|error| failure(&place.display().to_string(), error))?;
        return Ok(format!("the policy {text} is destroyed"));
    }
    let place = args
        .mountpoint
        .as_ref()
        .expect("one of the three is required");
    let root = open_directory(place)?;
    place::store(place, Some(&config))?;
    let shown = place.display();
    be_sure(
        args.force,
        "to do it without a question, use --force",
        &format!("all encrypted files on {shown} will be lost"),
    )?;
    MetadataStore::destroy(&root).map_err(|error| failure(&shown.to_string(), error))?;
    Ok(format!("the metadata on {shown} is destroyed"))
}

pub(super) fn change_passphrase(args: &ChangePassphrase) -> Result<String> {
    let config = place::config()?;
    let (place, mut protector) = place::protector(&args.protector, &config)?;
    let label = questions::label(&protector);
    if protector.source == ProtectorSource::RawKey {
        let message = format!("{label} has no passphrase");
        return Err(protocol::api::Failure::usage(message));
    }
    let none = crate::fscrypt::args::KeyFile { key: None };
    let key = secrets::open_protector(&protector, &none)?;
    let passphrase = secrets::new_passphrase(&format!("{label}, new"))?;
    let failed = |error| failure(&place.display().to_string(), error);
    let changed = protector.change_passphrase(&key, &passphrase, &SystemRandom);
    changed.map_err(failed)?;
    let store = place::store(&place, Some(&config))?;
    store.put_protector(&protector, None).map_err(failed)?;
    Ok(format!("the passphrase of {label} is changed"))
}

pub(super) fn add(args: &AddProtector) -> Result<String> {
    let config = place::config()?;
    let opened = OpenProtector::named(&args.pair.protector, &config, &args.key)?;
    let (place, store, mut policy) = place::policy(&args.pair.policy, &config)?;
    let failed = |error| failure(&place.display().to_string(), error);
    let (with, parts) = (
        args.unlock_with.as_deref(),
        (place.as_path(), &store, &policy),
    );
    let master = secrets::open_policy(parts, &config, with, &args.key)?;
    let descriptor = opened.protector.descriptor;
    let added = policy.add(descriptor, &opened.key, &master, &SystemRandom);
    added.map_err(failed)?;
    link_to(&opened, (&place, &store), &config)?;
    store.put_policy(&policy, None).map_err(failed)?;
    Ok("the protector opens the policy now".into())
}

pub(super) fn remove(args: &RemoveProtector) -> Result<String> {
    let config = place::config()?;
    let (_, descriptor) = place::descriptor(&args.pair.protector)?;
    let (place, store, mut policy) = place::policy(&args.pair.policy, &config)?;
    let failed = |error| failure(&place.display().to_string(), error);
    policy.remove(&descriptor).map_err(failed)?;
    be_sure(
        args.force,
        "to do it without a question, use --force",
        "the policy will not open with this protector any more",
    )?;
    store.put_policy(&policy, None).map_err(failed)?;
    Ok("the protector does not open the policy any more".into())
}

pub(super) fn dump(args: &Dump) -> Result<String> {
    let config = place::config()?;
    if let Some(text) = &args.protector {
        let (place, protector) = place::protector(text, &config)?;
        let costs = protector.costs().map_or("none".into(), |costs| {
            format!(
                "Argon2id, {} passes, {} KiB, {} lanes",
                costs.time, costs.memory_kib, costs.lanes
            )
        });
        return Ok(format!(
            "protector:  {}\nplace:      {}\nsource:     {}\nname:       {}\ncosts:      {costs}",
            descriptor_text(&protector.descriptor),
            place.display(),
            protector.source.name(),
            console::show::text::in_a_cell(&protector.name),
        ));
    }
    let text = args.policy.as_deref().expect("one of both is required");
    let (place, _, policy) = place::policy(text, &config)?;
    let ids: Vec<String> = policy.protectors().map(|id| descriptor_text(&id)).collect();
    Ok(format!(
        "policy:     {}\nplace:      {}\noptions:    {}\nprotectors: {}",
        key_name(&policy.name),
        place.display(),
        super::status::options(&policy.options),
        ids.join(", ")
    ))
}
