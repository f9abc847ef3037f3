//! The client beside nbdkit and qemu-nbd. `./test` installs these.

use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Barrier;

use block::{BlockDevice, DeviceAccess, Result};
use nbd::{Address, ClientTimeouts, Remote, RemoteExport};
use tempfile::TempDir;

const SIZE: usize = 16 << 20;

/// A server of others, which ends with this.
struct Program {
    dir: TempDir,
    child: Child,
}

impl Program {
    /// Runs a command line, whose clients connect to a socket that is there already; `{DIR}` is its directory. `None` if
    /// the program is not installed.
    fn start(dir: TempDir, line: &str) -> Option<Program> {
        let program = line.split(' ').next().unwrap();
        let is_there = |dir: &str| Path::new(dir).join(program).exists();
        let path = std::env::var("PATH").unwrap();
        if !path.split(':').any(is_there) {
            eprintln!("skipped: {program} is not installed");
            return None;
        }
        let listener = UnixListener::bind(dir.path().join("socket")).unwrap();
        let line = line.replace("{DIR}", dir.path().to_str().unwrap());
        // As service managers pass sockets.
        let script = format!("LISTEN_PID=$$ LISTEN_FDS=1 exec {line} 3<&0 0</dev/null");
        let child = Command::new("sh")
            .args(["-c", &script])
            .stdin(Stdio::from(OwnedFd::from(listener)))
            .spawn()
            .unwrap();
        Some(Program { dir, child })
    }

    fn run(line: &str) -> Option<Program> {
        let dir = tempfile::tempdir().unwrap();
        let image = std::fs::File::create(dir.path().join("image")).unwrap();
        image.set_len(SIZE as u64).unwrap();
        Program::start(dir, line)
    }

    fn open(&self, access: DeviceAccess) -> Result<RemoteExport> {
        let remote = Remote {
            address: Address::Unix(self.dir.path().join("socket")),
            export: String::new(),
            tls: None,
            name: "nbd+unix://".into(),
            patience: ClientTimeouts::default(),
        };
        RemoteExport::open(remote, access)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Does one thing of each kind, and looks at what came of it.
fn exercise(device: &RemoteExport) {
    assert_eq!(device.size(), SIZE as u64);
    let data: Vec<u8> = (0..10 << 20).map(|at: u32| (at >> 9) as u8 | 1).collect();
    device.write_at(4096, &[IoSlice::new(&data)]).unwrap();
    device
        .write_durably_at(0, &[IoSlice::new(&[9; 4096])])
        .unwrap();
    device.flush().unwrap();
    device.zero(4096, 8192).unwrap();
    let _ = device.zero_fast(12288, 4096).unwrap();
    device.discard(12 << 20, 1 << 20).unwrap();
    let mut back = vec![0xee; data.len() + 4096];
    device.read_at(0, &mut back).unwrap();
    assert!(back[..4096] == [9; 4096] && back[4096..12288] == [0; 8192]);
    assert!(back[16384..] == data[12288..]);
    let status = device.status_at(0, 4096).unwrap();
    assert!(status.len > 0 && !status.is_zero);
    std::thread::scope(|scope| {
        for at in (0..8).map(|thread| (4 << 20) + (thread << 16)) {
            scope.spawn(move || {
                for byte in 0..20 {
                    device.write_at(at, &[IoSlice::new(&[byte; 8192])]).unwrap();
                    let mut back = [0xee; 8192];
                    device.read_at(at, &mut back).unwrap();
                    assert!(back == [byte; 8192]);
                }
            });
        }
    });
    device.flush().unwrap();
}

#[test]
fn servers_of_others_are_devices() {
    for line in [
        "nbdkit -f memory 16M",
        "nbdkit -f --no-sr memory 16M",
        "nbdkit -f file {DIR}/image",
        "nbdkit -f --filter=nozero --filter=noextents file {DIR}/image",
        "nbdkit -f --filter=fua memory 16M fuamode=emulate",
        "nbdkit -f --filter=delay memory 16M delay-read=1ms delay-write=1ms",
        "nbdkit -f --filter=blocksize-policy memory 16M blocksize-minimum=4096 blocksize-maximum=65536 \
         blocksize-error-policy=error",
        "qemu-nbd -t -f raw {DIR}/image",
        "qemu-nbd -t -f raw --discard=unmap --detect-zeroes=unmap {DIR}/image",
    ] {
        let Some(program) = Program::run(line) else {
            continue;
        };
        eprintln!("{line}");
        let device = program.open(DeviceAccess::Exclusive).unwrap();
        exercise(&device);
        drop(device);
        // The next client finds what the last one left.
        let device = program.open(DeviceAccess::ReadOnly).unwrap();
        let mut first = [0; 4096];
        device.read_at(0, &mut first).unwrap();
        assert!(first == [9; 4096], "{line}");
    }
}

#[test]
fn what_servers_of_others_refuse_is_an_error() {
    if let Some(program) = Program::run("nbdkit -f -r memory 16M") {
        let refused = program
            .open(DeviceAccess::Exclusive)
            .err()
            .unwrap()
            .to_string();
        assert!(refused.contains("read-only"), "{refused}");
        program
            .open(DeviceAccess::ReadOnly)
            .unwrap()
            .read_at(0, &mut [1; 512])
            .unwrap();
    }
    if let Some(program) = Program::run("nbdkit -f -o memory 16M") {
        let refused = program
            .open(DeviceAccess::Exclusive)
            .err()
            .unwrap()
            .to_string();
        assert!(refused.contains("before 2011"), "{refused}");
    }
    let line = "nbdkit -f --filter=error memory 16M error-pread=EIO error-pread-rate=100% error-pwrite=ENOSPC \
                error-pwrite-rate=100%";
    if let Some(program) = Program::run(line) {
        let device = program.open(DeviceAccess::Exclusive).unwrap();
        let failure = device.read_at(0, &mut [0; 4096]).unwrap_err();
        assert!(
            failure.to_string().contains("reading of 4096 bytes"),
            "{failure}"
        );
        let failure = device.write_at(0, &[IoSlice::new(&[0; 4096])]).unwrap_err();
        assert!(failure.is_no_space(), "{failure}");
        // The connection works.
        device.flush().unwrap();
        device.discard(0, 4096).unwrap();
    }
    let line = "nbdkit -f --filter=blocksize-policy memory 16M blocksize-minimum=64K blocksize-preferred=64K blocksize-error-policy=error";
    if let Some(program) = Program::run(line) {
        let refused = program
            .open(DeviceAccess::Exclusive)
            .err()
            .unwrap()
            .to_string();
        assert!(refused.contains("65536"), "{refused}");
    }
}

#[test]
fn a_server_that_is_killed_fails_requests_and_nothing_hangs() {
    let Some(mut program) = Program::run("nbdkit -f file {DIR}/image") else {
        return;
    };
    let device = program.open(DeviceAccess::Exclusive).unwrap();
    let all_have_written = Barrier::new(5);
    let failed = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4u64)
            .map(|thread| {
                let (device, written) = (&device, &all_have_written);
                scope.spawn(move || {
                    device.write_at(0, &[IoSlice::new(&[1; 4096])]).unwrap();
                    written.wait();
                    let writes = (0..u64::MAX).map(|n| {
                        let at = (thread << 20) + (n % 200) * 4096;
                        device.write_at(at, &[IoSlice::new(&[1; 4096])])
                    });
                    writes.filter_map(Result::err).next().unwrap().to_string()
                })
            })
            .collect();
        all_have_written.wait();
        program.child.kill().unwrap();
        let joined = threads.into_iter().map(|thread| thread.join().unwrap());
        joined.collect::<Vec<String>>()
    });
    for failure in failed {
        assert!(
            failure.contains("the server closed the connection"),
            "{failure}"
        );
    }
    assert!(device.refresh_size().is_err());
    // Another server at the same address.
    let dir = std::mem::replace(&mut program.dir, tempfile::tempdir().unwrap());
    program.child.wait().unwrap();
    std::fs::remove_file(dir.path().join("socket")).unwrap();
    let _again = Program::start(dir, "nbdkit -f file {DIR}/image").unwrap();
    assert!(device.read_at(0, &mut [0; 512]).is_err());
    device.refresh_size().unwrap();
    assert!(device.flush().is_err(), "writes may be lost");
    device.flush().unwrap();
    device.read_at(0, &mut [0; 512]).unwrap();
}
