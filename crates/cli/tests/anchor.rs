//! An anchor tells a pool or dataset that was put back.

mod common;

use std::fs;

use common::*;

/// Does something to the dataset, and makes it durable.
fn write(place: &Place, name: &str) {
    fs::write(place.path("home").join(name), name).unwrap();
    place.ok("unmount tank/home");
    place.ok("mount tank/home");
}

/// Prints the anchors of the pool, which change whenever something is written.
fn keep(place: &Place) -> String {
    let text = place.ok("anchor tank");
    fs::write(place.path("anchor"), &text).unwrap();
    text
}

fn verify(place: &Place) -> Done {
    place.run(&["anchor", "verify", &place.arg("anchor")])
}

#[test]
fn what_was_put_back_is_told_from_what_went_on() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let (pool, old) = (place.path("tank.pool"), place.path("old.pool"));
    place.ok("keygen {DIR}/key");
    place.ok(&format!(
        "pool create -s 32M -m none tank {}",
        pool.display()
    ));
    place.ok("create -o encryption=on -o keysource=raw,file://{DIR}/key -o mountpoint={DIR}/home tank/home");
    write(&place, "one");
    let text = keep(&place);
    assert_eq!(text.lines().count(), 2, "{text}");
    place.ok("pool export tank");
    fs::copy(&pool, &old).unwrap();

    let import = format!("pool import -l -d {} tank", pool.display());
    place.ok(&import);
    let done = verify(&place);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(
        done.out.contains("later") || done.out.contains("same"),
        "{done:?}"
    );
    write(&place, "two");
    let done = verify(&place);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(
        done.out
            .lines()
            .any(|l| l.starts_with("tank/home") && l.contains("later") && l.ends_with("yes")),
        "{done:?}"
    );

    // Without the key there is no proof of the state.
    keep(&place);
    place.ok("key unload -f tank/home");
    let done = verify(&place);
    assert!(
        done.out
            .lines()
            .any(|l| l.starts_with("tank/home") && l.ends_with("no")),
        "{done:?}"
    );

    // Someone puts the pool back.
    place.ok("pool export tank");
    fs::copy(&old, &pool).unwrap();
    place.ok(&import);
    let done = verify(&place);
    assert_eq!(done.code, DAMAGED, "{done:?}");
    has(&done.out, "rolled-back");

    // It goes on from there, and comes to the same count with something else.
    for _ in 0..20 {
        write(&place, "other");
    }
    place.ok("destroy -f tank/home");
    let done = verify(&place);
    assert_eq!(done.code, DAMAGED, "{done:?}");
    has(&done.out, "missing");
    place.ok("pool export tank");
    assert_eq!(verify(&place).code, NOT_FOUND);
}

#[test]
fn what_is_no_anchor_is_refused() {
    let place = Place::new();
    for text in [
        "",
        "\n\n",
        "tank 1 2 3",
        "strongroom-anchor-1 pool=1 check=0 name=x",
    ] {
        fs::write(place.path("anchor"), text).unwrap();
        assert_eq!(verify(&place).code, USAGE, "{text}");
    }
    let missing = format!("anchor verify {}", place.arg("nothing"));
    assert_eq!(place.run(&words(&missing)).code, NOT_FOUND);
    assert_eq!(place.run(&["anchor", "nosuch"]).code, NOT_FOUND);
}
