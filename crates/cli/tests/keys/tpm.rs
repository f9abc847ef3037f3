//! Keys of datasets that the TPM of the machine seals, with a TPM in software, and tpm2-tools as judge.

use std::fs;
use std::path::Path;

use crate::common::servers::tpm::Tpm;
use crate::common::*;

const STATUS: &str = "get -H -o value keystatus tank/a";
/// The template of a storage root key.
const SRK: &str = "tpm2_createprimary -Q -C o -G ecc -c srk.ctx \
                   -a restricted|decrypt|fixedtpm|fixedparent|sensitivedataorigin|userwithauth|noda";

/// Takes the key of a slot out of a pool, for tpm2-tools.
fn take_key(place: &Place, tpm: &Tpm, pool: &Path) {
    let tool = |line: &str| {
        tpm.tool(place, line);
        tpm.flush(place);
    };
    tool(SRK);
    tool("tpm2_readpublic -Q -c srk.ctx -n srk.name");
    let name = fs::read(place.path("srk.name")).unwrap();
    let bytes = fs::read(pool).unwrap();
    let at = find(&bytes, &name).expect("the name of the parent") + name.len() + 6;
    // Each has its length before it.
    let part = |bytes: &[u8]| {
        let len = usize::from(u16::from_be_bytes([bytes[0], bytes[1]]));
        bytes[..2 + len].to_vec()
    };
    let private = part(&bytes[at..]);
    fs::write(place.path("public"), part(&bytes[at + private.len()..])).unwrap();
    fs::write(place.path("private"), private).unwrap();
    tool("tpm2_load -Q -C srk.ctx -u public -r private -c key.ctx");
}

#[test]
fn a_tpm_opens_a_dataset_of_the_machine_that_starts_as_before() {
    let mut place = Place::without_daemon();
    let tpm = needs!(Tpm::start(&place));
    place.start_with("STRONGROOM_TPM", &tpm.socket);
    let file = place.pool("tank");
    let source = "raw,tpm2:#pcrs=7+16";
    place.ok(&format!(
        "create -u -o encryption=on -o keysource={source} tank/a"
    ));
    let keysource = place.ok("get -H -o value keysource tank/a");
    assert_eq!(keysource.trim_end(), source);
    place.says("key slots tank/a", " tpm2 ");
    place.ok("pool sync tank");
    take_key(&place, &tpm, &file);
    let key = tpm.tool(&place, "tpm2_unseal -c key.ctx -p pcr:sha256:7,16");
    assert_eq!(key.len(), 32);
    tpm.flush(&place);

    // After a restart nobody is asked.
    assert!(place.terminate());
    place.start_with("STRONGROOM_TPM", &tpm.socket);
    assert_eq!(place.ok(STATUS), "available\n");
    let add = "key add -o keysource=raw,tpm2:#pin=yes tank/a";
    place.ok_with(add, "0451\n0451\n");

    // Another kernel was started.
    tpm.extend(&place);
    assert!(place.terminate());
    place.start_with("STRONGROOM_TPM", &tpm.socket);
    assert_eq!(place.ok(STATUS), "unavailable\n");
    place.refuses("key load tank/a", NO_KEY, "PCRs");
    let by_pin = "key load -o keysource=raw,tpm2:#pin=yes tank/a";
    place.ok_with(by_pin, "0451\n");
    place.ok(&format!("key change --slot 0 -o keysource={source} tank/a"));
    place.ok("key unload tank/a");
    place.ok("key load tank/a");
    // A TPM tells of 8 at a time.
    let all = (0..24).map(|pcr| pcr.to_string()).collect::<Vec<String>>();
    let source = format!("raw,tpm2:#pcrs={}&bank=sha1", all.join("+"));
    place.ok(&format!(
        "create -u -o encryption=on -o keysource={source} tank/b"
    ));
}

#[test]
fn a_pin_that_is_wrong_too_often_and_tpms_that_do_not_help() {
    let mut place = Place::without_daemon();
    let tpm = needs!(Tpm::start(&place));
    place.start_with("STRONGROOM_TPM", &tpm.socket);
    let file = place.pool("tank");
    let create = "create -u -o encryption=on -o keysource=raw,tpm2:#pin=yes tank/a";
    has(&place.fails_with(create, "\n", WRONG_KEY), "one character");
    place.fails("list tank/a", NOT_FOUND);
    place.ok_with(create, "0451\n0451\n");
    place.ok("pool sync tank");
    // The password is the SHA-256 of the PIN.
    take_key(&place, &tpm, &file);
    let digest = cipher::Digest::Sha256.hash(&[b"0451"]);
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    tpm.tool(&place, "tpm2_startauthsession -Q --policy-session -S s.ctx");
    tpm.tool(&place, "tpm2_policyauthvalue -Q -S s.ctx");
    let unseal = format!("tpm2_unseal -c key.ctx -p session:s.ctx+hex:{digest}");
    assert_eq!(tpm.tool(&place, &unseal).len(), 32);
    tpm.flush(&place);
    place.ok("create -u -o encryption=on -o keysource=raw,tpm2: tank/b");
    place.ok("key unload -a");
    let load = |pin: &str, code| place.fails_with("key load tank/a", pin, code);
    has(&load("", NO_KEY), "not given");
    has(&load("\n", WRONG_KEY), "one character");
    // The TPM has not counted that.
    let setup = "tpm2_dictionarylockout --setup-parameters --max-tries=2 --recovery-time=1000";
    tpm.tool(&place, setup);
    has(&load("0452\n", WRONG_KEY), "PIN");
    place.ok_with("key load tank/a", "0451\n");
    // A slot without a PIN is not tried, and the other way round.
    has(
        &place.fails("key load -n -L tpm2: tank/a", NO_KEY),
        "no key slot takes a key of a TPM without a PIN",
    );
    place.ok("key unload tank/a");
    has(&load("0452\n", WRONG_KEY), "PIN");
    let locked = load("0451\n", NO_KEY);
    has(&locked, "locked after too many wrong PINs (2 of 2)");
    has(&locked, "every 1000 seconds");
    has(&locked, "tpm2_dictionarylockout --clear-lockout");
    // Those without a PIN open all the same, and no slot is made that would not open.
    place.ok("key load tank/b");
    let add = "key add -o keysource=raw,tpm2:#pin=yes tank/b";
    has(&place.fails_with(add, "0451\n0451\n", NO_KEY), "locked");
    assert_eq!(place.ok("key slots -H tank/b").lines().count(), 1);
    tpm.tool(&place, "tpm2_dictionarylockout --clear-lockout");
    place.ok_with("key load tank/a", "0451\n");
    place.ok("key unload -a");

    // With a password of its owner a TPM opens what the key that it keeps protects.
    tpm.tool(&place, SRK);
    tpm.tool(&place, "tpm2_evictcontrol -Q -C o -c srk.ctx 0x81000001");
    tpm.flush(&place);
    tpm.tool(&place, "tpm2_changeauth -Q -c owner secret");
    place.ok("key load tank/b");
    place.ok("key unload -a");
    tpm.tool(&place, "tpm2_evictcontrol -Q -C o -P secret -c 0x81000001");
    place.refuses("key load tank/b", NO_KEY, "owner");

    // Another TPM, and none.
    tpm.tool(&place, "tpm2_clear");
    let another = "another TPM sealed the key, or this one was cleared";
    has(&place.fails("key load tank/b", NO_KEY), another);
    let elsewhere = "key load -L tpm2:/dev/tpmrm9999 tank/b";
    place.refuses(elsewhere, NO_KEY, "there is none");
    drop(tpm);
    place.refuses("key load tank/b", NO_KEY, "the TPM");
}

#[test]
fn a_wrong_pin_is_tried_at_two_slots_and_told() {
    let mut place = Place::without_daemon();
    let tpm = needs!(Tpm::start(&place));
    place.start_with("STRONGROOM_TPM", &tpm.socket);
    place.pool("tank");
    let keysource = "-o keysource=raw,tpm2:#pin=yes";
    place.ok_with(
        &format!("create -u -o encryption=on {keysource} tank/a"),
        "0001\n0001\n",
    );
    let add = |options: &str, pin: &str| {
        let add = format!("key add {options} {keysource} tank/a");
        place.ok_with(&add, &format!("{pin}\n{pin}\n"));
    };
    add("", "0002");
    add("", "0003");
    // A third wrong one would lock the TPM.
    let setup = "tpm2_dictionarylockout --setup-parameters --max-tries=3 --recovery-time=1000";
    tpm.tool(&place, setup);
    has(
        &place.fails_with("key load -n tank/a", "0452\n", WRONG_KEY),
        "PIN",
    );
    place.ok_with("key load -n tank/a", "0001\n");

    // A slot that another TPM sealed comes last, and does not hide the wrong PIN.
    tpm.tool(&place, "tpm2_clear");
    add("-p 200", "0004");
    has(
        &place.fails_with("key load -n tank/a", "0452\n", WRONG_KEY),
        "PIN",
    );
    place.ok_with("key load -n tank/a", "0004\n");
}
