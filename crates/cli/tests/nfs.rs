//! A dataset that the kernel's NFS server exports, in a virtual machine: file handles of clients hold when the dataset is
//! mounted again and when the daemon restarts.

mod common;

use common::has;
use common::machine::run_in_machine;

const JOB: &str = r#"
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
strongroom pool create -s 96M -m /tank tank /run/pool.img
strongroom create tank/work
echo "/tank/work *(rw,fsid=0,no_root_squash,no_subtree_check,insecure,sync)" > /etc/exports
exportfs -ra
rpc.mountd -N 2 -N 3
echo 10 > /proc/fs/nfsd/nfsv4leasetime
echo 10 > /proc/fs/nfsd/nfsv4gracetime
rpc.nfsd -N 3 -H 127.0.0.1 --no-udp 4
mount.nfs4 127.0.0.1:/ /nfs -o vers=4.2,hard

cd /nfs
head -c 3000000 /dev/urandom > first
sum=$(md5sum < first)
[ "$(md5sum < /tank/work/first)" = "$sum" ]
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
[ "$(cat /tank/work/d/log)" = "one
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
[ "$(cat /tank/work/d/four)" = four ]
rm d/f1
[ ! -e /tank/work/d/f1 ]
echo all done
"#;

#[test]
fn clients_of_nfs_go_on_after_a_remount_and_a_restart() {
    let programs = ["exportfs", "rpc.nfsd", "rpc.mountd", "mount.nfs4"];
    let files = ["/etc/netconfig", "/etc/services", "/etc/protocols"];
    let modules = ["nfsd", "nfsv4", "fuse"];
    if let Some(told) = run_in_machine(JOB, &programs, &files, &modules) {
        has(&told, "all done");
    }
}
