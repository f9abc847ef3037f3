//! Keys from elsewhere: the example of a program that has keys, and servers and programs that have none.

mod common;

use std::fs;

use common::*;

/// Where the example is, which nobody else can change, copied to where that is so.
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
    let place = Place::new();
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
    assert!(said.contains("it says: "), "{said}");
    assert!(said.contains(&place.arg("b")), "{said}");
    place.ok(&format!("keygen --format hex {}", place.arg("b")));
    place.fails("key load tank/a", WRONG_KEY);
    fs::rename(place.path("away"), place.path("b")).unwrap();
    place.ok("key load tank/a");
}

#[test]
fn what_gives_no_key_changes_nothing() {
    let place = Place::new();
    place.pool("tank");
    for (source, reason) in [
        (
            "raw,https://127.0.0.1:1/k",
            "key server https://127.0.0.1:1/k: ",
        ),
        (
            "raw,exec:///nowhere/program",
            "key provider /nowhere/program: ",
        ),
        (
            "raw,unix:///nowhere/socket",
            "key provider /nowhere/socket: ",
        ),
    ] {
        let create = format!("create -u -o encryption=on -o keysource={source} tank/a");
        let said = place.fails(&create, NO_KEY);
        assert!(said.contains("the key of 'tank/a': the "), "{said}");
        assert!(said.contains(reason), "{said}");
        place.fails("list tank/a", NOT_FOUND);
    }
    place.fails(
        "create -u -o encryption=on -o keysource=raw,http://h/k tank/a",
        USAGE,
    );
}
