//! The contents of a header, as text in the form of `cryptsetup luksDump` and as JSON.

use std::fmt::Write;

use serde_json::{Value, json};

use super::Container;
use crate::header::Header;
use crate::header::luks2::HeaderView;
use crate::header::{luks1, luks2};
use crate::keyslots::kdf::Kdf;
use crate::model::{Keyslot, SECTOR, STRIPES};

impl Container {
    /// The header as text. No secret is in it.
    pub fn dump(&self) -> String {
        let mut out = String::new();
        let done = match &self.header {
            Header::V1(header) => dump_luks1(&mut out, header, &self.device.name()),
            Header::V2(header) => dump_luks2(&mut out, header),
        };
        done.expect("writing to a string does not fail");
        out
    }

    /// The header as JSON; the JSON area of LUKS2 as it is, under `metadata`.
    pub fn dump_json(&self) -> Value {
        match &self.header {
            Header::V1(header) => {
                let slots = header.slots();
                let slots = slots.iter().map(|slot| {
                    json!({"id": slot.id, "iterations": iterations(slot), "offset": slot.offset})
                });
                json!({
                    "version": 1,
                    "uuid": header.uuid(),
                    "cipher": header.cipher(),
                    "hash": header.hash(),
                    "key_size": header.key_len(),
                    "offset": header.segment().offset,
                    "keyslots": slots.collect::<Vec<_>>(),
                })
            }
            Header::V2(header) => json!({
                "version": 2,
                "epoch": header.epoch,
                "uuid": header.uuid,
                "label": header.label,
                "subsystem": header.subsystem,
                "metadata": header.json(),
            }),
        }
    }
}

fn dump_luks1(out: &mut String, header: &luks1::Header, device: &str) -> std::fmt::Result {
    let (name, mode) = header
        .cipher()
        .split_once('-')
        .unwrap_or((header.cipher(), ""));
    let digest = header.digest();
    writeln!(out, "LUKS header information for {device}\n")?;
    writeln!(out, "Version:       \t1")?;
    writeln!(out, "Cipher name:   \t{name}")?;
    writeln!(out, "Cipher mode:   \t{mode}")?;
    writeln!(out, "Hash spec:     \t{}", header.hash())?;
    writeln!(out, "Payload offset:\t{}", header.segment().offset / SECTOR)?;
    writeln!(out, "MK bits:       \t{}", header.key_len() * 8)?;
    writeln!(out, "MK digest:     \t{}", hex(&digest.digest))?;
    let (first, second) = digest.salt.split_at(16);
    writeln!(
        out,
        "MK salt:       \t{}\n               \t{}",
        hex(first),
        hex(second)
    )?;
    writeln!(out, "MK iterations: \t{}", digest.iterations)?;
    writeln!(out, "UUID:          \t{}\n", header.uuid())?;
    let slots = header.slots();
    for id in 0..luks1::SLOTS as u32 {
        let Some(slot) = slots.iter().find(|slot| slot.id == id) else {
            writeln!(out, "Key Slot {id}: DISABLED")?;
            continue;
        };
        let (first, second) = slot.salt.split_at(16);
        writeln!(out, "Key Slot {id}: ENABLED")?;
        writeln!(out, "\tIterations:         \t{}", iterations(slot))?;
        writeln!(
            out,
            "\tSalt:               \t{}\n\t                      \t{}",
            hex(first),
            hex(second)
        )?;
        writeln!(out, "\tKey material offset:\t{}", slot.offset / SECTOR)?;
        writeln!(out, "\tAF stripes:            \t{STRIPES}")?;
    }
    Ok(())
}

fn iterations(slot: &Keyslot) -> u32 {
    match &slot.kdf {
        Kdf::Pbkdf2 { iterations, .. } => *iterations,
        Kdf::Argon2(_, cost) => cost.passes,
    }
}

fn dump_luks2(out: &mut String, header: &luks2::Header) -> std::fmt::Result {
    let view = header.view();
    let or = |text: &str, none: &str| match text {
        "" => none.to_owned(),
        text => text.to_owned(),
    };
    writeln!(out, "LUKS header information")?;
    writeln!(out, "Version:       \t2")?;
    writeln!(out, "Epoch:         \t{}", header.epoch)?;
    writeln!(out, "Metadata area: \t{} [bytes]", view.copy_len)?;
    writeln!(out, "Keyslots area: \t{} [bytes]", view.areas_len)?;
    writeln!(out, "UUID:          \t{}", or(&header.uuid, "(no UUID)"))?;
    writeln!(out, "Label:         \t{}", or(&header.label, "(no label)"))?;
    writeln!(
        out,
        "Subsystem:     \t{}",
        or(&header.subsystem, "(no subsystem)")
    )?;
    match view.flags.as_slice() {
        [] => writeln!(out, "Flags:       \t(no flags)")?,
        flags => writeln!(out, "Flags:       \t{} ", flags.join(" "))?,
    }
    match view.requirements.as_slice() {
        [] => writeln!(out)?,
        needed => writeln!(out, "Requirements:\t{} \n", needed.join(" "))?,
    }
    dump_segments(out, view)?;
    dump_slots(out, view)?;
    dump_tokens(out, header)?;
    dump_digests(out, view)
}

fn dump_segments(out: &mut String, view: &HeaderView) -> std::fmt::Result {
    writeln!(out, "Data segments:")?;
    for (id, segment) in &view.segments {
        writeln!(out, "  {id}: {}", segment.kind)?;
        writeln!(out, "\toffset: {} [bytes]", segment.offset)?;
        match segment.len {
            None => writeln!(out, "\tlength: (whole device)")?,
            Some(len) => writeln!(out, "\tlength: {len} [bytes]")?,
        }
        if let Some(crypt) = &segment.crypt {
            writeln!(out, "\tcipher: {}", crypt.cipher)?;
            writeln!(out, "\tsector: {} [bytes]", crypt.sector_size)?;
            if let Some(integrity) = &crypt.integrity {
                writeln!(out, "\tintegrity: {}", integrity.kind)?;
            }
        }
        if !segment.flags.is_empty() {
            writeln!(out, "\tflags : {}", segment.flags.join(", "))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn dump_slots(out: &mut String, view: &HeaderView) -> std::fmt::Result {
    writeln!(out, "Keyslots:")?;
    for (id, slot) in &view.slots {
        let is_bound = view
            .digests
            .values()
            .any(|d| d.keyslots.contains(id) && !d.segments.is_empty());
        writeln!(
            out,
            "  {id}: {}{}",
            slot.kind,
            if is_bound { "" } else { " (unbound)" }
        )?;
        if let Some(slot) = &slot.known {
            dump_slot(out, slot)?;
        }
        if let Some(why) = &slot.oddity {
            writeln!(out, "\tUnusable:   {why}")?;
        }
        writeln!(out, "\tArea offset:{} [bytes]", slot.offset)?;
        writeln!(out, "\tArea length:{} [bytes]", slot.len)?;
        for (digest, of) in &view.digests {
            if of.keyslots.contains(id) {
                writeln!(out, "\tDigest ID:  {digest}")?;
            }
        }
    }
    Ok(())
}

fn dump_slot(out: &mut String, slot: &Keyslot) -> std::fmt::Result {
    writeln!(out, "\tKey:        {} bits", slot.key_len * 8)?;
    writeln!(out, "\tPriority:   {}", slot.priority.shown())?;
    writeln!(out, "\tCipher:     {}", slot.cipher)?;
    writeln!(out, "\tCipher key: {} bits", slot.cipher_key_len * 8)?;
    writeln!(out, "\tPBKDF:      {}", slot.kdf.name())?;
    match &slot.kdf {
        Kdf::Pbkdf2 { hash, iterations } => {
            writeln!(out, "\tHash:       {hash}")?;
            writeln!(out, "\tIterations: {iterations}")?;
        }
        Kdf::Argon2(_, cost) => {
            writeln!(out, "\tTime cost:  {}", cost.passes)?;
            writeln!(out, "\tMemory:     {}", cost.memory_kib)?;
            writeln!(out, "\tThreads:    {}", cost.lanes)?;
        }
    }
    bytes(out, "Salt:       ", &slot.salt)?;
    writeln!(out, "\tAF stripes: {STRIPES}")?;
    writeln!(out, "\tAF hash:    {}", slot.af_hash)
}

fn dump_tokens(out: &mut String, header: &luks2::Header) -> std::fmt::Result {
    writeln!(out, "Tokens:")?;
    for (id, token) in &header.view().tokens {
        writeln!(out, "  {id}: {}", token.kind)?;
        let description = &header.json()["tokens"][id.to_string()]["key_description"];
        if let (Some(description), "luks2-keyring") = (description.as_str(), token.kind.as_str()) {
            writeln!(out, "\tKey description: {description}")?;
        }
        for slot in &token.keyslots {
            writeln!(out, "\tKeyslot:    {slot}")?;
        }
    }
    Ok(())
}

fn dump_digests(out: &mut String, view: &HeaderView) -> std::fmt::Result {
    writeln!(out, "Digests:")?;
    for (id, digest) in &view.digests {
        writeln!(out, "  {id}: {}", digest.kind)?;
        if let Some(digest) = &digest.known {
            writeln!(out, "\tHash:       {}", digest.hash)?;
            writeln!(out, "\tIterations: {}", digest.iterations)?;
            bytes(out, "Salt:       ", &digest.salt)?;
            bytes(out, "Digest:     ", &digest.digest)?;
        }
    }
    Ok(())
}

/// Bytes, 16 on a line.
fn bytes(out: &mut String, name: &str, bytes: &[u8]) -> std::fmt::Result {
    let lines: Vec<String> = bytes.chunks(16).map(hex).collect();
    writeln!(out, "\t{name}{}", lines.join("\n\t            "))
}

/// Pairs of digits, with a space behind each.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x} ")).collect()
}
