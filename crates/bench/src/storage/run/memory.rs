//! A LUKS mapping on a device in memory, beside that device and the cipher alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use block::{BlockDevice, MemoryDevice};
use cipher::{Random, SectorCipher, SectorSpec, SystemRandom};
use console::outcome::{Outcome, Result};
use console::show::json;
use console::show::table::{self, Column};
use luks::{Mapping, MappingFlags, PlainEncryption};
use protocol::api::Failure;
use secret::Secret;
use serde::Serialize;

use crate::storage::args::BenchBlock;

/// The smallest device: each thread has some requests of the largest size to itself.
const SIZE_MIN: u64 = 64 << 20;

/// Each form is measured so often, in turn with the others.
const ROUNDS: u32 = 5;

/// The time that a form is served in before the other, where it is switched while requests run.
const SWITCH: Duration = Duration::from_millis(2);

const INLINE: MappingFlags = MappingFlags {
    read_only: false,
    allow_discards: false,
    read_workqueue: false,
    write_workqueue: false,
    same_cpu: false,
    sort_writes: false,
    no_journal: false,
    recovery: false,
};

const QUEUED: MappingFlags = MappingFlags {
    read_workqueue: true,
    write_workqueue: true,
    ..INLINE
};

/// The kind of requests to a device.
struct Workload {
    name: &'static str,
    len: usize,
    threads: usize,
    random: bool,
    /// The number of writes among ten requests.
    writes: u64,
}

#[rustfmt::skip]
const WORKLOADS: [Workload; 5] = [
    Workload { name: "4K mixed, depth 1", len: 4 << 10, threads: 1, random: false, writes: 5 },
    Workload { name: "4K random read, depth 32", len: 4 << 10, threads: 32, random: true, writes: 0 },
    Workload { name: "4K random write, depth 32", len: 4 << 10, threads: 32, random: true, writes: 10 },
    Workload { name: "1M read", len: 1 << 20, threads: 1, random: false, writes: 0 },
    Workload { name: "1M write", len: 1 << 20, threads: 1, random: false, writes: 10 },
];

/// The results.
#[derive(Serialize)]
struct WorkloadRow {
    workload: &'static str,
    plain_mb_s: f64,
    plain_p99_ns: u64,
    crypto_mb_s: f64,
    bound_mb_s: f64,
    inline_mb_s: f64,
    inline_p99_ns: u64,
    inline_of_bound: f64,
    queued_mb_s: f64,
    queued_p99_ns: u64,
    queued_of_bound: f64,
    switched_mb_s: f64,
    switches: u64,
}

/// The samples of a form in all rounds.
#[derive(Default)]
struct LatencySamples {
    mb_s: Vec<f64>,
    /// The time that each request took, in nanoseconds.
    times: Vec<u64>,
}

impl LatencySamples {
    fn add(&mut self, (mb_s, times): (f64, Vec<u64>)) {
        self.mb_s.push(mb_s);
        self.times.extend(times);
    }

    /// The latency that 99 of 100 requests keep, in nanoseconds.
    fn p99(&mut self) -> u64 {
        self.times.sort_unstable();
        let at = self.times.len() * 99 / 100;
        self.times.get(at).copied().unwrap_or(0)
    }

    fn mb_s(&self) -> f64 {
        median(self.mb_s.clone())
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// The share of the bound that a form reached, round by round: in the middle.
fn of_bound(form: &LatencySamples, bounds: &[f64]) -> f64 {
    let shares = form.mb_s.iter().zip(bounds);
    median(shares.map(|(mb_s, bound)| mb_s / bound).collect())
}

pub(super) fn run(args: &BenchBlock, as_json: bool) -> Result {
    if !(0.01..=3600.0).contains(&args.seconds) || args.size < SIZE_MIN {
        return Err(Failure::usage(
            "a measurement takes 0.01 to 3600 seconds, and a device of at least 64 MiB",
        ));
    }
    let time = Duration::from_secs_f64(args.seconds);
    let key = key(args)?;
    let size = usize::try_from(args.size - args.size % (1 << 20));
    let size = size.map_err(|_| Failure::usage("the device does not fit into memory"))?;
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::from_bytes(vec![0x5a; size]));
    let mapping = mapping(args, Arc::clone(&device), &key)?;
    let cipher = cipher(args, &key)?;
    let subject = Subject {
        device,
        mapping,
        cipher,
        sector: args.sector_size as usize,
    };
    let rows = WORKLOADS
        .iter()
        .map(|workload| subject.measure(workload, time / ROUNDS));
    let rows: Vec<WorkloadRow> = rows.collect::<Result<_>>()?;
    Ok(Outcome::text(match as_json {
        true => json::show(&rows),
        false => shown(&rows),
    }))
}

/// A random key, as long as it is wanted.
pub(super) fn key(args: &BenchBlock) -> Result<Secret> {
    let mut key = Secret::zeroed(args.key_size / 8).map_err(Failure::from)?;
    SystemRandom
        .fill(key.expose_mut())
        .map_err(|error| Failure::other(error.to_string()))?;
    Ok(key)
}

/// The mapping that encrypts a device.
pub(super) fn mapping(
    args: &BenchBlock,
    device: Arc<dyn BlockDevice>,
    key: &Secret,
) -> Result<Mapping> {
    let settings = PlainEncryption {
        cipher: args.cipher.clone(),
        offset: 0,
        len: None,
        skip: 0,
        sector_size: args.sector_size,
    };
    Ok(Mapping::plain(
        &settings,
        device,
        key,
        MappingFlags::default(),
    )?)
}

/// The cipher of the device alone.
pub(super) fn cipher(args: &BenchBlock, key: &Secret) -> Result<SectorCipher> {
    let wrong = |error: cipher::Error| Failure::usage(error.to_string());
    let spec = SectorSpec::parse(&args.cipher).map_err(wrong)?;
    SectorCipher::new(spec, key.expose()).map_err(wrong)
}

/// The measurement.
struct Subject {
    device: Arc<dyn BlockDevice>,
    mapping: Mapping,
    cipher: SectorCipher,
    sector: usize,
}

impl Subject {
    /// Each for so long in turn, several times: what else the machine does disturbs all of them.
    fn measure(&self, workload: &Workload, time: Duration) -> Result<WorkloadRow> {
        let (mut plain, mut inline) = (LatencySamples::default(), LatencySamples::default());
        let (mut queued, mut switched) = (LatencySamples::default(), LatencySamples::default());
        let (mut cryptos, mut bounds, mut switches) = (Vec::new(), Vec::new(), 0);
        for _ in 0..ROUNDS {
            plain.add(measure(&*self.device, workload, time)?);
            self.mapping.set_flags(INLINE);
            inline.add(measure(&self.mapping, workload, time)?);
            let crypto_mb_s = crypto(&self.cipher, workload, self.sector, time)?;
            self.mapping.set_flags(QUEUED);
            queued.add(measure(&self.mapping, workload, time)?);
            let (measured, times) = self.measure_switched(workload, time)?;
            switched.add(measured);
            switches += times;
            let plain_mb_s = plain.mb_s.last().copied().unwrap_or(0.0);
            bounds.push(plain_mb_s * crypto_mb_s / (plain_mb_s + crypto_mb_s));
            cryptos.push(crypto_mb_s);
        }
        Ok(WorkloadRow {
            workload: workload.name,
            plain_mb_s: plain.mb_s(),
            plain_p99_ns: plain.p99(),
            crypto_mb_s: median(cryptos),
            inline_mb_s: inline.mb_s(),
            inline_p99_ns: inline.p99(),
            inline_of_bound: of_bound(&inline, &bounds),
            queued_mb_s: queued.mb_s(),
            queued_p99_ns: queued.p99(),
            queued_of_bound: of_bound(&queued, &bounds),
            bound_mb_s: median(bounds),
            switched_mb_s: switched.mb_s(),
            switches,
        })
    }

    /// While it runs, the form changes again and again; how often comes with the rest.
    fn measure_switched(
        &self,
        workload: &Workload,
        time: Duration,
    ) -> Result<((f64, Vec<u64>), u64)> {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let switching = scope.spawn(|| {
                let mut switches = 0u64;
                while !is_over.load(Ordering::Relaxed) {
                    let flags = [INLINE, QUEUED][(switches % 2) as usize];
                    self.mapping.set_flags(flags);
                    switches += 1;
                    std::thread::sleep(SWITCH);
                }
                switches
            });
            let measured = measure(&self.mapping, workload, time);
            is_over.store(true, Ordering::Relaxed);
            let switches = switching
                .join()
                .map_err(|_| Failure::other("a thread ended"))?;
            Ok((measured?, switches))
        })
    }
}

/// The throughput in MB/s, and how long each request took, in nanoseconds.
fn measure(
    device: &dyn BlockDevice,
    workload: &Workload,
    time: Duration,
) -> Result<(f64, Vec<u64>)> {
    let begin = Instant::now();
    let all: Vec<Result<Vec<u64>>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workload.threads)
            .map(|n| scope.spawn(move || requests(device, workload, n as u64, begin, time)))
            .collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined
            .map(|took| took.unwrap_or_else(|_| Err(Failure::other("a thread ended"))))
            .collect()
    });
    let elapsed = begin.elapsed().as_secs_f64();
    let times: Vec<u64> = all.into_iter().collect::<Result<Vec<_>>>()?.concat();
    let mb_s = times.len() as f64 * workload.len as f64 / 1e6 / elapsed;
    Ok((mb_s, times))
}

/// The time that each request of one thread took, in nanoseconds.
fn requests(
    device: &dyn BlockDevice,
    workload: &Workload,
    thread: u64,
    begin: Instant,
    time: Duration,
) -> Result<Vec<u64>> {
    let mut buf = vec![0xa5; workload.len];
    let places = device.size() / workload.len as u64;
    let mut times = Vec::with_capacity(1 << 20);
    let mut state = thread.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for n in 0u64.. {
        let asked = Instant::now();
        if asked.duration_since(begin) >= time {
            break;
        }
        // A xorshift generator: the order need not be good, but different.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let place = if workload.random { state } else { n } % places;
        let offset = place * workload.len as u64;
        match n % 10 < workload.writes {
            true => device.write_in_place(offset, &mut buf)?,
            false => device.read_at(offset, &mut buf)?,
        }
        times.push(asked.elapsed().as_nanos() as u64);
    }
    Ok(times)
}

/// The throughput of the cipher alone, by as many threads as there are processors for, in MB/s.
fn crypto(
    cipher: &SectorCipher,
    workload: &Workload,
    sector: usize,
    time: Duration,
) -> Result<f64> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let begin = Instant::now();
    let calls = |_| {
        let mut data = vec![0xa5; workload.len];
        let mut calls = 0u64;
        while begin.elapsed() < time {
            let (first, step) = (calls * 8, sector as u64 / 512);
            let done = match calls % 10 < workload.writes {
                true => cipher.encrypt(first, step, sector, &mut data),
                false => cipher.decrypt(first, step, sector, &mut data),
            };
            done.map_err(|error| Failure::other(error.to_string()))?;
            calls += 1;
        }
        Ok(calls)
    };
    let all: Vec<Result<u64>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workload.threads.min(processors))
            .map(|n| scope.spawn(move || calls(n)))
            .collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined
            .map(|calls| calls.unwrap_or_else(|_| Err(Failure::other("a thread ended"))))
            .collect()
    });
    let calls: u64 = all.into_iter().collect::<Result<Vec<_>>>()?.iter().sum();
    Ok(calls as f64 * workload.len as f64 / 1e6 / begin.elapsed().as_secs_f64())
}

fn shown(rows: &[WorkloadRow]) -> String {
    let columns = [
        Column::left("WORKLOAD"),
        Column::right("PLAIN"),
        Column::right("CRYPTO"),
        Column::right("BOUND"),
        Column::right("INLINE"),
        Column::right("OF BOUND"),
        Column::right("QUEUED"),
        Column::right("OF BOUND"),
        Column::right("SWITCHED"),
        Column::right("P99 PLAIN"),
        Column::right("INLINE"),
        Column::right("QUEUED"),
    ];
    let micros = |nanos: u64| format!("{:.1} µs", nanos as f64 / 1000.0);
    let cells = |row: &WorkloadRow| {
        let share = |of_bound: f64| format!("{:.0} %", 100.0 * of_bound);
        vec![
            row.workload.to_string(),
            format!("{:.0}", row.plain_mb_s),
            format!("{:.0}", row.crypto_mb_s),
            format!("{:.0}", row.bound_mb_s),
            format!("{:.0}", row.inline_mb_s),
            share(row.inline_of_bound),
            format!("{:.0}", row.queued_mb_s),
            share(row.queued_of_bound),
            format!("{:.0}", row.switched_mb_s),
            micros(row.plain_p99_ns),
            micros(row.inline_p99_ns),
            micros(row.queued_p99_ns),
        ]
    };
    let rows: Vec<_> = rows.iter().map(cells).collect();
    table::show(&columns, &rows, false)
}
