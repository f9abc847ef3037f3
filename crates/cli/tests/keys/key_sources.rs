//! Keys from elsewhere: the example of a program that has keys, and servers and programs that have none.

use std::fs;

use crate::common::*;

/// A copy of the example where only root can change it.
fn two_halves(place: &Place) -> String {
    let program = place.path("two-halves");
    let example = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../contrib/key-providers/two-halves"
    );
    fs::copy(example, &program).unwrap();
    format!(
        "hex,exec://{}?{},{}",
        program.display(),
        place.arg("a"),
        place.arg("b")
    )
}

#[test]
fn the_example_of_a_key_provider() {
    let mut place = Place::without_daemon();
    // Elsewhere it would be installed where nothing else is.
    let here = place.root().display().to_string();
    place.start_with("STRONGROOM_KEY_PROVIDERS", &here);
    place.pool("tank");
    let source = two_halves(&place);
    for half in ["a", "b"] {
        place.ok(&format!("keygen --format hex {}", place.arg(half)));
    }
    place.ok(&format!(
        "create -u -o encryption=on -o keysource={source} tank/a"
    ));
    assert_eq!(
        place.ok("get -H -o value keysource tank/a").trim_end(),
        source
    );
    place.ok("key unload tank/a");
    place.ok("key load tank/a");
    place.ok("key unload tank/a");
    // The key is the exclusive or of both.
    let digits = |name: &str| {
        let text = fs::read_to_string(place.path(name)).unwrap();
        (0..32)
            .map(|i| u8::from_str_radix(&text[2 * i..][..2], 16).unwrap())
            .collect::<Vec<_>>()
    };
    let key: String = digits("a")
        .iter()
        .zip(digits("b"))
        .map(|(a, b)| format!("{:02x}", a ^ b))
        .collect();
    place.ok_with("key load -n -L prompt tank/a", &key);

    fs::rename(place.path("b"), place.path("away")).unwrap();
    let said = place.fails("key load tank/a", NO_KEY);
    has(&said, "it says: ");
    assert!(said.contains(&place.arg("b")), "{said}");
    place.ok("keygen --format hex {DIR}/b");
    place.fails("key load tank/a", WRONG_KEY);
    fs::rename(place.path("away"), place.path("b")).unwrap();
    place.ok("key load tank/a");
}

#[test]
fn what_gives_no_key_changes_nothing() {
    let place = Place::new();
    place.pool("tank");
    #[rustfmt::skip]
    let rows = [
        ("raw,https://127.0.0.1:1/k", "key server https://127.0.0.1:1/k: "),
        ("raw,exec:///bin/sh?$(id)", "it is in none of the directories"),
        ("raw,exec:///nowhere/program", "key provider /nowhere/program: "),
        ("raw,unix:///nowhere/socket", "key provider /nowhere/socket: "),
    ];
    for (source, reason) in rows {
        let create = format!("create -u -o encryption=on -o keysource={source} tank/a");
        let said = place.fails(&create, NO_KEY);
        has(&said, "the key of 'tank/a': the ");
        assert!(said.contains(reason), "{said}");
        place.fails("list tank/a", NOT_FOUND);
    }
    place.fails(
        "create -u -o encryption=on -o keysource=raw,http://h/k tank/a",
        USAGE,
    );
}

const MODULE: &str = "/usr/lib/softhsm/libsofthsm2.so";

/// A daemon with a token `pool`, whose PIN is in a file; `None` where there is no SoftHSM.
fn with_token() -> Option<Place> {
    if !std::path::Path::new(MODULE).exists() {
        eprintln!("skipped: there is no {MODULE}; install softhsm2");
        return None;
    }
    let mut place = Place::without_daemon();
    fs::create_dir(place.path("tokens")).unwrap();
    let conf = place.arg("softhsm2.conf");
    let text = format!("directories.tokendir = {}\n", place.arg("tokens"));
    fs::write(&conf, text + "log.level = ERROR\n").unwrap();
    fs::write(place.path("pin"), "1234\n").unwrap();
    fs::write(place.path("wrong"), "4321\n").unwrap();
    let made = std::process::Command::new("softhsm2-util")
        .args(["--init-token", "--free", "--label", "pool"])
        .args(["--so-pin", "12345678", "--pin", "1234"])
        .env("SOFTHSM2_CONF", &conf)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    place.start_with("SOFTHSM2_CONF", &conf);
    Some(place)
}

/// Makes a key in the token, and returns how the command ended.
fn token_keygen(place: &Place, uri: &str, input: &str) -> i32 {
    let mut command = place.command();
    command
        .env("SOFTHSM2_CONF", place.path("softhsm2.conf"))
        .args(["keygen", "--pkcs11-list", &place.arg("pkcs11"), uri])
        .stdin(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    let _ = std::io::Write::write_all(&mut child.stdin.take().unwrap(), input.as_bytes());
    child.wait().unwrap().code().unwrap()
}

/// Runs a command of LUKS with the token, and returns how it ended.
fn luks_with_token(place: &Place, line: &str, uri: &str, input: &str) -> Done {
    let mut command = place.command();
    command
        .env("SOFTHSM2_CONF", place.path("softhsm2.conf"))
        .arg("luks")
        .args(place.words(line))
        .args(["--key-file", uri]);
    run(command, input.as_bytes())
}

/// By an AES key that does not leave its token: a container, a plain mapping as `lofiadm -c aes-256-cbc -T` makes one, and
/// a mapping that the daemon opens when it starts.
#[test]
fn a_key_in_a_token_opens_containers() {
    let mut place = needs!(with_token());
    fs::write(place.path("pkcs11"), format!("{MODULE}\n")).unwrap();
    let uri = |object: &str| {
        let pin = place.arg("pin");
        format!("pkcs11:token=pool;object={object}?module-path={MODULE}&pin-source=file:{pin}")
    };
    let (one, two) = (uri("one"), uri("rpool/export/pvol"));
    let asks = format!("pkcs11:token=pool;object=one?module-path={MODULE}");
    assert_eq!(token_keygen(&place, &one, ""), 0);
    assert_eq!(token_keygen(&place, &two, ""), 0);
    let list = place.arg("pkcs11");
    let format =
        format!("format -q --pbkdf-force-iterations 4 --pbkdf-memory 32 --pkcs11-list {list}");
    let image = fs::File::create(place.path("image")).unwrap();
    image.set_len(64 << 20).unwrap();
    let code = |line: &str, uri: &str, input: &str| {
        let done = luks_with_token(&place, line, uri, input);
        assert!(!done.out.contains("panicked"), "{done:?}");
        done.code
    };
    assert_eq!(code(&format!("{format} {{DIR}}/image"), &one, ""), 0);
    let test = format!("open --test-passphrase --pkcs11-list {list} {{DIR}}/image");
    assert_eq!(code(&test, &one, ""), 0);
    assert_eq!(code(&test, &asks, "1234\n"), 0);
    assert_eq!(code(&test, &two, ""), WRONG_KEY);
    assert_eq!(code(&test, &uri("three"), ""), NO_KEY);
    assert_eq!(code(&format!("{test} --keyfile-offset 1"), &one, ""), USAGE);
    // As the article types it, with a volume and a pool on the mapping.
    place.ok("pool create -s 128M -m none rpool {DIR}/rpool.pool");
    place.ok("create -V 40M rpool/pvol");
    let open = "open --type plain -c aes-256-cbc --persistent-open volume:rpool/pvol lofi1";
    assert_eq!(code(open, &two, ""), 0);
    let status = place.ok("luks status lofi1");
    has(&status, "aes-cbc-essiv:sha256");
    has(&status, "256 bits");
    place.ok("pool create -m none darrenm luks:lofi1");
    let open = "open --persistent-open {DIR}/image other";
    assert_eq!(code(open, &one, ""), 0);
    place.kill();
    place.start_with("SOFTHSM2_CONF", &place.arg("softhsm2.conf"));
    assert_eq!(place.ok("pool list -H -o health darrenm"), "ONLINE\n");
    place.says("luks status other", "other is open");
    // Without its token it waits, and the daemon starts.
    place.kill();
    fs::rename(place.path("tokens"), place.path("away")).unwrap();
    fs::create_dir(place.path("tokens")).unwrap();
    place.start_with("SOFTHSM2_CONF", &place.arg("softhsm2.conf"));
    has(
        &place.ok("luks status lofi1"),
        "lofi1 waits: the token 'pool': it is not there",
    );
    place.says("pool status darrenm", "waits for the mapping 'lofi1'");
}

#[test]
fn a_key_stays_in_its_token() {
    let place = needs!(with_token());
    place.pool("tank");
    let uri = |object: &str| format!("pkcs11:token=pool;object={object}?module-path={MODULE}");
    let with_pin =
        |object: &str, pin: &str| format!("{}&pin-source=file:{}", uri(object), place.arg(pin));
    // No module is loaded that is not listed.
    assert_eq!(token_keygen(&place, &with_pin("one", "pin"), ""), NO_KEY);
    let source = format!("raw,{}", with_pin("one", "pin"));
    let said = place.fails(
        &format!("create -u -o encryption=on -o keysource={source} tank/a"),
        NO_KEY,
    );
    has(&said, "it is not listed");
    fs::write(place.path("pkcs11"), format!("# tokens\n{MODULE}\n")).unwrap();
    assert_eq!(token_keygen(&place, &with_pin("one", "pin"), ""), 0);
    assert_eq!(token_keygen(&place, &with_pin("one", "pin"), ""), EXISTS);
    assert_eq!(
        token_keygen(&place, &with_pin("two", "wrong"), ""),
        WRONG_KEY
    );
    assert_eq!(token_keygen(&place, &uri("two"), "1234\n"), 0);

    place.ok(&format!(
        "create -u -o encryption=on -o keysource={source} tank/a"
    ));
    place.says("key slots -H tank/a", "\ttoken\t");
    place.ok("key unload tank/a");
    let load = |location: &str| format!("key load -L {location} tank/a");
    place.fails(&load(&with_pin("one", "wrong")), WRONG_KEY);
    place.fails(&load(&with_pin("two", "pin")), WRONG_KEY);
    place.fails(&load(&with_pin("three", "pin")), NO_KEY);
    place.fails(&load(&with_pin("one", "nowhere")), NO_KEY);
    // Without a terminal, and with one.
    place.fails(&load(&uri("one")), NO_KEY);
    place.ok_with(&load(&uri("one")), "1234\n");

    // The token is taken out: what is loaded stays, and no change is half done.
    fs::rename(place.path("tokens"), place.path("away")).unwrap();
    fs::create_dir(place.path("tokens")).unwrap();
    let said = place.fails(&format!("key change -o keysource={source} tank/a"), NO_KEY);
    has(&said, "the token 'pool': it is not there");
    place.fails(&format!("key add -o keysource={source} tank/a"), NO_KEY);
    place.ok("key rotate tank/a");
    place.ok("key unload tank/a");
    place.fails("key load tank/a", NO_KEY);
    let said = place.fails("mount -l tank/a", NO_KEY);
    has(&said, "the token 'pool': it is not there");
    let create = format!("create -u -o encryption=on -o keysource={source} tank/b");
    place.fails(&create, NO_KEY);
    place.fails("list tank/b", NOT_FOUND);
    fs::remove_dir(place.path("tokens")).unwrap();
    fs::rename(place.path("away"), place.path("tokens")).unwrap();
    place.ok("key load tank/a");

    // To another kind of source, with the token as a second way.
    place.ok_with(
        "key change -o keysource=passphrase,prompt tank/a",
        "correct horse\n",
    );
    place.ok(&format!(
        "key add -o keysource=raw,{} tank/a",
        with_pin("two", "pin")
    ));
    place.ok("key unload tank/a");
    place.ok(&format!(
        "key load -o keysource=raw,{} tank/a",
        with_pin("two", "pin")
    ));
    place.fails("key remove tank/a 0", USAGE);
    place.ok(&format!(
        "key remove -o keysource=raw,{} tank/a 0",
        with_pin("two", "pin")
    ));
    place.ok("key unload tank/a");
    place.ok("key load tank/a");
}

/// `key recover` tells which slot a key opens, in any format, from a file or typed. It loads and changes nothing.
#[test]
fn a_forgotten_key_finds_its_slot() {
    let place = Place::new();
    place.ok("pool create -s 64M -m none tank {DIR}/tank.pool");
    place.ok_with(
        "create -u -o encryption=on tank/a",
        "correct horse\ncorrect horse\n",
    );
    place.ok_with("create -u tank/a/below", "");
    let digits = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n";
    fs::write(place.path("raw"), [7; 32]).unwrap();
    fs::write(place.path("hex"), digits).unwrap();
    let (raw, hex) = (place.arg("raw"), place.arg("hex"));
    place.ok(&format!("key add -o keysource=raw,file://{raw} tank/a"));
    place.ok(&format!("key add -o keysource=hex,file://{hex} tank/a"));
    let recover = |location: &str, typed: &str, slot: u32, format: &str| {
        let line = format!("key recover {location} tank/a");
        let done = place.run_with(&words(&line), typed.as_bytes());
        assert_eq!(done.code, 0, "{done:?}");
        let said = format!("slot {slot} of 'tank/a' opens with that key, in the format '{format}'");
        has(&done.err, &said);
        has(&done.out, "strongroom key load -L");
        done.out
    };
    let before = place.ok("pool history tank");
    // The key may be loaded.
    recover("", "correct horse\n", 0, "passphrase");
    place.ok("key unload tank/a");
    recover("", "correct horse\n", 0, "passphrase");
    recover("", digits, 2, "hex");
    let out = recover(&format!("-L file://{raw}"), "", 1, "raw");
    has(
        &out,
        &format!("strongroom key load -L file://{raw} tank/a\n"),
    );
    recover(&format!("-L file://{hex}"), "", 2, "hex");
    place.says("get -H keystatus tank/a", "unavailable");
    place.prints("get -H -o value keysource tank/a", "passphrase,prompt\n");
    assert_eq!(place.ok("pool history tank"), before);

    for (location, typed, code) in [
        ("", "wrong horse\n", WRONG_KEY),
        // Digits of a key that has no slot.
        ("", &*digits.replace("00", "99"), WRONG_KEY),
        ("", "", NO_KEY),
        ("-L file:///nowhere/key", "", NO_KEY),
        ("-L nowhere", "", USAGE),
    ] {
        let line = format!("key recover {location} tank/a");
        let done = place.run_with(&words(&line), typed.as_bytes());
        assert_eq!((done.code, &*done.out), (code, ""), "{location}: {done:?}");
    }
    place.refuses("key recover -L prompt tank/a/below", OTHER, "'tank/a'");
    place.fails("key recover tank/none", NOT_FOUND);
}
