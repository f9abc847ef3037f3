//! Mappings, which the daemon has.

use std::fmt::Write;

use console::key_file::token_uri;
use console::outcome::{Outcome, Result, call_quiet};
use console::session::{Session, absolute, answer, device_path, unexpected, usage};
use console::show::json;
use daemon::container_tokens::TokenPassphrase;
use luks::SECTOR;
use protocol::api::{
    Command, Failure, MappingChange, MappingKeyPlace, MappingRow, MappingTimes, PlainMapping,
    Reply, command,
};
use secret::Secret;

use super::device::look;
use super::key::{key_len, unlock};
use super::table;
use super::token_open::open_by_token;
use crate::cmd::luks::args::{
    LuksCloseArgs, LuksOpenArgs, LuksOpenType, LuksPlain, LuksRefreshArgs, LuksResizeArgs,
    LuksResumeArgs, LuksServing, LuksStatusArgs, LuksSuspendArgs,
};

pub(super) fn open(args: LuksOpenArgs, session: &mut Session) -> Result {
    if args.test_passphrase {
        return test_passphrase(&args, session);
    }
    let name = { args.name.clone() }.ok_or_else(|| usage("a mapping needs a name"))?;
    session.hash_memory = args.cost.hash_memory;
    args.key.limit(session.prompter());
    let plain = match args.kind {
        LuksOpenType::Luks => None,
        LuksOpenType::Plain => Some(Box::new(plain(&args.plain)?)),
    };
    let header = args.container.header.as_deref();
    let command = command::LuksOpen {
        device: device_path(&args.container.device)?,
        header: header.map(device_path).transpose()?,
        name,
        with_key_file: args.key.key_file.is_some() && !args.persistent_open,
        key_slot: args.key_slot,
        read_only: args.readonly,
        serving: serving(&args.serving),
        provider: args.serving.provider.clone(),
        persistent: args.persistent,
        no_journal: args.integrity_no_journal,
        recovery: args.integrity_recovery_mode,
        plain,
        at_start: args
            .persistent_open
            .then(|| key_place(&args))
            .transpose()?
            .map(Box::new),
    };
    if command.at_start.is_some() {
        // The daemon gets the key now as it does later.
        return call_quiet(session, command);
    }
    if args.token.token_only {
        if command.plain.is_some() {
            return Err(usage("a device without a header has no tokens"));
        }
        let by_token = |found: TokenPassphrase, session: &mut Session| {
            let command = command::LuksOpen {
                with_key_file: true,
                key_slot: command.key_slot.or(found.slot),
                ..command.clone()
            };
            call_with_key(session, command, Some(found.passphrase))
        };
        return open_by_token(&args.token, &args.container, session, by_token);
    }
    // A plain mapping takes the beginning of its key file, which may be endless.
    let mut part = args.key.part();
    part.at_most = command.plain.as_ref().map(|plain| plain.key_len);
    let key_file = args.key.key_file.as_deref();
    let key_file = key_file.map(|path| part.read(path)).transpose()?;
    call_with_key(session, command, key_file)
}

/// The location of the key when the daemon starts.
fn key_place(args: &LuksOpenArgs) -> Result<MappingKeyPlace> {
    let key = &args.key;
    if let Some(uri) = key.key_file.as_deref().and_then(token_uri) {
        return match &key.pkcs11_list {
            None => Ok(MappingKeyPlace::Pkcs11 { uri: uri.into() }),
            Some(_) => Err(usage(
                "the daemon has its own list of modules; leave out --pkcs11-list",
            )),
        };
    }
    match &key.key_file {
        Some(path) if path.as_os_str() == "-" => Err(usage(
            "the daemon has no standard input when it starts; name a key file",
        )),
        Some(path) => Ok(MappingKeyPlace::File {
            path: absolute(path)?,
            offset: key.keyfile_offset,
            len: key.keyfile_size.filter(|len| *len > 0),
        }),
        None if args.token.token_only => {
            let signature = args.token.tpm2_signature.as_deref();
            Ok(MappingKeyPlace::Token {
                id: args.token.token_id,
                kind: args.token.token_type.clone(),
                signature: signature.map(absolute).transpose()?,
            })
        }
        None => Ok(MappingKeyPlace::Prompt),
    }
}

/// Sends a command that only succeeds, with what is in a key file if one is given.
fn call_with_key(
    session: &mut Session,
    command: impl Into<Command>,
    key_file: Option<Secret>,
) -> Result {
    match key_file {
        None => call_quiet(session, command),
        Some(key) => match session.call_with_secret(command, key)? {
            Reply::Nothing => Ok(Outcome::done()),
            reply => Err(unexpected(&reply)),
        },
    }
}

/// Tries a passphrase, and no more: without the daemon.
fn test_passphrase(args: &LuksOpenArgs, session: &mut Session) -> Result {
    if args.kind == LuksOpenType::Plain {
        let why = "a device without a header has nothing to test a passphrase with";
        return Err(Failure::usage(why));
    }
    if args.token.token_only {
        let test = |found: TokenPassphrase, session: &mut Session| {
            let slot = args.key_slot.or(found.slot);
            look(&args.container, session)?.test(&found.passphrase, slot)?;
            Ok(Outcome::done())
        };
        return open_by_token(&args.token, &args.container, session, test);
    }
    let container = look(&args.container, session)?;
    // A slot that is named may be one whose key encrypts no data.
    if args.key_slot.is_none() {
        container.check_slots(None)?;
    }
    let open = |given: &Secret| container.test(given, args.key_slot);
    unlock(&args.key, &args.container, open)?;
    Ok(Outcome::done())
}

/// The options that tell how a mapping is served.
fn serving(args: &LuksServing) -> MappingChange {
    let change = |yes, no| match (yes, no) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    };
    let read = change(args.read_workqueue, args.no_read_workqueue);
    let write = change(args.write_workqueue, args.no_write_workqueue);
    let (same_cpu, submits) = (args.same_cpu_crypt, args.submit_from_crypt_cpus);
    let sorts = args.sort_writes || same_cpu && !submits;
    // An option that chooses how a queue works turns it on.
    let queues = (same_cpu || submits).then_some(true);
    let writes = queues.or(args.sort_writes.then_some(true));
    MappingChange {
        read_workqueue: read.or(queues),
        write_workqueue: write.or(writes),
        // Another option for the queues undoes it.
        same_cpu: change(
            same_cpu,
            submits || args.read_workqueue || args.write_workqueue,
        ),
        sort_writes: change(sorts, submits),
        allow_discards: change(args.allow_discards, args.no_allow_discards),
    }
}

/// The ciphers of `lofiadm`, which also say the length of the key, as dm-crypt spells them.
const LOFI_CIPHERS: [(&str, &str, usize); 3] = [
    ("aes-128-cbc", "aes-cbc-essiv:sha256", 128),
    ("aes-192-cbc", "aes-cbc-essiv:sha256", 192),
    ("aes-256-cbc", "aes-cbc-essiv:sha256", 256),
];

fn plain(args: &LuksPlain) -> Result<PlainMapping> {
    let lofi = LOFI_CIPHERS
        .into_iter()
        .find(|(name, ..)| *name == args.cipher);
    let (cipher, bits) = lofi.map_or(
        (args.cipher.as_str(), args.key_size),
        |(_, cipher, bits)| (cipher, bits),
    );
    let bytes = |sectors: u64| {
        sectors
            .checked_mul(SECTOR)
            .ok_or_else(|| usage("the number of sectors is too large"))
    };
    Ok(PlainMapping {
        cipher: cipher.into(),
        key_len: key_len(bits)?,
        hash: args.hash.clone(),
        offset: bytes(args.offset)?,
        len: args.size.map(bytes).transpose()?,
        skip: args.skip,
        sector_size: args.sector_size,
    })
}

pub(super) fn close(args: LuksCloseArgs, session: &mut Session) -> Result {
    call_quiet(session, command::LuksClose { name: args.name })
}

pub(super) fn refresh(args: LuksRefreshArgs, session: &mut Session) -> Result {
    let change = serving(&args.serving);
    let command = command::LuksRefresh {
        name: args.name,
        change,
        provider: args.serving.provider,
    };
    call_quiet(session, command)
}

pub(super) fn resize(args: LuksResizeArgs, session: &mut Session) -> Result {
    let (name, size) = (args.name, args.device_size);
    call_quiet(session, command::LuksResize { name, size })
}

pub(super) fn suspend(args: LuksSuspendArgs, session: &mut Session) -> Result {
    call_quiet(session, command::LuksSuspend { name: args.name })
}

pub(super) fn resume(args: LuksResumeArgs, session: &mut Session) -> Result {
    session.hash_memory = args.cost.hash_memory;
    args.key.limit(session.prompter());
    let key_file = args.key.key_file.as_deref();
    let key_file = key_file.map(|path| args.key.part().read(path));
    let key_file = key_file.transpose()?;
    let command = command::LuksResume {
        name: args.name,
        with_key_file: key_file.is_some(),
        key_slot: args.key_slot,
    };
    call_with_key(session, command, key_file)
}

pub(super) fn status(args: LuksStatusArgs, session: &mut Session) -> Result {
    let names = args.names.clone();
    let rows = answer!(session.call(command::LuksStatus { names })?, Mappings)?;
    if args.table {
        return table::show(&args, &rows, session);
    }
    Ok(Outcome::text(match session.json {
        true => json::show(&rows),
        false => rows.iter().map(text).collect::<Vec<_>>().join("\n"),
    }))
}

/// In the form of `cryptsetup status`.
fn text(row: &MappingRow) -> String {
    let mut out = String::new();
    if let Some(reason) = &row.waits {
        let (name, device) = (&row.name, &row.device);
        return format!(
            "{name} waits: {reason}.\n  device:  {device}\n  opened:  at each start of the daemon\n"
        );
    }
    let used = if row.users > 0 {
        "and is in use"
    } else {
        "and is not in use"
    };
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(out, "  {:<9}{value}", format!("{name}:"));
    };
    line("type", &row.kind);
    line("cipher", &row.cipher);
    line("keysize", &format!("{} bits", row.key_bits));
    if let Some(provider) = &row.provider {
        // This name fills its column.
        line("provider", &format!(" {provider}"));
    }
    if let Some(slot) = row.slot {
        line("slot", &slot.to_string());
    }
    if let Some(uuid) = &row.uuid {
        line("uuid", uuid);
    }
    line("device", &row.device);
    if let Some(header) = &row.header {
        line("header", header);
    }
    if row.at_start {
        line("opened", "at each start of the daemon");
    }
    line("sector", &format!("{} bytes", row.sector_size));
    line("offset", &format!("{} sectors", row.offset / SECTOR));
    line("size", &format!("{} sectors", row.size / SECTOR));
    line(
        "mode",
        if row.read_only {
            "readonly"
        } else {
            "read/write"
        },
    );
    if let Some(at) = row.reencryption {
        let (done, total) = (at.done / SECTOR, at.total / SECTOR);
        let mut text = format!("{done} of {total} sectors are re-encrypted");
        if let (Some(speed), Some(left)) = (at.speed, at.seconds_left) {
            let mib = speed as f64 / f64::from(1 << 20);
            let (minutes, seconds) = (left / 60, left % 60);
            let _ = write!(text, ", {mib:.1} MiB/s, {minutes}m{seconds:02}s to go");
        } else if !at.running {
            text.push_str(", paused");
        }
        line("done", &text);
    }
    let flags = [
        (row.allow_discards, "discards"),
        (!row.read_workqueue, "no_read_workqueue"),
        (!row.write_workqueue, "no_write_workqueue"),
        (row.same_cpu, "same_cpu_crypt"),
        (row.sort_writes, "sort_writes"),
        (row.no_journal, "no_journal"),
        (row.recovery, "recovery"),
    ];
    let flags: Vec<_> = flags
        .iter()
        .filter(|(on, _)| *on)
        .map(|(_, name)| *name)
        .collect();
    if !flags.is_empty() {
        line("flags", &flags.join(" "));
    }
    for (name, times) in [
        (
            "reads",
            [("inline", &row.read_inline), ("queued", &row.read_queued)],
        ),
        (
            "writes",
            [("inline", &row.write_inline), ("queued", &row.write_queued)],
        ),
    ] {
        for (form, times) in times {
            if times.count > 0 {
                line(name, &format!("{form}, {}", served(times)));
            }
        }
    }
    let state = match row.suspended {
        true => "is suspended",
        false => "is open",
    };
    format!("{} {state} {used}.\n{out}", row.name)
}

fn served(times: &MappingTimes) -> String {
    let micros = |nanos: Option<u64>| nanos.unwrap_or(0) as f64 / 1000.0;
    let (p50, p99, p999) = (
        micros(times.p50_ns),
        micros(times.p99_ns),
        micros(times.p999_ns),
    );
    let mut text = format!(
        "{} requests, {} bytes, p50 {p50:.0} µs, p99 {p99:.0} µs, p99.9 {p999:.0} µs",
        times.count, times.bytes
    );
    if times.errors > 0 {
        let _ = write!(text, ", {} failed", times.errors);
    }
    text
}
