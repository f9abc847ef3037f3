//! Keys in a PKCS#11 token: SoftHSM, with a token of its own for each test.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use cipher::SeededRandom;
use common::{CHEAP, NOW};
use cryptoki::context::{CInitializeArgs, CInitializeFlags, Pkcs11};
use cryptoki::object::{Attribute, ObjectClass};
use cryptoki::session::UserType;
use cryptoki::types::AuthPin;
use keys::{
    Error, KeyMaterial, KeySource, Location, MaterialFormat, SlotKind, TokenModules, TokenUri,
    WrappingKeyAccess, serve_token, token_keygen, token_material,
};
use secret::Secret;

const MODULE: &str = "/usr/lib/softhsm/libsofthsm2.so";
const PIN: &str = "1234";

/// Runs a test in a process with a token `pool`, whose configuration is in its environment.
fn with_token(test: &str, run: impl FnOnce(&Path)) {
    if let Some(dir) = std::env::var_os("STRONGROOM_TOKEN_TEST") {
        return run(Path::new(&dir));
    }
    if !Path::new(MODULE).exists() {
        eprintln!("skipped: there is no {MODULE}; install softhsm2");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let conf = dir.path().join("softhsm2.conf");
    let tokens = dir.path().join("tokens");
    std::fs::create_dir(&tokens).unwrap();
    let text = format!(
        "directories.tokendir = {}\nlog.level = ERROR\n",
        tokens.display()
    );
    std::fs::write(&conf, text).unwrap();
    let made = Command::new("softhsm2-util")
        .args(["--init-token", "--free", "--label", "pool"])
        .args(["--so-pin", "12345678", "--pin", PIN])
        .env("SOFTHSM2_CONF", &conf)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let done = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env("SOFTHSM2_CONF", &conf)
        .env("STRONGROOM_TOKEN_TEST", dir.path())
        .output()
        .unwrap();
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
}

fn uri(rest: &str) -> TokenUri {
    let source: KeySource = format!("raw,pkcs11:{rest}?module-path={MODULE}")
        .parse()
        .unwrap();
    match source.location() {
        Location::Token(uri) => uri.clone(),
        other => panic!("{other:?}"),
    }
}

/// The process that loads modules is this program, which runs nothing but this test then.
#[test]
fn serves_as_helper() {
    if std::env::args().any(|word| word == "serves_as_helper") && is_a_socket() {
        serve_token().unwrap();
    }
}

fn is_a_socket() -> bool {
    rustix::net::sockopt::socket_peercred(std::io::stdin()).is_ok()
}

/// The modules that a list in this directory names.
fn listed(dir: &Path, modules: &[&Path]) -> TokenModules {
    let list = dir.join("list");
    let lines = modules
        .iter()
        .map(|module| format!("{}\n", module.display()));
    std::fs::write(&list, lines.collect::<String>()).unwrap();
    let program = std::env::current_exe().unwrap();
    let helper = ["--exact", "serves_as_helper", "--nocapture"].map(Into::into);
    TokenModules {
        list,
        helper: [&[program.into()], &helper[..]].concat(),
        time_max: Duration::from_secs(60),
    }
}

/// The modules of a test with a token.
fn modules() -> TokenModules {
    let dir = std::env::var_os("STRONGROOM_TOKEN_TEST").unwrap();
    listed(Path::new(&dir), &[Path::new(MODULE)])
}

fn pin(text: &str) -> Secret {
    Secret::from_slice(text.as_bytes()).unwrap()
}

fn material(rest: &str, format: MaterialFormat) -> Result<KeyMaterial, Error> {
    token_material(&modules(), &uri(rest), format, pin(PIN))
}

fn aes(rest: &str) -> KeyMaterial {
    material(rest, MaterialFormat::Raw).unwrap()
}

#[test]
fn a_slot_is_opened_by_the_key_that_made_it() {
    with_token("a_slot_is_opened_by_the_key_that_made_it", |_| {
        let random = SeededRandom::new(1);
        token_keygen(&modules(), &uri("token=pool;object=one"), 32, pin(PIN)).unwrap();
        token_keygen(
            &modules(),
            &uri("token=pool;object=two;id=%07"),
            16,
            pin(PIN),
        )
        .unwrap();
        let again = token_keygen(&modules(), &uri("token=pool;object=one"), 32, pin(PIN));
        assert!(matches!(again, Err(Error::TokenKeyExists { .. })));

        let (mut wrapping, key) =
            WrappingKeyAccess::create(&aes("token=pool;object=one"), &CHEAP, NOW, &random).unwrap();
        assert!(matches!(wrapping.slots()[0].kind(), SlotKind::Token(_)));
        let opened = wrapping.unlock(&aes("object=one")).unwrap();
        assert_eq!(opened.id(), key.id());
        let wrong = wrapping.unlock(&aes("token=pool;id=%07"));
        assert!(matches!(wrong, Err(Error::WrongKey)), "{wrong:?}");
        let wrong = wrapping.unlock(&common::key(7));
        assert!(matches!(wrong, Err(Error::KindMismatch(_))), "{wrong:?}");
        // Two tokens' slots, tried one after the other.
        let two = aes("token=pool;object=two");
        wrapping
            .add_slot(&key, 200, &two, &CHEAP, NOW, &random)
            .unwrap();
        for object in ["one", "two"] {
            wrapping.unlock(&aes(&format!("object={object}"))).unwrap();
        }
    });
}

#[test]
fn each_failure_is_told_from_the_others() {
    with_token("each_failure_is_told_from_the_others", |dir| {
        let random = SeededRandom::new(1);
        token_keygen(&modules(), &uri("token=pool;object=one"), 32, pin(PIN)).unwrap();
        let (wrapping, _) =
            WrappingKeyAccess::create(&aes("object=one"), &CHEAP, NOW, &random).unwrap();
        let said = |rest: &str| wrapping.unlock(&aes(rest)).expect_err(rest).to_string();
        for (rest, reason) in [
            (
                "token=other;object=one",
                "the token 'other': it is not there",
            ),
            ("token=pool;serial=0;object=one", "it is not there"),
            ("token=pool;object=none", "it has no AES key 'none'"),
        ] {
            let said = said(rest);
            assert!(said.contains(reason), "{rest}: {said}");
        }
        let wrong = token_material(
            &modules(),
            &uri("object=one"),
            MaterialFormat::Raw,
            pin("9999"),
        )
        .unwrap();
        let wrong = wrapping.unlock(&wrong);
        assert!(matches!(wrong, Err(Error::TokenPin { .. })), "{wrong:?}");

        // Taken out between two uses, and put back.
        let tokens = dir.join("tokens");
        let away = dir.join("away");
        std::fs::rename(&tokens, &away).unwrap();
        std::fs::create_dir(&tokens).unwrap();
        let gone = said("token=pool;object=one");
        assert!(gone.contains("the token 'pool': it is not there"), "{gone}");
        std::fs::remove_dir(&tokens).unwrap();
        std::fs::rename(&away, &tokens).unwrap();
        wrapping.unlock(&aes("token=pool;object=one")).unwrap();
    });
}

#[test]
fn modules_that_are_not_listed_are_not_loaded() {
    let dir = tempfile::tempdir().unwrap();
    let module = dir.path().join("module.so");
    let ask = |modules: &TokenModules| {
        let refused = token_material(modules, &hex_uri(&module), MaterialFormat::Hex, pin(PIN));
        refused.expect_err("refused").to_string()
    };
    let modules = listed(dir.path(), &[Path::new("/usr/lib/other.so")]);
    assert!(ask(&modules).contains("No such file"), "{}", ask(&modules));
    std::fs::write(&module, "no library").unwrap();
    assert!(
        ask(&modules).contains("it is not listed"),
        "{}",
        ask(&modules)
    );
    std::fs::remove_file(&modules.list).unwrap();
    assert!(
        ask(&modules).contains("it is not listed"),
        "{}",
        ask(&modules)
    );
    let modules = listed(dir.path(), &[&module]);
    assert!(ask(&modules).contains("module.so"), "{}", ask(&modules));
    assert!(!ask(&modules).contains("listed"), "{}", ask(&modules));
    // What others can write to is no word of this user's.
    open_to_others(&modules.list);
    assert!(
        ask(&modules).contains("other users can write to it"),
        "{}",
        ask(&modules)
    );
    let modules = TokenModules {
        list: dir.path().join("another"),
        ..modules
    };
    std::fs::write(&modules.list, format!("{}\n", module.display())).unwrap();
    open_to_others(&module);
    assert!(
        ask(&modules).contains("other users can write to it"),
        "{}",
        ask(&modules)
    );
}

/// A module that does this as soon as it is loaded; `None` where there is no compiler.
fn broken_module(dir: &Path, does: &str) -> Option<PathBuf> {
    let (source, module) = (dir.join("module.c"), dir.join("module.so"));
    let text = format!("__attribute__((constructor)) void at_once(void) {{ {does}; }}\n");
    std::fs::write(&source, text).unwrap();
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-w", "-o"])
        .arg(&module)
        .arg(&source)
        .output();
    match built {
        Ok(built) if built.status.success() => Some(module),
        other => {
            eprintln!("skipped: no module can be built: {other:?}");
            None
        }
    }
}

#[test]
fn a_module_that_crashes_or_hangs_is_an_error() {
    for (does, time_max, said) in [
        ("__builtin_trap()", Duration::from_secs(60), "crashed"),
        (
            "for (;;) pause()",
            Duration::from_millis(200),
            "did not answer",
        ),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let Some(module) = broken_module(dir.path(), does) else {
            return;
        };
        let modules = TokenModules {
            time_max,
            ..listed(dir.path(), &[&module])
        };
        let failed = token_material(&modules, &hex_uri(&module), MaterialFormat::Hex, pin(PIN));
        let failed = failed.expect_err(does).to_string();
        assert!(failed.contains(said), "{failed}");
    }
}

fn hex_uri(module: &Path) -> TokenUri {
    let text = format!("hex,pkcs11:object=k?module-path={}", module.display());
    let source: KeySource = text.parse().unwrap();
    match source.location() {
        Location::Token(uri) => uri.clone(),
        other => panic!("{other:?}"),
    }
}

fn open_to_others(path: &PathBuf) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666)).unwrap();
}

#[test]
fn a_token_keeps_digits_and_passphrases() {
    with_token("a_token_keeps_digits_and_passphrases", |_| {
        let digits = "0f".repeat(32);
        store(&[
            ("digits", digits.as_bytes()),
            ("words", b"correct horse battery staple"),
            ("short", b"1234"),
            ("twice", b"correct horse battery staple"),
            ("twice", b"correct horse battery staple"),
        ]);
        let Ok(KeyMaterial::Key(key)) = material("object=digits", MaterialFormat::Hex) else {
            panic!("no key");
        };
        assert_eq!(key.expose(), &[0x0f; 32]);
        let Ok(KeyMaterial::Passphrase(words)) =
            material("object=words", MaterialFormat::Passphrase)
        else {
            panic!("no passphrase");
        };
        assert_eq!(words.expose(), b"correct horse battery staple");
        for (object, format, reason) in [
            (
                "words",
                MaterialFormat::Hex,
                "the token '' holds 28 characters",
            ),
            ("short", MaterialFormat::Passphrase, "too short"),
            (
                "twice",
                MaterialFormat::Passphrase,
                "several data objects 'twice'",
            ),
            ("none", MaterialFormat::Passphrase, "no data object 'none'"),
        ] {
            let said = material(&format!("object={object}"), format)
                .expect_err(object)
                .to_string();
            assert!(said.contains(reason), "{object}: {said}");
            assert!(!said.contains("horse"), "{said}");
        }
    });
}

/// Puts data objects into the token.
fn store(objects: &[(&str, &[u8])]) {
    let module = Pkcs11::new(MODULE).unwrap();
    let arguments = CInitializeArgs::new(CInitializeFlags::OS_LOCKING_OK);
    module.initialize(arguments).unwrap();
    let slot = module.get_slots_with_initialized_token().unwrap()[0];
    let session = module.open_rw_session(slot).unwrap();
    session
        .login(UserType::User, Some(&AuthPin::new(PIN.into())))
        .unwrap();
    for (label, value) in objects {
        let template = [
            Attribute::Class(ObjectClass::DATA),
            Attribute::Token(true),
            Attribute::Private(true),
            Attribute::Label(label.as_bytes().to_vec()),
            Attribute::Value(value.to_vec()),
        ];
        session.create_object(&template).unwrap();
    }
    drop(session);
    module.clone().finalize().unwrap();
    // Not unloaded: what it started ends with the process.
    std::mem::forget(module);
}
