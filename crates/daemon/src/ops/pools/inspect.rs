//! The structures of a pool that can be read without keys.

use std::ops::ControlFlow;
use std::sync::Arc;

use block::DeviceAccess;
use cipher::Suite;
use encoding::hex;
use keys::Keyring;
use pool::{ArrayKind, Entry, Finding, LogEnd, Pool, RecordPtr, Superblock};
use protocol::api::{
    CheckRow, ChunkRow, InspectTarget, InspectedDataset, Inspection, KeychainRow, LogEntryRow,
    LogRow, PointerRow, SuperblockRow,
};
use store::Store;

use crate::failure::Result;
use crate::host::process::system::System;
use crate::state::daemon::Daemon;

/// The records of each array that are shown with the most detail.
const RECORDS_SHOWN: usize = 64;

impl Daemon {
    pub(crate) fn inspect(
        &self,
        target: &InspectTarget,
        detail: u8,
        check: bool,
    ) -> Result<Inspection> {
        match target {
            InspectTarget::Pool(name) => {
                let active = self.pool(name)?;
                let current = active.pool.superblock();
                inspect(&active.pool, vec![current], detail, check)
            }
            InspectTarget::Devices(paths) => {
                let store = self.open_store(
                    paths,
                    DeviceAccess::ReadOnly,
                    "a command that inspects a pool",
                )?;
                inspect_devices(Arc::new(store), detail, check)
            }
        }
    }
}

fn inspect_devices(store: Arc<Store>, detail: u8, check: bool) -> Result<Inspection> {
    let superblocks = store
        .superblocks()?
        .iter()
        .filter_map(|(txg, payload)| Superblock::decode(*txg, payload).ok())
        .collect();
    let pool = Pool::open(store, Arc::new(System), true)?;
    inspect(&pool, superblocks, detail, check)
}

fn inspect(
    pool: &Pool,
    superblocks: Vec<Superblock>,
    detail: u8,
    check: bool,
) -> Result<Inspection> {
    let space = pool.space();
    let mut datasets = Vec::new();
    if detail > 0 {
        for listed in pool.list(pool.top()?.id)? {
            datasets.push(dataset(pool, listed.name, &listed.entry, detail)?);
        }
    }
    Ok(Inspection {
        pool: pool.name(),
        guid: pool.guid(),
        superblocks: superblocks.into_iter().map(superblock_row).collect(),
        datasets,
        total: space.total,
        free: space.free,
        check: if check { Some(check_row(pool)?) } else { None },
    })
}

fn superblock_row(superblock: Superblock) -> SuperblockRow {
    SuperblockRow {
        txg: superblock.txg,
        time: superblock.time,
        state: format!("{:?}", superblock.state).to_uppercase(),
        host: superblock.host.name,
        host_id: superblock.host.id,
    }
}

fn dataset(pool: &Pool, name: String, entry: &Entry, detail: u8) -> Result<InspectedDataset> {
    let (keychain, keychain_error) = match entry.keyring {
        Some(_) if detail >= 3 => match keychain(pool, entry) {
            Ok(rows) => (rows, None),
            Err(failure) => (Vec::new(), Some(failure.message)),
        },
        _ => (Vec::new(), None),
    };
    let roots = ArrayKind::ALL.iter().zip(&entry.roots);
    Ok(InspectedDataset {
        name,
        id: entry.id,
        guid: entry.guid,
        family: entry.family,
        created_txg: entry.created_txg,
        suite: Suite::from_id(entry.suite)
            .map_or("off", |suite| suite.name())
            .into(),
        volume: entry
            .volume()
            .map(|shape| (shape.size(), shape.block_size())),
        referenced: entry.referenced,
        dead: entry.dead_bytes,
        sequence: entry.sequence,
        seal: hex(&entry.seal),
        roots: if detail >= 2 {
            roots
                .clone()
                .map(|(kind, root)| pointer_row(array_name(*kind).into(), root))
                .collect()
        } else {
            Vec::new()
        },
        keychain,
        keychain_error,
        records: if detail >= 4 {
            records(pool, entry)?
        } else {
            Vec::new()
        },
        log: log(pool, entry, detail)?,
    })
}

/// The log, from detail 2 on; with its entries from detail 4 on.
fn log(pool: &Pool, entry: &Entry, detail: u8) -> Result<Option<LogRow>> {
    if detail < 2 {
        return Ok(None);
    }
    let shown = if detail >= 4 { RECORDS_SHOWN } else { 0 };
    let Some(log) = pool.shown_log(entry.id, shown)? else {
        return Ok(None);
    };
    let (count, is_damaged) = match log.end {
        LogEnd::Whole { entries } => (entries, false),
        LogEnd::Damaged { entries } | LogEnd::Unreadable { entries } => (entries, true),
    };
    let chunks = log.head.chunks().iter();
    let chunks = chunks.map(|chunk| ChunkRow {
        place: place(chunk),
        size: chunk.size(),
    });
    let entries = log.entries.iter().map(|entry| LogEntryRow {
        sequence: entry.sequence,
        flushed: entry.flushed,
        place: place(&entry.place),
        size: entry.place.size(),
        records: entry.records,
        generation: entry.identity.generation(),
        identity: identity(&entry.identity),
    });
    Ok(Some(LogRow {
        chain: format!("{:016x}", log.head.chain),
        sequence: log.head.sequence,
        base: log.head.base,
        offset: log.head.offset(),
        chunks: chunks.collect(),
        count,
        is_damaged,
        entries: entries.collect(),
    }))
}

fn keychain(pool: &Pool, entry: &Entry) -> Result<Vec<KeychainRow>> {
    let keyring = Keyring::decode(&pool.keyring(entry.id)?)?;
    Ok(keyring
        .generations()
        .iter()
        .map(|generation| KeychainRow {
            generation: generation.number(),
            txg: generation.txg(),
            wrapped_len: generation.wrapped_len() as u64,
            algorithm: generation.wrapped_by().name().into(),
        })
        .collect())
}

fn records(pool: &Pool, entry: &Entry) -> Result<Vec<PointerRow>> {
    let mut rows = Vec::new();
    for kind in ArrayKind::ALL {
        let mut count = 0;
        pool.each_record(&entry.roots[kind as usize], &mut |slot, ptr| {
            count += 1;
            rows.push(pointer_row(format!("{} {slot}", array_name(kind)), ptr));
            if count < RECORDS_SHOWN {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })?;
    }
    Ok(rows)
}

fn array_name(kind: ArrayKind) -> &'static str {
    match kind {
        ArrayKind::Pages => "pages",
        ArrayKind::Data => "data",
    }
}

fn pointer_row(what: String, ptr: &RecordPtr) -> PointerRow {
    PointerRow {
        what,
        level: ptr.level(),
        places: ptr.place.copies().map(|addr| place(&addr)).collect(),
        disk_size: ptr.place.disk_size(),
        logical_size: ptr.identity.logical_size(),
        birth: ptr.place.birth(),
        generation: ptr.identity.generation(),
        checksum: hex(&ptr.place.checksum),
        identity: identity(&ptr.identity),
    }
}

fn place(addr: &pool::Addr) -> String {
    let segment = addr.segment();
    format!(
        "{}/{}:{:#x}",
        segment.group(),
        segment.index(),
        addr.offset()
    )
}

/// The nonce and the tag of a record, as text.
fn identity(identity: &pool::RecordIdentity) -> String {
    format!("{} {}", hex(identity.nonce()), hex(identity.tag()))
}

fn check_row(pool: &Pool) -> Result<CheckRow> {
    let report = pool.check()?;
    Ok(CheckRow {
        datasets: report.datasets,
        records: report.records,
        nodes: report.nodes,
        bytes: report.bytes,
        findings: report.findings.iter().map(describe).collect(),
        count: report.count,
    })
}

fn describe(finding: &Finding) -> String {
    let at =
        |segment: &store::SegmentId| format!("segment {}/{}", segment.group(), segment.index());
    match finding {
        Finding::UsedTwice {
            what,
            segment,
            offset,
        } => {
            format!(
                "{what} lies in space that another record uses too: {}, offset {offset:#x}",
                at(segment)
            )
        }
        Finding::NotAllocated { segment, units } => {
            format!(
                "{units} units are in use, and marked as free: {}",
                at(segment)
            )
        }
        Finding::Leaked { segment, units } => {
            format!(
                "{units} units are free, and marked as in use: {}",
                at(segment)
            )
        }
        Finding::Deadlist {
            name,
            missing,
            surplus,
        } => format!(
            "the deadlist of {name} does not have {missing} freed records or nodes, and has {surplus} that are \
             not freed"
        ),
        Finding::Logical {
            name,
            listed,
            found,
        } => format!(
            "the deadlist of {name} counts {listed} bytes before compression, and has {found}"
        ),
        Finding::Shared {
            segment,
            offset,
            pointers,
            listed,
        } => format!(
            "{pointers} pointers share a record, and the dedup table counts {listed}: {}, offset {offset:#x}",
            at(segment)
        ),
        Finding::StoredSum {
            what,
            segment,
            offset,
            says,
            found,
        } => format!(
            "a node of {what} has records of {}, and its pointer says {says}: {}, offset {offset:#x}",
            found.map_or("an unknown size".into(), |units| format!("{units} units")),
            at(segment)
        ),
        Finding::Unreadable { what, why } => format!("{what} cannot be read: {why}"),
    }
}
