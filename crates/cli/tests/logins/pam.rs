//! The PAM module: logins on a machine of its own, with pamtester and with `su`.

use std::process::Command;

use crate::common::login::{module, on_the_machine};

/// A dataset of Ann's as home.
const DATASET: &str = "
strongroom pool create -s 256M tank /var/lib/tank.pool
echo 'first passphrase' | strongroom create -o encryption=on -o keysource=passphrase,prompt \
    -o mountpoint=/home/ann tank/ann
strongroom mount tank/ann 2>/dev/null || true
chown ann:ann /home/ann
echo letter > /home/ann/letter
closed() { ! mounted /home/ann && is key unavailable \"$(strongroom key status tank/ann | awk 'NR==2{print $3}')\"; }
strongroom unmount tank/ann
strongroom key unload tank/ann
closed
service only '' delkeys
test() { pamtester only ann \"$@\"; }
";

fn with_dataset(script: &str) {
    on_the_machine(&format!("{DATASET}{script}"));
}

#[test]
fn a_dataset_is_home_from_the_first_login_to_the_last_logout() {
    with_dataset(
        r#"
        echo 'first passphrase' | test authenticate open_session close_session
        closed
        # What a login sees, and that the passphrase of the machine opens it.
        is letter letter "$(login_as_ann 'first passphrase' 'cat letter')"
        closed
        # Two sessions: the end of one leaves the home.
        mkfifo -m 666 /tmp/wait /tmp/ready
        login_as_ann 'first passphrase' 'echo > /tmp/ready; cat < /tmp/wait; cat letter' > /tmp/one &
        one=$!
        cat /tmp/ready
        is letter letter "$(login_as_ann 'first passphrase' 'cat letter')"
        mounted /home/ann || fail 'the first session has lost its home'
        echo > /tmp/wait
        wait $one
        is letter letter "$(tail -n 1 /tmp/one)"
        closed
        "#,
    );
}

/// Many logins and logouts at the same time: each session has its home, and the last one closes it.
#[test]
fn sessions_that_begin_and_end_at_once_have_their_home() {
    with_dataset(
        r#"
        for i in 1 2 3 4 5 6; do
            (for j in 1 2 3; do
                is letter letter "$(login_as_ann 'first passphrase' 'cat letter' 2>/dev/null)" || exit 1
            done) &
            all="${all-} $!"
        done
        for one in $all; do wait $one || fail "$one"; done
        closed
        is sessions 0 "$(grep -c session /run/strongroom/logins/2000 || true)"
        "#,
    );
}

#[test]
fn only_the_right_passphrase_opens_a_dataset() {
    with_dataset(
        r#"
        ! echo 'wrong passphrase' | test authenticate open_session || fail 'a wrong one'
        ! echo '' | test authenticate || fail 'an empty one'
        closed
        # An earlier module got the wrong one: it is asked for again, once.
        printf 'auth optional pam_unix.so\nauth required %s try_first_pass\n' $so > /etc/pam.d/again
        printf '%s\n' 'wrong passphrase' 'first passphrase' | pamtester again ann authenticate
        printf 'auth optional pam_unix.so\nauth required %s use_first_pass\n' $so > /etc/pam.d/never
        ! printf '%s\n' 'wrong passphrase' 'first passphrase' | pamtester never ann authenticate || fail 'asked again'
        echo 'first passphrase' | pamtester never ann authenticate
        ! logged 'first passphrase\|wrong passphrase' || fail 'a passphrase is in the log'
        "#,
    );
}

#[test]
fn a_user_without_anything_encrypted_is_not_asked() {
    on_the_machine(
        r#"
        service only '' delkeys
        is code 1 "$(pamtester only ann authenticate > /tmp/said 2>&1; echo $?)"
        grep -q 'underlying authentication module' /tmp/said || { cat /tmp/said; grep -q 'User not known' /tmp/said; }
        ! grep -q 'passphrase' /tmp/said || fail 'asked'
        is home /home/ann "$(login_as_ann 'first passphrase' pwd)"
        "#,
    );
}

#[test]
fn what_was_open_before_stays_open_and_what_is_in_use_too() {
    with_dataset(
        r#"
        # Opened by the administrator: no logout closes it.
        echo 'first passphrase' | strongroom mount -l tank/ann
        is letter letter "$(login_as_ann 'first passphrase' 'cat letter')"
        mounted /home/ann || fail 'a logout has closed it'
        ! echo 'wrong passphrase' | test authenticate || fail 'a wrong one, while it is open'
        strongroom unmount tank/ann
        strongroom key unload tank/ann
        # In use: it stays, and the end of the next session closes it.
        mkfifo -m 666 /tmp/wait /tmp/ready
        login_as_ann 'first passphrase' '(echo > /tmp/ready; read x < /tmp/wait) > /dev/null 2>&1 & cat /tmp/ready'
        mounted /home/ann || fail 'a home in use is gone'
        logged "dataset .*'tank/ann'.*in use" || fail 'no word in the log'
        echo > /tmp/wait
        is letter letter "$(login_as_ann 'first passphrase' 'cat letter')"
        closed
        "#,
    );
}

#[test]
fn a_login_whose_process_was_killed_does_not_count() {
    with_dataset(
        r#"
        mkfifo -m 666 /tmp/wait /tmp/ready
        printf 'first passphrase\n' | setpriv --reuid 65534 --regid 65534 --clear-groups \
            su -l ann -c 'cd /; echo > /tmp/ready; read x < /tmp/wait' &
        cat /tmp/ready
        mounted /home/ann || fail 'no home'
        kill -9 $(sed -n 's/session \([0-9]*\) .*/\1/p' /run/strongroom/logins/2000)
        echo > /tmp/wait
        wait $! || true
        mounted /home/ann || fail 'nothing has closed it yet'
        is letter letter "$(login_as_ann 'first passphrase' 'cat letter')"
        closed
        "#,
    );
}

#[test]
fn only_programs_that_root_alone_can_replace_are_started() {
    with_dataset(
        r#"
        mkdir -m 777 /tmp/bin
        cp /usr/local/bin/strongroom /tmp/bin
        for program in /tmp/bin/strongroom strongroom /usr/local/bin /no/such/program; do
            service special "program=$program" ''
            : > /tmp/log
            ! echo 'first passphrase' | pamtester special ann authenticate || fail "$program"
            logged "login find" || fail "no word in the log of $program"
        done
        cp /usr/local/bin/strongroom /opt/strongroom 2>/dev/null || { mkdir /opt; cp /usr/local/bin/strongroom /opt/; }
        service special 'program=/opt/strongroom' ''
        echo 'first passphrase' | pamtester special ann authenticate || fail 'the program in /opt'
        # A program that does not end is killed.
        printf '#!/bin/sh\nexec sleep 1000\n' > /opt/sleeps
        chmod 755 /opt/sleeps
        service special 'program=/opt/sleeps timeout=1' ''
        ! echo 'first passphrase' | pamtester special ann authenticate || fail 'it waits'
        # Nothing of the caller is passed on: no variables, no descriptors.
        printf '#!/bin/sh\n{ env; ls /proc/self/fd; id -u; } > /tmp/seen\n' > /opt/looks
        chmod 755 /opt/looks
        service special 'program=/opt/looks' ''
        exec 9< /etc/passwd
        echo 'first passphrase' | LEAK=here pamtester special ann authenticate || fail 'looks'
        ! grep -q LEAK /tmp/seen || fail 'variables'
        ! grep -qx 9 /tmp/seen || fail 'descriptors'
        is root 0 "$(tail -n 1 /tmp/seen)"
        "#,
    );
}

#[test]
fn passwd_changes_the_passphrase_of_a_dataset() {
    with_dataset(
        r#"
        printf '%s\n' 'first passphrase' 'second Passphrase 2' 'second Passphrase 2' |
            setpriv --reuid 2000 --regid 2000 --clear-groups passwd || fail passwd
        closed
        ! echo 'first passphrase' | test authenticate || fail 'the old one'
        is letter letter "$(login_as_ann 'second Passphrase 2' 'cat letter')"
        closed
        # While it is mounted.
        echo 'second Passphrase 2' | strongroom mount -l tank/ann
        printf '%s\n' 'second Passphrase 2' 'third Passphrase 3!' 'third Passphrase 3!' |
            test chauthtok > /tmp/said 2>&1 || fail "$(cat /tmp/said)"
        ! grep -i pefs /tmp/said || fail 'it is no home of pefs'
        mounted /home/ann || fail 'it is closed'
        strongroom unmount tank/ann
        strongroom key unload tank/ann
        echo 'third Passphrase 3!' | test authenticate
        # A wrong old one changes nothing, and says so.
        ! printf '%s\n' 'wrong passphrase' 'fourth 4444' 'fourth 4444' | test chauthtok 2> /tmp/said || fail 'a wrong one'
        grep -q 'does not open the encrypted home' /tmp/said || fail "$(cat /tmp/said)"
        ! grep -i pefs /tmp/said || fail 'it is no home of pefs'
        # One that is too short for a dataset changes nothing.
        ! printf '%s\n' 'third Passphrase 3!' short short | test chauthtok 2> /tmp/said || fail 'a short one'
        grep -q 'keeps the old passphrase' /tmp/said || fail "$(cat /tmp/said)"
        echo 'third Passphrase 3!' | test authenticate
        # Root changes the password and does not know the old one.
        printf '%s\n' 'of root 12345' 'of root 12345' | passwd ann > /tmp/said 2>&1 || fail 'passwd of root'
        grep -q 'keeps its passphrase' /tmp/said || fail "$(cat /tmp/said)"
        echo 'third Passphrase 3!' | test authenticate
        "#,
    );
}

/// A home of pefs in a dataset: the dataset gets its old passphrase back if pefs refuses the new one.
#[test]
fn a_change_that_fails_is_undone() {
    with_dataset(
        r#"
        echo 'first passphrase' | strongroom mount -l tank/ann
        ln -s aes256-xts:10 /home/ann/.pefs.conf
        chain() { printf '%s\n' "$1" "$1" | strongroom pefs addchain -f -Z /home/ann; }
        chain 'first passphrase'
        chain 'second Passphrase 2'
        chown -h ann:ann /home/ann/.pefs.*
        echo 'first passphrase' | test authenticate
        printf '%s\n' 'first passphrase' 'second Passphrase 2' 'second Passphrase 2' > /tmp/lines
        ! test chauthtok < /tmp/lines 2> /tmp/said || fail 'one that has a record'
        grep -q 'keeps the old passphrase' /tmp/said || fail "$(cat /tmp/said)"
        echo 'first passphrase' | test authenticate || fail 'it is not undone'
        "#,
    );
}

/// The module is loaded into `sshd`: it has no cryptography, no allocator, and no entry points but those of PAM.
#[test]
fn the_module_has_only_what_it_needs() {
    let text = |tool: &str, args: &[&str]| {
        let output = Command::new(tool).args(args).arg(module()).output();
        output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let Ok(symbols) = text("nm", &["-C"]) else {
        eprintln!("skipped: the program nm is not installed");
        return;
    };
    for foreign in [" mi_", "aws_lc", "argon2", "rustls"] {
        assert!(!symbols.contains(foreign), "{foreign}");
    }
    let exported = text("nm", &["-D", "--defined-only"]).unwrap();
    let names: Vec<&str> = exported
        .lines()
        .filter_map(|line| line.split(' ').nth(2))
        .collect();
    assert_eq!(
        names,
        [
            "pam_sm_authenticate",
            "pam_sm_chauthtok",
            "pam_sm_close_session",
            "pam_sm_open_session",
            "pam_sm_setcred"
        ]
    );
}
