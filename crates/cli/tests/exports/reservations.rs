//! A disk that two machines reach, with `reservations=on`: the target of this program, the initiator of the Linux kernel
//! twice, and a daemon for each. They are in one virtual machine.

use std::path::Path;

use crate::common::has;
use crate::common::machine::run_in_machine;

const AGENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/ocf/Strongroom");

const JOB: &str = r#"
set -e
export HOME=/run TZ=UTC
NAME=iqn.2026-01.org.example:shared
ifconfig lo 127.0.0.1 up
mkdir -p /var/lock /run/lock /etc/iscsi /run/t /run/a /run/b
as() { # MACHINE COMMAND...
    export STRONGROOM_SOCKET=/run/$1/socket XDG_STATE_HOME=/run/$1/state
    unshare -u sh -c 'hostname $0; exec strongroom "$@"' "$@"
}
fails() { # CODE TEXT MACHINE COMMAND...
    want=$1; text=$2; shift 2
    set +e; as "$@" > /run/said 2>&1; got=$?; set -e
    [ $got = $want ] && grep -q "$text" /run/said && return 0
    echo "$*: exit code $got, not $want with '$text'"; cat /run/said; exit 1
}
until_so() { for i in $(seq 600); do if eval "$1"; then return 0; fi; sleep .1; done; echo "never: $1"; exit 1; }
reserved() {
    # The first answer may be a unit attention.
    sg_persist --in --read-reservation $1 > /run/said 2>&1 || true
    sg_persist --in --read-reservation $1 > /run/said
    grep -q 'registrants only' /run/said
}
kills() { kill -KILL $(cat /run/$1.pid); until_so "! kill -0 $(cat /run/$1.pid) 2>/dev/null"; }
notes() { as $1 daemon status | sed -n 's/ *pid: //p' > /run/$1.pid; [ -s /run/$1.pid ]; }

as t pool create -s 128M -m none disks /run/disks.img
as t create -V 64M disks/shared
as t iscsi export --no-authentication --portal 127.0.0.1:3260 --portal 127.0.0.1:3261 --name $NAME disks/shared
fails 2 'it is a file, not a disk' t pool set reservations=on disks
[ "$(as t pool get -H -o value reservations disks)" = off ]
for i in 0 1; do
    iscsistart -i iqn.2026-01.org.example:vm$i -t $NAME -g 1 -a 127.0.0.1 -p 326$i
done
until_so "[ -b /dev/sda ] && [ -b /dev/sdb ]"

# A pool that one machine uses cannot be written to by the other one.
as a pool create -m none -o reservations=on tank /dev/sda
reserved /dev/sdb
if dd if=/dev/zero of=/dev/sdb bs=4096 seek=9000 count=1 oflag=direct 2>/dev/null; then echo "it is not kept out"; exit 1; fi
fails 5 'last used by host' b pool import -d /dev/sdb tank
fails 5 'is reserved by another machine' b pool create -f -m none -o reservations=on other /dev/sdb
as a set test:x=1 tank

# It is taken by force. The machine that had it notices, though it writes nothing, and acknowledges nothing more.
as b pool import -f -d /dev/sdb tank
until_so "as a pool list -H -o health tank | grep -q SUSPENDED"
fails 12 'another machine has taken it' a set test:x=2 tank
fails 12 'another machine has taken it' a pool clear tank
[ "$(as b get -H -o value test:x tank)" = 1 ]
as b set test:x=3 tank

# Failing back in order.
as a pool export -f tank
as b pool export tank
if reserved /dev/sda; then echo "it is still reserved"; exit 1; fi
as a pool import -d /dev/sda tank
reserved /dev/sdb
[ "$(as a get -H -o value test:x tank)" = 3 ]

# A write is under way: it fails, and none is acknowledged that the other one does not have.
(n=0; while as a set test:n=$n tank 2>/dev/null; do echo $n > /run/acked; n=$((n + 1)); done; echo over > /run/over) &
until_so '[ -s /run/acked ] && [ $(cat /run/acked) -ge 3 ]'
as b pool import -f -d /dev/sdb tank
until_so "[ -e /run/over ]"
there=$(as b get -H -o value test:n tank)
[ "$there" = "$(cat /run/acked)" ] || [ "$there" = $(($(cat /run/acked) + 1)) ]
as a pool export -f tank

# A machine whose daemon died goes on by itself; another one needs force.
notes b
kills b
fails 5 'last used by host' a pool import -d /dev/sda tank
[ "$(as b pool list -H -o health tank)" = ONLINE ]
reserved /dev/sda
notes b
kills b
as a pool import -f -d /dev/sda tank
[ "$(as a get -H -o value test:n tank)" = "$there" ]
[ "$(as a pool list -H -o health tank)" = ONLINE ]

# Switched off and on.
as a pool set reservations=off tank
if reserved /dev/sdb; then echo "it is still reserved"; exit 1; fi
as a pool set reservations=on tank
reserved /dev/sdb
as a pool scrub -w tank
as a pool status -x

# A copy in a file cannot be reserved. It is imported if that is asked for.
as a pool export tank
dd if=/dev/sda of=/run/copy.img bs=1M 2>/dev/null
fails 2 'reservations=off imports' a pool import -d /run/copy.img tank
as a pool import -o reservations=off -d /run/copy.img tank
[ "$(as a pool get -H -o value reservations tank)" = off ]
as a pool export tank
as a pool import -d /run/copy.img tank
as a pool destroy -f tank
rm /run/copy.img

# The checkpoint says whether a pool that goes back to it is reserved.
as a pool import -d /dev/sda tank
as a pool checkpoint tank
as a pool set reservations=off tank
as a pool export tank
as a pool import --rewind-to-checkpoint -d /dev/sda tank
[ "$(as a pool get -H -o value reservations tank)" = on ]
reserved /dev/sdb
as a pool set reservations=off tank
as a pool checkpoint tank
as a pool set reservations=on tank
as a pool export tank
as a pool import --rewind-to-checkpoint -d /dev/sda tank
[ "$(as a pool get -H -o value reservations tank)" = off ]
if reserved /dev/sdb; then echo "it is still reserved"; exit 1; fi

# The power failed after a reservation and before the commit of the property.
as a pool export tank
sg_persist --out --register --param-sark=5352000001000001 /dev/sda
sg_persist --out --reserve --param-rk=5352000001000001 --prout-type=5 /dev/sda
fails 5 'reserved by another machine (key 0x5352000001000001)' b pool import -d /dev/sdb tank
as b pool import -f -d /dev/sdb tank
if reserved /dev/sda; then echo "it is still reserved"; exit 1; fi
as b pool export tank

# A target that forgets the reservation.
as a pool import -d /dev/sda tank
as a pool set reservations=on tank
sg_persist --out --register --param-sark=77 /dev/sdb
sg_persist --out --clear --param-rk=77 /dev/sdb
until_so "as a pool list -H -o health tank | grep -q SUSPENDED"
fails 12 'has forgotten it' a set test:x=2 tank
as a pool export -f tank
as a pool import -f -d /dev/sda tank
as a pool destroy -f tank
if reserved /dev/sda; then echo "it is still reserved"; exit 1; fi

# The agent of a cluster: the other machine takes the disk, and the first one stops using it.
if [ -e /in/ocf-shellfuncs ]; then
    for m in a b; do
        cat > /run/$m.program << END
#!/bin/sh
export STRONGROOM_SOCKET=/run/$m/socket XDG_STATE_HOME=/run/$m/state
exec unshare -u sh -c 'hostname \$0; exec strongroom "\$@"' $m "\$@"
END
        chmod 755 /run/$m.program
    done
    agent() { # CODE MACHINE DISK ACTION
        set +e
        OCF_ROOT=/run OCF_FUNCTIONS_DIR=/in OCF_RESOURCE_INSTANCE=pool OCF_RESKEY_pool=tank OCF_RESKEY_devices=$3 \
            OCF_RESKEY_force=true OCF_RESKEY_program=/run/$2.program sh /in/Strongroom $4 > /run/said 2>&1
        got=$?
        set -e
        [ $got = $1 ] || { echo "agent $*: exit code $got"; cat /run/said; exit 1; }
    }
    as a pool create -m none -o reservations=on tank /dev/sda
    as a set test:x=1 tank
    as a pool export tank
    agent 0 a /dev/sda start
    reserved /dev/sdb
    agent 0 b /dev/sdb start
    until_so "as a pool list -H -o health tank | grep -q SUSPENDED"
    agent 1 a /dev/sda monitor
    agent 0 a /dev/sda stop
    agent 7 a /dev/sda monitor
    agent 0 b /dev/sdb monitor
    [ "$(as b get -H -o value test:x tank)" = 1 ]
    agent 0 b /dev/sdb stop
    if reserved /dev/sda; then echo "it is still reserved"; exit 1; fi
    echo the agent too
fi
echo all done
"#;

#[test]
fn a_disk_is_of_the_machine_that_has_reserved_it() {
    let programs = ["sg_persist", "iscsistart"];
    let parts = [
        "ocf-shellfuncs",
        "ocf-binaries",
        "ocf-returncodes",
        "ocf-directories",
        "ocf-rarun",
        "ocf-distro",
    ];
    let parts = parts.map(|name| format!("/usr/lib/ocf/lib/heartbeat/{name}"));
    let mut files: Vec<&str> = parts.iter().map(String::as_str).collect();
    files.push(AGENT);
    let has_agent = files.iter().all(|file| Path::new(file).exists());
    if !has_agent {
        println!("without the agent: that needs resource-agents");
        files.clear();
    }
    if let Some(told) = run_in_machine(JOB, &programs, &files, &["iscsi_tcp", "sd_mod"]) {
        has(&told, "all done");
        assert_eq!(told.contains("the agent too"), has_agent);
    }
}
