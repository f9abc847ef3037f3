//! A volume as a block device of the Linux kernel (`nbd attach`): in a virtual machine, and its refusals where the kernel
//! has no such devices.

use std::path::Path;

use crate::common::machine::run_in_machine;
use crate::common::*;

/// The script that runs in the machine: daemon, pool, kernel.
const JOB: &str = r#"
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

strongroom pool create -s 96M tank /run/pool.img
strongroom create -V 32M tank/disk
(umask 077; head -c 32 /dev/urandom > /run/key)
strongroom create -V 1M -o encryption=on -o keysource=raw,file:///run/key tank/locked

# By a free number; by this number; refusals.
[ "$(strongroom nbd attach tank/disk)" = /dev/nbd0 ]
strongroom nbd attach tank/locked /dev/nbd3
strongroom nbd list
[ "$(cat /sys/block/nbd0/size)" = 65536 ]
fails 4 strongroom nbd attach tank/disk
fails 2 strongroom nbd unexport tank/disk
strongroom snapshot tank/disk@1
fails 5 strongroom nbd attach tank/disk@1 /dev/nbd0
strongroom nbd attach tank/disk@1 /dev/nbd1
[ "$(cat /sys/block/nbd1/ro)" = 1 ]
strongroom nbd detach tank/disk@1
fails 5 strongroom key unload tank/locked
fails 5 strongroom rollback tank/disk@1
fails 5 strongroom rename tank/disk tank/other
fails 5 strongroom nbd export --name twice tank/disk
strongroom nbd detach tank/locked
strongroom key unload tank/locked
fails 8 strongroom nbd attach tank/locked
fails 3 strongroom nbd detach /dev/nbd3

# A file system goes on after the volume was attached again.
mkfs.ext4 -q /dev/nbd0
mount -t ext4 -o discard /dev/nbd0 /mnt
head -c 8388608 /dev/urandom > /mnt/file
sync
# The kernel does not wait for threads that wait for the kernel (PF_MEMALLOC_NOIO, PF_LOCAL_THROTTLE).
flushers() { # PATTERN: how many threads with such names say so
    for task in /proc/$(daemon)/task/*; do
        set -- "$1" $(cat $task/stat)
        name=${3#(}; name=${name%)}
        case $name in $1) [ $((${10} & 0x180000)) != 1572864 ] || echo "$name";; esac
    done | wc -l
}
until_so '[ $(flushers nbd) -ge 1 ]'
until_so '[ $(flushers pool-worker) = 1 ]'
sum=$(md5sum < /mnt/file)
rm -f /mnt/none
fails 5 strongroom nbd detach /dev/nbd0
fails 5 strongroom daemon stop
umount /mnt
strongroom nbd detach /dev/nbd0
[ "$(cat /sys/block/nbd0/size)" = 0 ]
strongroom nbd attach tank/disk /dev/nbd2
fsck.ext4 -fn /dev/nbd2
mount -t ext4 /dev/nbd2 /mnt
[ "$(md5sum < /mnt/file)" = "$sum" ]

# A signal ends the daemon while it is mounted. What a program does meanwhile waits for the next daemon.
head -c 4194304 /dev/urandom > /mnt/before
before=$(md5sum < /mnt/before)
old=$(daemon)
kill -TERM $old
until_so "! kill -0 $old 2>/dev/null"
(head -c 4194304 /mnt/file > /mnt/after; sync; echo done > /run/written) &
strongroom nbd list
strongroom nbd list | grep -q /dev/nbd2
until_so "[ -e /run/written ]"
umount /mnt
echo 3 > /proc/sys/vm/drop_caches
fsck.ext4 -fn /dev/nbd2
mount -t ext4 /dev/nbd2 /mnt
[ "$(md5sum < /mnt/before)" = "$before" ]
[ "$(head -c 4194304 /mnt/file | md5sum)" = "$(md5sum < /mnt/after)" ]

# A device waits while the key of its volume is not loaded. The volume is not changed below it without force.
waits() {
    old=$(daemon)
    kill -TERM $old
    until_so "! kill -0 $old 2>/dev/null"
    mv /run/key /run/away
    strongroom --json nbd list > /run/rows
    cat /run/rows
    [ -e /sys/block/nbd4/backend ]
    mv /run/away /run/key
}
mkdir /locked
strongroom create -V 16M -o encryption=on -o keysource=raw,file:///run/key tank/secret
strongroom nbd attach tank/secret /dev/nbd4
mkfs.ext4 -q /dev/nbd4
mount -t ext4 /dev/nbd4 /locked
echo old > /locked/file
sync
strongroom snapshot tank/secret@1
echo new > /locked/file
waits
fails 5 strongroom rollback tank/secret@1
fails 5 strongroom pool export tank
strongroom key load tank/secret
[ "$(cat /locked/file)" = new ]
(sync; echo done > /run/synced) &
until_so "[ -e /run/synced ]"
waits
# No file system goes on over other contents.
strongroom rollback -f tank/secret@1
strongroom key load tank/secret
strongroom --json nbd list | grep 'in use'
if (echo lost > /locked/lost && sync /locked/lost) 2>/dev/null; then echo "it was written to"; exit 1; fi
umount /locked
strongroom nbd detach tank/secret
strongroom nbd attach tank/secret /dev/nbd4
fsck.ext4 -fp /dev/nbd4 || [ $? = 1 ]
mount -t ext4 /dev/nbd4 /locked
[ "$(cat /locked/file)" = old ]

# After a kill no request waits for a volume that cannot be opened.
old=$(daemon)
kill -KILL $old
until_so "! kill -0 $old 2>/dev/null"
(dd if=/dev/zero of=/locked/more bs=64k count=16 conv=fsync 2>/dev/null || echo done > /run/failed) &
mv /run/key /run/away
strongroom --json nbd list | grep 'not loaded'
until_so "[ -e /run/failed ]"
mv /run/away /run/key
umount /locked
strongroom key load tank/secret
fsck.ext4 -fp /dev/nbd4 || [ $? = 1 ]
strongroom nbd detach tank/secret

# A daemon that is killed may have lost what was written. No program goes on.
old=$(daemon)
kill -KILL $old
until_so "! kill -0 $old 2>/dev/null"
strongroom --json nbd list > /run/rows
cat /run/rows
grep -q 'in use' /run/rows
if (echo lost > /mnt/lost && sync /mnt/lost) 2>/dev/null; then echo "it was written to"; exit 1; fi
umount /mnt
strongroom nbd detach tank/disk
strongroom nbd attach tank/disk /dev/nbd2
fsck.ext4 -fp /dev/nbd2 || [ $? = 1 ]
mount -t ext4 /dev/nbd2 /mnt
[ "$(md5sum < /mnt/file)" = "$sum" ]
umount /mnt

# The daemon detaches when it is asked to end, and the next one attaches again.
old=$(daemon)
strongroom daemon stop
until_so "! kill -0 $old 2>/dev/null"
[ "$(cat /sys/block/nbd2/size)" = 0 ]
strongroom nbd list | grep -q /dev/nbd2
fsck.ext4 -fn /dev/nbd2
strongroom nbd detach /dev/nbd2
strongroom pool scrub -w tank > /run/said 2>&1
strongroom pool status -x
echo all done
"#;

#[test]
fn the_kernel_has_a_volume_as_a_block_device() {
    if let Some(told) = run_in_machine(JOB, &["mkfs.ext4", "fsck.ext4"], &[], &["nbd"]) {
        has(&told, "all done");
    }
}

/// The reason is told, and no export stays, where the kernel has no such devices or lets the daemon have none.
#[test]
fn a_kernel_without_block_devices_is_named() {
    if Path::new("/sys/module/nbd").exists() {
        println!("skipped: this kernel has the module");
        return;
    }
    let place = Place::new();
    place.pool("tank");
    place.ok("create -V 1M tank/disk");
    place.refuses("nbd attach tank/disk", OTHER, "modprobe nbd");
    assert_eq!(place.ok("nbd list -H"), "");
    place.refuses("nbd attach tank/disk /dev/sda", USAGE, "/dev/nbd0");
    place.fails("nbd attach tank/none", NOT_FOUND);
    place.refuses("nbd detach tank/disk", NOT_FOUND, "nbd list");
    // Nothing holds it.
    place.ok("destroy -f tank/disk");
}
