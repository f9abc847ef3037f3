//! Power cuts while LUKS containers are made and changed: what `power_cuts` does with pools.

use std::fs;
use std::process::Command;

use crate::common::recorder::{Image, Recorder, Run, Survivors, mix, seeds};
use crate::common::*;

const DEVICE_SIZE: u64 = 18 << 20;
const CHEAP: &str = "--pbkdf pbkdf2 --pbkdf-force-iterations 1000";
const KEYS: [&str; 3] = ["key0", "key1", "key2"];

/// The commands of a run; `{0}` is the device. `fill` writes data and flushes it.
const STEPS: &[&str] = &[
    "luks format --batch-mode {CHEAP} --key-file {DIR}/key0 {0}",
    "fill",
    "luks add-key {CHEAP} --key-file {DIR}/key0 --new-keyfile {DIR}/key1 {0}",
    "luks reencrypt {CHEAP} --hotzone-size 128K --key-slot 0 --key-file {DIR}/key0 {0}",
    "luks change-key {CHEAP} --key-file {DIR}/key0 --new-keyfile {DIR}/key2 {0}",
    "luks reencrypt {CHEAP} --hotzone-size 256K --resilience journal --key-file {DIR}/key2 {0}",
    "luks add-key {CHEAP} --key-file {DIR}/key2 --new-keyfile {DIR}/key0 {0}",
    "luks remove-key --batch-mode --key-file {DIR}/key2 {0}",
    "luks erase --batch-mode {0}",
];

/// The keys that open a container, and the sum of its data.
#[derive(Clone, Debug, PartialEq)]
struct State {
    opens: [bool; 3],
    sum: Option<String>,
}

fn line_of(place: &Place, recorder: &Recorder, step: &str) -> String {
    let line = step
        .replace("{CHEAP}", CHEAP)
        .replace("{0}", &recorder.uri(0));
    line.replace("{DIR}", place.root().to_str().unwrap())
}

/// Copies between a file and the data of a device that a key opens.
fn copy(place: &Place, device: &str, key: &str, file: &str, is_read: bool) -> Result<(), String> {
    let open = format!("luks open --key-file {{DIR}}/{key} {device} x");
    let done = place.run(&place.words(&open));
    if done.code != 0 {
        return Err(format!("{key}: {done:?}"));
    }
    place.ok("nbd export luks:x");
    let uri = format!("nbd+unix:///x?socket={}", place.path("nbd.sock").display());
    let mut copying = Command::new("nbdcopy");
    copying.arg("--flush");
    match is_read {
        true => copying.arg(&uri).arg(place.path(file)),
        false => copying.arg(place.path(file)).arg(&uri),
    };
    let copied = copying.output().unwrap();
    place.ok("nbd unexport x");
    place.ok("luks close x");
    copied
        .status
        .success()
        .then_some(())
        .ok_or_else(|| format!("{copied:?}"))
}

fn look(place: &Place, device: &str) -> Result<State, String> {
    let mut state = State {
        opens: [false; 3],
        sum: None,
    };
    for (opens, key) in state.opens.iter_mut().zip(KEYS) {
        match copy(place, device, key, "read", true) {
            Ok(()) => {
                *opens = true;
                let sum = blake3::hash(&fs::read(place.path("read")).unwrap()).to_string();
                if state.sum.as_ref().is_some_and(|other| *other != sum) {
                    return Err(format!("with {key} the data is not the same"));
                }
                state.sum = Some(sum);
            }
            Err(wrong) if wrong.contains("code: 7") || wrong.contains("code: 8") => {}
            Err(wrong) => return Err(wrong),
        }
    }
    Ok(state)
}

fn run(place: &Place) -> Run<State> {
    let recorder = Recorder::new(vec![Image::default()], DEVICE_SIZE);
    let mut answers = Vec::new();
    for step in STEPS {
        if *step == "fill" {
            fs::write(place.path("data"), contents(1, 2 << 20)).unwrap();
            copy(place, &recorder.uri(0), "key0", "data", false).unwrap();
        } else {
            place.ok(&line_of(place, &recorder, step));
        }
        answers.push((recorder.moment(), look(place, &recorder.uri(0)).unwrap()));
    }
    Run { recorder, answers }
}

/// Ends a re-encryption that was interrupted, with the first of the keys that can.
fn resume(resume_with: &dyn Fn(&str) -> Result<(), String>, state: &State) -> Result<(), String> {
    let keys = KEYS.iter().zip(state.opens).filter(|(_, opens)| *opens);
    let mut wrong = Vec::new();
    for (key, _) in keys {
        match resume_with(key) {
            Ok(()) => return Ok(()),
            Err(said) => wrong.push(said),
        }
    }
    Err(format!("no key ends the re-encryption: {wrong:?}"))
}

fn is_interrupted(place: &Place, device: &str) -> bool {
    place
        .ok(&format!("luks dump {device}"))
        .contains("online-reencrypt")
}

/// Has the program end an interrupted re-encryption.
fn resume_by_program(place: &Place, device: &str, state: &State) -> Result<(), String> {
    let by = |key: &str| {
        let line = format!("luks reencrypt --resume-only --key-file {{DIR}}/{key} {device}");
        let done = place.run(&place.words(&line));
        (done.code == 0)
            .then_some(())
            .ok_or_else(|| format!("{done:?}"))
    };
    resume(&by, state)
}

/// Has cryptsetup end an interrupted re-encryption of a file.
fn resume_by_cryptsetup(place: &Place, file: &str, state: &State) -> Result<(), String> {
    let by = |key: &str| {
        let mut command = Command::new("cryptsetup");
        command.args("reencrypt -q --resume-only --force-offline-reencrypt --key-file".split(' '));
        let done = command
            .arg(place.path(key))
            .arg(place.path(file))
            .output()
            .unwrap();
        done.status
            .success()
            .then_some(())
            .ok_or_else(|| format!("{done:?}"))
    };
    resume(&by, state)
}

/// The changes that survive a power cut. Checksums protect a re-encryption where the device writes encrypted sectors,
/// here 4,096 bytes, as one; a journal protects it in any case.
fn survivors_in(seed: u64, step: Option<&str>) -> Survivors {
    let needs_blocks =
        step.is_some_and(|step| step.contains("reencrypt") && !step.contains("journal"));
    match Survivors::of(seed) {
        Survivors::Sectors(seed) if needs_blocks => Survivors::Blocks(seed),
        survivors => survivors,
    }
}

/// Cuts the power at a moment, looks, ends a re-encryption, cuts that, and looks again. An error is what is wrong.
fn try_cut(place: &Place, run: &Run<State>, seed: u64) -> Result<(), String> {
    let moment = (mix(seed, 1, 0) % (run.recorder.moment() as u64 + 1)) as usize;
    let (before, after, step) = run.right(moment);
    let step = STEPS.get(step).copied();
    let survivors = survivors_in(seed, step);
    let told =
        |wrong: &str| format!("seed {seed}: cut at {moment}, {survivors:?}, in {step:?}: {wrong}");
    let is_right = |state: &State| {
        let mut right = [before, after].into_iter().flatten();
        right.any(|right| match step {
            Some("fill") => right.opens == state.opens,
            // Slots go one after the other; the last ones go with the data.
            Some(step) if step.contains("erase") => state.sum.is_none() || right.sum == state.sum,
            _ => right == state,
        })
    };
    let recorder = Recorder::new(run.recorder.cut(moment, survivors, |_| true), DEVICE_SIZE);
    let device = recorder.uri(0);
    let found = match look(place, &device) {
        Ok(state) => state,
        Err(_) if before.is_none() => return Ok(()),
        Err(wrong) => return Err(told(&wrong)),
    };
    if !is_right(&found) {
        return Err(told(&format!("{found:?}, not {before:?} or {after:?}")));
    }
    if !is_interrupted(place, &device) {
        return Ok(());
    }
    let everything = recorder.cut(recorder.moment(), Survivors::All, |_| true);
    everything[0].write_to(&place.path("image"), DEVICE_SIZE);
    resume_by_cryptsetup(place, "image", &found).map_err(|wrong| told(&wrong))?;
    let judged = look(place, &place.arg("image")).map_err(|wrong| told(&wrong))?;
    resume_by_program(place, &device, &found).map_err(|wrong| told(&wrong))?;
    let ended = look(place, &device).map_err(|wrong| told(&wrong))?;
    for (who, state) in [("cryptsetup", &judged), ("the program", &ended)] {
        if !is_right(state) {
            return Err(told(&format!(
                "after {who} ended it: {state:?}, not {after:?}"
            )));
        }
    }
    let second = (mix(seed, 2, 0) % (recorder.moment() as u64 + 1)) as usize;
    let survivors = survivors_in(mix(seed, 3, 0), step);
    let images = recorder.cut(second, survivors, |_| true);
    let again = Recorder::new(images, DEVICE_SIZE);
    let kept = look(place, &again.uri(0)).map_err(|wrong| told(&format!("cut again: {wrong}")))?;
    is_right(&kept)
        .then_some(())
        .ok_or_else(|| told(&format!("cut again at {second}, {survivors:?}: {kept:?}")))
}

#[test]
fn a_container_is_whole_after_a_power_cut() {
    needs!(
        ["nbdcopy", "cryptsetup"]
            .iter()
            .all(|tool| is_installed(tool))
    );
    let place = Place::new();
    for (number, key) in KEYS.iter().enumerate() {
        fs::write(place.path(key), format!("passphrase {number}")).unwrap();
    }
    let run = run(&place);
    let wrong: Vec<String> = seeds(16)
        .filter_map(|seed| try_cut(&place, &run, seed).err())
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
