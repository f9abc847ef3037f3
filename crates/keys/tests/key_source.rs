//! The property `keysource`: what it accepts, what it refuses and why.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use keys::{Error, KeySource, Location, MaterialFormat};

fn file(path: &str) -> Location {
    Location::File(path.into())
}

#[test]
fn accepts_and_writes_back() {
    #[rustfmt::skip]
    let sources = [
        ("passphrase,prompt", MaterialFormat::Passphrase, Location::Prompt),
        ("hex,prompt", MaterialFormat::Hex, Location::Prompt),
        ("raw,file:///etc/keys/k", MaterialFormat::Raw, file("/etc/keys/k")),
        ("hex,file:///k", MaterialFormat::Hex, file("/k")),
        ("passphrase,file:///a,b/c:d", MaterialFormat::Passphrase, file("/a,b/c:d")),
        ("raw,file:///a%20b/100%25", MaterialFormat::Raw, file("/a b/100%")),
        ("raw,file:///%3F%23%0A", MaterialFormat::Raw, file("/?#\n")),
        ("raw,file:///caf%C3%A9", MaterialFormat::Raw, file("/café")),
    ];
    for (text, format, location) in sources {
        let source: KeySource = text.parse().expect(text);
        assert_eq!(source.format(), format);
        assert_eq!(source.location(), &location);
        assert_eq!(source.to_string(), text);
    }
    assert_eq!(KeySource::default().to_string(), "passphrase,prompt");
}

#[test]
fn other_spellings_of_a_path_are_accepted() {
    #[rustfmt::skip]
    let rows = [
        ("raw,file:///a%2fb", "raw,file:///a/b"),
        ("raw,file:///%41", "raw,file:///A"),
        ("raw,file:///café", "raw,file:///caf%C3%A9"),
        ("raw,file:///a b", "raw,file:///a%20b"),
        ("raw,tpm2:#pin=no&bank=sha256&pcrs=11+7+7", "raw,tpm2:#pcrs=7+11"),
    ];
    for (text, written) in rows {
        let source: KeySource = text.parse().expect(text);
        assert_eq!(source.to_string(), written);
        assert_eq!(written.parse::<KeySource>().expect(written), source);
    }
}

#[test]
fn servers_and_programs_are_written_back() {
    for text in [
        "raw,https://keys.example.org/tank",
        "hex,https://127.0.0.1:8443/a?version=2",
        "passphrase,https://host/key#ca=/etc/keys/our%20ca.pem",
        "raw,exec:///usr/local/libexec/keys",
        "raw,exec:///keys?slot=3",
        "hex,unix:///run/keys.sock?a/b",
        "raw,pkcs11:token=my%20pool;object=k;type=secret-key?module-path=/m&pin-source=file:/p",
        "hex,pkcs11:serial=0a;id=%00%ff?module-path=/m",
        "raw,tang:http://127.0.0.1:7500#thp=BgHn8ksdVZgDA5vYkZeAAm3IDDyFyVdN1KVvkbjP6JU",
        "raw,tang:https://tang.example.org/a#thp=BgHn8ksdVZgDA5vYkZeAAm3IDDyFyVdN1KVvkbjP6JU",
        "raw,tpm2:",
        "raw,tpm2:#pin=yes",
        "raw,tpm2:/dev/tpmrm1#pcrs=0+7+23&bank=sha384&pin=yes",
        "raw,tpm2:/dev/tpm0#pcrs=11",
        "raw,sss:1|file:///a%7Cb|tpm2:#pin=yes",
        "raw,sss:2|tang:http://h#thp=BgHn8ksdVZgDA5vYkZeAAm3IDDyFyVdN1KVvkbjP6JU|tpm2:|exec:///k?a|unix:///s",
    ] {
        let source: KeySource = text.parse().expect(text);
        assert_eq!(source.to_string(), text);
    }
}

#[test]
fn every_byte_of_a_path_survives() {
    let bytes: Vec<u8> = [b'/'].into_iter().chain(1..=255).collect();
    let path = Path::new(OsStr::from_bytes(&bytes)).to_owned();
    let source = KeySource::new(MaterialFormat::Raw, Location::File(path)).expect("absolute");
    let text = source.to_string();
    assert!(text.is_ascii());
    assert_eq!(text.parse::<KeySource>().expect("written"), source);
}

#[test]
fn refuses_with_a_reason() {
    #[rustfmt::skip]
    let refused = [
        ("", "FORMAT,LOCATION"),
        ("passphrase", "FORMAT,LOCATION"),
        ("prompt", "FORMAT,LOCATION"),
        ("Passphrase,prompt", "one of raw, hex and passphrase"),
        ("aes,prompt", "one of raw, hex and passphrase"),
        ("passphrase,", "prompt or a file URL"),
        ("passphrase,Prompt", "prompt or a file URL"),
        ("passphrase,/etc/keys/k", "prompt or a file URL"),
        ("passphrase,ftp://host/k", "prompt or a file URL"),
        ("raw,prompt", "cannot be typed; use hex,prompt"),
        ("raw,file:/etc/keys/k", "write three slashes: file:///etc/keys/k"),
        ("raw,file:etc/keys/k", "must be absolute"),
        ("raw,file://", "must be absolute"),
        ("raw,file://etc", "must be absolute"),
        ("raw,file:", "must be absolute"),
        ("raw,file://host/etc/k", "leave out the host: file:///etc/k"),
        ("raw,file://localhost/etc/k", "leave out the host: file:///etc/k"),
        ("raw,file:///a%", "write % itself as %25"),
        ("raw,file:///a%2", "write % itself as %25"),
        ("raw,file:///a%zz", "write % itself as %25"),
        ("raw,file:///a%+1", "write % itself as %25"),
        ("raw,file:///a%00", "zero byte"),
        ("raw,file:///a?b", "%3F"),
        ("raw,file:///a#b", "%23"),
        ("raw,https:host/key", "https://HOST/PATH"),
        ("raw,https:///key", "https://HOST/PATH"),
        ("raw,https://me:pw@host/key", "leave them out"),
        ("raw,https://host/a key", "as %XX"),
        ("raw,https://host/key#k", "#ca=/etc/keys/ca.pem"),
        ("raw,https://host/key#ca=k", "#ca=/etc/keys/ca.pem"),
        ("raw,exec:program", "must be absolute"),
        ("raw,exec://host/program", "leave out the host: exec:///program"),
        ("raw,exec:///program?a b", "without spaces"),
        ("raw,unix:/run/s", "write three slashes: unix:///run/s"),
        ("raw,pkcs11:token=t?module-path=/m", "names an object"),
        ("raw,pkcs11:object=k", "names the module"),
        ("raw,pkcs11:object=k?module-path=m", "names the module"),
        ("raw,pkcs11:object=k?module-path=/m&pin-value=1234", "pin-source"),
        ("raw,pkcs11:object=k?module-path=/m&pin-source=file:pin", "from the root"),
        ("raw,pkcs11:object=k?module-path=/m&pin-source=|cat", "from the root"),
        ("raw,pkcs11:object=k;x-y=z?module-path=/m", "module-path and pin-source only"),
        ("raw,pkcs11:object=a b?module-path=/m", "as %XX"),
        ("raw,pkcs11:object=%4?module-path=/m", "two hexadecimal digits"),
        ("raw,http://host/key", "everyone"),
        ("raw,tang:host", "tang:http://HOST:PORT"),
        ("raw,tang:file:///etc/shadow", "tang:http://HOST:PORT"),
        ("raw,tang:http://u@host#thp=A", "tang:http://HOST:PORT"),
        ("raw,tang:http://host", "tang-show-keys"),
        ("raw,tang:http://host#A", "tang-show-keys"),
        ("raw,tang:http://host#thp=A", "43 letters"),
        ("hex,sss:1|tpm2:|file:///k", "raw,sss"),
        ("raw,sss:", "2 to 16 parts"),
        ("raw,sss:tpm2:|file:///k", "2 to 16 parts"),
        ("raw,sss:0|tpm2:|file:///k", "2 to 16 parts"),
        ("raw,sss:1|tpm2:", "2 to 16 parts"),
        ("raw,sss:3|tpm2:|file:///k", "fewer parts"),
        ("raw,sss:2|tpm2:|file:///k|tpm2:", "a part twice"),
        ("raw,sss:2|tpm2:#pin=yes|tpm2:#pcrs=7&pin=yes", "one TPM with a PIN"),
        ("raw,sss:1|tpm2:|prompt", "neither a prompt nor a token"),
        ("raw,sss:1|tpm2:|pkcs11:object=k?module-path=/m", "neither a prompt nor a token"),
        ("raw,sss:1|tpm2:|sss:1|tpm2:|tpm2:", "2 to 16 parts"),
        ("raw,sss:1|tpm2:|k", "prompt or a file URL"),
        ("hex,tpm2:", "raw,tpm2"),
        ("raw,tpm2:/dev/sda", "tpm2:/dev/tpmrm0"),
        ("raw,tpm2:/dev/tpmrm0/../sda", "tpm2:/dev/tpmrm0"),
        ("raw,tpm2:/dev/tpmrm", "tpm2:/dev/tpmrm0"),
        ("raw,tpm2:#pcrs=24", "from 0 to 23"),
        ("raw,tpm2:#pcrs=+7", "from 0 to 23"),
        ("raw,tpm2:#pcrs", "from 0 to 23"),
        ("raw,tpm2:#pcrs=7&bank=md5", "sha512"),
        ("raw,tpm2:#bank=sha256", "pcrs="),
        ("raw,tpm2:#pin=0451", "never stands in a property"),
        ("raw,tpm2:#pin=yes&pin=yes", "once"),
        ("raw,tpm2:#pcr=7", "pcrs, bank and pin only"),
        ("hex,tang:http://host#thp=BgHn8ksdVZgDA5vYkZeAAm3IDDyFyVdN1KVvkbjP6JU", "raw,tang"),
    ];
    for (text, reason) in refused {
        let error = text.parse::<KeySource>().expect_err(text);
        assert!(matches!(error, Error::KeySource(_)), "{text}");
        let message = error.to_string();
        assert!(message.contains(reason), "{text}: {message}");
    }
    let relative = KeySource::new(MaterialFormat::Raw, file("keys/k"));
    assert!(matches!(relative, Err(Error::KeySource(_))));
}

/// The passphrase is typed in the place of its location.
#[test]
fn a_passphrase_in_the_wrong_place_is_not_repeated() {
    for text in [
        "passphrase,hunter2",
        "hunter2,prompt",
        "hunter2",
        "raw,hunter2:x",
    ] {
        let error = text.parse::<KeySource>().expect_err(text);
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{text}");
    }
}
