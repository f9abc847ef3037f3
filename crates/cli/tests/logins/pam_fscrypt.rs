//! Logins that open directories of fscrypt, by login protectors.

use crate::common::login::on_the_machine;

/// Cheap password hashes.
const SETUP: &str = r#"
as_ann() { setpriv --reuid 2000 --regid 2000 --clear-groups "$@"; }
strongroom fscrypt setup --time 1ms > /dev/null
service only '' delkeys
"#;

fn with_directory(script: &str) {
    on_the_machine(&format!("{SETUP}{script}"));
}

#[test]
fn a_login_opens_directories_that_a_login_protector_opens() {
    with_directory(
        r#"
        cat > /tmp/prepare <<'ANN'
        set -e
        mkdir ~/lower ~/vault
        strongroom stack init --by-directory ~/lower
        strongroom stack mount ~/lower ~/vault
        mkdir ~/vault/mine
        printf '%s\n' 'first passphrase' 'first passphrase' |
            strongroom fscrypt encrypt --source pam_passphrase ~/vault/mine
        echo secret > ~/vault/mine/letter
        strongroom fscrypt lock ~/vault/mine
ANN
        as_ann env HOME=/home/ann sh /tmp/prepare
        letter() { as_ann cat /home/ann/vault/mine/letter 2>&1; }
        ! letter || fail 'it is open'
        ! echo 'wrong passphrase' | pamtester only ann authenticate || fail 'a wrong one'
        is text secret "$(login_as_ann 'first passphrase' 'cat vault/mine/letter')"
        ! letter || fail 'open after the last logout'
        service stays '' ''
        echo 'first passphrase' | pamtester stays ann authenticate open_session close_session
        is text secret "$(letter)"
        echo 'first passphrase' | pamtester only ann authenticate open_session close_session
        ! letter || fail 'open after delkeys'
        printf '%s\n' 'first passphrase' 'second Passphrase 2' 'second Passphrase 2' | as_ann passwd
        ! echo 'first passphrase' | pamtester only ann authenticate || fail 'the old one'
        is text secret "$(login_as_ann 'second Passphrase 2' 'cat vault/mine/letter')"
        # One login protector is enough for a user.
        as_ann mkdir /home/ann/vault/more
        ! printf '%s\n' 'another one 1' 'another one 1' |
            as_ann strongroom fscrypt encrypt --source pam_passphrase /home/ann/vault/more 2> /tmp/said || fail 'a second one'
        grep -q 'there is a login protector' /tmp/said || fail "$(cat /tmp/said)"
        as_ann strongroom stack unmount /home/ann/vault
        "#,
    );
}

/// Root has mounted a directory for several users.
#[test]
fn a_login_opens_directories_below_a_mount_of_root() {
    with_directory(
        r#"
        mkdir -p /srv/lower /srv/vault
        strongroom stack init --by-directory /srv/lower
        chmod 1777 /srv/lower/.fscrypt/policies /srv/lower/.fscrypt/protectors
        strongroom stack mount --allow-other /srv/lower /srv/vault
        mkdir /srv/vault/ann
        # Ann makes the protector, and root the directory: only root can reach the keys of the mount.
        id=$(printf '%s\n' 'first passphrase' 'first passphrase' | as_ann strongroom fscrypt metadata create \
            protector --source pam_passphrase /srv/lower)
        echo 'first passphrase' |
            strongroom fscrypt encrypt --protector "/srv/lower:$id" /srv/vault/ann
        chown ann /srv/vault/ann
        as_ann sh -c 'echo secret > /srv/vault/ann/letter'
        strongroom fscrypt lock /srv/vault/ann
        letter() { as_ann cat /srv/vault/ann/letter 2>&1; }
        ! letter || fail 'it is open'
        is text secret "$(login_as_ann 'first passphrase' 'cat /srv/vault/ann/letter')"
        ! letter || fail 'open after the last logout'
        printf '%s\n' 'first passphrase' 'second Passphrase 2' 'second Passphrase 2' | as_ann passwd
        is text secret "$(login_as_ann 'second Passphrase 2' 'cat /srv/vault/ann/letter')"
        # A protector in the name of Ann that another user has made is not used.
        is owner 2000 "$(stat -c %u /srv/lower/.fscrypt/protectors/$id)"
        chown 65534 "/srv/lower/.fscrypt/protectors/$id"
        is code 1 "$(echo 'second Passphrase 2' | pamtester only ann authenticate > /dev/null 2>&1; echo $?)"
        logged 'login find: exit code 3' || fail 'it is used'
        strongroom stack unmount /srv/vault
        "#,
    );
}
