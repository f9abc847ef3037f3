//! Verifies snapshots: reads every record and checks it. No key is needed.

use std::sync::{Arc, Weak};
use std::time::Duration;

use encoding::{hex, unhex};
use pool::{ArrayKind, EarlierSnapshot, Entry, LostPart, SealInput, SnapshotProof};
use protocol::api::{FailureKind, LostRecords, Reply, VerifiedSnapshot, command};

use crate::failure::{Failure, Result};
use crate::state::callers::context::CallerContext;
use crate::state::callers::verifications::{RunningVerification, interrupted};
use crate::state::daemon::Daemon;
use crate::state::pools::active_pool::ActivePool;

/// The number of threads that read records.
const READERS: usize = 4;

/// A snapshot that is to be verified.
struct WantedSnapshot {
    /// A pool that is exported meanwhile does not stay open.
    active: Weak<ActivePool>,
    snapshot: Arc<Entry>,
    name: String,
}

impl Daemon {
    /// Reads snapshots. Each row is sent when its snapshot has been read.
    pub(crate) fn verify(
        &self,
        it: &command::Verify,
        context: &mut CallerContext<'_>,
    ) -> Result<Vec<VerifiedSnapshot>> {
        let challenge = it.challenge.as_deref().map(parse_challenge).transpose()?;
        // A forced end of the daemon closes the connection, which ends the verification.
        let data = context.channel.data()?;
        let _transfer = self.transfers.begin(&data)?;
        let mut last: Option<(WantedSnapshot, bool)> = None;
        for wanted in self.snapshots_to_verify(&it.names)? {
            // Reading takes long, and the caller may have lost a right meanwhile.
            context.decision.again()?;
            let WantedSnapshot { snapshot, name, .. } = &wanted;
            let active = &wanted.pool()?;
            let running = active.verifications.begin(&data)?;
            match active.again(snapshot, name, context.decision) {
                // A proof is of exactly the snapshots that were named.
                Err(failure) if failure.kind == FailureKind::NotFound && it.challenge.is_none() => {
                    let notice = format!("'{name}' was destroyed meanwhile, and is left out");
                    context.channel.notice(notice);
                    continue;
                }
                found => found?,
            };
            let is_before = |(last, _): &&(WantedSnapshot, bool)| {
                Weak::ptr_eq(&last.active, &wanted.active)
                    && last.snapshot.parent == snapshot.parent
                    && active.pool.is_earlier(&last.snapshot, snapshot)
                    && (it.challenge.is_some() || active.pool.entry(last.snapshot.id).is_ok())
            };
            let since = last.as_ref().filter(is_before);
            let since = since.map(|(last, is_whole)| EarlierSnapshot {
                id: last.snapshot.id,
                is_whole: *is_whole,
            });
            let challenge_key = challenge.unwrap_or_default();
            let proof = wanted.read(active, since, &challenge_key, (&running, context))?;
            let was_whole = since.is_none_or(|since| since.is_whole);
            let is_whole = was_whole && proof.lost_count == 0;
            let row = wanted.row(active, proof, challenge.is_some())?;
            context.channel.rows(Reply::Verified(vec![row]))?;
            last = Some((wanted, is_whole));
        }
        Ok(Vec::new())
    }

    /// The snapshots that these names mean, in the same order; of a dataset all, the oldest first.
    fn snapshots_to_verify(&self, names: &[String]) -> Result<Vec<WantedSnapshot>> {
        let mut wanted = Vec::new();
        for name in names {
            let (active, entry) = self.find(name)?;
            let snapshots = match entry.is_snapshot() {
                true => vec![entry],
                false => active.pool.snapshots(entry.id)?,
            };
            if snapshots.is_empty() {
                return Err(Failure::usage(format!(
                    "'{name}' has no snapshot; only snapshots are verified, because they do not change"
                )));
            }
            for snapshot in snapshots {
                wanted.push(WantedSnapshot {
                    name: active.pool.name_of(snapshot.id)?,
                    active: Arc::downgrade(&active),
                    snapshot,
                });
            }
        }
        Ok(wanted)
    }
}

impl WantedSnapshot {
    fn pool(&self) -> Result<Arc<ActivePool>> {
        let gone = || {
            let text = format!("the pool of '{}' was exported meanwhile", self.name);
            Failure::new(FailureKind::NotFound, text)
        };
        self.active.upgrade().ok_or_else(gone)
    }

    fn read(
        &self,
        active: &ActivePool,
        since: Option<EarlierSnapshot>,
        challenge: &[u8; 32],
        (running, context): (&RunningVerification<'_>, &mut CallerContext<'_>),
    ) -> Result<SnapshotProof> {
        let reader = active
            .pool
            .prove(self.snapshot.id, since, challenge, READERS)?;
        let mut go_on = |_| context.channel.pause(Duration::ZERO) && !running.is_interrupted();
        let read = reader.read(&mut go_on)?;
        read.ok_or_else(|| match running.is_interrupted() {
            true => interrupted(),
            false => Failure::other("the caller went away"),
        })
    }

    fn row(
        &self,
        active: &ActivePool,
        proof: SnapshotProof,
        is_proof_wanted: bool,
    ) -> Result<VerifiedSnapshot> {
        let snapshot = &self.snapshot;
        let head = active.pool.entry(snapshot.parent)?;
        Ok(VerifiedSnapshot {
            name: self.name.clone(),
            guid: snapshot.guid,
            created: snapshot.created,
            encrypted: snapshot.suite != 0,
            seal: hex(&snapshot.seal),
            sealed: hex(&SealInput::of(snapshot, head.guid).to_report()),
            records: proof.records,
            bytes: proof.bytes,
            unchecked: proof.unchecked,
            lost: proof.lost.into_iter().map(lost_row).collect(),
            lost_count: proof.lost_count,
            proof: proof
                .proof
                .filter(|_| is_proof_wanted)
                .map(|proof| hex(&proof)),
        })
    }
}

fn lost_row(lost: LostPart) -> LostRecords {
    LostRecords {
        array: match lost.array {
            ArrayKind::Pages => "pages".into(),
            ArrayKind::Data => "data".into(),
        },
        slot: lost.slot,
        slots: lost.slots,
        why: lost.why,
    }
}

fn parse_challenge(digits: &str) -> Result<[u8; 32]> {
    let bytes = unhex(digits).and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or_else(|| {
        Failure::usage("a challenge has 64 hexadecimal digits; make one with: openssl rand -hex 32")
    })
}
