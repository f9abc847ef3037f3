//! The kernel's NFS in a virtual machine: a dataset that its server exports, whose file handles hold when the dataset
//! is mounted again and when the daemon restarts; and stacked directories of two clients over what it exports.

use crate::common::has;
use crate::common::machine::run_in_machine;

/// The script that starts the server. The export is `/export`.
const SERVER: &str = r#"
set -e
export STRONGROOM_SOCKET=/run/s/socket XDG_STATE_HOME=/run/state HOME=/run TZ=UTC
ifconfig lo 127.0.0.1 up
mkdir -p /run/s /nfs /var/lib/nfs/v4recovery /var/lib/nfs/rpc_pipefs /etc /var/run /var/lock
cp /in/netconfig /in/services /in/protocols /etc/
echo "root:x:0:0:root:/root:/bin/sh" > /etc/passwd
echo "127.0.0.1 localhost" > /etc/hosts
echo "hosts: files" > /etc/nsswitch.conf
touch /var/lib/nfs/etab /var/lib/nfs/rmtab
mount -t nfsd nfsd /proc/fs/nfsd
mount -t rpc_pipefs r /var/lib/nfs/rpc_pipefs
serve() {
    echo "/export *(rw,fsid=0,no_root_squash,no_subtree_check,insecure,sync)" > /etc/exports
    exportfs -ra
    start_server
}
start_server() {
    rpc.mountd -N 2 -N 3
    echo 10 > /proc/fs/nfsd/nfsv4leasetime
    echo 10 > /proc/fs/nfsd/nfsv4gracetime
    rpc.nfsd -N 3 -H 127.0.0.1 --no-udp 4
}
"#;

const DATASET: &str = r#"
strongroom pool create -s 96M -m /tank tank /run/pool.img
strongroom create -o mountpoint=/export tank/work
serve
mount.nfs4 127.0.0.1:/ /nfs -o vers=4.2,hard

cd /nfs
head -c 3000000 /dev/urandom > first
sum=$(md5sum < first)
[ "$(md5sum < /export/first)" = "$sum" ]
mkdir d
mv first d/file
ln d/file link
[ "$(stat -c %h d/file)" = 2 ]
rm link
for i in $(seq 100); do echo $i > d/f$i; done
[ "$(ls d | wc -l)" = 101 ]

# Mounted again. The client has handles of directory and file; its file that is open for writing ends with an error.
exec 6>> d/log
echo one >&6
sync d/log
set +e; strongroom unmount tank/work; [ $? = 5 ] || { echo "it was unmounted"; exit 1; }; set -e
strongroom unmount -f tank/work
strongroom mount tank/work
exportfs -f
[ "$(md5sum < d/file)" = "$sum" ]
[ "$(ls d | wc -l)" = 102 ]
echo two >&6
if sync d/log 2>/dev/null; then echo "a lost write is not told"; exit 1; fi
exec 6>&-
echo three >> d/log
[ "$(cat /export/d/log)" = "one
three" ]
mv d/file d/other

# Another daemon.
old=$(pidof strongroom | tr ' ' '\n' | sort -n | head -1)
kill -TERM $old
while kill -0 $old 2>/dev/null; do sleep .1; done
strongroom mount
exportfs -f
[ "$(md5sum < d/other)" = "$sum" ]
[ "$(ls d | wc -l)" = 102 ]
echo four > d/four
[ "$(cat /export/d/four)" = four ]
rm d/f1
[ ! -e /export/d/f1 ]
echo all done
"#;

/// A dataset that its property exports.
const SHARED: &str = r#"
[ -e /usr/sbin/exportfs ] || { mkdir -p /usr/sbin; ln -s "$(command -v exportfs)" /usr/sbin/exportfs; }
: > /etc/exports
start_server
strongroom pool create -s 96M -m none tank /run/pool.img
strongroom create -o mountpoint=/export -o sharenfs=rw=127.0.0.1:[fd00::]/8,no_root_squash,insecure tank/work
exportfs -v
mount.nfs4 127.0.0.1:/export /nfs -o vers=4.2,hard
head -c 3000000 /dev/urandom > /nfs/first
sum=$(md5sum < /nfs/first)
[ "$(md5sum < /export/first)" = "$sum" ]

# Another daemon exports it again. The client goes on, because the handles have the guid.
old=$(pidof strongroom | tr ' ' '\n' | sort -n | head -1)
umount /nfs
kill -TERM $old
while kill -0 $old 2>/dev/null; do sleep .1; done
[ -z "$(exportfs)" ] || { exportfs; echo "the export outlives the daemon"; exit 1; }
strongroom mount
mount.nfs4 127.0.0.1:/export /nfs -o vers=4.2,hard
[ "$(md5sum < /nfs/first)" = "$sum" ]
umount /nfs

# The server keeps what it has used, and the error says for how long. The export stays.
if said=$(strongroom unmount tank/work 2>&1); then exit 1; fi
case $said in *"lease time"*) ;; *) echo "$said"; exit 1 ;; esac
[ -n "$(exportfs)" ]
strongroom set sharenfs=off tank/work
[ -z "$(exportfs)" ] || { exportfs; exit 1; }
until strongroom unmount tank/work 2>/dev/null; do sleep .5; done
strongroom set sharenfs=on tank/work
strongroom mount tank/work
[ -n "$(exportfs)" ]
strongroom unmount -f tank/work
[ -z "$(exportfs)" ] || { exportfs; exit 1; }
strongroom mount tank/work
[ "$(md5sum < /export/first)" = "$sum" ]
echo all done
"#;

/// Two clients of NFS, each with caches of its own. To the server they are one, which would get leases against itself.
const STACKED: &str = r#"
mkdir -p /export /nfs/a /nfs/b /m/a /m/b
echo 0 > /proc/sys/fs/leases-enable
truncate -s 64M /run/disk
mkfs.ext4 -q /run/disk
mount -o loop /run/disk /export
serve
for client in a b; do mount.nfs4 127.0.0.1:/ /nfs/$client -o vers=4.2,hard,nosharecache; done
echo a passphrase > /run/pass

each() {
    format=$1
    shift
    mkdir /export/$format
    strongroom stack init --format $format --passfile /run/pass /nfs/a/$format "$@"
    for client in a b; do strongroom stack mount --passfile /run/pass /nfs/$client/$format /m/$client; done
    head -c 3000000 /dev/urandom > /m/a/first
    sum=$(md5sum < /m/a/first)
    [ "$(md5sum < /m/b/first)" = "$sum" ]
    mkdir /m/b/d
    mv /m/b/first /m/b/d/file
    [ "$(md5sum < /m/a/d/file)" = "$sum" ]
    # The file of one client grows and shrinks by the other one.
    echo one > /m/a/log
    for n in 2 3 4; do echo $n >> /m/b/log; echo $n >> /m/a/log; done
    [ "$(tr '\n' ' ' < /m/b/log)" = "one 2 2 3 3 4 4 " ]
    truncate -s 3 /m/a/log
    [ "$(cat /m/b/log)" = one ]
    ln -s d/file /m/b/symbolic
    [ "$(md5sum < /m/a/symbolic)" = "$sum" ]
    for i in $(seq 50); do echo $i > /m/a/d/n$i; done
    [ "$(ls /m/b/d | wc -l)" = 51 ]
    rm /m/b/d/n*
    [ "$(ls /m/a/d)" = file ]
    # What the server has is not plain.
    [ ! -e /export/$format/log ]
    for client in a b; do umount /m/$client; done
    echo $format done
}
each gocryptfs

# NFS has no attributes of the kind that root's mounts need.
mkdir /export/fscrypt
if said=$(strongroom stack init --format fscrypt --passfile /run/pass /nfs/a/fscrypt 2>&1); then exit 1; fi
case $said in *"does not support extended attributes"*) ;; *) echo "$said"; exit 1 ;; esac
echo all done
"#;

#[test]
fn clients_of_nfs_go_on_after_a_remount_and_a_restart() {
    run(DATASET, &[], &[]);
}

#[test]
fn the_server_exports_what_sharenfs_says() {
    run(SHARED, &[], &[]);
}

#[test]
fn two_clients_of_nfs_share_stacked_directories() {
    run(STACKED, &["mkfs.ext4"], &["ext4", "loop"]);
}

fn run(job: &str, programs: &[&str], modules: &[&str]) {
    let programs = [
        &["exportfs", "rpc.nfsd", "rpc.mountd", "mount.nfs4"],
        programs,
    ]
    .concat();
    let files = ["/etc/netconfig", "/etc/services", "/etc/protocols"];
    let modules = [&["nfsd", "nfsv4", "fuse"], modules].concat();
    if let Some(told) = run_in_machine(&format!("{SERVER}{job}"), &programs, &files, &modules) {
        has(&told, "all done");
    }
}
