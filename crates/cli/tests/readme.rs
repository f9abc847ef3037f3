//! The commands in README.md and in the documents, as a new user types them.
//!
//! All blocks run one after another in a root directory of their own, word for word: the paths in them are
//! those of that root. A table says how each block is run. A block without a row fails the test.

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::{PROGRAM, can_mount};

const DOCUMENTS: [(&str, &str); 6] = [
    ("README.md", include_str!("../../../README.md")),
    ("GUIDE.md", include_str!("../../../docs/GUIDE.md")),
    (
        "daemon/INTERNALS.md",
        include_str!("../../daemon/INTERNALS.md"),
    ),
    (
        "ASSURED-DELETE.md",
        include_str!("../../../docs/ASSURED-DELETE.md"),
    ),
    (
        "KEY-PROVIDERS.md",
        include_str!("../../../docs/KEY-PROVIDERS.md"),
    ),
    ("FROM-ZFS.md", include_str!("../../../docs/FROM-ZFS.md")),
];

/// How a block is run.
enum How {
    /// As root, after these commands, which make what the text takes for granted.
    Root(&'static str),
    /// As root, but for the lines that begin so, each with the reason why not.
    Without(&'static str, &'static [(&'static str, &'static str)]),
    /// As an ordinary user.
    User,
    /// Not at all, and why.
    Not(&'static str),
}

use How::*;

/// The block of a document that begins with this line, and how it is run.
const BLOCKS: &[(&str, &str, How)] = &[
    ("README.md", "sudo apt-get install gcc libc6-dev fuse3", Not("it builds the program that is tested here")),
    (
        "README.md",
        "# A pool in a new file, and an encrypted dataset in it. The second command asks twice for a passphrase.",
        Root("mkdir -p ~/work; echo text > ~/work/file"),
    ),
    ("README.md", "strongroom pool create -s 1G mine ~/mine.pool", User),
    ("GUIDE.md", "# A clone is a writable copy of a snapshot that takes no space.", Root("")),
    ("GUIDE.md", "strongroom create -V 1G tank/disk", Root("")),
    ("GUIDE.md", "# After a file, disk or volume became larger, the pool can use all of it: now, or always.", Root("mkdir -p /mnt/other")),
    (
        "GUIDE.md",
        "strongroom pool create tank mirror /dev/sdb nbd://server.example.org/disk",
        Not("there is no such server; tests/remote_exports.rs has nbdkit"),
    ),
    (
        "GUIDE.md",
        "strongroom keygen --format hex /etc/keys/mail",
        Without("mkdir -p /etc/keys", &[("strongroom key change -o keysource=raw,https:", "there is no such server")]),
    ),
    (
        "GUIDE.md",
        "strongroom send -w tank/home@monday | ssh host strongroom receive -s backup/home",
        // The other host is this one.
        Root("printf '#!/bin/sh\\nshift\\nexec \"$@\"\\n' > /usr/local/bin/ssh; chmod +x /usr/local/bin/ssh
            strongroom pool create -s 1G backup /var/lib/backup.pool; strongroom snapshot tank/home@tuesday"),
    ),
    ("GUIDE.md", "strongroom snapshot -r tank/home@thursday", Root("")),
    ("GUIDE.md", "strongroom bookmark tank/home@tuesday tank/home#tuesday", Root("")),
    (
        "GUIDE.md",
        "strongroom send -w tank/home@monday | strongroom receive -x canmount -x setuid -x devices backup/home",
        Root("strongroom destroy -r -f backup/home"),
    ),
    (
        "GUIDE.md",
        "strongroom send tank/home@monday | strongroom receive -o encryption=on backup/home",
        Not("the first asks at the terminal, for the standard input is the stream"),
    ),
    (
        "GUIDE.md",
        "strongroom key add tank/mail                      # a second passphrase; 'key slots' shows both",
        Without(
            "mkdir -p /media/stick; strongroom keygen /etc/keys/ann
            strongroom create -o encryption=on -o keysource=raw,file:///etc/keys/ann tank/home/ann",
            &[("strongroom destroy --shred", "it asks at a terminal")],
        ),
    ),
    (
        "GUIDE.md",
        "strongroom allow ann create,destroy,mount,snapshot,rollback tank/home/ann",
        Root("echo ann:x:2000:2000::/home/ann:/bin/sh >> /etc/passwd; echo operators:x:2001: >> /etc/group"),
    ),
    (
        "GUIDE.md",
        "chattr +i /tank/home/ledger      # immutable: nothing changes it, not even root",
        Root("touch /tank/home/ledger /tank/home/log; mkdir /tank/home/scratch"),
    ),
    (
        "GUIDE.md",
        "strongroom set quota=20G tank/home",
        Root(""),
    ),
    (
        "GUIDE.md",
        "strongroom luks reencrypt secret.img              # a new key; asks for the passphrase of each key slot",
        Not("it asks at a terminal; tests/luks_reencrypt.rs gives key files"),
    ),
    (
        "GUIDE.md",
        "strongroom luks reencrypt --encrypt --reduce-device-size 32M plain.img   # the last 32 MiB of it are free",
        Not("it asks at a terminal; tests/luks_reencrypt.rs gives key files"),
    ),
    ("GUIDE.md", "strongroom create -o encryption=on -o quota=20G -o mountpoint=/zones/web tank/web", Root("")),
    (
        "GUIDE.md",
        "strongroom nbd export /srv/disk.img --name disk   # at a socket for root",
        Without(
            "truncate -s 64M /srv/disk.img",
            &[
                ("strongroom nbd export --read-only --listen", "there are no certificates and no such disk"),
                ("qemu-img", "it is not installed everywhere"),
            ],
        ),
    ),
    (
        "GUIDE.md",
        "truncate -s 1G secret.img",
        Without(
            "cd ~; truncate -s 1G secret.img
            echo 'correct horse battery' | strongroom luks format -q secret.img",
            &[("strongroom luks format", "it asks at a terminal")],
        ),
    ),
    (
        "GUIDE.md",
        "strongroom pool status -v          # each problem, and what to do",
        Without(
            "",
            &[
                ("strongroom pool iostat", "it does not end"),
                ("strongroom pool add", "there are no such disks"),
                ("strongroom pool remove", "there are no such disks"),
                ("curl", "it is not installed everywhere"),
            ],
        ),
    ),
    (
        "GUIDE.md",
        "strongroom crypto providers        # which implementation is used, and why",
        Without("", &[("strongroom crypto bench", "it takes minutes")]),
    ),
    (
        "GUIDE.md",
        "strongroom pool clear tank      # writes what the device did not take; mounts and exports go on",
        Not("tests/suspended.rs types it, for a pool that is suspended"),
    ),
    ("GUIDE.md", "sudo cp contrib/systemd/system/strongroom.service /etc/systemd/system/", Not("systemd does not run in the test")),
    ("ASSURED-DELETE.md", "strongroom destroy --shred -r -n tank/secret     # show what would go, and what would stay readable", Without(
        "strongroom crypto disable fips-140
            strongroom keygen /etc/keys/secret
            strongroom create -o encryption=on -o keysource=raw,file:///etc/keys/secret tank/secret",
        &[("strongroom destroy --shred -r tank/secret", "it asks at a terminal")],
    )),
    (
        "ASSURED-DELETE.md",
        "strongroom set readonly=on projects/glasgow",
        Root("strongroom pool create -s 64M projects /var/lib/projects.pool; strongroom create -o encryption=on -o keysource=raw,file:///etc/keys/secret projects/glasgow"),
    ),
    (
        "daemon/INTERNALS.md",
        "strongroom create -V 10G -o encryption=on tank/disk",
        Not("GUIDE.md has the same in a size that fits its pool"),
    ),
    (
        "GUIDE.md",
        "sudo ln -s /usr/local/bin/strongroom /sbin/mount.strongroom",
        Not("it changes the host's /sbin; the tests of the mount helper type it"),
    ),
    (
        "KEY-PROVIDERS.md",
        "echo /usr/lib/softhsm/libsofthsm2.so >> /etc/strongroom/pkcs11",
        Root("mkdir -p /etc/strongroom"),
    ),
    (
        "ASSURED-DELETE.md",
        "strongroom unmount projects/mungo",
        Without("", &[("strongroom destroy projects/mungo", "it asks at a terminal")]),
    ),
    ("KEY-PROVIDERS.md", "strongroom create -o encryption=on -o keysource=raw,https://keys.example.org/tank tank/home", Not("there is no such server")),
    (
        "FROM-ZFS.md",
        "strongroom snapshot -r tank/docs@day-1",
        Root(
            "strongroom keygen /etc/keys/docs; strongroom pool create -s 64M vault /var/lib/vault.pool
            strongroom create -o encryption=on -o keysource=raw,file:///etc/keys/docs tank/docs",
        ),
    ),
    ("FROM-ZFS.md", "strongroom create -n -v -p -o atime=off tank/shop/images", Root("")),
    (
        "FROM-ZFS.md",
        "strongroom pool create -n zoo mirror /var/lib/zoo.a /var/lib/zoo.b spare /var/lib/zoo.c",
        Root("mkdir -p /etc/keys; strongroom keygen /etc/keys/zoo
            truncate -s 64M /var/lib/zoo.a /var/lib/zoo.b /var/lib/zoo.c"),
    ),
    ("KEY-PROVIDERS.md", "strongroom create -o encryption=on -o keysource=raw,tang:http://tang.example.org:7500#thp=BgHn8ksdVZgDA5vYkZeAAm3IDDyFyVdN1KVvkbjP6JU tank/home", Not("tests/tang.rs has a server")),
    ("KEY-PROVIDERS.md", "module=/usr/lib/softhsm/libsofthsm2.so", Not("tests/key_sources.rs has a token")),
];

/// The blocks of commands of all documents, in order.
fn blocks() -> Vec<(&'static str, &'static str)> {
    let mut found = Vec::new();
    for (name, text) in DOCUMENTS {
        for part in text.split("\n```sh\n").skip(1) {
            found.push((name, part.split("\n```").next().unwrap()));
        }
    }
    found
}

fn row(document: &str, block: &str) -> Option<&'static How> {
    let first = block.lines().next().unwrap();
    let same = |row: &&(&str, &str, How)| row.0 == document && row.1 == first;
    BLOCKS.iter().find(same).map(|row| &row.2)
}

#[test]
fn every_block_of_commands_has_a_row() {
    let blocks = blocks();
    for (document, block) in &blocks {
        let how = row(document, block);
        assert!(how.is_some(), "{document}: a block has no row:\n{block}");
        if let Some(Without(_, left_out)) = how {
            for (start, _) in *left_out {
                let has = block.lines().any(|line| line.starts_with(start));
                assert!(has, "{document}: no line begins with {start}:\n{block}");
            }
        }
    }
    for (document, first, _) in BLOCKS {
        let has = |block: &&(&str, &str)| block.0 == *document && block.1.starts_with(first);
        assert!(
            blocks.iter().any(|block| has(&block)),
            "{document}: no block begins with {first}"
        );
    }
}

/// A root directory of its own, in a name space for mounts that ends with the process.
const ROOT: &str = r#"
set -e
mount -t tmpfs none "$ROOT"
cd "$ROOT"
mkdir -p dev proc sys tmp var/lib mnt media srv run root home/user usr
for dir in bin sbin lib lib64; do [ -e /$dir ] && ln -s usr/$dir $dir; done
mount --rbind /usr usr
mount -t tmpfs none usr/local
mkdir usr/local/bin
cp "$PROGRAM" usr/local/bin/strongroom
cp -a /etc etc
mount -t proc none proc
mount --rbind /sys sys
for node in 'null 1 3' 'zero 1 5' 'full 1 7' 'random 1 8' 'urandom 1 9' 'tty 5 0' 'fuse 10 229'; do
    set -- $node
    mknod -m 666 dev/$1 c $2 $3
done
ln -s /proc/self/fd dev/fd
chmod 1777 tmp
chown 65534:65534 home/user
exec chroot . /usr/bin/env -i PATH=/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin HOME=/root /bin/sh /script
"#;

/// The lines that run a block.
fn script(document: &str, block: &str) -> String {
    let first = block.lines().next().unwrap();
    let run = |setup: &str, left_out: &[(&str, &str)]| {
        let lines = block.lines().filter(|line| {
            let reason = left_out.iter().find(|(start, _)| line.starts_with(start));
            if let Some((_, reason)) = reason {
                eprintln!("skipped: {line}: {reason}");
            }
            reason.is_none()
        });
        let lines: Vec<&str> = lines.collect();
        // The same passphrase answers every prompt.
        format!(
            "echo '{document}: '\"$(cat <<'FIRST'\n{first}\nFIRST\n)\"\n{setup}\ncat > /tmp/block <<'BLOCK'\nset -ex\n{}\nBLOCK\n",
            lines.join("\n")
        )
    };
    match row(document, block) {
        Some(Root(setup)) => run(setup, &[]) + "(cd ~; $typed sh /tmp/block)\n",
        Some(Without(setup, left_out)) => run(setup, left_out) + "(cd ~; $typed sh /tmp/block)\n",
        Some(User) => {
            let user = "setpriv --reuid 65534 --regid 65534 --clear-groups env HOME=/home/user";
            run("", &[])
                + &format!("(cd /home/user; $typed {user} sh /tmp/block)\n")
                + &format!("{user} strongroom daemon stop\n")
        }
        Some(Not(reason)) => {
            eprintln!("skipped: {first}: {reason}");
            String::new()
        }
        None => String::new(),
    }
}

#[test]
fn the_documents_commands_run_as_they_stand() {
    if !rustix::process::geteuid().is_root() || !can_mount() {
        eprintln!("skipped: only root makes name spaces for mounts");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut text = String::from("set -e\nexport LANG=C.UTF-8\n");
    text += "type() { yes 'correct horse battery' | \"$@\"; }\ntyped=type\n";
    for (document, block) in blocks() {
        text += &script(document, block);
    }
    text += "strongroom daemon stop\necho all of it\n";
    let file = dir.path().join("script");
    fs::write(&file, &text).unwrap();
    let root = dir.path().join("root");
    fs::create_dir(&root).unwrap();
    let within = format!(
        "{}\n",
        ROOT.replace("exec chroot", "cp \"$SCRIPT\" script\nexec chroot")
    );
    let output = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-c", &within])
        .env("ROOT", &root)
        .env("PROGRAM", PROGRAM)
        .env("SCRIPT", &file)
        .stdin(std::process::Stdio::null())
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
    assert!(Path::new(&root).read_dir().unwrap().next().is_none());
}
