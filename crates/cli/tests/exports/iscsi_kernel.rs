//! The initiator of the Linux kernel, in a virtual machine: two paths to a volume, one of them by a portal that sends it on, a
//! file system, and sg_persist.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use crate::common::*;

const ENGINE: &str = "../../../shared/engines/kernel-vm.sh";
const NAME: &str = "iqn.2026-01.io.github.strongroom:kernel";
const PROGRAMS: [&str; 4] = ["sg_persist", "mkfs.ext4", "fsck.ext4", "blkdiscard"];

/// The script that runs in the machine. It logs in through both portals, as two sessions.
const JOB: &str = r#"
set -e
mkdir -p /var/lock /run/lock /etc/iscsi
for port in $PORTS; do
    iscsistart -i iqn.2026-01.org.example:vm -t $NAME -g 1 -a 10.0.2.2 -p $port
done
for i in $(seq 200); do [ -b /dev/sda ] && [ -b /dev/sdb ] && break; sleep .1; done
mkfs.ext4 -q /dev/sda
fsck.ext4 -fn /dev/sdb
sg_persist --out --register --param-sark=0xa --param-aptpl /dev/sda
sg_persist --out --register --param-sark=0xb --param-aptpl /dev/sdb
sg_persist --out --reserve --param-rk=0xa --prout-type=3 /dev/sda
dd if=/dev/zero of=/dev/sda bs=64k count=1 oflag=direct
if dd if=/dev/zero of=/dev/sdb bs=64k count=1 oflag=direct; then echo "sdb is not kept out"; exit 1; fi
sg_persist --out --preempt-abort --param-rk=0xb --param-sark=0xa --prout-type=1 /dev/sdb
dd if=/dev/zero of=/dev/sdb bs=64k count=1 oflag=direct
if dd if=/dev/zero of=/dev/sda bs=64k count=1 oflag=direct; then echo "sda is not kept out"; exit 1; fi
sg_persist --in --read-full-status /dev/sdb
blkdiscard /dev/sdb
echo all done
"#;

fn portal() -> (String, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (address.to_string(), address.port())
}

/// Another daemon, which had the target before, and sends initiators on.
struct Moved {
    place: Place,
    port: u16,
}

impl Moved {
    fn to(port: u16) -> Option<Moved> {
        needs!(can_mount());
        let place = Place::new();
        place.ok("pool create -s 64M -m {DIR}/mnt tank {DIR}/tank.pool");
        let (own, first) = portal();
        let file = format!(
            "target_portal_groups = [\"old\"]\nold_portals = [\"{own}\"]\nold_redirect = \"10.0.2.2:{port}\"\n\
             targets = [\"kernel\"]\n"
        );
        std::fs::write(place.path("mnt/ha.toml"), file).unwrap();
        place.ok("ha start tank");
        Some(Moved { place, port: first })
    }
}

#[test]
fn the_kernel_reserves_a_volume_by_two_paths() {
    let engine = Path::new(env!("CARGO_MANIFEST_DIR")).join(ENGINE);
    let needed = ["qemu-system-x86_64", "iscsistart", "busybox", "cpio"];
    let missing = needed
        .iter()
        .chain(&PROGRAMS)
        .find(|name| !is_installed(name));
    let has_kernel = std::fs::read_dir("/boot").is_ok_and(|dir| {
        dir.flatten()
            .any(|it| it.file_name().to_string_lossy().starts_with("vmlinuz-"))
    });
    if !engine.exists() || missing.is_some() || !has_kernel {
        println!("skipped: needs kernel-vm.sh, a kernel, and {missing:?}");
        return;
    }
    let mut place = Place::new();
    place.pool("tank");
    place.ok("create -V 32M tank/disk");
    let ((first, one), (second, two)) = (portal(), portal());
    place.ok(&format!(
        "iscsi export --no-authentication --portal {first} --portal {second} --name {NAME} tank/disk"
    ));
    let moved = Moved::to(one);
    let first = moved.as_ref().map_or(one, |moved| moved.port);
    let paths = PROGRAMS.map(|name| {
        let dirs = ["/usr/bin", "/usr/sbin", "/sbin", "/bin"];
        let mut paths = dirs.iter().map(|dir| format!("{dir}/{name}"));
        paths.find(|path| Path::new(path).exists()).unwrap()
    });
    let job = format!("PORTS='{first} {two}' NAME={NAME}\n{JOB}");
    let run = Command::new("bash")
        .arg(engine)
        .args(["-n", "-t", "240", "sh", &job])
        .env("EXTRA_BINS", paths.join(" "))
        .env("VMDIR", place.path("vm"))
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&run.stdout);
    let errors = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{told}\n{errors}\n{}", place.log());
    has(&told, "all done");
    has(&told, "Key=0xb");
    has(&told, "Write Exclusive");
    lacks(&told, "Key=0xa");
    lacks(&place.log(), "panic");
    if let Some(moved) = moved {
        has(&moved.place.log(), "a login was redirected");
    }
    place.terminate();
}
