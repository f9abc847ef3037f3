//! Jobs of users who are not root: they have the rights of their owner, at each run.

use crate::common::*;

const ANN: (u32, u32) = (super::common::ANN, super::common::ANN);
const BOB: (u32, u32) = (12346, 12346);

#[test]
fn a_job_has_the_rights_that_its_owner_has_now() {
    let Some(place) = shared_place() else { return };
    place.pool("tank");
    place.pool("safe");
    place.ok("create tank/a");
    place.ok("create safe/ann");
    place.ok("snapshot tank/a@1");
    let run = |user, line: &str| {
        let done = place.run_as(user, &place.socket(), line);
        (done.code, done.out + &done.err)
    };
    let may = |user, line: &str| {
        let (code, said) = run(user, line);
        assert_eq!(code, 0, "{line}: {said}");
        said
    };
    let add = "replicate add copy tank/a safe/ann/a --every 365d";
    place.ok("allow 12345 send,key tank/a");
    assert_eq!(run(ANN, add).0, PERMISSION);
    place.ok("allow 12345 bookmark tank/a");
    assert_eq!(run(ANN, add).0, PERMISSION);
    place.ok("allow 12345 receive,create,mount safe/ann");
    may(ANN, add);
    may(ANN, "replicate run copy");
    has(
        &place.ok("list -H -t snapshot -o name -r safe"),
        "safe/ann/a@1",
    );
    has(
        &place.ok("pool history -l safe"),
        "12345 (replicate copy) on ",
    );
    // Others do not see it, whatever they may do.
    place.ok("allow 12346 send,key,bookmark tank/a");
    lacks(&may(BOB, "replicate list"), "copy");
    assert_eq!(run(BOB, "replicate run copy tank/a").0, NOT_FOUND);
    assert_eq!(run(BOB, "replicate remove copy tank/a").0, NOT_FOUND);
    has(&place.ok("replicate list"), "copy");
    // A right that is lost stops it, and it says so.
    place.ok("unallow 12345 receive safe/ann");
    place.ok("snapshot tank/a@2");
    let (code, said) = run(ANN, "replicate run copy");
    assert_eq!(code, PERMISSION, "{said}");
    has(&may(ANN, "replicate status copy"), "state: stopped");
    lacks(
        &place.ok("list -H -t snapshot -o name -r safe"),
        "safe/ann/a@2",
    );
    place.ok("allow 12345 receive safe/ann");
    may(ANN, "replicate resume copy");
    may(ANN, "replicate run copy");
    has(
        &place.ok("list -H -t snapshot -o name -r safe"),
        "safe/ann/a@2",
    );
    // Old bookmarks went, although the owner may destroy nothing.
    let marks = place.ok("list -H -t bookmark -o name -r tank/a");
    assert_eq!(marks.lines().count(), 1, "{marks}");
    may(ANN, "replicate remove copy");
    lacks(&place.ok("replicate list"), "copy");
}
