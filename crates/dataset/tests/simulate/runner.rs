//! Runs seeds, on all cores, and makes short of what fails.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, Once};
use std::time::{Duration, Instant};

use crate::sim::{Sim, Tally};

/// Steps of a run.
pub const STEPS: u64 = 250;
/// Attempts to do without some steps of a run that fails.
const ATTEMPTS: u32 = 120;
/// A long run ends after so many failures: more would say the same.
const MOST_FAILURES: usize = 10;
/// A long run says how far it is after so many seeds.
const PROGRESS: u64 = 100;

/// A seed, and the steps that are not left out.
#[derive(Clone)]
pub struct Run {
    pub seed: u64,
    pub steps: BTreeSet<u64>,
}

thread_local! {
    /// The message of the last panic of this thread.
    static MESSAGE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// A failed run.
struct Failure {
    message: String,
    log: String,
    /// The step in which it did.
    at: u64,
}

impl Run {
    /// To the end; what the devices hold then.
    pub fn go(&self) -> blake3::Hash {
        let (hash, _) = self.try_go().unwrap_or_else(|failure| {
            panic!("seed {}: {}\n{}", self.seed, failure.log, failure.message)
        });
        hash
    }

    fn try_go(&self) -> Result<(blake3::Hash, Tally), Failure> {
        keep_messages();
        let mut sim = Sim::new(self.seed);
        let mut at = 0;
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            for step in &self.steps {
                at = *step;
                sim.step(*step);
            }
            at = u64::MAX;
            sim.finish();
        }));
        outcome.map_err(|_| Failure {
            message: MESSAGE.take(),
            log: sim.log(),
            at,
        })?;
        Ok((sim.hash(), sim.tally))
    }

    /// Leaves out whatever can be left out with the run still failing in the same place.
    fn shortened(mut self, mut failure: Failure) -> (Run, Failure) {
        self.steps = self.steps.range(..=failure.at).copied().collect();
        let mut attempts = 0;
        let mut chunk = self.steps.len().div_ceil(2);
        while chunk > 0 && attempts < ATTEMPTS {
            let steps: Vec<u64> = self.steps.iter().copied().collect();
            for some in steps.chunks(chunk) {
                let mut shorter = self.clone();
                shorter.steps.retain(|step| !some.contains(step));
                attempts += 1;
                if let Err(other) = shorter.try_go()
                    && place(&other.message) == place(&failure.message)
                {
                    (self, failure) = (shorter, other);
                }
            }
            chunk /= 2;
        }
        (self, failure)
    }
}

/// Returns the position in the source at which a panic was.
fn place(message: &str) -> &str {
    message.lines().next().unwrap_or_default()
}

/// Panics are noted, and shown in the report.
fn keep_messages() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if std::thread::current()
                .name()
                .is_some_and(|name| name.starts_with("seeds"))
            {
                let place = info.location().map_or(String::new(), ToString::to_string);
                MESSAGE.set(format!("{place}\n{info}"));
            } else {
                usual(info);
            }
        }));
    });
}

/// Runs seeds from `first` on, `count` of them unless `STRONGROOM_SEEDS` says otherwise; `forever`
/// with `FIRST+forever`. `STRONGROOM_STEPS` names the steps of a single one, and with `STRONGROOM_LOG`
/// the program says what it has to say. It ends at the first failure, but for a long run ([`Long`]).
pub fn run_all(first: u64, count: u64) {
    if std::env::var_os("STRONGROOM_LOG").is_some() {
        let _ = tracing_subscriber::fmt().with_ansi(false).try_init();
    }
    let (seeds, long) = (seeds(first, count), Long::asked());
    let next = AtomicU64::new(seeds.start);
    let found: Mutex<Found> = Mutex::default();
    let work = || {
        while !long.is_over(&found.lock().unwrap()) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            let run = Run {
                seed,
                steps: steps(),
            };
            let outcome = run.try_go();
            {
                let mut found = found.lock().unwrap();
                found.add(&outcome, seed);
                long.say(&found, &seeds);
            }
            if let Err(failure) = outcome {
                long.note(&report(run, failure));
            }
        }
    };
    std::thread::scope(|scope| {
        for n in 0..threads() {
            let name = format!("seeds-{n}");
            let thread = std::thread::Builder::new().name(name);
            thread.spawn_scoped(scope, work).unwrap();
        }
    });
    found.into_inner().unwrap().sum_up(&seeds);
}

/// The results of the seeds so far.
#[derive(Default)]
struct Found {
    done: u64,
    failed: Vec<u64>,
    all: Tally,
}

impl Found {
    fn add(&mut self, outcome: &Result<(blake3::Hash, Tally), Failure>, seed: u64) {
        self.done += 1;
        match outcome {
            Ok((_, tally)) => self.all.add(*tally),
            Err(_) => self.failed.push(seed),
        }
    }

    /// Returns the number of seeds that ran, and of all.
    fn of(&self, seeds: &Range<u64>) -> String {
        match seeds.end {
            u64::MAX => format!("{} seeds", self.done),
            end => format!("{} of {} seeds", self.done, end - seeds.start),
        }
    }

    fn sum_up(self, seeds: &Range<u64>) {
        let (count, all) = (self.done, self.all);
        eprintln!("{}, {all:?}", self.of(seeds));
        assert!(
            self.failed.is_empty(),
            "these seeds failed; see above: {:?}",
            self.failed
        );
        if count >= 50 {
            // Else the model is of something that never happens.
            assert!(all.hits > 0 && all.grown > 0 && all.clones > 0, "{all:?}");
        }
    }
}

/// A run of many seeds, which goes on after a failure and says how far it is: `STRONGROOM_FAILED` names the file for
/// the commands that repeat what failed, `STRONGROOM_SECONDS` the time after which no seed is begun.
struct Long {
    failed: Option<PathBuf>,
    begun: Instant,
    time: Option<Duration>,
}

impl Long {
    fn asked() -> Long {
        let seconds = std::env::var("STRONGROOM_SECONDS").ok();
        let time = seconds.map(|text| Duration::from_secs(text.parse().expect("seconds")));
        Long {
            failed: std::env::var_os("STRONGROOM_FAILED").map(PathBuf::from),
            begun: Instant::now(),
            time,
        }
    }

    fn is_over(&self, found: &Found) -> bool {
        let most = self.failed.as_ref().map_or(1, |_| MOST_FAILURES);
        let is_late = self.time.is_some_and(|time| self.begun.elapsed() >= time);
        is_late || found.failed.len() >= most
    }

    fn say(&self, found: &Found, seeds: &Range<u64>) {
        if self.failed.is_some() && found.done.is_multiple_of(PROGRESS) {
            let (failed, seconds) = (found.failed.len(), self.begun.elapsed().as_secs());
            eprintln!("{}, {failed} failed, {seconds} s", found.of(seeds));
        }
    }

    fn note(&self, command: &str) {
        if let Some(path) = &self.failed {
            let file = File::options().create(true).append(true).open(path);
            writeln!(file.expect("the file for failures"), "{command}").expect("a line in it");
        }
    }
}

/// Says how a run failed, and with how few steps it does. Returns the command that repeats it.
fn report(run: Run, failure: Failure) -> String {
    let seed = run.seed;
    eprintln!("seed {seed} fails:\n{}\n{}", failure.log, failure.message);
    let (run, failure) = run.shortened(failure);
    let steps: Vec<String> = run.steps.iter().map(u64::to_string).collect();
    let command = format!("scripts/simulate {seed} {}", steps.join(","));
    eprintln!(
        "\n\nseed {seed} with {} steps:\n{}\n{}\n\nagain:\n  {command}\n",
        steps.len(),
        failure.log,
        failure.message,
    );
    command
}

fn threads() -> usize {
    let asked = std::env::var("STRONGROOM_THREADS").ok();
    let cores = || std::thread::available_parallelism().map_or(1, |n| n.get());
    asked.map_or_else(cores, |text| text.parse().expect("a number"))
}

fn seeds(first: u64, count: u64) -> Range<u64> {
    match std::env::var("STRONGROOM_SEEDS").as_deref() {
        Ok(asked) if asked.ends_with("+forever") => {
            let first = asked.trim_end_matches("+forever").parse().expect("a seed");
            first..u64::MAX
        }
        _ => crate::common::seeds(first, count),
    }
}

fn steps() -> BTreeSet<u64> {
    match std::env::var("STRONGROOM_STEPS") {
        Ok(asked) => {
            let steps = asked.split(',').filter(|step| !step.is_empty());
            steps.map(|step| step.parse().expect("a step")).collect()
        }
        Err(_) => (0..STEPS).collect(),
    }
}
