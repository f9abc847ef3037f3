//! The commands in README.md, in the guide and in other documents, as a new user types them.
//!
//! The documents of a place run one after another in a root directory of their own, word for word: the paths in them are
//! those of that root. A block runs as root and as it stands, unless a table says how else, and why.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::{PROGRAM, can_mount, is_root, needs};

/// A pool, and a place for keys.
const TANK: &str = "mkdir -p /etc/keys
    strongroom pool create -s 4G tank /var/lib/tank.pool";

/// The state that each chapter of the guide begins with: the result of the chapter on the first dataset.
const HOME: &str = "strongroom pool create -s 4G tank /var/lib/tank.pool
    typed strongroom create -o encryption=on tank/home
    echo letter > /tank/home/letter
    strongroom snapshot tank/home@monday";

/// Another disk is at /mnt/other.
const DISK: &str = "mkdir -p /mnt/other";

/// Users and groups of the examples.
const USERS: &str = "echo ann:x:2000:2000::/home/ann:/bin/sh >> /etc/passwd
    echo operators:x:2001: >> /etc/group";

/// The host at the other end of `ssh` is this one, and has a pool.
const HOST: &str = r#"printf '#!/bin/sh\nshift\nexec "$@"\n' > /usr/local/bin/ssh
    chmod +x /usr/local/bin/ssh
    strongroom pool create -s 1G backup /var/lib/backup.pool"#;

/// The machine is gone. Its disk is here, and a sheet.
const SHEET: &str = r#"strongroom key sheet tank/home sheet.txt
    strongroom daemon stop
    mkdir /media/disk
    mv /var/lib/tank.pool /media/disk/
    rm -r /var/lib/strongroom
    digits=$(grep -E '^ +([0-9]{6}-){3}[0-9]{6}$' sheet.txt | tr -d '\n')
    rm sheet.txt"#;

/// A store of rclone is a directory.
const STORE: &str = r#"mkdir -p /srv/store/backup
    cat > /usr/local/bin/rclone <<'RCLONE'
#!/bin/sh
set -e
case $1 in
    rcat) cat > "/srv/store/${2#store:}" ;;
    cat) cat "/srv/store/${2#store:}" ;;
    sync) cp -r "$2" "/srv/store/${3#store:}" ;;
    *) exit 1 ;;
esac
RCLONE
    chmod +x /usr/local/bin/rclone"#;

/// A program gets all messages.
const MESSAGES: &str = r#"mkdir -p /etc/strongroom /var/lib/strongroom
    printf '[[program]]\npath = "/bin/cat"\n' > /etc/strongroom/notify.toml
    chmod 600 /etc/strongroom/notify.toml"#;

/// A pool of two disks.
const MIRROR: &str = "truncate -s 4G /mnt/other/tank2.pool
    strongroom pool attach tank /var/lib/tank.pool /mnt/other/tank2.pool
    strongroom pool wait -t resilver tank";

/// Documents that run in one place, and what they take for granted.
struct Place {
    documents: &'static [&'static str],
    given: &'static [&'static str],
}

const fn place(documents: &'static [&'static str], given: &'static [&'static str]) -> Place {
    Place { documents, given }
}

const PLACES: &[Place] = &[
    place(
        &["README.md"],
        &["mkdir -p ~/work; echo text > ~/work/file"],
    ),
    place(&["docs/guide/src/install.md"], &[HOME]),
    place(
        &["docs/guide/src/first-dataset.md"],
        &[DISK, "mkdir -p /srv/photos; echo photo > /srv/photos/one"],
    ),
    place(
        &["docs/guide/src/keys.md"],
        &[HOME, "mkdir -p /media/stick"],
    ),
    place(&["docs/guide/src/sharing.md"], &[HOME, USERS]),
    place(&["docs/guide/src/backup.md"], &[HOME, HOST]),
    place(&["docs/guide/src/recovery.md"], &[HOME, SHEET]),
    place(&["docs/guide/src/replication.md"], &[HOME, DISK, USERS]),
    place(&["docs/guide/src/retention.md"], &[HOME, USERS, HOST]),
    place(&["docs/guide/src/audit.md"], &[TANK]),
    place(&["docs/guide/src/notify.md"], &[HOME, MESSAGES]),
    place(&["docs/guide/src/luks.md"], &["cd ~"]),
    place(&["docs/guide/src/directories.md"], &[]),
    place(&["docs/guide/src/serving.md"], &[TANK]),
    place(&["docs/guide/src/failover.md"], &[TANK, DISK, MIRROR]),
    place(&["docs/guide/src/object-stores.md"], &[HOME, STORE]),
    place(
        &[
            "docs/guide/src/wrong/README.md",
            "docs/guide/src/wrong/daemon-down.md",
            "docs/guide/src/wrong/pool-suspended.md",
            "docs/guide/src/wrong/pool-degraded.md",
            "docs/guide/src/wrong/pool-missing.md",
            "docs/guide/src/wrong/device-not-online.md",
            "docs/guide/src/wrong/device-errors.md",
            "docs/guide/src/wrong/data-damaged.md",
            "docs/guide/src/wrong/scrub-too-old.md",
            "docs/guide/src/wrong/pool-full.md",
            "docs/guide/src/wrong/keys-not-loaded.md",
            "docs/guide/src/wrong/wrong-keys.md",
            "docs/guide/src/wrong/replication-behind.md",
            "docs/guide/src/wrong/copy-damaged.md",
            "docs/guide/src/wrong/device-larger.md",
        ],
        &[HOME, DISK, MIRROR],
    ),
    place(&["docs/DEVICES.md"], &[TANK, DISK]),
    place(
        &["docs/MOUNTS.md"],
        &[
            HOME,
            "touch /tank/home/ledger /tank/home/log; mkdir /tank/home/scratch",
        ],
    ),
    place(
        &["docs/STREAMS.md"],
        &[
            TANK,
            HOST,
            "strongroom keygen /etc/keys/home
        strongroom create -o encryption=on -o keysource=raw,file:///etc/keys/home tank/home
        strongroom snapshot tank/home@monday",
        ],
    ),
    place(&["docs/LUKS.md"], &[]),
    place(
        &["docs/SERVING.md"],
        &[TANK, "strongroom create -V 100M tank/disk"],
    ),
    place(
        &["docs/FAILOVER.md"],
        &["mkdir -p /etc/keys; strongroom keygen /etc/keys/tank
        mkdir -p /dev/disk/by-id; truncate -s 200G /dev/disk/by-id/scsi-shared"],
    ),
    place(&["docs/STACKED.md"], &[]),
    place(&["docs/SHARED-FOLDER.md"], &["mkdir -p /mnt/ceph/me"]),
    place(&["docs/ASSURED-DELETE.md"], &[TANK]),
    place(&["docs/KEY-PROVIDERS.md"], &["mkdir -p /etc/strongroom"]),
    place(&["docs/FROM-ZFS.md"], &[TANK]),
    place(&["crates/daemon/INTERNALS.md"], &[]),
];

/// The way in which a block is run, if not as root and unchanged.
enum How {
    /// After these commands, which make what the text takes for granted.
    After(&'static str),
    /// After these commands, and but for the lines that begin so, each with the reason why not.
    Without(&'static str, &'static [(&'static str, &'static str)]),
    /// An ordinary user runs the block.
    User,
    /// The block is not run, for this reason.
    Not(&'static str),
}

use How::*;

const NO_TERMINAL: &str = "it asks at a terminal";
const NO_SERVER: &str = "there is no such server";
const NO_DISK: &str = "there is no such disk";
const NO_BUCKET: &str = "there is no such bucket; tests/pools/object_store.rs has a store";
const NO_SYSTEMD: &str = "systemd does not run in the test";
const NO_CLUSTER: &str = "it makes a cluster; scripts/failover has one";
const NOT_EVERYWHERE: &str = "it is not installed everywhere";
const NOT_EVERY_FILE_SYSTEM: &str =
    "not every file system encrypts; tests/fscrypt.rs has one that does";
const REENCRYPTS: &str = "it asks at a terminal; tests/luks_reencrypt.rs gives key files";

/// The block of a document that begins with this line, and how it is run.
const BLOCKS: &[(&str, &str, How)] = &[
    ("README.md", "sha256sum --check --ignore-missing SHA256SUMS", Not("it installs a release; scripts/release tries its programs")),
    ("README.md", "sudo apt-get install gcc libc6-dev fuse3", Not("it builds the program that is tested here")),
    ("README.md", "strongroom pool create -s 1G mine ~/mine.pool", User),
    ("docs/guide/src/install.md", "sudo systemctl enable --now strongroom", Not(NO_SYSTEMD)),
    (
        "docs/guide/src/install.md",
        "strongroom daemon stop",
        Without(
            "mkdir contrib",
            &[("sudo", NO_SYSTEMD), ("cp contrib", NO_SYSTEMD), ("systemctl", NO_SYSTEMD)],
        ),
    ),
    (
        "docs/guide/src/install.md",
        "sudo ln -s /usr/local/bin/strongroom /sbin/mount.strongroom",
        Not("it changes the host's /sbin; the tests of the mount helper type it"),
    ),
    (
        "docs/guide/src/install.md",
        "sudo mkdir -p /etc/systemd/system-generators",
        Not(NO_SYSTEMD),
    ),
    (
        "docs/guide/src/install.md",
        "sudo mount -t strongroom -o noatime tank/home /mnt",
        Not("it needs the names above; the tests of the mount helper type it"),
    ),
    (
        "docs/guide/src/keys.md",
        "strongroom destroy --shred -n tank/mail           # says what would go, and what would stay readable",
        Without("", &[("strongroom destroy --shred tank/mail", NO_TERMINAL)]),
    ),
    (
        "docs/guide/src/keys.md",
        "strongroom crypto providers        # which implementation is used, and why",
        Without("", &[("strongroom crypto bench", "it takes minutes")]),
    ),
    (
        "docs/guide/src/luks.md",
        "truncate -s 1G secret.img",
        Without(
            "truncate -s 1G secret.img
            echo 'correct horse battery' |
                strongroom luks format -q --pbkdf pbkdf2 --pbkdf-force-iterations 1000 secret.img",
            &[("strongroom luks format", NO_TERMINAL)],
        ),
    ),
    (
        "docs/guide/src/luks.md",
        "truncate -s 64M sealed.img",
        Without("", &[("strongroom luks format", NO_TERMINAL)]),
    ),
    (
        "docs/guide/src/notify.md",
        "strongroom notify test                               # a message to each target, and its result",
        Without("", &[("systemctl", NO_SYSTEMD)]),
    ),
    (
        "docs/guide/src/replication.md",
        "strongroom replicate verify local",
        After("strongroom replicate add local tank/home backup/home; strongroom replicate run local"),
    ),
    (
        "docs/guide/src/recovery.md",
        "strongroom key load -L prompt tank/home           # type the 48 digits of the sheet",
        After("typed() { yes \"$digits\" | \"$@\"; }"),
    ),
    (
        "docs/guide/src/recovery.md",
        "strongroom key change --only tank/home            # a new passphrase; the old keys and the sheet open nothing",
        After("typed() { yes 'another horse battery' | \"$@\"; }"),
    ),
    ("docs/guide/src/retention.md", "wipefs --all /dev/sdX", Not(NO_DISK)),
    ("docs/guide/src/luks.md", "strongroom luks open --token-only /dev/sdb data", Not(NO_DISK)),
    (
        "docs/guide/src/luks.md",
        "strongroom luks reencrypt secret.img              # a new key; asks for the passphrase of each key slot",
        Not(REENCRYPTS),
    ),
    (
        "docs/guide/src/directories.md",
        "mkdir documents copy",
        Without("", &[("rsync", NO_SERVER)]),
    ),
    ("docs/guide/src/directories.md", "strongroom fscrypt setup                    # once: /etc/fscrypt.conf", Not(NOT_EVERY_FILE_SYSTEM)),
    (
        "docs/guide/src/serving.md",
        "strongroom nbd export tank/disk                   # at a socket for root",
        Without("", &[("qemu-img", NOT_EVERYWHERE)]),
    ),
    (
        "docs/guide/src/serving.md",
        "strongroom nbd export --read-only --listen 0.0.0.0:10809 --tls-certificates /etc/nbd /dev/sdb",
        Not("there are no certificates and no such disk; tests/nbd.rs has them"),
    ),
    (
        "docs/guide/src/serving.md",
        "mkdir -p /etc/keys",
        Without("echo 0123456789abcdef0123456789abcdef > /etc/keys/initiator; chmod 600 /etc/keys/initiator", &[("(umask 077; openssl", NOT_EVERYWHERE)]),
    ),
    (
        "docs/guide/src/failover.md",
        "strongroom pool set reservations=on tank",
        Without("", &[("strongroom pool set reservations=on", "a file has no reservations; tests/reservations.rs has disks")]),
    ),
    (
        "docs/guide/src/failover.md",
        "strongroom pool import -f -d /var/lib -d /mnt/other -o cachefile=none -l tank",
        After("strongroom ha stop tank; strongroom pool export tank"),
    ),
    ("docs/guide/src/wrong/daemon-down.md", "systemctl status strongroom strongroom-metrics.socket", Not(NO_SYSTEMD)),
    (
        "docs/guide/src/wrong/pool-missing.md",
        "strongroom pool import             # what can be imported, and what not, and why",
        After("strongroom pool export tank"),
    ),
    (
        "docs/DEVICES.md",
        "strongroom pool add tank log mirror /dev/nvme0n1 /dev/nvme1n1     # fast devices for synced data",
        Not(NO_DISK),
    ),
    ("docs/guide/src/object-stores.md", "mkdir -p /etc/systemd/system/strongroom.service.d", Not(NO_SYSTEMD)),
    ("docs/guide/src/object-stores.md", "strongroom pool create -O encryption=on tank s3://bucket/tank", Not(NO_BUCKET)),
    ("docs/guide/src/object-stores.md", "strongroom pool add tank log /dev/nvme0n1p1", Not(NO_DISK)),
    ("docs/guide/src/object-stores.md", "strongroom pool import -o readonly=on s3://bucket/tank tank", Not(NO_BUCKET)),
    ("docs/guide/src/object-stores.md", "strongroom pool import -f s3://bucket/tank", Not(NO_BUCKET)),
    (
        "docs/DEVICES.md",
        "strongroom pool status -v          # each problem, and what to do",
        Without("", &[("strongroom pool iostat", "it does not end"), ("curl", NOT_EVERYWHERE)]),
    ),
    (
        "docs/DEVICES.md",
        "strongroom pool create tank mirror /dev/sdb nbd://server.example.org/disk",
        Not("there is no such server; tests/remote_exports.rs has nbdkit"),
    ),
    (
        "docs/STREAMS.md",
        "strongroom send tank/home@wednesday | strongroom receive -o encryption=on backup/plain",
        Without("", &[("strongroom send tank/home@wednesday | strongroom receive", "it asks at a terminal, for the standard input is the stream")]),
    ),
    (
        "docs/LUKS.md",
        "sudo systemd-cryptenroll --fido2-device=auto --fido2-with-client-pin=yes /dev/sdb",
        Not(NO_DISK),
    ),
    ("docs/LUKS.md", "openssl genrsa -out key.pem 2048", Not(NO_DISK)),
    (
        "docs/LUKS.md",
        "strongroom luks reencrypt --encrypt --reduce-device-size 32M plain.img   # the last 32 MiB of it are free",
        Not(REENCRYPTS),
    ),
    (
        "docs/SERVING.md",
        "(umask 077; openssl rand -hex 16 > /etc/keys/web)",
        Without(
            "echo 0123456789abcdef0123456789abcdef > /etc/keys/web; chmod 600 /etc/keys/web",
            &[("(umask 077; openssl", NOT_EVERYWHERE), ("strongroom iscsi sessions --kick", "no initiator has a session")],
        ),
    ),
    ("docs/FAILOVER.md", "apt install pacemaker corosync pcs fence-agents resource-agents", Not(NO_CLUSTER)),
    ("docs/FAILOVER.md", "pcs host auth alpha beta && pcs cluster setup storage alpha beta && pcs cluster start --all", Not(NO_CLUSTER)),
    (
        "docs/STACKED.md",
        "sudo ln -s /usr/local/bin/strongroom /sbin/mount.strongroom-stack",
        Not("it changes the host's /sbin; the tests of the mount helper type it"),
    ),
    (
        "docs/STACKED.md",
        "strongroom stack init --format gocryptfs --reverse documents     # asks twice for a passphrase",
        Without("mkdir ~/documents; rm -r ~/encrypted; mkdir ~/encrypted", &[("rsync", NO_SERVER)]),
    ),
    (
        "docs/STACKED.md",
        "strongroom fscrypt lock vault",
        After("mkdir ~/lower; typed strongroom stack init ~/lower; typed strongroom stack mount ~/lower ~/vault"),
    ),
    (
        "docs/STACKED.md",
        "strongroom stack init --by-directory shared",
        After("strongroom stack unmount ~/vault; mkdir ~/shared"),
    ),
    ("docs/STACKED.md", "strongroom fscrypt setup                    # once: /etc/fscrypt.conf", Not(NOT_EVERY_FILE_SYSTEM)),
    (
        "docs/ASSURED-DELETE.md",
        "strongroom destroy --shred -r -n tank/secret     # show what would go, and what would stay readable",
        Without(
            "strongroom keygen /etc/keys/secret
            strongroom create -o encryption=on -o keysource=raw,file:///etc/keys/secret tank/secret",
            &[("strongroom destroy --shred -r tank/secret", NO_TERMINAL)],
        ),
    ),
    (
        "docs/ASSURED-DELETE.md",
        "strongroom set readonly=on projects/glasgow",
        After(
            "strongroom pool create -s 64M projects /var/lib/projects.pool
            strongroom create -o encryption=on -o keysource=raw,file:///etc/keys/secret projects/glasgow",
        ),
    ),
    (
        "docs/ASSURED-DELETE.md",
        "strongroom unmount projects/mungo",
        Without("", &[("strongroom destroy projects/mungo", NO_TERMINAL)]),
    ),
    ("docs/KEY-PROVIDERS.md", "strongroom create -o encryption=on -o keysource=raw,https://keys.example.org/tank tank/home", Not(NO_SERVER)),
    (
        "docs/KEY-PROVIDERS.md",
        "strongroom create -o encryption=on -o keysource=raw,tang:http://tang.example.org:7500#thp=BgHn8ksdVZgDA5vYkZeAAm3IDDyFyVdN1KVvkbjP6JU tank/home",
        Not("tests/tang.rs has a server"),
    ),
    ("docs/KEY-PROVIDERS.md", "strongroom create -o encryption=on -o keysource=raw,tpm2:#pcrs=7 tank/home", Not("tests/tpm.rs has a TPM")),
    ("docs/KEY-PROVIDERS.md", "strongroom create -o encryption=on -o 'keysource=raw,sss:2|tpm2:#pcrs=7|tang:http://tang.example.org#thp=BgHn8ksdVZgDA5vYkZeAAm3IDDyFyVdN1KVvkbjP6JU|file:///media/stick/key' tank/home", Not("tests/shared_key.rs has its parts")),
    ("docs/KEY-PROVIDERS.md", "module=/usr/lib/softhsm/libsofthsm2.so", Not("tests/key_sources.rs has a token")),
    (
        "docs/FROM-ZFS.md",
        "strongroom snapshot -r tank/docs@day-1",
        After(
            "strongroom keygen /etc/keys/docs; strongroom pool create -s 64M vault /var/lib/vault.pool
            strongroom create -o encryption=on -o keysource=raw,file:///etc/keys/docs tank/docs",
        ),
    ),
    (
        "docs/FROM-ZFS.md",
        "strongroom pool create -n zoo mirror /var/lib/zoo.a /var/lib/zoo.b spare /var/lib/zoo.c",
        After("strongroom keygen /etc/keys/zoo; truncate -s 64M /var/lib/zoo.a /var/lib/zoo.b /var/lib/zoo.c"),
    ),
    (
        "crates/daemon/INTERNALS.md",
        "strongroom create -V 10G -o encryption=on tank/disk",
        Not("the chapter on serving has the same in a size that fits its pool"),
    ),
];

fn file(document: &str) -> String {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    fs::read_to_string(Path::new(root).join(document))
        .unwrap_or_else(|error| panic!("{document}: {error}"))
}

/// The blocks of commands of a document, without their indentation in lists.
fn blocks(document: &str) -> Vec<String> {
    let (text, mut found) = (file(document), Vec::new());
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(indent) = line.strip_suffix("```sh") else {
            continue;
        };
        let block = lines.by_ref().take_while(|line| line.trim() != "```");
        let block: Vec<_> = block
            .map(|line| line.strip_prefix(indent).unwrap_or(line))
            .collect();
        found.push(block.join("\n"));
    }
    found
}

fn row(document: &str, block: &str) -> Option<&'static How> {
    let first = block.lines().next().unwrap();
    let same = |row: &&(&str, &str, How)| row.0 == document && row.1 == first;
    BLOCKS.iter().find(same).map(|row| &row.2)
}

#[test]
fn every_row_is_that_of_a_block() {
    for (document, first, how) in BLOCKS {
        let known = PLACES
            .iter()
            .any(|place| place.documents.contains(document));
        assert!(known, "{document} runs in no place");
        let blocks = blocks(document);
        let block = blocks
            .iter()
            .find(|block| block.lines().next() == Some(*first));
        let block = block.unwrap_or_else(|| panic!("{document}: no block begins with {first}"));
        if let Without(_, left_out) = how {
            for (start, _) in *left_out {
                let has = block.lines().any(|line| line.starts_with(start));
                assert!(has, "{document}: no line begins with {start}:\n{block}");
            }
        }
    }
}

#[test]
fn every_block_of_the_guide_is_in_a_place() {
    let summary = file("docs/guide/src/SUMMARY.md");
    let links = summary
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next());
    let chapters: Vec<String> = links.map(|link| format!("docs/guide/src/{link}")).collect();
    assert!(chapters.len() > 11, "{chapters:?}");
    for chapter in chapters {
        let runs = PLACES
            .iter()
            .any(|place| place.documents.contains(&chapter.as_str()));
        assert_eq!(runs, !blocks(&chapter).is_empty(), "{chapter}");
    }
}

/// A root directory of its own, in name spaces for mounts and the network that end with the process.
const ROOT: &str = r#"
set -e
mount -t tmpfs none "$ROOT"
cd "$ROOT"
mkdir -p dev proc sys tmp var/lib mnt media srv run root home/user usr etc
for dir in bin sbin lib lib64; do [ -e /$dir ] && ln -s usr/$dir $dir; done
mount --rbind /usr usr
mount -t tmpfs none usr/local
mkdir usr/local/bin
touch usr/local/bin/strongroom
mount --bind "$PROGRAM" usr/local/bin/strongroom
for name in passwd group nsswitch.conf hostname machine-id ld.so.cache alternatives mtab; do
    [ -e /etc/$name ] && cp -a /etc/$name etc/
done
mount -t proc none proc
mount --rbind /sys sys
for node in 'null 1 3' 'zero 1 5' 'full 1 7' 'random 1 8' 'urandom 1 9' 'tty 5 0' 'fuse 10 229'; do
    set -- $node
    mknod -m 666 dev/$1 c $2 $3
done
ln -s /proc/self/fd dev/fd
chmod 1777 tmp
chown 65534:65534 home/user
cp "$SCRIPT" script
ip link set lo up
exec chroot . /usr/bin/env -i PATH=/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin HOME=/root /bin/sh /script
"#;

/// The lines that run a block.
fn script(document: &str, block: &str) -> String {
    let (setup, left_out): (&str, &[(&str, &str)]) = match row(document, block) {
        Some(Not(reason)) => {
            eprintln!(
                "skipped: {document}: {}: {reason}",
                block.lines().next().unwrap()
            );
            return String::new();
        }
        Some(Without(setup, left_out)) => (setup, left_out),
        Some(After(setup)) => (setup, &[]),
        Some(User) | None => ("", &[]),
    };
    let lines = block.lines().filter(|line| {
        let reason = left_out.iter().find(|(start, _)| line.starts_with(start));
        if let Some((_, reason)) = reason {
            eprintln!("skipped: {document}: {line}: {reason}");
        }
        reason.is_none()
    });
    let lines: Vec<&str> = lines.collect();
    let made = format!(
        "{setup}\ncat > /tmp/block <<'BLOCK'\nset -ex\n{}\nBLOCK\n",
        lines.join("\n")
    );
    // The same passphrase answers every prompt.
    let run = match row(document, block) {
        Some(User) => {
            let user = "setpriv --reuid 65534 --regid 65534 --clear-groups env HOME=/home/user";
            format!("(cd /home/user; typed {user} sh /tmp/block)\n{user} strongroom daemon stop\n")
        }
        _ => "(cd ~; typed sh /tmp/block)\n".into(),
    };
    format!("echo '{document}'\n{made}{run}")
}

/// A shell with mounts and a network of its own.
fn in_namespaces(script: &str) -> Command {
    let mut command = Command::new("unshare");
    let options = ["--mount", "--net", "--propagation", "private"];
    command.args(options).args(["sh", "-c", script]);
    command
}

/// Returns whether devices and mounts can be made: root of a container may not.
fn can_make_roots() -> bool {
    let dir = tempfile::tempdir().unwrap();
    let script = "cd \"$ROOT\" && mknod null c 1 3 && mkdir proc && mount -t proc proc proc && ip link set lo up";
    let tried = in_namespaces(script).env("ROOT", dir.path()).output();
    tried.is_ok_and(|output| output.status.success())
}

/// Runs all blocks of a place, in a root directory of their own.
fn run(place: &Place) {
    let dir = tempfile::tempdir().unwrap();
    let mut text = String::from("set -e\nexport LANG=C.UTF-8\n");
    text += "typed() { yes 'correct horse battery' | \"$@\"; }\n";
    for given in place.given {
        text += &format!("{given}\n");
    }
    for document in place.documents {
        for block in blocks(document) {
            text += &script(document, &block);
        }
    }
    text += "strongroom daemon stop || [ $? = 13 ]\necho all of it\n";
    let file = dir.path().join("script");
    fs::write(&file, &text).unwrap();
    let root = dir.path().join("root");
    fs::create_dir(&root).unwrap();
    let output = in_namespaces(ROOT)
        .env("ROOT", &root)
        .env("PROGRAM", PROGRAM)
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
        "{:?}\n{out}\n{err}",
        place.documents
    );
    assert!(root.read_dir().unwrap().next().is_none());
}

#[test]
fn the_documents_commands_run_as_they_stand() {
    needs!(
        is_root() && can_mount(),
        "only root makes name spaces for mounts"
    );
    needs!(
        can_make_roots(),
        "devices, mounts or networks cannot be made here"
    );
    PLACES.iter().for_each(run);
}
