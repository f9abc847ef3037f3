use serde_json::json;

use super::line::quoted;
use super::*;

fn said(command: serde_json::Value) -> String {
    served(serde_json::from_value(command).unwrap()).line().0
}

#[test]
fn options_stand_in_one_order() {
    let create = |props: serde_json::Value| {
        said(
            json!({"create": {"name": "tank/my files", "props": props, "parents": true,
                               "no_mount": true, "volume": {"size": 3u64 << 30, "sparse": true}}}),
        )
    };
    let expected = "strongroom create -p -s -u -V 3G -o encryption=on \
                    -o keysource=passphrase,prompt 'tank/my files'";
    let (a, b) = (
        json!(["encryption", "on"]),
        json!(["keysource", "passphrase,prompt"]),
    );
    assert_eq!(create(json!([a, b])), expected);
    assert_eq!(create(json!([b, a])), expected);
    let device = |path: &str| json!({"devices": [path], "parity": 0});
    let devices = json!({"groups": [{"devices": ["/a", "/b"], "parity": 0}, {"devices": ["/c", "/d", "/e"],
        "parity": 1}], "logs": [device("/l")], "caches": ["/k"], "spares": ["/s"]});
    assert_eq!(
        said(
            json!({"pool-create": {"pool": "tank", "devices": devices, "size": 100, "force": true,
                    "props": [["mountpoint", "none"]], "no_mount": false}})
        ),
        "strongroom pool create -f -s 100 -m none tank mirror /a /b raidz1 /c /d /e log /l cache /k spare /s"
    );
    assert_eq!(
        said(
            json!({"change-permissions": {"name": "tank", "remove": false, "who": ["staff"],
            "kind": "group", "permissions": ["create", "mount"], "local": false, "below": true}})
        ),
        "strongroom allow -d -g staff create,mount tank"
    );
}

#[test]
fn no_secret_is_told() {
    let change = json!({"key-change": {"name": "tank/a", "keysource": "hunter2", "slot": null,
                                       "only": false, "inherit": false}});
    assert_eq!(
        said(change),
        "strongroom key change -o keysource=... tank/a"
    );
    let restore =
        json!({"key-restore": {"name": "tank/a", "backup": "00112233", "keysource": null}});
    assert_eq!(said(restore), "strongroom key restore tank/a ...");
    let load = json!({"key-load": {"names": ["a"], "recursive": false, "location": "hunter2",
                                   "keysource": null, "dry_run": false}});
    assert_eq!(said(load), "strongroom key load -L ... a");
}

#[test]
fn no_line_can_be_two() {
    let set = |value: &str| {
        said(
            json!({"set": {"names": ["tank"], "props": [["org.example:note", value]], "force": false}}),
        )
    };
    assert_eq!(
        set("x\nstrongroom destroy tank"),
        r"strongroom set $'org.example:note=x\nstrongroom destroy tank' tank"
    );
    assert_eq!(
        set("it's"),
        r"strongroom set 'org.example:note=it'\''s' tank"
    );
    assert!(!set("\u{202e}x").contains('\u{202e}'));
}

#[test]
fn words_are_quoted_where_a_shell_would_need_it() {
    for (word, expected) in [
        ("tank/home@monday", "tank/home@monday"),
        ("-o", "-o"),
        (
            "keysource=raw,file:///etc/keys/a%20b",
            "keysource=raw,file:///etc/keys/a%20b",
        ),
        ("", "''"),
        ("two words", "'two words'"),
        ("it's", r"'it'\''s'"),
        ("$HOME", "'$HOME'"),
        ("~/key", "'~/key'"),
        ("größe", "größe"),
        ("a\nb'c\\", r"$'a\nb\'c\\'"),
    ] {
        assert_eq!(quoted(word), expected, "{word:?}");
    }
}
