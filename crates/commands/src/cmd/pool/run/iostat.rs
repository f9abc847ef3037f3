//! `pool iostat`: the requests of pools to their devices.

use console::outcome::Result;
use console::session::{Session, answer};
use console::show::table::{self, Column};
use console::show::{json, size};
use protocol::api::{CacheIo, DeviceIo, Io, PoolIoReport, StoreIo, command};

use super::repeat;
use crate::cmd::pool::args::PoolIostat;

const SECOND: u64 = 1_000_000_000;

pub(super) fn run(mut args: PoolIostat, session: &mut Session) -> Result {
    let (pools, again) = repeat::split(std::mem::take(&mut args.words))?;
    let mut before: Vec<PoolIoReport> = Vec::new();
    if let Some(again) = again.filter(|_| args.skip_first) {
        let pools = pools.clone();
        before = answer!(session.call(command::PoolIo { pools })?, Io)?;
        again.wait();
    }
    repeat::run(again, args.stamp.checked(session)?, |made| {
        let pools = pools.clone();
        let now = answer!(session.call(command::PoolIo { pools })?, Io)?;
        let since: Vec<PoolIoReport> = now.iter().map(|pool| pool_since(pool, &before)).collect();
        before = now;
        Ok(match session.json {
            true => json::show(&since),
            false => report(&since, &args, made),
        })
    })
}

/// The difference to an earlier look, if the pool was there then.
fn pool_since(now: &PoolIoReport, before: &[PoolIoReport]) -> PoolIoReport {
    let mut pool = now.clone();
    if let Some(before) = before.iter().find(|pool| pool.name == now.name) {
        let caches = pool.caches.iter_mut().map(|cache| &mut cache.device);
        let known = before.caches.iter().map(|cache| &cache.device);
        let known: Vec<&DeviceIo> = before.devices.iter().chain(known).collect();
        for device in pool.devices.iter_mut().chain(caches) {
            let earlier = known.iter().find(|at| at.path == device.path);
            // One that was opened anew counts from there.
            if let Some(earlier) = earlier.filter(|at| at.elapsed <= device.elapsed) {
                *device = device_since(device, earlier);
            }
        }
    }
    pool
}

fn device_since(now: &DeviceIo, before: &DeviceIo) -> DeviceIo {
    DeviceIo {
        path: now.path.clone(),
        elapsed: now.elapsed - before.elapsed,
        read: io_since(now.read, before.read),
        write: io_since(now.write, before.write),
        flush: io_since(now.flush, before.flush),
        discard: io_since(now.discard, before.discard),
        store: now.store.as_ref().map(|now| match &before.store {
            Some(before) => requests_since(now, before),
            None => now.clone(),
        }),
    }
}

fn requests_since(now: &StoreIo, before: &StoreIo) -> StoreIo {
    // Prices that have changed since then give no cost of the interval.
    let cost = now.cost.zip(before.cost).map(|(now, before)| now - before);
    let cost = cost.filter(|cost| *cost >= 0.0 && now.currency == before.currency);
    StoreIo {
        puts: now.puts.saturating_sub(before.puts),
        gets: now.gets.saturating_sub(before.gets),
        lists: now.lists.saturating_sub(before.lists),
        deletes: now.deletes.saturating_sub(before.deletes),
        repeated: now.repeated.saturating_sub(before.repeated),
        sent: now.sent.saturating_sub(before.sent),
        received: now.received.saturating_sub(before.received),
        cost,
        currency: now.currency.clone(),
    }
}

fn io_since(now: Io, before: Io) -> Io {
    Io {
        operations: now.operations.saturating_sub(before.operations),
        bytes: now.bytes.saturating_sub(before.bytes),
        errors: now.errors.saturating_sub(before.errors),
        nanos: now.nanos.saturating_sub(before.nanos),
    }
}

/// A table. What comes after the first is only its lines, unless these are several.
fn report(pools: &[PoolIoReport], args: &PoolIostat, made: u64) -> String {
    if pools.is_empty() && !args.script {
        return "no pools available\n".into();
    }
    let mut rows = Vec::new();
    for pool in pools {
        let space = Some((pool.allocated, pool.free));
        rows.push(row(&pool.name, space, &pool.devices, args));
        for device in pool.devices.iter().filter(|_| args.verbose) {
            let name = format!("  {}", device.path);
            rows.push(row(&name, None, std::slice::from_ref(device), args));
        }
        for cache in pool.caches.iter().filter(|_| args.verbose) {
            let CacheIo {
                device,
                allocated,
                free,
            } = cache;
            let name = format!("  {} (cache)", device.path);
            let space = Some((*allocated, *free));
            rows.push(row(&name, space, std::slice::from_ref(device), args));
        }
    }
    let heads = match args.requests {
        true => request_heads(),
        false => heads(args.latencies),
    };
    let table = table::show(&heads, &rows, args.script);
    match (made, args.script) {
        (0, _) | (_, true) => table,
        _ if rows.len() == 1 => table
            .lines()
            .skip(1)
            .map(|line| line.to_owned() + "\n")
            .collect(),
        _ => format!("\n{table}"),
    }
}

/// Headings as wide as any number below them, so that later lines stand below these too.
fn heads(latencies: bool) -> Vec<Column> {
    let numbers = ["ALLOC", " FREE", "READS", "WRITES", "RBYTES", "WBYTES"];
    let times = ["RWAIT", "WWAIT", "FWAIT"];
    let times = times.iter().filter(|_| latencies);
    let all = numbers.iter().chain(times);
    let right = all.map(|name| Column::right(*name));
    std::iter::once(Column::left("NAME")).chain(right).collect()
}

/// A line of devices together.
fn row(
    name: &str,
    space: Option<(u64, u64)>,
    devices: &[DeviceIo],
    args: &PoolIostat,
) -> Vec<String> {
    let exact = args.parsable;
    if args.requests {
        return request_row(name, devices, exact);
    }
    let bytes = |value: Option<u64>| value.map_or("-".into(), |bytes| size::show(bytes, exact));
    let rate = |value: fn(&DeviceIo) -> u64| devices.iter().map(|at| per_second(at, value)).sum();
    let mut cells = vec![
        name.to_owned(),
        bytes(space.map(|(allocated, _)| allocated)),
        bytes(space.map(|(_, free)| free)),
        count(rate(|at| at.read.operations), exact),
        count(rate(|at| at.write.operations), exact),
        size::show(rate(|at| at.read.bytes), exact),
        size::show(rate(|at| at.write.bytes), exact),
    ];
    if args.latencies {
        let kinds: [fn(&DeviceIo) -> Io; 3] = [|at| at.read, |at| at.write, |at| at.flush];
        cells.extend(kinds.map(|kind| wait(devices.iter().map(kind), exact)));
    }
    cells
}

fn request_heads() -> Vec<Column> {
    let numbers = [
        "PUTS", "GETS", "LISTS", "DELETES", "REPEATED", "SENT", "RECEIVED", "COST",
    ];
    let right = numbers.iter().map(|name| Column::right(*name));
    std::iter::once(Column::left("NAME")).chain(right).collect()
}

/// A line of the requests to the object stores of devices together.
fn request_row(name: &str, devices: &[DeviceIo], exact: bool) -> Vec<String> {
    let stores: Vec<&StoreIo> = devices.iter().filter_map(|at| at.store.as_ref()).collect();
    let mut cells = vec![name.to_owned()];
    if stores.is_empty() {
        cells.extend((0..8).map(|_| "-".to_owned()));
        return cells;
    }
    let sum = |value: fn(&StoreIo) -> u64| stores.iter().map(|at| value(at)).sum::<u64>();
    let counts: [fn(&StoreIo) -> u64; 5] = [
        |at| at.puts,
        |at| at.gets,
        |at| at.lists,
        |at| at.deletes,
        |at| at.repeated,
    ];
    cells.extend(counts.map(|value| count(sum(value), exact)));
    cells.push(size::show(sum(|at| at.sent), exact));
    cells.push(size::show(sum(|at| at.received), exact));
    let costs: Option<Vec<f64>> = stores.iter().map(|at| at.cost).collect();
    let currency = stores[0].currency.as_deref();
    // A sum needs the prices of all stores, in one currency.
    let is_one = stores.iter().all(|at| at.currency.as_deref() == currency);
    cells.push(match costs.filter(|_| is_one) {
        None => "-".into(),
        Some(costs) => {
            let cost = format!(
                "{:.4} {}",
                costs.iter().sum::<f64>(),
                currency.unwrap_or_default()
            );
            cost.trim_end().into()
        }
    });
    cells
}

/// Rounded, but something is never nothing.
fn per_second(device: &DeviceIo, value: fn(&DeviceIo) -> u64) -> u64 {
    let (value, elapsed) = (u128::from(value(device)), u128::from(device.elapsed.max(1)));
    let rate = (value * u128::from(SECOND) + elapsed / 2) / elapsed;
    u64::try_from(rate).unwrap_or(u64::MAX)
}

/// `950`, `31.4K`
fn count(number: u64, exact: bool) -> String {
    match number {
        0..10_000 => number.to_string(),
        _ if exact => number.to_string(),
        10_000..1_000_000 => format!("{:.1}K", number as f64 / 1e3),
        _ => format!("{:.1}M", number as f64 / 1e6),
    }
}

/// The time that one took as an average: `85us`, `1.2ms`, `3.4s`.
fn wait(kinds: impl Iterator<Item = Io>, exact: bool) -> String {
    let (operations, nanos) = kinds.fold((0, 0), |(operations, nanos), io| {
        (operations + io.operations, nanos + io.nanos)
    });
    let Some(each) = u64::checked_div(nanos, operations) else {
        return "-".into();
    };
    match each {
        _ if exact => each.to_string(),
        0..1_000 => format!("{each}ns"),
        1_000..1_000_000 => format!("{}us", each / 1_000),
        1_000_000..SECOND => format!("{:.1}ms", each as f64 / 1e6),
        _ => format!("{:.1}s", each as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn io(operations: u64, bytes: u64, nanos: u64) -> Io {
        Io {
            operations,
            bytes,
            errors: 0,
            nanos,
        }
    }

    fn device(path: &str, seconds: u64, times: u64) -> DeviceIo {
        DeviceIo {
            path: path.into(),
            elapsed: seconds * SECOND,
            read: io(20 * times, 4096 * 20 * times, 20 * times * 85_000),
            write: io(5 * times, times << 20, 5 * times * 1_234_567),
            flush: Io::default(),
            discard: Io::default(),
            store: None,
        }
    }

    fn pool(seconds: u64, times: u64) -> PoolIoReport {
        PoolIoReport {
            name: "tank".into(),
            allocated: 1 << 30,
            free: 3 << 30,
            devices: vec![
                device("/dev/sdb", seconds, times),
                device("/dev/sdc", seconds, times),
            ],
            caches: vec![CacheIo {
                device: device("/fast", seconds, times),
                allocated: 1 << 20,
                free: 3 << 20,
            }],
        }
    }

    fn args(verbose: bool, script: bool) -> PoolIostat {
        PoolIostat {
            verbose,
            latencies: true,
            requests: false,
            skip_first: false,
            script,
            parsable: script,
            stamp: crate::cmd::pool::args::Stamp { stamp: None },
            words: Vec::new(),
        }
    }

    #[test]
    fn rates_are_of_one_second() {
        let pools = [pool(10, 10)];
        let text = report(&pools, &args(true, false), 0);
        assert_eq!(
            text,
            "\
NAME             ALLOC   FREE  READS  WRITES  RBYTES  WBYTES  RWAIT  WWAIT  FWAIT
tank                1G     3G     40      10    160K      2M   85us  1.2ms      -
  /dev/sdb           -      -     20       5     80K      1M   85us  1.2ms      -
  /dev/sdc           -      -     20       5     80K      1M   85us  1.2ms      -
  /fast (cache)     1M     3M     20       5     80K      1M   85us  1.2ms      -
"
        );
        let script = report(&pools, &args(false, true), 3);
        assert_eq!(
            script,
            "tank\t1073741824\t3221225472\t40\t10\t163840\t2097152\t85000\t1234567\t-\n"
        );
    }

    #[test]
    fn later_reports_are_of_what_happened_since() {
        let since = pool_since(&pool(15, 30), &[pool(10, 10)]);
        assert_eq!(since.devices[0].elapsed, 5 * SECOND);
        assert_eq!(since.devices[0].read.operations, 400);
        assert_eq!(since.caches[0].device.read.operations, 400);
        let text = report(&[since], &args(false, false), 1);
        assert_eq!(
            text,
            "tank     1G     3G    160      40    640K      8M   85us  1.2ms      -\n"
        );
        // Imported anew since: what it did since then.
        let since = pool_since(&pool(2, 1), &[pool(10, 10)]);
        assert_eq!(since.devices[0].read.operations, 20);
    }

    #[test]
    fn large_counts_are_short() {
        assert_eq!(count(9_999, false), "9999");
        assert_eq!(count(31_449, false), "31.4K");
        assert_eq!(count(2_560_000, false), "2.6M");
        assert_eq!(count(2_560_000, true), "2560000");
        assert_eq!(wait([io(0, 0, 0)].into_iter(), true), "-");
        assert_eq!(wait([io(2, 0, 900)].into_iter(), false), "450ns");
        assert_eq!(wait([io(1, 0, 3 * SECOND)].into_iter(), false), "3.0s");
    }
}
