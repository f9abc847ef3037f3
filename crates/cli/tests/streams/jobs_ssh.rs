//! Jobs whose target is on another host: the host is this one, by a stand-in for `ssh` and by a real server.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::common::bench::Bench;
use crate::common::*;

const SSHD: &str = "/usr/sbin/sshd";

/// Makes a program of the shell.
fn script(bench: &Bench, name: &str, text: &str) -> String {
    let path = bench.place.path(name);
    fs::write(&path, format!("#!/bin/sh\n{text}")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    bench.place.arg(name)
}

/// The folder of the program, for the variable `PATH` of the other host.
fn program_dir() -> &'static str {
    Path::new(PROGRAM).parent().unwrap().to_str().unwrap()
}

/// The two pools, and a daemon whose `ssh` is this program.
fn bench_with(ssh: impl Fn(&Bench) -> String) -> Option<Bench> {
    let mut bench = Bench::new()?;
    let ssh = ssh(&bench);
    bench.place.terminate();
    bench.place.start_with("STRONGROOM_SSH", &ssh);
    Some(bench)
}

/// A stand-in that runs the command here. The host `gone` does not answer. While there is a file `cut`, a stream ends
/// after 2 MiB.
fn stand_in(bench: &Bench) -> String {
    let (dir, socket) = (bench.place.arg(""), bench.place.arg("socket"));
    let text = format!(
        r#"echo "$@" >> {dir}/calls
while [ "$1" != -- ]; do shift; done
case $2 in gone) echo "no route to host" >&2; exit 255 ;; esac
export PATH={program}:$PATH STRONGROOM_SOCKET={socket}
case $3 in *receive\ -s*) if [ -e {dir}/cut ]; then head -c 2097152 | sh -c "$3"; exit 255; fi ;; esac
exec sh -c "$3"
"#,
        program = program_dir()
    );
    script(bench, "ssh", &text)
}

fn names(bench: &Bench, kind: &str, top: &str) -> Vec<String> {
    let all = bench.ok(&format!("list -H -r -t {kind} -o name {top}"));
    all.lines().map(str::to_owned).collect()
}

#[test]
fn a_job_copies_to_another_host() {
    let bench = needs!(bench_with(stand_in));
    bench.ok("create tank/a/b");
    bench.ok("snapshot tank/a/b@1");
    let far = "ssh://ann@host.example.org:2222/safe/a";
    bench.ok(&format!(
        "replicate add copy -R tank/a {far} --every 365d --keep daily:1"
    ));
    bench.ok("replicate run copy");
    assert_eq!(
        names(&bench, "snapshot", "safe"),
        ["safe/a@1", "safe/a/b@1"]
    );
    has(&bench.ok("replicate run -n copy"), "nothing to send");
    let calls = fs::read_to_string(bench.place.path("calls")).unwrap();
    has(&calls, "BatchMode=yes");
    has(
        &calls,
        "-p 2222 -l ann -- host.example.org strongroom --socket",
    );
    bench.ok("rename tank/a/b tank/a/c");
    bench.ok("replicate run copy");
    assert_eq!(
        names(&bench, "snapshot", "safe"),
        ["safe/a@1", "safe/a/c@1"]
    );
    // From the bookmark, and pruned there.
    bench.ok("destroy -f tank/a@1");
    for day in 1..=3 {
        bench.ok(&format!("snapshot tank/a@auto-daily-2026-11-0{day}-0000Z"));
    }
    bench.ok("replicate run copy");
    assert_eq!(
        names(&bench, "snapshot", "safe"),
        [
            "safe/a@1",
            "safe/a@auto-daily-2026-11-03-0000Z",
            "safe/a/c@1"
        ]
    );
    // The other side is named where it has diverged.
    bench.ok("snapshot safe/a@mine");
    bench.ok("snapshot tank/a@new");
    let said = bench.place.fails("replicate run copy", USAGE);
    has(&said, "rollback -r 'safe/a@auto-daily-2026-11-03-0000Z'");
    bench.ok("replicate add lost tank/a ssh://gone/safe/lost --every 365d");
    let said = bench.place.fails("replicate run lost", OTHER);
    has(
        &said,
        "gone: no connection by ssh as the user root: no route to host",
    );
}

#[test]
fn a_connection_that_is_lost_goes_on_where_it_was() {
    let bench = needs!(bench_with(stand_in));
    bench.ok("replicate add copy tank/a ssh://host/safe/a --every 365d");
    bench.ok("replicate run copy");
    let held = contents(3, 5 << 20);
    fs::write(bench.file("tank/a", "large"), &held).unwrap();
    bench.ok("snapshot tank/a@2");
    fs::write(bench.place.path("cut"), "").unwrap();
    bench.place.fails("replicate run copy", OTHER);
    assert!(!names(&bench, "snapshot", "safe").contains(&"safe/a@2".to_owned()));
    let size = || -> u64 {
        let told = bench.ok("--json replicate run -n copy");
        let rows: serde_json::Value = serde_json::from_str(&told).unwrap();
        let sizes = rows.as_array().unwrap().iter();
        sizes.map(|row| row["size"].as_u64().unwrap()).sum()
    };
    // Each connection brings it further.
    let first = size();
    assert!(first < 5 << 20, "{first}");
    bench.place.fails("replicate run copy", OTHER);
    let second = size();
    assert!(second < first, "{second} of {first}");
    fs::remove_file(bench.place.path("cut")).unwrap();
    bench.ok("replicate run copy");
    bench.ok("key accept safe/a");
    bench.open("safe/a");
    assert!(fs::read(bench.file("safe/a", "large")).unwrap() == held);
}

#[test]
fn the_source_may_destroy_what_an_interrupted_run_copied() {
    let bench = needs!(bench_with(stand_in));
    bench.ok("replicate add copy tank/a ssh://host/safe/a --every 365d");
    bench.ok("replicate run copy");
    for number in 2..=6 {
        let held = contents(number, 900_000);
        fs::write(bench.file("tank/a", &format!("file{number}")), held).unwrap();
        bench.ok(&format!("snapshot tank/a@{number}"));
    }
    fs::write(bench.place.path("cut"), "").unwrap();
    bench.place.fails("replicate run copy", OTHER);
    fs::remove_file(bench.place.path("cut")).unwrap();
    let arrived = names(&bench, "snapshot", "safe/a");
    assert!((2..6).contains(&arrived.len()), "{arrived:?}");
    for name in arrived {
        bench.ok(&format!("destroy -f {}", name.replace("safe", "tank")));
    }
    bench.ok("replicate run copy");
    let all: Vec<String> = (1..=6).map(|number| format!("safe/a@{number}")).collect();
    assert_eq!(names(&bench, "snapshot", "safe/a"), all);
    let marks = names(&bench, "bookmark", "tank/a");
    assert_eq!(marks.len(), 1, "{marks:?}");
    lacks(&marks[0], "pending");
}

#[test]
fn what_ssh_started_holds_up_no_run() {
    // The two programs inherit all connections. The second one is in another session, and cannot be ended with `ssh`.
    let client = |bench: &Bench| {
        let (dir, next) = (bench.place.arg(""), stand_in(bench));
        let text = format!(
            r#"sleep 700 & echo $! >> {dir}/group
here={dir}/here.$$
setsid sh -c "echo \$\$ >> {dir}/session; touch $here; exec sleep 600" &
while [ ! -e $here ]; do :; done
exec {next} "$@"
"#
        );
        script(bench, "proxy", &text)
    };
    let bench = needs!(bench_with(client));
    let programs = |name: &str| -> Vec<rustix::process::Pid> {
        let text = fs::read_to_string(bench.place.path(name)).unwrap();
        let number = |line: &str| line.parse().ok().and_then(rustix::process::Pid::from_raw);
        text.lines().map(|line| number(line).unwrap()).collect()
    };
    let is_alive = |pid: &rustix::process::Pid| {
        let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
        stat.is_ok_and(|stat| !stat.contains(") Z "))
    };
    bench.ok("replicate add copy tank/a ssh://host/safe/a --every 365d");
    bench.ok("replicate run copy");
    assert_eq!(names(&bench, "snapshot", "safe"), ["safe/a@1"]);
    bench.ok("replicate add lost tank/a ssh://gone/safe/lost --every 365d");
    let said = bench.place.fails("replicate run lost", OTHER);
    has(&said, "no route to host");
    let left = programs("session");
    let mut is_right = !left.is_empty() && left.iter().all(is_alive);
    while is_right && programs("group").iter().any(is_alive) {
        std::thread::yield_now();
        is_right = left.iter().all(is_alive);
    }
    for pid in &left {
        let _ = rustix::process::kill_process(*pid, rustix::process::Signal::KILL);
    }
    assert!(
        is_right,
        "a run waited for {left:?}, or left its own programs"
    );
}

#[test]
fn a_dry_run_ends_with_its_caller() {
    // A host that never answers. The pipe is open for as long as the program runs.
    let client = |bench: &Bench| {
        let text = format!("exec sleep infinity 3> {}\n", bench.place.arg("alive"));
        script(bench, "ssh", &text)
    };
    let bench = needs!(bench_with(client));
    let alive = bench.place.path("alive");
    let made = Command::new("mkfifo").arg(&alive).status();
    assert!(made.unwrap().success());
    bench.ok("replicate add copy tank/a ssh://host/safe/a --every 365d --window 00:00-00:01");
    bench.ok("replicate pause copy");
    let mut caller = bench.place.command();
    let mut caller = caller
        .args(["replicate", "run", "-n", "copy"])
        .spawn()
        .unwrap();
    let mut pipe = fs::File::open(&alive).unwrap();
    caller.kill().unwrap();
    caller.wait().unwrap();
    assert_eq!(pipe.read(&mut [0]).unwrap(), 0);
}

/// A server of `ssh` at a port of this machine.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_job_uses_a_real_server() {
    needs!(
        Path::new(SSHD).exists() && is_installed("ssh-keygen"),
        "there is no sshd; install openssh-server"
    );
    needs!(
        is_root(),
        "only root starts a server that others can log in to"
    );
    let client = |bench: &Bench| {
        let config = bench.place.arg("ssh_config");
        script(bench, "ssh", &format!("exec ssh -F {config} \"$@\"\n"))
    };
    let bench = needs!(bench_with(client));
    let dir = bench.place.arg("");
    for key in ["host", "user"] {
        let file = bench.place.arg(key);
        let made = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-f", &file])
            .status();
        assert!(made.unwrap().success());
    }
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let number = port.local_addr().unwrap().port();
    drop(port);
    let host_key = fs::read_to_string(bench.place.path("host.pub")).unwrap();
    let known = format!("[127.0.0.1]:{number} {host_key}");
    fs::write(bench.place.path("known"), known).unwrap();
    let config = format!(
        "Port {number}\nListenAddress 127.0.0.1\nHostKey {dir}/host\nAuthorizedKeysFile {dir}/user.pub\n\
         StrictModes no\nUsePAM no\nPermitRootLogin yes\nPidFile none\n\
         SetEnv STRONGROOM_SOCKET={dir}/socket PATH={}:/usr/bin:/bin\n",
        program_dir()
    );
    fs::write(bench.place.path("sshd_config"), config).unwrap();
    let config = format!(
        "IdentityFile {dir}/user\nIdentitiesOnly yes\nUserKnownHostsFile {dir}/known\nStrictHostKeyChecking yes\n"
    );
    fs::write(bench.place.path("ssh_config"), config).unwrap();
    fs::create_dir_all("/run/sshd").unwrap();
    let server = Command::new(SSHD)
        .args(["-D", "-e", "-f", &bench.place.arg("sshd_config")])
        .stderr(Stdio::null())
        .spawn();
    let _server = Server(server.unwrap());
    while std::net::TcpStream::connect(("127.0.0.1", number)).is_err() {
        std::thread::yield_now();
    }
    bench.ok(&format!(
        "replicate add copy tank/a ssh://127.0.0.1:{number}/safe/a --every 365d"
    ));
    bench.ok("replicate run copy");
    bench.write_for("tank/a@2", "second", "2");
    bench.ok("replicate run copy");
    assert_eq!(names(&bench, "snapshot", "safe"), ["safe/a@1", "safe/a@2"]);
    // A host whose key is another one is not trusted.
    fs::write(bench.place.path("known"), "").unwrap();
    let said = bench.place.fails("replicate run copy", OTHER);
    has(&said, "no connection by ssh as the user root");
}
