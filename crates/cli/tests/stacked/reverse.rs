//! The reverse mode of gocryptfs: the ciphertext of a plain directory, beside what gocryptfs shows of it.

use std::fs;
use std::process::Command;

use crate::common::stacked_directory::{Theirs, refused};
use crate::common::{
    DAMAGED, EXISTS, OTHER, Place, USAGE, WRONG_KEY, can_mount, is_installed, needs,
};

/// Long names, links, holes, empty files, blocks that are not whole, and a name that is not text.
const TREE: &str = "
    long=$(printf '%0250d' 1)
    mkdir -p a/b empty $long/d; : > nothing; printf x > a/one; seq 100000 > a/b/$long
    head -c 4096 /dev/urandom > block; head -c 8193 /dev/urandom > a/blocks
    ln -s a/one link; ln -s $(printf '/%02000d' 1) a/far; ln -s b a/b/$(printf '%0200d' 2)
    truncate -s 3M hole; printf end >> hole; mkfifo fifo; chmod 640 a/one; chmod 711 a/b
    touch -d '2001-02-03 04:05:06' block; printf y > $long/d/\"$(printf 'n\\377\\nm')\"
    mkdir many; for i in $(seq 60); do : > many/$i; : > many/$(printf '%0190d' $i); done
";

/// Runs a script in the directory of the place, and returns what it prints.
fn shell(place: &Place, script: &str) -> String {
    let done = Command::new("sh")
        .args(["-euc", script])
        .current_dir(place.path("."))
        .output()
        .expect("a shell");
    let (out, errors) = (
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr),
    );
    assert!(done.status.success(), "{script}: {out}{errors}");
    out.into_owned()
}

/// Kinds, modes, sizes, times and targets of all files, with their names.
fn listing(place: &Place, dir: &str) -> String {
    let script = format!("cd {dir}; find . -printf '%P %y %m %s %T@ %n %l\\n' | LC_ALL=C sort");
    shell(place, &script)
}

fn prepared() -> Place {
    let place = Place::without_daemon();
    for dir in ["plain", "theirs", "view", "again"] {
        fs::create_dir(place.path(dir)).expect("a directory");
    }
    fs::write(place.path("pass"), "a passphrase").expect("written");
    place
}

const INIT: &str = "stack init --format gocryptfs --reverse --passfile {DIR}/pass {DIR}/plain";
const MOUNT: &str = "stack mount --reverse --passfile {DIR}/pass {DIR}/plain {DIR}/view";

#[test]
fn the_ciphertext_is_that_of_gocryptfs() {
    needs!(can_mount());
    needs!(is_installed("gocryptfs"), "gocryptfs is not installed");
    let ways = [
        None,
        Some(&[][..]),
        Some(&["-plaintextnames"]),
        Some(&["-deterministic-names"]),
        Some(&["-longnamemax", "100"]),
    ];
    for how in ways {
        let place = prepared();
        shell(&place, &format!("cd plain; {TREE}"));
        match how {
            None => drop(place.ok(INIT)),
            Some(how) => {
                let made = Command::new("gocryptfs")
                    .args(["-q", "-init", "-reverse", "-scryptn", "10", "-passfile"])
                    .arg(place.path("pass"))
                    .args(how)
                    .arg(place.path("plain"))
                    .status();
                assert!(made.expect("installed").success());
            }
        }
        place.ok(MOUNT);
        let theirs = Theirs::new(&place, &["-reverse"], "plain", "theirs");
        assert_eq!(
            listing(&place, "view"),
            listing(&place, "theirs"),
            "{how:?}"
        );
        let compare = "cd view; find . -type f -exec cmp {} ../theirs/{} ';'";
        assert_eq!(shell(&place, compare), "", "{how:?}");
        drop(theirs);

        // Back to the plain bytes, by each program.
        let compare = "rm -f again.list plain.list
            (cd again; find . -type f -exec cmp {} ../plain/{} ';')
            (cd again; find . -printf '%P %y %m %s %l\\n' | LC_ALL=C sort > ../again.list)
            (cd plain; find . ! -name .gocryptfs.reverse.conf -printf '%P %y %m %s %l\\n' | LC_ALL=C sort > ../plain.list)
            cmp again.list plain.list";
        // The size of a directory is that of the lower one in both.
        let theirs = Theirs::new(&place, &["-ro"], "view", "again");
        assert_eq!(shell(&place, compare), "", "{how:?}");
        drop(theirs);
        place.ok("stack mount --read-only --passfile {DIR}/pass {DIR}/view {DIR}/again");
        assert_eq!(shell(&place, compare), "", "{how:?}");
        place.ok("stack unmount -f {DIR}/again");
        place.ok("stack unmount -f {DIR}/view");
    }
}

#[test]
fn the_view_changes_with_the_plain_files_and_not_by_itself() {
    needs!(can_mount());
    let place = prepared();
    place.ok(INIT);
    shell(&place, &format!("cd plain; {TREE}"));
    place.ok(MOUNT);
    let sums = "cd view; find . -type f ! -name '*.name' -exec sha256sum {} + | LC_ALL=C sort";
    let before = shell(&place, sums);
    place.ok("stack unmount -f {DIR}/view");
    place.ok(MOUNT);
    assert_eq!(shell(&place, sums), before);

    let denied = shell(
        &place,
        "cd view; for name in *; do [ ! -p $name ] || continue; (: >> $name) 2>&1 && echo written; rm -rf $name 2>&1 && echo removed; done
         (: > new) 2>&1 && echo made; mkdir new 2>&1 && echo made; true",
    );
    assert!(
        !denied.contains("written") && !denied.contains("removed"),
        "{denied}"
    );
    assert!(!denied.contains("made"), "{denied}");

    // What is under another path has another ciphertext, also where it is known already.
    shell(&place, "mv plain/a plain/z; printf more >> plain/z/one");
    place.ok("stack mount --read-only --passfile {DIR}/pass {DIR}/view {DIR}/again");
    assert_eq!(shell(&place, "cat again/z/one"), "xmore");
    place.ok("stack unmount -f {DIR}/again");
    assert_ne!(shell(&place, sums), before);
    place.ok("stack unmount -f {DIR}/view");
}

#[test]
fn refusals() {
    let place = prepared();
    refused(&place, MOUNT, OTHER, "--reverse");
    place.ok(INIT);
    refused(&place, INIT, EXISTS, "already");
    let config = place.path("plain/.gocryptfs.reverse.conf");
    place.says("stack status {DIR}/plain", "AES-256-SIV");
    let fscrypt = "stack init --reverse --passfile {DIR}/pass {DIR}/again";
    refused(&place, fscrypt, USAGE, "--format gocryptfs");
    let cipher = "stack init --reverse --format gocryptfs --cipher xchacha20 --passfile {DIR}/pass {DIR}/again";
    refused(&place, cipher, USAGE, "cipher");
    fs::write(place.path("new"), "another one").expect("written");
    let wrong = MOUNT.replace("/pass", "/new");
    refused(&place, &wrong, WRONG_KEY, "passphrase is wrong");
    place.ok("stack passwd --passfile {DIR}/pass --new-passfile {DIR}/new {DIR}/plain");
    refused(&place, MOUNT, WRONG_KEY, "passphrase is wrong");

    let text = fs::read_to_string(&config).expect("read");
    fs::write(&config, text.replace("AESSIV", "Later")).expect("written");
    refused(&place, &wrong, OTHER, "\"Later\"");
    fs::write(
        &config,
        text.replace("\"AESSIV\",", "")
            .replace(",\n    \"AESSIV\"", ""),
    )
    .expect("written");
    refused(&place, &wrong, OTHER, "without AES-SIV");
    fs::write(&config, text.replace("\"Version\": 2", "\"Version\": 3")).expect("written");
    refused(&place, &wrong, OTHER, "version 3");
    fs::write(&config, &text[..100]).expect("written");
    refused(&place, &wrong, DAMAGED, "damaged");
}
