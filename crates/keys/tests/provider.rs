//! Keys from programs: what is asked of them, what they may answer, and whose they have to be.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use keys::{Error, KeyMaterial, KeyRequest, KeySource, Location, ask_provider};

/// The time for an answer. Nothing waits for this to pass, but where a program does not answer.
const PATIENCE: Duration = Duration::from_secs(20);

fn ask(source: &str, time_max: Duration) -> Result<KeyMaterial, Error> {
    let source: KeySource = source.parse().unwrap();
    let Location::Provider(provider) = source.location() else {
        panic!("{source}");
    };
    let request = KeyRequest {
        format: source.format(),
        dataset: "tank/a",
        places: &[std::env::temp_dir()],
        time_max,
    };
    ask_provider(provider, &request)
}

/// A program of these lines of shell. Another one writes it: what another test starts meanwhile would
/// inherit it open for writing, and what is can't be run.
fn program(dir: &Path, lines: &str) -> PathBuf {
    let path = dir.join("program");
    let mut install = Command::new("install")
        .args(["-m", "755", "/dev/stdin"])
        .arg(&path)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = install.stdin.take().unwrap();
    writeln!(stdin, "#!/bin/sh\n{lines}").unwrap();
    drop(stdin);
    assert!(install.wait().unwrap().success());
    path
}

/// The reason why a program gives no key.
fn refusal(lines: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = program(dir.path(), lines);
    let error = ask(&format!("raw,exec://{}", path.display()), PATIENCE).expect_err(lines);
    let said = error.to_string();
    assert!(said.contains("program"), "{said}");
    said
}

#[test]
fn a_program_is_asked_for_one_key() {
    let dir = tempfile::tempdir().unwrap();
    let asked = dir.path().join("asked");
    let lines = format!(
        "while read -r line; do echo \"$line\"; [ -z \"$line\" ] && break; done > {asked}\n\
         env | grep -vE '^(PWD|SHLVL|_|OLDPWD|PATH)=' >> {asked}\n\
         printf 'OK 32\\n0123456789abcdef0123456789abcdef'",
        asked = asked.display()
    );
    let path = program(dir.path(), &lines);
    let source = format!("raw,exec://{}?slot=3", path.display());
    let Ok(KeyMaterial::Key(key)) = ask(&source, PATIENCE) else {
        panic!("no key");
    };
    assert_eq!(key.expose(), b"0123456789abcdef0123456789abcdef");
    let asked = fs::read_to_string(asked).unwrap();
    let expected = "STRONGROOM-KEY/1 GET\ndataset: tank/a\nformat: raw\nargument: slot=3\n\n";
    assert_eq!(asked, expected);
}

#[test]
fn answers_that_are_none() {
    for (lines, reason) in [
        (
            "printf 'ERROR the TPM says\\033[2J no\\n'",
            "it says: the TPM says[2J no",
        ),
        ("printf 'hunter2\\n'", "neither with 'OK'"),
        ("printf 'OK 99999999\\n'", "neither with 'OK'"),
        ("printf 'OK -1\\n'", "neither with 'OK'"),
        (
            "printf 'OK 32\\nhunter2'",
            "ended in the middle of its answer",
        ),
        (
            "printf 'OK 31\\n0123456789abcdef0123456789abcde'",
            "holds 31 bytes",
        ),
        ("exit 1", "ended in the middle of its answer"),
        ("head -c 100000 /dev/zero", "neither with 'OK'"),
    ] {
        let said = refusal(lines);
        assert!(said.contains(reason), "{lines}: {said}");
        assert!(!said.contains("hunter2"), "{lines}: {said}");
    }
}

#[test]
fn a_program_that_does_not_answer_is_ended() {
    let dir = tempfile::tempdir().unwrap();
    let pid = dir.path().join("pid");
    // It has started another one by the time that it is ended, and that one goes too.
    let lines = format!(
        "sleep 1000 & echo $! > {0}.new; mv {0}.new {0}; wait",
        pid.display()
    );
    let path = program(dir.path(), &lines);
    let source = format!("raw,exec://{}", path.display());
    let pid = loop {
        let error = ask(&source, Duration::from_millis(300)).expect_err("no key");
        assert!(error.to_string().contains("does not answer"), "{error}");
        if let Ok(pid) = fs::read_to_string(&pid) {
            break pid;
        }
    };
    let pid = rustix::process::Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    // If there is none to open, it is gone.
    if let Ok(pidfd) = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()) {
        let wait = rustix::event::PollFd::new(&pidfd, rustix::event::PollFlags::IN);
        let patience = PATIENCE.try_into().unwrap();
        assert_eq!(rustix::event::poll(&mut [wait], Some(&patience)), Ok(1));
    }
}

#[test]
fn what_others_can_change_is_not_run() {
    let dir = tempfile::tempdir().unwrap();
    let below = dir.path().join("below");
    fs::create_dir(&below).unwrap();
    let ran = dir.path().join("ran");
    let path = program(&below, &format!("touch {}", ran.display()));
    let source = format!("raw,exec://{}", path.display());
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let said = || ask(&source, PATIENCE).expect_err("refused").to_string();
    for (what, mode) in [(&path, 0o775), (&path, 0o757), (&below, 0o777)] {
        let before = fs::metadata(what).unwrap().permissions();
        fs::set_permissions(what, Permissions::from_mode(mode)).unwrap();
        assert!(said().contains("other users can write to it"), "{}", said());
        let source = format!("raw,exec://{}", link.display());
        ask(&source, PATIENCE).expect_err("by its link too");
        fs::set_permissions(what, before).unwrap();
    }
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&path, Some(12345), None).unwrap();
        assert!(said().contains("belongs to the user 12345"), "{}", said());
        std::os::unix::fs::chown(&path, Some(0), None).unwrap();
    }
    // A shell would run what stands behind the ?, and an attacker who can write to a device can name it.
    let shell = ask("raw,exec:///bin/sh?$(id)", PATIENCE).expect_err("refused");
    assert!(
        shell.to_string().contains("in none of the directories"),
        "{shell}"
    );
    assert!(!ran.exists());
    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    assert!(said().contains("denied"), "{}", said());
    fs::remove_file(&path).unwrap();
    assert!(said().contains("No such file"), "{}", said());
}

#[test]
fn a_socket_is_asked_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    let serve = move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut asked = Vec::new();
        let mut byte = [0];
        while !asked.ends_with(b"\n\n") {
            stream.read_exact(&mut byte).unwrap();
            asked.push(byte[0]);
        }
        stream.write_all(b"OK 20\ncorrect horse battery").unwrap();
        String::from_utf8(asked).unwrap()
    };
    let server = std::thread::spawn(serve);
    let source = format!("passphrase,unix://{}", path.display());
    let Ok(KeyMaterial::Passphrase(text)) = ask(&source, PATIENCE) else {
        panic!("no passphrase");
    };
    assert_eq!(text.expose(), b"correct horse batter");
    let asked = server.join().unwrap();
    assert!(asked.contains("\ndataset: tank/a\nformat: passphrase\nargument: \n\n"));
    let said = ask(&source, PATIENCE)
        .expect_err("no server listens")
        .to_string();
    assert!(said.contains("refused"), "{said}");
}

/// A program that has stopped taking connections: connecting to it would wait for ever.
#[test]
fn a_socket_whose_queue_is_full_is_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let _listener = UnixListener::bind(&path).unwrap();
    let address = rustix::net::SocketAddrUnix::new(&path).unwrap();
    let mut waiting = Vec::new();
    loop {
        let socket = rustix::net::socket_with(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::STREAM,
            rustix::net::SocketFlags::NONBLOCK,
            None,
        );
        let socket = socket.unwrap();
        match rustix::net::connect(&socket, &address) {
            Ok(()) => waiting.push(socket),
            Err(rustix::io::Errno::AGAIN) => break,
            Err(error) => panic!("{error}"),
        }
    }
    let source = format!("raw,unix://{}", path.display());
    let said = ask(&source, Duration::from_millis(50)).expect_err("no key");
    assert!(said.to_string().contains("does not answer"), "{said}");
}
