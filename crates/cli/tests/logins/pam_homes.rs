//! The datasets that a login opens as a home: those of its user or of root, and none that another user puts there.

use crate::common::login::on_the_machine;

/// The user `mallory` may do everything with datasets below `tank/home`, whose mountpoint is `/home`. The dataset
/// `tank/home/evil` is one of hers, and its key is loaded.
const DELEGATE: &str = r#"
echo 'mallory:x:3000:3000:Mallory:/tmp:/bin/sh' >> /etc/passwd
as_mallory() { setpriv --reuid 3000 --regid 3000 --clear-groups env STRONGROOM_SOCKET=/run/strongroom/socket "$@"; }
strongroom pool create -m none -s 256M tank /var/lib/tank.pool
strongroom create -o mountpoint=/home -o canmount=off tank/home
strongroom allow mallory \
    create,destroy,encryption,mount,rename,key,keychange,snapshot,clone,promote,send,receive tank/home
echo 'mallory knows this' | as_mallory strongroom create -o encryption=on -o keysource=passphrase,prompt tank/home/evil
echo 'touch /tmp/owned' > /home/evil/.profile
chmod -R 755 /home/evil
strongroom unmount tank/home/evil
is key available "$(strongroom key status tank/home/evil | awk 'NR==2{print $3}')"
echo letter > /home/ann/letter
service only '' delkeys
test() { pamtester only ann "$@"; }
"#;

fn with_delegate(script: &str) {
    on_the_machine(&format!("{DELEGATE}{script}"));
}

/// A dataset of another user at a home neither keeps its user out, nor is mounted.
#[test]
fn a_dataset_of_another_user_is_no_home() {
    with_delegate(
        r#"
        as_mallory strongroom rename tank/home/evil tank/home/ann
        is code 1 "$(echo 'first passphrase' | pamtester only ann authenticate > /tmp/said 2>&1; echo $?)"
        grep -q 'underlying authentication module\|User not known' /tmp/said || fail "$(cat /tmp/said)"
        ! grep -q 'passphrase:' /tmp/said || fail 'asked'
        logged "'tank/home/ann' is not opened as the home /home/ann: its owner is mallory" || fail 'no word in the log'
        is letter letter "$(login_as_ann 'first passphrase' 'cat letter')"
        [ ! -e /tmp/owned ] || fail 'the files of mallory were run'
        # A home that root has made, at the same place, is found beside it.
        echo 'first passphrase' | strongroom create -u -o encryption=on -o keysource=passphrase,prompt \
            -o mountpoint=/home/ann tank/real
        echo 'first passphrase' | test authenticate open_session
        grep -q '^tank/real /home/ann ' /proc/mounts || fail "$(cat /proc/mounts)"
        test close_session || true
        "#,
    );
}

/// Between the check of the passphrase and the session another dataset takes the name.
#[test]
fn a_session_opens_the_dataset_whose_passphrase_was_checked() {
    with_delegate(
        r#"
        echo 'first passphrase' | strongroom create -o encryption=on -o keysource=passphrase,prompt tank/home/ben
        strongroom unmount tank/home/ben
        strongroom key unload tank/home/ben
        strongroom rename tank/home/ben tank/home/ann
        printf '%s\n' '#!/bin/sh' "export PATH=$PATH" 'as() { setpriv --reuid 3000 --regid 3000 --clear-groups strongroom --socket /run/strongroom/socket "$@"; }' \
            'as rename tank/home/ann tank/home/gone' 'as rename tank/home/evil tank/home/ann' > /opt-race
        chmod 755 /opt-race
        printf '%s\n' "auth required $so debug" 'session required pam_exec.so /opt-race' \
            "session required $so debug delkeys" > /etc/pam.d/race
        echo 'first passphrase' | pamtester race ann authenticate open_session
        strongroom list -H -o name -r tank/home | grep -qx tank/home/gone || fail 'nothing was renamed'
        ! mounted /home/ann || fail 'the dataset of mallory is the home'
        is key unavailable "$(strongroom key status tank/home/gone | awk 'NR==2{print $3}')"
        logged 'its owner is mallory' || fail 'no word in the log'
        # Another dataset of root is not what was checked either.
        strongroom set owner=root tank/home/ann
        strongroom rename tank/home/ann tank/home/evil
        strongroom rename tank/home/gone tank/home/ann
        echo 'first passphrase' | pamtester race ann authenticate open_session
        ! mounted /home/ann || fail 'a dataset that was not checked is the home'
        "#,
    );
}

/// The passphrase opens a key slot, or nothing is opened: the key that is loaded does not count.
#[test]
fn a_loaded_key_is_no_passphrase() {
    with_delegate(
        r#"
        echo 'another passphrase' | strongroom create -u -o encryption=on -o keysource=passphrase,prompt tank/home/ann
        is key available "$(strongroom key status tank/home/ann | awk 'NR==2{print $3}')"
        guid=$(strongroom get -H -o value guid tank/home/ann)
        code=0
        echo 'first passphrase' | strongroom login open --user ann --uid 2000 --gid 2000 --home /home/ann \
            --process $$ --dataset "$guid" || code=$?
        is code 7 $code
        ! mounted /home/ann || fail 'it is mounted'
        # A key that comes from a file is none that a login checks.
        echo 'first passphrase' > /root/key
        strongroom create -u -o encryption=on -o keysource=passphrase,file:///root/key tank/home/ben
        strongroom destroy -f tank/home/ann
        strongroom rename tank/home/ben tank/home/ann
        ! echo 'wrong passphrase' | test authenticate || fail 'every passphrase is accepted'
        logged 'its keysource is not passphrase,prompt' || fail 'no word in the log'
        "#,
    );
}

#[test]
fn a_home_is_not_mounted_over_another_mount() {
    with_delegate(
        r#"
        echo 'first passphrase' | strongroom create -u -o encryption=on -o keysource=passphrase,prompt tank/home/ann
        strongroom key unload tank/home/ann
        mount -t tmpfs none /home/ann
        echo 'first passphrase' | test authenticate open_session
        ! mounted /home/ann || fail 'it is mounted over another mount'
        is key unavailable "$(strongroom key status tank/home/ann | awk 'NR==2{print $3}')"
        logged 'something else is mounted at /home/ann' || fail 'no word in the log'
        umount /home/ann
        echo 'first passphrase' | test authenticate open_session
        mounted /home/ann || fail 'it is not mounted'
        "#,
    );
}

/// A dataset that an older version has made has no owner: root says whose home it is.
#[test]
fn root_says_whose_home_a_dataset_without_owner_is() {
    with_delegate(
        r#"
        echo 'first passphrase' | strongroom create -u -o encryption=on -o keysource=passphrase,prompt tank/home/ann
        strongroom inherit owner tank/home/ann
        is owner - "$(strongroom get -H -o value owner tank/home/ann)"
        ! echo 'first passphrase' | test authenticate || fail 'it is opened'
        logged 'it is not known who made it; if it is this home: strongroom set owner=ann tank/home/ann' ||
            fail 'no word in the log'
        ! as_mallory strongroom set owner=mallory tank/home/ann || fail 'mallory sets it'
        strongroom set owner=mallory tank/home/ann
        ! echo 'first passphrase' | test authenticate || fail 'it is opened'
        strongroom set owner=ann tank/home/ann
        echo 'first passphrase' | test authenticate open_session
        mounted /home/ann || fail 'it is not mounted'
        "#,
    );
}

/// The owner is the user who makes a dataset, in whichever way, and follows it through all names.
#[test]
fn the_owner_of_a_dataset_is_its_maker() {
    with_delegate(
        r#"
        owner() { strongroom get -H -o value owner "$1"; }
        is pool root "$(owner tank)"
        is created mallory "$(owner tank/home/evil)"
        strongroom create tank/home/ben
        is root root "$(owner tank/home/ben)"
        strongroom snapshot tank/home/ben@1
        as_mallory strongroom clone tank/home/ben@1 tank/home/clone
        is clone mallory "$(owner tank/home/clone)"
        as_mallory strongroom promote tank/home/clone
        is promoted mallory "$(owner tank/home/clone)"
        is origin root "$(owner tank/home/ben)"
        strongroom send -p tank/home/clone@1 > /tmp/stream
        chmod 644 /tmp/stream
        as_mallory strongroom receive tank/home/copy < /tmp/stream
        is received mallory "$(owner tank/home/copy)"
        strongroom receive tank/home/root < /tmp/stream
        is received root "$(owner tank/home/root)"
        as_mallory strongroom rename tank/home/copy tank/home/copy2
        is renamed mallory "$(owner tank/home/copy2)"
        for line in 'create -o owner=root tank/home/x' 'clone -o owner=root tank/home/clone@1 tank/home/x' \
            'receive -o owner=root tank/home/x' 'set owner=root tank/home/copy2' 'inherit owner tank/home/copy2'; do
            ! as_mallory strongroom $line < /tmp/stream || fail "$line"
        done
        is code 2 "$(strongroom set owner=nobody-has-this-name tank/home/x 2>/dev/null; echo $?)"
        "#,
    );
}
