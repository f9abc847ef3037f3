//! The resource agent for Pacemaker, and what the tests of OCF say of it.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use crate::common::stacked_directory::Mounted;
use crate::common::*;
use rustix::process::{Pid, Signal, kill_process};

const AGENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/ocf/Strongroom");
const FUNCTIONS: &str = "/usr/lib/ocf/lib/heartbeat/ocf-shellfuncs";

// The exit codes of agents.
const SUCCESS: i32 = 0;
const FAILED: i32 = 1;
const MISCONFIGURED: i32 = 6;
const NOT_RUNNING: i32 = 7;
/// The exit code of `timeout`.
const TIMED_OUT: i32 = 124;

/// A pool that is exported, and has a file and a volume.
fn exported() -> Option<Place> {
    needs!(Path::new(FUNCTIONS).exists(), "needs resource-agents");
    needs!(can_mount());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let portal = listener.local_addr().unwrap();
    let place = Place::new();
    place.ok("pool create -s 64M -m {DIR}/mnt tank {DIR}/tank.pool");
    place.ok("create -V 8M tank/disk:0");
    let file = format!("target_portal_groups = [\"g\"]\ng_portals = [\"{portal}\"]\n");
    fs::write(place.path("mnt/ha.toml"), file).unwrap();
    place.ok("pool export tank");
    Some(place)
}

/// The parameters of a resource with this pool.
fn parameters(place: &Place) -> [(&'static str, String); 4] {
    [
        ("pool", "tank".into()),
        ("devices", place.arg("tank.pool")),
        ("program", PROGRAM.into()),
        ("socket", place.socket().display().to_string()),
    ]
}

fn agent(place: &Place, action: &str, more: &[(&str, &str)]) -> (i32, String) {
    run_agent(place, &[AGENT], action, more)
}

fn run_agent(place: &Place, words: &[&str], action: &str, more: &[(&str, &str)]) -> (i32, String) {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    command.arg(action).env("OCF_ROOT", "/usr/lib/ocf");
    command.env("OCF_RESOURCE_INSTANCE", "pool");
    for (name, value) in parameters(place) {
        command.env(format!("OCF_RESKEY_{name}"), value);
    }
    command.envs(more.iter().copied());
    let done = command.output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    (done.status.code().unwrap(), said)
}

#[test]
fn the_tests_of_ocf_pass() {
    let place = needs!(exported());
    needs!(
        is_installed("ocf-tester") && is_installed("xmllint"),
        "needs ocf-tester and xmllint"
    );
    let mut command = Command::new("ocf-tester");
    command.args(["-n", "pool"]);
    for (name, value) in parameters(&place) {
        command.args(["-o", &format!("{name}={value}")]);
    }
    let done = command.arg(AGENT).output().unwrap();
    let said = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned();
    let complaints: Vec<&str> = said
        .lines()
        .filter(|line| line.starts_with("* rc="))
        .collect();
    // The document type of OCF 1.0 does not have the actions of OCF 1.1.
    let known = said.contains("Value \"reload-agent\"");
    assert!(complaints.len() <= usize::from(known), "{said}");
    assert!(
        complaints.iter().all(|it| it.contains("ra-api-1.dtd")),
        "{said}"
    );
}

#[test]
fn the_agent_tells_what_runs() {
    let mut place = needs!(exported());
    let run = |place: &Place, action: &str| agent(place, action, &[]).0;
    let deep = |place: &Place| agent(place, "monitor", &[("OCF_CHECK_LEVEL", "10")]);
    assert_eq!(run(&place, "monitor"), NOT_RUNNING);
    assert_eq!(run(&place, "stop"), SUCCESS);
    assert_eq!(
        agent(&place, "start", &[("OCF_RESKEY_force", "maybe")]).0,
        MISCONFIGURED
    );
    assert_eq!(run(&place, "start"), SUCCESS);
    place.says("ha status tank", "tank/disk:0");
    assert_eq!((run(&place, "monitor"), deep(&place).0), (SUCCESS, SUCCESS));
    assert_eq!(run(&place, "status"), SUCCESS);
    place.ok("ha stop tank");
    let (code, said) = deep(&place);
    assert_eq!((run(&place, "monitor"), code), (SUCCESS, FAILED));
    has(&said, "are not started");
    // A volume that the file lists and the pool does not have is no reason to serve nothing.
    let file = place.path("mnt/ha.toml");
    let complete = fs::read_to_string(&file).unwrap();
    let listed = "logical_units = [\"tank/disk:0\", \"tank/none\"]\n";
    fs::write(&file, complete.clone() + listed).unwrap();
    assert_eq!(deep(&place).0, FAILED);
    fs::write(&file, complete).unwrap();
    assert_eq!(run(&place, "start"), SUCCESS);
    assert_eq!(run(&place, "reload-agent"), SUCCESS);
    // The daemon dies, and its next start leaves the pool alone.
    place.kill();
    assert_eq!(run(&place, "monitor"), NOT_RUNNING);
    place.start();
    assert_eq!(run(&place, "monitor"), NOT_RUNNING);
    assert_eq!(run(&place, "start"), SUCCESS);
    // What is needed has no key here.
    place.ok("keygen {DIR}/key");
    place.ok("create -V 8M -o encryption=on -o keysource=raw,file://{DIR}/key tank/shut");
    assert_eq!(run(&place, "stop"), SUCCESS);
    fs::rename(place.path("key"), place.path("away")).unwrap();
    assert_eq!(run(&place, "start"), SUCCESS);
    let (code, said) = agent(&place, "start", &[("OCF_RESKEY_required", "tank/shut")]);
    assert_eq!(code, FAILED);
    has(&said, "the key of 'tank/shut' is not there: unavailable");
    assert_eq!(run(&place, "stop"), SUCCESS);
    assert_eq!(run(&place, "monitor"), NOT_RUNNING);
}

/// Requests to a disk are not answered any more: the machine says so, and another one goes on. The pool has heartbeats.
#[test]
fn a_disk_that_does_not_answer_has_another_machine_go_on() {
    let needed = ["unshare", "hostname"];
    needs!(
        Path::new(FUNCTIONS).exists() && needed.iter().all(|it| is_installed(it)),
        "needs resource-agents, unshare, hostname"
    );
    needs!(can_mount() && is_root());
    // Two processes show one directory, and with it one disk. Each stands for the connection of one machine.
    let mut a = Place::new();
    for dir in ["lower", "one", "two"] {
        fs::create_dir(a.path(dir)).unwrap();
    }
    a.ok("keygen {DIR}/key");
    a.ok("stack init -d {DIR}/key {DIR}/lower");
    let key = a.arg("key");
    let mut one = Mounted::at(&a, &["-d", &key], "one");
    let two = Mounted::at(&a, &["-d", &key], "two");
    a.ok("pool create -s 64M -m none -o multihost=on tank {DIR}/one/disk");
    a.ok("set test:x=1 tank");
    a.ok("pool export tank");
    let disk = |name: &str| a.path(name).join("disk").display().to_string();
    let (first, second) = (disk("one"), disk("two"));
    let of_a = |action: &str| agent(&a, action, &[("OCF_RESKEY_devices", &first)]);
    assert_eq!(of_a("start").0, SUCCESS);
    assert_eq!(of_a("monitor").0, SUCCESS);

    kill_process(Pid::from_child(&one.process), Signal::STOP).unwrap();
    // The first one may wait for the size of the file, until its cluster ends it.
    let said = loop {
        let (code, said) = run_agent(
            &a,
            &["timeout", "5", AGENT],
            "monitor",
            &[("OCF_RESKEY_devices", &first)],
        );
        if ![SUCCESS, TIMED_OUT].contains(&code) {
            assert_eq!(code, FAILED, "{said}");
            break said;
        }
    };
    // Heartbeats do not wait for the disk: a pool that could write none for ten seconds is suspended before it is stalled.
    let states = ["STALLED", "SUSPENDED"].map(|state| format!("the pool 'tank' is {state}"));
    assert!(states.iter().any(|it| said.contains(it)), "{said}");
    while !a.ok("pool events").contains("device_stall") {
        sleep(Duration::from_millis(200));
    }
    let more = [
        ("OCF_RESKEY_devices", &*first),
        ("OCF_RESKEY_CRM_meta_timeout", "12000"),
    ];
    let (code, said) = agent(&a, "stop", &more);
    assert_eq!(code, FAILED);
    has(&said, "fence this node");

    // What fencing does: the machine reaches the disk no more.
    one.process.kill().unwrap();
    one.process.wait().unwrap();
    a.kill();
    let mut b = Place::without_daemon();
    let other = [
        "unshare",
        "--uts",
        "sh",
        "-c",
        "hostname other; exec \"$0\" \"$@\"",
    ];
    b.start_within(&other.map(String::from));
    let of_b = |action: &str, force: &str| {
        let more = [
            ("OCF_RESKEY_devices", &*second),
            ("OCF_RESKEY_force", force),
        ];
        agent(&b, action, &more)
    };
    let (code, said) = of_b("start", "false");
    assert_eq!(code, FAILED);
    has(&said, "was last used by host");
    assert_eq!(of_b("monitor", "true").0, NOT_RUNNING);
    assert_eq!(of_b("start", "true").0, SUCCESS);
    assert_eq!(b.ok("get -H -o value test:x tank"), "1\n");
    assert_eq!(of_b("monitor", "true").0, SUCCESS);
    assert_eq!(of_b("stop", "true").0, SUCCESS);
    assert!(b.terminate());
    two.end();
}

/// An unknown state is not reported as a pool that is not here: the cluster would have another node import it too.
#[test]
fn what_the_agent_cannot_know_is_a_failure() {
    use std::os::unix::fs::PermissionsExt;
    needs!(Path::new(FUNCTIONS).exists(), "needs resource-agents");
    let place = Place::without_daemon();
    let program = place.path("program");
    let actions = |script: &str| {
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let more = [("OCF_RESKEY_program", program.to_str().unwrap())];
        ["start", "stop", "monitor"].map(|action| agent(&place, action, &more).0)
    };
    assert_eq!(actions("#!/bin/sh\nexit 1\n"), [FAILED; 3]);
    assert_eq!(actions("#!/bin/sh\nexit 6\n"), [FAILED; 3]);
    // The daemon answers, but not what pools it has.
    let half = "#!/bin/sh\ncase \"$*\" in *'daemon status') exit 0 ;; esac\nexit CODE\n";
    for code in ["0", "1", "13"] {
        assert_eq!(actions(&half.replace("CODE", code)), [FAILED; 3], "{code}");
    }
    let [_, stop, monitor] = actions(&half.replace("CODE", "3"));
    assert_eq!([stop, monitor], [SUCCESS, NOT_RUNNING]);
    let [_, stop, monitor] = actions("#!/bin/sh\nexit 13\n");
    assert_eq!([stop, monitor], [SUCCESS, NOT_RUNNING]);
}

/// The daemon does not go on. Without limits of its own, the agent would run into the timeout of `monitor`, and then into that
/// of `stop`, before the cluster fences the machine.
#[test]
fn a_daemon_that_hangs_is_noticed_without_the_timeouts_of_the_cluster() {
    let place = needs!(exported());
    assert_eq!(agent(&place, "start", &[]).0, SUCCESS);
    let daemon = Pid::from_raw(place.pid().cast_signed()).unwrap();
    kill_process(daemon, Signal::STOP).unwrap();
    for action in ["monitor", "stop"] {
        // What the cluster does.
        let seconds = timeout_of(action).to_string();
        let (code, said) = run_agent(&place, &["timeout", &seconds, AGENT], action, &[]);
        assert_eq!(code, FAILED, "{action}: {said}");
        has(&said, "the daemon does not answer 'daemon status'");
    }
    kill_process(daemon, Signal::CONT).unwrap();
    assert_eq!(agent(&place, "stop", &[]).0, SUCCESS);

    // Until the machine is fenced: one interval, and the question of monitor and of stop.
    let text = fs::read_to_string(AGENT).unwrap();
    let limit = |name: &str| -> u64 {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap().parse().unwrap()
    };
    let (status, list) = (limit("STATUS_SECONDS="), limit("LIST_SECONDS="));
    let interval = attribute("pool-monitor", "interval");
    assert!(interval + 2 * status <= 15, "{interval} {status}");
    for action in ["monitor", "stop"] {
        assert!(status + list < timeout_of(action), "{action}");
    }
}

/// The timeout of an action in the example for Pacemaker, in seconds.
fn timeout_of(action: &str) -> u64 {
    attribute(&format!("pool-{action}"), "timeout")
}

fn attribute(id: &str, name: &str) -> u64 {
    let example = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../contrib/pacemaker/two-nodes.xml"
    );
    let text = fs::read_to_string(example).unwrap();
    let start = text.find(&format!("<op id=\"{id}\"")).unwrap();
    let (_, value) = text[start..].split_once(&format!("{name}=\"")).unwrap();
    let (seconds, _) = value.split_once('s').unwrap();
    seconds.parse().unwrap()
}

/// Another mount namespace has the mount too, as a container does. The pool moves all the same: the cluster would fence a
/// healthy machine otherwise.
#[test]
fn a_pool_stops_though_another_namespace_holds_its_mount() {
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;
    let place = needs!(exported());
    needs!(
        is_installed("unshare") && is_root(),
        "needs unshare and root"
    );
    assert_eq!(agent(&place, "start", &[]).0, SUCCESS);
    let mounted = place.path("mnt");
    fs::write(mounted.join("file"), "data").unwrap();
    let mut holder = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-c"])
        .arg("cd \"$0\" && exec 3< file && echo holds && cat")
        .arg(&mounted)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let said = holder.stdout.as_mut().unwrap();
    BufReader::new(said).read_line(&mut line).unwrap();
    assert_eq!(line, "holds\n");
    let seconds = timeout_of("stop").to_string();
    let (code, said) = run_agent(&place, &["timeout", &seconds, AGENT], "stop", &[]);
    assert_eq!(code, SUCCESS, "{said}");
    assert_eq!(agent(&place, "monitor", &[]).0, NOT_RUNNING);
    // The other machine, here the same one, can have it at once.
    assert_eq!(agent(&place, "start", &[]).0, SUCCESS);
    assert_eq!(fs::read_to_string(mounted.join("file")).unwrap(), "data");
    drop(holder.stdin.take());
    holder.wait().unwrap();
    assert_eq!(agent(&place, "stop", &[]).0, SUCCESS);
}
