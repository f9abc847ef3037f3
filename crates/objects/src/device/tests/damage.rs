//! Damage that people, programs and stores do to the objects of a pool. An import names it, and changes nothing.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::actors::ActiveWriter;
use super::ledger::{BLOCK, BlockValues, FACTS, ORDERED, offset_of, value_of};
use super::schedules::Schedule;
use super::simulation::LIMITS;
use super::store::FrozenStore;
use super::world::{InstantExecutor, ObjectShelf, at_once};
use crate::device::line::Line;
use crate::line::{checkpoint, names};
use crate::{Error, Result};

/// A pool that was exported, with a checkpoint and objects after it.
pub(super) fn exported() -> Schedule {
    let schedule = Schedule::new(None);
    let writer = schedule.take(0);
    for i in 0..16 {
        let writer = Arc::clone(&writer);
        let block = ORDERED.start + i % ORDERED.len();
        let written = schedule.finish(0, async move {
            writer.write(block).await?;
            writer.flush().await
        });
        written.expect("no other machine takes the line");
        schedule.wait(Duration::from_millis(500));
    }
    schedule.finish(0, async move { writer.close().await });
    schedule
}

/// Reads everything. The store takes no change.
fn read_all(schedule: &Schedule) -> Result<BlockValues> {
    let store = Arc::new(FrozenStore {
        world: Arc::clone(&schedule.stage.world),
        has_checkpoints: true,
    });
    let executor = Arc::new(InstantExecutor);
    let line = Arc::new(Line::new(store, executor, FACTS, (LIMITS, [9; 16])));
    at_once(line.open(None))?;
    let mut values = BlockValues::default();
    // Backwards, so that nothing is read ahead.
    for (block, value) in values.iter_mut().enumerate().rev() {
        let mut bytes = [0; BLOCK as usize];
        at_once(line.read(offset_of(block), &mut bytes))?;
        *value = value_of(&bytes).expect("a block has one value");
    }
    Ok(values)
}

/// The numbers of the objects of a folder.
fn numbers(shelf: &ObjectShelf, folder: &str) -> Vec<u64> {
    let names = shelf.objects.keys();
    names
        .filter_map(|name| names::number(folder, name))
        .collect()
}

/// The first object after the newest checkpoint, and the last one.
fn ends(shelf: &ObjectShelf) -> (u64, u64) {
    let newest = numbers(shelf, names::MAP).pop().expect("a checkpoint");
    let log = numbers(shelf, names::LOG);
    let first = log.iter().find(|number| **number > newest);
    let last = log.last().expect("an object");
    (*first.expect("an object after the checkpoint"), *last)
}

fn change(shelf: &mut ObjectShelf, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = shelf.objects[name].to_vec();
    change(&mut bytes);
    shelf.objects.insert(name.into(), bytes.into());
}

type Damage = fn(&mut ObjectShelf);

/// Damages, each with a part of the message.
const DAMAGES: [(Damage, &str); 7] = [
    (
        |shelf| {
            let name = names::log(ends(shelf).0);
            change(shelf, &name, |bytes| bytes.truncate(bytes.len() - 1));
        },
        "is damaged: it is not a log object, or it was shortened",
    ),
    (
        |shelf| {
            let name = names::log(ends(shelf).0);
            change(shelf, &name, |bytes| {
                let at = bytes.len() - 60;
                bytes[at] ^= 1;
            });
        },
        "is damaged: its checksum is wrong",
    ),
    (
        |shelf| {
            let name = names::log(ends(shelf).0);
            shelf.objects.remove(&name);
        },
        "is missing; a person, a program or a lifecycle rule",
    ),
    (
        |shelf| {
            let (first, last) = ends(shelf);
            let other = shelf.objects[&names::log(first)].clone();
            shelf.objects.insert(names::log(last + 1), other);
        },
        "is damaged: it is a copy of another object",
    ),
    (
        |shelf| {
            let newest = numbers(shelf, names::MAP).pop().expect("a checkpoint");
            let bytes = &shelf.objects[&names::checkpoint(newest)];
            let history = checkpoint::decode(bytes, FACTS.guid, newest);
            let mut history = history.expect("it is whole");
            history.last += 100;
            let bytes = Bytes::from(checkpoint::encode(&history, FACTS.guid));
            let name = names::checkpoint(history.last);
            shelf.objects.insert(name, bytes);
        },
        "is missing; a person, a program or a lifecycle rule",
    ),
    (
        |shelf| {
            let notes = Bytes::from_static(b"notes");
            shelf.objects.insert("log/notes.txt".into(), notes);
        },
        "the object 'log/notes.txt' is damaged: its name is none that a pool gives",
    ),
    (
        // A lifecycle rule deletes what is old.
        |shelf| {
            let (first, _) = ends(shelf);
            let old = numbers(shelf, names::LOG);
            for number in old.into_iter().filter(|number| *number + 1 < first) {
                shelf.objects.remove(&names::log(number));
            }
        },
        "is missing; a person, a program or a lifecycle rule",
    ),
];

#[test]
fn each_damage_is_named_and_nothing_is_changed() {
    for (i, (damage, message)) in DAMAGES.iter().enumerate() {
        let schedule = exported();
        read_all(&schedule).expect("the pool is whole");
        damage(&mut schedule.stage.world.state().shelf);
        let read = read_all(&schedule).map_err(|error| error.to_string());
        assert!(
            read.as_ref().is_err_and(|said| said.contains(message)),
            "{i}: {read:x?}"
        );
    }
}

/// Damages that an import survives.
const HARMLESS: [Damage; 3] = [
    |shelf| {
        let notes = Bytes::from_static(b"notes");
        shelf.objects.insert("notes.txt".into(), notes);
    },
    |shelf| {
        let newest = numbers(shelf, names::MAP).pop().expect("a checkpoint");
        change(shelf, &names::checkpoint(newest), |bytes| bytes[70] ^= 1);
    },
    |shelf| {
        let checkpoints = numbers(shelf, names::MAP);
        for number in checkpoints {
            shelf.objects.remove(&names::checkpoint(number));
        }
    },
];

#[test]
fn foreign_objects_and_lost_checkpoints_do_no_harm() {
    for damage in HARMLESS {
        let schedule = exported();
        let whole = read_all(&schedule).expect("the pool is whole");
        damage(&mut schedule.stage.world.state().shelf);
        assert_eq!(read_all(&schedule).expect("it is readable"), whole);
    }
}

/// The writer before has not ended, so the machine relies on a list.
#[test]
fn a_machine_with_an_old_list_takes_no_line_of_a_lost_machine() {
    let schedule = Schedule::new(None);
    let lost = schedule.take(0);
    let write = |actor, writer: &Arc<ActiveWriter>| {
        let writer = Arc::clone(writer);
        schedule.finish(
            actor,
            async move { writer.write_durably(ORDERED.start).await },
        )
    };
    write(0, &lost).expect("no other machine takes the line");
    schedule.stage.world.kill(0);
    let old = {
        let state = schedule.stage.world.state();
        state.shelf.objects.keys().cloned().collect()
    };
    let other = schedule.take(2);
    write(2, &other).expect("no other machine takes the line");
    schedule.stage.world.state().old_list = Some((1, old));
    let line = schedule.stage.line(1);
    let opened = Arc::clone(&line);
    let is_open = schedule.finish(1, async move { opened.open(None).await });
    is_open.expect("the pool is whole");
    let taken = schedule.finish(1, async move { line.take().await });
    let error = taken.expect_err("it does not know the write of the other machine");
    assert!(error.to_string().contains("a list of the store"), "{error}");
}

/// A proxy that caches, or a store that forgets: the list is of an earlier moment.
#[test]
fn a_machine_with_an_old_list_takes_no_line() {
    let schedule = exported();
    let old: BTreeSet<String> = {
        let state = schedule.stage.world.state();
        state.shelf.objects.keys().cloned().collect()
    };
    let other = schedule.take(2);
    let written = Arc::clone(&other);
    schedule
        .finish(2, async move { written.write_durably(ORDERED.start).await })
        .expect("no other machine takes the line");
    schedule.stage.world.state().old_list = Some((1, old));
    let line = schedule.stage.line(1);
    let opened = Arc::clone(&line);
    let is_open = schedule.finish(1, async move { opened.open(None).await });
    is_open.expect("the pool is whole");
    assert!(line.state().history.is_released);
    let before = schedule.stage.world.state().shelf.objects.clone();
    let taken = schedule.finish(1, async move { line.take().await });
    assert!(matches!(taken, Err(Error::Changed { .. })), "{taken:?}");
    assert_eq!(schedule.stage.world.state().shelf.objects, before);
    let goes_on = schedule.finish(2, async move { other.write_durably(ORDERED.start).await });
    assert!(goes_on.is_ok(), "{goes_on:?}");
}
