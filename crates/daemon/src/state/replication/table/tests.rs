//! Tests of the table of jobs.

use super::RunPermit::*;
use super::*;
use crate::state::replication::checks::{CheckKind, CheckOutcome, LastChecks};

fn job(owner: u32) -> ReplicationJob {
    ReplicationJob {
        name: "j".into(),
        target: "backup/home".into(),
        owner,
        user: None,
        every: 3600,
        recursive: false,
        keep: None,
        limit: None,
        window: None,
        token: None,
        ca: None,
        paused: false,
    }
}

fn key(dataset: u64) -> JobKey {
    JobKey {
        pool: 1,
        dataset,
        name: "j".into(),
    }
}

fn table() -> (tempfile::TempDir, ReplicationTable) {
    let dir = tempfile::tempdir().unwrap();
    let table = ReplicationTable::new(&Arc::new(StateDir::new(dir.path())));
    (dir, table)
}

#[test]
fn a_job_runs_when_it_is_due_and_once_at_a_time() {
    let (_dir, table) = table();
    let begin = |permit, now| table.begin(&key(1), &job(0), permit, now);
    let end = |run, outcome| table.end(&key(1), &run, outcome);
    assert!(begin(OnCommand, 1000).is_none());
    let run = begin(WhenDue, 1000).unwrap();
    assert!(begin(WhenDue, 9000).is_none());
    assert!(end(run, Err(Failure::other("x"))));
    // After a failure it is tried earlier.
    assert!(begin(WhenDue, 1000 + RETRY - 1).is_none());
    let run = begin(WhenDue, 1000 + RETRY).unwrap();
    assert!(!end(run, Err(Failure::other("x"))));
    let run = begin(WhenDue, 1000 + 2 * RETRY).unwrap();
    assert!(end(run, Ok(())));
    assert!(begin(WhenDue, 1000 + 3 * RETRY).is_none());
    assert_eq!(table.want(&key(1)), 3);
    let run = begin(OnCommand, 1000 + 3 * RETRY).unwrap();
    assert!(table.outcome(&key(1), 3, Duration::ZERO).is_none());
    end(run, Ok(()));
    assert!(table.outcome(&key(1), 3, Duration::ZERO).unwrap().is_ok());
}

#[test]
fn a_long_failure_is_cut() {
    let (_dir, table) = table();
    let run = table.begin(&key(1), &job(0), WhenDue, 1000).unwrap();
    let long = Failure::other("x".repeat(9 << 20));
    assert!(table.end(&key(1), &run, Err(long)));
    assert!(table.view(&key(1)).error.unwrap().len() < FAILURE_MAX + 100);
}

#[test]
fn a_run_that_is_stopped_is_no_fault() {
    let (_dir, table) = table();
    let begin = |permit, now| table.begin(&key(1), &job(0), permit, now);
    let run = begin(WhenDue, 1000).unwrap();
    assert!(table.end(&key(1), &run, Err(Failure::other("x"))));
    let run = begin(WhenDue, 1000 + RETRY).unwrap();
    table.stop_by_itself(&key(1), "its hours are over");
    let stopped = run.check().unwrap_err();
    assert!(!table.end(&key(1), &run, Err(stopped)));
    // It says neither that the job works again, nor that it fails.
    assert_eq!(table.view(&key(1)).error.as_deref(), Some("x"));
    assert!(table.outcome(&key(1), 1, Duration::ZERO).unwrap().is_err());
    // It goes on soon.
    let run = begin(WhenDue, 1000 + 2 * RETRY).unwrap();
    assert!(table.end(&key(1), &run, Ok(())));
    let run = begin(WhenDue, 9000).unwrap();
    table.stop_by_itself(&key(1), "its hours are over");
    let stopped = run.check().unwrap_err();
    assert!(!table.end(&key(1), &run, Err(stopped)));
    assert!(table.view(&key(1)).error.is_none());
    let run = begin(WhenDue, 9000 + RETRY).unwrap();
    assert!(!table.end(&key(1), &run, Ok(())));
    table.want(&key(1));
    let run = begin(OnCommand, 2000).unwrap();
    table.stop_by_itself(&key(1), "its hours are over");
    run.check().unwrap();
}

#[test]
fn a_wish_is_for_an_accepted_definition_and_does_not_outlive_a_pause() {
    let (_dir, table) = table();
    let begin = |permit| table.begin(&key(1), &job(0), permit, 1000);
    let outcome = |before| table.outcome(&key(1), before, Duration::ZERO);
    let before = table.want(&key(1));
    assert!(outcome(before).is_none());
    // The pool came back with another definition.
    assert!(begin(Refused).is_none());
    assert!(outcome(before).unwrap().is_err());
    assert!(begin(OnCommand).is_none());
    table.want(&key(1));
    table.stop_job(&key(1), "the job was paused");
    assert!(outcome(before).unwrap().is_err() && begin(OnCommand).is_none());
    table.want(&key(1));
    table.stop_jobs_with(key(1).pool, "tank");
    assert!(begin(OnCommand).is_none());
}

#[test]
fn a_job_that_is_removed_while_it_runs_keeps_its_place() {
    let (_dir, table) = table();
    let begin = |permit| table.begin(&key(1), &job(0), permit, 1000);
    let old = begin(WhenDue).unwrap();
    table.forget(&key(1), &job(0)).unwrap();
    assert_eq!(table.jobs.lock().runs_of(0), 1);
    // Another job with the same name waits for the end of the old run.
    let before = table.want(&key(1));
    assert!(begin(WhenDue).is_none());
    assert!(!table.end(&key(1), &old, Err(Failure::other("removed"))));
    assert!(table.view(&key(1)).error.is_none());
    let new = begin(OnCommand).unwrap();
    // The end of another run is not that of this one.
    assert!(!table.end(&key(1), &old, Err(Failure::other("again"))));
    assert!(table.outcome(&key(1), before, Duration::ZERO).is_none());
    table.end(&key(1), &new, Ok(()));
    let outcome = table.outcome(&key(1), before, Duration::ZERO);
    assert!(outcome.unwrap().is_ok());
}

#[test]
fn a_job_without_a_right_stops_until_it_is_resumed() {
    let (_dir, table) = table();
    let begin = |now| table.begin(&key(1), &job(0), WhenDue, now);
    let run = begin(1000).unwrap();
    let refused = Failure::new(FailureKind::Permission, "no");
    table.end(&key(1), &run, Err(refused));
    assert!(begin(1_000_000).is_none() && table.view(&key(1)).is_stopped);
    table.renew(&key(1));
    assert!(begin(1_000_000).is_some());
}

#[test]
fn the_runs_that_use_a_pool_are_known_without_reading_it() {
    let (_dir, table) = table();
    let run = table.begin(&key(1), &job(0), WhenDue, 1000).unwrap();
    let other = JobKey { pool: 2, ..key(1) };
    let far = ReplicationJob {
        target: "ssh://h/backup/home".into(),
        ..job(0)
    };
    let other = table.begin(&other, &far, WhenDue, 1000).unwrap();
    for (guid, name, stops) in [(7, "home", false), (7, "backup", true), (1, "x", true)] {
        let run = match guid {
            1 => table.begin(&key(9), &far, WhenDue, 1000).unwrap(),
            _ => Arc::clone(&run),
        };
        let (table, key) = (&table, if guid == 1 { key(9) } else { key(1) });
        std::thread::scope(|scope| {
            let stopping = scope.spawn(move || table.stop_jobs_with(guid, name));
            if stops {
                while run.check().is_ok() {
                    std::thread::yield_now();
                }
                table.end(&key, &run, run.check());
            }
            stopping.join().unwrap();
        });
        assert_eq!(run.check().is_err(), stops, "{guid} {name}");
    }
    other.check().unwrap();
}

#[test]
fn the_jobs_of_one_user_do_not_take_all_places() {
    let (_dir, table) = table();
    for dataset in 0..RUNS_MAX as u64 {
        table.begin(&key(dataset), &job(7), WhenDue, 1).unwrap();
    }
    assert!(table.begin(&key(99), &job(7), WhenDue, 1).is_none());
    table.begin(&key(99), &job(8), WhenDue, 1).unwrap();
    table.jobs.lock().is_closed = true;
    assert!(table.begin(&key(98), &job(9), WhenDue, 1).is_none());
}

#[test]
fn a_definition_is_accepted_on_this_machine_only() {
    let (dir, table) = table();
    table.accept(&key(1), &job(0)).unwrap();
    let again = ReplicationTable::new(&Arc::new(StateDir::new(dir.path())));
    assert!(again.has_accepted(&key(1), &job(0)));
    assert!(!again.has_accepted(&key(2), &job(0)));
    assert!(!again.has_accepted(&key(1), &job(1)));
    again.forget(&key(1), &job(0)).unwrap();
    assert!(!again.has_accepted(&key(1), &job(0)));
}

#[test]
fn jobs_whose_datasets_are_gone_are_forgotten() {
    let (dir, table) = table();
    let elsewhere = JobKey { pool: 2, ..key(3) };
    for key in [&key(1), &key(2), &elsewhere] {
        table.accept(key, &job(0)).unwrap();
        table.note_behind(key, true);
    }
    let before = table.definitions_changed();
    table.accept(&key(4), &job(0)).unwrap();
    let listed = job(0);
    // The listing may be older than the last job.
    table.sweep(1, &[(key(1), &listed)], before);
    assert!(table.has_accepted(&key(2), &job(0)) && table.has_accepted(&key(4), &job(0)));
    let run = table.begin(&key(2), &job(0), WhenDue, 1).unwrap();
    table.sweep(1, &[(key(1), &listed)], table.definitions_changed());
    let again = ReplicationTable::new(&Arc::new(StateDir::new(dir.path())));
    for table in [&table, &again] {
        let has = |key: &JobKey| table.has_accepted(key, &job(0));
        assert!(has(&key(1)) && has(&elsewhere));
        assert!(!has(&key(2)) && !has(&key(4)));
    }
    // A run that has not ended keeps its record.
    let keys = || table.jobs.lock().all.keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(), [key(1), key(2), elsewhere.clone()]);
    table.end(&key(2), &run, Ok(()));
    table.sweep(1, &[(key(1), &listed)], table.definitions_changed());
    assert_eq!(keys(), [key(1), elsewhere]);
}

#[test]
fn copies_are_verified_once_at_a_time_and_the_outcome_is_remembered() {
    let (dir, table) = table();
    let checks = &table.checks;
    let running = checks.begin(&key(1), &job(0)).unwrap();
    let busy = checks.begin(&key(1), &job(0)).err().unwrap();
    assert_eq!(busy.kind, FailureKind::Busy);
    // An export of the pool of the source or of the copy stops it, and waits for its end.
    table.stop_jobs_with(2, "home");
    running.progress.check().unwrap();
    std::thread::scope(|scope| {
        let export = scope.spawn(|| table.stop_jobs_with(2, "backup"));
        while running.progress.check().is_ok() {
            std::thread::yield_now();
        }
        drop(running);
        export.join().unwrap();
    });
    let outcome = |failure: Option<&str>| CheckOutcome {
        time: 5,
        failure: failure.map(str::to_owned),
        newest: false,
    };
    let newest = |failure: Option<&str>| CheckOutcome {
        newest: true,
        ..outcome(failure)
    };
    let note = |outcome| checks.note(&key(1), CheckKind::Verification, outcome);
    assert!(!note(outcome(None)));
    assert!(note(outcome(Some("lost"))));
    assert!(!note(outcome(Some("lost"))));
    // The newest copies say nothing of the others.
    assert!(!note(newest(None)));
    let attempt = || outcome(Some("no answer"));
    assert!(checks.note_attempt(&key(1), attempt()));
    assert!(!checks.note_attempt(&key(1), attempt()));
    checks.note(&key(1), CheckKind::Drill, outcome(None));
    let again = ReplicationTable::new(&Arc::new(StateDir::new(dir.path())));
    let (last, running) = again.checks.view(&key(1));
    assert!(running.is_none());
    assert_eq!(last.verification, Some(outcome(Some("lost"))));
    assert_eq!(last.drill, Some(outcome(None)));
    assert_eq!(last.attempt, Some(attempt()));
    assert!(
        again
            .checks
            .note(&key(1), CheckKind::Verification, outcome(None))
    );
    assert!(
        again
            .checks
            .note(&key(1), CheckKind::Verification, newest(Some("old")))
    );
    let (last, _) = again.checks.view(&key(1));
    assert_eq!(last.verification, Some(newest(Some("old"))));
    assert_eq!(last.attempt, None);
    again.checks.forget(&key(1));
    assert_eq!(again.checks.view(&key(1)).0, LastChecks::default());
    table.close();
    assert!(checks.begin(&key(1), &job(0)).is_err());
    table.open();
    drop(checks.begin(&key(1), &job(0)).unwrap());
}
