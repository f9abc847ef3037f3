//! Many writers of one name: exactly one of them may succeed.

use bytes::Bytes;
use futures_util::future::try_join_all;

use crate::Result;
use crate::store::probe::report::GuaranteeOutcome;
use crate::store::probe::scratch::{Attempt, Scratch};

/// The number of writers and the sizes of their objects, for each round.
///
/// Many writers find a store that serves them on several machines. A few find one that looks first and makes the object
/// then, because each round begins anew. The first round makes connections.
const ROUNDS: [(usize, usize); 27] = {
    let mut rounds = [(8, 4_096); 27];
    rounds[0] = (64, 16);
    rounds[9] = (64, 65_536);
    rounds[18] = (64, 16);
    let mut large = 3;
    while large < 27 {
        rounds[large] = (8, 300_000);
        large += 6;
    }
    rounds
};

/// A round with objects as large as those of a pool. Some stores look first, and make the object after they have received
/// or digested it. The larger it is, the more time is between.
const LARGE_ROUND: (usize, usize) = (4, 8 << 20);

/// The extent of the checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeDepth {
    /// Enough for a new pool: about 530 requests and 150 MiB.
    Brief,
    /// More races of large objects: about 550 requests and 350 MiB.
    Thorough,
}

impl ProbeDepth {
    fn large_rounds(self) -> usize {
        match self {
            ProbeDepth::Brief => 3,
            ProbeDepth::Thorough => 8,
        }
    }
}

/// Makes all rounds, until one is wrong.
pub(super) async fn one_winner(scratch: &Scratch, depth: ProbeDepth) -> Result<GuaranteeOutcome> {
    let large = std::iter::repeat_n(LARGE_ROUND, depth.large_rounds());
    for (round, (writers, size)) in ROUNDS.into_iter().chain(large).enumerate() {
        let name = format!("race/{round:02}");
        let bodies: Vec<_> = (0..writers).map(|writer| body(writer, size)).collect();
        let attempts = bodies.iter().map(|body| scratch.create(&name, body));
        let attempts = try_join_all(attempts).await?;
        let stored = scratch.read(&name, size).await?;
        if let Some(how) = violation(&attempts, &bodies, stored.as_ref()) {
            return Ok(GuaranteeOutcome::Broken(format!(
                "round {}: {how}",
                round + 1
            )));
        }
    }
    Ok(GuaranteeOutcome::Holds)
}

/// The object of a writer. No two are the same.
fn body(writer: usize, size: usize) -> Bytes {
    let number = (writer as u64).to_le_bytes();
    let mut bytes = number.repeat(size.div_ceil(number.len()));
    bytes.truncate(size);
    bytes.into()
}

/// The way in which a round is wrong.
fn violation(attempts: &[Attempt], bodies: &[Bytes], stored: Option<&Bytes>) -> Option<String> {
    let winners: Vec<_> = (0..attempts.len())
        .filter(|&writer| attempts[writer] == Attempt::Made)
        .collect();
    let Some(stored) = stored else {
        return Some(format!(
            "{} of {} writers succeeded, and there is no object",
            winners.len(),
            attempts.len()
        ));
    };
    match winners.as_slice() {
        [] => {
            let mut unclear =
                (0..attempts.len()).filter(|&writer| attempts[writer] == Attempt::Unclear);
            let is_theirs = unclear.any(|writer| bodies[writer] == *stored);
            (!is_theirs).then(|| format!("none of {} writers succeeded", attempts.len()))
        }
        [winner] => (bodies[*winner] != *stored)
            .then(|| "one writer succeeded, and the object of another one is stored".to_owned()),
        several => Some(format!(
            "{} of {} writers succeeded",
            several.len(),
            attempts.len()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_bytes_of_the_winner_may_be_stored() {
        use Attempt::{Exists, Made, Unclear};
        let bodies = [body(0, 16), body(1, 16), body(2, 16)];
        for (attempts, stored, is_right) in [
            ([Exists, Made, Exists], Some(1), true),
            ([Exists, Made, Exists], Some(0), false),
            ([Exists, Made, Exists], None, false),
            ([Made, Made, Exists], Some(1), false),
            ([Exists, Exists, Exists], Some(1), false),
            ([Exists, Unclear, Exists], Some(1), true),
            ([Exists, Unclear, Exists], Some(2), false),
            ([Unclear, Made, Exists], Some(1), true),
            ([Unclear, Made, Exists], Some(0), false),
        ] {
            let stored = stored.map(|writer: usize| &bodies[writer]);
            let violation = violation(&attempts, &bodies, stored);
            assert_eq!(violation.is_none(), is_right, "{attempts:?}: {violation:?}");
        }
    }
}
