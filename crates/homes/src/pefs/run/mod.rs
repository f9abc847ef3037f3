//! Directories of pefs: mounts, their keys, and key chains.

mod codes;
mod key;
mod keys;
mod login;
mod mounts;
mod place;

use cipher::{Random, SystemRandom};
use console::outcome::{Outcome, Result};
use console::show::json;
use protocol::api::{Failure, FailureKind};
use stack::formats::pefs::{Algorithm, Chains, KeyError, KeyId, PefsMasterKey};

pub(crate) use self::login::PefsHomeDirectory;
use self::place::Lower;
use crate::pefs::args::{AddChain, DelChain, Pefs, RandomChain, ShowChains};
use crate::stack::run::KeyLine;

/// Carries out the command.
pub fn run(args: &Pefs, is_json: bool) -> Outcome {
    let done = match args {
        Pefs::Mount(args) => mounts::mount(args),
        Pefs::Unmount(args) => mounts::unmount(args),
        Pefs::Addkey(args) => keys::add(args),
        Pefs::Delkey(args) => keys::delete(args),
        Pefs::Flushkeys(args) => keys::flush(args),
        Pefs::Showkeys(args) => keys::show(args, is_json),
        Pefs::Setkey(args) => keys::set(args),
        Pefs::Getkey(args) => keys::get(args, is_json),
        Pefs::Addchain(args) => add(args),
        Pefs::Delchain(args) => delete(args),
        Pefs::Showchains(args) => show(args, is_json),
        Pefs::Randomchain(args) => add_decoys(args),
        Pefs::Showalgs => Ok(algorithms(is_json)),
    };
    done.unwrap_or_else(|failure| {
        let code = codes::of(failure.kind);
        Outcome::failed(failure).with_exit_code(code)
    })
}

fn add(args: &AddChain) -> Result {
    let lower = Lower::open(&args.place)?;
    let config = lower.config()?;
    let algorithm = key::algorithm(args.algorithm.as_deref(), &config)?;
    let child_algorithm = key::algorithm(args.child.child_algorithm.as_deref(), &config)?;
    let parent = key::parent(&lower, &args.key, &config, true)?;
    let child = match args.child.ends {
        true => None,
        false => Some(key::child(&lower, &args.child, &config)?),
    };
    let or_default = |named: Option<Algorithm>| named.map_or_else(|| lower.algorithm(), Ok);
    let algorithm = or_default(algorithm)?;
    let child = match child {
        Some(key) => Some((key, or_default(child_algorithm)?)),
        None => None,
    };
    let id = parent.id();
    lower.change(|chains| {
        if chains.has(id) {
            let message = format!("the key {id} has a record; delete it first");
            return Err(Failure::new(FailureKind::Exists, message));
        }
        let child = child.as_ref().map(|(key, algorithm)| (key, *algorithm));
        chains
            .set((&parent, algorithm), child, &SystemRandom)
            .map_err(|error| place::failure(lower.path(), error))
    })?;
    let child = child.map_or(KeyId::default(), |(key, _)| key.id());
    Ok(said(
        args.verbose,
        format!("Key chain set: {id} -> {child}\n"),
    ))
}

fn delete(args: &DelChain) -> Result {
    let lower = Lower::open(&args.place)?;
    let first = key::parent(&lower, &args.key, &lower.config()?, false)?;
    let mut text = String::new();
    lower.change(|chains| {
        let ids: Vec<KeyId> = opened(chains, first, &lower)?
            .iter()
            .map(|(key, _)| key.id())
            .collect();
        let count = if args.all { ids.len() } else { 1 };
        for (at, id) in ids.iter().enumerate().take(count) {
            if chains.remove(*id) {
                let next = ids.get(at + 1).map(|next| format!(" -> {next}"));
                text += &format!("Key chain deleted: {id}{}\n", next.unwrap_or_default());
            }
        }
        Ok(())
    })?;
    Ok(said(args.verbose, text))
}

fn show(args: &ShowChains, is_json: bool) -> Result {
    let lower = Lower::open(&args.place)?;
    let first = key::parent(&lower, &args.key, &lower.config()?, false)?;
    let chains = lower.chains()?;
    let keys = opened(&chains, first, &lower)?;
    let keys = keys.iter().map(|(key, algorithm)| KeyLine {
        id: key.id().to_string(),
        algorithm: algorithm.to_string(),
    });
    let keys: Vec<KeyLine> = keys.collect();
    if is_json {
        return Ok(Outcome::text(json::show(&keys)));
    }
    let lines = keys.iter().zip(1..).map(|(key, number)| {
        let KeyLine { id, algorithm } = key;
        format!("\t{number:<4} {id} {algorithm}\n")
    });
    Ok(Outcome::text(format!(
        "Key chain:\n{}",
        lines.collect::<String>()
    )))
}

fn add_decoys(args: &RandomChain) -> Result {
    if args.least > args.most || args.most > 1 << 16 {
        return Err(Failure::usage("-n is at most -N, and -N at most 65536"));
    }
    let lower = Lower::open(&args.place)?;
    let mut bytes = [0; 4];
    SystemRandom
        .fill(&mut bytes)
        .map_err(|_| Failure::other("the system gives no random numbers"))?;
    let spread = (args.most - args.least) / 2 + 1;
    let count = args.least / 2 + u32::from_le_bytes(bytes) % spread;
    lower.change(|chains| {
        chains
            .add_decoys(count as usize, &SystemRandom)
            .map_err(|error| place::failure(lower.path(), error))
    })?;
    Ok(said(args.verbose, format!("Records added: {count}\n")))
}

/// The keys of a chain that is there.
fn opened(
    chains: &Chains,
    first: PefsMasterKey,
    lower: &Lower,
) -> Result<Vec<(PefsMasterKey, Algorithm)>> {
    let id = first.id();
    let keys = chains
        .open(first, Algorithm::default())
        .map_err(|error: KeyError| place::failure(lower.path(), error))?;
    keys.ok_or_else(|| keys::no_record(id, lower))
}

fn algorithms(is_json: bool) -> Outcome {
    let names = Algorithm::ALL.map(|algorithm| algorithm.to_string());
    Outcome::text(match is_json {
        true => json::show(&names),
        false => format!("Supported algorithms:\n\t{}\n", names.join("\n\t")),
    })
}

fn said(verbose: bool, text: String) -> Outcome {
    Outcome::text(if verbose { text } else { String::new() })
}
