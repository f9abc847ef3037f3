//! Exports: devices that the daemon offers by the NBD protocol, and what the programs of others make of
//! them. `./test` installs these.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use crate::common::programs::ok;
use crate::common::*;

/// A file of `size` bytes that holds noise between holes.
fn image(place: &Place, name: &str, size: u64) -> String {
    let path = place.path(name);
    let file = File::create(&path).unwrap();
    file.set_len(size).unwrap();
    let mut noise = vec![0u8; 256 << 10];
    let mut state = 1u32;
    for (at, byte) in noise.iter_mut().enumerate() {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        *byte = (state >> 24) as u8 ^ at as u8;
    }
    for offset in (0..size).step_by(1 << 20) {
        file.write_all_at(&noise, offset).unwrap();
    }
    place.arg(name)
}

/// The URI of an export for clients.
fn uri(place: &Place, name: &str) -> String {
    let rows = place.ok("nbd list -H");
    let mut rows = rows.lines().map(|row| row.split('\t').collect::<Vec<_>>());
    let row = rows.find(|row| row[0] == name).expect("it is exported");
    row[5].to_owned()
}

#[test]
fn exports_come_and_go_and_stay_over_a_restart() {
    let mut place = Place::new();
    let disk = image(&place, "disk.img", 16 << 20);
    place.ok(&format!("nbd export {disk} --description scratch"));
    let other = image(&place, "other.img", 1 << 20);
    place.ok(&format!("nbd export --read-only --name b {other}"));
    let rows = place.ok("nbd list -H");
    let socket = place.path("nbd.sock").display().to_string();
    assert_eq!(
        rows,
        format!(
            "b\t{other}\t1M\tread-only\t0\tnbd+unix:///b?socket={socket}\n\
             disk.img\t{disk}\t16M\tread-write\t0\tnbd+unix:///disk.img?socket={socket}\n"
        )
    );
    let mode = fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let taken = place.fails(&format!("nbd export {disk}"), EXISTS);
    has(&taken, "'disk.img' is there already");
    // The device is the daemon's, under any name.
    place.fails(&format!("nbd export --name again {disk}"), BUSY);
    let held = place.fails(&format!("pool create -f -m none tank {disk}"), BUSY);
    has(&held, "exported as 'disk.img'");
    place.fails(&format!("pool create -f -m none tank {other}"), BUSY);

    place.ok("daemon stop");
    place.wait_for_end();
    assert!(!Path::new(&socket).exists());
    place.start();
    assert_eq!(place.ok("nbd list -H"), rows);
    place.kill();
    fs::remove_file(&other).unwrap();
    place.start();
    place.says("--json nbd list", "\"failure\": \"cannot open");
    place.ok("nbd unexport b");
    place.ok("nbd unexport disk.img");
    assert_eq!(place.ok("nbd list -H"), "");
    assert!(!Path::new(&socket).exists());
    place.fails("nbd unexport b", NOT_FOUND);
    place.ok(&format!("pool create -f -m none tank {disk}"));
    place.fails(&format!("nbd export {disk}"), BUSY);
}

#[test]
fn what_cannot_be_exported_is_refused() {
    let place = Place::new();
    place.fails("nbd export ./none", NOT_FOUND);
    place.fails("nbd export /dev/null", USAGE);
    place.refuses("nbd export tank/vol", NOT_FOUND, "pool 'tank'");
    let odd = place.path("odd");
    File::create(&odd).unwrap().set_len(1000).unwrap();
    place.refuses("nbd export ./odd", USAGE, "truncate -s");
    let disk = image(&place, "disk.img", 1 << 20);
    place.fails(&format!("nbd export --listen host {disk}"), USAGE);
    let open = place.fails(&format!("nbd export --listen 127.0.0.1:0 {disk}"), USAGE);
    has(&open, "--tls-certificates");
    let precious = place.fails(&format!("nbd export --listen unix:./odd {disk}"), EXISTS);
    has(&precious, "no socket");
    place.refuses("nbd export s3://bucket/disk", USAGE, "object store");
    // Nothing of these is left.
    assert_eq!(place.ok("nbd list -H"), "");
    place.ok(&format!("nbd export {disk}"));
}

#[test]
fn libnbd_finds_everything_as_it_is() {
    needs!(["nbdinfo", "nbdcopy"].iter().all(|tool| is_installed(tool)));
    let place = Place::new();
    let disk = image(&place, "disk.img", 8 << 20);
    place.ok(&format!("nbd export {disk} --description scratch"));
    let uri = uri(&place, "disk.img");
    let about = ok("nbdinfo", &["--json", &uri]);
    for expected in [
        "\"structured\": true",
        "\"export-size\": 8388608",
        "\"description\": \"scratch\"",
        "\"base:allocation\"",
        "\"is_read_only\": false",
        "\"can_multi_conn\": true",
        "\"can_fast_zero\": true",
        "\"can_df\": true",
        "\"can_cache\": true",
        "\"block_size_minimum\": 512",
    ] {
        assert!(about.contains(expected), "{expected}: {about}");
    }
    let all = ok("nbdinfo", &["--list", &uri]);
    has(&all, "export=\"disk.img\"");
    let map = ok("nbdinfo", &["--map", "--totals", &uri]);
    has(&map, "2097152  25.0%   0 data");
    has(&map, "6291456  75.0%   3 hole,zero");
    // Out, and in again elsewhere: holes stay holes.
    let copy = place.arg("copy.img");
    ok("nbdcopy", &[&uri, &copy]);
    assert!(fs::read(&disk).unwrap() == fs::read(&copy).unwrap());
    File::create(place.path("back.img"))
        .unwrap()
        .set_len(8 << 20)
        .unwrap();
    place.ok("nbd export {DIR}/back.img");
    let back = self::uri(&place, "back.img");
    ok(
        "nbdcopy",
        &["--destination-is-zero", "--flush", &uri, &back],
    );
    assert!(fs::read(&disk).unwrap() == fs::read(place.path("back.img")).unwrap());
    assert_eq!(ok("nbdinfo", &["--map", "--totals", &back]), map);
}

#[test]
fn qemu_reads_writes_and_compares() {
    needs!(
        ["qemu-io", "qemu-img"]
            .iter()
            .all(|tool| is_installed(tool))
    );
    let place = Place::new();
    let disk = image(&place, "disk.img", 8 << 20);
    place.ok(&format!("nbd export {disk}"));
    let uri = uri(&place, "disk.img");
    let io = |args: &[&str]| {
        let mut all = vec!["-f", "raw"];
        all.extend(args.iter().flat_map(|command| ["-c", *command]));
        all.push(&uri);
        let said = ok("qemu-io", &all);
        lacks(&said, "failed");
        lacks(&said, "mismatch");
    };
    io(&[
        "write -P 0x5a 1M 512k",
        "write -f -P 0xa5 3M 64k",
        "write -z 5M 64k",
        "write -z -u 6M 256k",
        "discard 7M 64k",
        "flush",
        "read -P 0x5a 1M 512k",
        "read -P 0xa5 3M 64k",
        "read -P 0 5M 64k",
        "read -P 0 6M 256k",
    ]);
    assert!(
        ok(
            "qemu-img",
            &["compare", "-f", "raw", "-F", "raw", &disk, &uri]
        )
        .contains("identical")
    );
    let copy = place.arg("copy.qcow2");
    ok(
        "qemu-img",
        &["convert", "-f", "raw", "-O", "qcow2", &uri, &copy],
    );
    ok(
        "qemu-img",
        &["compare", "-f", "raw", "-F", "qcow2", &uri, &copy],
    );
    let map = ok("qemu-img", &["map", "-f", "raw", "--output", "json", &uri]);
    has(&map, "\"zero\": true");
    has(&map, "\"data\": true");
}

#[test]
fn fio_verifies_what_it_wrote() {
    needs!(is_installed("fio"));
    let place = Place::new();
    let disk = image(&place, "disk.img", 32 << 20);
    place.ok(&format!("nbd export {disk}"));
    let uri = format!("--uri={}", uri(&place, "disk.img"));
    for (name, how) in [
        ("small", ["--bs=4k", "--rw=randwrite", "--iodepth=32"]),
        ("large", ["--bs=1M", "--rw=write", "--iodepth=4"]),
        (
            "mixed",
            ["--bsrange=512-256k", "--rw=randrw", "--iodepth=16"],
        ),
    ] {
        let mut args = vec![
            "--ioengine=nbd",
            "--size=32M",
            "--verify=crc32c",
            "--bs_unaligned=0",
        ];
        let name = format!("--name={name}");
        args.extend([&*name, &*uri, "--verify_state_save=0"]);
        args.extend(how);
        ok("fio", &args);
    }
}

#[test]
fn clients_hold_an_export() {
    needs!(is_installed("nbdsh"));
    let place = Place::new();
    let disk = image(&place, "disk.img", 1 << 20);
    place.ok(&format!("nbd export {disk}"));
    let uri = uri(&place, "disk.img");
    let program = format!(
        "import subprocess, sys\n\
         def strongroom(*args):\n\
         \x20   return subprocess.run(['{PROGRAM}', '--socket', '{}', *args], capture_output=True, text=True)\n\
         h.connect_uri('{uri}')\n\
         busy = strongroom('nbd', 'unexport', 'disk.img')\n\
         assert busy.returncode == {BUSY} and '1 connected' in busy.stderr, busy\n\
         assert strongroom('daemon', 'stop').returncode == {BUSY}\n\
         assert len(h.pread(512, 0)) == 512\n\
         f = open('{disk}', 'r+b'); f.truncate(2 << 20); f.close()\n\
         n = nbd.NBD(); n.connect_uri('{uri}')\n\
         assert (h.get_size(), n.get_size()) == (1 << 20, 2 << 20)\n\
         n.pwrite(b'x' * 512, (2 << 20) - 512, nbd.CMD_FLAG_FUA)\n\
         n.shutdown()\n\
         assert strongroom('nbd', 'unexport', '-f', 'disk.img').returncode == 0\n\
         try:\n\
         \x20   h.pread(512, 0)\n\
         \x20   sys.exit('it reads on')\n\
         except nbd.Error:\n\
         \x20   pass\n",
        place.socket().display()
    );
    // Whatever Python comes first otherwise may not be the system's, which has its module.
    let mut nbdsh = Command::new("nbdsh");
    let output = nbdsh
        .env("PATH", "/usr/bin:/bin")
        .args(["-c", &program])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(place.ok("nbd list -H"), "");
}

/// A Linux kernel in a virtual machine, which `STRONGROOM_KERNEL_VM` starts; by default a script beside the
/// project.
#[test]
fn a_kernel_uses_an_export_as_a_disk() {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/engines/kernel-vm.sh");
    let script = std::env::var_os("STRONGROOM_KERNEL_VM").map_or(beside, Into::into);
    needs!(
        script.is_file(),
        "no virtual machine; name its script in STRONGROOM_KERNEL_VM"
    );
    needs!(
        is_installed("qemu-system-x86_64") && Path::new("/usr/sbin/nbd-client").exists(),
        "no qemu-system-x86_64 or no nbd-client to put into the machine"
    );
    needs!(
        crate::common::machine::kernel_root()
            .join("lib/modules")
            .is_dir(),
        "no kernel for the machine"
    );
    let place = Place::new();
    let disk = image(&place, "disk.img", 16 << 20);
    place.ok(&format!("nbd export {disk}"));
    let forward = format!("10809={}", place.arg("nbd.sock"));
    // The quarter of a MiB of noise at 1 MiB goes to 8 MiB, and what is at 3 MiB is thrown away.
    let job = "set -e; nbd-client 10.0.2.100 10809 /dev/nbd0 -N disk.img -b 512 >/dev/null 2>&1; \
               cat /sys/block/nbd0/size; \
               dd if=/dev/nbd0 of=/dev/nbd0 bs=64k skip=16 seek=128 count=4 conv=fsync 2>/dev/null; \
               blkdiscard -o 3145728 -l 262144 /dev/nbd0; \
               nbd-client -d /dev/nbd0 >/dev/null";
    let mut expected = fs::read(&disk).unwrap();
    let output = Command::new(&script)
        .args(["-G", &forward, "-t", "300", "sh", job])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(124) {
        eprintln!("skipped: the virtual machine was not ready in five minutes");
        return;
    }
    assert!(output.status.success(), "{said}{error}");
    assert_eq!(said.trim(), "32768");
    expected.copy_within(1 << 20..(1 << 20) + (256 << 10), 8 << 20);
    expected[3 << 20..(3 << 20) + (256 << 10)].fill(0);
    assert!(fs::read(&disk).unwrap() == expected);
}

/// An export stands for a volume, and not for any volume of its name.
#[test]
fn another_volume_of_the_same_name_is_not_exported() {
    let other = Place::new();
    let impostor = other.pool("tank");
    let foreign = other.ok("pool list -H -o guid").trim().to_owned();
    other.ok("create -V 8M tank/vol");
    other.ok("pool export tank");
    let mut place = Place::new();
    let file = place.pool("tank");
    let own = place.ok("pool list -H -o guid").trim().to_owned();
    place.ok("create -V 16M tank/vol");
    place.ok("nbd export tank/vol --name disk");
    place.kill();
    let away = place.path("away");
    fs::rename(&file, &away).unwrap();
    fs::rename(&impostor, &file).unwrap();
    place.start();
    place.ok(&format!("pool import -d {} {foreign}", file.display()));
    let listed = place.ok("--json nbd list");
    has(&listed, "is not the volume that was exported");
    has(&listed, &own);
    has(&listed, &foreign);
    // Nor is it forgotten with the other one.
    place.ok("destroy -f tank/vol");
    place.ok("pool destroy -f tank");
    place.ok(&format!("pool import -d {} {own}", away.display()));
    place.says("nbd list -H", "disk\ttank/vol\t16M");
    place.ok("destroy -f tank/vol");
    assert_eq!(place.ok("nbd list -H"), "");
}

#[test]
fn an_export_follows_a_volume_that_is_renamed() {
    let mut place = Place::new();
    place.pool("tank");
    place.ok("keygen {DIR}/key");
    let source = format!("raw,file://{}", place.arg("key"));
    place.ok(&format!(
        "create -V 8M -o encryption=on -o keysource={source} tank/vol"
    ));
    place.ok("nbd export tank/vol --name disk");
    place.ok("key unload -f tank/vol");
    place.ok("rename tank/vol tank/new");
    place.ok("create -V 16M tank/vol");
    place.ok("key load tank/new");
    place.says("nbd list -H", "disk\ttank/new\t8M");
    place.kill();
    place.start();
    place.says("nbd list -H", "disk\ttank/new\t8M");
}
