//! Providers of ciphers, their self-tests, and the ciphers that are allowed: `strongroom crypto`.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::common::*;
use serde_json::Value;

/// The output of a command with a variable in its environment, and its exit code.
fn run_with(place: &Place, name: &str, value: &str, line: &str) -> (String, String, i32) {
    let mut command = place.command();
    let output = command.env(name, value).args(words(line)).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let code = output.status.code().unwrap();
    (text(output.stdout), text(output.stderr), code)
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The provider of a mechanism, with the longest keys.
fn provider(place: &Place, mechanism: &str) -> Value {
    let report = json(&place.ok("crypto providers --json"));
    let all = report["mechanisms"].as_array().unwrap().clone();
    let found = all.into_iter().rfind(|m| m["name"] == mechanism);
    found.unwrap()["provider"].clone()
}

/// The answer is what a key of that length gets: AWS-LC has XTS with 512 bits only.
#[test]
fn providers_are_those_of_each_length_of_keys() {
    let place = Place::without_daemon();
    let report = json(&place.ok("crypto providers --rate --json"));
    let all = report["mechanisms"].as_array().unwrap();
    let xts: Vec<&Value> = all.iter().filter(|m| m["name"] == "aes-xts").collect();
    let bits: Vec<_> = xts.iter().map(|m| m["key_bits"].as_u64()).collect();
    assert_eq!(bits, [Some(256), Some(384), Some(512)]);
    let features = report["hardware"]["features"].as_array().unwrap();
    let is_wide = ["vaes", "avx2"]
        .iter()
        .all(|name| features.contains(&(*name).into()));
    let short = if is_wide { "portable" } else { "aws-lc" };
    let providers: Vec<_> = xts
        .iter()
        .map(|m| m["provider"].as_str().unwrap())
        .collect();
    assert_eq!(providers, [short, short, "aws-lc"]);
    assert!(
        xts.iter()
            .all(|m| m["mb_s"].as_f64().is_some_and(|rate| rate > 0.0))
    );
    let table = place.ok("crypto providers");
    let rows: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert!(
        rows.iter()
            .any(|row| row.starts_with(&["aes-xts", "256", short])),
        "{table}"
    );
    assert!(
        rows.iter()
            .any(|row| row.starts_with(&["aes-xts", "512", "aws-lc"])),
        "{table}"
    );
    assert!(
        rows.iter()
            .any(|row| row.starts_with(&["argon2", "-", "portable"])),
        "{table}"
    );
}

#[test]
fn everything_is_right_on_fast_paths_and_slow_ones() {
    let place = Place::without_daemon();
    let fast = place.ok("crypto selftest");
    has(&fast, "aes-xts");
    lacks(&fast, "WRONG");
    for setting in [
        "-aes,-pclmul,-ssse3,-sha",
        "-aes",
        "-pclmul",
        "-avx512",
        "-avx2",
        "-vaes,-vpclmul",
    ] {
        let (out, err, code) = run_with(
            &place,
            "STRONGROOM_HWCAP",
            setting,
            "crypto selftest --json",
        );
        if err.contains("on x86-64 only") {
            continue;
        }
        assert_eq!(code, 0, "{setting}: {err}");
        let tests = json(&out);
        assert!(
            tests
                .as_array()
                .unwrap()
                .iter()
                .all(|test| test["ok"] == true),
            "{setting}"
        );
    }
    let (_, err, code) = run_with(&place, "STRONGROOM_HWCAP", "-mmx", "list");
    assert!(code == 2 && err.contains("-mmx"), "{code}: {err}");
}

#[test]
fn features_are_switched_off_in_one_process() {
    let place = Place::without_daemon();
    let features = |out: &str| {
        json(out)["hardware"]["features"]
            .as_array()
            .unwrap()
            .clone()
    };
    let all = features(&place.ok("crypto providers --json"));
    needs!(all.contains(&"aes".into()));
    let line = "crypto providers --json";
    let (out, _, _) = run_with(&place, "STRONGROOM_HWCAP", "-aes", line);
    assert!(!features(&out).contains(&"aes".into()), "{out}");
    assert_eq!(json(&out)["hardware"]["disabled"][0], "aes");
}

/// The program has a variable for this, in builds with assertions.
#[test]
#[cfg(debug_assertions)]
fn one_that_is_wrong_is_named() {
    let place = Place::without_daemon();
    for broken in [
        "aws-lc/record-aes-256-gcm",
        "portable/aes-xts",
        "portable/blake3",
    ] {
        let variable = "STRONGROOM_TEST_BROKEN_CIPHER";
        let (out, err, code) = run_with(&place, variable, broken, "crypto selftest");
        assert_eq!(code, 1, "{err}");
        assert!(err.contains(broken), "{err}");
        assert_eq!(out.matches("WRONG").count(), 1, "{out}");
    }
    // And FIPS mode is not switched on with it.
    let (_, err, code) = run_with(
        &place,
        "STRONGROOM_TEST_BROKEN_CIPHER",
        "aws-lc/aes-cmac",
        "crypto enable fips-140",
    );
    assert!(
        code == 1 && err.contains("aws-lc/aes-cmac"),
        "{code}: {err}"
    );
    assert_eq!(json(&place.ok("crypto providers --json"))["fips"], false);
}

#[test]
fn the_next_provider_serves_what_is_disabled() {
    let place = Place::without_daemon();
    assert_eq!(provider(&place, "aes-xts"), "aws-lc");
    place.ok("crypto disable aws-lc/aes-xts openssl");
    assert_eq!(provider(&place, "aes-xts"), "portable");
    assert_eq!(provider(&place, "aes-cbc"), "aws-lc");
    place.refuses("crypto disable portable/aes-xts", 5, "aes-xts");
    place.fails("crypto disable aws-lc", 5);
    assert_eq!(provider(&place, "aes-xts"), "portable");

    let file = place.path("xdg/strongroom/crypto");
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    place.ok("crypto enable aws-lc");
    assert_eq!(provider(&place, "aes-xts"), "aws-lc");
    for wrong in ["nobody", "aws-lc/rot13", "aws-lc/serpent-xts", "aes-xts"] {
        let err = place.fails(&format!("crypto disable {wrong}"), 2);
        assert!(!err.contains('"'), "{err}");
        place.fails(&format!("crypto enable {wrong}"), 2);
    }
}

/// The file may be one that forbids a cipher.
#[test]
fn a_file_that_is_not_understood_is_not_ignored() {
    let place = Place::without_daemon();
    place.ok("crypto disable aws-lc/aes-xts");
    let file = place.path("xdg/strongroom/crypto");
    fs::write(&file, "disable aws-lc/rot13\n").unwrap();
    for line in [
        "crypto providers",
        "crypto selftest",
        "crypto enable aws-lc",
    ] {
        let err = place.fails(line, 9);
        has(&err, "disable aws-lc/rot13");
    }
    let done = place.run(&["daemon"]);
    assert!(done.code != 0 && done.err.contains("rot13"), "{done:?}");
}

/// Settings apply to a daemon that starts later.
fn restart(place: &mut Place) {
    place.ok("daemon stop");
    place.wait_for_end();
    place.start();
    place.ok("pool import -a");
}

#[test]
fn fips_mode_allows_what_is_approved() {
    let mut place = Place::without_daemon();
    let state = place.arg("state");
    let printed = place.ok(&format!("crypto enable fips-140 --state-dir {state}"));
    has(&printed, "approved mechanisms tested now");
    let printed = place.ok(&format!("crypto selftest --state-dir {state}"));
    has(&printed, "tested already, this boot");
    lacks(&printed, "argon2");
    has(&printed, "aes-xts");

    // What runs on other instructions has not been tested.
    if cfg!(target_arch = "x86_64") {
        let line = format!("crypto selftest --state-dir {state}");
        for setting in ["-sha", ""] {
            for tested in ["tested now", "tested already"] {
                let (out, err, _) = run_with(&place, "STRONGROOM_HWCAP", setting, &line);
                assert!(out.contains(tested), "{setting}: {out} {err}");
            }
        }
    }

    place.start();
    let pool = place.arg("fips.pool");
    let key = place.arg("key");
    place.ok(&format!("pool create -s 64M -m none tank {pool}"));
    place.ok(&format!("keygen {key}"));
    place.ok(&format!(
        "create -o encryption=aes-256-gcm -o keysource=raw,file://{key} tank/approved"
    ));
    let line = format!(
        "create -o encryption=xchacha20-poly1305 -o keysource=raw,file://{key} tank/refused"
    );
    let refuses = |place: &Place, line: &str, name: &str| {
        let done = place.run(&words(line));
        let said = format!("{name} is not approved, and FIPS mode is on");
        assert!(done.code != 0 && done.err.contains(&said), "{done:?}");
    };
    refuses(&place, &line, "XChaCha20-Poly1305");
    fs::write(place.path("passphrase"), "correct horse battery\n").unwrap();
    let source = format!("passphrase,file://{}", place.arg("passphrase"));
    let hash = "Argon2id, the hash of the passphrase,";
    refuses(
        &place,
        &format!("key add --pbkdf argon2id -o keysource={source} tank/approved"),
        hash,
    );

    // A passphrase is hashed with PBKDF2.
    let pbkdf2 = "pbkdf2-sha512 ";
    place.ok(&format!("key add -o keysource={source} tank/approved"));
    has(&place.ok("key slots tank/approved"), pbkdf2);
    place.ok(&format!(
        "create -o encryption=on -o keysource={source} tank/typed"
    ));
    has(&place.ok("key slots tank/typed"), pbkdf2);
    place.ok("key unload tank/typed");
    place.ok("key load tank/typed");

    // Both kinds of slots open without the mode.
    place.ok("crypto disable fips-140");
    restart(&mut place);
    place.ok("key unload tank/typed");
    place.ok("key load tank/typed");
    place.ok(&format!(
        "create -o encryption=on -o keysource={source} tank/argon"
    ));
    place.says("key slots tank/argon", "argon2id ");
    place.ok(&format!(
        "create -o encryption=on -o keysource={source} tank/ready"
    ));
    place.ok("key change --pbkdf pbkdf2 tank/ready");
    has(&place.ok("key slots tank/ready"), pbkdf2);

    place.ok("crypto enable fips-140");
    restart(&mut place);
    // The start has loaded what opens.
    place.prints("get -H -o value keystatus tank/ready", "available\n");
    refuses(&place, "key load tank/argon", hash);
    let refused = place.run(&words("key load tank/argon"));
    has(&refused.err, "strongroom key change --pbkdf pbkdf2");
}

#[test]
fn the_daemon_that_is_addressed_changes() {
    let place = Place::new();
    let own = place.path("state").join("crypto");
    place.ok("crypto disable aws-lc/aes-xts");
    assert!(own.exists() && !place.path("xdg").exists());
    assert_ne!(provider(&place, "aes-xts"), "aws-lc");
    place.ok("crypto enable aws-lc/aes-xts");
    lacks(&fs::read_to_string(&own).unwrap(), "disable aws-lc");

    // No daemon was there yet: the next one takes the usual directory.
    let other = place.arg("other");
    place.ok(&format!("--socket {other} crypto disable aws-lc/aes-xts"));
    assert!(place.path("xdg/strongroom/crypto").exists());
    lacks(&fs::read_to_string(&own).unwrap(), "disable aws-lc");

    if is_root() {
        fs::write(&other, "").unwrap();
        std::os::unix::fs::chown(&other, Some(65_534), None).unwrap();
        let err = place.fails(&format!("--socket {other} crypto enable fips-140"), 6);
        has(&err, "uid 65534");
    }
}

#[test]
fn a_container_has_pbkdf2_in_fips_mode() {
    let place = Place::without_daemon();
    place.ok("crypto enable fips-140");
    let (device, key) = (place.arg("luks"), place.arg("key"));
    fs::File::create(&device)
        .unwrap()
        .set_len(32 << 20)
        .unwrap();
    fs::write(&key, "correct horse battery").unwrap();
    let format = format!("luks format -q --iter-time 10 --key-file {key} {device}");
    place.ok(&format);
    let dump = place.ok(&format!("luks dump {device}"));
    has(&dump, "pbkdf2");
    lacks(&dump, "argon2");
    let done = place.run(&words(&format!("{format} --pbkdf argon2id")));
    let said = "Argon2id, the hash of the passphrase, is not approved, and FIPS mode is on";
    assert!(done.code != 0 && done.err.contains(said), "{done:?}");
}

#[test]
fn speeds_are_measured_and_drawn() {
    let place = Place::without_daemon();
    let chart = place.arg("chart.svg");
    let line = format!("crypto bench --alone --runs 1 --json --svg {chart}");
    let report = json(&place.ok(&line));
    let rows = report["rows"].as_array().unwrap();
    // Of the articles: four modes, both ways, at six lengths; SHA-256 at eight; data in three forms.
    let count = |table: &str| rows.iter().filter(|row| row["table"] == table).count();
    let tables = ["modes", "layout", "xts", "sha256", "hashes"];
    assert_eq!(tables.map(count), [48, 9, 8, 8, 12]);
    for row in rows {
        let has = |path: &str| {
            row[path]["median"]
                .as_f64()
                .is_some_and(|speed| speed > 0.0)
        };
        assert!(has("fast") || has("portable"), "{row}");
    }
    let chart = fs::read_to_string(chart).unwrap();
    assert!(chart.starts_with("<svg ") && chart.ends_with("</svg>\n"));

    let table = place.ok("crypto bench --alone --runs 1 sha256");
    has(&table, "SHA-256, nanoseconds");
    lacks(&table, "GCM");
    // The answer of the parser of arguments has several lines.
    assert_eq!(place.run(&words("crypto bench rot13")).code, 2);
}

/// The message of the article that filled the memory: it is decrypted piece by piece.
#[test]
fn four_gibibytes_are_decrypted_in_a_few_mebibytes() {
    let place = Place::without_daemon();
    let report = json(&place.ok("crypto bench --runs 1 --json memory"));
    let memory = &report["memory"];
    assert_eq!(memory["message"], 4_u64 << 30);
    if let Some(growth) = memory["growth"].as_u64() {
        assert!(growth < 16 << 20, "{memory}");
    }
}

#[test]
fn ld_hwcap_of_solaris_slows_this_process_only() {
    let place = Place::without_daemon();
    let line = "crypto providers --json";
    let setting = "-aes -des -md5 -sha256 -sha512 -mont -mpmul";
    let (out, err, code) = run_with(&place, "LD_HWCAP", setting, line);
    if err.contains("on x86-64 only") {
        return;
    }
    assert_eq!(code, 0, "{err}");
    let features = &json(&out)["hardware"]["features"];
    let features = features.as_array().unwrap();
    assert!(features.iter().all(|name| name != "aes" && name != "sha"));
    has(
        &err,
        "ignored, because no code here has a path for it: -des -md5 -sha512 -mont -mpmul",
    );
    // Another command does not hear of it.
    let (_, err, _) = run_with(&place, "LD_HWCAP", "-nonsense", "properties");
    lacks(&err, "LD_HWCAP");
}

#[test]
fn random_bytes_come_from_two_sources() {
    let place = Place::without_daemon();
    for (line, source) in [
        ("crypto random", "aws-lc and kernel"),
        ("crypto random --entropy", "kernel"),
    ] {
        let draw = || place.ok(&format!("{line} 48"));
        let (first, second) = (draw(), draw());
        assert_eq!(first.trim_end().len(), 96);
        assert_ne!(first, second);
        let report = json(&place.ok(&format!("{line} 256 --json")));
        assert_eq!(report["source"], source);
        assert_eq!(report["bytes"].as_str().unwrap().len(), 512);
    }
    place.refuses("crypto random --entropy 257", USAGE, "at most 256 bytes");
    assert_eq!(place.run(&words("crypto random 0")).code, USAGE);
}

/// AWS-LC ends the process where the kernel gives no numbers. So the kernel is asked first.
#[test]
fn a_kernel_without_random_numbers_is_an_error() {
    let place = Place::without_daemon();
    for line in ["crypto random 32", "crypto random --entropy 32"] {
        let command = place.command();
        let mut strace = std::process::Command::new("strace");
        strace
            .args(["-f", "-qq", "-e", "trace=getrandom", "-o", "/dev/null"])
            .args(["-e", "inject=getrandom:error=EIO"])
            .arg(command.get_program())
            .args(words(line));
        let Ok(done) = strace.output() else {
            return;
        };
        let err = String::from_utf8_lossy(&done.stderr);
        if err.contains("ptrace") {
            return;
        }
        assert_eq!(done.status.code(), Some(1), "{err}");
        has(&err, "the source of random numbers failed");
        assert!(done.stdout.is_empty());
    }
}
