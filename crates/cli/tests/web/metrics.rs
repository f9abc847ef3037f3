//! Metrics on their socket: every line is as the format's documentation says, the numbers are those
//! of what was done, and no other user may ask.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

use crate::common::*;

fn get(place: &Place, request: &str) -> (String, String) {
    let mut stream = UnixStream::connect(place.path("metrics.sock")).expect("a socket");
    stream.write_all(request.as_bytes()).expect("it listens");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("UTF-8");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head.to_owned(), body.to_owned())
}

fn metrics(place: &Place) -> Metrics {
    let (head, body) = get(place, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(head.starts_with("HTTP/1.0 200 OK\r\n"), "{head}");
    assert!(head.contains("\r\nContent-Type: text/plain; version=0.0.4"));
    assert!(head.contains(&format!("\r\nContent-Length: {}\r\n", body.len())));
    parse(&body)
}

type Labels = BTreeMap<String, String>;
type Samples = BTreeMap<(String, Labels), f64>;

/// Families by name: their type, and their samples by name and labels.
#[derive(Default)]
struct Metrics(BTreeMap<String, (String, Samples)>);

impl Metrics {
    /// The sum of all samples of that name with these labels among theirs.
    fn sum(&self, sample: &str, labels: &[(&str, &str)]) -> f64 {
        let all = self.0.values().flat_map(|(_, samples)| samples);
        let wanted = all.filter(|((name, found), _)| {
            let has = |(label, value): &(&str, &str)| {
                found.get(*label).is_some_and(|found| found == value)
            };
            name == sample && labels.iter().all(has)
        });
        let values: Vec<f64> = wanted.map(|(_, value)| *value).collect();
        assert!(!values.is_empty(), "there is no {sample} {labels:?}");
        values.iter().sum()
    }
}

/// A strict parser of the text format, version 0.0.4.
fn parse(text: &str) -> Metrics {
    assert!(text.ends_with('\n'));
    let mut metrics = Metrics::default();
    let mut family = String::new();
    let mut helped = BTreeSet::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect("a help text");
            assert!(helped.insert(name.to_owned()), "{name} has two help texts");
            assert!(!help.is_empty());
            family = name.to_owned();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a type");
            assert_eq!(name, family, "the help text comes first");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert!(is_name(name, ":"), "{line}");
            let new = (kind.to_owned(), BTreeMap::new());
            assert!(metrics.0.insert(name.to_owned(), new).is_none(), "{line}");
        } else {
            let (name, labels, value) = sample(line);
            let (kind, samples) = metrics.0.get_mut(&family).expect("a type before samples");
            let ends: &[&str] = match kind.as_str() {
                "histogram" => &["_bucket", "_sum", "_count"],
                _ => &[""],
            };
            let is_of_family = ends.iter().any(|end| name == format!("{family}{end}"));
            assert!(is_of_family, "{line} stands among {family}");
            let before = samples.insert((name, labels), value);
            assert!(before.is_none(), "{line} is there twice");
        }
    }
    for (name, (kind, samples)) in &metrics.0 {
        match kind.as_str() {
            "histogram" => check_histogram(name, samples),
            "counter" => assert!(name.ends_with("_total"), "{name}"),
            _ => {}
        }
    }
    metrics
}

fn is_name(name: &str, also: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || also.contains(c);
    name.chars().all(allowed) && !name.starts_with(|c: char| c.is_ascii_digit()) && !name.is_empty()
}

/// `name{label="value",...} number`
fn sample(line: &str) -> (String, Labels, f64) {
    let end = line.find(['{', ' ']).expect("a value");
    let (name, mut rest) = line.split_at(end);
    assert!(is_name(name, ":"), "{line}");
    let mut labels = Labels::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        while !rest.starts_with('}') {
            rest = rest.strip_prefix(',').unwrap_or(rest);
            let (label, after) = rest.split_once("=\"").expect("a label");
            assert!(is_name(label, ""), "{line}");
            let (value, after) = quoted(after);
            let before = labels.insert(label.to_owned(), value);
            assert!(before.is_none(), "{line} has a label twice");
            rest = after;
        }
        rest = &rest[1..];
    }
    let value = rest.strip_prefix(' ').expect("one space");
    (name.to_owned(), labels, value.parse().expect("a number"))
}

fn quoted(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (value, &text[at + 1..]),
            '\\' => value.push(match chars.next().expect("an escape").1 {
                '\\' => '\\',
                '"' => '"',
                'n' => '\n',
                other => panic!("\\{other} is no escape"),
            }),
            c => value.push(c),
        }
    }
    panic!("{text} has no end");
}

/// Buckets only grow, the last is without end, and holds as many as there are.
fn check_histogram(name: &str, samples: &Samples) {
    let mut series: BTreeMap<Labels, Vec<(f64, f64)>> = BTreeMap::new();
    for ((sample, labels), count) in samples {
        if *sample == format!("{name}_bucket") {
            let mut labels = labels.clone();
            let end = labels.remove("le").expect("an end");
            let end = end.replace("+Inf", "inf").parse().expect("a number");
            series.entry(labels).or_default().push((end, *count));
        }
    }
    for (labels, mut buckets) in series {
        buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        assert!(
            buckets.is_sorted_by_key(|bucket| bucket.1),
            "{name} {labels:?}"
        );
        let last = buckets.last().expect("a bucket");
        assert_eq!(last.0, f64::INFINITY);
        let value = |end: &str| samples[&(format!("{name}{end}"), labels.clone())];
        assert_eq!(value("_count"), last.1);
        assert!(value("_sum") >= 0.0);
    }
}

#[test]
fn what_is_done_is_counted() {
    needs!(can_mount());
    let place = Place::new();
    let empty = metrics(&place);
    assert_eq!(empty.sum("strongroom_keys", &[]), 0.0);
    assert!(empty.sum("process_resident_memory_bytes", &[]) > 1e6);

    place.pool("tank");
    place.ok("keygen {DIR}/key");
    place.ok(
        "create -o encryption=on -o keysource=raw,file://{DIR}/key -o mountpoint={DIR}/mnt tank/a",
    );
    let before = metrics(&place);
    let file = place.path("mnt/a-secret-name");
    fs::write(&file, vec![5; 3 << 20]).unwrap();
    fs::File::open(&file).unwrap().sync_all().unwrap();
    fs::metadata(place.path("mnt/no such file")).unwrap_err();
    let after = metrics(&place);

    let pool = [("pool", "tank")];
    let grown =
        |name: &str, labels: &[(&str, &str)]| after.sum(name, labels) - before.sum(name, labels);
    let mount = |op| [("dataset", "tank/a"), ("op", op)];
    assert_eq!(after.sum("strongroom_keys", &[]), 1.0);
    let key = [("dataset", "tank/a")];
    assert_eq!(after.sum("strongroom_key_loaded", &key), 1.0);
    assert_eq!(
        after.sum("strongroom_mount_bytes_total", &mount("write")),
        3145728.0
    );
    let operations = "strongroom_mount_operation_seconds_count";
    assert!(after.sum(operations, &mount("fsync")) >= 1.0);
    assert!(after.sum("strongroom_mount_errors_total", &mount("lookup")) >= 1.0);
    assert_eq!(after.sum("strongroom_mount_io_errors_total", &[]), 0.0);
    assert!(grown("strongroom_pool_txg", &pool) >= 1.0);
    assert!(grown("strongroom_pool_commit_seconds_count", &pool) >= 1.0);
    assert!(grown("strongroom_pool_commit_seconds_sum", &pool) > 0.0);
    let device = place.arg("tank.pool");
    let device = |op| [("pool", "tank"), ("device", device.as_str()), ("op", op)];
    assert!(grown("strongroom_device_bytes_total", &device("write")) > 8192.0);
    let flushes = "strongroom_device_operation_seconds_count";
    assert!(grown(flushes, &device("flush")) >= 1.0);
    assert_eq!(after.sum("strongroom_device_errors_total", &pool), 0.0);
    assert_eq!(after.sum("strongroom_pool_suspended", &pool), 0.0);
    let online = [("pool", "tank"), ("state", "ONLINE")];
    assert_eq!(after.sum("strongroom_pool_state", &online), 1.0);

    // Read again from the pool, and then from the cache.
    place.ok("unmount tank/a");
    place.ok("mount tank/a");
    assert_eq!(fs::read(&file).unwrap().len(), 3 << 20);
    place.ok("pool scrub -w tank");
    let scrubbed = metrics(&place);
    assert!(scrubbed.sum("strongroom_record_cache_misses_total", &[]) >= 1.0);
    assert!(scrubbed.sum("strongroom_pool_scrub_end_time_seconds", &pool) > 1e9);
    assert_eq!(
        scrubbed.sum("strongroom_mount_bytes_total", &mount("read")),
        3145728.0
    );

    let (_, text) = get(&place, "GET /metrics HTTP/1.0\r\n\r\n");
    lacks(&text, "secret");
    let io = place.ok("pool iostat -v -l tank 0.01 3");
    assert_eq!(io.matches("tank.pool").count(), 3, "{io}");
    place.ok("unmount tank/a");
    place.ok("key unload tank/a");
    let unloaded = metrics(&place);
    assert_eq!(unloaded.sum("strongroom_key_loaded", &key), 0.0);
    place.ok("pool export -f tank");
    let gone = metrics(&place);
    assert!(!gone.0["strongroom_pool_txg"].1.keys().any(|_| true));
}

#[test]
fn the_socket_is_private_and_goes_with_the_daemon() {
    let mut place = Place::new();
    let socket = place.path("metrics.sock");
    let mode = fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    for (request, status) in [
        ("GET /nothing HTTP/1.0\r\n\r\n", "404"),
        ("PUT /metrics HTTP/1.0\r\n\r\n", "405"),
    ] {
        assert!(
            get(&place, request)
                .0
                .starts_with(&format!("HTTP/1.0 {status} "))
        );
    }
    // A client that sends nothing holds up neither the end of the daemon nor other clients.
    let silent = UnixStream::connect(&socket).unwrap();
    drop(silent);
    metrics(&place);
    place.ok("daemon stop");
    place.wait_for_end();
    assert!(!socket.exists());
}

/// Targets that a pool describes are counted as exports are, and a unit that waits can raise an alert.
#[test]
fn targets_of_a_pool_are_counted() {
    needs!(can_mount());
    let place = Place::new();
    place.ok("pool create -s 64M -m {DIR}/mnt tank {DIR}/tank.pool");
    place.ok("create -V 8M tank/a:0");
    place.ok("create -V 8M tank/b:0");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let portal = listener.local_addr().unwrap();
    drop(listener);
    let file = format!(
        "target_portal_groups = [\"g\"]\ng_portals = [\"{portal}\"]\nlogical_units = [\"tank/a:0\"]\n"
    );
    fs::write(place.path("mnt/ha.toml"), &file).unwrap();
    place.ok("ha start tank");
    let name = "iqn.2026-01.io.github.strongroom:tank";
    let target = [("target", name)];
    let unit = [("volume", "tank/a:0")];
    let now = metrics(&place);
    assert_eq!(now.sum("strongroom_iscsi_sessions", &target), 0.0);
    assert_eq!(now.sum("strongroom_iscsi_unit_served", &unit), 1.0);
    if is_installed("iscsi-inq") {
        crate::common::programs::ok("iscsi-inq", &[&format!("iscsi://{portal}/{name}/0")]);
        let now = metrics(&place);
        assert!(now.sum("strongroom_iscsi_command_seconds_count", &target) > 0.0);
    }
    // The other one has the number already, and waits.
    fs::write(
        place.path("mnt/ha.toml"),
        file.replace("0\"]\n", "0\", \"tank/b:0\"]\n"),
    )
    .unwrap();
    place.ok("ha update tank");
    let waits = [("volume", "tank/b:0")];
    let now = metrics(&place);
    assert_eq!(now.sum("strongroom_iscsi_unit_served", &waits), 0.0);
    assert_eq!(now.sum("strongroom_iscsi_unit_ambiguous", &waits), 1.0);
    assert_eq!(now.sum("strongroom_iscsi_unit_ambiguous", &unit), 0.0);
    place.ok("ha stop tank");
    let (_, body) = get(&place, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    lacks(&body, name);
}
