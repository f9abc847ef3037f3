//! Volumes and LUKS containers as block devices by ublk: in a virtual machine with Linux 6.12 or newer, and the refusal
//! where the kernel has no driver.
//!
//! The kernel of Debian 12 has no driver. `KROOT` names a directory with the unpacked package of a kernel that has it, such
//! as `linux-image-6.12.*-amd64` of Debian.

use std::fs;
use std::path::Path;

use crate::common::machine::run_in_machine;
use crate::common::*;

/// The beginning of each script that runs in the machine.
const BEGIN: &str = r#"
set -e
export STRONGROOM_SOCKET=/run/s/socket XDG_STATE_HOME=/run/state HOME=/run TZ=UTC
mkdir -p /run/s /mnt
fails() { # CODE COMMAND...
    want=$1; shift
    set +e; "$@" > /run/said 2>&1; got=$?; set -e
    [ $got = $want ] || { echo "$*: exit code $got, not $want"; cat /run/said; exit 1; }
}
# Waits until a condition holds.
until_so() { for i in $(seq 600); do if eval "$1"; then return 0; fi; sleep .1; done; echo "never: $1"; exit 1; }
daemon() { pidof strongroom | tr ' ' '\n' | sort -n | head -1; }
ends() { # SIGNAL
    old=$(daemon)
    kill -$1 $old
    until_so "! kill -0 $old 2>/dev/null"
}
"#;

/// Attaching, refusals, a file system, and ends of the daemon.
const LIFE: &str = r#"
strongroom pool create -s 256M tank /run/pool.img
strongroom create -V 64M tank/disk
(umask 077; head -c 32 /dev/urandom > /run/key)
strongroom create -V 16M -o encryption=on -o keysource=raw,file:///run/key tank/locked

# By a free number; by this number; refusals.
[ "$(strongroom ublk attach tank/disk)" = /dev/ublkb0 ]
strongroom ublk attach tank/locked /dev/ublkb3
strongroom ublk list
[ "$(strongroom ublk list -H | wc -l)" = 2 ]
[ "$(strongroom nbd list -H | wc -l)" = 0 ]
[ "$(cat /sys/block/ublkb0/size)" = 131072 ]
[ "$(cat /sys/block/ublkb0/queue/write_cache)" = "write back" ]
[ "$(ls /sys/block/ublkb0/mq | wc -l)" = "$(nproc)" ]
fails 4 strongroom ublk attach tank/disk
fails 4 strongroom nbd attach tank/disk
fails 2 strongroom nbd unexport tank/disk
strongroom snapshot tank/disk@1
fails 5 strongroom ublk attach tank/disk@1 /dev/ublkb0
strongroom ublk attach tank/disk@1 /dev/ublkb1
[ "$(cat /sys/block/ublkb1/ro)" = 1 ]
fails 1 dd if=/dev/zero of=/dev/ublkb1 bs=4k count=1
strongroom ublk detach tank/disk@1
[ ! -e /dev/ublkb1 ]
fails 5 strongroom key unload tank/locked
fails 5 strongroom rollback tank/disk@1
fails 5 strongroom rename tank/disk tank/other
fails 5 strongroom nbd export --name twice tank/disk
strongroom ublk detach tank/locked
strongroom key unload tank/locked
fails 8 strongroom ublk attach tank/locked
fails 3 strongroom ublk detach /dev/ublkb3

# A file system goes on after the volume was attached again.
mkfs.ext4 -q /dev/ublkb0
mount -t ext4 -o discard /dev/ublkb0 /mnt
head -c 8388608 /dev/urandom > /mnt/file
sync
sum=$(md5sum < /mnt/file)
fails 5 strongroom ublk detach /dev/ublkb0
fails 5 strongroom daemon stop
umount /mnt
strongroom ublk detach /dev/ublkb0
until_so "[ ! -e /dev/ublkb0 ]"
strongroom ublk attach tank/disk /dev/ublkb2
fsck.ext4 -fn /dev/ublkb2
mount -t ext4 /dev/ublkb2 /mnt
[ "$(md5sum < /mnt/file)" = "$sum" ]

# A signal ends the daemon while it is mounted. What a program does meanwhile waits for the next daemon.
head -c 4194304 /dev/urandom > /mnt/before
before=$(md5sum < /mnt/before)
ends TERM
(head -c 4194304 /mnt/file > /mnt/after; sync; echo done > /run/written) &
strongroom ublk list | grep -q /dev/ublkb2
until_so "[ -e /run/written ]"
umount /mnt
echo 3 > /proc/sys/vm/drop_caches
fsck.ext4 -fn /dev/ublkb2
mount -t ext4 /dev/ublkb2 /mnt
[ "$(md5sum < /mnt/before)" = "$before" ]
[ "$(head -c 4194304 /mnt/file | md5sum)" = "$(md5sum < /mnt/after)" ]

# A daemon that is killed loses nothing either. What was answered and not flushed is there.
dd if=/mnt/file of=/mnt/killed bs=64k oflag=direct 2>/dev/null
ends KILL
(head -c 4194304 /mnt/file > /mnt/again; sync; echo done > /run/again) &
strongroom ublk list
until_so "[ -e /run/again ]"
umount /mnt
echo 3 > /proc/sys/vm/drop_caches
fsck.ext4 -fn /dev/ublkb2
mount -t ext4 /dev/ublkb2 /mnt
[ "$(md5sum < /mnt/killed)" = "$sum" ]
[ "$(head -c 4194304 /mnt/file | md5sum)" = "$(md5sum < /mnt/again)" ]
# Twice, and while it writes.
(dd if=/dev/urandom of=/mnt/noise bs=16k count=1024 2>/dev/null; sync; md5sum < /mnt/noise > /run/noise) &
ends KILL
strongroom ublk list > /dev/null
ends KILL
strongroom ublk list > /dev/null
until_so "[ -s /run/noise ]"
umount /mnt
echo 3 > /proc/sys/vm/drop_caches
fsck.ext4 -fn /dev/ublkb2
mount -t ext4 /dev/ublkb2 /mnt
[ "$(md5sum < /mnt/noise)" = "$(cat /run/noise)" ]

# Discarded blocks take no space.
rm /mnt/noise /mnt/killed
sync
fstrim -v /mnt
strongroom pool sync tank
umount /mnt

# The daemon detaches when it is asked to end, and the next one attaches again.
old=$(daemon)
strongroom daemon stop
until_so "! kill -0 $old 2>/dev/null"
[ ! -e /dev/ublkb2 ]
strongroom ublk list | grep -q /dev/ublkb2
fsck.ext4 -fn /dev/ublkb2

# Another size: the kernel is told, or the caller is told that it cannot be.
strongroom set volsize=96M tank/disk > /run/said 2>&1
[ "$(cat /sys/block/ublkb2/size)" = 196608 ] || grep -q 'attached again' /run/said
strongroom ublk detach /dev/ublkb2
strongroom ublk attach tank/disk /dev/ublkb2
[ "$(cat /sys/block/ublkb2/size)" = 196608 ]
strongroom ublk detach /dev/ublkb2
strongroom pool scrub -w tank > /run/said 2>&1
strongroom pool status -x
echo all done
"#;

/// Devices that wait, and those that must not go on.
const WAITS: &str = r#"
strongroom pool create -s 256M tank /run/pool.img
(umask 077; head -c 32 /dev/urandom > /run/key)
strongroom create -V 32M -o encryption=on -o keysource=raw,file:///run/key tank/secret
strongroom ublk attach tank/secret
mkfs.ext4 -q /dev/ublkb0
mount -t ext4 /dev/ublkb0 /mnt
echo old > /mnt/file
sync
strongroom snapshot tank/secret@1
echo new > /mnt/file
sync

# Without a key a device waits, after a kill too. The volume is not changed below it without force.
for signal in TERM KILL; do
    ends $signal
    mv /run/key /run/away
    strongroom --json ublk list > /run/rows
    grep -q 'not loaded' /run/rows
    # A daemon that is stopped while it waits for the key leaves the device to the next one.
    ends TERM
    strongroom --json ublk list > /run/rows
    grep -q 'not loaded' /run/rows
    mv /run/away /run/key
    fails 5 strongroom rollback tank/secret@1
    fails 5 strongroom pool export tank
    strongroom key load tank/secret
    echo 3 > /proc/sys/vm/drop_caches
    [ "$(cat /mnt/file)" = new ]
    (echo $signal > /mnt/$signal; sync; echo done > /run/$signal) &
    until_so "[ -e /run/$signal ]"
done

# No file system goes on over other contents.
ends KILL
mv /run/key /run/away
strongroom ublk list > /dev/null
mv /run/away /run/key
strongroom rollback -f tank/secret@1
strongroom key load tank/secret
if (echo lost > /mnt/lost && sync /mnt/lost) 2>/dev/null; then echo "it was written to"; exit 1; fi
umount /mnt
strongroom ublk list
strongroom ublk detach tank/secret || true
strongroom ublk attach tank/secret /dev/ublkb4
fsck.ext4 -fp /dev/ublkb4 || [ $? = 1 ]
mount -t ext4 /dev/ublkb4 /mnt
[ "$(cat /mnt/file)" = old ]
umount /mnt
strongroom ublk detach tank/secret

# A volume that does not keep its answers is no device to go on with after a kill.
strongroom create -V 32M -o writecache=volatile tank/scratch
strongroom ublk attach tank/scratch /dev/ublkb5
mkfs.ext4 -q /dev/ublkb5
mount -t ext4 /dev/ublkb5 /mnt
ends KILL
strongroom ublk list
if (echo lost > /mnt/lost && sync /mnt/lost) 2>/dev/null; then echo "it was written to"; exit 1; fi
umount /mnt
strongroom ublk detach -f tank/scratch || true

# By force also while it is mounted. The number is free when it is unmounted.
strongroom ublk attach tank/secret /dev/ublkb6
mount -t ext4 /dev/ublkb6 /mnt
fails 5 strongroom ublk detach tank/secret
strongroom ublk detach -f tank/secret
umount /mnt
[ "$(strongroom ublk list -H | wc -l)" = 0 ]
echo all done
"#;

/// The decrypted content of a LUKS container, with fio as the judge of each block; and a daemon that is killed meanwhile.
const CONTAINER: &str = r#"
truncate -s 96M /run/disk.luks
head -c 32 /dev/urandom > /run/luks.key
strongroom luks format -q --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --key-file /run/luks.key /run/disk.luks
opened() { strongroom luks open --allow-discards --key-file /run/luks.key /run/disk.luks secret; }
opened
[ "$(strongroom ublk attach luks:secret)" = /dev/ublkb0 ]
fio --name=verify --filename=/dev/ublkb0 --direct=1 --rw=randwrite --bs=4k-128k --iodepth=16 --ioengine=libaio \
    --size=32M --verify=crc32c --do_verify=1 --fsync=64 --randrepeat=0 > /run/said 2>&1 || { cat /run/said; exit 1; }
# Zeroing and discards; the shell has a smaller program of this name.
/sbin/blkdiscard -z -o 1048576 -l 1048576 /dev/ublkb0
/sbin/blkdiscard -o 4194304 -l 1048576 /dev/ublkb0
cmp -n 1048576 /dev/zero /dev/ublkb0 0 1048576

# A mounted one outlives a restart of the daemon. It proves nothing after a kill, so it is ended.
mkfs.ext4 -q /dev/ublkb0
mount -t ext4 /dev/ublkb0 /mnt
echo old > /mnt/file
ends TERM
strongroom ublk list
(echo new > /mnt/file; sync; echo done > /run/synced) &
opened
until_so "[ -e /run/synced ]"
ends KILL
strongroom ublk list
if (echo lost > /mnt/lost && sync /mnt/lost) 2>/dev/null; then echo "it was written to"; exit 1; fi
umount /mnt
strongroom ublk detach -f luks:secret || true
opened
[ "$(strongroom ublk attach luks:secret /dev/ublkb1)" = /dev/ublkb1 ]
fsck.ext4 -fp /dev/ublkb1 || [ $? = 1 ]
mount -t ext4 -o ro /dev/ublkb1 /mnt
[ "$(cat /mnt/file)" = new ]
umount /mnt
sum=$(md5sum < /dev/ublkb1)
strongroom ublk detach luks:secret
strongroom luks close secret
# The kernel's dm-crypt has the last word.
cryptsetup open --type luks2 --key-file /run/luks.key /run/disk.luks judge
[ "$(md5sum < /dev/mapper/judge)" = "$sum" ]
cryptsetup close judge

# fio writes to a volume while the daemon is killed, and verifies all of it.
strongroom pool create -s 128M tank /run/pool.img
strongroom create -V 32M tank/disk
strongroom ublk attach tank/disk /dev/ublkb2
fio --name=kill --filename=/dev/ublkb2 --direct=1 --rw=randwrite --bs=4k --iodepth=8 --ioengine=libaio --size=16M \
    --verify=crc32c --do_verify=1 --randrepeat=0 > /run/fio 2>&1 &
fio=$!
writes() { awk '{ print $5 }' /sys/block/ublkb2/stat; }
until_so '[ $(writes) -gt 100 ]'
ends KILL
strongroom ublk list
wait $fio || { cat /run/fio; exit 1; }
strongroom ublk detach tank/disk
echo all done
"#;

/// Returns whether the kernel of the machine has the driver.
fn has_driver() -> bool {
    let kernels = std::env::var_os("KROOT").map(|root| Path::new(&root).join("lib/modules"));
    let found = kernels.and_then(|dir| {
        fs::read_dir(dir)
            .ok()?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .find(|kernel| {
                let driver = kernel.join("kernel/drivers/block/ublk_drv.ko");
                driver.exists() || driver.with_extension("ko.xz").exists()
            })
    });
    found.is_some()
}

fn run_job(job: &str, programs: &[&str]) {
    needs!(has_driver(), "KROOT names no kernel with ublk_drv");
    let job = format!("{BEGIN}{job}");
    if let Some(told) = run_in_machine(&job, programs, &[], &["ext4"]) {
        has(&told, "all done");
    }
}

#[test]
fn the_kernel_has_a_volume_as_a_block_device() {
    run_job(LIFE, &["mkfs.ext4", "fsck.ext4", "fstrim"]);
}

#[test]
fn a_device_waits_for_its_volume() {
    run_job(WAITS, &["mkfs.ext4", "fsck.ext4"]);
}

#[test]
fn fio_verifies_a_container() {
    run_job(CONTAINER, &["fio", "blkdiscard", "mkfs.ext4", "fsck.ext4"]);
}

/// The reason is told, and no device stays, where the kernel has no driver.
#[test]
fn a_kernel_without_the_driver_is_named() {
    if Path::new("/dev/ublk-control").exists() {
        println!("skipped: this kernel has the driver");
        return;
    }
    let place = Place::new();
    place.pool("tank");
    place.ok("create -V 1M tank/disk");
    place.refuses("ublk attach tank/disk", OTHER, "modprobe ublk_drv");
    assert_eq!(place.ok("ublk list -H"), "");
    place.refuses("ublk attach tank/disk /dev/sda", USAGE, "/dev/ublkb0");
    place.fails("ublk attach tank/none", NOT_FOUND);
    place.refuses("ublk detach tank/disk", NOT_FOUND, "ublk list");
    // Nothing holds it.
    place.ok("destroy -f tank/disk");
}
