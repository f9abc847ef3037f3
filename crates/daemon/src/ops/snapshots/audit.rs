//! The log of who did what: the history of a pool with its chain of hashes, and the check of an anchor.

use encoding::hex;
use pool::{ChainedLine, HistoryChain};
use protocol::api::{AuditAnchor, AuditFinding, AuditReport, AuditRow, Reply};

use crate::failure::Result;
use crate::state::callers::context::CallerContext;
use crate::state::callers::row_stream::RowStream;
use crate::state::daemon::Daemon;

impl Daemon {
    /// The records of a pool from a number on, the oldest first. Records without a number come with the number 0.
    pub(crate) fn audit(
        &self,
        name: &str,
        from: u64,
        context: &mut CallerContext<'_>,
    ) -> Result<Vec<AuditRow>> {
        let chain = self.pool(name)?.pool.history_chain()?;
        let payer = context.payer();
        let send = |rows| context.channel.rows(Reply::Audit(rows));
        let mut rows = RowStream::new(payer, send);
        for line in chain.lines {
            if line.place.map_or(0, |(sequence, _)| sequence) >= from {
                rows.push(row(name, line))?;
            }
        }
        Ok(rows.into_rest())
    }

    /// Checks the records of a pool, and whether they have that of an anchor.
    pub(crate) fn audit_report(
        &self,
        name: &str,
        anchor: Option<&AuditAnchor>,
    ) -> Result<AuditReport> {
        let chain = self.pool(name)?.pool.history_chain()?;
        let mut places = chain.lines.iter().filter_map(|line| line.place);
        let records = places.clone().count() as u64;
        let newest = places.next_back().map(of_place);
        let dropped = chain.dropped.map_or(0, |(from, to)| to - from);
        // A log that contradicts itself proves nothing.
        let anchor = anchor.filter(|_| chain.fault.is_none());
        Ok(AuditReport {
            pool: name.into(),
            records,
            unchained: chain.lines.len() as u64 - records,
            dropped,
            newest,
            finding: anchor.map(|anchor| finding(&chain, anchor)),
            fault: chain.fault,
        })
    }
}

fn finding(chain: &HistoryChain, anchor: &AuditAnchor) -> AuditFinding {
    let mut places = chain.lines.iter().filter_map(|line| line.place);
    let is_dropped = |(from, to): (u64, u64)| (from..to).contains(&anchor.sequence);
    match places.find(|(sequence, _)| *sequence == anchor.sequence) {
        Some(place) if of_place(place) == *anchor => AuditFinding::Proved,
        Some(_) => AuditFinding::Changed,
        None if chain.dropped.is_some_and(is_dropped) => AuditFinding::Dropped,
        None => AuditFinding::Cut,
    }
}

fn of_place((sequence, hash): (u64, [u8; 32])) -> AuditAnchor {
    AuditAnchor {
        sequence,
        hash: hex(&hash),
    }
}

fn row(pool: &str, ChainedLine { line, place }: ChainedLine) -> AuditRow {
    let anchor = place.map(of_place);
    AuditRow {
        pool: pool.into(),
        sequence: anchor.as_ref().map(|anchor| anchor.sequence),
        hash: anchor.map(|anchor| anchor.hash),
        time: line.time,
        txg: line.txg,
        who: line.who,
        uid: line.uid,
        object: Some(line.object).filter(|object| *object != 0),
        internal: line.internal,
        command: line.text,
        result: "done".into(),
    }
}

#[cfg(test)]
mod tests {
    use pool::HistoryLine;

    use super::*;

    #[test]
    fn an_anchor_is_proved_dropped_cut_or_changed() {
        let line = |sequence: u64| ChainedLine {
            line: HistoryLine {
                time: 1,
                txg: 1,
                internal: false,
                uid: None,
                object: 0,
                who: "root on host".into(),
                text: "strongroom create tank/a".into(),
            },
            place: Some((sequence, [sequence as u8; 32])),
        };
        let chain = HistoryChain {
            lines: [0, 1, 8, 9].map(line).to_vec(),
            dropped: Some((2, 8)),
            ..HistoryChain::default()
        };
        let of = |sequence, byte| finding(&chain, &of_place((sequence, [byte; 32])));
        assert_eq!(of(1, 1), AuditFinding::Proved);
        assert_eq!(of(9, 9), AuditFinding::Proved);
        assert_eq!(of(9, 8), AuditFinding::Changed);
        assert_eq!([of(2, 2), of(7, 7)], [AuditFinding::Dropped; 2]);
        assert_eq!(of(10, 10), AuditFinding::Cut);
    }
}
