//! A machine to log in to: a root directory of its own, with accounts, PAM and a log, in a name space for mounts that ends
//! with the test. Nothing of the real machine is changed.

use crate::common::{is_root, needs};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{PROGRAM, can_mount};

/// The module, which is built with the tests.
pub fn module() -> PathBuf {
    let program = Path::new(PROGRAM);
    program.with_file_name("deps/libpam_strongroom.so")
}

const ROOT: &str = r#"
set -e
mount -t tmpfs -o mode=755 none "$ROOT"
cd "$ROOT"
mkdir -p dev proc sys tmp var/lib mnt run root home usr
for dir in bin sbin lib lib64; do [ -e /$dir ] && ln -s usr/$dir $dir; done
mount --rbind /usr usr
mount -t tmpfs -o mode=755 none usr/local
mkdir usr/local/bin usr/local/lib
cp "$PROGRAM" usr/local/bin/strongroom
cp "$MODULE" usr/local/lib/pam_strongroom.so
chmod 755 usr/local/bin/strongroom
cp -a /etc etc
mount -t proc none proc
for node in 'null 1 3' 'zero 1 5' 'full 1 7' 'random 1 8' 'urandom 1 9' 'tty 5 0' 'fuse 10 229'; do
    set -- $node
    mknod -m 666 dev/$1 c $2 $3
done
ln -s /proc/self/fd dev/fd
chmod 1777 tmp
cp "$SCRIPT" script
exec chroot . /usr/bin/env -i PATH=/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin HOME=/root LANG=C.UTF-8 /bin/bash /script
"#;

/// The machine: a user `ann`, a log in `/tmp/log`, and PAM services that use the module.
const MACHINE: &str = r#"
set -eu
fail() { echo "FAILED: $*"; cat /tmp/log 2>/dev/null; exit 1; }
is() { [ "$2" = "$3" ] || fail "$1: expected '$2', found '$3'"; }
mounted() { grep -q " $1 .* - fuse" /proc/self/mountinfo; }

python3 - <<'PY' &
import os, socket
log = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
log.bind("/dev/log"); os.chmod("/dev/log", 0o666)
with open("/tmp/log", "a", buffering=1) as out:
    while (line := log.recv(8192).decode(errors="replace")) != "end":
        if line == "mark":
            open("/tmp/marked", "w").close()
        else:
            out.write(line.rstrip("\0\n") + "\n")
PY
logger=$!
to_log() {
    python3 -c 'import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.connect("/dev/log"); s.send(sys.argv[1].encode())' "$1"
}
# logged PATTERN: whether the log has it, when all that was sent is in it.
mkfifo /tmp/marked
logged() {
    to_log mark
    cat /tmp/marked
    grep -q "$1" /tmp/log
}
finish() {
    strongroom daemon stop 2>/dev/null || true
    to_log end
    wait $logger
}
python3 -c 'import os,time
while not os.path.exists("/dev/log"): os.sched_yield()'

echo 'ann:x:2000:2000:Ann:/home/ann:/bin/sh' >> /etc/passwd
echo 'ann:x:2000:' >> /etc/group
echo 'ann:*:19000:0:99999:7:::' >> /etc/shadow
echo 'ann:first passphrase' | chpasswd
mkdir -m 700 /home/ann
chown ann:ann /home/ann
so=/usr/local/lib/pam_strongroom.so

# service NAME AUTH-OPTIONS SESSION-OPTIONS: the module alone.
service() {
    printf '%s\n' "auth required $so debug $2" "account required pam_permit.so" \
        "session required $so debug $3" "password required $so debug" > "/etc/pam.d/$1"
}
# As a profile of pam-auth-update sets it up: after pam_unix.
for name in su su-l passwd login; do
    printf '%s\n' 'auth required pam_unix.so' "auth optional $so try_first_pass" \
        'account required pam_unix.so' \
        'session required pam_unix.so' "session optional $so delkeys" \
        'password required pam_unix.so yescrypt' \
        "password optional $so use_authtok use_first_pass" > "/etc/pam.d/$name"
done
# login_as_ann PASSPHRASE COMMAND: a real login, by a user who is not root.
login_as_ann() {
    printf '%s\n' "$1" | setpriv --reuid 65534 --regid 65534 --clear-groups su -l ann -c "$2"
}
"#;

/// Returns whether the tests can run here. Prints the reason if not.
pub fn can_log_in() -> bool {
    if !is_root() {
        eprintln!("skipped: only root makes name spaces for mounts");
        return false;
    }
    if !Path::new("/usr/bin/pamtester").exists() {
        eprintln!("skipped: the program pamtester is not installed");
        return false;
    }
    can_mount()
}

/// Runs a script on the machine, as root. It fails where a command fails.
pub fn on_the_machine(script: &str) {
    needs!(can_log_in());
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("script");
    fs::write(
        &file,
        format!("{MACHINE}\n{script}\nfinish\necho all of it\n"),
    )
    .unwrap();
    let root = dir.path().join("root");
    fs::create_dir(&root).unwrap();
    let output = Command::new("unshare")
        .args([
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "--propagation",
            "private",
        ])
        .args(["sh", "-c", ROOT])
        .env("ROOT", &root)
        .env("PROGRAM", PROGRAM)
        .env("MODULE", module())
        .env("SCRIPT", &file)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(
        output.status.success() && out.ends_with("all of it\n"),
        "{out}\n{err}"
    );
}
