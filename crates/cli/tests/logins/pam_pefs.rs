//! Logins to a home of pefs, as `pam_pefs` of FreeBSD has them.

use crate::common::login::on_the_machine;

/// A home of pefs with a key chain: the passphrase and a random key.
const HOME: &str = r#"
ln -s aes256-xts:10 /home/ann/.pefs.conf
head -c 32 /dev/urandom > /root/key
chain() { printf '%s\n' "$1" "$1" | strongroom pefs addchain -f -P -K /root/key /home/ann; }
chain 'first passphrase'
chown -h ann:ann /home/ann/.pefs.*
# Stored names begin with a dot.
closed() { ! mounted /home/ann || fail "$1: mounted"; [ ! -e /home/ann/letter ] || fail "$1: in clear"; }
keys() { strongroom pefs showkeys /home/ann | grep -c aes256-xts || true; }
service only '' delkeys
"#;

fn with_home(script: &str) {
    on_the_machine(&format!("{HOME}{script}"));
}

#[test]
fn a_home_of_pefs_is_mounted_at_login_and_loses_its_keys_at_the_last_logout() {
    with_home(
        r#"
        echo 'first passphrase' | pamtester only ann authenticate open_session close_session
        closed 'after pamtester'
        is text secret "$(login_as_ann 'first passphrase' 'echo secret > letter; cat letter')"
        closed 'after the first login'
        # The mount has the masks of its users.
        is modes '644 755' "$(login_as_ann 'first passphrase' \
            'umask 022; echo > file; mkdir dir; echo $(stat -c %a file dir); rm -r file dir')"
        ! grep -rq secret /home/ann || fail 'plain text'
        mkfifo -m 666 /tmp/wait /tmp/ready
        login_as_ann 'first passphrase' 'echo > /tmp/ready; cat < /tmp/wait; cat letter' > /tmp/one &
        one=$!
        cat /tmp/ready
        is keys 2 "$(keys)"
        is text secret "$(login_as_ann 'first passphrase' 'cat letter')"
        is keys 2 "$(keys)"
        echo > /tmp/wait
        wait $one
        is text secret "$(tail -n 1 /tmp/one)"
        closed 'after both'
        "#,
    );
}

#[test]
fn only_a_passphrase_with_a_record_opens_a_home_of_pefs() {
    with_home(
        r#"
        ! echo 'wrong passphrase' | pamtester only ann authenticate || fail 'a wrong one'
        ! echo '' | pamtester only ann authenticate || fail 'an empty one'
        service any ignore_missing delkeys
        ! echo '' | pamtester any ann authenticate || fail 'an empty one'
        echo 'another passphrase' | pamtester any ann authenticate
        # It is asked for once more, but not with ignore_missing.
        service again try_first_pass ''
        sed -i '1i auth optional pam_unix.so' /etc/pam.d/again
        printf '%s\n' 'wrong passphrase' 'first passphrase' | pamtester again ann authenticate
        closed 'at the end'
        "#,
    );
}

#[test]
fn a_home_that_is_mounted_gets_keys_and_loses_them() {
    with_home(
        r#"
        as_ann() { setpriv --reuid 2000 --regid 2000 --clear-groups "$@"; }
        # Mounted by the user; a logout removes all keys, and leaves the mount.
        as_ann strongroom pefs mount /home/ann /home/ann
        is text secret "$(login_as_ann 'first passphrase' 'echo secret > letter; cat letter')"
        mounted /home/ann || fail 'unmounted'
        is keys 0 "$(keys)"
        # Without delkeys they stay.
        service stays '' ''
        echo 'first passphrase' | pamtester stays ann authenticate open_session close_session
        is keys 2 "$(keys)"
        is text secret "$(as_ann cat /home/ann/letter)"
        as_ann strongroom pefs unmount /home/ann
        # Mounted by another user: it could be anything.
        chmod 777 /home/ann
        setpriv --reuid 65534 --regid 65534 --clear-groups strongroom pefs mount /home/ann /home/ann 2>/dev/null ||
            mount -t tmpfs none /home/ann
        ! echo 'first passphrase' | pamtester only ann authenticate || fail 'a mount of another user'
        "#,
    );
}

/// Files of the user are read with the rights of the user.
#[test]
fn files_of_the_user_do_not_lead_root_astray() {
    with_home(
        r#"
        mkdir -m 700 /root/other
        mv /home/ann/.pefs.db /root/other
        ln -s /root/other/.pefs.db /home/ann/.pefs.db
        ! echo 'first passphrase' | pamtester only ann authenticate || fail 'it follows a link'
        rm /home/ann/.pefs.db
        mkfifo /home/ann/.pefs.db
        ! echo 'first passphrase' | pamtester only ann authenticate || fail 'a FIFO'
        rm /home/ann/.pefs.db
        head -c 100000 /dev/urandom > /home/ann/.pefs.db
        ! echo 'first passphrase' | pamtester only ann authenticate || fail 'noise'
        rm /home/ann/.pefs.db
        # The home itself leads elsewhere.
        cp -P /root/other/.pefs.db /home/ann/.pefs.conf /root/
        mv /home/ann /home/ann.away
        ln -s /root /home/ann
        ! echo 'first passphrase' | pamtester only ann authenticate || fail 'a home of root'
        "#,
    );
}

#[test]
fn passwd_changes_the_passphrase_of_a_home_of_pefs() {
    with_home(
        r#"
        is text secret "$(login_as_ann 'first passphrase' 'echo secret > letter; cat letter')"
        passwd_of_ann() { printf '%s\n' "$@" | setpriv --reuid 2000 --regid 2000 --clear-groups passwd; }
        passwd_of_ann 'first passphrase' 'second Passphrase 2' 'second Passphrase 2' || fail passwd
        ! echo 'first passphrase' | pamtester only ann authenticate || fail 'the old one'
        is text secret "$(login_as_ann 'second Passphrase 2' 'cat letter; echo more > more')"
        # Once more, while the home is mounted over itself.
        mkfifo -m 666 /tmp/wait /tmp/ready
        login_as_ann 'second Passphrase 2' 'echo > /tmp/ready; cat < /tmp/wait' &
        one=$!
        cat /tmp/ready
        passwd_of_ann 'second Passphrase 2' 'third Passphrase 3!' 'third Passphrase 3!' || fail 'passwd while mounted'
        echo > /tmp/wait
        wait $one
        closed 'after all'
        for old in 'first passphrase' 'second Passphrase 2'; do
            ! echo "$old" | pamtester only ann authenticate || fail "still: $old"
        done
        is text 'secretmore' "$(login_as_ann 'third Passphrase 3!' 'cat letter more' | tr -d '\n')"
        closed 'at the end'
        # Not with a wrong one, and not back to one that it had.
        ! printf '%s\n' 'wrong passphrase' 'fourth 4' 'fourth 4' | pamtester only ann chauthtok || fail 'a wrong one'
        printf '%s\n' 'third Passphrase 3!' 'first passphrase' 'first passphrase' > /tmp/lines
        ! pamtester only ann chauthtok < /tmp/lines 2> /tmp/said || fail 'back'
        grep -q 'keeps the old passphrase' /tmp/said || fail "$(cat /tmp/said)"
        echo 'third Passphrase 3!' | pamtester only ann authenticate
        "#,
    );
}
