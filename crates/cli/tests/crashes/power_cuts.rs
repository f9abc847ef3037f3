//! Power cuts of the real daemon: a server of devices records each write, answer and flush of a run of commands. The power
//! is cut at any moment, and any part of what no flush covers is lost. A pool is then what it was after the last command
//! that had its answer, or after the next one. The recovery is cut as well.
//!
//! `STRONGROOM_SEEDS=FIRST+COUNT` tries other moments, and more of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use crate::common::recorder::{Image, Recorder, Run, Survivors, mix, seeds};
use crate::common::*;

const DEVICES: usize = 4;
const DEVICE_SIZE: u64 = 40 << 20;

/// The commands and writes of a run. `write FILE SEED LEN` writes a file and calls `fsync`; `{0}` is the first device.
const STEPS: &[&str] = &[
    "pool create -m none tank mirror {0} {1}",
    "create -o encryption=on -o keysource=raw,file://{DIR}/key1 -o mountpoint={DIR}/m/a tank/a",
    "write a/one 1 300000",
    "write a/two 2 100",
    "snapshot tank/a@first",
    "write a/one 3 400000",
    "set compression=off tank/a",
    "clone -o keysource=raw,file://{DIR}/key2 -o mountpoint={DIR}/m/c tank/a@first tank/c",
    "write c/three 4 5000",
    "key rotate tank/a",
    "write a/two 5 70000",
    "key change -o keysource=raw,file://{DIR}/key2 tank/a",
    "pool add -f tank {2}",
    "write a/four 6 2000000",
    "rename tank/c tank/d",
    "pool attach -w tank {2} {3}",
    "write a/five 7 1000000",
    "pool detach tank {3}",
    "snapshot -r tank@all",
    "promote tank/d",
    "pool replace -w tank {1} {3}",
    "write c/three 8 900000",
    "rollback tank/d@all",
    "pool checkpoint tank",
    "write a/one 9 100000",
    "pool checkpoint -d tank",
    "create -o encryption=on -o keysource=raw,file://{DIR}/key1 -V 8M tank/disk",
    "copy tank/a@all tank/copy",
    "destroy -f -r tank/copy",
    "destroy -f tank/disk",
    "destroy -f tank/a@all",
    "pool sync tank",
];

/// The names of everything in a pool, and what it is.
type Contents = BTreeMap<String, String>;

/// A step with the names of devices and directories in it.
fn line_of(place: &Place, recorder: &Recorder, step: &str) -> String {
    let devices = (0..DEVICES).map(|device| (format!("{{{device}}}"), recorder.uri(device)));
    devices.fold(
        step.replace("{DIR}", place.root().to_str().unwrap()),
        |line, (name, uri)| line.replace(&name, &uri),
    )
}

/// Carries out a step.
fn take(place: &Place, recorder: &Recorder, step: &str) {
    let line = line_of(place, recorder, step);
    match *words(&line) {
        ["write", file, seed, len] => {
            let bytes = contents(seed.parse().unwrap(), len.parse().unwrap());
            write_synced(&place.path("m").join(file), &bytes).unwrap();
            let dir = place.path("m").join(file);
            fs::File::open(dir.parent().unwrap())
                .unwrap()
                .sync_all()
                .unwrap();
        }
        ["copy", from, to] => {
            let sent = place.command().args(["send", "-w", from]).output().unwrap();
            assert!(sent.status.success(), "{sent:?}");
            let done = place.run_with(&["receive", "-u", to], &sent.stdout);
            assert_eq!(done.code, 0, "{done:?}");
        }
        _ => drop(place.ok(&line)),
    }
}

/// All contents of a pool, as its users see them.
fn look(place: &Place) -> Contents {
    let mut all = Contents::new();
    let columns = "name,type,guid,origin,mountpoint,encryption,keysource,compression,volsize";
    for line in place.ok(&format!("list -H -p -t all -o {columns}")).lines() {
        let (name, rest) = line.split_once('\t').unwrap();
        all.insert(name.into(), rest.into());
    }
    let mounts = place.path("m");
    for name in all.keys().cloned().collect::<Vec<_>>() {
        let line = all[&name].clone();
        let fields: Vec<&str> = line.split('\t').collect();
        let dir = Path::new(fields[3]);
        if fields[0] == "filesystem" && dir.starts_with(&mounts) && is_mounted(dir) {
            walk(dir, &name, &mut all);
        }
    }
    all
}

/// Adds the files of a directory, and those of the snapshots of a dataset.
fn walk(dir: &Path, name: &str, all: &mut Contents) {
    let snapshots = dir.join(".snapshot");
    let listed = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let within = fs::read_dir(&snapshots).into_iter().flatten();
    for path in listed.chain(within.map(|entry| entry.unwrap().path())) {
        let meta = fs::symlink_metadata(&path).unwrap();
        let name = format!("{name}:{}", path.strip_prefix(dir).unwrap().display());
        if meta.is_dir() {
            walk(&path, &name, all);
        } else {
            let read = fs::read(&path).map(|bytes| blake3::hash(&bytes).to_hex());
            let sum = read.map_or_else(|error| error.to_string(), |sum| sum.to_string());
            all.insert(name, format!("{:o} {} {sum}", meta.mode(), meta.len()));
        }
    }
}

fn is_mounted(dir: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mut dirs = mounts.lines().filter_map(|line| line.split(' ').nth(4));
    dirs.any(|mounted| Path::new(mounted) == dir)
}

fn new_place() -> Place {
    let place = Place::new();
    for (name, byte) in [("key1", 1), ("key2", 2)] {
        fs::write(place.path(name), [byte; 32]).unwrap();
        fs::set_permissions(place.path(name), fs::Permissions::from_mode(0o600)).unwrap();
    }
    place
}

fn run(place: &Place) -> Run<Contents> {
    let recorder = Recorder::new(vec![Image::default(); DEVICES], DEVICE_SIZE);
    let mut answers = Vec::new();
    for step in STEPS {
        take(place, &recorder, step);
        answers.push((recorder.moment(), look(place)));
    }
    Run { recorder, answers }
}

/// The differences between two contents, except for a file that a step was writing.
fn differences(is: &Contents, wanted: &Contents, step: Option<&str>) -> Vec<String> {
    let written = step.and_then(|step| match *words(step) {
        ["write", file, ..] => file.split_once('/').map(|(_, file)| format!(":{file}")),
        _ => None,
    });
    let is_loose = |name: &str| {
        let written = written.as_ref();
        !name.contains(":.snapshot/") && written.is_some_and(|written| name.ends_with(written))
    };
    let names: BTreeSet<&String> = is.keys().chain(wanted.keys()).collect();
    let names = names.into_iter();
    names
        .filter(|name| !is_loose(name) && is.get(*name) != wanted.get(*name))
        .map(|name| format!("{name}: {:?}, not {:?}", is.get(name), wanted.get(name)))
        .collect()
}

/// Imports the pool that devices hold, looks at it and exports it. An error is what is wrong.
fn recover(place: &Place, recorder: &Recorder) -> Result<(usize, Contents), String> {
    let mut words = place.words("pool import -N -l --accept tank");
    for device in 0..DEVICES {
        words.extend(["-d".into(), recorder.uri(device)]);
    }
    let done = place.run(&words);
    if done.code != 0 {
        return Err(format!("{done:?}"));
    }
    // The daemon saw the states of other cuts, of which this one did not grow.
    let names = place.ok("list -H -o name -t filesystem,volume -r tank");
    place.ok(&format!("anchor accept {}", names.replace('\n', " ")));
    place.run(&["mount", "-a"]);
    let imported = recorder.moment();
    let found = look(place);
    let scrubbed = place.run(&["pool", "scrub", "-w", "tank"]);
    let status = place.ok("pool status -v tank");
    place.ok("pool export -f tank");
    if scrubbed.code == 0 && status.contains("with 0 errors") {
        Ok((imported, found))
    } else {
        Err(status)
    }
}

/// Cuts the power at a moment, recovers, and cuts the recovery. An error is what is wrong.
fn try_cut(
    place: &Place,
    run: &Run<Contents>,
    seed: u64,
    honours: impl Fn(usize) -> bool,
) -> Result<(), String> {
    let moment = (mix(seed, 1, 0) % (run.recorder.moment() as u64 + 1)) as usize;
    let survivors = Survivors::of(seed);
    let (before, after, step) = run.right(moment);
    let step = STEPS.get(step).copied();
    let told =
        |wrong: &str| format!("seed {seed}: cut at {moment}, {survivors:?}, in {step:?}: {wrong}");
    let images = run.recorder.cut(moment, survivors, honours);
    let recorder = Recorder::new(images, DEVICE_SIZE);
    let judge = |found: &Contents| {
        let wrong: Vec<Vec<String>> = [before, after]
            .into_iter()
            .flatten()
            .map(|wanted| differences(found, wanted, step))
            .collect();
        if wrong.iter().any(Vec::is_empty) {
            Ok(())
        } else {
            Err(format!("{wrong:#?}"))
        }
    };
    let (imported, found) = match recover(place, &recorder) {
        Ok(recovered) => recovered,
        // Before the pool was made, there need not be one.
        Err(_) if before.is_none() => return Ok(()),
        Err(wrong) => return Err(told(&wrong)),
    };
    judge(&found).map_err(|wrong| told(&wrong))?;

    let second = (mix(seed, 2, 0) % (recorder.moment() as u64 + 1)) as usize;
    let images = recorder.cut(second, Survivors::of(mix(seed, 3, 0)), |_| true);
    let again = Recorder::new(images, DEVICE_SIZE);
    let told = |wrong: &str| {
        told(&format!(
            "cut again at {second}, imported at {imported}: {wrong}"
        ))
    };
    let (_, kept) = recover(place, &again).map_err(|wrong| told(&wrong))?;
    if second >= imported && kept != found {
        return Err(told(&format!("{:#?}", differences(&kept, &found, None))));
    }
    judge(&kept).map_err(|wrong| told(&wrong))
}

#[test]
fn a_pool_is_what_was_answered_for_after_a_power_cut() {
    needs!(can_mount());
    let mut place = new_place();
    let run = run(&place);
    let (_, last) = run.answers.last().unwrap();
    for name in ["tank/a:five", "tank/d:.snapshot/all:three"] {
        assert!(
            last.contains_key(name),
            "{name} is not looked at: {last:#?}"
        );
    }
    place.crash();
    place.start();
    let wrong: Vec<String> = seeds(16)
        .filter_map(|seed| try_cut(&place, &run, seed, |_| true).err())
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));

    // The judge sees a device that obeys one flush in four.
    let seen = (0..40).any(|seed| {
        let careless = try_cut(&place, &run, seed, |flush| {
            mix(seed, 5, flush as u64).is_multiple_of(4)
        });
        place.ok("pool export -f -a");
        careless.is_err()
    });
    assert!(seen, "lost flushes are not noticed");
}
