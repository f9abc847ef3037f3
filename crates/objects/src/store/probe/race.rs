//! Many writers of one name: exactly one of them may succeed.

use bytes::Bytes;
use futures_util::future::try_join_all;

use crate::Result;
use crate::store::probe::report::GuaranteeOutcome;
use crate::store::probe::scratch::{Attempt, Scratch};

const WRITERS: usize = 64;
/// The sizes of the objects, one for each round. The first round makes connections.
const ROUNDS: [usize; 16] = [
    16, 16, 65_536, 16, 16, 4_096, 16, 65_536, 16, 16, 4_096, 16, 16, 65_536, 16, 16,
];

/// Makes all rounds, until one is wrong.
pub(super) async fn one_winner(scratch: &Scratch) -> Result<GuaranteeOutcome> {
    for (round, size) in ROUNDS.into_iter().enumerate() {
        let name = format!("race/{round:02}");
        let bodies: Vec<_> = (0..WRITERS).map(|writer| body(writer, size)).collect();
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
    number.iter().copied().cycle().take(size).collect()
}

/// The way in which a round is wrong.
fn violation(attempts: &[Attempt], bodies: &[Bytes], stored: Option<&Bytes>) -> Option<String> {
    let winners: Vec<_> = (0..attempts.len())
        .filter(|&writer| attempts[writer] == Attempt::Made)
        .collect();
    let Some(stored) = stored else {
        return Some(format!(
            "{} of {WRITERS} writers succeeded, and there is no object",
            winners.len()
        ));
    };
    match winners.as_slice() {
        [] => {
            let mut unclear =
                (0..attempts.len()).filter(|&writer| attempts[writer] == Attempt::Unclear);
            let is_theirs = unclear.any(|writer| bodies[writer] == *stored);
            (!is_theirs).then(|| format!("none of {WRITERS} writers succeeded"))
        }
        [winner] => (bodies[*winner] != *stored)
            .then(|| "one writer succeeded, and the object of another one is stored".to_owned()),
        several => Some(format!("{} of {WRITERS} writers succeeded", several.len())),
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
