//! Tests of permissions.

use super::*;

fn peer(uid: u32, groups: &[u32]) -> Peer {
    Peer {
        uid,
        gid: uid,
        groups: groups.to_vec(),
        is_admin: false,
        token: None,
        who: "someone".into(),
    }
}

#[test]
fn what_is_allowed_is_written_and_read_back() {
    let text = "u7 l create,mount\nu7 d mount\ng50 d snapshot\ne l hold";
    let grants = Grants::parse(text);
    assert_eq!(Grants::parse(&grants.to_text()), grants);
    let here = lineage(&[text]);
    let below = lineage(&["", text]);
    assert!(here.allows(&peer(7, &[]), "create"));
    assert!(!below.allows(&peer(7, &[]), "create"));
    assert!(below.allows(&peer(7, &[]), "mount"));
    assert!(below.allows(&peer(8, &[50]), "snapshot"));
    assert!(!below.allows(&peer(8, &[]), "snapshot"));
    assert!(here.allows(&peer(8, &[]), "hold"));
    assert!(grants.concerns(&peer(8, &[])));
}

/// The lineage of a dataset, from these texts.
fn lineage(texts: &[&str]) -> GrantChain {
    GrantChain {
        grants: texts.iter().map(|text| Grants::parse(text)).collect(),
        guids: Vec::new(),
    }
}

#[test]
fn sets_hold_where_they_are_used_and_above() {
    let ann = peer(7, &[]);
    let all = lineage(&[
        "",
        "u7 d @ops",
        "@ops l mount,@more\n@more l key,@ops,@none",
    ]);
    for permission in ["mount", "key"] {
        assert!(all.allows(&ann, permission), "{permission}");
    }
    assert!(!all.allows(&ann, "create") && !all.allows(&peer(8, &[]), "mount"));
    // A user who may define sets below gets no more permissions by it.
    let below = lineage(&["@ops l destroy", "u7 d @ops", "@ops l mount"]);
    assert!(!below.allows(&ann, "destroy") && below.allows(&ann, "mount"));
    // Without a definition it is nothing, and it allows nothing by itself.
    assert!(!lineage(&["u7 l @ops"]).allows(&ann, "mount"));
    assert!(!lineage(&["@ops l mount\nc l mount"]).allows_something(&ann));
    let text = "c l create\n@ops l mount";
    assert_eq!(Grants::parse(text).to_text(), text);
}

#[test]
fn who_makes_a_dataset_is_allowed_what_those_above_say() {
    let all = lineage(&["c l destroy\nu7 l create", "c l mount,@ops"]);
    let names: Vec<String> = all.for_creator().into_iter().collect();
    assert_eq!(names, ["@ops", "destroy", "mount"]);
}

/// A user who can write to a device can write anything there.
#[test]
fn what_is_not_understood_allows_nothing() {
    for text in [
        "",
        "u l create",
        "u7",
        "u7 l",
        "u7 x create",
        "u7 l create mount",
        "u-1 l create",
        "u4294967303 l create",
        "x7 l create",
        "everyone l create",
        "\u{e9}7 l create",
        "@ l create",
        "@a/b l create",
        "c7 l create",
    ] {
        assert!(
            !lineage(&[text]).allows(&peer(7, &[]), "create"),
            "{text:?}"
        );
        assert!(lineage(&[text]).for_creator().is_empty(), "{text:?}");
    }
}

#[test]
fn permissions_are_known() {
    for known in ["key", "keychange", "compression", "mountpoint", "@set"] {
        check_known(known).unwrap();
    }
    for unknown in ["", "used", "@", "@a b", "anything"] {
        assert!(check_known(unknown).is_err(), "{unknown}");
    }
}
